"""Conflicts with what others have committed.

Spec: docs/formats/paimon.md § 4.2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from skerry.errors import ConflictError, FormatError
from skerry.paimon.manifests.index_manifest import IndexManifestEntry
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.manifests.manifest import FileIdentity, FileKind, ManifestEntry
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations.change import IndexChange
from skerry.paimon.planning.sections import check_levels as check_overlaps
from skerry.paimon.planning.sections import key_ranges

__all__ = ["check_entries", "check_indexes", "check_levels", "check_row_ranges"]


def _conflict(message: str) -> ConflictError:
    return ConflictError(message, retryable=False)


def check_entries(live: Iterable[ManifestEntry], entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Refuse to delete missing files, and to add existing ones.

    Args:
        live: The base's files, at least those of the partitions that are touched.
        entries: The entries to commit, in order.

    Returns:
        The files after the commit.

    Raises:
        ConflictError: Another writer was first; the work must be repeated.
    """
    after: dict[FileIdentity, ManifestEntry] = {entry.identity: entry for entry in live}
    for entry in entries:
        name = entry.file.file_name
        if entry.kind is FileKind.ADD:
            if entry.identity in after:
                raise _conflict(f"data file {name} is already in the table")
            after[entry.identity] = entry
        elif after.pop(entry.identity, None) is None:
            raise _conflict(f"data file {name} was removed by another writer")
    return list(after.values())


def check_levels(live: Sequence[ManifestEntry], schema: TableSchema) -> None:
    """Refuse overlapping keys of two files at a level from 1 on.

    Args:
        live: The files after the commit.
        schema: Whose keys they are.

    Raises:
        ConflictError: Another writer has added files there.
    """
    leveled = [entry for entry in live if entry.file.level > 0]
    if len(leveled) < 2:
        return
    places = {key: number for number, key in enumerate(sorted({(entry.partition, entry.bucket) for entry in leveled}))}
    ranges = key_ranges(
        pa.array([entry.file.min_key for entry in leveled], pa.binary()),
        pa.array([entry.file.max_key for entry in leveled], pa.binary()),
        schema.key_fields,
    )
    groups = np.array([places[entry.partition, entry.bucket] for entry in leveled], np.int64)
    try:
        check_overlaps(groups, np.array([entry.file.level for entry in leveled], np.int64), ranges)
    except FormatError as error:
        raise _conflict(f"another writer has added files to the same level: {error.message}") from error


def check_indexes(now: Iterable[IndexManifestEntry], change: IndexChange, entries: Collection[ManifestEntry]) -> None:
    """Refuse to remove missing index files, and to overlook deleted rows.

    Args:
        now: The base's index files.
        change: Their change.
        entries: Data files to add and delete.

    Raises:
        ConflictError: Another writer was first; the work must be repeated.
    """
    known = {_index_key(entry): entry for entry in now}
    for entry in change.removed:
        if known.pop(_index_key(entry), None) is None:
            raise _conflict(f"index file {entry.file_name} was replaced by another writer")
    staying = {key for entry in known.values() for key in _with_vectors(entry)}
    names = {kind: {_file_key(entry) for entry in entries if entry.kind is kind} for kind in FileKind}
    gone = names[FileKind.DELETE] - names[FileKind.ADD]  # what is added again has only other metadata
    marked = {key for entry in change.added for key in _with_vectors(entry)}
    for _, _, name in staying & (gone | marked):
        raise _conflict(f"rows of data file {name} were deleted by another writer")


def check_row_ranges(state: PaimonState, entries: Iterable[ManifestEntry], base: PaimonState) -> None:
    """Refuse a base in which others have written columns of rows that some files have.

    Args:
        state: The state that was read.
        entries: The files, of that state.
        base: The newest state.

    Raises:
        ConflictError: They have; the work must be repeated.
    """
    if base.snapshot == state.snapshot:
        return
    ranges: dict[bytes, set[tuple[int, int]]] = {}
    for entry in entries:
        first = entry.file.first_row_id
        if first is not None:
            ranges.setdefault(entry.partition, set()).add((first, first + entry.file.row_count))
    bounds = {partition: np.array(sorted(found), np.int64) for partition, found in ranges.items()}
    known = {entry.file.file_name for entry in live_entries(state, ranges)}
    for entry in live_entries(base, ranges):
        first, found = entry.file.first_row_id, bounds[entry.partition]
        if first is None or entry.file.file_name in known:
            continue
        place = int(np.searchsorted(found[:, 0], first, side="right")) - 1
        if place >= 0 and first < found[place, 1]:
            raise ConflictError(
                f"another writer has added columns of the same rows: {entry.file.file_name}",
                location=base.name,
                retryable=False,
            )


def _file_key(entry: ManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.file_name


def _index_key(entry: IndexManifestEntry) -> tuple[bytes, int, str, str]:
    return entry.partition, entry.bucket, entry.index_type, entry.file_name


def _with_vectors(entry: IndexManifestEntry) -> Iterator[tuple[bytes, int, str]]:
    """The data files whose deletion vectors an index file holds."""
    for vector in entry.deletion_vectors_ranges or ():
        yield entry.partition, entry.bucket, vector.data_file_name
