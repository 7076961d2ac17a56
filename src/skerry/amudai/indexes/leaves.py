"""The leaves of columns, with the rows that their values are in: what indexes are made of.

Spec: docs/formats/amudai-indexes.md § 3.2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.shard.schema import BasicType, DataType, Field, Schema
from skerry.amudai.values.shredding import NodeColumn, shred_column
from skerry.errors import NotFoundError

__all__ = ["Leaf", "find_leaf", "leaf_nodes", "leaf_type", "leaves_of_column"]

ITEM = "item"
"""The part of a path that leads from a list to its items."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """The values of a node that has no nodes below it.

    Args:
        path: Names of the node and those above it, joined by dots; `item` for items of lists.
        column: The values.
        rows: int64[positions], the row of each value, ascending.
        present: bool[positions], false for values that are null because what they are in is null; None if there are
            none of these.
    """

    path: str
    column: NodeColumn
    rows: npt.NDArray[np.int64]
    present: npt.NDArray[np.bool_] | None = None


def leaf_nodes(field: Field) -> Iterator[tuple[str, DataType]]:
    """The leaves below a column, with their paths. There are none in maps and unions."""
    yield from _nodes(field.name, field.data_type)


def _nodes(path: str, node: DataType) -> Iterator[tuple[str, DataType]]:
    basic = node.basic_type
    if basic in (BasicType.MAP, BasicType.UNION):
        return
    if basic is BasicType.STRUCT:
        for child in node.children:
            yield from _nodes(f"{path}.{child.name}", child)
    elif basic in (BasicType.LIST, BasicType.FIXED_SIZE_LIST):
        yield from _nodes(f"{path}.{ITEM}", node.children[0])
    else:
        yield path, node


def find_leaf(schema: Schema, path: str) -> DataType:
    """The node of a leaf.

    Raises:
        NotFoundError: There is no such leaf.
    """
    known = {found: node for field in schema.fields for found, node in leaf_nodes(field)}
    if path in known:
        return known[path]
    near = difflib.get_close_matches(path, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join([*known][:20]) or 'none'}"
    raise NotFoundError(f"no values at {path!r}: {hint}")


def leaf_type(schema: pa.Schema, path: str) -> pa.DataType:
    """The Arrow type of a leaf that `find_leaf` finds in the shard of these columns."""

    def walk(at: str, kind: pa.DataType) -> Iterator[pa.DataType]:
        if at == path:
            yield kind
        elif pa.types.is_struct(kind):
            for child in kind:
                yield from walk(f"{at}.{child.name}", child.type)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            yield from walk(f"{at}.{ITEM}", kind.value_type)

    return next(kind for field in schema for kind in walk(field.name, field.type))


def leaves_of_column(field: Field, array: pa.Array, first_row: int) -> Iterator[Leaf]:
    """Take a column apart into its leaves.

    Args:
        field: The column's field in the shard's schema.
        array: Its values, in the Arrow type that the schema was made from.
        first_row: The row of the first value.

    Yields:
        The leaves that `leaf_nodes` names, in that order.

    Raises:
        SchemaError: A date, timestamp or decimal cannot be stored exactly.
    """
    columns = {column.node.schema_id: column for column in shred_column(field.data_type, array)}
    rows = np.arange(first_row, first_row + len(array), dtype=np.int64)
    yield from _leaves(field.name, field.data_type, columns, rows, None)


def _leaves(
    path: str,
    node: DataType,
    columns: dict[int, NodeColumn],
    rows: npt.NDArray[np.int64],
    present: npt.NDArray[np.bool_] | None,
) -> Iterator[Leaf]:
    column = columns[node.schema_id]
    basic = node.basic_type
    if basic in (BasicType.MAP, BasicType.UNION):
        return
    if basic is BasicType.STRUCT:
        for child in node.children:
            yield from _leaves(f"{path}.{child.name}", child, columns, rows, _both(present, column.valid))
    elif basic is BasicType.LIST:
        lengths = np.diff(column.values)
        inner = None if present is None else np.repeat(present, lengths)
        yield from _leaves(f"{path}.{ITEM}", node.children[0], columns, np.repeat(rows, lengths), inner)
    elif basic is BasicType.FIXED_SIZE_LIST:
        outer = _both(present, column.valid)
        inner = None if outer is None else np.repeat(outer, node.fixed_size)
        yield from _leaves(f"{path}.{ITEM}", node.children[0], columns, np.repeat(rows, node.fixed_size), inner)
    else:
        yield Leaf(path, column, rows, present)


def _both(first: npt.NDArray[np.bool_] | None, second: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second
