"""Copy a table to another folder. Its files are named relative to its folder, so that most are copied as they are.

Manifests are rewritten only if they name external files. A copy appears with its schema files, which come last; in a
copy that exists, each snapshot appears when everything that it needs is there. Nothing of the original is changed.

Spec: docs/formats/paimon.md § 1.1, § 5.4 (`_EXTERNAL_PATH`), § 13.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skerry.errors import AlreadyExistsError, ConflictError, UnsupportedError
from skerry.paimon.cleaning.reachability import (
    FileUse,
    MetadataReader,
    PaimonFile,
    files_of_changes,
    kept_changelogs,
    kept_snapshots,
    reachable,
)
from skerry.paimon.metadata.branches import branch_names, on_branch
from skerry.paimon.metadata.changelogs import changelog_ids
from skerry.paimon.metadata.paths import MAIN_BRANCH, TablePaths
from skerry.paimon.metadata.published_file import publish_file
from skerry.paimon.metadata.schemas import schema_ids
from skerry.paimon.metadata.snapshot import decode_object
from skerry.paimon.metadata.snapshots import snapshot_ids, write_hint
from skerry.paimon.metadata.state import PaimonState, load_state
from skerry.paimon.metadata.stream_marks import marks_folder
from skerry.paimon.metadata.tags import tag_names
from skerry.paimon.relocation import Relocation
from skerry.storage import Moves, file_key, is_within, name
from skerry.table.copying import CopiedFile, CopyRequest, CopySummary, another_file, copy_files, outside, refuse_overlap
from skerry.table.owned_files import after_publish
from skerry.table.reachability import FileKey, TableKind, table_marker
from skerry.table.table_files import FileKind

__all__ = ["copy_table"]

_NAMES: Final = uuid.UUID("b0a3f6a0-0f0e-4f2c-8a53-6b8f7f2c9d11")
"""The namespace of names of rewritten manifests."""
_PATH: Final = "path"
_KINDS: Final = {
    FileUse.DATA: FileKind.DATA,
    FileUse.MANIFEST: FileKind.MANIFEST,
    FileUse.MANIFEST_LIST: FileKind.MANIFEST_LIST,
    FileUse.INDEX: FileKind.INDEX,
    FileUse.STATISTICS: FileKind.STATISTICS,
}


@dataclass(frozen=True, slots=True)
class _Named:
    """The files of a branch that name others, by their locations."""

    paths: TablePaths
    schemas: tuple[str, ...]
    snapshots: tuple[int, ...]
    others: tuple[str, ...]

    @property
    def locations(self) -> Iterator[str]:
        """All of them, in the order in which they are published where the table exists already."""
        yield from self.schemas
        yield from self.others
        yield from map(self.paths.snapshot, self.snapshots)


@dataclass(slots=True)
class _Copy:
    """A copy in the making.

    Args:
        state: The table.
        request: What was asked for.
        moves: Where files go.
        present: The sizes of files that are in their place already.
        sizes: The sizes of the table's files.
        files: What the copy consists of, by its locations.
    """

    state: PaimonState
    request: CopyRequest
    moves: Moves
    present: Mapping[FileKey, int]
    sizes: Mapping[FileKey, int]
    files: dict[str, CopiedFile] = field(default_factory=dict)

    def carry(self, file: PaimonFile) -> None:
        """Take note of a file that is copied as it is.

        Raises:
            AlreadyExistsError: Another file is in its place.
            UnsupportedError: It is outside the table's folder, and nothing says where it goes.
        """
        if not self.moves.concerns(file.location):
            raise outside("a file of the table is outside its folder", file.location)
        target = self.moves(file.location)
        known = self.sizes.get(file_key(file.location))
        if target == file.location or (known is None and file.use is FileUse.STATISTICS):
            return  # a lost statistics file is lost in the copy, too
        size = self.present.get(file_key(target))
        expected = file.size_bytes if known is None else known
        copied = CopiedFile(file.location, target, _KINDS[file.use], expected, is_new=size is None)
        if size is not None and known is not None and size != known:
            raise another_file(copied, size, known)
        self.files[target] = copied

    def write_manifest(self, old: str, new: str, data: bytes) -> int:
        """Write a manifest that names files at their new places, unless it is there; returns its size."""
        paths = self.state.paths
        target = self.moves(paths.manifest(new))
        size = self.present.get(file_key(target))
        is_new = size is None
        if size is None:
            size = len(data)
            if not self.request.dry_run:
                try:
                    self.request.storage.write(target, data)
                except AlreadyExistsError:  # another copy has written the same since the folder was listed
                    size, is_new = self.request.storage.size(target), False
        kind = FileKind.MANIFEST_LIST if new.startswith("manifest-list") else FileKind.MANIFEST
        self.files[target] = CopiedFile(paths.manifest(old), target, kind, size, is_new=is_new, is_rewritten=True)
        return size


def copy_table(state: PaimonState, request: CopyRequest) -> CopySummary:
    """Copy the newest state of a table: all of its snapshots, branches, tags and statistics.

    Args:
        state: The table.
        request: What is asked for.

    Raises:
        AlreadyExistsError: Other files are in the place of the copy.
        CommitUnknownError: The store failed while snapshots were published; the copy may have some of them.
        ConflictError: The copy was changed since it was made, or cannot be continued.
        FormatError: A file is corrupt.
        NotFoundError: A file is missing: expired in the meantime.
        SchemaError: The copy overlaps the table.
        UnsupportedError: Files are outside the table's folder; or data files are to stay where they are.
    """
    source, storage = state.location, state.storage
    refuse_overlap(storage.actual_location(source), request.location)
    if request.keep_data:
        raise UnsupportedError("a Paimon table has its data files in its folder: they cannot stay", location=source)
    if request.from_snapshot is not None:
        raise UnsupportedError(
            "from_snapshot= is for Iceberg tables: a Paimon table is copied from the newest snapshot that its copy has",
            location=source,
        )
    state = load_state(storage, source, table=state.name)
    before = [set(branch.locations) for branch in _branches(state)]
    runs, changelogs = kept_snapshots(state), kept_changelogs(state)
    branches = [_without_gone(branch, set().union(*before)) for branch in _branches(state)]
    sizes = {file_key(file.location): file.size_bytes for file in storage.list(source)}
    copy = _Copy(state, request, request.moves(source), request.present(), sizes)
    relocation = Relocation(
        storage,
        state.paths,
        copy.moves,
        dry_run=request.dry_run,
        unique=lambda old: uuid.uuid5(_NAMES, f"{json.dumps(copy.moves.folders)}\n{old}"),
        write=copy.write_manifest,
    )
    texts = {text: _renamed(copy, relocation, text) for branch in branches for text in branch.locations}
    _refuse_diverged(copy, branches, texts)
    reader = MetadataReader(state, executor=request.executor)
    needed = files_of_changes(state, changelogs, reader).union(*(reachable(state, run, reader) for run in runs))
    for file in needed:
        if relocation.renamed.get(name(file.location)) is None or not is_within(source, file.location):
            copy.carry(file)
    rewritten = [file for file in copy.files.values() if file.is_rewritten]
    done = copy_files([file for file in copy.files.values() if not file.is_rewritten], storage, request)
    published = _publish(copy, branches, texts)
    return CopySummary(
        state.version,
        branches[0].snapshots[-1] if branches[0].snapshots else None,
        request.location,
        None,
        (*done, *rewritten, *published),
        request.dry_run,
    )


def _branches(state: PaimonState) -> list[_Named]:
    """The files of all branches that name others, `main` first."""
    found, storage = [], state.storage
    for branch in (MAIN_BRANCH, *branch_names(storage, state.paths)):
        paths = on_branch(state.paths, branch)
        marks = [file.location for file in storage.list(marks_folder(paths))]
        found.append(
            _Named(
                paths,
                tuple(map(paths.schema, schema_ids(storage, paths))),
                tuple(snapshot_ids(storage, paths)),
                (
                    *map(paths.changelog, changelog_ids(storage, paths)),
                    *map(paths.tag, tag_names(storage, paths)),
                    *(mark for mark in marks if not name(mark).startswith(".")),
                ),
            )
        )
    return found


def _without_gone(branch: _Named, known: set[str]) -> _Named:
    """A branch without what has come since its files were determined."""
    return replace(
        branch,
        schemas=tuple(text for text in branch.schemas if text in known),
        snapshots=tuple(number for number in branch.snapshots if branch.paths.snapshot(number) in known),
        others=tuple(text for text in branch.others if text in known),
    )


def _renamed(copy: _Copy, relocation: Relocation, location: str) -> bytes:
    """The content of a file that names others, as it is in the copy."""
    data = copy.state.storage.read(location)
    kind = name(location)
    if kind.startswith("schema-"):
        return _changed(data, location, lambda found: _relocate_schema(copy, relocation, found))
    if kind.startswith(("snapshot-", "changelog-", "tag-")):
        return _changed(data, location, relocation.relocate_snapshot)
    return data


def _changed(data: bytes, location: str, change: Any) -> bytes:
    found = decode_object(data, "metadata file", location)
    return json.dumps(found, indent=2, ensure_ascii=False).encode() if change(found) else data


def _relocate_schema(copy: _Copy, relocation: Relocation, schema: dict[str, Any]) -> bool:
    options = schema.get("options") or {}
    old = options.get(_PATH)
    if old is not None:
        options[_PATH] = copy.moves(old)
    return relocation.relocate_schema(schema) or options.get(_PATH) != old


def _refuse_diverged(copy: _Copy, branches: list[_Named], texts: Mapping[str, bytes]) -> None:
    """Refuse a folder with another table, or with a copy whose newest snapshots are not this table's.

    Raises:
        AlreadyExistsError: Another table is there.
        ConflictError: The copy was changed, or this table does not know its newest snapshot any more.
    """
    storage, root = copy.request.storage, copy.request.location
    for file in storage.list(root) if copy.present else ():
        marker = table_marker(file.location)
        is_here = marker is not None and file_key(marker[1]) == file_key(root)
        if marker is not None and is_here and marker[0] is not TableKind.PAIMON:
            raise AlreadyExistsError(f"a table of {marker[0].value} is in the folder", location=root)
    for branch in branches:
        target = replace(branch.paths, root=root)
        for number in schema_ids(storage, target):
            expected = texts.get(branch.paths.schema(number))
            if expected is None or bytes(storage.read(target.schema(number))) != expected:
                raise AlreadyExistsError(
                    "the place of the copy is taken by another table, or by a copy whose columns or options were "
                    "changed",
                    location=target.schema(number),
                )
        ids = snapshot_ids(storage, target)
        if not ids:
            continue
        expected = texts.get(branch.paths.snapshot(ids[-1]))
        if expected is None:
            raise ConflictError(
                f"the copy's newest snapshot {ids[-1]} has expired here, or is the copy's own: copy to a new folder",
                location=target.snapshot(ids[-1]),
                retryable=False,
            )
        if bytes(storage.read(target.snapshot(ids[-1]))) != expected:
            raise ConflictError(
                "the copy was changed since it was made, or this table was rolled back: copy to a new folder",
                location=target.snapshot(ids[-1]),
                retryable=False,
            )


def _publish(copy: _Copy, branches: list[_Named], texts: Mapping[str, bytes]) -> list[CopiedFile]:
    """Write the files that name others.

    Raises:
        CommitUnknownError: The store failed; the copy may have some of them.
        ConflictError: Another writer has created one of them.
    """
    request = copy.request
    exists = file_key(copy.moves(branches[0].schemas[0])) in copy.present
    written = []
    for branch in reversed(branches):  # `main` last, by which a table is found
        names = list(branch.locations)
        if not exists:
            names = [*names[len(branch.schemas) :], *reversed(branch.schemas)]
        for location in names:
            target, data = copy.moves(location), texts[location]
            is_new = file_key(target) not in copy.present
            can_change = location in branch.others
            if not request.dry_run and can_change and (is_new or bytes(request.storage.read(target)) != data):
                request.storage.write(target, data, overwrite=True)
            elif not request.dry_run and is_new:
                publish_file(request.storage, target, data, name(target))
            written.append(CopiedFile(location, target, FileKind.METADATA, len(data), is_new=is_new))
        if branch.snapshots and not request.dry_run:
            with after_publish("the hint at the newest snapshot"):
                write_hint(request.storage, replace(branch.paths, root=request.location), branch.snapshots[-1])
    return written
