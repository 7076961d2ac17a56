"""Which delete files apply to which data files.

All pairs are found with joins on columns: by the path of the data file, by partition, and by age. Bounds then exclude
deletes that cannot apply to a file. No Python objects are created here.

Spec: Iceberg spec, Scan Planning: rules for deletion vectors, position deletes and equality deletes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError
from skerry.iceberg.manifests.avro_schemas import DATA_FILE_FIELDS, ENTRY_FIELDS, arrow_type
from skerry.iceberg.manifests.file_batch import FileBatch
from skerry.iceberg.manifests.manifest import FileContent
from skerry.iceberg.manifests.references import path_bounds, referenced_files
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.transforms import VoidTransform
from skerry.iceberg.partitioning.partitions import number_tuples
from skerry.iceberg.planning.key_ranges import KeyRanges, equality_columns, join_metrics
from skerry.iceberg.planning.metrics import column_metrics

__all__ = ["DELETE_COLUMNS", "Assignment", "DeleteIndex", "no_deletes"]

DELETE_COLUMNS = (
    "status",
    "content",
    "file_path",
    "file_format",
    "partition",
    "record_count",
    "file_size_in_bytes",
    "sequence_number",
    "key_metadata",
    "equality_ids",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)
"""The columns of delete manifests from which the index is built."""

_MAX_PAIRS = 1 << 20
"""Pairs that are checked at a time."""
_RULE = "Iceberg spec, Scan Planning"

_TYPES = pa.schema(
    [
        pa.field(field.name, arrow_type(field.type))
        for field in (*ENTRY_FIELDS, *DATA_FILE_FIELDS)
        if field.name in DELETE_COLUMNS and field.name != "partition"
    ]
)

_Integers: TypeAlias = npt.NDArray[np.int64]
_Mask: TypeAlias = npt.NDArray[np.bool_]
_Filter: TypeAlias = Callable[[_Integers, _Integers], _Mask]


@dataclass(frozen=True, slots=True)
class Assignment:
    """The delete files of every data file.

    Args:
        offsets: int64[files + 1] Where the deletes of each file begin in `rows`.
        rows: int64[pairs] Rows of the index's delete files, for each data file the oldest first.
    """

    offsets: _Integers
    rows: _Integers


class DeleteIndex:
    """The delete files of a snapshot, ready to be assigned.

    Args:
        batches: Live delete files with `DELETE_COLUMNS`.
        schema: The schema of the scan, for the types of equality columns.

    Raises:
        FormatError: A delete file lacks a required field.
    """

    def __init__(self, batches: Sequence[FileBatch], schema: Schema) -> None:
        self._batches = batches
        tables = [pa.Table.from_batches([batch.files.select(_TYPES.names)]) for batch in batches]
        joined = pa.concat_tables([_TYPES.empty_table(), *tables])
        self.files = pa.RecordBatch.from_arrays([_combined(column) for column in joined.columns], schema=_TYPES)
        """The delete files, a row each; `partition` left out."""
        content = self._numbers("content")
        is_puffin = pc.equal(pc.utf8_lower(self.files.column("file_format")), "puffin").to_numpy(zero_copy_only=False)
        self._is_keys = content == FileContent.EQUALITY_DELETES
        self._is_vector = ~self._is_keys & is_puffin
        self._check(content)
        self._sequence = self._numbers("sequence_number")
        self._path_bounds = path_bounds(self.files)
        named = referenced_files(self.files, self._is_vector)
        self._references = pc.if_else(pa.array(self._is_keys), pa.scalar(None, pa.binary()), named)
        index = self.files.schema.get_field_index("referenced_data_file")
        self.files = self.files.set_column(index, "referenced_data_file", self._references.cast("string"))
        self.key_columns = equality_columns(self.files.column("equality_ids").filter(pa.array(self._is_keys)), schema)
        """The equality columns whose metrics `assign` compares."""

    def _numbers(self, name: str) -> _Integers:
        return self.files.column(name).to_numpy(zero_copy_only=False).astype(np.int64)

    def _check(self, content: _Integers) -> None:
        needs = (
            (self._is_vector, "referenced_data_file", "a deletion vector"),
            (self._is_vector, "content_offset", "a deletion vector"),
            (self._is_vector, "content_size_in_bytes", "a deletion vector"),
            (self._is_keys, "equality_ids", "an equality delete file"),
        )
        for concerned, name, what in needs:
            column = self.files.column(name)
            empty = column.is_null() if name != "equality_ids" else pc.less(pc.fill_null(column.value_lengths(), 0), 1)
            self._refuse(concerned & empty.to_numpy(zero_copy_only=False), f"{what} has no {name}")
        self._refuse(content == FileContent.DATA, "a manifest of delete files contains data files")

    def _refuse(self, rows: _Mask, problem: str) -> None:
        if rows.any():
            location = self.files.column("file_path")[int(rows.argmax())].as_py()
            raise FormatError(problem, location=location, rule=_RULE)

    # ---- assigning ----

    def assign(self, batches: Sequence[FileBatch]) -> Assignment:
        """Find the delete files of data files.

        Args:
            batches: Data files with `file_path`, `partition` and `sequence_number`, and the metrics of `key_columns`.

        Returns:
            The deletes of all files of all batches, in their order.

        Raises:
            FormatError: A data file has two deletion vectors.

        Spec: Iceberg spec, Scan Planning. Vectors and position deletes apply to files of their own age, equality
        deletes only to older ones. A vector supersedes position deletes. Equality deletes without a partition are
        global.
        """
        count = sum(batch.files.num_rows for batch in batches)
        if not self.files.num_rows or not count:
            return Assignment(np.zeros(count + 1, np.int64), np.zeros(0, np.int64))
        ages = _Ages(np.concatenate([batch.column("sequence_number") for batch in batches]), self._sequence)
        paths = pa.chunked_array([batch.files.column("file_path") for batch in batches]).combine_chunks().cast("binary")
        by_path, path_codes = self._by_path(paths)
        file_groups, delete_groups = self._partition_groups(batches)
        positions = ~self._is_keys & (by_path < 0)
        ranks = self._path_filter(paths, positions)
        vectors = _join(ages, path_codes, by_path, self._is_vector)
        self._check_vectors(paths, vectors[0])
        no_vector = np.ones(count, bool)
        no_vector[vectors[0]] = False
        may_meet = self._key_filter(batches)
        global_ = self._is_keys & (delete_groups == _GLOBAL)
        found = [
            vectors,
            _join(ages, np.where(no_vector, path_codes, -1), by_path, ~self._is_vector & (by_path >= 0)),
            _join(ages, np.where(no_vector, file_groups, -1), delete_groups, positions, keep=ranks),
            _join(ages, file_groups, delete_groups, self._is_keys & ~global_, strictly=True, keep=may_meet),
            _join(ages, np.full(count, _GLOBAL), delete_groups, global_, strictly=True, keep=may_meet),
        ]
        files, deletes = (np.concatenate([pairs[side] for pairs in found]) for side in (0, 1))
        order = np.lexsort((deletes, self._sequence[deletes], files))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(files, minlength=count))])
        return Assignment(offsets, deletes[order])

    def _key_filter(self, batches: Sequence[FileBatch]) -> _Filter | None:
        """Whether a data file may contain a key of equality deletes, by its metrics."""
        if not self.key_columns:
            return None
        of_column = column_metrics(self.files)
        ids = self.files.column("equality_ids")
        parents, keys = (side.to_numpy() for side in (pc.list_parent_indices(ids), ids.flatten()))
        deletes = {column.field_id: found for column in self.key_columns if (found := of_column(column)) is not None}
        files = {key: join_metrics([batch.keys[key] for batch in batches]) for key in deletes}
        compared = {key: np.zeros(self.files.num_rows, bool) for key in deletes}
        for key, mask in compared.items():
            mask[parents[keys == key]] = True
        return KeyRanges(compared, deletes, files).judge()

    def _by_path(self, paths: pa.Array) -> tuple[_Integers, _Integers]:
        """A number per referenced data file, for every delete and every data file; -1 for none."""
        names = self._references.drop_null().unique()
        codes = [pc.fill_null(pc.index_in(side, value_set=names), -1) for side in (self._references, paths)]
        of_deletes, of_files = (code.to_numpy(zero_copy_only=False).astype(np.int64) for code in codes)
        of_deletes[self._references.is_null().to_numpy(zero_copy_only=False)] = -1
        return of_deletes, of_files

    def _check_vectors(self, paths: pa.Array, files: _Integers) -> None:
        several = np.flatnonzero(np.diff(files) == 0)
        if len(several):
            location = paths[int(files[several[0]])].as_py().decode(errors="replace")
            raise FormatError(
                "a data file has two deletion vectors", location=location, rule="Iceberg spec, Deletion Vectors"
            )

    def _path_filter(self, paths: pa.Array, concerned: _Mask) -> _Filter | None:
        """Whether the path of a data file is within the bounds of the paths in position deletes."""
        if not concerned.any():
            return None
        both = pa.concat_arrays([paths, *self._path_bounds])
        # nulls have the highest rank: an unknown upper bound is above all paths
        ranks = pc.rank(both, tiebreaker="dense").to_numpy().astype(np.int64)
        of_files, lower, upper = np.split(ranks, [len(paths), len(paths) + self.files.num_rows])
        lower = np.where(self._path_bounds[0].is_null().to_numpy(zero_copy_only=False), 0, lower)

        def within(files: _Integers, deletes: _Integers) -> _Mask:
            return (lower[deletes] <= of_files[files]) & (of_files[files] <= upper[deletes])

        return within

    def _partition_groups(self, batches: Sequence[FileBatch]) -> tuple[_Integers, _Integers]:
        """A number per partition, for every data file and every delete file.

        Equality deletes of an unpartitioned spec are `_GLOBAL`; data files whose spec has no delete files are -1.
        """
        of_files = [np.full(batch.files.num_rows, -1, np.int64) for batch in batches]
        of_deletes = [np.full(batch.files.num_rows, -1, np.int64) for batch in self._batches]
        first = 0
        for spec_id in {batch.spec.spec_id for batch in self._batches}:
            sides = [
                (groups[row], batch)
                for groups, side in ((of_files, batches), (of_deletes, self._batches))
                for row, batch in enumerate(side)
                if batch.spec.spec_id == spec_id
            ]
            structs = [pa.Table.from_struct_array(batch.files.column("partition")) for _, batch in sides]
            total = sum(batch.files.num_rows for _, batch in sides)
            table = pa.concat_tables(structs, promote_options="permissive")
            numbers = first + number_tuples(table.columns, total)
            start = 0
            for groups, _ in sides:
                groups[:] = numbers[start : start + len(groups)]
                start += len(groups)
            first += total
        for groups, batch in zip(of_deletes, self._batches, strict=True):
            if is_unpartitioned(batch.spec):
                groups[batch.column("content") == FileContent.EQUALITY_DELETES] = _GLOBAL
        return np.concatenate(of_files), np.concatenate(of_deletes)


@functools.cache
def no_deletes() -> DeleteIndex:
    """The index of a snapshot without delete files."""
    return DeleteIndex((), Schema())


_GLOBAL = -2


def is_unpartitioned(spec: PartitionSpec) -> bool:
    """Whether a spec is unpartitioned in effect: fields that were dropped in version 1 remain as void."""
    return all(isinstance(field.transform, VoidTransform) for field in spec.fields)


def _combined(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


# Joins ---------------------------------------------------------------------------------------------------------------


class _Ages:
    """Data sequence numbers of data files and deletes as ranks, so that group and age fit one number."""

    def __init__(self, files: _Integers, deletes: _Integers) -> None:
        distinct, ranks = np.unique(np.concatenate([files, deletes]), return_inverse=True)
        self.files, self.deletes = np.split(ranks.astype(np.int64), [len(files)])
        self.count = len(distinct) + 1


def _join(
    ages: _Ages,
    file_groups: _Integers,
    delete_groups: _Integers,
    concerned: _Mask,
    *,
    strictly: bool = False,
    keep: _Filter | None = None,
) -> tuple[_Integers, _Integers]:
    """Pairs of data files and deletes of one group where the delete is not older (or strictly younger).

    Args:
        ages: The ages of data files and deletes.
        file_groups: int64[files], -1 for files without a group.
        delete_groups: int64[deletes].
        concerned: bool[deletes] Which deletes are joined.
        strictly: Whether deletes of the same age do not count.
        keep: Selects the pairs to keep.

    Returns:
        Rows of data files and rows of deletes, by ascending data file.
    """
    rows = np.flatnonzero(concerned)
    keys = delete_groups[rows] * ages.count + ages.deletes[rows]
    rows, keys = rows[np.argsort(keys, kind="stable")], np.sort(keys)
    own = file_groups * ages.count
    starts = np.searchsorted(keys, own + ages.files + strictly)
    stops = np.searchsorted(keys, own + ages.count)
    stops = np.where(file_groups == -1, starts, np.maximum(starts, stops))
    found = [
        (files, rows[positions]) if keep is None else _kept(keep, files, rows[positions])
        for files, positions in _expand(starts, stops)
    ]
    return _joined([files for files, _ in found]), _joined([deletes for _, deletes in found])


def _kept(keep: _Filter, files: _Integers, deletes: _Integers) -> tuple[_Integers, _Integers]:
    mask = keep(files, deletes)
    return files[mask], deletes[mask]


def _joined(parts: list[_Integers]) -> _Integers:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _expand(starts: _Integers, stops: _Integers) -> Iterator[tuple[_Integers, _Integers]]:
    """The numbers of many ranges with the range of each, in chunks that take little memory."""
    lengths = stops - starts
    ends = np.cumsum(lengths)
    first = 0
    while first < len(starts):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + _MAX_PAIRS, side="right")))
        counts = lengths[first:last]
        ranges = np.repeat(np.arange(first, last), counts)
        within = np.arange(len(ranges)) - np.repeat(np.cumsum(counts) - counts, counts)
        yield ranges, starts[ranges] + within
        first = last
