"""A table as users hold it: the same names over every table format.

Its methods lie by topic in `handle` (identity), `history`, `reading`, `writing`, `changing`, `applying`, `evolution`
and `maintenance`.
"""

from __future__ import annotations

from skerry.catalog.applying import TableApplying
from skerry.catalog.changing import TableChanging
from skerry.catalog.evolution import TableEvolution
from skerry.catalog.history import TableHistory
from skerry.catalog.maintenance import TableMaintenance
from skerry.catalog.reading import TableReading
from skerry.catalog.writing import TableWriting
from skerry.table.history import Snapshot

__all__ = ["Snapshot", "Table"]


class Table(TableReading, TableWriting, TableChanging, TableApplying, TableEvolution, TableMaintenance, TableHistory):
    """A table. Made by `Catalog.load_table` and `Catalog.create_table`.

    It shows the state that was newest when it was loaded or last changed through it; `refresh` loads the newest.
    """
