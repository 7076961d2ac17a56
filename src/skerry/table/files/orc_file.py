"""ORC data files: stripes, and columns found by the attributes that Iceberg adds to ORC's types.

PyArrow decodes stripes but does not say how many rows one has. That is in the file's tail, which PyArrow returns as the
encoded protobuf message.

Spec: ORC spec, File Tail; Iceberg spec, Appendix A, ORC.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import orc

from skerry.errors import FormatError
from skerry.storage import Storage
from skerry.table.files.evolution import NameMapping, identify, map_fields, top_level
from skerry.table.files.orc_texts import padded_texts, without_padding
from skerry.table.files.orc_times import corrected_times, protobuf_fields, writer_zone
from skerry.table.files.stored_file import Part, reading, without_columns
from skerry.table.predicate import Column, FieldMetrics
from skerry.table.rows.schema import FIELD_ID_KEY

__all__ = ["open_orc"]

_RULE = "ORC spec, File Tail"
_MEMORY_PER_BYTE = 4
"""Roughly how much larger the rows of a stripe are in memory."""


def open_orc(storage: Storage, location: str, wanted: pa.Schema, names: NameMapping | None) -> _OrcFile:
    """Read a file's tail; see `skerry.table.files.parquet_file.open_parquet`."""
    with reading(location, "orc"):
        file = orc.ORCFile(storage.arrow_file(location))
        schema = identify(map_fields(file.schema, _retype), names)
        ids = top_level(wanted)
        columns = sorted(index for number, index in top_level(schema).items() if number in ids)
        tail = file.reader.serialized_file_tail()
        stripes = _decode_stripes(tail, location)
        if [len(stripes), sum(stripe.row_count for stripe in stripes)] != [file.nstripes, file.nrows]:
            raise FormatError(
                f"the tail lists {len(stripes)} stripes, PyArrow finds {file.nstripes} with {file.nrows} rows",
                location=location,
                rule=_RULE,
            )
        return _OrcFile(location, storage, schema, tuple(columns), stripes, tail, padded_texts(file.schema, tail))


def _retype(field: pa.Field) -> pa.Field:
    """A field with its Iceberg id, and with Iceberg's type where ORC lacks it."""
    attributes: Mapping[bytes, bytes] = field.metadata or {}
    number = attributes.get(b"iceberg.id")
    type_ = field.type
    if attributes.get(b"iceberg.long-type") == b"TIME":
        type_ = pa.time64("us")
    elif attributes.get(b"iceberg.binary-type") == b"UUID":
        type_ = pa.binary(16)
    elif attributes.get(b"iceberg.binary-type") == b"FIXED" and attributes.get(b"iceberg.length", b"").isdigit():
        type_ = pa.binary(int(attributes[b"iceberg.length"]))
    return field.with_type(type_).with_metadata(None if number is None else {FIELD_ID_KEY: number})


@dataclass(frozen=True)
class _OrcFile:
    """A file whose tail has been read.

    Args:
        location: The file.
        storage: Access to it.
        schema: All its columns with field ids, in Iceberg's types.
        columns: The requested columns.
        parts: Its stripes.
        tail: Its tail.
        texts: For each column its position among all types, and the positions of padded types.
    """

    location: str
    storage: Storage
    schema: pa.Schema
    columns: tuple[int, ...]
    parts: tuple[Part, ...]
    tail: bytes
    texts: tuple[tuple[int, frozenset[int]], ...]

    @property
    def row_count(self) -> int:
        return sum(part.row_count for part in self.parts)

    def metrics(self, column: Column) -> FieldMetrics | None:
        return None  # PyArrow does not expose the statistics of stripes

    def batches(self, part: Part, batch_rows: int) -> Iterator[pa.RecordBatch]:
        if not self.columns:
            yield from without_columns(part.row_count, batch_rows)
            return
        with reading(self.location, "orc"):
            # a reader is not safe to use from several threads
            stripe = orc.ORCFile(self.storage.arrow_file(self.location)).read_stripe(part.index, self._selected())
            fields = [self.schema.field(index) for index in self.columns]
            zone = functools.cache(lambda: writer_zone(self.storage, self.location, self.tail, part.index))
            read = (stripe.column(field.name) for field in fields)
            columns = [
                corrected_times(without_padding(array, *self.texts[index]), zone)
                for index, array in zip(self.columns, read, strict=True)
            ]
            arrays = [_as_type(array, field.type) for array, field in zip(columns, fields, strict=True)]
            batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
            if batch.num_rows != part.row_count:
                raise FormatError(
                    f"stripe {part.index} has {batch.num_rows} rows, the tail says {part.row_count}",
                    location=self.location,
                    rule=_RULE,
                )
            _check_text(batch)
            for start in range(0, batch.num_rows, batch_rows):
                yield batch.slice(start, batch_rows)

    def _selected(self) -> list[str] | None:
        """Names of the requested columns; None for all if a name could be mistaken for a path."""
        names = [self.schema.field(index).name for index in self.columns]
        return None if any("." in name for name in names) else names


def _check_text(batch: pa.RecordBatch) -> None:
    """Refuse text that is not UTF-8: PyArrow returns it unchecked, and its consumers assume that it is valid."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise FormatError(
                f"column {field.name!r}: {error}", rule="ORC spec, String, Char, and VarChar Columns"
            ) from error


def _as_type(array: pa.Array, type_: pa.DataType) -> pa.Array:
    return array if array.type == type_ else array.cast(type_)


# The tail -----------------------------------------------------------------------------------------------------------


def _decode_stripes(tail: bytes, location: str) -> tuple[Part, ...]:
    """The stripes that a file's tail lists. Spec: ORC spec, File Tail, Footer, Stripe Information."""
    parts: list[Part] = []
    first_row = 0
    try:
        (footer,) = [value for number, value in protobuf_fields(tail) if number == 2]
        for number, value in protobuf_fields(footer):
            if number == 3:
                stripe: dict[int, int] = dict(protobuf_fields(value))
                row_count = stripe.get(5, 0)
                size_bytes = stripe.get(3, 0) * _MEMORY_PER_BYTE
                parts.append(Part(len(parts), first_row, row_count, stripe.get(1, 0), size_bytes))
                first_row += row_count
    except (IndexError, ValueError, TypeError) as error:
        raise FormatError(f"the tail is not a valid message: {error}", location=location, rule=_RULE) from error
    return tuple(parts)
