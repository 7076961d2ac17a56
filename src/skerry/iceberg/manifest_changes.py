"""The manifests of a new snapshot: new ones for what it adds, rewritten ones where it removes files, the rest as it is.

A manifest is rewritten only if it contains a removed entry. That entry is then DELETED by the new snapshot, the others
are EXISTING with their history; entries deleted by earlier snapshots are dropped. Small manifests are merged according
to the table's properties. Data files and delete files never share a manifest.

Spec: Iceberg spec, Manifests, Manifest Lists; Iceberg properties, `commit.manifest*`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import ConflictError
from skerry.iceberg.manifests.cache import shared_cache
from skerry.iceberg.manifests.manifest import EntryStatus, FileContent, ManifestEntry, encode_manifest
from skerry.iceberg.manifests.manifest_list import ManifestContent, ManifestFile, manifest_codec
from skerry.iceberg.manifests.reader import Manifest, decode_manifest, physical_column, read_manifest
from skerry.iceberg.manifests.references import REFERENCE_COLUMNS, referenced_files
from skerry.iceberg.manifests.rewriting import encode_entries, joined_entries
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.table_metadata import data_key_bytes
from skerry.iceberg.operations import SnapshotChange
from skerry.storage import is_local
from skerry.table.properties import check_flag, whole_number
from skerry.table.work.read_ahead import WorkPool

__all__ = ["MergePolicy", "SnapshotManifests", "write_manifests"]

_THREADS = 4
_MERGE_PROPERTY = "commit.manifest-merge.enabled"


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """Whether and how small manifests are merged.

    Args:
        enabled: `commit.manifest-merge.enabled`.
        min_count: The number of manifests in a pack from which new ones are merged
            (`commit.manifest.min-count-to-merge`).
        target_size_bytes: Size of a merged manifest (`commit.manifest.target-size-bytes`).
    """

    enabled: bool = True
    min_count: int = 100
    target_size_bytes: int = 8 << 20

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> MergePolicy:
        """Read the policy from table properties.

        Raises:
            SchemaError: A property has an invalid value.
        """
        check_flag(properties, _MERGE_PROPERTY)
        defaults = cls()
        return cls(
            properties.get(_MERGE_PROPERTY, "true").strip().lower() == "true",
            whole_number(properties, "commit.manifest.min-count-to-merge", defaults.min_count),
            whole_number(properties, "commit.manifest.target-size-bytes", defaults.target_size_bytes),
        )


@dataclass(frozen=True, slots=True)
class SnapshotManifests:
    """The manifests of a new snapshot.

    Args:
        manifests: In the order of the manifest list; in new ones, values that only the commit knows are unset.
        removed: The entries that the snapshot removes.
        summary: Entries of the snapshot's summary about rewritten manifests.
    """

    manifests: tuple[ManifestFile, ...]
    removed: tuple[ManifestEntry, ...]
    summary: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A manifest that is encoded but not yet written, so that merging it leaves no file."""

    file: ManifestFile
    data: bytes
    count: int


def write_manifests(
    base: TableState,
    parent: Snapshot | None,
    change: SnapshotChange,
    *,
    snapshot_id: int,
    new_file: Callable[[int], str],
) -> SnapshotManifests:
    """Write the manifests that a change needs.

    Args:
        base: The state before.
        parent: The snapshot that the new one builds on.
        change: What is added and removed.
        snapshot_id: The id of the new snapshot.
        new_file: The location of the n-th new manifest.

    Raises:
        ConflictError: A file to be removed is missing, or a data file would have a second deletion vector (not
            retryable).
        FormatError: A manifest is corrupt, or an entry is invalid.
    """
    listed = () if parent is None else shared_cache().manifests(base.storage, parent)
    alive = [file for file in listed if file.has_live_files]
    writer = _Writer(base, snapshot_id, MergePolicy.from_properties(base.properties))
    removal = _Removal(base, change, writer)
    of_data = [file for file in alive if file.content is ManifestContent.DATA]
    of_deletes = [file for file in alive if file.content is ManifestContent.DELETES]
    data = [*writer.encode(change.added, ManifestContent.DATA), *removal.from_data(of_data)]
    deletes = [*writer.encode(change.added_deletes, ManifestContent.DELETES), *removal.from_deletes(of_deletes)]
    named = change.rewritten_manifests
    if named:
        complete = itertools.chain(writer.cluster(data, named), writer.cluster(deletes, named))
    else:
        complete = itertools.chain(writer.merge(data), writer.merge(deletes))
    manifests, drafts, entries = [], 0, 0
    for manifest in complete:
        if isinstance(manifest, _Draft):
            location = new_file(drafts)
            drafts += 1
            entries += manifest.count
            manifest = _stored(base, location, manifest)
        manifests.append(manifest)
    counts = {
        "manifests-created": drafts,
        "manifests-kept": len(manifests) - drafts,
        "manifests-replaced": len(named),
        "entries-processed": entries,
    }
    # as other writers do, only of a snapshot that only rewrites manifests
    summary = {name: str(count) for name, count in counts.items()} if named else {}
    return SnapshotManifests(tuple(manifests), tuple(removal.removed), summary)


def _stored(base: TableState, location: str, draft: _Draft) -> ManifestFile:
    """Write a manifest, encrypted if the table is."""
    key_bytes = data_key_bytes(base.metadata.properties)
    if key_bytes is None:
        base.storage.write(location, draft.data)
        return dataclasses.replace(draft.file, manifest_path=location)
    from skerry.encryption import encode_gcm_stream, encode_key_metadata, new_file_key

    key = new_file_key(key_bytes)
    stored = encode_gcm_stream(draft.data, key)
    base.storage.write(location, stored)
    metadata = encode_key_metadata(dataclasses.replace(key, file_length=len(stored)))
    return dataclasses.replace(draft.file, manifest_path=location, manifest_length=len(stored), key_metadata=metadata)


# Removing ------------------------------------------------------------------------------------------------------------


class _Removal:
    """Removes files from manifests.

    Attributes:
        removed: The removed entries.
    """

    def __init__(self, base: TableState, change: SnapshotChange, writer: _Writer) -> None:
        self._base = base
        self._writer = writer
        self._data = change.removed
        self._deletes = change.removed_deletes
        self._new_vectors = {entry.referenced_data_file for entry in change.added_deletes if entry.is_deletion_vector}
        self.removed: list[ManifestEntry] = []

    def from_data(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile | _Draft]:
        """The data manifests without the removed files.

        Raises:
            ConflictError: A removed file is in none of them.
        """
        if not self._data:
            return list(manifests)
        wanted = pa.array(sorted(self._data), pa.string())

        def find(manifest: ManifestFile) -> list[int]:
            entries = shared_cache().read(self._base.storage, manifest, ("status", "file_path"))
            return _rows(entries, pc.is_in(entries.column("file_path"), wanted))

        result = self._without(manifests, find)
        missing = self._data - {entry.data_file.location for entry in self.removed}
        if missing:
            raise self._gone("data file", min(missing))
        return result

    def from_deletes(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile | _Draft]:
        """The delete manifests without the removed files, and without delete files that only removed data files need.

        Raises:
            ConflictError: A removed file is in none of them, or a data file with a new deletion vector has another one.
        """
        if not (self._data or self._deletes or self._new_vectors):
            return list(manifests)
        paths = pa.array(sorted({location for location, _ in self._deletes}), pa.string())
        data = pa.array(sorted(self._data), pa.string())
        columns = ("status", "content", "file_path", "content_offset", *REFERENCE_COLUMNS)
        found: set[tuple[str, int | None]] = set()

        def find(manifest: ManifestFile) -> list[int]:
            entries = shared_cache().read(self._base.storage, manifest, columns)
            self._refuse_second_vectors(entries)
            path, offset = entries.column("file_path"), entries.column("content_offset")
            named = [
                row
                for row in _rows(entries, pc.is_in(path, paths))
                if (path[row].as_py(), offset[row].as_py()) in self._deletes
            ]
            found.update((path[row].as_py(), offset[row].as_py()) for row in named)
            references = referenced_files(entries, np.asarray(offset.is_valid()))
            is_positions = pc.equal(entries.column("content"), int(FileContent.POSITION_DELETES))
            dangling = _rows(entries, pc.and_(is_positions, pc.is_in(references, data.cast("binary"))))
            return sorted({*named, *dangling})

        result = self._without(manifests, find)
        missing = self._deletes - found
        if missing:
            raise self._gone("delete file", min(location for location, _ in missing))
        return result

    def _refuse_second_vectors(self, entries: pa.RecordBatch) -> None:
        """Spec: Iceberg spec, Deletion Vectors: at most one of them for a data file."""
        if not self._new_vectors:
            return
        referenced = entries.column("referenced_data_file")
        of_new = pc.is_in(referenced, pa.array(sorted(filter(None, self._new_vectors)), pa.string()))
        for row in _rows(entries, pc.and_(of_new, entries.column("content_offset").is_valid())):
            key = entries.column("file_path")[row].as_py(), entries.column("content_offset")[row].as_py()
            if key not in self._deletes:
                raise ConflictError(
                    f"data file {referenced[row]} has a deletion vector already, which the new one does not replace",
                    retryable=False,
                    location=self._base.name,
                    rule="Iceberg spec, Deletion Vectors",
                )

    def _without(
        self, manifests: Sequence[ManifestFile], find: Callable[[ManifestFile], list[int]]
    ) -> list[ManifestFile | _Draft]:
        """The manifests without the given rows; only manifests that contain such rows are rewritten."""
        with WorkPool(_THREADS, "commit", is_local=is_local(self._base.metadata.location)) as pool:
            found = list(pool.in_order(find, manifests))
        result: list[ManifestFile | _Draft] = []
        for file, rows in zip(manifests, found, strict=True):
            if not rows:
                result.append(file)
                continue
            spec = self._base.metadata.specs()[file.partition_spec_id]
            manifest = read_manifest(self._base.storage, file)
            self.removed += manifest.entries(rows, spec=spec)
            result += self._writer.rewrite([manifest], removed=rows)
        return result

    def _gone(self, kind: str, location: str) -> ConflictError:
        return ConflictError(
            f"{kind} {location}, which this commit removes, is no longer in the table; read the table again and redo "
            "the change",
            retryable=False,
            location=self._base.name,
        )


def _rows(entries: pa.RecordBatch, wanted: pa.Array) -> list[int]:
    """The rows of live entries for which `wanted` is true."""
    alive = pc.not_equal(entries.column("status"), int(EntryStatus.DELETED))
    return pc.indices_nonzero(pc.fill_null(pc.and_(alive, wanted), False)).to_pylist()


# Encoding and merging ------------------------------------------------------------------------------------------------


class _Writer:
    """Encodes the new manifests of one snapshot."""

    def __init__(self, base: TableState, snapshot_id: int, policy: MergePolicy) -> None:
        self._base = base
        self._policy = policy
        self._codec = manifest_codec(base.properties)
        self.snapshot_id = snapshot_id

    def encode(self, entries: Iterable[ManifestEntry], content: ManifestContent) -> list[_Draft]:
        """The entries as manifests of one partition spec each, none much larger than the target size."""
        by_spec: dict[int, list[ManifestEntry]] = {}
        for entry in entries:
            by_spec.setdefault(entry.data_file.spec_id, []).append(entry)
        drafts = []
        for spec_id, of_spec in sorted(by_spec.items()):
            whole = self._encode(of_spec, spec_id, content)
            parts = min(len(of_spec), self._parts(len(whole.data)))
            if parts == 1:
                drafts.append(whole)
                continue
            size = -(-len(of_spec) // parts)
            drafts += [
                self._encode(of_spec[start : start + size], spec_id, content) for start in range(0, len(of_spec), size)
            ]
        return drafts

    def _encode(self, entries: Sequence[ManifestEntry], spec_id: int, content: ManifestContent) -> _Draft:
        spec = self._base.metadata.specs()[spec_id]
        # it has no name until it is written
        data, file = encode_manifest(self._base.metadata_folder, entries, **self._options(spec, content))
        return _Draft(file, data, len(entries))

    def _options(self, spec: PartitionSpec, content: ManifestContent) -> dict[str, Any]:
        return {
            "schema": self._base.schema_with(spec),
            "spec": spec,
            "format_version": self._base.metadata.format_version,
            "content": content,
            "snapshot_id": self.snapshot_id,
            "codec": self._codec,
        }

    def _parts(self, length: int) -> int:
        """How many manifests of the target size so many bytes are."""
        return max(-(-length // self._policy.target_size_bytes), 1)

    def rewrite(
        self, manifests: Sequence[Manifest], *, removed: Sequence[int] = (), by_partition: bool = False
    ) -> Iterator[_Draft]:
        """The live entries of manifests of one partition spec, in new manifests.

        Args:
            manifests: Manifests of the table, or drafts of this snapshot, whose entries stay what they are.
            removed: Rows of the only manifest that this snapshot deletes.
            by_partition: Whether files of a partition come side by side.
        """
        first = manifests[0].file
        spec = self._base.metadata.specs()[first.partition_spec_id]
        options = self._options(spec, first.content)
        parts = [self._continued(manifest, removed) for manifest in manifests]
        entries = joined_entries(parts, options["schema"], spec)
        if by_partition:
            entries = _by_partition(entries)
        size = -(-len(entries) // self._parts(sum(manifest.file.manifest_length for manifest in manifests)))
        for start in range(0, len(entries), max(size, 1)):
            part = entries.slice(start, size)
            data, file = encode_entries(self._base.metadata_folder, part, **options)
            yield _Draft(file, data, len(part))

    def _continued(self, manifest: Manifest, removed: Sequence[int]) -> Manifest:
        """The live entries of a manifest as this snapshot's manifests have them."""
        if manifest.file.added_snapshot_id is None:
            return manifest
        table = manifest.table
        status = table.column("status").to_numpy(zero_copy_only=False)
        is_live, is_gone = status != EntryStatus.DELETED, np.zeros(len(status), bool)
        is_gone[list(removed)] = True
        statuses = np.where(is_gone, EntryStatus.DELETED, EntryStatus.EXISTING).astype(np.int32)
        ids = pc.if_else(pa.array(is_gone), pa.scalar(self.snapshot_id, pa.int64()), table.column("snapshot_id"))
        for name, column in (("status", pa.array(statuses)), ("snapshot_id", ids)):
            table = table.set_column(table.schema.get_field_index(name), name, column)
        return dataclasses.replace(manifest, table=table if is_live.all() else table.filter(pa.array(is_live)))

    def merge(self, manifests: Sequence[ManifestFile | _Draft]) -> Iterator[ManifestFile | _Draft]:
        """Merge small manifests of one content, newest first.

        They are packed from the oldest on, so that full ones do not change from commit to commit; the pack with the
        newest manifest is merged only when it has reached the minimum count.
        """
        if not self._policy.enabled or len(manifests) < 2:
            yield from manifests
            return
        newest = manifests[0]
        by_spec: dict[int, list[ManifestFile | _Draft]] = {}
        for manifest in manifests:
            by_spec.setdefault(_file(manifest).partition_spec_id, []).append(manifest)
        for _, of_spec in sorted(by_spec.items(), reverse=True):
            for pack in _packs(of_spec, self._policy.target_size_bytes):
                is_growing = any(manifest is newest for manifest in pack) and len(pack) < self._policy.min_count
                if len(pack) == 1 or is_growing:
                    yield from pack
                else:
                    yield from self.rewrite([self._read(manifest) for manifest in pack])

    def cluster(
        self, manifests: Sequence[ManifestFile | _Draft], rewritten: frozenset[str]
    ) -> Iterator[ManifestFile | _Draft]:
        """Rewrite the entries of some manifests, those of a partition side by side; the other manifests stay."""
        by_spec: dict[int, list[ManifestFile | _Draft]] = {}
        for manifest in manifests:
            if isinstance(manifest, _Draft) or manifest.manifest_path not in rewritten:
                yield manifest
            else:
                by_spec.setdefault(manifest.partition_spec_id, []).append(manifest)
        for _, of_spec in sorted(by_spec.items(), reverse=True):
            yield from self.rewrite([self._read(manifest) for manifest in of_spec], by_partition=True)

    def _read(self, manifest: ManifestFile | _Draft) -> Manifest:
        """A manifest of the table; or a draft, whose entries inherit nothing yet."""
        if isinstance(manifest, _Draft):
            return decode_manifest(manifest.data, dataclasses.replace(manifest.file, added_snapshot_id=None))
        return read_manifest(self._base.storage, manifest)


def _file(manifest: ManifestFile | _Draft) -> ManifestFile:
    return manifest.file if isinstance(manifest, _Draft) else manifest


def _by_partition(entries: pa.RecordBatch) -> pa.RecordBatch:
    """Entries ordered by partition, nulls first; those of a partition keep their order."""
    columns = [physical_column(column) for column in entries.column("partition").flatten()]
    ordered = [column for column in columns if not pa.types.is_null(column.type)]
    if not ordered:
        return entries
    names = [str(number) for number in range(len(ordered))]
    keys = [(name, "ascending", "at_start") for name in names]
    return entries.take(pc.sort_indices(pa.table(ordered, names), keys))


def _packs(manifests: Sequence[ManifestFile | _Draft], size_bytes: int) -> list[list[ManifestFile | _Draft]]:
    """Pack neighbours up to a size, starting from the last; the order is kept."""
    packs: list[list[ManifestFile | _Draft]] = []
    room = 0
    for manifest in reversed(manifests):
        length = _file(manifest).manifest_length
        if not packs or length > room:
            packs.append([])
            room = size_bytes
        packs[-1].insert(0, manifest)
        room -= length
    return packs[::-1]
