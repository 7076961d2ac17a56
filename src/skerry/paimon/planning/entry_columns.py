"""Entries of manifests as columns: the live files, and what is known about their values.

Spec: docs/formats/paimon.md § 5.3, § 5.5, § 9.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError
from skerry.paimon.manifests.manifest import FileKind
from skerry.paimon.metadata.schema import LINEAGE_FIELDS, TableSchema
from skerry.paimon.values.arrow_types import arrow_type
from skerry.paimon.values.binary_reading import decode_rows
from skerry.paimon.values.byte_spans import Longs
from skerry.paimon.values.types import DataField, PaimonType
from skerry.table.predicate import Column, FieldMetrics

__all__ = [
    "MetricsLookup",
    "PartitionCodes",
    "ReadEntries",
    "described_fields",
    "live_rows",
    "partition_codes",
    "partition_metrics",
    "stats_metrics",
    "value_metrics",
]

MetricsLookup: TypeAlias = Callable[[Column], FieldMetrics | None]

_RULE: Final = "docs/formats/paimon.md § 5.5"
_IDENTITY: Final = (
    "_PARTITION",
    "_BUCKET",
    "_LEVEL",
    "_FILE_NAME",
    "_EXTRA_FILES",
    "_EMBEDDED_FILE_INDEX",
    "_EXTERNAL_PATH",
)


# Live entries -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadEntries:
    """Entries of manifests as read, including deleted files.

    Args:
        entries: Columns of `skerry.paimon.manifests.manifest.ENTRY_SCHEMA`, in the order of the manifests.
        partitions: Their partitions.
    """

    entries: pa.RecordBatch
    partitions: PartitionCodes

    def take(self, rows: Longs) -> ReadEntries:
        """The entries of some rows."""
        if len(rows) == self.entries.num_rows:
            return self
        partitions = PartitionCodes(self.partitions.rows, self.partitions.values, self.partitions.codes[rows])
        return ReadEntries(self.entries.take(pa.array(rows)), partitions)

    def numbers(self, name: str) -> Longs:
        """A column of integers without nulls."""
        return self.entries.column(name).to_numpy(zero_copy_only=False).astype(np.int64)


def live_rows(entries: pa.RecordBatch, *, location: str | None = None) -> Longs:
    """The entries that remain when every DELETE has cancelled its ADD.

    Args:
        entries: Columns of `skerry.paimon.manifests.manifest.ENTRY_SCHEMA`, in the order of the manifests.
        location: The snapshot, for messages.

    Returns:
        int64[n] Their rows, ascending.

    Raises:
        FormatError: A file is deleted that does not exist, or added twice.

    Spec: docs/formats/paimon.md § 5.5, § 9.2.
    """
    is_delete = entries.column("_KIND").to_numpy(zero_copy_only=False) == FileKind.DELETE
    names = entries.column("_FILE_NAME").dictionary_encode()
    codes = names.indices.to_numpy(zero_copy_only=False)
    if len(names.dictionary) == len(codes) and not is_delete.any():
        return np.arange(len(codes), dtype=np.int64)
    entangled = (np.bincount(codes, minlength=1)[codes] > 1) | is_delete
    alive = ~entangled
    rows = np.flatnonzero(entangled)
    columns = [entries.column(name).take(pa.array(rows)).to_pylist() for name in _IDENTITY]
    columns[_EXTRA_INDEX] = [tuple(files) for files in columns[_EXTRA_INDEX]]
    live: dict[tuple[object, ...], int] = {}
    for row, delete, identity in zip(rows.tolist(), is_delete[rows].tolist(), zip(*columns, strict=True), strict=True):
        if not delete:
            if identity in live:
                raise FormatError(f"data file {identity[3]} is added twice", location=location, rule=_RULE)
            live[identity] = row
        elif live.pop(identity, None) is None:
            raise FormatError(
                f"data file {identity[3]} is deleted, but it was never added", location=location, rule=_RULE
            )
    alive[list(live.values())] = True
    return np.flatnonzero(alive)


_EXTRA_INDEX: Final = _IDENTITY.index("_EXTRA_FILES")


# Partitions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartitionCodes:
    """The partitions of entries.

    Args:
        rows: The distinct partitions, as rows with arity.
        values: Their values: one array for each partition key.
        codes: int64[entries] Index of the partition of each entry.
    """

    rows: list[bytes]
    values: list[pa.Array]
    codes: Longs


def partition_codes(
    partitions: pa.Array, fields: Sequence[DataField], *, location: str | None = None
) -> PartitionCodes:
    """Number the distinct partitions of entries.

    Args:
        partitions: Rows with arity.
        fields: The partition keys.
        location: The snapshot, for messages.

    Raises:
        FormatError: A partition does not match the keys.
    """
    encoded = partitions.dictionary_encode()
    values = decode_rows([field.type for field in fields], encoded.dictionary, location=location)
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return PartitionCodes(encoded.dictionary.to_pylist(), values, codes)


def partition_metrics(fields: Sequence[DataField], values: Sequence[pa.Array]) -> MetricsLookup:
    """Metrics of partition columns, which are exact.

    Args:
        fields: The partition keys.
        values: One array for each, of one value per partition.
    """
    indexes = {field.id: number for number, field in enumerate(fields)}

    def lookup(column: Column) -> FieldMetrics | None:
        index = indexes.get(column.field_id)
        if index is None or values[index].type != column.type:
            return None
        array = values[index]
        nulls = array.is_null().to_numpy(zero_copy_only=False).astype(np.int64)
        nans = np.zeros(len(array), np.int64)
        if pa.types.is_floating(array.type):
            nans = pc.fill_null(pc.is_nan(array), False).to_numpy(zero_copy_only=False).astype(np.int64)
        return FieldMetrics(array, array, nulls, nans, np.ones(len(array), np.int64))

    return lookup


# Statistics ---------------------------------------------------------------------------------------------------------


def stats_metrics(
    stats: pa.StructArray, names: Sequence[DataField], value_counts: Longs, *, location: str | None = None
) -> MetricsLookup:
    """The metrics of SimpleStats whose rows all describe the same columns.

    Args:
        stats: A column of `skerry.paimon.manifests.metadata_file.stats_struct`.
        names: The columns that they describe, in order.
        value_counts: int64[n] Number of values that each row describes; -1 if unknown.
        location: The file, for messages.

    Raises:
        FormatError: They do not match the columns; raised by the lookup.
    """
    indexes = {field.id: number for number, field in enumerate(names)}
    types = [field.type for field in names]

    def lookup(column: Column) -> FieldMetrics | None:
        index = indexes.get(column.field_id)
        if index is None or arrow_type(types[index]) != column.type:
            return None
        lower, upper = (decode_rows(types, stats.field(side), [index], location=location)[0] for side in (0, 1))
        nulls = _null_counts(stats.field(2), index, len(types), location)
        return FieldMetrics(lower, upper, nulls, np.full(len(stats), -1, np.int64), value_counts)

    return lookup


def _null_counts(counts: pa.ListArray, index: int, width: int, location: str | None) -> Longs:
    """int64[n] One column's null counts; -1 if unknown."""
    lengths = pc.fill_null(counts.value_lengths(), 0).to_numpy(zero_copy_only=False)
    if (lengths == 0).all():
        return np.full(len(counts), -1, np.int64)
    if ((lengths != width) & (lengths != 0)).any():
        raise FormatError(
            f"statistics of {width} columns have {int(lengths[lengths != width][0])} null counts",
            location=location,
            rule="docs/formats/paimon.md § 5.7",
        )
    starts = counts.offsets.to_numpy(zero_copy_only=False)[:-1]
    positions = pa.array(starts + index, mask=lengths == 0)
    return pc.fill_null(counts.values.take(positions), -1).to_numpy(zero_copy_only=False)


def value_metrics(
    entries: pa.RecordBatch, schemas: Mapping[int, TableSchema], *, keys: bool = False, location: str | None = None
) -> MetricsLookup:
    """The metrics of a table's columns by the statistics of files.

    Every file is described in the schema that it was written with: the column's name at that time is found by its field
    id. A column of another type, or without statistics, is unknown; one that the file does not have is null.

    Args:
        entries: Columns of `skerry.paimon.manifests.manifest.FILE_SCHEMA`, possibly among others.
        schemas: The schemas of the files, by id.
        keys: Whether to use the statistics of keys instead of values.
        location: The snapshot, for messages.

    Raises:
        FormatError: The statistics do not match the schemas; raised by the lookup.
    """
    stats = entries.column("_KEY_STATS" if keys else "_VALUE_STATS")
    row_counts = entries.column("_ROW_COUNT").to_numpy(zero_copy_only=False)
    groups = _groups(entries, keys)
    prepared = []
    for (schema_id, names), rows in groups.items():
        schema = schemas[schema_id]
        described = schema.key_fields if keys else described_fields(schema, names, location)
        taken = stats.take(pa.array(rows)) if len(groups) > 1 else stats
        counts = row_counts[rows]
        prepared.append((schema, rows, counts, stats_metrics(taken, described, counts, location=location)))

    def look_up(column: Column) -> FieldMetrics | None:
        parts = []
        for schema, rows, counts, lookup in prepared:
            parts.append((rows, lookup(column) or _without_stats(schema, column, counts)))
        if all(known is None for _, known in parts):
            return None
        return _joined(column, parts, len(row_counts))

    return look_up


def described_fields(
    schema: TableSchema, names: tuple[str, ...] | None, location: str | None = None
) -> tuple[DataField, ...]:
    """The columns that a file has statistics of.

    Args:
        schema: Its schema.
        names: Their names, those of row ids and sequence numbers included; None for all columns.
        location: The snapshot, for messages.

    Raises:
        FormatError: The schema does not have one of them.
    """
    if names is None:
        return schema.fields
    known = {**LINEAGE_FIELDS, **schema.fields_by_name}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise FormatError(
            f"a file has statistics of column {unknown[0]!r}, which its schema {schema.id} does not have",
            location=location,
            rule=_RULE,
        )
    return tuple(known[name] for name in names)


def _groups(entries: pa.RecordBatch, keys: bool) -> dict[tuple[int, tuple[str, ...] | None], Longs]:
    """Group files by schema and described columns: those that are named, else all that a file has."""
    ids = entries.column("_SCHEMA_ID").to_numpy(zero_copy_only=False)
    columns = entries.column("_VALUE_STATS_COLS")
    written = entries.column("_WRITE_COLS")
    if not keys and written.null_count < len(written):
        columns = pc.coalesce(columns, written)
    if keys or columns.null_count == len(columns):
        return {(int(number), None): np.flatnonzero(ids == number) for number in np.unique(ids)}
    encoded = pc.binary_join(columns.cast(pa.list_(pa.string())), "\0").dictionary_encode()  # names have no NUL
    lengths = pc.fill_null(columns.value_lengths(), -1).to_numpy(zero_copy_only=False)
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    shapes, indexes = np.unique(np.stack([ids, codes, lengths], axis=1), axis=0, return_inverse=True)
    order = np.argsort(indexes.reshape(-1), kind="stable")
    bounds = np.searchsorted(indexes.reshape(-1)[order], np.arange(len(shapes) + 1))
    groups = {}
    for number, (schema_id, _, length) in enumerate(shapes.tolist()):
        rows = order[bounds[number] : bounds[number + 1]]
        names = None if length < 0 else tuple(columns[int(rows[0])].as_py())
        groups[schema_id, names] = rows
    return groups


def _without_stats(schema: TableSchema, column: Column, row_counts: Longs) -> FieldMetrics | None:
    """A column without statistics: null if the file does not have it, else unknown."""
    if len(column.path) > 1 or any(field.id == column.field_id for field in schema.fields):
        return None
    nothing = pa.nulls(len(row_counts), column.type)
    return FieldMetrics(nothing, nothing, row_counts, np.zeros(len(row_counts), np.int64), row_counts)


def _joined(column: Column, parts: Sequence[tuple[Longs, FieldMetrics | None]], count: int) -> FieldMetrics:
    """Combine metrics of groups of rows."""
    if len(parts) == 1 and parts[0][1] is not None and len(parts[0][0]) == count:
        return parts[0][1]
    whole = np.concatenate([rows for rows, _ in parts])
    index = np.empty(count, np.int64)
    index[whole] = np.arange(len(whole))

    def counts(name: str) -> Longs:
        found = [np.full(len(rows), -1, np.int64) if part is None else getattr(part, name) for rows, part in parts]
        return np.asarray(np.concatenate(found)[index], np.int64)

    def bounds(name: str) -> pa.Array:
        found = [pa.nulls(len(rows), column.type) if part is None else getattr(part, name) for rows, part in parts]
        return pa.concat_arrays(found).take(pa.array(index))

    return FieldMetrics(
        bounds("lower"), bounds("upper"), counts("null_counts"), counts("nan_counts"), counts("value_counts")
    )


def same_type(one: PaimonType, other: PaimonType) -> bool:
    """Whether two types have the same values in the same layout, ignoring nullability."""
    return str(one).removesuffix(" NOT NULL") == str(other).removesuffix(" NOT NULL")
