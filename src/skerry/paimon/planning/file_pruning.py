"""File pruning: what statistics and file indexes prove about the files of a scan.

Spec: docs/formats/paimon.md § 5.7, § 9.3, § 12.2.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.paimon.file_index import FileIndex, IndexedColumn
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.entry_columns import (
    MetricsLookup,
    PartitionCodes,
    partition_metrics,
    same_type,
    value_metrics,
)
from skerry.paimon.planning.sections import Sections
from skerry.paimon.values.byte_spans import Longs
from skerry.paimon.values.types import AtomicType
from skerry.table.predicate import Column, FieldMetrics, Predicate, conjunction, evaluate
from skerry.table.work.read_ahead import WorkPool

__all__ = ["FilePruner", "Judgement", "index_sources"]

_Mask = npt.NDArray[np.bool_]
_INDEX_SUFFIX: Final = ".index"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is proved about files.

    Args:
        may: bool[files] Whether some row may match.
        must: bool[files] Whether every row matches.
        reasons: The conjuncts that files cannot satisfy, with the number of files for each.
    """

    may: _Mask
    must: _Mask
    reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class FilePruner:
    """Judges files by their metadata.

    Args:
        state: The table, with the schema of the scan.
        conjuncts: Predicates that matching rows satisfy one and all.
        entries: Live files: columns of `skerry.paimon.manifests.manifest.ENTRY_SCHEMA`.
        partitions: Their partitions.
        location: The snapshot, for messages.
        known: What is known already of a column in the files; None if nothing is.
    """

    state: PaimonState
    conjuncts: tuple[Predicate, ...]
    entries: pa.RecordBatch
    partitions: PartitionCodes
    location: str
    known: MetricsLookup | None = None

    def value_metrics(self, column: Column) -> FieldMetrics | None:
        """What the files say about the values of a column."""
        return self._value_lookup(column)

    def by_keys(self) -> Judgement:
        """Judge by partition values and primary keys, which all versions of a row share."""
        return self._judge(self._keys)

    def by_values(self) -> Judgement:
        """Judge by everything: the rows in the files themselves, before merging."""
        return self._judge(self._all)

    def by_stitched_values(self, sections: Sections) -> Judgement:
        """Judge by everything, where the files of a section have the same rows, of which each has some columns.

        A column is that of the newest file that has it; files of a section are all judged as one.
        """
        found = self._judge(functools.partial(self._stitched, sections), np.diff(sections.starts))
        may, must = (np.empty(self.entries.num_rows, np.bool_) for _ in range(2))
        may[sections.rows], must[sections.rows] = found.may[sections.of_row], found.must[sections.of_row]
        return Judgement(may, must, found.reasons)

    def _judge(self, lookup: MetricsLookup, files: Longs | None = None) -> Judgement:
        """Judge files, or groups of so many files."""
        weights = np.ones(self.entries.num_rows, np.int64) if files is None else files
        count = len(weights)
        may, must = np.full(count, True), np.full(count, True)
        reasons = []
        for conjunct in self.conjuncts:
            verdict = evaluate(conjunct, lookup, count)
            lost = int(weights[may & ~verdict.may].sum())
            if lost:
                reasons.append((str(conjunct), lost))
            may, must = may & verdict.may, must & verdict.must
        return Judgement(may, must, tuple(reasons))

    def _keys(self, column: Column) -> FieldMetrics | None:
        if column.field_id in self._partition_ids:
            return self._partition_lookup(column)
        return self._key_lookup(column) if column.field_id in self._key_ids else None

    def _all(self, column: Column) -> FieldMetrics | None:
        if pa.types.is_nested(column.type):  # nested values have no order
            return None
        return self._keys(column) or self._value_lookup(column)

    def _stitched(self, sections: Sections, column: Column) -> FieldMetrics | None:
        """The metrics of sections: those of the file that a column is read from."""
        if not len(sections):
            return None
        heads = sections.rows[sections.starts[:-1]]
        if column.field_id in self._partition_ids:
            known = self._partition_lookup(column)
            return None if known is None else known.take(heads)
        if pa.types.is_nested(column.type) or len(column.path) > 1 or column.inside is not None:
            return None
        if pa.types.is_large_binary(column.type):  # what writers say about BLOBs differs from what is in their files
            return None
        has = self._has_column(column)[sections.rows]
        newest = np.maximum.reduceat(np.where(has, np.arange(len(has)), -1), sections.starts[:-1])
        counts = self.entries.column("_ROW_COUNT").to_numpy(zero_copy_only=False)[heads]
        known = self._value_lookup(column)
        absent = newest < 0
        if known is None or not absent.any():
            return None if known is None else known.take(sections.rows[newest])
        nothing = FieldMetrics(pa.nulls(len(heads), column.type), pa.nulls(len(heads), column.type), *[counts] * 3)
        found = known.take(sections.rows[np.where(absent, 0, newest)])
        present = pa.array(~absent)
        return FieldMetrics(
            pc.if_else(present, found.lower, nothing.lower),
            pc.if_else(present, found.upper, nothing.upper),
            np.where(absent, counts, found.null_counts),
            np.where(absent, 0, found.nan_counts),
            np.where(absent, counts, found.value_counts),
        )

    def _has_column(self, column: Column) -> _Mask:
        """bool[files] Whether files have a column."""
        ids = self.entries.column("_SCHEMA_ID").to_numpy(zero_copy_only=False)
        written = self.entries.column("_WRITE_COLS")
        has = np.zeros(len(ids), np.bool_)
        for number, schema in self.schemas.items():
            name = next((field.name for field in schema.fields if field.id == column.field_id), None)
            if name is not None:
                of_schema = ids == number
                has |= of_schema & written.is_null().to_numpy(zero_copy_only=False)
                names = written.flatten()
                rows = pc.list_parent_indices(written).to_numpy(zero_copy_only=False)
                named = np.zeros(len(ids), np.bool_)
                named[rows[pc.equal(names, name).to_numpy(zero_copy_only=False)]] = True
                has |= of_schema & named
        return has

    @cached_property
    def _partition_ids(self) -> frozenset[int]:
        return frozenset(field.id for field in self.state.schema.partition_fields)

    @cached_property
    def _key_ids(self) -> frozenset[int]:
        return frozenset(field.id for field in self.state.schema.key_fields)

    @cached_property
    def schemas(self) -> Mapping[int, TableSchema]:
        """The schemas of the files, by id."""
        numbers = np.unique(self.entries.column("_SCHEMA_ID").to_numpy(zero_copy_only=False)).tolist()
        return {number: self.state.schema_by_id(number) for number in numbers}

    @cached_property
    def _key_lookup(self) -> MetricsLookup:
        return value_metrics(self.entries, self.schemas, keys=True, location=self.location)

    @cached_property
    def _value_lookup(self) -> MetricsLookup:
        if self.known is not None:
            return self.known
        return value_metrics(self.entries, self.schemas, location=self.location)

    def _partition_lookup(self, column: Column) -> FieldMetrics | None:
        """The values of partitions, for each file; every row of a file has them."""
        known = partition_metrics(self.state.schema.partition_fields, self.partitions.values)(column)
        if known is None:
            return None
        codes = self.partitions.codes
        rows = self.entries.column("_ROW_COUNT").to_numpy(zero_copy_only=False)
        values = known.lower.take(pa.array(codes))
        return FieldMetrics(values, values, known.null_counts[codes] * rows, known.nan_counts[codes] * rows, rows)

    # ---- file indexes ----

    def by_indexes(self, rows: Sequence[int], sources: Mapping[int, str | bytes], pool: WorkPool) -> list[int]:
        """The files whose indexes exclude all rows.

        Args:
            rows: Files that may be judged individually.
            sources: Their indexes.
            pool: Threads that read index files.

        Raises:
            FormatError: An index is corrupt.
            NotFoundError: An index file is missing.
        """
        wanted = [row for row in rows if row in sources]
        counts = self.entries.column("_ROW_COUNT").to_numpy(zero_copy_only=False)
        schema_ids = self.entries.column("_SCHEMA_ID").to_numpy(zero_copy_only=False)
        condition = conjunction(self.conjuncts)

        def is_empty(row: int) -> bool:
            source = sources[row]
            location = source if isinstance(source, str) else self.location
            data = self.state.storage.read(source) if isinstance(source, str) else source
            index = FileIndex.decode(data, int(counts[row]), location=location)
            left = index.select(condition, self._indexed(int(schema_ids[row])))
            return left is not None and len(left) == 0

        return [row for row, empty in zip(wanted, pool.in_order(is_empty, wanted), strict=True) if empty]

    def _indexed(self, schema_id: int) -> Mapping[int, IndexedColumn]:
        found = self._indexed_columns.get(schema_id)
        if found is None:
            found = self._indexed_columns[schema_id] = indexed_columns(self.state.schema, self.schemas[schema_id])
        return found

    @cached_property
    def _indexed_columns(self) -> dict[int, Mapping[int, IndexedColumn]]:
        return {}


def indexed_columns(now: TableSchema, then: TableSchema) -> dict[int, IndexedColumn]:
    """The names of columns in a file, by field id, if their type has not changed.

    Args:
        now: The schema of the scan.
        then: The schema of the file.
    """
    types = {field.id: field.type for field in now.fields}
    return {
        field.id: IndexedColumn(field.name, field.type)
        for field in then.fields
        if isinstance(field.type, AtomicType) and field.id in types and same_type(field.type, types[field.id])
    }


def index_sources(
    entries: pa.RecordBatch, rows: Longs, folders: Sequence[str], folder_of: Longs
) -> dict[int, str | bytes]:
    """The file indexes of some files: locations, or the embedded indexes themselves.

    Args:
        entries: The files.
        rows: Which of them, in any order.
        folders: Folders of buckets.
        folder_of: int64[files] Index of each file's folder.
    """
    found: dict[int, str | bytes] = {}
    rows = np.sort(rows)
    chosen = entries.take(pa.array(rows)) if len(rows) < entries.num_rows else entries
    embedded, extra, external = (
        chosen.column(name) for name in ("_EMBEDDED_FILE_INDEX", "_EXTRA_FILES", "_EXTERNAL_PATH")
    )
    for place in np.flatnonzero(embedded.is_valid().to_numpy(zero_copy_only=False)).tolist():
        found[int(rows[place])] = embedded[place].as_py()
    lengths = extra.value_lengths().to_numpy(zero_copy_only=False)
    for place in np.flatnonzero(lengths > 0).tolist():
        row = int(rows[place])
        name = next((name for name in extra[place].as_py() if name.endswith(_INDEX_SUFFIX)), None)
        if name is not None and row not in found:
            path = external[place].as_py()
            folder = folders[int(folder_of[row])] if path is None else path.rpartition("/")[0]
            found[row] = f"{folder}/{name}"
    return found
