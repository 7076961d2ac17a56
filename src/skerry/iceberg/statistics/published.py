"""The statistics files of Iceberg snapshots: Puffin files with a Theta sketch per column, read and written.

Which of them describe a snapshot is decided in `skerry.iceberg.statistics.registered`.

Spec: Iceberg spec, Table Statistics; Puffin spec, `apache-datasketches-theta-v1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from skerry.errors import FormatError, NotFoundError, UnsupportedError
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.statistics_file import BlobMetadata as RegisteredBlob
from skerry.iceberg.metadata.statistics_file import StatisticsFile
from skerry.iceberg.statistics.registered import NDV, SCHEMA_ID, THETA_BLOB, column_blobs, hashed_type, is_fresh
from skerry.puffin import BlobMetadata, PuffinReader, PuffinWriter
from skerry.storage import Storage
from skerry.table.rows.schema import leaves
from skerry.table.rows.values import is_uuid
from skerry.table.work.telemetry import LOG
from skerry.theta import ThetaSketch

if TYPE_CHECKING:
    from skerry.table.statistics.pieces.growing import Growth
    from skerry.table.statistics.pieces.known_sample import KnownSample
    from skerry.table.statistics.table_sample import TableSample

__all__ = [
    "UNREADABLE",
    "described_blob",
    "extendable_sketches",
    "hashed_as_ours",
    "is_own",
    "open_registered",
    "read_sketches",
    "write_statistics",
]

CREATED_BY = "created-by"
UNREADABLE: Final = (FormatError, NotFoundError, UnsupportedError)
"""What is raised for a statistics file that is missing or damaged."""


def open_registered(storage: Storage, file: StatisticsFile) -> PuffinReader:
    """Open a statistics file whose sizes the table's metadata says, so that one read finds its footer.

    Raises:
        FormatError: It is not a valid Puffin file.
        NotFoundError: It is missing.
    """
    return PuffinReader(
        file.statistics_path,
        storage=storage,
        file_size=file.file_size_in_bytes,
        footer_size=file.file_footer_size_in_bytes,
    )


def read_sketches(
    storage: Storage, file: StatisticsFile, snapshot: Snapshot, field_ids: Iterable[int]
) -> dict[int, ThetaSketch]:
    """Read the sketches of some columns that are fresh according to the table's metadata.

    A column's blob is the one that names the snapshot. If the footer has another id (of a failed commit attempt, for
    example), the metadata decides, and the column's only blob is used.

    Raises:
        FormatError: The file or a sketch in it is corrupt.
        NotFoundError: The file is missing.
    """
    wanted = set(field_ids)
    reader = open_registered(storage, file)
    by_column: dict[int, list[BlobMetadata]] = {}
    for blob in reader.blobs:
        if blob.type == THETA_BLOB and len(blob.fields) == 1 and blob.fields[0] in wanted:
            by_column.setdefault(blob.fields[0], []).append(blob)
    chosen = (described_blob([blob.snapshot_id for blob in found], snapshot) for found in by_column.values())
    blobs = [found[at] for found, at in zip(by_column.values(), chosen, strict=True) if at is not None]
    return {
        blob.fields[0]: ThetaSketch.deserialize(data)
        for blob, data in zip(blobs, reader.read_blobs(blobs), strict=True)
    }


def described_blob(snapshot_ids: Sequence[int], snapshot: Snapshot) -> int | None:
    """Choose the blob of a snapshot among a statistics file's blobs of one column.

    Args:
        snapshot_ids: The snapshot ids of the blobs in the file's footer.
        snapshot: The snapshot that the metadata registers the file for.

    Returns:
        Its index; None if several name other snapshots.
    """
    if len(snapshot_ids) == 1:
        return 0
    own = [index for index, snapshot_id in enumerate(snapshot_ids) if snapshot_id == snapshot.snapshot_id]
    return own[-1] if own else None


def extendable_sketches(state: TableState, snapshot: Snapshot) -> dict[int, ThetaSketch]:
    """The fresh sketches of a snapshot with which those of new rows can be united.

    A promoted column (int to long, float to double) is left out: its old values were hashed as the old type's bytes,
    and in a union with the new type's they would be counted twice. UUIDs sketched by another writer are left out too.
    A file that is missing or damaged holds up no commit: statistics are lost, not rows.

    Spec: Iceberg spec, Table Statistics: they are informational.
    """
    file = state.statistics_file(snapshot.snapshot_id)
    if file is None:
        return {}
    types = {leaf.field_id: leaf.type for leaf in leaves(state.schema)}
    extendable = [
        field_id
        for field_id, blob in column_blobs(file)
        if field_id in types and is_fresh(blob, snapshot) and hashed_type(state, snapshot, blob) == types[field_id]
    ]
    try:
        return read_sketches(state.storage, file, snapshot, hashed_as_ours(state, file, extendable))
    except UNREADABLE as error:
        LOG.warning("%s: statistics are lost, run analyze: %s", state.name, error)
        return {}


def hashed_as_ours(state: TableState, file: StatisticsFile, field_ids: Iterable[int]) -> list[int]:
    """The columns whose sketches hash the same bytes as ours: all except UUIDs sketched by another writer.

    Iceberg's procedure in Spark hashes UUIDs as text, not as the 16 bytes of the specification.

    Args:
        state: The table.
        file: The statistics file.
        field_ids: Columns of the table's schema.
    """
    types = {leaf.field_id: leaf.type for leaf in leaves(state.schema)}
    wanted = list(field_ids)
    if not any(is_uuid(types[field_id]) for field_id in wanted):
        return wanted
    reader = open_registered(state.storage, file)
    return wanted if is_own(reader) else [field_id for field_id in wanted if not is_uuid(types[field_id])]


def is_own(reader: PuffinReader) -> bool:
    """Whether a statistics file was written by skerry."""
    return reader.properties.get(CREATED_BY, "").split(" ")[0] == "skerry"


def write_statistics(
    state: TableState,
    location: str,
    snapshot: Snapshot,
    sketches: Mapping[int, ThetaSketch],
    sample: TableSample | Growth | None = None,
) -> StatisticsFile:
    """Write a Puffin file with one blob per column and describe it for the table metadata.

    Args:
        state: The table; values were hashed with its current schema.
        location: The new file; must not exist.
        snapshot: The snapshot that was sketched.
        sketches: By field id.
        sample: The samples from which the sketches were built, or what the snapshot adds to those before.
    """
    sequence_number = snapshot.sequence_number or 0
    schema_id = state.metadata.current_schema_id
    hashed_by = {SCHEMA_ID: str(schema_id)} if schema_id != snapshot.schema_id else {}
    writer = PuffinWriter()
    registered = []
    for field_id, sketch in sorted(sketches.items()):
        properties = {NDV: str(int(sketch.estimate())), **hashed_by}
        writer.add_blob(
            THETA_BLOB,
            sketch.serialize(),
            fields=[field_id],
            snapshot_id=snapshot.snapshot_id,
            sequence_number=sequence_number,
            properties=properties,
        )
        registered.append(
            RegisteredBlob(
                type=THETA_BLOB,
                snapshot_id=snapshot.snapshot_id,
                sequence_number=sequence_number,
                fields=(field_id,),
                properties=properties,
            )
        )
    known = None if sample is None else _add_sample(writer, state, location, snapshot, sample)
    file_size, footer_size = writer.write(location, storage=state.storage)
    if known is not None:
        from skerry.table.statistics.pieces.known_sample import remember  # not needed for reading

        remember(state.storage, known)
    return StatisticsFile(
        snapshot_id=snapshot.snapshot_id,
        statistics_path=location,
        file_size_in_bytes=file_size,
        file_footer_size_in_bytes=footer_size,
        blob_metadata=tuple(registered),
    )


def _add_sample(
    writer: PuffinWriter, state: TableState, location: str, snapshot: Snapshot, sample: TableSample | Growth
) -> KnownSample:
    """Add samples to a statistics file; what the next commit needs, once it has been written."""
    from skerry.table.statistics.pieces.chain import SAMPLE_PROPERTIES  # not needed for reading
    from skerry.table.statistics.pieces.growing import Growth, add_sample

    metadata = state.metadata
    schema = (metadata.current_schema_id, metadata.last_column_id)
    values = (snapshot.snapshot_id, *schema, 0 if isinstance(sample, Growth) else sample.missing_files)
    writer.properties |= dict(zip(SAMPLE_PROPERTIES[3:], map(str, values), strict=True))
    return add_sample(writer, sample, str(snapshot.snapshot_id), location, state.properties, *schema)
