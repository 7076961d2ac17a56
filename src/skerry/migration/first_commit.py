"""Create a Paimon table with rows in it atomically: one snapshot and all schemas.

A table exists once its newest schema is there. So that schema is written last: it is the publish step, and if anything
fails before it, everything written is removed.

Spec: docs/formats/paimon.md § 1.1, § 2, § 3, § 4.1; Paimon spec, Schema, Snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    ConflictError,
    StorageError,
)
from skerry.paimon.commit import PaimonTarget
from skerry.paimon.manifests.manifest import ManifestEntry
from skerry.paimon.metadata.published_file import holds, publish_file
from skerry.paimon.metadata.schema import TableSchema, encode_schema
from skerry.paimon.metadata.schemas import schema_ids
from skerry.paimon.metadata.snapshot import CommitKind, encode_snapshot
from skerry.paimon.metadata.snapshots import LATEST, write_hint
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations.change import CommitId, TableChange
from skerry.paimon.operations.row_vectors import FileKey, change_vectors
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.writing.layout import WriteLayout
from skerry.storage import join
from skerry.table.owned_files import OwnedFiles, PublishStep, after_publish
from skerry.table.statistics.table_sample import SampleChange

__all__ = ["FirstRows", "check_free", "create_with_rows"]


@dataclass(frozen=True)
class FirstRows:
    """The initial content of a table.

    Args:
        entries: Its data files.
        deleted: int64[n] Positions of deleted rows, ascending, by data file.
        samples: The samples of its values.
        properties: The snapshot's properties.
    """

    entries: tuple[ManifestEntry, ...]
    deleted: Mapping[FileKey, Positions] = field(default_factory=dict)
    samples: SampleChange | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def check_free(base: PaimonState) -> None:
    """Refuse a folder that contains a table, or files that would be taken for its snapshots.

    Raises:
        AlreadyExistsError: It does.
    """
    if schema_ids(base.storage, base.paths) or base.storage.list_folder(base.paths.snapshots).files:
        raise AlreadyExistsError(f"table {base.name!r} already exists", location=base.location)


def create_with_rows(
    base: PaimonState, older: Sequence[TableSchema], rows: FirstRows | None, files: OwnedFiles
) -> PaimonState:
    """Create a table.

    Args:
        base: The new table, without a snapshot.
        older: The other schemas that its files have.
        rows: Its initial content; None for no snapshot.
        files: Owns what is written, until the newest schema is published.

    Raises:
        AlreadyExistsError: There is a table already.
        CommitUnknownError: It may or may not have been created; nothing was removed.
        StorageError: It could not be created.
    """
    check_free(base)
    state = base if rows is None else _write_rows(base, rows, files)
    for schema in older:
        _write_unless_there(base, base.paths.schema(schema.id), encode_schema(schema), files)
    step = PublishStep((), files)
    try:
        publish_file(base.storage, base.paths.schema(base.schema.id), encode_schema(base.schema), "the table")
    except ConflictError as error:
        step.withdraw()
        raise _exists(base) from error
    except AccessDeniedError:
        step.withdraw()
        raise
    return state


def _exists(base: PaimonState) -> AlreadyExistsError:
    return AlreadyExistsError(f"table {base.name!r} already exists", location=base.location)


def _write_unless_there(base: PaimonState, location: str, data: bytes, files: OwnedFiles) -> None:
    """Write a file under a name that concurrent writers would use too; it is owned unless it is theirs.

    A client whose response was lost repeats the request, and then finds the file that it wrote itself.
    """
    files.add_found(lambda: [location] if holds(base.storage, location, data) else [])
    try:
        base.storage.write(location, data)
    except AlreadyExistsError as error:
        if not holds(base.storage, location, data):
            raise _exists(base) from error
    except StorageError:
        if not holds(base.storage, location, data):
            raise


def _write_rows(base: PaimonState, rows: FirstRows, files: OwnedFiles) -> PaimonState:
    """Write the first snapshot; it belongs to no table until there is a schema."""
    layout = WriteLayout(base.name, base.location, base.storage, base.schema)
    target = PaimonTarget(base, base.branch)
    index = change_vectors(layout, (), rows.deleted, owned=files)
    change = TableChange(
        CommitKind.OVERWRITE if index else CommitKind.APPEND,
        CommitId.fresh(),
        rows.entries,
        index=index,
        samples=rows.samples,
        properties=rows.properties,
    )
    snapshot = target.stage(base, change, files).snapshot
    _write_unless_there(base, base.paths.snapshot(snapshot.id), encode_snapshot(snapshot), files)
    files.add(join(base.paths.snapshots, LATEST))
    with after_publish("the hint at the newest snapshot"):
        write_hint(base.storage, base.paths, snapshot.id)
    return replace(base, snapshot=snapshot)
