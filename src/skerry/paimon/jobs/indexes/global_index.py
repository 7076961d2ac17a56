"""B-tree global indexes: built for the rows that have none, described, and dropped.

An index file lists the keys of a range of row ids. Rows of tables with `data-evolution.enabled` keep their ids, so that
it stays right until the column is updated; rows that are appended are not in it until it is built for them.

Spec: docs/formats/paimon.md § 5.6, § 12.8.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import NotFoundError, UnsupportedError
from skerry.paimon.change_request import ChangeRequest, commit_files, redo_after_conflicts
from skerry.paimon.file_index.btree import TYPE, can_index, is_text
from skerry.paimon.file_index.btree_writing import SortedRows, encode_btree
from skerry.paimon.file_index.sorted_keys import as_longs
from skerry.paimon.jobs.row_tasks import RowJob
from skerry.paimon.manifests.index_manifest import GlobalIndexMeta, IndexManifestEntry
from skerry.paimon.manifests.live_files import index_entries, live_entries
from skerry.paimon.manifests.manifest import ManifestEntry
from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations import IndexChange, ReplaceFiles
from skerry.paimon.operations.conflicts import check_row_ranges
from skerry.paimon.planning.file_splits import FileSplits
from skerry.paimon.planning.row_id_pruning import CoveredRows
from skerry.paimon.planning.row_sections import is_dedicated_name, stitched_entries
from skerry.paimon.planning.splits import Split
from skerry.paimon.reading.rows import SplitReader
from skerry.paimon.values.types import AtomicType, DataField
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.lineage import ROW_ID_FIELD
from skerry.storage import join
from skerry.table.rows.schema import nearest
from skerry.table.summaries import IndexSummary, TableIndex

__all__ = ["build_global_indexes", "drop_global_indexes", "global_indexes", "indexed_columns"]

_MOST_ROWS: Final = 4_000_000
"""Rows whose keys are sorted at a time; a range of ids with more has several indexes side by side."""
_SURPLUS: Final = 1.2


@dataclass(frozen=True, slots=True)
class _Range:
    """Rows of a partition with ids that follow each other, whose column is to be indexed; picklable.

    Args:
        partition: Values of the partition keys as a row with arity.
        field: The column.
        first: The first row id.
        end: Past the last one.
        split: The files.
        entries: The same, as the manifest has them.
    """

    partition: bytes
    field: DataField
    first: int
    end: int
    split: Split
    entries: tuple[ManifestEntry, ...]


def build_global_indexes(request: ChangeRequest, columns: Sequence[str] | None = None) -> IndexSummary:
    """Index the rows of some columns that are not, in one commit.

    Args:
        request: The branch, and where the files are read.
        columns: Top-level columns; those that have an index if None.

    Raises:
        ConflictError: Others kept changing these columns.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        NotFoundError: A column does not exist.
        UnsupportedError: A column or the table cannot have such an index.
    """

    def attempt(state: PaimonState) -> IndexSummary:
        names = indexed_columns(state) if columns is None else list(dict.fromkeys(columns))
        fields = [_field(state, name) for name in names]
        job = RowJob.of(request, state)
        ranges = [found for field in fields for found in _ranges(state, job.layout, field)]
        if not ranges:
            return IndexSummary()
        indexed = [entry for found in ranges for entry in found.entries]
        with job.layout.owned_files({join(state.location, "index")}) as owned:
            work = functools.partial(_write_index, state, job.layout)
            built = job.run("index", work, ranges, lambda found: len(found.entries), owned)
            added = tuple(itertools.chain.from_iterable(built))
            operation = ReplaceFiles(
                job.layout,
                [],
                [],
                CommitKind.APPEND,
                index=IndexChange(added),
                kept=indexed,
                check=functools.partial(check_row_ranges, state, indexed),
                properties=request.properties,
            )
            commit_files(request, operation)
        files = {entry.file.file_name for entry in indexed}
        return IndexSummary(len(files), sum(entry.row_count for entry in added), sum(one.file_size for one in added))

    return redo_after_conflicts(request, attempt)


def drop_global_indexes(request: ChangeRequest, columns: Sequence[str]) -> None:
    """Drop the indexes of some columns, in one commit.

    Raises:
        NotFoundError: A column has none.
    """

    def attempt(state: PaimonState) -> None:
        removed: list[IndexManifestEntry] = []
        for column in columns:
            own = [entry for _, entry in _entries(state, column)]
            if not own:
                raise NotFoundError(f"column {column!r} has no index{nearest(column, indexed_columns(state))}")
            removed += own
        layout = WriteLayout.of(state)
        index = IndexChange(removed=tuple(removed))
        commit_files(
            request, ReplaceFiles(layout, [], [], CommitKind.APPEND, index=index, properties=request.properties)
        )

    redo_after_conflicts(request, attempt)


def global_indexes(state: PaimonState) -> list[TableIndex]:
    """The indexes of a state, and how many of its files they cover; files of the same rows count as one."""
    found = []
    groups = _groups(state) if indexed_columns(state) else []
    for column in indexed_columns(state):
        own = [entry for _, entry in _entries(state, column)]
        indexed = int(_are_covered(groups, own).sum())
        found.append(TableIndex(column, TYPE, None, len(groups), indexed, sum(entry.file_size for entry in own)))
    return found


def indexed_columns(state: PaimonState) -> list[str]:
    """The columns that have an index."""
    return list(dict.fromkeys(name for name, _ in _entries(state)))


def _entries(state: PaimonState, column: str | None = None) -> Iterator[tuple[str, IndexManifestEntry]]:
    """The files of b-trees, with the columns that they are of."""
    names = {field.id: field.name for field in state.schema.fields}
    for entry in index_entries(state) if state.snapshot is not None else ():
        if entry.index_type == TYPE and entry.global_index is not None:
            name = names.get(entry.global_index.index_field_id)
            if name is not None and column in (None, name):
                yield name, entry


def _first(entry: ManifestEntry) -> int:
    return -1 if entry.file.first_row_id is None else entry.file.first_row_id


# Planning ------------------------------------------------------------------------------------------------------------


def _field(state: PaimonState, column: str) -> DataField:
    if not state.options.data_evolution:
        raise UnsupportedError(
            "b-tree indexes are of tables with data-evolution.enabled=true, whose rows keep their ids in other readers",
            location=state.name,
        )
    if column not in state.schema.fields_by_name:
        raise NotFoundError(f"no column {column!r} to index{nearest(column, state.schema.fields_by_name)}")
    field = state.schema.field(column)
    if not isinstance(field.type, AtomicType) or not can_index(field.type):
        raise UnsupportedError(
            f"column {column!r} of {field.type} has no btree index, only strings, integers, days, timestamps of at "
            "most 6 and decimals of at most 18 digits have",
            location=state.name,
        )
    return field


def _groups(state: PaimonState) -> list[tuple[ManifestEntry, ...]]:
    """Files of the same rows, the oldest first, by partition and row id."""
    partitions: dict[bytes, list[ManifestEntry]] = {}
    for entry in live_entries(state):
        partitions.setdefault(entry.partition, []).append(entry)
    return [tuple(group) for entries in partitions.values() for group in stitched_entries(entries, location=state.name)]


def _are_covered(
    groups: Sequence[tuple[ManifestEntry, ...]], index: Sequence[IndexManifestEntry]
) -> npt.NDArray[np.bool_]:
    """bool[groups] Whether an index covers all rows of a group."""
    first = np.array([_first(group[0]) for group in groups], np.int64)
    return CoveredRows(index).hold(first, np.array([group[0].file.row_count for group in groups], np.int64))


def _ranges(state: PaimonState, layout: WriteLayout, field: DataField) -> Iterator[_Range]:
    """Rows without an index, as ranges of ids without gaps."""
    if state.snapshot is None:
        return
    groups = _groups(state)
    covered = _are_covered(groups, [entry for _, entry in _entries(state, field.name)])
    splits = FileSplits(state, layout)
    run: list[ManifestEntry] = []
    rows, end, partition = 0, -1, b""
    for group, is_covered in zip(groups, covered.tolist(), strict=True):
        head = group[0]
        first = _first(head)
        if first < 0 or is_covered:
            continue
        _check_types(state, field, group)
        if run and (first != end or head.partition != partition or rows + head.file.row_count > _MOST_ROWS):
            yield _range(splits, field, run, end - rows, end)
            run, rows = [], 0
        run += group
        rows, end, partition = rows + head.file.row_count, first + head.file.row_count, head.partition
    if run:
        yield _range(splits, field, run, end - rows, end)


def _range(splits: FileSplits, field: DataField, run: list[ManifestEntry], first: int, end: int) -> _Range:
    needed = tuple(entry for entry in run if not is_dedicated_name(entry.file.file_name))
    return _Range(run[0].partition, field, first, end, splits.raw(needed), needed)


def _check_types(state: PaimonState, field: DataField, group: Sequence[ManifestEntry]) -> None:
    """Refuse files in which the column had another type: their index would have keys of that type.

    Raises:
        UnsupportedError: It had.
    """
    for number in {entry.file.schema_id for entry in group}:
        for then in state.schema_by_id(number).fields:
            if then.id == field.id and _key_type(then) != _key_type(field):
                raise UnsupportedError(
                    f"column {field.name!r} is {then.type} in data file {group[0].file.file_name}, and {field.type} "
                    "now: the table is indexed by keys of one type",
                    location=state.name,
                )


def _key_type(field: DataField) -> str:
    return str(field.type).removesuffix(" NOT NULL")


# Execution -----------------------------------------------------------------------------------------------------------


def _write_index(state: PaimonState, layout: WriteLayout, found: _Range) -> list[IndexManifestEntry]:
    """Sort the keys of a range of rows, and write them to files of about equal size."""
    type_ = found.field.type
    assert isinstance(type_, AtomicType)
    ordered = _sorted_rows(state, found, type_)
    most = int(layout.options.btree_records_per_range * _SURPLUS)
    added = []
    nulls = ordered.nulls
    for start in range(0, max(len(ordered.rows), 1), most):
        part = SortedRows(ordered.keys.slice(start, most), ordered.rows[start : start + most], nulls)
        nulls = nulls[:0]
        count = len(part.rows) + len(part.nulls)
        if not count:
            continue
        data, meta = encode_btree(type_, part, layout.options.btree_block_bytes)
        name = f"btree-global-index-{layout.new_name()}.index"
        layout.storage.write(layout.index_file(found.partition, 0, name), data)
        covered = GlobalIndexMeta(found.first, found.end - 1, found.field.id, None, meta)
        added.append(IndexManifestEntry(found.partition, 0, TYPE, name, len(data), count, global_index=covered))
    return added


def _sorted_rows(state: PaimonState, found: _Range, type_: AtomicType) -> SortedRows:
    column = state.arrow_schema.field(found.field.name)
    keys: list[pa.Array] = []
    rows: list[pa.Array] = []
    nulls: list[pa.Array] = []
    for batch in SplitReader(state, pa.schema([column, ROW_ID_FIELD])).batches([found.split]):
        values, ids = batch.column(0), pc.subtract(batch.column(1), found.first)
        valid = values.is_valid()
        nulls.append(ids.filter(pc.invert(valid)))
        rows.append(ids.filter(valid))
        kept = values.drop_null()
        keys.append(kept.cast(pa.large_binary()) if is_text(type_) else pa.array(as_longs(type_, kept)))
    key_type = pa.large_binary() if is_text(type_) else pa.int64()
    table = pa.table(
        [_one(keys, key_type), _one(rows, pa.int64())], schema=pa.schema([("key", key_type), ("row", pa.int64())])
    ).sort_by([("key", "ascending"), ("row", "ascending")])
    ordered = table.column("key").combine_chunks()
    without = np.sort(_one(nulls, pa.int64()).to_numpy())
    return SortedRows(ordered, table.column("row").to_numpy().astype(np.int64), without)


def _one(parts: list[pa.Array], type_: pa.DataType) -> pa.Array:
    return pa.chunked_array(parts, type_).combine_chunks()
