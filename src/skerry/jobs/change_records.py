"""Change records: rows with an op code, and the net change per key that they amount to.

A record has an op code, a row, and optionally a position in the order of its source. The row is the one after the
change, or for a delete the one before or just its key. Sources repeat records after failures, and batches end anywhere,
so that only the *net change* counts: per key the last record by order, regardless of its position in the batch.
Applying it is idempotent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError
from skerry.kernels import kernel
from skerry.table.rows.incoming import conform
from skerry.table.rows.keys import KeyIndex
from skerry.table.rows.schema import nearest

__all__ = [
    "DELETE",
    "INSERT",
    "OP_KINDS",
    "UPDATE_AFTER",
    "UPDATE_BEFORE",
    "NetChanges",
    "RecordColumns",
    "net_changes",
]

Kinds: TypeAlias = npt.NDArray[np.int8]
RowNumbers: TypeAlias = npt.NDArray[np.int64]

INSERT: Final = 0
UPDATE_BEFORE: Final = 1
UPDATE_AFTER: Final = 2
DELETE: Final = 3

OP_KINDS: Final[Mapping[str, int]] = {
    "c": INSERT,
    "r": INSERT,
    "u": UPDATE_AFTER,
    "d": DELETE,
    "I": INSERT,
    "U": UPDATE_AFTER,
    "D": DELETE,
    "+I": INSERT,
    "-U": UPDATE_BEFORE,
    "+U": UPDATE_AFTER,
    "-D": DELETE,
}
"""The meaning of op codes: Debezium's (create, snapshot read, update, delete), Flink's, Paimon's, and plain ones."""


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The roles of the columns of change records.

    Args:
        on: The key columns.
        op: The column of op codes; see `OP_KINDS`.
        order_by: Columns that order the records of a key, the first that differs decides: a log position, an offset.
            Among equal records the later one counts; a -U precedes other records of the same position. If empty, the
            given order of the records counts.
        before: A struct with the row before the change, or its key; if that key differs from the row's, the old key is
            deleted. It may be missing or null.
    """

    on: tuple[str, ...]
    op: str = "op"
    order_by: tuple[str, ...] = ()
    before: str = "before"


@dataclass(frozen=True)
class NetChanges:
    """The net change of change records.

    Args:
        rows: A row per key, in the order of the records that count, with those of the table's columns that the records
            have; if a key is deleted, its other columns are those of the old row if known, else null.
        kinds: int8[rows], `INSERT` or `UPDATE_AFTER` where the key has this row, `DELETE` where it has none.
        records: How many records there were.
    """

    rows: pa.Table
    kinds: Kinds
    records: int

    @property
    def is_gone(self) -> npt.NDArray[np.bool_]:
        """bool[rows]: whether the key is deleted."""
        return self.kinds == DELETE

    @property
    def deletes(self) -> int:
        """The number of deleted keys."""
        return int(np.count_nonzero(self.is_gone))

    @property
    def upserts(self) -> int:
        """The number of inserted or updated keys."""
        return len(self.kinds) - self.deletes


def net_changes(records: pa.Table, columns: RecordColumns, schema: pa.Schema) -> NetChanges:
    """Compute the net change per key.

    Args:
        records: Columns of the table, and those that `columns` names.
        columns: The roles of the columns.
        schema: The table's columns.

    Raises:
        SchemaError: Columns are missing, unknown or of other types; an op code is unknown; a part of a key or of the
            order is null. The message gives the number of the record, from 0.
    """
    _check_columns(records, columns, schema)
    kinds = _kinds(records.column(columns.op), columns.op)
    shared = [field.with_nullable(True) for field in schema if field.name in records.column_names]
    rows = conform(records.select([field.name for field in shared]), pa.schema(shared)).read_all()
    before = _before(records, columns, rows)
    keys = [rows.column(name) for name in columns.on]
    moved = np.empty(0, np.int64)
    if before is not None:
        keys = _with_keys_before(keys, before, columns, kinds == DELETE)
        rows = _replaced(rows, columns.on, keys)
        moved = _moved(keys, [before.column(name) for name in columns.on], kinds == UPDATE_AFTER)
    if len(moved):
        rows = pa.concat_tables([rows, _gone(rows, before, records, columns, moved)])
        kinds = np.concatenate([kinds, np.full(len(moved), UPDATE_BEFORE, np.int8)])
        keys = [rows.column(name) for name in columns.on]
    positions = np.concatenate([np.arange(records.num_rows), moved])
    index = KeyIndex.of(keys)
    _refuse_null_keys(index, keys, columns.on, positions)
    order = _order(records, columns, kinds, positions)
    latest = np.full(len(positions), -1, np.int64)
    latest_rows(index.first, order, latest)
    chosen = latest[latest >= 0]
    chosen = chosen[np.argsort(positions[chosen], kind="stable")]
    kinds = kinds[chosen]
    kinds[kinds == UPDATE_BEFORE] = DELETE
    every = len(chosen) == rows.num_rows and bool((chosen == np.arange(len(chosen))).all())
    return NetChanges(rows if every else rows.take(pa.array(chosen)), kinds, records.num_rows)


# Columns -------------------------------------------------------------------------------------------------------------


def _check_columns(records: pa.Table, columns: RecordColumns, schema: pa.Schema) -> None:
    found = records.column_names
    for name in found:
        if found.count(name) > 1:
            raise SchemaError(f"column {name!r} is in the records twice")
    if not columns.on or len(set(columns.on)) < len(columns.on):
        raise SchemaError(f"on= must name each key column once, found {list(columns.on)!r}")
    for name in columns.on:
        if name not in schema.names:
            raise SchemaError(f"the table has no column {name!r}{nearest(name, schema.names)}")
    for what, name in (
        *(("key", name) for name in columns.on),
        ("op", columns.op),
        *(("order", name) for name in columns.order_by),
    ):
        if name not in found:
            raise SchemaError(f"the records have no {what} column {name!r}{nearest(name, found)}")
    if columns.op in schema.names:
        raise SchemaError(f"op={columns.op!r} is a column of the table; op codes need a column of their own")
    known = {*schema.names, columns.op, *columns.order_by, columns.before}
    for name in found:
        if name not in known:
            raise SchemaError(f"the table has no column {name!r}{nearest(name, schema.names)}")


def _kinds(codes: pa.ChunkedArray, name: str) -> Kinds:
    """int8[records], the kind of each record."""
    if pa.types.is_dictionary(codes.type):
        codes = codes.cast(codes.type.value_type)
    if not (pa.types.is_string(codes.type) or pa.types.is_large_string(codes.type)):
        raise SchemaError(f"column {name!r} must contain op codes as strings, found {codes.type}")
    encoded = _one_array(codes).dictionary_encode(null_encoding="encode")
    meanings = np.array([OP_KINDS.get(code, -1) for code in encoded.dictionary.to_pylist()], np.int8)
    kinds = meanings[np.asarray(encoded.indices)] if len(codes) else np.empty(0, np.int8)
    unknown = np.flatnonzero(kinds < 0)
    if len(unknown):
        row = int(unknown[0])
        raise SchemaError(
            f"record {row}: column {name!r} is {codes[row].as_py()!r}, which is not an op code; expected one of "
            f"{', '.join(OP_KINDS)}"
        )
    return kinds


def _before(records: pa.Table, columns: RecordColumns, rows: pa.Table) -> pa.Table | None:
    """The table's columns before the change, in the table's types; None if the records do not have them.

    Raises:
        SchemaError: A key column is missing, or the column of that name is not a struct.
    """
    if columns.before not in records.column_names or columns.before in rows.column_names:
        return None
    struct = _one_array(records.column(columns.before))
    if pa.types.is_null(struct.type):
        return None
    if not pa.types.is_struct(struct.type):
        raise SchemaError(f"column {columns.before!r} must be a struct of the row before, found {struct.type}")
    names = [struct.type.field(index).name for index in range(struct.type.num_fields)]
    for name in columns.on:
        if name not in names:
            raise SchemaError(f"column {columns.before!r} has no key column {name!r}{nearest(name, names)}")
    members = dict(zip(names, struct.flatten(), strict=True))
    wanted = pa.schema([field for field in rows.schema if field.name in members])
    return conform(pa.table({name: members[name] for name in wanted.names}), wanted).read_all()


def _with_keys_before(
    keys: Sequence[pa.ChunkedArray], before: pa.Table, columns: RecordColumns, is_delete: npt.NDArray[np.bool_]
) -> list[pa.ChunkedArray]:
    """The keys; those of deletes from the row before if only that has them."""
    deletes = pa.chunked_array([pa.array(is_delete)])
    return [
        pc.if_else(pc.and_(deletes, key.is_null()), before.column(name), key) if key.null_count else key
        for name, key in zip(columns.on, keys, strict=True)
    ]


def _replaced(rows: pa.Table, names: Sequence[str], columns: Sequence[pa.ChunkedArray]) -> pa.Table:
    for name, column in zip(names, columns, strict=True):
        index = rows.column_names.index(name)
        rows = rows.set_column(index, rows.schema.field(index), column)
    return rows


def _moved(
    keys: Sequence[pa.ChunkedArray], old: Sequence[pa.ChunkedArray], is_update: npt.NDArray[np.bool_]
) -> RowNumbers:
    """int64[n], the updates that changed their row's key."""
    is_known = is_update.copy()
    differs = np.zeros(len(is_update), bool)
    for key, before in zip(keys, old, strict=True):
        is_known &= _mask(before.is_valid())
        differs |= _mask(pc.fill_null(pc.not_equal(_comparable(key), _comparable(before)), False))
    return np.flatnonzero(is_known & differs)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.storage_type) if isinstance(column.type, pa.BaseExtensionType) else column


def _gone(
    rows: pa.Table, before: pa.Table | None, records: pa.Table, columns: RecordColumns, moved: RowNumbers
) -> pa.Table:
    """Delete rows for the old keys of updates, with old values if known; columns of the order are the record's."""
    chosen = pa.array(moved)
    taken: dict[str, Any] = {}
    for field in rows.schema:
        if field.name in columns.order_by and field.name not in columns.on:
            taken[field.name] = rows.column(field.name).take(chosen)
        elif before is not None and field.name in before.column_names:
            taken[field.name] = before.column(field.name).take(chosen)
        else:
            taken[field.name] = pa.nulls(len(moved), field.type)
    return pa.table(taken, schema=rows.schema)


def _refuse_null_keys(
    index: KeyIndex, keys: Sequence[pa.ChunkedArray], names: Sequence[str], positions: RowNumbers
) -> None:
    missing = np.flatnonzero(index.first < 0)
    if len(missing):
        row = int(missing[0])
        name = next(name for name, key in zip(names, keys, strict=True) if not key[row].is_valid)
        raise SchemaError(f"record {int(positions[row])}: column {name!r} of the key is null")


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _mask(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    return column.to_numpy().astype(bool)


# Order ---------------------------------------------------------------------------------------------------------------


def _order(records: pa.Table, columns: RecordColumns, kinds: Kinds, positions: RowNumbers) -> npt.NDArray[np.int64]:
    """int64[rows, words]: sort keys of the rows, compared word by word.

    Raises:
        SchemaError: A value is null, or a column's type has no order.
    """
    words = [_ranks(records.column(name), name)[positions] for name in columns.order_by] or [positions]
    if len(positions) > records.num_rows or (kinds == UPDATE_BEFORE).any():
        words.append((kinds != UPDATE_BEFORE).astype(np.int64))
    return np.ascontiguousarray(np.stack(words, axis=1)).astype(np.int64, copy=False)


def _ranks(column: pa.ChunkedArray, name: str) -> npt.NDArray[np.int64]:
    """int64[records], the ranks of the values."""
    if column.null_count:
        row = int(np.flatnonzero(~_mask(column.is_valid()))[0])
        raise SchemaError(f"record {row}: column {name!r}, by which records are ordered, is null")
    type_ = column.type
    if pa.types.is_date32(type_) or pa.types.is_time32(type_):
        column = column.cast(pa.int32())
    if pa.types.is_temporal(type_) or (pa.types.is_integer(type_) and type_ != pa.uint64()):
        return np.asarray(column.cast(pa.int64()).to_numpy())
    try:
        return pc.rank(_one_array(column), sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    except pa.ArrowNotImplementedError:
        raise SchemaError(f"column {name!r} of type {type_} has no order") from None


@kernel("void(int64[::1], int64[:, ::1], out int64[::1])")
def latest_rows(first: Any, order: Any, latest: Any) -> None:
    """The last row of every key by order; among equal ones the last one given.

    Args:
        first: int64[rows], per row the first one with its key.
        order: int64[rows, words], compared word by word.
        latest: int64[rows], all -1 before; set at the first row of each key to the row that counts.
    """
    for row in range(len(first)):
        key = first[row]
        best = latest[key]
        later = 1
        if best >= 0:
            for word in range(order.shape[1]):
                if order[row, word] != order[best, word]:
                    later = 1 if order[row, word] > order[best, word] else 0
                    break
        if later == 1:
            latest[key] = row
