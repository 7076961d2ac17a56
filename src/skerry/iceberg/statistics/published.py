"""Published statistics of Iceberg snapshots: Theta sketches in registered Puffin files, and whether they are fresh.

A statistics file describes exactly one snapshot. A blob is fresh for it only if the file is registered for that
snapshot and the metadata's entry of the blob names that snapshot's id and sequence number; everything else is stale:
shown but never used.

Spec: Iceberg spec, Table Statistics; Puffin spec, `apache-datasketches-theta-v1`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from skerry.iceberg.manifests.summary import ENGINE_NAME, summary_of
from skerry.iceberg.metadata.history import ancestors
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.statistics_file import BlobMetadata as RegisteredBlob
from skerry.iceberg.metadata.statistics_file import StatisticsFile
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.puffin import BlobMetadata, PuffinReader, PuffinWriter
from skerry.storage import Storage
from skerry.table.history import of_millis
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.rows.values import is_uuid
from skerry.table.statistics.column_statistics import FRESH, Freshness, FreshnessState
from skerry.theta import ThetaSketch

if TYPE_CHECKING:
    from skerry.table.statistics.table_sample import TableSample

__all__ = [
    "THETA_BLOB",
    "described_blob",
    "extendable_sketches",
    "freshness",
    "hashed_as_ours",
    "is_own",
    "latest_statistics",
    "ndv_of",
    "read_sketches",
    "since",
    "write_statistics",
]

THETA_BLOB = "apache-datasketches-theta-v1"
NDV = "ndv"
SCHEMA_ID = "skerry.schema-id"
CREATED_BY = "created-by"


def column_blobs(file: StatisticsFile) -> Iterator[tuple[int, RegisteredBlob]]:
    """The Theta sketches of single columns, with their field id."""
    for blob in file.blob_metadata:
        if blob.type == THETA_BLOB and len(blob.fields) == 1:
            yield blob.fields[0], blob


def is_fresh(blob: RegisteredBlob, snapshot: Snapshot) -> bool:
    """Whether a blob was computed from exactly this snapshot.

    Snapshots of version 1 have no sequence number, and values of writers (Trino) in blobs mean nothing there.
    """
    number = snapshot.sequence_number or None
    return blob.snapshot_id == snapshot.snapshot_id and number in (None, blob.sequence_number)


def ndv_of(blob: RegisteredBlob) -> int | None:
    """The distinct count in the blob's properties, None if there is none or it is not a number."""
    text = (blob.properties or {}).get(NDV, "")
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return None


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
    reader = PuffinReader(
        file.statistics_path,
        storage=storage,
        file_size=file.file_size_in_bytes,
        footer_size=file.file_footer_size_in_bytes,
    )
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
    return read_sketches(state.storage, file, snapshot, hashed_as_ours(state, file, extendable))


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
    reader = PuffinReader(
        file.statistics_path,
        storage=state.storage,
        file_size=file.file_size_in_bytes,
        footer_size=file.file_footer_size_in_bytes,
    )
    return wanted if is_own(reader) else [field_id for field_id in wanted if not is_uuid(types[field_id])]


def is_own(reader: PuffinReader) -> bool:
    """Whether a statistics file was written by skerry."""
    return reader.properties.get(CREATED_BY, "").split(" ")[0] == "skerry"


def hashed_type(state: TableState, snapshot: Snapshot, blob: RegisteredBlob) -> pa.DataType | None:
    """The type of a column when it was sketched; None if it is no longer known.

    A snapshot has the schema of its commit. If it was analyzed after a schema change, the blob has the schema.
    """
    text = (blob.properties or {}).get(SCHEMA_ID, "")
    schema_id = int(text) if text.isdecimal() else snapshot.schema_id
    return state.column_types(schema_id).get(blob.fields[0])


def write_statistics(
    state: TableState,
    location: str,
    snapshot: Snapshot,
    sketches: Mapping[int, ThetaSketch],
    sample: TableSample | None = None,
) -> StatisticsFile:
    """Write a Puffin file with one blob per column and describe it for the table metadata.

    Args:
        state: The table; values were hashed with its current schema.
        location: The new file; must not exist.
        snapshot: The snapshot that was sketched.
        sketches: By field id.
        sample: The samples from which the sketches were built.
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
    if sample is not None:
        from skerry.iceberg.statistics.samples import add_sample  # not needed for reading

        add_sample(writer, state, snapshot, sample)
    file_size, footer_size = writer.write(location, storage=state.storage)
    return StatisticsFile(
        snapshot_id=snapshot.snapshot_id,
        statistics_path=location,
        file_size_in_bytes=file_size,
        file_footer_size_in_bytes=footer_size,
        blob_metadata=tuple(registered),
    )


def latest_statistics(state: TableState, snapshot: Snapshot, field_id: int) -> tuple[Snapshot, RegisteredBlob] | None:
    """The newest ancestor of `snapshot`, itself included, that has a blob for a column."""
    for ancestor in ancestors(state.metadata, snapshot):
        file = state.statistics_file(ancestor.snapshot_id)
        if file is not None:
            for blob_field_id, blob in column_blobs(file):
                if blob_field_id == field_id:
                    return ancestor, blob
    return None


def freshness(
    state: TableState, snapshot: Snapshot, column: Leaf, found: tuple[Snapshot, RegisteredBlob] | None
) -> Freshness:
    """The freshness for `snapshot` of a column's newest blob, as found by `latest_statistics`."""
    metadata = state.metadata
    if found is None:
        return Freshness(FreshnessState.ABSENT, "never sketched over all rows; run analyze")
    sketched, blob = found
    if hashed_type(state, sketched, blob) != column.type:
        return Freshness(FreshnessState.ABSENT, f"sketched before the column became {column.type}; run analyze")
    if sketched.snapshot_id != snapshot.snapshot_id:
        return Freshness(FreshnessState.STALE, since(metadata, snapshot, sketched))
    if not is_fresh(blob, snapshot):
        found_in = f"snapshot {blob.snapshot_id}, sequence number {blob.sequence_number}"
        expected = f"snapshot {snapshot.snapshot_id}, sequence number {snapshot.sequence_number or 0}"
        return Freshness(
            FreshnessState.STALE,
            f"computed from {found_in}; the current one is {expected}",
        )
    return FRESH


def since(metadata: TableMetadata, snapshot: Snapshot, sketched: Snapshot, covered_rows: int | None = None) -> str:
    """`3 snapshots by another writer since 2026-11-20 10:15:00Z, 2.1 % of rows not covered`.

    Args:
        metadata: The table's metadata.
        snapshot: The requested snapshot.
        sketched: The snapshot that was sketched.
        covered_rows: Rows that samples cover; None if only those before `sketched` are covered.
    """
    later = list(
        itertools.takewhile(lambda found: found.snapshot_id != sketched.snapshot_id, ancestors(metadata, snapshot))
    )
    foreign = all(summary_of(snap).get(ENGINE_NAME) != "skerry" for snap in later)
    moment = of_millis(sketched.timestamp_ms).strftime("%Y-%m-%d %H:%M:%SZ")
    text = f"{len(later)} snapshot{'s' * (len(later) != 1)}{' by another writer' if foreign else ''} since {moment}"
    total = _summary_number(snapshot, "total-records")
    if total:
        added = sum(_summary_number(snap, "added-records") or 0 for snap in later)
        missing = added if covered_rows is None else max(0, total - covered_rows)
        text += f", {min(1.0, missing / total):.1%} of rows not covered".replace("%", " %")
    if any(_summary_number(snap, "deleted-records") or _summary_number(snap, "added-delete-files") for snap in later):
        text += ", rows deleted"
    return text


def _summary_number(snapshot: Snapshot, key: str) -> int | None:
    text = summary_of(snapshot).get(key)
    return int(text) if text is not None and text.isdecimal() else None
