"""Values inside of variants in a query: `variant_get` of a table's column becomes a column that its scan delivers.

DuckDB gets the typed values and never the bytes of variants; a scan of a shredded column reads only the paths.
"""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from skerry.errors import UnsupportedError
from skerry.planner.tables import TableUse, stored_column
from skerry.variant import is_variant

__all__ = ["VariantValues"]

_FUNCTIONS: Final = ("variant_get", "try_variant_get")
_ARGUMENTS: Final = 3
_DIALECT: Final = "duckdb"


class VariantValues:
    """The calls of `variant_get` on columns of tables, and fields of their structs, that were found in a query.

    They stay in the tree until `replace`, so that conditions on them are pushed to scans as they are written.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, str]] = {}
        self._names: dict[tuple[str, str], str] = {}

    def take(self, column: Any, use: TableUse) -> bool:
        """Note the call that a column is the argument of.

        Args:
            column: The column, in the tree of the query.
            use: Its table.

        Returns:
            Whether there is such a call, so that the column itself is not needed.
        """
        value, bare, type_ = stored_column(column, use.schema)
        call = value.parent
        if not isinstance(call, exp.Anonymous) or call.name.lower() not in _FUNCTIONS:
            return False
        first, *others = call.expressions
        if first is not value or len(others) != _ARGUMENTS - 1 or not all(map(_is_text, others)):
            return False
        if type_ is None or not is_variant(type_):
            return False
        text = exp.Anonymous(this="variant_get", expressions=[bare, *(part.copy() for part in others)]).sql(_DIALECT)
        name = f"{use.key}_value_{len(self._names)}"
        while name in use.schema.names:
            name += "_"
        self._found[id(call)] = (call, self._names.setdefault((use.key, text), name))
        return True

    def columns_of(self, use: TableUse) -> list[str]:
        """What a table's scan delivers for the calls, as `columns` of `Table.scan`."""
        return [f"{text} AS {name}" for (key, text), name in self._names.items() if key == use.key]

    def replace(self, tree: Any) -> dict[str, Any]:
        """Put columns in the place of the calls.

        Args:
            tree: The query, which is changed.

        Returns:
            A call by the name of its column, for people.

        Raises:
            UnsupportedError: There are other calls, such as of a column of a subquery.
        """
        for call, name in self._found.values():
            table = call.expressions[0].find(exp.Column).args["table"]
            call.replace(exp.column(exp.to_identifier(name), table.copy()))
        for call in tree.find_all(exp.Anonymous):
            if call.name.lower() in _FUNCTIONS:
                text = call.sql(dialect=_DIALECT)
                raise UnsupportedError(
                    f"{text}: variant_get takes a column of variants of a table, and a path and a type in quotes; "
                    "of a subquery or a view, select the value inside of it"
                )
        return {name: call for call, name in self._found.values()}


def _is_text(node: Any) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)
