"""What scans of one state of a table find out that the next ones need, too: a state never changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skerry.errors import FormatError
from skerry.iceberg.metadata import name_mapping
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema
from skerry.iceberg.metadata.name_mapping import MappedField
from skerry.iceberg.metadata.schema import Schema, index_by_id
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.planning.known_files import KnownFiles
from skerry.iceberg.planning.plan import ScanPlanner
from skerry.table.files.evolution import NameMapping, TableNames, all_ids, merge_columns, prune
from skerry.table.rows.metadata_columns import with_metadata_columns
from skerry.table.rows.schema import field_id
from skerry.variant import is_variant

if TYPE_CHECKING:
    from skerry.table.indexes.building import WantedIndex
    from skerry.table.indexes.finding import TableIndexes

__all__ = ["KnownTable", "column_defaults", "known_table", "leaf_ids"]

_NAME_MAPPING_PROPERTY = "schema.name-mapping.default"
_KEPT_SNAPSHOTS = 4


class KnownTable:
    """A state of a table as scans with one of its schemas see it.

    Args:
        state: The state.
        schema: The schema.
    """

    def __init__(self, state: TableState, schema: Schema) -> None:
        self._state = state
        self._schema = schema
        self._files: dict[int, KnownFiles | None] = {}
        self._asked: set[int] = set()
        self._pruned: dict[frozenset[int], pa.Schema] = {}

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, with field ids."""
        return to_arrow_schema(self._schema)

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns, and the metadata columns."""
        return with_metadata_columns(self.schema)

    @cached_property
    def names(self) -> NameMapping:
        """The field ids of columns by name, for files without ids.

        Raises:
            FormatError: The table property cannot be read.
        """
        return _name_mapping(self._state.properties, self._state.name) or TableNames(self.columns)

    @cached_property
    def all_columns(self) -> pa.Schema:
        """The columns that equality deletes may compare: those that the table has or had."""
        return _with_dropped_columns(self.schema, self._state.metadata.schemas)

    def pruned(self, ids: Iterable[int]) -> pa.Schema:
        """The columns with some field ids, or with fields that have them."""
        wanted = frozenset(ids)
        found = self._pruned.get(wanted)
        if found is None:
            found = self._pruned[wanted] = prune(self.columns, set(wanted))
        return found

    # ---- planning ----

    @cached_property
    def wanted_indexes(self) -> Sequence[WantedIndex]:
        """The indexes that the table's properties ask for."""
        from skerry.table.indexes.publishing import wanted_indexes

        return wanted_indexes(self._state.schema, self._state.properties)

    @cached_property
    def indexes(self) -> TableIndexes:
        """The indexes of the table's files."""
        from skerry.table.indexes.finding import TableIndexes
        from skerry.table.indexes.registry import piece_names

        state = self._state
        return TableIndexes(state.storage, state.metadata.location, piece_names(state.properties))

    def files(self, snapshot: Snapshot, planner: ScanPlanner) -> KnownFiles | None:
        """The files of a snapshot, from the second time on that they are asked for; None for large snapshots.

        Args:
            snapshot: The snapshot.
            planner: What plans scans with the schema.

        Raises:
            SkerryError: As `skerry.iceberg.planning.plan.ScanPlanner.plan`.
        """
        number = snapshot.snapshot_id
        if number not in self._asked:
            self._asked.add(number)
            return None
        if number not in self._files:
            if len(self._files) >= _KEPT_SNAPSHOTS:
                self._files.clear()
            self._files[number] = planner.known_files(snapshot)
        return self._files.get(number)


def known_table(state: TableState, schema: Schema) -> KnownTable:
    """What is known of a state with one of its schemas."""
    key = KnownTable, id(schema)  # what is kept keeps the schema, too
    found: KnownTable | None = state.remembered.get(key)
    if found is None:
        found = state.remembered[key] = KnownTable(state, schema)
    return found


def leaf_ids(fields: Iterable[pa.Field]) -> list[int]:
    """The ids to read for columns: those of a struct's fields, so that the struct itself is not read whole."""
    found = []
    for field in fields:
        is_struct = pa.types.is_struct(field.type) and not is_variant(field.type)
        found += leaf_ids(field.type) if is_struct else [field_id(field)]
    return found


def column_defaults(schema: Schema) -> dict[int, Any]:
    """Initial defaults by field id: the physical values of rows that were written before the column was added."""
    return {
        number: field.initial_default
        for number, field in index_by_id(schema).items()
        if field.initial_default is not None
    }


def _with_dropped_columns(schema: pa.Schema, history: Sequence[Schema]) -> pa.Schema:
    """All columns that a table has or had: equality deletes still compare columns that were dropped since."""
    for old in sorted(history, key=lambda old: old.schema_id, reverse=True):
        if not index_by_id(old).keys() <= all_ids(schema):
            schema = merge_columns(schema, to_arrow_schema(old))
    return schema


def _name_mapping(properties: Mapping[str, str], table: str) -> NameMapping | None:
    text = properties.get(_NAME_MAPPING_PROPERTY)
    if text is None:
        return None
    try:
        mapping = name_mapping.NameMapping.parse(text)
    except FormatError as error:
        raise FormatError(f"table property {_NAME_MAPPING_PROPERTY} cannot be read: {error}", location=table) from error
    ids: dict[tuple[str, ...], int] = {}

    def walk(fields: Iterable[MappedField], path: tuple[str, ...]) -> None:
        for field in fields:
            for name in field.names:
                if field.field_id is not None:
                    ids[(*path, name)] = field.field_id
                walk(field.fields, (*path, name))

    walk(mapping.fields, ())
    return ids
