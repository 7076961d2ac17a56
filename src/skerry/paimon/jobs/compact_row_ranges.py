"""Compaction where several files have columns of the same rows: neighbours in row ids become one file of all columns.

Rows keep their ids, so that a new file has every row of the old ones, deleted rows too: their deletion vector moves
with them. Files of BLOB and VECTOR columns stay.

Spec: docs/formats/paimon.md § 8.10, § 10.5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from skerry.paimon.manifests.index_manifest import IndexManifestEntry
from skerry.paimon.manifests.manifest import FileSource, ManifestEntry
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.deletion_positions import Positions, deleted_positions
from skerry.paimon.planning.file_splits import FileSplits
from skerry.paimon.planning.row_sections import is_dedicated_name, stitched_entries
from skerry.paimon.planning.splits import VectorLocation
from skerry.paimon.planning.vector_locations import VectorKey
from skerry.paimon.reading.rows import SplitReader
from skerry.paimon.writing.data_files import BucketFiles, BucketLocation, WrittenDataFile
from skerry.paimon.writing.layout import WriteLayout

__all__ = ["ONE_FILE", "plan_row_ranges", "retyped_indexes", "stitch_rows"]

ONE_FILE: Final = {"target-file-size": f"{1 << 50} b"}
"""Options of a file that has all rows of a range, whatever its size."""

_Group: TypeAlias = Sequence[ManifestEntry]


def plan_row_ranges(
    entries: Sequence[ManifestEntry], layout: WriteLayout, least: int, *, location: str
) -> Iterator[list[ManifestEntry]]:
    """Which files of a partition become one.

    Args:
        entries: Its files.
        layout: With the target size of files.
        least: Number of files from which on they are rewritten.
        location: The table, for messages.

    Yields:
        Files of rows whose ids follow each other, without those of BLOB and VECTOR columns, in the order of ids.
    """
    for run in _runs(stitched_entries(entries, location=location)):
        waiting: list[ManifestEntry] = []
        size = 0
        for group in run:
            files = [entry for entry in group if not is_dedicated_name(entry.file.file_name)]
            weight = sum(max(entry.file.file_size, layout.options.split_open_file_cost) for entry in files)
            if weight > layout.target_file_size:
                yield from _worth(waiting, least)
                yield from _worth(files, least)
                waiting, size = [], 0
                continue
            waiting, size = waiting + files, size + weight
            if size > layout.target_file_size:
                yield from _worth(waiting, least)
                waiting, size = [], 0
        yield from _worth(waiting, least)


def _worth(files: list[ManifestEntry], least: int) -> Iterator[list[ManifestEntry]]:
    if len(files) >= max(least, 2):
        yield files


def _runs(groups: Sequence[_Group]) -> Iterator[list[_Group]]:
    """Groups whose rows follow each other, with the same columns in files of their own."""
    run: list[_Group] = []
    for group in groups:
        if group[0].file.first_row_id is None:
            continue
        if run and (_end(run[-1]) != group[0].file.first_row_id or _apart(run[-1]) != _apart(group)):
            yield run
            run = []
        run.append(group)
    if run:
        yield run


def _end(group: _Group) -> int:
    return (group[0].file.first_row_id or 0) + group[0].file.row_count


def _apart(group: _Group) -> object:
    """The columns that a group has in files of their own; a group that has some of them for some rows stays alone."""
    counts: dict[tuple[str, ...], int] = {}
    for entry in group:
        if is_dedicated_name(entry.file.file_name):
            columns = entry.file.write_cols or ()
            counts[columns] = counts.get(columns, 0) + entry.file.row_count
    is_whole = all(count % group[0].file.row_count == 0 for count in counts.values())
    return frozenset(counts) if is_whole else object()


def stitch_rows(
    state: PaimonState,
    layout: WriteLayout,
    bucket: BucketLocation,
    entries: Sequence[ManifestEntry],
    vectors: Mapping[VectorKey, VectorLocation],
) -> tuple[WrittenDataFile, Mapping[VectorKey, Positions]]:
    """Write the columns of a range of rows to one file.

    Args:
        state: The table.
        layout: How its files are written.
        bucket: Where to.
        entries: The files, as `plan_row_ranges` gives them.
        vectors: Their deletion vectors.

    Returns:
        The file, and its deleted rows if there are any.
    """
    layout = replace(layout.ordinary, schema=replace(layout.schema, options={**layout.schema.options, **ONE_FILE}))
    # deleted rows would be among the sketched ones
    files = BucketFiles(layout, bucket, source=FileSource.COMPACT, sketches=not vectors)
    columns = pa.schema([state.arrow_schema.field(field.name) for field in layout.value_fields])
    reader = SplitReader(state, columns, memory_bytes=state.options.merge_memory_bytes)
    try:
        for batch in reader.batches([FileSplits(state, layout, {}).raw(entries)]):
            files.write(pa.Table.from_batches([batch]))
        (written,) = files.close()
    except BaseException:
        files.abort()
        raise
    first = entries[0].file.first_row_id
    assert first is not None
    file = replace(
        written.file,
        first_row_id=first,
        min_sequence_number=min(entry.file.min_sequence_number for entry in entries),
        max_sequence_number=max(entry.file.max_sequence_number for entry in entries),
    )
    deleted = _deleted(state, FileSplits(state, layout, vectors), entries, first)
    key = bucket.partition, bucket.number, file.file_name
    return replace(written, file=file), {key: deleted} if len(deleted) else {}


def _deleted(state: PaimonState, splits: FileSplits, entries: Sequence[ManifestEntry], first: int) -> Positions:
    """int64[n] The deleted rows of a range, counted from its first."""
    parts = [np.zeros(0, np.int64)]
    for entry in entries:
        positions = deleted_positions(splits.file(entry), state.storage.read)
        parts.append(positions + ((entry.file.first_row_id or 0) - first))
    return np.unique(np.concatenate(parts))


def retyped_indexes(
    state: PaimonState, removed: Collection[ManifestEntry], indexes: Sequence[IndexManifestEntry]
) -> tuple[IndexManifestEntry, ...]:
    """The global indexes of columns that had another type in removed files: their keys are of that type.

    As long as there are such files, no index of the column is used; then it must be built again.
    """
    now = {field.id: str(field.type) for field in state.schema.fields}
    partitions = {entry.partition for entry in removed}
    retyped = {
        field.id
        for number in {entry.file.schema_id for entry in removed}
        for field in state.schema_by_id(number).fields
        if now.get(field.id, str(field.type)).removesuffix(" NOT NULL") != str(field.type).removesuffix(" NOT NULL")
    }
    return tuple(
        entry
        for entry in indexes
        if entry.global_index is not None
        and entry.partition in partitions
        and retyped & {entry.global_index.index_field_id, *(entry.global_index.extra_field_ids or ())}
    )
