"""Rows of data files that the table's own indexes leave: those of `create_index`, beside the format's file indexes.

What holds for all records of a key or for none excludes files; other conditions do so where a file's rows are those of
the table, and exclude sections that are merged from whole rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.planning.entry_columns import same_type
from skerry.paimon.values.byte_spans import Longs
from skerry.paimon.values.types import DataField, RowType
from skerry.table.files.data_file import DataFile
from skerry.table.indexes.conditions import IndexCondition
from skerry.table.indexes.finding import TableIndexes
from skerry.table.indexes.publishing import wanted_indexes
from skerry.table.indexes.registry import listed_pieces
from skerry.table.indexes.words import index_conditions
from skerry.table.predicate import Predicate
from skerry.table.work.read_ahead import WorkPool

__all__ = ["IndexLookup", "file_columns", "forget_indexes", "known_indexes"]


def file_columns(now: TableSchema, then: TableSchema) -> dict[int, str]:
    """The names of the columns of a file by field id, as far as they have the type that they have now.

    Names of fields of structs are paths, with dots.

    Args:
        now: The schema of the scan.
        then: The schema of the file.
    """
    types = {field.id: field.type for _, field in _at_every_level(now.fields)}
    return {
        field.id: path
        for path, field in _at_every_level(then.fields)
        if field.id in types and same_type(field.type, types[field.id])
    }


def _at_every_level(fields: Iterable[DataField], prefix: str = "") -> Iterator[tuple[str, DataField]]:
    """Columns, and fields of structs, with their paths."""
    for field in fields:
        yield prefix + field.name, field
        if isinstance(field.type, RowType):
            yield from _at_every_level(field.type.fields, f"{prefix}{field.name}.")


def known_indexes(state: PaimonState) -> TableIndexes:
    """The indexes of a table, as they were when one of its files was first looked for with this state."""
    found: TableIndexes | None = state.remembered.get(TableIndexes)
    if found is None:
        pieces = listed_pieces(state.storage, state.location)
        found = state.remembered[TableIndexes] = TableIndexes(state.storage, state.location, pieces)
    return found


def forget_indexes(state: PaimonState) -> None:
    """Look for indexes again: the registry of the state's table has new pieces."""
    state.remembered.pop(TableIndexes, None)


@dataclass(frozen=True)
class IndexLookup:
    """Asks the indexes of files.

    Args:
        state: The table, with the schema of the scan.
        conjuncts: Predicates that matching rows satisfy one and all.
        pool: Threads that ask.
        sought: Further conditions that matching rows satisfy.
    """

    state: PaimonState
    conjuncts: tuple[Predicate, ...]
    pool: WorkPool
    sought: tuple[IndexCondition, ...] = ()

    @cached_property
    def conditions(self) -> tuple[IndexCondition, ...]:
        """The conditions with which indexes help."""
        of_partitions = {field.id for field in self.state.schema.partition_fields}
        found = index_conditions(self.conjuncts, wanted_indexes(self.state.arrow_schema, self.state.properties))
        return tuple(each for each in (*found, *self.sought) if each.wanted.field_id not in of_partitions)

    @cached_property
    def on_keys(self) -> tuple[IndexCondition, ...]:
        """Those that hold for all records of a key or for none."""
        keys = {field.id for field in self.state.schema.key_fields} if self.state.schema.primary_keys else set()
        return tuple(each for each in self.conditions if each.wanted.field_id in keys)

    def rows(
        self,
        entries: pa.RecordBatch,
        chosen: Longs,
        places: tuple[Sequence[str], Longs],
        conditions: Sequence[IndexCondition],
    ) -> dict[int, Positions]:
        """The rows of files that may satisfy all conditions, by number of the file, of files that have an index.

        Args:
            entries: The files.
            chosen: int64[n] Which.
            places: Folders, and int64[files]: the folder of each file.
            conditions: The conditions.
        """
        if not conditions or not len(chosen):
            return {}
        folders, folder_of = places
        columns = ("_FILE_NAME", "_EXTERNAL_PATH", "_FILE_SIZE", "_ROW_COUNT", "_SCHEMA_ID")
        files = zip(*(entries.column(name).take(pa.array(chosen)).to_pylist() for name in columns), strict=True)
        tasks = [
            (DataFile(path or f"{folder}/{name}", name.rpartition(".")[2].lower(), count, size), schema_id)
            for (name, path, size, count, schema_id), folder in zip(
                files, (folders[place] for place in folder_of[chosen].tolist()), strict=True
            )
        ]
        names = {number: file_columns(self.state.schema, self.state.schema_by_id(number)) for _, number in tasks}
        found = self.pool.in_order(lambda task: self._indexes.rows(task[0], conditions, names[task[1]]), tasks)
        return {number: rows for number, rows in zip(chosen.tolist(), found, strict=True) if rows is not None}

    @cached_property
    def _indexes(self) -> TableIndexes:
        return known_indexes(self.state)
