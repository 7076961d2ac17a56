"""Updates of a table's schema and partitioning: steps that are collected and committed together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

import pyarrow as pa

from skerry.table.arguments import ColumnSource

__all__ = ["SchemaStep", "SchemaUpdate", "SpecStep", "SpecUpdate"]

SchemaStep: TypeAlias = Callable[[Any], None]
"""Changes the table format's draft of a schema."""
SpecStep: TypeAlias = Callable[[Any], None]
"""Changes the table format's draft of a partition spec."""

FieldType: TypeAlias = "pa.DataType | str | Any"
"""An Arrow type, the name of an Iceberg type (`long`, `decimal(10, 2)`), or PyIceberg's type."""
Path = str | Sequence[str]
"""A column's dotted name, or its parts."""

Step = TypeVar("Step")


class _Update(Generic[Step]):
    """Changes that are collected and committed together.

    Args:
        commit: Commits them.
    """

    def __init__(self, commit: Callable[[tuple[Step, ...]], object]) -> None:
        self._commit = commit
        self._steps: list[Step] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()

    def commit(self) -> None:
        """Make all changes in one commit, or none of them; called at the end of a `with` block.

        Raises:
            SchemaError: A change does not fit the current table.
        """
        self._commit(tuple(self._steps))

    def _step(self, step: Step) -> Self:
        self._steps.append(step)
        return self


class SchemaUpdate(_Update[SchemaStep]):
    """Changes of a schema, made in order by one commit. Methods return the update itself, for chaining.

    Columns are named as in the schema, fields of structs with dots (`place.zip`, `tags.element`, `scores.value.x`); a
    name that contains dots is written as a list: `["a.b"]`. After a lost race the changes are applied to the schema of
    the other writer; a change that no longer fits it is then refused.
    """

    def add_column(
        self,
        path: Path,
        field_type: FieldType,
        doc: str | None = None,
        required: bool = False,
        default_value: object = None,
    ) -> Self:
        """Add a column as the last of its struct.

        Args:
            path: Its name.
            field_type: An Arrow type, an Iceberg type's name (`long`, `decimal(10, 2)`) or PyIceberg's type.
            doc: Its description.
            required: Whether it is free of nulls; True only with a default.
            default_value: The value that existing rows get, and that writers store if they have no value
                (format version 3).
        """
        return self._step(lambda draft: draft.add(path, field_type, doc, required, default_value))

    def delete_column(self, path: Path) -> Self:
        """Remove a column. A column of the same name that is added later is another column."""
        return self._step(lambda draft: draft.delete(path))

    def rename_column(self, path: Path, new_name: str) -> Self:
        """Rename a column within its struct; its values and statistics are kept."""
        return self._step(lambda draft: draft.rename(path, new_name))

    def update_column(
        self,
        path: Path,
        field_type: FieldType | None = None,
        required: bool | None = None,
        doc: str | None = None,
    ) -> Self:
        """Promote a column's type (int to long, float to double, more decimal digits), describe it, make it optional.

        Args:
            path: The column.
            field_type: Its new type.
            required: Whether it is free of nulls; True only with `allow_incompatible_changes`.
            doc: Its description.
        """
        return self._step(lambda draft: draft.update(path, field_type, required, doc))

    def make_column_optional(self, path: Path) -> Self:
        """Allow nulls in a column."""
        return self._step(lambda draft: draft.update(path, None, False, None))

    def set_default_value(self, path: Path, default_value: object) -> Self:
        """Set the value that writers store if they have none (format version 3); existing rows do not change."""
        return self._step(lambda draft: draft.set_default(path, default_value))

    def move_first(self, path: Path) -> Self:
        """Move a column to the front of its struct."""
        return self._step(lambda draft: draft.move(path, lambda others, field: 0))

    def move_before(self, path: Path, before_path: Path) -> Self:
        """Move a column before another one of its struct."""
        return self._step(lambda draft: draft.move(path, draft.position_of(path, before_path)))

    def move_after(self, path: Path, after_name: Path) -> Self:
        """Move a column after another one of its struct."""
        return self._step(lambda draft: draft.move(path, draft.position_of(path, after_name, offset=1)))

    def set_identifier_fields(self, *fields: Path) -> Self:
        """Set the columns that identify a row, or none. They must be required."""
        return self._step(lambda draft: draft.identify(fields))

    def union_by_name(self, schema: ColumnSource) -> Self:
        """Add the missing columns of another schema, at every level, and widen types where the other is wider.

        Args:
            schema: An Arrow schema, or data that has one.
        """
        arrow = schema if isinstance(schema, pa.Schema) else pa.schema(schema)
        return self._step(lambda draft: draft.unite(arrow))


class SpecUpdate(_Update[SpecStep]):
    """Changes of a partition spec, made in order by one commit. Methods return the update itself."""

    def add_field(self, field: str) -> Self:
        """Partition by one more transform: `day(ts)`, `bucket(16, id) as shard`, as `create_table` takes them."""
        return self._step(lambda draft: draft.add(field))

    def remove_field(self, name: str) -> Self:
        """Remove a partition field, by its own name (`ts_day`)."""
        return self._step(lambda draft: draft.remove(name))

    def rename_field(self, name: str, new_name: str) -> Self:
        """Rename a partition field."""
        return self._step(lambda draft: draft.rename(name, new_name))
