"""Iceberg metadata of a Paimon table, kept up with its commits: Iceberg readers see the same data files.

The option `metadata.iceberg.storage` asks for it. After every commit to `main` a metadata file with the number of the
snapshot appears in the folder that Paimon's Java library uses. A commit that only adds files adds a manifest to those
of its predecessor; any other one writes them again.

The metadata is of format version 1, though its manifests have all fields of version 2: Paimon's library reads these,
and writes everything again after another version than its own. It must not continue ours: it finds files that are
removed by their locations as it spells them, and others would stay in. Nor do we continue what it has written.

In tables with a primary key, Iceberg readers see the files of the highest level, that is what the last full compaction
left: all other files hold records that must be merged.

Spec: docs/formats/paimon.md § 13.6; Iceberg spec, Table Metadata, Manifests, File System Tables.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from skerry.errors import AlreadyExistsError, NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.iceberg.manifests.manifest import EntryStatus, ManifestEntry, encode_manifest
from skerry.iceberg.manifests.manifest_list import ManifestFile, encode_manifest_list, read_manifest_list
from skerry.iceberg.manifests.summary import snapshot_summary
from skerry.iceberg.metadata.metadata_json import decode_metadata, encode_metadata
from skerry.iceberg.metadata.snapshot import Snapshot, SnapshotRef, SnapshotRefType
from skerry.iceberg.metadata.sort_order import UNSORTED_SORT_ORDER
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.migration.iceberg_schemas import FileShape, NamesInFiles, iceberg_schema
from skerry.migration.paimon_to_iceberg import described_files, identity_spec
from skerry.paimon.manifests.live_files import delta_entries, live_entries
from skerry.paimon.manifests.manifest import FileKind
from skerry.paimon.manifests.manifest import ManifestEntry as PaimonEntry
from skerry.paimon.metadata.iceberg_storage import IcebergStorage
from skerry.paimon.metadata.options import FileFormat
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.file_splits import FileSplits
from skerry.paimon.writing.layout import WriteLayout
from skerry.storage import Storage, is_within, name
from skerry.table.owned_files import OwnedFiles, PublishStep, log_failures, owned_files

__all__ = ["check_mirrored", "mirror"]

_FORMAT_VERSION: Final = 1
_ASKED_VERSION: Final = 2
_MANIFEST_VERSION: Final = 2
_MOST_ENTRIES: Final = 20_000
_MOST_MANIFESTS: Final = 50
_FORMATS: Final = ("parquet", "orc")
_HINT: Final = "version-hint.text"
_VERSION_NAME: Final = re.compile(r"v(\d{1,18})(\.gz)?\.metadata\.json")
_LEFT_TOGETHER: Final = 10
_MIRROR: Final = "skerry.paimon-mirror"
"""Marks metadata that was written here."""


def check_mirrored(state: PaimonState, storage: IcebergStorage) -> None:
    """Refuse a table that Iceberg readers could not read.

    Args:
        state: The table.
        storage: Where its Iceberg metadata is.

    Raises:
        UnsupportedError: A column, format or option has no counterpart; the message names it.
    """
    options = state.options
    refused = None
    if storage.format_version != _ASKED_VERSION:
        refused = f"format-version={storage.format_version}: only {_ASKED_VERSION} is supported"
    elif options.deletion_vectors:
        refused = "storage with deletion-vectors.enabled=true: Iceberg readers would not see these deletes"
    elif options.file_format.value not in _FORMATS:
        refused = f"storage with file.format={options.file_format.value}: Iceberg readers read {', '.join(_FORMATS)}"
    if refused is not None:
        raise UnsupportedError(f"table option metadata.iceberg.{refused}", location=state.name)
    iceberg_schema(state.schema, _FORMAT_VERSION)
    names = NamesInFiles(state.schema, state.schema_by_id)
    for number in range(state.schema.id):  # there may be files of each
        with suppress(SchemaError, NotFoundError):  # what matters is whether types can be converted
            names.add(number, FileShape(), state.location)
    if options.file_format is FileFormat.PARQUET:  # as if its footers had no field ids
        shape = FileShape({(column.name,): None for column in state.schema.fields})
        NamesInFiles(state.schema, state.schema_by_id).add(state.schema.id, shape, state.location)


def mirror(state: PaimonState, storage: IcebergStorage, *, moved: bool = False) -> None:
    """Write the metadata of a state's snapshot, if it is not there.

    Args:
        state: The state.
        storage: Where the metadata is.
        moved: Whether later snapshots may have been taken back: their metadata is deleted.

    Raises:
        SkerryError: It could not be written; the next commit writes all that is missing.
    """
    snapshot = state.snapshot
    if snapshot is None:
        return
    if moved:
        _delete_later(state.storage, storage, snapshot.id)
    before = _read_metadata(state.storage, storage.metadata_file(snapshot.id))
    if before is None or all(found.timestamp_ms != snapshot.time_millis for found in before.snapshots):
        with owned_files(state.storage) as files:
            _Version(state, storage, snapshot.id, files).write(overwrite=before is not None)
    elif not moved:
        return
    state.storage.write(storage.file(_HINT), str(snapshot.id).encode(), overwrite=True)
    with log_failures("old Iceberg metadata was not deleted"):
        _delete_old(state.storage, storage, snapshot.id)


class _Version:
    """One version of the metadata."""

    def __init__(self, state: PaimonState, storage: IcebergStorage, number: int, files: OwnedFiles) -> None:
        self._state = state
        self._storage = storage
        self._number = number
        self._files = files
        self._schema = iceberg_schema(state.schema, _FORMAT_VERSION)
        self._spec = identity_spec(state.schema)
        base = _read_metadata(state.storage, storage.metadata_file(number - 1))
        is_ours = base is not None and _MIRROR in base.properties and base.partition_specs == (self._spec,)
        self._base = base if is_ours else None

    def write(self, *, overwrite: bool) -> None:
        """Write manifests, manifest list and metadata file.

        Args:
            overwrite: Whether there is metadata of a snapshot of this number that was taken back.
        """
        state = self._state
        assert state.snapshot is not None
        manifests, added = self._manifests()
        encoded = encode_manifest_list(
            manifests,
            format_version=_MANIFEST_VERSION,
            snapshot_id=self._number,
            sequence_number=self._number,
            lists_summaries=not self._spec.fields,  # Paimon's library needs a list
        )
        location = self._new_file(f"snap-{self._number}")
        state.storage.write(location, encoded.data)
        snapshot = Snapshot(
            snapshot_id=self._number,
            timestamp_ms=state.snapshot.time_millis,
            manifest_list=location,
            summary=snapshot_summary("append", added=added, removed=(), previous=None),
            schema_id=self._schema.schema_id,
        )
        target = self._storage.metadata_file(self._number)
        metadata = encode_metadata(self._metadata(snapshot), target)
        step = PublishStep([location, *(manifest.manifest_path for manifest in manifests)], self._files)
        try:
            state.storage.write(target, metadata, overwrite=overwrite)
        except AlreadyExistsError:  # another process follows the same commit, and was first
            step.withdraw()
            self._files.remove()

    def _metadata(self, snapshot: Snapshot) -> TableMetadata:
        state, base, schema = self._state, self._base, self._schema
        older = () if base is None else tuple(found for found in base.schemas if found.schema_id != schema.schema_id)
        return TableMetadata(
            format_version=_FORMAT_VERSION,
            table_uuid=uuid.uuid4() if base is None else base.table_uuid,
            location=state.location,
            last_updated_ms=int(time.time() * 1000),
            last_column_id=max(schema.highest_field_id, state.schema.highest_field_id),
            schemas=(*older, schema),
            current_schema_id=schema.schema_id,
            partition_specs=(self._spec,),
            default_spec_id=self._spec.spec_id,
            last_partition_id=self._spec.last_assigned_field_id,
            properties={**self._name_mapping(), _MIRROR: "true"},
            current_snapshot_id=snapshot.snapshot_id,
            snapshots=(snapshot,),
            sort_orders=(UNSORTED_SORT_ORDER,),
            default_sort_order_id=UNSORTED_SORT_ORDER.order_id,
            refs={"main": SnapshotRef(snapshot_id=snapshot.snapshot_id, snapshot_ref_type=SnapshotRefType.BRANCH)},
        )

    def _name_mapping(self) -> dict[str, str]:
        """The names that columns had, for files of writers that write no field ids."""
        names = NamesInFiles(self._state.schema, self._state.schema_by_id)
        try:
            names.add(self._state.schema.id, FileShape(), self._state.location)
        except SkerryError:
            return {}  # then such files cannot be told apart, and those with ids need no mapping
        return names.mapping() or {}

    # ---- manifests ----

    def _manifests(self) -> tuple[list[ManifestFile], list[ManifestEntry]]:
        """The manifests, and the entries that are new in them."""
        kept, entries = self._continued()
        added = self._described(entries)
        written = []
        for start in range(0, len(added), _MOST_ENTRIES):
            location = self._new_file("manifest")
            data, manifest = encode_manifest(
                location,
                added[start : start + _MOST_ENTRIES],
                schema=self._schema,
                spec=self._spec,
                format_version=_MANIFEST_VERSION,
                snapshot_id=self._number,
            )
            self._state.storage.write(location, data)
            written.append(manifest)
        return [*kept, *written], added

    def _continued(self) -> tuple[list[ManifestFile], list[PaimonEntry]]:
        """The manifests of the version before, and the files that they lack; none, and all files, after a removal."""
        state, base = self._state, self._base
        assert state.snapshot is not None
        if base is not None:
            (before,) = base.snapshots
            assert before.manifest_list is not None
            manifests = read_manifest_list(state.storage, before.manifest_list)
            delta = [entry for entry in delta_entries(state, state.snapshot) if self._is_seen(entry)]
            names = {kind: {entry.file.file_name for entry in delta if entry.kind is kind} for kind in FileKind}
            added = names[FileKind.ADD] - names[FileKind.DELETE]
            if not names[FileKind.DELETE] - names[FileKind.ADD] and len(manifests) < _MOST_MANIFESTS:
                return manifests, [entry for entry in delta if entry.file.file_name in added]
        return [], [entry for entry in live_entries(state) if self._is_seen(entry)]

    def _is_seen(self, entry: PaimonEntry) -> bool:
        """Whether Iceberg readers see a file: its rows are those of the table without merging."""
        if not self._state.schema.primary_keys:
            return True
        return entry.file.level == self._state.options.num_levels - 1 and not entry.file.delete_row_count

    def _described(self, entries: Sequence[PaimonEntry]) -> list[ManifestEntry]:
        state = self._state
        splits = FileSplits(state, WriteLayout(state.name, state.location, state.storage, state.schema), {})
        files = [splits.file(entry) for entry in entries]
        described = described_files(state, self._schema, entries, files, [FileShape()] * len(files))
        return [ManifestEntry(EntryStatus.ADDED, file) for file in described]

    def _new_file(self, kind: str) -> str:
        location = self._storage.file(f"{kind}-{uuid.uuid4()}.avro")
        self._files.add(location)
        return location


# Older versions ------------------------------------------------------------------------------------------------------


def _read_metadata(storage: Storage, location: str) -> TableMetadata | None:
    try:
        return decode_metadata(storage.read(location), location=location)
    except NotFoundError:
        return None


def _delete_old(storage: Storage, place: IcebergStorage, newest: int) -> None:
    """Delete versions that are no longer kept, with what only they name; several at a time."""
    if place.previous_versions is None:
        return
    numbers = sorted(set(_versions(storage, place).values()))
    gone = [number for number in numbers if number < newest - place.previous_versions]
    if len(gone) <= min(place.previous_versions, _LEFT_TOGETHER):
        return
    needed = {file for number in set(numbers) - set(gone) for file in _named(storage, place, number)}
    needed_no_more = {file for number in gone for file in _named(storage, place, number)} - needed
    storage.delete(sorted(file for file in needed_no_more if is_within(place.folder, file)))


def _delete_later(storage: Storage, place: IcebergStorage, newest: int) -> None:
    storage.delete(location for location, number in _versions(storage, place).items() if number > newest)


def _versions(storage: Storage, place: IcebergStorage) -> dict[str, int]:
    """The number of each metadata file, those of Paimon's library among them."""
    try:
        files = storage.list_folder(place.folder).files
    except NotFoundError:
        return {}
    found = ((file.location, _VERSION_NAME.fullmatch(name(file.location))) for file in files)
    return {location: int(match[1]) for location, match in found if match is not None}


def _named(storage: Storage, place: IcebergStorage, number: int) -> set[str]:
    """The metadata file of a version, and what it names, if it was written here."""
    location = place.metadata_file(number)
    metadata = _read_metadata(storage, location)
    if metadata is None or _MIRROR not in metadata.properties:
        return set()
    found = {location}
    for snapshot in metadata.snapshots:
        if snapshot.manifest_list is not None:
            manifests = read_manifest_list(storage, snapshot.manifest_list)
            found |= {snapshot.manifest_list, *(manifest.manifest_path for manifest in manifests)}
    return found
