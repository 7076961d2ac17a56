"""Storage of an Iceberg table's samples: in the statistics file of a snapshot, outside any blob.

Properties of the file's footer contain the offset and checksum of the bytes, and the snapshot that they describe. Other
readers ignore them. If they are lost, because another engine rewrote the statistics file or the snapshot has expired,
nothing breaks: files lack samples until they are sketched again.

Spec: docs/formats/samples.md § 1; Puffin spec, File structure; Iceberg spec, Table Statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import xxhash

from skerry.errors import FormatError, NotFoundError, UnsupportedError
from skerry.iceberg.metadata.history import ancestors
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.puffin import PuffinReader, PuffinWriter
from skerry.table.predicate.arrow import arrow_storage
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.statistics.file_groups import deletes_key, key_of
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.group_samples_layout import decode_group_samples, encode_group_samples
from skerry.table.statistics.group_sketches import GroupSketches, decode_group_sketches, encode_group_sketches
from skerry.table.statistics.table_sample import TableSample, delete_name
from skerry.theta import Sample
from skerry.theta.layout import EMPTY_SKETCH

if TYPE_CHECKING:
    from skerry.iceberg.planning.planned_files import PlannedFiles
    from skerry.table.files.scan_task import FileScanTask

__all__ = [
    "SAMPLE_PROPERTIES",
    "add_sample",
    "deletes_of",
    "live_deletes",
    "live_files",
    "read_group_sketches",
    "read_region",
    "read_sample",
    "sample_of",
]

_PREFIX = "skerry.samples."
SAMPLE_PROPERTIES = tuple(
    _PREFIX + name
    for name in ("offset", "length", "xxh3", "snapshot-id", "schema-id", "last-column-id", "missing-files")
)
"""The footer properties that describe the samples in a statistics file."""
SKETCH_PROPERTIES = tuple(f"skerry.group-sketches.{name}" for name in ("offset", "length", "xxh3"))
"""The footer properties that describe the sketches of single groups, if the table keeps any."""


def add_sample(writer: PuffinWriter, state: TableState, snapshot: Snapshot, sample: TableSample) -> None:
    """Write samples to a statistics file.

    Args:
        writer: The unfinished file.
        state: The table; values were hashed with its current schema.
        snapshot: The snapshot that the samples describe.
        sample: The samples.
    """
    data = encode_group_samples(sample.groups)
    offset, length = writer.add_region(data)
    values = (
        offset,
        length,
        xxhash.xxh3_64_hexdigest(data),
        snapshot.snapshot_id,
        state.metadata.current_schema_id,
        state.metadata.last_column_id,
        sample.missing_files,
    )
    writer.properties |= dict(zip(SAMPLE_PROPERTIES, map(str, values), strict=True))
    if sample.own.sketches:
        data = encode_group_sketches(sample.own)
        texts = (*map(str, writer.add_region(data)), xxhash.xxh3_64_hexdigest(data))
        writer.properties |= dict(zip(SKETCH_PROPERTIES, texts, strict=True))


def read_sample(state: TableState, snapshot: Snapshot) -> TableSample | None:
    """The samples in the statistics file of a snapshot, for the table's current columns; None if there are none.

    Samples that cannot be read count as lost, without an error: the files are sketched again when needed.
    """
    file = state.statistics_file(snapshot.snapshot_id)
    if file is None:
        return None
    try:
        reader = PuffinReader(
            file.statistics_path,
            storage=state.storage,
            file_size=file.file_size_in_bytes,
            footer_size=file.file_footer_size_in_bytes,
        )
        texts = [reader.properties.get(name, "") for name in SAMPLE_PROPERTIES[3:]]
        if not all(text.isdecimal() for text in texts):
            return None
        snapshot_id, schema_id, last_column_id, missing_files = map(int, texts)
        if snapshot_id != snapshot.snapshot_id:
            return None
        data = read_region(reader, SAMPLE_PROPERTIES)
        if data is None:
            return None
        groups = decode_group_samples(data, location=file.statistics_path)
        own = read_group_sketches(reader)
    except (FormatError, NotFoundError, UnsupportedError):
        return None
    hashed = state.column_types(schema_id)
    own = own.with_columns(leaf.field_id for leaf in leaves(state.schema) if hashed.get(leaf.field_id) == leaf.type)
    return TableSample(_as_columns_are_now(state, groups, schema_id, last_column_id), missing_files, own)


def read_region(reader: PuffinReader, names: Sequence[str]) -> bytes | None:
    """Bytes outside any blob, located by the footer's properties; None if they are missing or damaged.

    Args:
        reader: The statistics file.
        names: The properties' names, which begin with those of offset, length and checksum.

    Raises:
        FormatError: The bytes are not within the file.
    """
    offset, length, checksum = (reader.properties.get(name, "") for name in names[:3])
    if not (offset.isdecimal() and length.isdecimal()):
        return None
    data = reader.read_range(int(offset), int(length))
    return data if xxhash.xxh3_64_hexdigest(data) == checksum else None


def read_group_sketches(reader: PuffinReader) -> GroupSketches:
    """The sketches of single groups; none if there are none, or they are damaged."""
    data = read_region(reader, SKETCH_PROPERTIES)
    return GroupSketches() if data is None else decode_group_sketches(data)


def sample_of(state: TableState, snapshot: Snapshot | None) -> TableSample:
    """The samples for a snapshot: from its own statistics file, or from that of its newest ancestor that has one.

    In the latter case the snapshot's files are planned, to find out which of them the ancestor's samples cover.
    """
    if snapshot is None:
        return TableSample()
    own = read_sample(state, snapshot)
    if own is not None:
        return own
    for ancestor in list(ancestors(state.metadata, snapshot))[1:]:
        found = read_sample(state, ancestor)
        if found is not None:
            return found.with_missing(live_deletes(state, snapshot))
    return TableSample(missing_files=len(live_files(state, snapshot)))


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
    """The samples of the table's current columns.

    A column whose type has changed is left out: old values were hashed as the old type's bytes. A column that was added
    since has its default, or null, in all sampled rows.
    """
    hashed = state.column_types(schema_id)
    columns = leaves(state.schema)
    kept = groups.with_columns([leaf.field_id for leaf in columns if hashed.get(leaf.field_id) == leaf.type])
    added = [leaf for leaf in columns if leaf.field_id > last_column_id]
    if not added:
        return kept
    from skerry.iceberg.reading.scan import column_defaults

    defaults = column_defaults(state.metadata.schema())
    for leaf in added:
        if leaf.field_id in defaults and len(leaf.path) > 1:
            continue  # a default in a struct only applies where the struct is not null, which is unknown here
        value = _sample_of_default(leaf, defaults).compact
        kept = kept.with_column(leaf.field_id, [value if group.row_count else EMPTY_SKETCH for group in kept.groups])
    return kept


def _sample_of_default(leaf: Leaf, defaults: Mapping[int, object]) -> Sample:
    sample = Sample()
    if leaf.field_id in defaults:
        sample.update(pa.array([defaults[leaf.field_id]], arrow_storage(leaf.type)))
    return sample
