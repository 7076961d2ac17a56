"""Merge rows into a table by key: update or delete matching rows, insert the others."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from skerry.errors import SchemaError
from skerry.iceberg.jobs.merging.attempt import Attempt
from skerry.iceberg.jobs.merging.in_tasks import AttemptInTasks
from skerry.iceberg.jobs.merging.without_read import merge_blind
from skerry.iceberg.jobs.row_changes import ChangeRequest, redo_after_conflicts
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.table_metadata import data_key_bytes
from skerry.storage import join
from skerry.table.arguments import Rows
from skerry.table.indexes.definitions import PIECES_PROPERTY
from skerry.table.merging import (
    MergeClauses,
    RemoteRows,
    StagedRows,
    StagedSource,
    bind_rules,
    index_source,
    key_facts,
    refuse_repeated_keys,
    stage,
)
from skerry.table.owned_files import owned_files
from skerry.table.rows.incoming import open_stream
from skerry.table.summaries import RowChangeSummary

__all__ = ["merge", "upsert", "upsert_staged"]


def upsert(
    request: ChangeRequest, data: Rows | RemoteRows, on: str | Sequence[str], *, blind: bool = False
) -> RowChangeSummary:
    """Update the rows with the keys of new rows, and insert the new rows with new keys.

    Args:
        request: The table, and how to change it.
        data: The new rows; columns of the table that they lack stay as they are.
        on: The key columns.
        blind: Do not read the table: delete the keys, whether they exist or not, and insert the rows.

    Raises:
        SchemaError: The data does not fit the table, or a key is in it twice.
        ConflictError: Other writers repeatedly changed the same rows.
        UnsupportedError: It cannot be done without reading the table.
    """
    return _merge(request, data, on, MergeClauses("update", "insert"), blind=blind, unique=True)


def upsert_staged(request: ChangeRequest, staged: StagedRows, on: Sequence[str]) -> RowChangeSummary:
    """Do as `upsert` with rows in files, of which no process ever has all columns; what tasks leave is removed."""
    keys, clauses = tuple(on), MergeClauses("update", "insert")
    schema = request.table.refresh().schema
    bind_rules(StagedSource.schema_of(staged.schema, keys, schema), keys, schema, clauses)  # before any work
    with owned_files(staged.storage, staged.folder) as files:
        done = _merge_staged(request, staged, keys, clauses, unique=True)
        files.remove()
    return done


def merge(
    request: ChangeRequest,
    data: Rows | RemoteRows,
    on: str | Sequence[str],
    clauses: MergeClauses,
    *,
    blind: bool = False,
) -> RowChangeSummary:
    """Merge rows into a table.

    Args:
        request: The table, and how to change it.
        data: The source, anything with the Arrow C stream interface, which is held in memory, or rows that tasks have.
        on: The key columns, which have the same names in the source and in the table.
        clauses: What to do with rows that match, and with those that do not.
        blind: Do not read the table: delete keys whether they exist or not, and insert rows.

    Raises:
        ConflictError: Other writers repeatedly changed the same rows.
        FormatError: A condition or value is not valid SQL.
        SchemaError: The source, a condition or a value does not fit the table, or several rows of the source match one
            row of the table.
        UnsupportedError: It cannot be done without reading the table.
    """
    return _merge(request, data, on, clauses, blind=blind, unique=False)


def _merge(
    request: ChangeRequest,
    data: Rows | RemoteRows,
    on: str | Sequence[str],
    clauses: MergeClauses,
    *,
    blind: bool,
    unique: bool,
) -> RowChangeSummary:
    keys = (on,) if isinstance(on, str) else tuple(on)
    if isinstance(data, RemoteRows) and not blind:
        return _merge_in_tasks(request, data, keys, clauses, unique=unique)
    rows = open_stream(data).read_all()

    def attempt(state: TableState) -> RowChangeSummary:
        source = index_source(rows, keys, state.schema)
        if unique or blind:
            refuse_repeated_keys(source)
        rules = bind_rules(source.schema, keys, state.schema, clauses)
        if blind:
            return merge_blind(request, state, source, rules)
        facts = key_facts(source, state.schema, with_values=PIECES_PROPERTY in state.properties)
        return Attempt(request, state, source, facts, rules).run()

    return redo_after_conflicts(request, attempt)


def _merge_in_tasks(
    request: ChangeRequest, data: RemoteRows, keys: tuple[str, ...], clauses: MergeClauses, *, unique: bool
) -> RowChangeSummary:
    """Merge rows that tasks have: they leave them in files, from which other tasks read what they need."""
    state = request.table.refresh()
    storage, folder = state.storage, join(state.data_folder, str(uuid.uuid4()))
    storage.check_writable(folder)
    bind_rules(StagedSource.schema_of(data.schema, keys, state.schema), keys, state.schema, clauses)  # before any work
    with owned_files(storage, folder) as files:
        encrypts = data_key_bytes(state.properties) is not None
        staged = stage(data, storage, folder, encrypts=encrypts)
        done = _merge_staged(request, staged, keys, clauses, unique=unique)
        files.remove()
    return done


def _merge_staged(
    request: ChangeRequest, staged: StagedRows, keys: tuple[str, ...], clauses: MergeClauses, *, unique: bool
) -> RowChangeSummary:
    def attempt(state: TableState) -> RowChangeSummary:
        source = StagedSource(staged, keys, state.schema)
        rules = bind_rules(source.schema, keys, state.schema, clauses)
        facts = source.facts(request.executor, with_values=PIECES_PROPERTY in state.properties)
        if unique and facts.repeated is not None:
            raise SchemaError(f"several rows of the source have one key: {facts.repeated}")
        return AttemptInTasks(request, state, source, facts, rules).run()

    return redo_after_conflicts(request, attempt)
