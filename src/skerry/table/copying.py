"""Copies of whole tables: what is asked for, what was copied, and how files get from one store to another.

A copy is written below a location of its own. Files that are complete at their place are left there, so that a copy
that was interrupted goes on when it is made again, and a later one writes only what is new. Nothing is deleted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skerry.errors import AlreadyExistsError, NotFoundError, SchemaError, UnsupportedError
from skerry.storage import FileStatus, Moves, Storage, file_key, is_within, local_path, redact
from skerry.table.reachability import FileKey
from skerry.table.table_files import FileKind
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback

__all__ = ["CopiedFile", "CopyRequest", "CopySummary", "another_file", "copy_files", "outside", "refuse_overlap"]

_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file of a copied table.

    Args:
        source: The file of the original.
        target: The file of the copy.
        kind: Its role.
        size_bytes: Its size. In a dry run, the source's size of files that would be rewritten.
        is_new: Whether it was not in its place yet.
        is_rewritten: Whether its content was changed for the new location; otherwise it is the same byte for byte.
    """

    source: str
    target: str
    kind: FileKind
    size_bytes: int
    is_new: bool = True
    is_rewritten: bool = False


@dataclass(frozen=True, slots=True)
class CopySummary:
    """The result of a copy of a table.

    Args:
        source: The state that was copied: an Iceberg table's metadata file, a Paimon table's version.
        snapshot_id: Its current snapshot; None for a table without rows.
        location: The folder of the copy.
        metadata_location: An Iceberg copy's metadata file, for `Catalog.register_table`; None for other formats.
        files: The files of the copy.
        dry_run: Whether nothing was written.
        deleted_files: Files that were deleted in the old place.
    """

    source: str
    snapshot_id: int | None
    location: str
    metadata_location: str | None
    files: tuple[CopiedFile, ...]
    dry_run: bool = False
    deleted_files: int = 0

    @property
    def new_files(self) -> list[CopiedFile]:
        """The files that were not in their place yet."""
        return [file for file in self.files if file.is_new]

    @property
    def new_bytes(self) -> int:
        """Their size."""
        return sum(file.size_bytes for file in self.files if file.is_new)


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """A copy that is asked for; its arguments were checked.

    Args:
        location: The folder of the copy.
        storage: Access to it.
        prefixes: Where files outside the table's folder go, by folder; a folder that is its own value stays.
        keep_data: Whether data and delete files stay where they are.
        shares_data: Whether the original goes on using data files that stay.
        from_snapshot: A snapshot that was copied before, with all before it.
        replaced: The metadata file that the copy's catalog names now, which must be one of earlier copies.
        dry_run: Whether nothing is written.
        executor: Where files are copied.
        progress: Called with the progress.
    """

    location: str
    storage: Storage = field(repr=False)
    prefixes: Mapping[str, str]
    keep_data: bool
    shares_data: bool
    from_snapshot: int | None
    replaced: str | None
    dry_run: bool
    executor: Executor
    progress: ProgressCallback | None

    def moves(self, source: str) -> Moves:
        """Where files go.

        Args:
            source: The table's folder.
        """
        return Moves(((source, self.location), *self.prefixes.items()))

    def present(self) -> dict[FileKey, int]:
        """The sizes of files that are already where the copy is to be.

        A dry run from a snapshot needs no access to that place: files are taken for copied because of the snapshot.
        """
        if self.dry_run and self.from_snapshot is not None:
            return {}
        elsewhere = (new for old, new in self.prefixes.items() if new != old)
        return {
            file_key(file.location): file.size_bytes
            for root in dict.fromkeys((self.location, *elsewhere))
            for file in _files_in(self.storage, root)
        }


def refuse_overlap(source: str, target: str) -> None:
    """Refuse a copy within the table's folder, or around it.

    Raises:
        SchemaError: It is.
    """
    one, other = local_path(source), local_path(target)
    if one is not None and other is not None:
        source, target = os.path.realpath(one), os.path.realpath(other)
    if file_key(source) == file_key(target) or is_within(source, target) or is_within(target, source):
        raise SchemaError(f"a copy needs a folder of its own: {target} overlaps the table's {source}")


def outside(what: str, location: str) -> UnsupportedError:
    """The error for something outside the table's folder of which nothing says where it goes."""
    return UnsupportedError(
        f"{what}; say where such files go: prefixes={{'old folder': 'new folder'}}, the same folder twice for files "
        "that stay",
        location=location,
    )


def _files_in(storage: Storage, folder: str) -> Iterator[FileStatus]:
    """The files below a folder; none if it does not exist."""
    try:
        yield from storage.list(folder)
    except NotFoundError:
        return


@dataclass(frozen=True, slots=True)
class _CopyTask:
    """A file to copy; picklable. The storages may hold credentials, and so are never printed."""

    file: CopiedFile
    reads: Storage = field(repr=False)
    writes: Storage = field(repr=False)


def copy_files(files: Sequence[CopiedFile], reads: Storage, request: CopyRequest) -> list[CopiedFile]:
    """Copy the files that are new.

    Args:
        files: What to copy.
        reads: Access to the sources.
        request: What was asked for.

    Returns:
        The same files with their actual sizes.

    Raises:
        AlreadyExistsError: Another file is at the place of one.
        NotFoundError: One does not exist any more.
    """
    new = [file for file in files if file.is_new]
    if request.dry_run or not new:
        return list(files)
    done: dict[str, CopiedFile] = {}
    copied_bytes = 0
    tasks = [_CopyTask(file, reads, request.storage) for file in new]
    for number, file in enumerate(request.executor.map(_copy, tasks), 1):
        done[file.target] = file
        copied_bytes += file.size_bytes
        if request.progress is not None:
            request.progress(JobProgress("copy files", number, len(new), done_bytes=copied_bytes))
    return [done.get(file.target, file) for file in files]


def _copy(task: _CopyTask) -> CopiedFile:
    file, size = task.file, None
    with task.reads.open_input(file.source) as source:
        try:
            with task.writes.open_output(file.target) as target:
                shutil.copyfileobj(source, target, _CHUNK_BYTES)
                size = target.tell()
        except AlreadyExistsError:  # it came there since the folder was listed
            size = None
    if size is None:
        size = task.writes.size(file.target)
    if size != file.size_bytes and size != (expected := task.reads.size(file.source)):
        raise another_file(file, size, expected)
    return replace(file, size_bytes=size)


def another_file(file: CopiedFile, size: int, expected: int) -> AlreadyExistsError:
    """The error for a file that is not the copy of another, found at its place."""
    return AlreadyExistsError(
        f"the place of a copy is taken: a file of {size} bytes is there, and the original {redact(file.source)} has "
        f"{expected}. Copy to a folder of its own",
        location=redact(file.target),
    )
