"""Storage of an Iceberg table's samples: in the statistics file of a snapshot, outside any blob.

Properties of the file's footer contain the offset and checksum of the bytes, and the snapshot that they describe. Other
readers ignore them. If they are lost, because another engine rewrote the statistics file or the snapshot has expired,
nothing breaks: files lack samples until they are sketched again.

Spec: docs/formats/samples.md § 1; Puffin spec, File structure; Iceberg spec, Table Statistics.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skerry.iceberg.metadata.history import ancestors
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.statistics.known_samples import known_sample, open_statistics
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.rows.values import arrow_storage
from skerry.table.statistics.file_groups import deletes_key, key_of
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.pieces.chain import rows_of
from skerry.table.statistics.row_sample import RowSample
from skerry.table.statistics.table_sample import TableSample, delete_name
from skerry.theta import Sample
from skerry.theta.layout import EMPTY_SKETCH

if TYPE_CHECKING:
    from skerry.iceberg.planning.planned_files import PlannedFiles
    from skerry.table.files.scan_task import FileScanTask

__all__ = [
    "deletes_of",
    "live_deletes",
    "live_files",
    "published_sample",
    "read_rows",
    "read_sample",
    "sample_of",
]


def read_sample(state: TableState, snapshot: Snapshot) -> TableSample | None:
    """The samples of a snapshot from its statistics file, for the table's current columns; None if there are none.

    Samples that cannot be read count as lost, without an error: the files are sketched again when needed.
    """
    known = known_sample(state, snapshot)
    if known is None:
        return None
    chain = known.chain
    groups = _as_columns_are_now(state, known.groups(), chain.schema_id, chain.last_column_id)
    hashed = state.column_types(chain.schema_id)
    own = known.own.with_columns(
        leaf.field_id for leaf in leaves(state.schema) if hashed.get(leaf.field_id) == leaf.type
    )
    return TableSample(groups, known.missing_files, own)


def read_rows(state: TableState, snapshot: Snapshot) -> tuple[RowSample | None, int]:
    """The sampled rows of a snapshot, None if there are none, and the number of files that no sample covers."""
    found = rows_of(functools.partial(open_statistics, state), str(snapshot.snapshot_id))
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


def _as_columns_are_now(state: TableState, groups: GroupSamples, schema_id: int, last_column_id: int) -> GroupSamples:
    """The samples of the table's current columns, from those of the columns of another time.

    A column whose type has changed is left out: old values were hashed as the old type's bytes. A column that was added
    since has its default, or null, in all sampled rows.
    """
    hashed = state.column_types(schema_id)
    columns = leaves(state.schema)
    kept = groups.with_columns([leaf.field_id for leaf in columns if hashed.get(leaf.field_id) == leaf.type])
    added = [leaf for leaf in columns if leaf.field_id > last_column_id]
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
