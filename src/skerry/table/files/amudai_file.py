"""Amudai shards as data files: stripes with their statistics, columns found by field id.

A shard's own schema has no field ids. This package's writer stores the Arrow schema beside it, whose fields carry
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai import ShardFile
from skerry.amudai.shard.schema import DataType
from skerry.amudai.statistics.descriptors import BooleanCounts, FieldStatistics, NumberCounts
from skerry.amudai.values.datetimes import EPOCH_TICKS
from skerry.errors import UnsupportedError
from skerry.storage import Storage
from skerry.table.files.evolution import NameMapping, identify, top_level, with_ids
from skerry.table.files.stored_file import Part, StoredFile, reading, without_columns
from skerry.table.predicate import Column, FieldMetrics
from skerry.table.rows.schema import field_id
from skerry.table.rows.values import arrow_storage, is_uuid

__all__ = ["open_amudai"]

_TICKS: Final = {"s": 10_000_000, "ms": 10_000, "us": 10}
_TICKS_PER_DAY: Final = 864_000_000_000
_MEMORY_PER_ROW: Final = 8
"""Bytes that a value takes in memory if its stripe does not say."""


def open_amudai(storage: Storage, location: str, wanted: pa.Schema, names: NameMapping | None) -> StoredFile:
    """Read a shard's directory and the descriptors of its stripes.

    See `skerry.table.files.parquet_file.open_parquet`.
    """
    with reading(location, "amudai"):
        shard = ShardFile(location, storage=storage)
        if shard.metadata.directory.deleted_record_count:
            raise UnsupportedError("a shard with records marked as deleted is not a data file", location=location)
        schema = identify(shard.schema, names)
        ids = top_level(wanted)
        columns = tuple(schema.field(index).name for number, index in top_level(schema).items() if number in ids)
        return _AmudaiFile(location, shard, schema, None if schema is shard.schema else names, columns, _parts(shard))


def _parts(shard: ShardFile) -> tuple[Part, ...]:
    stripes = shard.metadata.stripes
    offsets = shard.metadata.stripe_offsets()
    width = max(len(shard.schema), 1)
    return tuple(
        Part(
            stripe.ordinal,
            stripe.record_offset,
            stripe.record_count,
            offset,
            stripe.raw_data_size or stripe.record_count * width * _MEMORY_PER_ROW,
        )
        for stripe, offset in zip(stripes, offsets, strict=True)
    )


@dataclass(frozen=True)
class _AmudaiFile:
    """A shard whose metadata has been read.

    Args:
        location: Its root file.
        shard: The shard.
        schema: All its columns with field ids.
        names: Field ids by name, if the shard itself has none.
        columns: The wanted columns.
        parts: Its stripes.
    """

    location: str
    shard: ShardFile
    schema: pa.Schema
    names: NameMapping | None
    columns: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def row_count(self) -> int:
        return self.shard.num_rows

    def metrics(self, column: Column) -> FieldMetrics | None:
        found = self._leaf(column.field_id)
        if found is None:
            return None
        stored, node = found
        statistics = self.shard.node_statistics(node)
        storage = arrow_storage(column.type)
        bounds = [_bounds(column.type, stored, each) for each in statistics]
        return FieldMetrics(
            pa.array([low for low, _ in bounds], storage),
            pa.array([high for _, high in bounds], storage),
            np.array([_null_count(each) for each in statistics], np.int64),
            np.array([_nan_count(each, stored) for each in statistics], np.int64),
            np.array([part.row_count for part in self.parts], np.int64),
        )

    def _leaf(self, number: int) -> tuple[pa.DataType, DataType] | None:
        """The stored type and the node of a column that has one value per row."""
        nodes = {field.name: field.data_type for field in self.shard.shard_schema.columns}
        pending = [(field, nodes[field.name]) for field in self.schema]
        while pending:
            field, node = pending.pop()
            if pa.types.is_struct(field.type):
                pending += zip(field.type, node.children, strict=True)
            elif not pa.types.is_nested(field.type) and _has_id(field, number):
                return field.type, node
        return None

    def batches(self, part: Part, batch_rows: int) -> Iterator[pa.RecordBatch]:
        if not self.columns:
            yield from without_columns(part.row_count, batch_rows)
            return
        with reading(self.location, "amudai"):
            for batch in self.shard.iter_batches(
                batch_rows, columns=self.columns, stripes=[part.index], use_threads=False
            ):
                yield self._identified(batch)

    def take(self, _part: Part, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """The rows of a part, from the blocks that hold them; `rows` are positions in the file, ascending."""
        with reading(self.location, "amudai"):
            found = self.shard.take(rows, columns=self.columns).combine_chunks()
            arrays = [column.chunk(0) for column in found.columns]
            return self._identified(pa.RecordBatch.from_arrays(arrays, schema=found.schema))

    def _identified(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with field ids."""
        if self.names is None:
            return batch
        return pa.RecordBatch.from_arrays(batch.columns, schema=with_ids(batch.schema, self.names))


def _has_id(field: pa.Field, number: int) -> bool:
    return bool(field.metadata) and field.metadata.get(b"PARQUET:field_id") is not None and field_id(field) == number


def _null_count(found: FieldStatistics | None) -> int:
    return -1 if found is None or found.null_count is None else found.null_count


def _nan_count(found: FieldStatistics | None, stored: pa.DataType) -> int:
    if not pa.types.is_floating(stored):
        return 0
    return found.details.nan_count if found is not None and isinstance(found.details, NumberCounts) else -1


def _bounds(type_: pa.DataType, stored: pa.DataType, found: FieldStatistics | None) -> tuple[Any, Any]:
    """The minimum and maximum of a stripe as values of the table's type; None if unknown."""
    if found is None:
        return None, None
    if isinstance(found.details, BooleanCounts):
        counts = found.details
        if not pa.types.is_boolean(type_) or counts.true_count + counts.false_count == 0:
            return None, None
        return counts.false_count == 0, counts.true_count > 0
    if found.range is None or found.range.low is None or found.range.high is None:
        return None, None
    return _bound(type_, stored, found.range.low, upper=False), _bound(type_, stored, found.range.high, upper=True)


def _bound(type_: pa.DataType, stored: pa.DataType, value: Any, *, upper: bool) -> Any:
    """A bound as a value of the table's type; None if the stored type cannot be converted to it."""
    if pa.types.is_date32(type_) or pa.types.is_timestamp(type_):
        same_kind = stored == type_ or (
            pa.types.is_timestamp(type_) and pa.types.is_timestamp(stored) and (stored.tz is None) == (type_.tz is None)
        )
        return _moment(type_, int(value) - EPOCH_TICKS, upper=upper) if same_kind else None
    if pa.types.is_integer(type_):
        return int(value) if pa.types.is_integer(stored) else None
    if pa.types.is_floating(type_):
        return float(value) if pa.types.is_floating(stored) else None
    if pa.types.is_decimal(type_):
        exact = isinstance(value, Decimal) and value.is_finite() and pa.types.is_decimal(stored)
        return value if exact and stored.scale == type_.scale else None
    if pa.types.is_string(type_):
        return value if isinstance(value, str) else None
    if pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        width = -1 if pa.types.is_binary(type_) else type_.byte_width
        return value if isinstance(value, bytes) and width in (-1, len(value)) else None
    return value if is_uuid(type_) and isinstance(value, bytes) and len(value) == 16 else None


def _moment(type_: pa.DataType, ticks: int, *, upper: bool) -> int | None:
    """A date or timestamp that is at most, or at least, a number of ticks since 1970."""
    if pa.types.is_date32(type_):
        divisor = _TICKS_PER_DAY
    elif type_.unit == "ns":
        return ticks * 100 if abs(ticks) < (1 << 63) // 100 else None
    else:
        divisor = _TICKS[type_.unit]
    return -(-ticks // divisor) if upper else ticks // divisor
