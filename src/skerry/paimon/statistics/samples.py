"""The storage of a Paimon table's samples and published sketches: a Puffin file in a separate folder.

Paimon does not know the folder, so that the orphan removal of other engines does not delete its files. The snapshot's
properties name the file. Snapshots of other writers have no such properties: then the newest snapshot that has them is
used, and files that its samples do not know are missing.

Spec: docs/formats/samples.md § 1; Paimon spec, Snapshot (properties); Puffin spec, File structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import xxhash

from skerry.errors import FormatError, NotFoundError, UnsupportedError
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.manifests.manifest import ManifestEntry
from skerry.paimon.metadata.snapshot import Snapshot
from skerry.paimon.metadata.snapshots import find_snapshot
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.vector_locations import vector_locations
from skerry.paimon.values.casts import keeps_values
from skerry.paimon.values.types import AtomicType
from skerry.puffin import PuffinReader, PuffinWriter
from skerry.storage import join
from skerry.table.owned_files import OwnedFiles
from skerry.table.rows.schema import leaves
from skerry.table.statistics.file_groups import key_of
from skerry.table.statistics.group_samples_layout import decode_group_samples, encode_group_samples
from skerry.table.statistics.puffin_regions import add_rows, read_rows
from skerry.table.statistics.table_sample import TableSample
from skerry.table.work.remembered import Remembered, version_of
from skerry.theta import ThetaSketch

__all__ = [
    "FILE_PROPERTY",
    "FOLDER",
    "PublishedStatistics",
    "delete_key",
    "read_published",
    "sample_of",
    "statistics_location",
    "write_published",
]

FOLDER: Final = "skerry-statistics"
FILE_PROPERTY: Final = "skerry.statistics.file"
"""Snapshot property: the name of the Puffin file in `FOLDER`."""
THETA_BLOB: Final = "apache-datasketches-theta-v1"
_PREFIX: Final = "skerry.samples."
_NUMBERS: Final = ("offset", "length", "snapshot-id", "schema-id", "missing-files")
_CHECKSUM: Final = f"{_PREFIX}xxh3"
_LOOKED_BACK: Final = 100
_FILE_BYTES: Final = 200
"""What a file takes in memory: two numbers in a dictionary."""


@dataclass(frozen=True, slots=True, eq=False)
class PublishedStatistics:
    """The content of a statistics file.

    Args:
        snapshot: The snapshot that it describes.
        sketches: Sketches of all rows, by field id.
        sample: The samples below them.
    """

    snapshot: Snapshot
    sketches: Mapping[int, ThetaSketch]
    sample: TableSample


def statistics_location(state: PaimonState, snapshot: Snapshot) -> str | None:
    """The Puffin file that a snapshot names; a name outside the folder is ignored."""
    found = (snapshot.properties or {}).get(FILE_PROPERTY, "")
    return join(state.location, FOLDER, found) if found and "/" not in found and not found.startswith(".") else None


def write_published(
    state: PaimonState,
    snapshot: Snapshot,
    name: str,
    sketches: Mapping[int, ThetaSketch],
    sample: TableSample,
    files: OwnedFiles,
) -> None:
    """Write the statistics file of a snapshot.

    Args:
        state: The table, with the schema by which the values were hashed.
        snapshot: The snapshot that it describes.
        name: The file.
        sketches: Sketches of all rows by field id.
        sample: The samples below them.
        files: Owns the file.
    """
    writer = PuffinWriter()
    for field_id, sketch in sorted(sketches.items()):
        writer.add_blob(
            THETA_BLOB,
            sketch.serialize(),
            fields=[field_id],
            snapshot_id=snapshot.id,
            sequence_number=snapshot.id,
            properties={"ndv": str(int(sketch.estimate()))},
        )
    data = encode_group_samples(sample.groups)
    offset, length = writer.add_region(data)
    numbers = (offset, length, snapshot.id, state.schema.id, sample.missing_files)
    writer.properties |= {f"{_PREFIX}{key}": str(value) for key, value in zip(_NUMBERS, numbers, strict=True)}
    writer.properties[_CHECKSUM] = xxhash.xxh3_64_hexdigest(data)
    has_rows = add_rows(writer, sample.groups.rows, state.properties)
    location = join(state.location, FOLDER, name)
    files.add(location)
    writer.write(location, storage=state.storage)
    groups = sample.groups if has_rows else replace(sample.groups, rows=None)
    _keep(state, location, _Content(snapshot.id, state.schema.id, sketches, TableSample(groups, sample.missing_files)))


def read_published(state: PaimonState, snapshot: Snapshot) -> PublishedStatistics | None:
    """The statistics file of a snapshot; None if it has none, or an unreadable one.

    A lost file is not an error: it is created again on request. Columns whose type has changed are left out.
    """
    location = statistics_location(state, snapshot)
    if location is None:
        return None
    try:
        found = _KNOWN.find((location, version_of(state.storage, location))) or _read(state, location)
        if found is None or found.snapshot_id != snapshot.id:
            return None
        if found.schema_id == state.schema.id:
            return PublishedStatistics(snapshot, found.sketches, found.sample)
        same = _unchanged_columns(state, found.schema_id)
    except (FormatError, NotFoundError, UnsupportedError):
        return None
    groups = found.sample.groups
    groups = groups.with_columns([field_id for field_id in groups.columns if field_id in same])
    kept = {field_id: sketch for field_id, sketch in found.sketches.items() if field_id in same}
    return PublishedStatistics(snapshot, kept, TableSample(groups, found.sample.missing_files))


@dataclass(frozen=True, slots=True, eq=False)
class _Content:
    """What a statistics file says, of the columns of the schema by which the values were hashed."""

    snapshot_id: int
    schema_id: int
    sketches: Mapping[int, ThetaSketch]
    sample: TableSample

    @property
    def size_bytes(self) -> int:
        """About the memory that it takes."""
        groups = self.sample.groups
        files = sum(len(group.files) for group in groups.groups)
        return groups.size_bytes + _FILE_BYTES * files + sum(sketch.hashes.nbytes for sketch in self.sketches.values())


_KNOWN: Final[Remembered[tuple[str, object], _Content]] = Remembered(
    64, limit_bytes=64 << 20, size_of=lambda content: content.size_bytes
)
"""The content of the statistics files that this process read or wrote last, by location and version."""


def _keep(state: PaimonState, location: str, content: _Content) -> _Content:
    version = version_of(state.storage, location)
    return content if version is None else _KNOWN.keep((location, version), content)


def _read(state: PaimonState, location: str) -> _Content | None:
    """Read a statistics file; None if its footer or its checksum is not right.

    Raises:
        FormatError: It is corrupt.
        NotFoundError: It is missing.
        UnsupportedError: A newer version wrote it.
    """
    reader = PuffinReader(location, storage=state.storage)
    texts = [reader.properties.get(f"{_PREFIX}{key}", "") for key in _NUMBERS]
    if not all(text.isdecimal() for text in texts):
        return None
    offset, length, snapshot_id, schema_id, missing_files = map(int, texts)
    data = reader.read_range(offset, length)
    if xxhash.xxh3_64_hexdigest(data) != reader.properties.get(_CHECKSUM):
        return None
    groups = replace(decode_group_samples(data, location=location), rows=read_rows(reader))
    blobs = [blob for blob in reader.blobs if blob.type == THETA_BLOB and len(blob.fields) == 1]
    sketches = {
        blob.fields[0]: ThetaSketch.deserialize(found)
        for blob, found in zip(blobs, reader.read_blobs(blobs), strict=True)
        if blob.snapshot_id == snapshot_id
    }
    return _keep(state, location, _Content(snapshot_id, schema_id, sketches, TableSample(groups, missing_files)))


def _unchanged_columns(state: PaimonState, schema_id: int) -> set[int]:
    """Field ids of the columns whose values are hashed as they were with an older schema."""
    written = state.schema_by_id(schema_id)
    then = {leaf.field_id: leaf.type for leaf in leaves(written.arrow_schema)}
    was = {field.id: field.type for field in written.fields}
    cut = {  # shorter texts and bytes have the same Arrow type
        field.id
        for field in state.schema.fields
        if isinstance(field.type, AtomicType)
        and isinstance(old := was.get(field.id), AtomicType)
        and not keeps_values(old, field.type)
    }
    alike = {leaf.field_id for leaf in leaves(state.arrow_schema) if then.get(leaf.field_id) == leaf.type}
    return alike - cut


def sample_of(state: PaimonState) -> TableSample:
    """The samples of a state's snapshot, from its own file, or from that of the newest older snapshot that has one."""
    snapshot = state.snapshot
    if snapshot is None:
        return TableSample()
    own = read_published(state, snapshot)
    if own is not None:
        return own.sample
    entries = live_entries(state)
    for snapshot_id in range(snapshot.id - 1, max(snapshot.id - _LOOKED_BACK, 0), -1):
        older = find_snapshot(state.storage, state.paths, snapshot_id)
        if older is None:
            break
        found = read_published(state, older)
        if found is not None:
            return found.sample.with_missing(_live(state, entries, found.sample))
    return TableSample(missing_files=len(entries))


def _live(state: PaimonState, entries: list[ManifestEntry], sample: TableSample) -> dict[int, int]:
    """The key of the deletes of each live file, by the key of its name; in primary-key tables other files affect it."""
    known = sample.groups.files if state.schema.primary_keys else {}
    assert state.snapshot is not None
    vectors = vector_locations(state, state.snapshot)
    found = {}
    for entry in entries:
        key = key_of(entry.file.file_name)
        vector = vectors.get((entry.partition, entry.bucket, entry.file.file_name))
        # in primary-key tables others may have marked further rows: what is known of such a file is no longer exact
        found[key] = known.get(key, 0) ^ (
            0 if vector is None else delete_key(entry.file.file_name, vector.cardinality or 0)
        )
    return found


def delete_key(file_name: str, deleted_rows: int) -> int:
    """The key of the deletes in a data file: the number of deleted rows only increases."""
    return key_of(f"{file_name}#{deleted_rows}") if deleted_rows else 0
