"""Relocating a table: its folder was copied or moved, and some of its files are named by absolute paths.

All names in a Paimon table are relative to its folder, except for files with an external path. Manifests with such
paths in the old location are rewritten under new names, as are lists and index manifests; then each snapshot, tag and
changelog file is replaced by one that names the new ones. A table without such paths is not changed.

Spec: docs/formats/paimon.md § 1.1, § 5.4 (`_EXTERNAL_PATH`), § 13.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

from skerry.avro import rewrite_records
from skerry.errors import FormatError, NotFoundError, UnsupportedError
from skerry.paimon.manifests.index_manifest import read_index_manifest
from skerry.paimon.manifests.manifest import read_entries
from skerry.paimon.manifests.manifest_list import read_manifest_list
from skerry.paimon.metadata.branches import branch_names, on_branch
from skerry.paimon.metadata.changelogs import changelog_ids
from skerry.paimon.metadata.paths import MAIN_BRANCH, TablePaths
from skerry.paimon.metadata.schemas import schema_ids
from skerry.paimon.metadata.snapshot import decode_object
from skerry.paimon.metadata.snapshots import snapshot_ids
from skerry.paimon.metadata.tags import tag_names
from skerry.storage import Move, Moves, Storage

__all__ = ["Relocation", "relocate_paimon_table"]

_LISTS: Final = ("baseManifestList", "deltaManifestList", "changelogManifestList")
_INDEX: Final = "indexManifest"
_PATHS_OPTION: Final = "data-file.external-paths"
_AVRO: Final = b"Obj\x01"


def relocate_paimon_table(storage: Storage, location: str, move: Move, *, dry_run: bool = False) -> int:
    """Update the paths of a table's external files to their new location.

    Each file is replaced atomically by an equivalent one, so that the table is readable at all times, and an
    interrupted relocation can be repeated.

    Args:
        storage: Maps the old names of files to their new location.
        location: The table's folder in its new location.
        move: The old and new locations.
        dry_run: Whether to read everything, but write nothing.

    Returns:
        Number of new files.

    Raises:
        FormatError: Metadata is corrupt.
        UnsupportedError: A manifest with such paths is not in Avro.
    """
    paths = TablePaths(location)
    names = Relocation(storage, paths, move, dry_run=dry_run)
    for branch in (MAIN_BRANCH, *branch_names(storage, paths)):
        own = on_branch(paths, branch)
        for file in _snapshot_files(storage, own):
            names.replace(file, names.relocate_snapshot)
        for number in schema_ids(storage, own):  # last: they allow the locations that manifests name
            names.replace(own.schema(number), names.relocate_schema)
    return names.written


def _snapshot_files(storage: Storage, paths: TablePaths) -> Iterator[str]:
    """Files that name manifest lists."""
    yield from (paths.snapshot(number) for number in snapshot_ids(storage, paths))
    yield from (paths.changelog(number) for number in changelog_ids(storage, paths))
    yield from (paths.tag(name) for name in tag_names(storage, paths))


class Relocation:
    """The metadata of one table for the new locations of its external files; each manifest is rewritten at most once.

    Args:
        storage: Access to the table's files.
        paths: Their locations.
        move: The old and new locations of files.
        dry_run: Whether to read everything, but write nothing.
        unique: What makes the name of a new manifest unique, given the old one.
        write: Writes a new manifest, given the old name, the new name and its content; returns its size. Beside the old
            one if None.

    Attributes:
        written: Number of new files.
        renamed: By name of a manifest or list, the new name and its size; None if it stays.
    """

    def __init__(
        self,
        storage: Storage,
        paths: TablePaths,
        move: Move | Moves,
        *,
        dry_run: bool = False,
        unique: Callable[[str], uuid.UUID] | None = None,
        write: Callable[[str, str, bytes], int] | None = None,
    ) -> None:
        self._storage = storage
        self._paths = paths
        self._move = move
        self._dry_run = dry_run
        self._unique = unique or (lambda _: uuid.uuid4())
        self._write = write or self._write_beside
        self.renamed: dict[str, tuple[str, int] | None] = {}
        self.written = 0

    def replace(self, location: str, change: Callable[[dict[str, Any]], bool]) -> None:
        """Replace a JSON file if the change has an effect; one that has disappeared meanwhile has expired."""
        try:
            found = decode_object(self._storage.read(location), "metadata file", location)
        except NotFoundError:
            return
        if change(found):
            self.written += 1
            if not self._dry_run:
                data = json.dumps(found, indent=2, ensure_ascii=False).encode()
                self._storage.write(location, data, overwrite=True)

    def relocate_schema(self, schema: dict[str, Any]) -> bool:
        """Replace old locations in the options of a schema; returns whether there were any."""
        options = schema.get("options") or {}
        roots = str(options.get(_PATHS_OPTION, "")).split(",")
        moved = [self._move(root.strip()) for root in roots]
        changed = moved != [root.strip() for root in roots]
        if changed:
            options[_PATHS_OPTION] = ",".join(moved)
        return changed

    def relocate_snapshot(self, snapshot: dict[str, Any]) -> bool:
        """Make a snapshot name new manifest lists; returns whether there are any."""
        changed = False
        for key in _LISTS:
            new = self._optional(snapshot.get(key), self._rewritten_list)
            if new is not None:
                snapshot[key] = new[0]
                if snapshot.get(f"{key}Size") is not None:
                    snapshot[f"{key}Size"] = new[1]
                changed = True
        new = self._optional(snapshot.get(_INDEX), self._rewritten_index)
        if new is not None:
            snapshot[_INDEX] = new[0]
        return changed or new is not None

    def _optional(self, name: Any, rewrite: Callable[[str], tuple[str, int] | None]) -> tuple[str, int] | None:
        """The new name and size of a file; None if it stays, or is missing like parts of expired snapshots."""
        if not isinstance(name, str):
            return None
        if name not in self.renamed:
            try:
                self.renamed[name] = rewrite(name)
            except NotFoundError:
                self.renamed[name] = None
        return self.renamed[name]

    def _rewritten_list(self, name: str) -> tuple[str, int] | None:
        location = self._paths.manifest(name)
        renamed = {
            found.file_name: new
            for found in read_manifest_list(self._storage, location)
            if (new := self._optional(found.file_name, self._rewritten_manifest)) is not None
        }

        def change(record: dict[str, Any]) -> None:
            new = renamed.get(record["_FILE_NAME"])
            if new is not None:
                record["_FILE_NAME"], record["_FILE_SIZE"] = new

        return self._rewrite(location, "manifest-list", change) if renamed else None

    def _rewritten_manifest(self, name: str) -> tuple[str, int] | None:
        location = self._paths.manifest(name)
        external = read_entries(self._storage, location).column("_EXTERNAL_PATH").drop_null().to_pylist()
        if not any(map(self._move.concerns, external)):
            return None
        return self._rewrite(location, "manifest", lambda record: self._relocate_path(record["_FILE"]))

    def _rewritten_index(self, name: str) -> tuple[str, int] | None:
        location = self._paths.manifest(name)
        external = [entry.external_path for entry in read_index_manifest(self._storage, location)]
        if not any(path is not None and self._move.concerns(path) for path in external):
            return None
        return self._rewrite(location, "index-manifest", self._relocate_path)

    def _relocate_path(self, record: dict[str, Any]) -> None:
        if record.get("_EXTERNAL_PATH") is not None:
            record["_EXTERNAL_PATH"] = self._move(record["_EXTERNAL_PATH"])

    def _rewrite(self, location: str, kind: str, change: Callable[[dict[str, Any]], None]) -> tuple[str, int]:
        data = self._storage.read(location)
        if data[: len(_AVRO)] != _AVRO:
            raise UnsupportedError(
                "a manifest with external paths is relocated only if it is in Avro", location=location
            )
        try:
            new = rewrite_records(data, change, location=location)
        except (KeyError, TypeError) as error:
            raise FormatError(f"a manifest lacks {error}", location=location) from error
        old = location.rpartition("/")[2]
        name = f"{kind}-{self._unique(old)}-0"
        self.written += 1
        return name, self._write(old, name, new)

    def _write_beside(self, old: str, name: str, data: bytes) -> int:
        if not self._dry_run:
            self._storage.write(self._paths.manifest(name), data)
        return len(data)
