"""Parsing of change records in JSON to columns: Debezium's envelope around a row of the table.

All records are parsed at once, by Arrow's parser, as the table's types. Records that it rejects, or that look wrong
afterwards, are left to the caller as *doubtful*. Arrow's parser only reports that one of many records is bad; bisection
finds out which.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from skerry.jobs.change_records import DELETE, OP_KINDS, UPDATE_AFTER
from skerry.jobs.record_fields import FieldNames
from skerry.table.rows.schema import empty_batch

__all__ = ["UNAVAILABLE", "Envelope", "NewFields", "ReadTexts", "parse_texts", "reads"]

UNAVAILABLE: Final = "__debezium_unavailable_value"
"""Debezium's placeholder for a long value that PostgreSQL's log omits."""

_GONE = pa.array([op for op, kind in OP_KINDS.items() if kind == DELETE])
_UPDATED = pa.array([op for op, kind in OP_KINDS.items() if kind == UPDATE_AFTER])
_KNOWN = pa.array(list(OP_KINDS))
_BLOCK_BYTES = 4 << 20
_HALVED_ROWS = 32  # batches of at most this many records are not bisected further
_LOOKED_AT = 50  # records sampled to find out how the source writes times

RowNumbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Envelope:
    """The layout of an envelope.

    Args:
        op: The field of the op code.
        before: The field of the row before.
        order: Fields that order records, by path, with their types.
        micros: Microseconds per unit of an integer in a time column.
    """

    op: str = "op"
    before: str = "before"
    order: tuple[tuple[str, pa.DataType], ...] = ()
    micros: int = 1


@dataclass(frozen=True)
class NewFields:
    """Rows whose fields differ from those of the table.

    Args:
        names: The distinct sets of fields that were found.
        texts: JSON that contains the rows.
        path: The path of the rows in it.
    """

    names: tuple[tuple[str, ...], ...]
    texts: pa.Array
    path: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadTexts:
    """Records that were parsed.

    Args:
        rows: The table's columns: after the change, of deletes before it.
        op: Op codes.
        before: Structs of the key before updates; None if no record has it.
        order: Columns that order the records, by path.
        indices: int64[rows], the indices of their texts.
        doubtful: int64[n], the indices of texts that were not parsed.
        fields: Rows with other fields than the table's; None if there are none.
    """

    rows: pa.Table
    op: pa.ChunkedArray
    before: pa.ChunkedArray | None
    order: Mapping[str, pa.ChunkedArray]
    indices: RowNumbers
    doubtful: RowNumbers
    fields: NewFields | None


def reads(schema: pa.Schema) -> bool:
    """Whether this module can parse all column types of a table."""
    return all(_is_plain(field.type) or _is_time(field.type) for field in schema)


def _is_plain(type_: pa.DataType) -> bool:
    return (
        pa.types.is_boolean(type_)
        or (pa.types.is_signed_integer(type_))
        or pa.types.is_float64(type_)
        or pa.types.is_string(type_)
        or pa.types.is_decimal128(type_)
    )


def _is_time(type_: pa.DataType) -> bool:
    return pa.types.is_date32(type_) or pa.types.is_timestamp(type_)


def parse_texts(
    texts: pa.LargeStringArray, envelope: Envelope, schema: pa.Schema, on: Sequence[str], names: FieldNames
) -> ReadTexts:
    """Parse records.

    Args:
        texts: Records as JSON, none null.
        envelope: Their layout.
        schema: The table's columns, of types for which `reads` is true.
        on: Its key columns.
        names: Caches the fields of earlier rows.
    """
    shape = _look_at(texts, schema)
    parsed, indices = _parse(texts, _schema(shape, envelope, schema))
    if parsed is None or not len(indices):
        return _nothing_of(texts, schema, envelope)
    read = _Reading(parsed, indices, shape, envelope, schema, on)
    try:
        good = read.check()
        is_read = np.zeros(len(texts), bool)
        is_read[indices[good]] = True
        result = read.result(good, np.flatnonzero(~is_read))
        return _with_fields(result, texts, shape, schema, names)
    except (pa.ArrowException, ValueError, RecursionError):  # an invalid time, or a text that only Arrow takes for JSON
        return _nothing_of(texts, schema, envelope)


def _nothing_of(texts: pa.LargeStringArray, schema: pa.Schema, envelope: Envelope) -> ReadTexts:
    order = {path: pa.chunked_array([], type_) for path, type_ in envelope.order}
    nothing = np.empty(0, np.int64)
    op = pa.chunked_array([], pa.string())
    return ReadTexts(
        pa.Table.from_batches([empty_batch(schema)]), op, None, order, nothing, np.arange(len(texts)), None
    )


# The shape of records ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a source writes its records: whether in a payload, and which times as strings."""

    is_wrapped: bool
    as_text: frozenset[str]

    @property
    def path(self) -> tuple[str, ...]:
        return ("payload", "after") if self.is_wrapped else ("after",)


def _look_at(texts: pa.LargeStringArray, schema: pa.Schema) -> _Shape:
    times = [field.name for field in schema if _is_time(field.type)]
    as_text: set[str] = set()
    open_, is_wrapped = set(times), False
    for text in texts.slice(0, _LOOKED_AT):
        try:
            record = json.loads(text.as_py())
            is_wrapped = isinstance(record.get("payload"), dict)
            row = (record["payload"] if is_wrapped else record).get("after") or {}
            written = {name for name in open_ if row.get(name) is not None}
            as_text |= {name for name in written if isinstance(row[name], str)}
        except (ValueError, AttributeError, TypeError):
            continue
        open_ -= written
        if not open_:
            break
    return _Shape(is_wrapped, frozenset(as_text | open_))


def _schema(shape: _Shape, envelope: Envelope, schema: pa.Schema) -> pa.Schema:
    """The Arrow type to parse records as."""

    def read_as(field: pa.Field) -> pa.DataType:
        if not _is_time(field.type):
            return field.type
        return pa.string() if field.name in shape.as_text else pa.int64()

    row = pa.struct([pa.field(field.name, read_as(field)) for field in schema])
    members: dict[str, pa.DataType] = {envelope.op: pa.string(), "after": row, envelope.before: row}
    source: dict[str, pa.DataType] = {}
    for path, type_ in envelope.order:
        parent, _, member = path.rpartition(".")
        (source if parent else members)[member] = type_
    if source:
        members["source"] = pa.struct(list(source.items()))
    return pa.schema([("payload", pa.struct(list(members.items())))] if shape.is_wrapped else list(members.items()))


def _parse(texts: pa.LargeStringArray, schema: pa.Schema) -> tuple[pa.Table | None, RowNumbers]:
    """All records that Arrow's parser accepts, and their indices."""
    parts: list[pa.Table] = []
    indices: list[RowNumbers] = []
    for start, part, table in _parsed(texts, schema, 0):
        parts.append(table)
        indices.append(np.arange(start, start + len(part)))
    return (pa.concat_tables(parts), np.concatenate(indices)) if parts else (None, np.empty(0, np.int64))


def _parsed(
    texts: pa.LargeStringArray, schema: pa.Schema, start: int
) -> Iterator[tuple[int, pa.LargeStringArray, pa.Table]]:
    if not len(texts):
        return
    end_of_line = pa.scalar("\n", pa.large_string())
    lines = pc.binary_join_element_wise(texts, pa.scalar("", pa.large_string()), end_of_line)
    begin, end = (lines.buffers()[1].slice(8 * index, 8) for index in (lines.offset, lines.offset + len(lines)))
    first, last = (int(np.frombuffer(offset, np.int64)[0]) for offset in (begin, end))
    longest = int(pc.max(pc.binary_length(texts)).as_py())
    try:
        table = arrow_json.read_json(
            pa.BufferReader(lines.buffers()[2].slice(first, last - first)),
            read_options=arrow_json.ReadOptions(block_size=max(_BLOCK_BYTES, 2 * longest + 2)),
            parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        if table.num_rows == len(texts):
            yield start, texts, table
            return
    except pa.ArrowException:
        pass
    if len(texts) > _HALVED_ROWS:
        half = len(texts) // 2
        yield from _parsed(texts.slice(0, half), schema, start)
        yield from _parsed(texts.slice(half), schema, start + half)


# Rows ----------------------------------------------------------------------------------------------------------------


class _Reading:
    """Records as parsed by Arrow."""

    def __init__(
        self,
        parsed: pa.Table,
        indices: RowNumbers,
        shape: _Shape,
        envelope: Envelope,
        schema: pa.Schema,
        on: Sequence[str],
    ) -> None:
        self._indices, self._shape, self._envelope, self._schema, self._on = indices, shape, envelope, schema, on
        if shape.is_wrapped:
            payload = parsed.column("payload")
            members = [field.name for field in payload.type]
            parsed = pa.table({name: pc.struct_field(payload, name) for name in members})
        self._op = parsed.column(envelope.op)
        self._after, self._before = parsed.column("after"), parsed.column(envelope.before)
        self._source = parsed.column("source") if "source" in parsed.column_names else None
        self._parsed = parsed
        self._is_gone = pc.is_in(self._op, _GONE)
        self._columns: dict[str, pa.ChunkedArray] = {}

    def check(self) -> Mask:
        """bool[records]: which records are valid, as far as can be checked here.

        Raises:
            pa.ArrowException: A time cannot be parsed.
        """
        gone = _mask(self._is_gone)
        good = _mask(pc.is_in(self._op, _KNOWN))
        good &= np.where(gone, _mask(self._before.is_valid()), _mask(self._after.is_valid()))
        for field in self._schema:
            raw = self._row_column(field.name, gone)
            if pa.types.is_string(raw.type):
                good &= ~_mask(pc.fill_null(pc.equal(raw, UNAVAILABLE), False)) | gone
            self._columns[field.name] = column = self._converted(field, raw)
            if field.name in self._on:
                good &= _mask(column.is_valid())
            elif not field.nullable:
                good &= _mask(column.is_valid()) | gone
        for path, _ in self._envelope.order:
            good &= _mask(self._ordering(path).is_valid())
        return good

    def result(self, good: Mask, doubtful: RowNumbers) -> ReadTexts:
        """The valid records."""
        keep = pa.array(good)
        every = bool(good.all())

        def kept(column: pa.ChunkedArray) -> pa.ChunkedArray:
            return column if every else column.filter(keep)

        before = None
        has_before = pc.and_(pc.is_in(self._op, _UPDATED), self._before.is_valid())
        if pc.any(has_before).as_py():
            keys = [
                _one(self._converted(self._schema.field(name), pc.struct_field(self._before, name)))
                for name in self._on
            ]
            struct = pa.StructArray.from_arrays(keys, list(self._on), mask=pc.invert(_one(has_before)))
            before = kept(pa.chunked_array([struct]))
        return ReadTexts(
            pa.table({name: kept(column) for name, column in self._columns.items()}),
            kept(self._op),
            before,
            {path: kept(self._ordering(path)) for path, _ in self._envelope.order},
            self._indices[good],
            doubtful,
            None,
        )

    def _row_column(self, name: str, gone: Mask) -> pa.ChunkedArray:
        after = pc.struct_field(self._after, name)
        return pc.if_else(self._is_gone, pc.struct_field(self._before, name), after) if gone.any() else after

    def _ordering(self, path: str) -> pa.ChunkedArray:
        parent, _, member = path.rpartition(".")
        return pc.struct_field(self._source, member) if parent else self._parsed.column(member)

    def _converted(self, field: pa.Field, raw: pa.ChunkedArray) -> pa.ChunkedArray:
        """Convert a time column to the table's type; others have it already."""
        if not _is_time(field.type):
            return raw
        is_date = pa.types.is_date32(field.type)
        if pa.types.is_integer(raw.type):
            if is_date:
                return raw.cast(pa.int32()).cast(pa.date32())
            micros = raw if self._envelope.micros == 1 else pc.multiply_checked(raw, self._envelope.micros)
            return micros.cast(pa.timestamp("us", field.type.tz))
        if is_date:
            return pc.utf8_rtrim(raw, "Z").cast(pa.date32())
        if field.type.tz is None:
            return pc.utf8_rtrim(raw, "Z").cast(pa.timestamp("us"))
        return raw.cast(pa.timestamp("us", field.type.tz))


def _with_fields(
    read: ReadTexts, texts: pa.LargeStringArray, shape: _Shape, schema: pa.Schema, names: FieldNames
) -> ReadTexts:
    """The parsed records, with the rows whose fields differ from the table's."""
    parsed_texts = texts if not len(read.doubtful) else texts.take(pa.array(read.indices))
    found, known = names.find(parsed_texts)
    own = set(schema.names)
    others = [number for number, fields in known.items() if set(fields) != own]
    is_other = np.isin(found, np.array(others, np.uint64)) & ~_mask(pc.is_in(read.op, _GONE))
    chosen = np.flatnonzero(is_other)
    if not len(chosen):
        return read
    names_found = tuple(known[number] for number in np.unique(found[chosen]).tolist())
    return replace(read, fields=NewFields(names_found, parsed_texts.take(pa.array(chosen)), shape.path))


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _mask(column: Any) -> Mask:
    return np.asarray(pc.fill_null(column, False)).astype(bool)
