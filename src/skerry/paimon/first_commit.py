"""A table that comes into being with rows in it: one snapshot and all schemas, there at once or not at all.

A table is where its newest schema is. So that one is written when everything else lies ready that it needs, and the
older ones, which only its files refer to, right behind it.

Spec: Paimon, Schema, Snapshot; `formats/paimon.md` §§ 1-4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    SkerryError,
    StorageError,
)
from skerry.paimon.commit import PaimonTarget, StagedCommit
from skerry.paimon.deletion_positions import Positions
from skerry.paimon.manifest import ManifestEntry
from skerry.paimon.operations.change import CommitId, IndexChange, TableChange
from skerry.paimon.row_vectors import FileKey, change_vectors
from skerry.paimon.schema import TableSchema, encode_schema
from skerry.paimon.schemas import schema_ids
from skerry.paimon.snapshot import CommitKind, encode_snapshot
from skerry.paimon.state import PaimonState
from skerry.paimon.writing.layout import WriteLayout
from skerry.storage import join, parent
from skerry.table.table_sample import SampleChange

__all__ = ["FirstRows", "check_free", "create_with_rows"]


@dataclass(frozen=True)
class FirstRows:
    """What a table begins with.

    Args:
        entries: Its data files.
        deleted: int64[n] Positions of deleted rows, ascending, by data file.
        samples: What is known of its values.
        properties: The snapshot's properties.
    """

    entries: tuple[ManifestEntry, ...]
    deleted: Mapping[FileKey, Positions] = field(default_factory=dict)
    samples: SampleChange | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def check_free(base: PaimonState) -> None:
    """Refuse a place where a table is, or something that would be taken for its snapshots.

    Raises:
        AlreadyExistsError: There is.
    """
    if schema_ids(base.storage, base.paths) or base.storage.list_folder(base.paths.snapshots).files:
        raise AlreadyExistsError(f"table {base.name!r} exists already", location=base.location)


def create_with_rows(base: PaimonState, older: Sequence[TableSchema], rows: FirstRows | None) -> PaimonState:
    """Make a table.

    Args:
        base: What it is to be, without a snapshot.
        older: The schemas that its files have beside the newest one.
        rows: What it begins with; None for no snapshot.

    Raises:
        AlreadyExistsError: There is a table already; nothing is left of this one.
        CommitUnknownError: It may or may not have been made; nothing was removed.
        StorageError: It could not be made; nothing is left of it.
    """
    check_free(base)
    state, files = (base, []) if rows is None else _commit(base, rows)
    schemas = {base.paths.schema(schema.id): encode_schema(schema) for schema in (base.schema, *reversed(older))}
    try:
        for location, data in schemas.items():
            _write_schema(base, location, data)
    except CommitUnknownError:
        raise
    except BaseException:
        _remove(base, [*(location for location, data in schemas.items() if _holds(base, location, data)), *files])
        raise
    return state


def _holds(base: PaimonState, location: str, data: bytes) -> bool:
    """Whether a file is there with just these bytes, and so not another writer's."""
    try:
        return bytes(base.storage.read(location)) == data
    except SkerryError:
        return False


def _write_schema(base: PaimonState, location: str, data: bytes) -> None:
    try:
        base.storage.write(location, data)
    except AlreadyExistsError as error:
        # a store that lost the answer to a request sends it again, and then finds what it has written itself
        if not _holds(base, location, data):
            raise AlreadyExistsError(f"table {base.name!r} exists already", location=base.location) from error
    except AccessDeniedError:
        raise
    except StorageError as error:
        if not _holds(base, location, data):
            raise CommitUnknownError(f"the table may or may not have been made: {error}", location=base.name) from error


def _commit(base: PaimonState, rows: FirstRows) -> tuple[PaimonState, list[str]]:
    """Write the first snapshot; and everything that must go again if the table does not come into being."""
    layout = WriteLayout(base.name, base.location, base.storage, base.schema)
    target = PaimonTarget(base.storage, base.location, base.branch, base.name)
    index = _write_vectors(layout, rows.deleted)
    files = [layout.index_file(entry.partition, entry.bucket, entry.file_name) for entry in index.added]
    change = TableChange(
        CommitKind.OVERWRITE if index else CommitKind.APPEND,
        CommitId.fresh(),
        rows.entries,
        index=index,
        samples=rows.samples,
        properties=rows.properties,
    )
    staged = None
    try:
        staged = target.stage(base, change)
        files += staged.files
        state = target.publish(staged)
    except CommitUnknownError:
        if staged is None or not _holds(base, *_snapshot_file(base, staged)):
            raise
        state = replace(base, snapshot=staged.snapshot)
    except BaseException as error:
        if staged is not None and _holds(base, *_snapshot_file(base, staged)):
            files = [_snapshot_file(base, staged)[0], *files]
        _remove(base, files)
        if isinstance(error, ConflictError):
            raise AlreadyExistsError(f"table {base.name!r} exists already", location=base.location) from error
        raise
    return state, [_snapshot_file(base, staged)[0], join(base.paths.snapshots, "LATEST"), *files]


def _snapshot_file(base: PaimonState, staged: StagedCommit) -> tuple[str, bytes]:
    return base.paths.snapshot(staged.snapshot.id), encode_snapshot(staged.snapshot)


def _write_vectors(layout: WriteLayout, deleted: Mapping[FileKey, Positions]) -> IndexChange:
    """Write deletion vectors; what was written of them is removed if that fails."""
    folders = {parent(layout.index_file(partition, bucket, "index")) for partition, bucket, _ in deleted}
    before = {file.location for folder in folders for file in layout.storage.list_folder(folder).files}
    try:
        return change_vectors(layout, (), deleted)
    except BaseException:
        with suppress(SkerryError):  # what failed before matters more
            found = [file.location for folder in folders for file in layout.storage.list_folder(folder).files]
            layout.storage.delete(location for location in found if location not in before)
        raise


def _remove(base: PaimonState, files: Sequence[str]) -> None:
    """Remove files in their order; one that stays belongs to no table."""
    with suppress(SkerryError):
        for location in files:
            base.storage.delete([location])
