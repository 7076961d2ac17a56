"""Commits through Paimon's REST catalog: its server publishes snapshots and schemas.

Spec: docs/formats/paimon.md § 16.2; Paimon Java, `CatalogSnapshotCommit`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    SchemaError,
    UnsupportedError,
)
from skerry.paimon.catalogs.rest_changes import schema_changes
from skerry.paimon.catalogs.rest_server import PaimonServer
from skerry.paimon.manifests.manifest import FileKind, ManifestEntry, read_manifest
from skerry.paimon.manifests.manifest_list import read_manifest_list
from skerry.paimon.metadata.authority import Authority
from skerry.paimon.metadata.partition_names import partition_texts
from skerry.paimon.metadata.paths import MAIN_BRANCH, TablePaths
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.schemas import latest_schema, read_schema
from skerry.paimon.metadata.snapshot import Snapshot, decode_snapshot, snapshot_keys
from skerry.paimon.metadata.snapshots import find_snapshot
from skerry.storage import Storage
from skerry.table.owned_files import OwnedFiles

__all__ = ["RestAuthority"]

_BRANCH: str = "$branch_"


@dataclass(frozen=True)
class RestAuthority(Authority):
    """Publishes by requests to the server; picklable.

    Args:
        server: The server.
        database: The table's database.
        table: Its name.
        table_id: What the server calls it, so that a table that was created again is not taken for it.
    """

    server: PaimonServer
    database: str
    table: str
    table_id: str | None = None

    compares_base = True

    def create_snapshot(self, storage: Storage, paths: TablePaths, snapshot: Snapshot, base: Snapshot | None) -> None:
        """See `Authority.create_snapshot`.

        Raises:
            ConflictError: Another writer was first; nothing was published.
            CommitUnknownError: The server may or may not have published it.
        """
        body: dict[str, Any] = {
            "tableId": self.table_id,
            "snapshot": snapshot_keys(snapshot),
            "statistics": _statistics(storage, paths, snapshot),
        }
        if base is not None and isinstance(base.unknown.get("uuid"), str):
            body["baseSnapshotUuid"] = base.unknown["uuid"]
        try:
            found = self.server.call("POST", *self._path(paths), "commit", body=body)
        except (NotFoundError, SchemaError, UnsupportedError) as error:
            raise AccessDeniedError(error.message, location=error.location) from error
        except AlreadyExistsError as error:
            raise ConflictError(error.message, location=error.location) from error
        if found.get("success") is not True:
            raise ConflictError(f"snapshot {snapshot.id} was not accepted: another writer was first")

    def note_newest(self, storage: Storage, paths: TablePaths, snapshot_id: int) -> None:
        """Nothing: the server keeps its own hints."""

    def find_snapshot(self, storage: Storage, paths: TablePaths, snapshot_id: int) -> Snapshot | None:
        """See `Authority.find_snapshot`: where the server keeps it elsewhere, it is asked for the newest one."""
        found = find_snapshot(storage, paths, snapshot_id)
        if found is not None:
            return found
        newest = self.latest_snapshot(storage, paths)
        return newest if newest is not None and newest.id == snapshot_id else None

    def latest_snapshot(self, storage: Storage, paths: TablePaths) -> Snapshot | None:
        """The newest snapshot that the server knows; None if there is none."""
        try:
            found = self.server.call("GET", *self._path(paths), "snapshot")
        except NotFoundError:
            return None
        outer = found.get("snapshot")
        inner = outer.get("snapshot") if isinstance(outer, dict) else None
        if outer is None:
            return None
        if not isinstance(inner, dict):
            raise self.server.nonsense("the newest snapshot is not an object")
        return decode_snapshot(json.dumps(inner), location=f"the catalog's server, {self.database}.{self.table}")

    def create_schema(
        self, storage: Storage, paths: TablePaths, schema: TableSchema, base: TableSchema | None = None
    ) -> None:
        """See `Authority.create_schema`; the server applies the steps to the schema that it has then.

        Raises:
            ConflictError: The server has made another schema of it.
        """
        newest = latest_schema(storage, paths)
        if base is None or newest.id != base.id:
            raise ConflictError(f"schema {schema.id} was created by another writer", location=paths.schema(schema.id))
        self.server.call("POST", *self._path(paths), body={"changes": schema_changes(base, schema)})
        made = read_schema(storage, paths, schema.id)
        if made.fields != schema.fields or dict(made.options) != dict(schema.options):
            raise ConflictError(
                f"the catalog's server has made another schema {schema.id} than was asked for", retryable=False
            )

    # ---- tags and branches ----

    def create_tag(
        self, storage: Storage, paths: TablePaths, name: str, snapshot: Snapshot, time_retained: timedelta | None
    ) -> None:
        """See `Authority.create_tag`."""
        body: dict[str, Any] = {"tagName": name, "snapshotId": snapshot.id}
        if time_retained is not None:
            body["timeRetained"] = f"{time_retained // timedelta(milliseconds=1)} ms"
        self.server.call("POST", *self._path(paths), "tags", body=body)

    def delete_tag(self, storage: Storage, paths: TablePaths, name: str) -> None:
        """See `Authority.delete_tag`."""
        self.server.call("DELETE", *self._path(paths), "tags", name)

    def create_branch(
        self, storage: Storage, paths: TablePaths, branch: str, files: OwnedFiles, tag: str | None
    ) -> None:
        """See `Authority.create_branch`; the server writes its files."""
        body = {"branch": branch} | ({} if tag is None else {"fromTag": tag})
        self.server.call("POST", *self._path(paths), "branches", body=body)

    def delete_branch(self, storage: Storage, paths: TablePaths, branch: str) -> None:
        """See `Authority.delete_branch`."""
        self.server.call("DELETE", *self._path(paths), "branches", branch)

    def fast_forward(self, storage: Storage, paths: TablePaths, branch: str) -> Snapshot:
        """See `Authority.fast_forward`.

        Raises:
            UnsupportedError: It is another branch than `main` that would advance.
        """
        if paths.branch != MAIN_BRANCH:
            raise UnsupportedError(f"a REST catalog advances only branch {MAIN_BRANCH!r}, not {paths.branch!r}")
        self.server.call("POST", *self._path(paths), "branches", branch, "forward", body={})
        newest = self.latest_snapshot(storage, paths)
        if newest is None:
            raise self.server.nonsense(f"there is no snapshot after branch {branch!r} was merged")
        return newest

    def roll_back(self, paths: TablePaths, snapshot_id: int) -> bool:
        """See `Authority.roll_back`; files of later snapshots that nothing needs are orphans."""
        body = {"instant": {"type": "snapshot", "snapshotId": snapshot_id}}
        self.server.call("POST", *self._path(paths), "rollback", body=body)
        return True

    def _path(self, paths: TablePaths) -> tuple[str, str, str, str]:
        name = self.table if paths.branch == MAIN_BRANCH else f"{self.table}{_BRANCH}{paths.branch}"
        return "databases", self.database, "tables", name


def _statistics(storage: Storage, paths: TablePaths, snapshot: Snapshot) -> list[dict[str, Any]]:
    """What a commit adds to each partition, for the server's lists of partitions."""
    location = paths.manifest(snapshot.delta_manifest_list)
    by_partition: dict[bytes, list[ManifestEntry]] = {}
    for manifest in read_manifest_list(storage, location, size=snapshot.delta_manifest_list_size):
        for entry in read_manifest(storage, paths.manifest(manifest.file_name), size=manifest.file_size):
            by_partition.setdefault(entry.partition, []).append(entry)
    schema = read_schema(storage, paths, snapshot.schema_id)
    texts = partition_texts(schema.partition_fields, list(by_partition), legacy=True)
    return [
        {
            "spec": dict(zip(schema.partition_keys, text, strict=True)),
            "recordCount": sum(_sign(entry) * entry.file.row_count for entry in entries),
            "fileSizeInBytes": sum(_sign(entry) * entry.file.file_size for entry in entries),
            "fileCount": sum(_sign(entry) for entry in entries),
            "lastFileCreationTime": snapshot.time_millis,
            "totalBuckets": entries[0].total_buckets,
        }
        for text, entries in zip(texts, by_partition.values(), strict=True)
    ]


def _sign(entry: ManifestEntry) -> int:
    return 1 if entry.kind is FileKind.ADD else -1
