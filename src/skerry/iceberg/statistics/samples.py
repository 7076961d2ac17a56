"""Storage of an Iceberg table's samples: in the statistics file of a snapshot, outside any blob.

Properties of the file's footer contain the offset and checksum of the bytes, and the snapshot that they describe. Other
readers ignore them. If they are lost, because another engine rewrote the statistics file or the snapshot has expired,
nothing breaks: files lack samples until they are sketched again.

Spec: docs/formats/samples.md § 1; Puffin spec, File structure; Iceberg spec, Table Statistics.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skerry.iceberg.metadata.history import ancestors
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.statistics.sample_pieces import (
    SamplePieces,
    pieces_of,
    rows_of,
)
from skerry.puffin import PuffinReader
from skerry.storage import Storage
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.rows.values import arrow_storage
from skerry.table.statistics.file_groups import deletes_key, key_of
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.row_sample import RowSample
from skerry.table.statistics.table_sample import TableSample, delete_name, max_groups
from skerry.table.work.batch_cache import version_of
from skerry.table.work.remembered import Remembered
from skerry.theta import Sample
from skerry.theta.layout import EMPTY_SKETCH

if TYPE_CHECKING:
    from skerry.iceberg.planning.planned_files import PlannedFiles
    from skerry.table.files.scan_task import FileScanTask

__all__ = [
    "deletes_of",
    "keep_pieces",
    "live_deletes",
    "live_files",
    "paths_of",
    "published_sample",
    "read_pieces",
    "read_rows",
    "read_sample",
    "sample_of",
]


def read_sample(state: TableState, snapshot: Snapshot) -> TableSample | None:
    """The samples of a snapshot from its statistics file, for the table's current columns; None if there are none.

    Samples that cannot be read count as lost, without an error: the files are sketched again when needed.
    """
    pieces = read_pieces(state, snapshot)
    if pieces is None:
        return None
    groups = _as_columns_are_now(state, pieces.groups(max_groups(state.properties)), pieces)
    hashed = state.column_types(pieces.schema_id)
    own = pieces.own.with_columns(
        leaf.field_id for leaf in leaves(state.schema) if hashed.get(leaf.field_id) == leaf.type
    )
    return TableSample(groups, pieces.missing_files, own)


def read_pieces(state: TableState, snapshot: Snapshot) -> SamplePieces | None:
    """The samples of a snapshot as its statistics file and the earlier ones that this continues hold them.

    None if there are none, or if one of the pieces is lost. What this process read or wrote last is not read again.
    """
    file = state.statistics_file(snapshot.snapshot_id)
    if file is None:
        return None
    known = _KNOWN.find(file.statistics_path)
    if known is not None and known.is_valid(state):
        return known.pieces
    found = pieces_of(functools.partial(_open_file, state), snapshot.snapshot_id)
    paths = None if found is None else paths_of(state, found)
    if found is not None and paths is not None:
        keep_pieces(state.storage, paths, found)
    return found


def paths_of(state: TableState, pieces: SamplePieces) -> tuple[str, ...] | None:
    """The statistics files that are registered for the parts of a sample; None if one has none."""
    files = [state.statistics_file(link.snapshot_id) for link in pieces.links]
    paths = tuple(file.statistics_path for file in files if file is not None)
    return paths if len(paths) == len(files) else None


def keep_pieces(storage: Storage, paths: tuple[str, ...], pieces: SamplePieces) -> None:
    """Remember samples.

    Args:
        storage: Access to their files.
        paths: The statistics files of the parts.
        pieces: The samples as these files hold them.
    """
    versions = _versions(storage, paths)
    if versions is not None:
        _KNOWN.keep(paths[-1], _KnownPieces(paths, versions, pieces))


@dataclass(frozen=True, slots=True, eq=False)
class _KnownPieces:
    """Samples, and the files that held them."""

    paths: tuple[str, ...]
    versions: tuple[object, ...]
    pieces: SamplePieces

    def is_valid(self, state: TableState) -> bool:
        """Whether these files are there as they were, and registered for the parts."""
        return paths_of(state, self.pieces) == self.paths and _versions(state.storage, self.paths) == self.versions


def _versions(storage: Storage, paths: tuple[str, ...]) -> tuple[object, ...] | None:
    found = tuple(version_of(storage, path) for path in paths)
    return None if None in found else found


_KNOWN: Final[Remembered[str, _KnownPieces]] = Remembered(
    64, limit_bytes=64 << 20, size_of=lambda known: known.pieces.size_bytes
)


def _open_file(state: TableState, snapshot_id: int) -> PuffinReader | None:
    file = state.statistics_file(snapshot_id)
    if file is None:
        return None
    return PuffinReader(
        file.statistics_path,
        storage=state.storage,
        file_size=file.file_size_in_bytes,
        footer_size=file.file_footer_size_in_bytes,
    )


def read_rows(state: TableState, snapshot: Snapshot) -> tuple[RowSample | None, int]:
    """The sampled rows of a snapshot, None if there are none, and the number of files that no sample covers."""
    found = rows_of(functools.partial(_open_file, state), snapshot.snapshot_id)
    if found is not None:
        return found
    sample = published_sample(state, snapshot)
    return (None, 0) if sample is None else (sample.groups.rows, sample.missing_files)


def sample_of(state: TableState, snapshot: Snapshot | None) -> TableSample:
    """The samples for a snapshot: from its own statistics file, or from that of its newest ancestor that has one.

    In the latter case the snapshot's files are planned, to find out which of them the ancestor's samples cover.
    """
    if snapshot is None:
        return TableSample()
    return published_sample(state, snapshot) or TableSample(missing_files=len(live_files(state, snapshot)))


def published_sample(state: TableState, snapshot: Snapshot) -> TableSample | None:
    """As `sample_of`; None if there are no samples, which is known without the snapshot's manifests."""
    own = read_sample(state, snapshot)
    if own is not None:
        return own
    for ancestor in list(ancestors(state.metadata, snapshot))[1:]:
        found = read_sample(state, ancestor)
        if found is not None:
            return found.with_missing(live_deletes(state, snapshot))
    return None


def live_files(state: TableState, snapshot: Snapshot) -> PlannedFiles:
    """All data files of a snapshot, with their deletes."""
    from skerry.iceberg.reading.scan import scan_planner  # not needed where published sketches answer

    return scan_planner(state, state.metadata.schema()).plan(snapshot).tasks


def live_deletes(state: TableState, snapshot: Snapshot) -> dict[int, int]:
    """By key of the location, the key of the deletes of each data file of a snapshot."""
    return {key_of(task.data_file.location): deletes_of(task) for task in live_files(state, snapshot)}


def deletes_of(task: FileScanTask) -> int:
    """The key of the deletes that apply to a data file."""
    return deletes_key(delete_name(delete.location, delete.content_offset) for delete in task.deletes)


# Columns -------------------------------------------------------------------------------------------------------------


def _as_columns_are_now(state: TableState, groups: GroupSamples, pieces: SamplePieces) -> GroupSamples:
    """The samples of the table's current columns.

    A column whose type has changed is left out: old values were hashed as the old type's bytes. A column that was added
    since has its default, or null, in all sampled rows.
    """
    hashed = state.column_types(pieces.schema_id)
    columns = leaves(state.schema)
    kept = groups.with_columns([leaf.field_id for leaf in columns if hashed.get(leaf.field_id) == leaf.type])
    added = [leaf for leaf in columns if leaf.field_id > pieces.last_column_id]
    if not added:
        return kept
    from skerry.iceberg.reading.known_table import column_defaults

    defaults = column_defaults(state.metadata.schema())
    # the values that defaults of structs have for their fields
    inside = {number for value in defaults.values() if isinstance(value, tuple) for number in _ids_within(value)}
    for leaf in added:
        if len(leaf.path) > 1 and (leaf.field_id in defaults or leaf.field_id in inside):
            continue  # a default in a struct only applies where the struct is not null, which is unknown here
        value = _sample_of_default(leaf, defaults).compact
        kept = kept.with_column(leaf.field_id, [value if group.row_count else EMPTY_SKETCH for group in kept.groups])
    return kept


def _ids_within(value: tuple[Any, ...]) -> Iterator[int]:
    """The first members of pairs in a default, at every depth: among them are the field ids of structs."""
    for part in value:
        if isinstance(part, tuple):
            if part and isinstance(part[0], int):
                yield part[0]
            yield from _ids_within(part)


def _sample_of_default(leaf: Leaf, defaults: Mapping[int, object]) -> Sample:
    sample = Sample()
    if leaf.field_id in defaults:
        sample.update(pa.array([defaults[leaf.field_id]], arrow_storage(leaf.type)))
    return sample
