"""The indexes of a table's data files: what is to be built, and the registry."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.table_indexes import file_columns
from skerry.paimon.reading.data_files import names_in_files
from skerry.table.files.data_file import DataFile
from skerry.table.files.evolution import prune
from skerry.table.indexes.building import INDEXED_FORMATS, IndexTask
from skerry.table.indexes.finding import TableIndexes
from skerry.table.indexes.publishing import IndexedTable, wanted_indexes, write_piece
from skerry.table.indexes.registry import IndexedFile, listed_pieces, new_listed_name
from skerry.table.owned_files import OwnedFiles

__all__ = ["index_task", "indexed_table", "register"]


def indexed_table(state: PaimonState) -> IndexedTable:
    """The table as indexing sees it."""
    pieces = listed_pieces(state.storage, state.location)
    return IndexedTable(state.storage, state.location, state.arrow_schema, state.properties, pieces)


def index_task(
    state: PaimonState, data_file: DataFile, schema_id: int, known: TableIndexes | None = None
) -> IndexTask | None:
    """What is to be indexed of a data file; None if nothing is.

    Args:
        state: The table.
        data_file: The file.
        schema_id: The schema that it was written with.
        known: The indexes that there are.
    """
    then = state.schema_by_id(schema_id)
    names = file_columns(state.schema, then)
    wanted = tuple(
        each
        for each in wanted_indexes(state.arrow_schema, state.properties)
        if each.field_id in names and not (known is not None and known.covers(data_file, each, names))
    )
    if not wanted or data_file.file_format not in INDEXED_FORMATS:
        return None
    columns = prune(state.arrow_schema, {each.field_id for each in wanted})
    return IndexTask(state.storage, state.location, data_file, wanted, columns, names_in_files(then))


def register(
    table: IndexedTable, built: Sequence[IndexedFile], files: OwnedFiles, merged: Collection[tuple[str, str]] = ()
) -> tuple[str, ...]:
    """Write a piece of the registry; the locations of all that was written for it.

    Args:
        table: The table.
        built: New entries.
        files: Owns what is written.
        merged: As for `skerry.table.indexes.publishing.write_piece`.
    """
    return write_piece(table, built, new_listed_name(), files, listed=True, merged=merged).files
