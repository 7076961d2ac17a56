"""The storage of a Paimon table's samples and published sketches: a Puffin file in a separate folder.

Paimon does not know the folder, so that the orphan removal of other engines does not delete its files. The snapshot's
properties name the file, and the earlier ones that its samples continue. Snapshots of other writers have no such
properties: then the newest snapshot that has them is used, and files that its samples do not know are missing.

Sketches are in the file while they fit into a budget that follows the commit; beyond it, those that samples determine
are left out, since no other engine reads them.

Spec: docs/formats/samples.md § 1; Paimon spec, Snapshot (properties); Puffin spec, File structure.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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
from skerry.table.statistics.column_statistics import SketchPolicy
from skerry.table.statistics.file_groups import key_of
from skerry.table.statistics.pieces.chain import Link, pieces_of
from skerry.table.statistics.pieces.growing import Growth, add_sample
from skerry.table.statistics.pieces.known_sample import KnownSample, remember, remembered
from skerry.table.statistics.puffin_regions import decimal_number
from skerry.table.statistics.table_sample import TableSample
from skerry.table.work.remembered import Remembered, version_of
from skerry.theta import ThetaSketch

__all__ = [
    "CONTINUED_PROPERTY",
    "FILE_PROPERTY",
    "FOLDER",
    "PublishedStatistics",
    "continued",
    "delete_key",
    "read_published",
    "sample_of",
    "statistics_locations",
    "unchanged_columns",
    "write_published",
]

FOLDER: Final = "skerry-statistics"
FILE_PROPERTY: Final = "skerry.statistics.file"
"""Snapshot property: the name of the Puffin file in `FOLDER`."""
CONTINUED_PROPERTY: Final = "skerry.statistics.continues"
"""Snapshot property: the names of the earlier files that the samples in that file continue, separated by commas."""
THETA_BLOB: Final = "apache-datasketches-theta-v1"
_SNAPSHOT: Final = "skerry.samples.snapshot-id"
_SCHEMA: Final = "skerry.samples.schema-id"
_MISSING: Final = "skerry.samples.missing-files"
_LOOKED_BACK: Final = 100


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


def statistics_locations(state: PaimonState, snapshot: Snapshot) -> list[str]:
    """The Puffin file that a snapshot names, then those that it continues; names outside the folder are ignored."""
    properties = snapshot.properties or {}
    names = [properties.get(FILE_PROPERTY, ""), *properties.get(CONTINUED_PROPERTY, "").split(",")]
    found = [_location(state, name) for name in names] if names[0] else []
    return [location for location in found if location is not None]


def _location(state: PaimonState, name: str) -> str | None:
    return join(state.location, FOLDER, name) if name and "/" not in name and not name.startswith(".") else None


def write_published(
    state: PaimonState,
    snapshot: Snapshot,
    name: str,
    sketches: Mapping[int, ThetaSketch],
    sample: TableSample | Growth,
    files: OwnedFiles,
) -> None:
    """Write the statistics file of a snapshot.

    Args:
        state: The table, with the schema by which the values were hashed.
        snapshot: The snapshot that it describes.
        name: The file.
        sketches: The sketches of all rows that the file is to have, by field id.
        sample: The samples below them, or what has changed since those before.
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
    missing_files = 0 if isinstance(sample, Growth) else sample.missing_files
    for key, value in ((_SNAPSHOT, snapshot.id), (_SCHEMA, state.schema.id), (_MISSING, missing_files)):
        writer.properties[key] = str(value)
    location = join(state.location, FOLDER, name)
    known = add_sample(writer, sample, name, location, state.properties, state.schema.id, 0)
    files.add(location)
    writer.write(location, storage=state.storage)
    remember(state.storage, known)
    _keep(state, location, _Content(snapshot.id, sketches))


def continued(base: PaimonState) -> KnownSample | None:
    """The samples of a state's snapshot if a piece may continue them; None if they are to be written whole."""
    locations = [] if base.snapshot is None else statistics_locations(base, base.snapshot)
    try:
        content = _content(base, locations[0]) if locations else None
    except (FormatError, NotFoundError, UnsupportedError):
        return None
    if content is None or base.snapshot is None or content.snapshot_id != base.snapshot.id:
        return None
    known = _known_sample(base, locations[0])
    if known is None or known.missing_files or known.chain.schema_id != base.schema.id or not known.chain.whole_groups:
        return None
    return known


def read_published(state: PaimonState, snapshot: Snapshot) -> PublishedStatistics | None:
    """The statistics file of a snapshot; None if it has none, or an unreadable one.

    A lost file is not an error: it is created again on request. Columns whose type has changed are left out.
    """
    locations = statistics_locations(state, snapshot)
    if not locations:
        return None
    try:
        found = _content(state, locations[0])
        known = _known_sample(state, locations[0]) if found.snapshot_id == snapshot.id else None
        if known is None:
            return None
        schema_id, groups = known.chain.schema_id, known.groups()
        same = None if schema_id == state.schema.id else unchanged_columns(state, schema_id)
    except (FormatError, NotFoundError, UnsupportedError):
        return None
    sample = TableSample(groups, known.missing_files)
    sketches = dict(found.sketches)
    if known.chain.pieces:
        published, exact = known.published(), known.exact_columns()
        wanted = SketchPolicy.from_properties(state.properties).columns(state.arrow_schema, created=True)
        left_out = {leaf.field_id for leaf in wanted} & exact - sketches.keys()
        sketches |= {field_id: ThetaSketch.from_compact(published[field_id]) for field_id in left_out}
    if same is None:
        return PublishedStatistics(snapshot, sketches, sample)
    groups = groups.with_columns([field_id for field_id in groups.columns if field_id in same])
    kept = {field_id: sketch for field_id, sketch in sketches.items() if field_id in same}
    return PublishedStatistics(snapshot, kept, TableSample(groups, known.missing_files))


def _known_sample(state: PaimonState, location: str) -> KnownSample | None:
    """The samples in a statistics file and those that it continues, remembered or read; None if one is lost."""

    def paths_of(links: Sequence[Link]) -> tuple[str, ...]:
        return tuple(join(state.location, FOLDER, link.name) for link in links)

    found = remembered(state.storage, location, paths_of)
    if found is not None:
        return found
    parts = pieces_of(functools.partial(_open_file, state), location.rsplit("/", 1)[-1])
    if parts is None:
        return None
    known = KnownSample.of(parts, paths_of(parts.links))
    remember(state.storage, known)
    return known


def _open_file(state: PaimonState, name: str) -> PuffinReader | None:
    location = _location(state, name)
    return None if location is None else PuffinReader(location, storage=state.storage)


@dataclass(frozen=True, slots=True, eq=False)
class _Content:
    """What a statistics file has beside samples: its snapshot, and sketches of columns."""

    snapshot_id: int
    sketches: Mapping[int, ThetaSketch]

    @property
    def size_bytes(self) -> int:
        """About the memory that it takes."""
        return sum(sketch.hashes.nbytes for sketch in self.sketches.values())


_KNOWN: Final[Remembered[tuple[str, object], _Content]] = Remembered(
    64, limit_bytes=64 << 20, size_of=lambda content: content.size_bytes
)
"""The content of the statistics files that this process read or wrote last, by location and version."""


def _keep(state: PaimonState, location: str, content: _Content) -> _Content:
    version = version_of(state.storage, location)
    return content if version is None else _KNOWN.keep((location, version), content)


def _content(state: PaimonState, location: str) -> _Content:
    """The content of a statistics file, remembered or read.

    Raises:
        FormatError: It is corrupt.
        NotFoundError: It is missing.
        UnsupportedError: A newer version wrote it.
    """
    known = _KNOWN.find((location, version_of(state.storage, location)))
    if known is not None:
        return known
    reader = PuffinReader(location, storage=state.storage)
    text = reader.properties.get(_SNAPSHOT, "")
    snapshot_id = decimal_number(text)
    if snapshot_id is None:
        raise FormatError(f"property {_SNAPSHOT} is {text[:40]!r}", location=location)
    blobs = [
        blob
        for blob in reader.blobs
        if blob.type == THETA_BLOB and len(blob.fields) == 1 and blob.snapshot_id == snapshot_id
    ]
    read = zip(blobs, reader.read_blobs(blobs), strict=True)
    sketches = {blob.fields[0]: ThetaSketch.deserialize(found) for blob, found in read}
    return _keep(state, location, _Content(snapshot_id, sketches))


def unchanged_columns(state: PaimonState, schema_id: int) -> set[int]:
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
