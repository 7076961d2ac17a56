"""Branches: their own schemas, snapshots and tags over the data files of the table.

Spec: docs/formats/paimon.md § 13.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from skerry.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    SchemaError,
)
from skerry.paimon.metadata.file_names import checked_name
from skerry.paimon.metadata.paths import MAIN_BRANCH, TablePaths
from skerry.paimon.metadata.published_file import publish_file, several_files
from skerry.paimon.metadata.schemas import schema_ids
from skerry.paimon.metadata.snapshot import Snapshot, encode_snapshot
from skerry.paimon.metadata.snapshots import latest_snapshot, snapshot_ids, write_hint
from skerry.paimon.metadata.tags import read_tag, tag_names
from skerry.storage import Storage, name
from skerry.table.owned_files import OwnedFiles, PublishStep, after_publish
from skerry.table.rows.schema import nearest

__all__ = ["branch_folder_names", "branch_names", "create_branch", "delete_branch", "fast_forward", "on_branch"]

_PREFIX: Final = "branch-"


def on_branch(paths: TablePaths, branch: str) -> TablePaths:
    """The paths of another branch of the same table."""
    return replace(paths, branch=branch)


def branch_names(storage: Storage, paths: TablePaths) -> list[str]:
    """The sorted names of a table's branches other than `main`."""
    found = branch_folder_names(storage, paths)
    return [branch for branch in found if schema_ids(storage, on_branch(paths, branch))]


def branch_folder_names(storage: Storage, paths: TablePaths) -> list[str]:
    """The sorted names of branches that have a folder: also of those that were created or deleted only in part."""
    names = (name(folder) for folder in storage.list_folder(paths.branches).folders)
    return sorted(text.removeprefix(_PREFIX) for text in names if text.startswith(_PREFIX) and text != _PREFIX)


def create_branch(
    storage: Storage, paths: TablePaths, branch: str, files: OwnedFiles, *, tag: str | None = None
) -> TablePaths:
    """Create a branch.

    The newest schema is written last: a folder without a schema is not a branch, so that no one sees half of one.

    Args:
        storage: Access to the table's files.
        paths: The paths of the branch that it is created from.
        branch: Its name.
        files: Owns the files of the branch until it may exist.
        tag: The tag that it starts from; None for a branch without rows.

    Returns:
        Its paths.

    Raises:
        AlreadyExistsError: The branch already exists.
        CommitUnknownError: The store failed; it may or may not have been created.
        NotFoundError: The tag does not exist.
        SchemaError: The name is not valid.
    """
    if branch == MAIN_BRANCH or branch.isdigit():
        raise SchemaError(f"{branch!r} is not a valid branch name")
    target = on_branch(paths, checked_name(branch, "branch"))
    if schema_ids(storage, target):
        raise AlreadyExistsError(f"branch {branch!r} already exists", location=target.branch_root)
    ids = schema_ids(storage, paths)
    if tag is not None:
        snapshot = read_tag(storage, paths, tag).snapshot
        ids = [number for number in ids if number <= snapshot.schema_id]
        files.add(target.tag(tag), target.snapshot(snapshot.id))
        _copy(storage, paths.tag(tag), target.tag(tag))
        storage.write(target.snapshot(snapshot.id), _snapshot_file(storage, paths, snapshot.id, tag), overwrite=True)
        write_hint(storage, target, snapshot.id)
    schemas = [(target.schema(number), storage.read(paths.schema(number))) for number in ids]
    PublishStep((), files)  # once it has a schema it is a branch
    for location, data in schemas:
        publish_file(storage, location, data, f"branch {branch!r}")
    return target


def _snapshot_file(storage: Storage, paths: TablePaths, snapshot_id: int, tag: str) -> bytes:
    """The file of a snapshot, or the copy in its tag if it has expired."""
    try:
        return storage.read(paths.snapshot(snapshot_id))
    except NotFoundError:
        return encode_snapshot(read_tag(storage, paths, tag).snapshot)


def _copy(storage: Storage, source: str, target: str) -> None:
    storage.write(target, storage.read(source), overwrite=True)


def delete_branch(storage: Storage, paths: TablePaths, branch: str) -> None:
    """Delete a branch; its own data files stay until orphans are removed.

    Raises:
        CommitUnknownError: The store failed; the branch may or may not exist.
        NotFoundError: The branch does not exist.
        SchemaError: It is `main`.
    """
    if branch == MAIN_BRANCH:
        raise SchemaError(f"branch {branch!r} cannot be dropped")
    target = on_branch(paths, checked_name(branch, "branch"))
    if not schema_ids(storage, target):
        raise NotFoundError(
            f"no branch {branch!r}{nearest(branch, branch_names(storage, paths))}", location=target.branch_root
        )
    schemas = [file.location for file in storage.list_folder(target.schemas).files]
    with several_files(f"branch {branch!r} may or may not be deleted", target.branch_root):
        storage.delete(schemas)  # a folder without a schema is not a branch
    with after_publish(f"deleting the files of branch {branch!r}"):
        storage.delete([file.location for file in storage.list(target.branch_root)])


def fast_forward(storage: Storage, paths: TablePaths, branch: str) -> Snapshot:
    """Advance a branch to the newest snapshot of another one that was created from it.

    Every snapshot is published like a commit, in order, so that a rival's commit is detected and not lost.

    Args:
        storage: Access to the table's files.
        paths: The paths of the branch to advance.
        branch: The branch whose snapshots it gets.

    Returns:
        The newest of them.

    Raises:
        CommitUnknownError: The store failed; the branch may have some of the snapshots.
        ConflictError: The branches have diverged.
        NotFoundError: The branch does not exist, or has no snapshot.
    """
    source = on_branch(paths, branch)
    tip = latest_snapshot(storage, source)
    if tip is None:
        raise NotFoundError(f"there is no branch {branch!r}, or it has no snapshot", location=source.snapshots)
    ids = snapshot_ids(storage, source)
    newest = latest_snapshot(storage, paths)
    if newest is not None and newest.id > ids[-1]:
        raise ConflictError(
            f"branch {paths.branch!r} has snapshot {newest.id}, which {branch!r} does not have", retryable=False
        )
    if newest is not None and newest.id < ids[0] - 1:
        raise ConflictError(f"branch {branch!r} starts after the newest snapshot {newest.id}", retryable=False)
    with several_files(f"branch {paths.branch!r} may or may not be advanced", paths.branch_root):
        for number in schema_ids(storage, source):
            _put(storage, source.schema(number), paths.schema(number))
        for number in ids:
            _put(storage, source.snapshot(number), paths.snapshot(number))
            if newest is None or number > newest.id:
                with after_publish("the hint at the newest snapshot"):
                    write_hint(storage, paths, number)
        for tag in tag_names(storage, source):
            _put(storage, source.tag(tag), paths.tag(tag))
    return tip


def _put(storage: Storage, source: str, target: str) -> None:
    """Copy a file, unless it already exists.

    Raises:
        CommitUnknownError: It may or may not exist now.
        ConflictError: A different one exists.
    """
    try:
        publish_file(storage, target, storage.read(source), "the branch's newest snapshot")
    except ConflictError as error:
        raise ConflictError("the branches have diverged", location=target, retryable=False) from error
