"""Which indexes would have helped: an estimate from plans and distinct counts, without reading rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skerry.errors import NotFoundError, UnsupportedError
from skerry.table.indexes.conditions import value_conditions
from skerry.table.indexes.definitions import IndexDefinition, IndexKind, index_definitions
from skerry.table.predicate import conjuncts_of
from skerry.table.rows.schema import leaf
from skerry.table.summaries import IndexAdvice

if TYPE_CHECKING:
    from skerry.table.arguments import Condition
    from skerry.table.readable import ReadableTable

__all__ = ["advise"]

_ROW_BYTES: Final = 12
"""About what a row takes in a hash index."""
_PAGE_BYTES: Final = 128 << 10
"""What reading a row takes of every column, at most."""


@dataclass(slots=True)
class _Sums:
    """What was added up for a column."""

    conditions: int = 0
    files: float = 0
    skipped_files: float = 0
    read_bytes: float = 0
    skipped_bytes: float = 0


def advise(table: ReadableTable, conditions: Iterable[Condition]) -> list[IndexAdvice]:
    """Estimate what indexes would have saved; see `skerry.table.searchable.SearchableTable.advise_indexes`."""
    columns = _columns(table)
    if not columns:
        return []
    row_count = table.scan().count()
    known = {leaf(table.schema, name).field_id: name for name in columns}
    found = {name: _Sums() for name in columns}
    for condition in conditions:
        scan = table.scan(where=condition)
        sought = [each for each in value_conditions(conjuncts_of(scan.predicate)) if each.field_id in known]
        if not sought:
            continue
        tasks = scan.explain().plan.tasks
        for each in sought:
            name = known[each.field_id]
            rows = len(each.values) * row_count / max(columns[name], 1.0)
            _add(found[name], len(tasks), tasks.size_bytes, rows, len(table.schema))
    size = _ROW_BYTES * row_count
    advice = [
        IndexAdvice(
            name,
            sums.conditions,
            size,
            round(sums.files),
            round(sums.skipped_files),
            round(sums.read_bytes),
            round(sums.skipped_bytes),
        )
        for name, sums in found.items()
        if sums.conditions
    ]
    return sorted(advice, key=lambda each: (-each.skipped_bytes, each.column))


def _columns(table: ReadableTable) -> dict[str, float]:
    """The columns that can have an index and have none, with the number of their distinct values."""
    indexed = {definition.column for definition in index_definitions(table.properties)}
    found = {}
    for name, statistics in table.statistics().items():
        if name in indexed or statistics.ndv is None:
            continue
        try:
            IndexDefinition(name, IndexKind.HASH).field_id(table.schema)
        except (NotFoundError, UnsupportedError):
            continue
        found[name] = statistics.ndv
    return found


def _add(sums: _Sums, files: int, size_bytes: int, rows: float, columns: int) -> None:
    """Add a query that reads some files, in any of which the rows of its values may be."""
    left = files * (1 - (1 - 1 / files) ** rows) if files else 0.0
    read = min(size_bytes * left / files, rows * columns * _PAGE_BYTES) if files else 0.0
    sums.conditions += 1
    sums.files += files
    sums.skipped_files += files - left
    sums.read_bytes += size_bytes
    sums.skipped_bytes += size_bytes - read
