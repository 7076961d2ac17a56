"""Scans as users hold them, the same for every table format."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from skerry.table.explanation import Explanation
from skerry.table.rows.row_stream import BoundedStream

if TYPE_CHECKING:
    from skerry.table.predicate import Predicate

__all__ = ["TableScan"]


class TableScan(BoundedStream):
    """Rows of one snapshot of a table, described; nothing is read until a method asks for it.

    It is an Arrow stream itself, so that whatever takes one takes a scan: `polars.from_arrow(scan)`,
    `other.append(scan)`.

    Example:
        table.scan(["carrier", "delay"], "delay > 60", limit=10).to_arrow()
    """

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns that are delivered, in their order."""

    @property
    @abstractmethod
    def snapshot_id(self) -> int | None:
        """The snapshot that is read; None for a table without rows so far."""

    @property
    @abstractmethod
    def predicate(self) -> Predicate:
        """The condition as it was understood."""

    @abstractmethod
    def plan(self) -> Sequence[object]:
        """What is read, as picklable records: files (`FileScanTask`) of Iceberg tables, `Split` of Paimon tables."""

    @abstractmethod
    def explain(self) -> Explanation:
        """What will be read, and what was left out at which step and why; no data file is opened but for its footer."""

    @property
    @abstractmethod
    def file_count(self) -> int:
        """How many data files are read."""

    @abstractmethod
    def count(self) -> int:
        """How many rows there are; only files that metadata does not decide about are read."""
