"""The part of an Iceberg table's face that indexes it and searches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.iceberg.handle import IcebergHandle
from skerry.jobs.table import JobTable
from skerry.table.arguments import SearchOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.table.summaries import IndexSummary, TableIndex
    from skerry.table.work.tasks import Executor, ProgressCallback

__all__ = ["IndexedIcebergTable"]


class IndexedIcebergTable(JobTable):
    """An Iceberg table that can be indexed.

    Attributes:
        handle: The handle of the table, which jobs use.
    """

    handle: IcebergHandle

    def _index(self, executor: Executor | None, progress: ProgressCallback | None) -> IndexSummary:
        from skerry.iceberg.jobs.index import index

        return index(self.handle, executor=executor, progress=progress)

    def _indexes(self) -> list[TableIndex]:
        from skerry.iceberg.jobs.index import indexes

        return indexes(self.handle.state)

    def _search_count(self, options: SearchOptions) -> int:
        from skerry.iceberg.reading.searching import search_count

        return search_count(self.handle.state, options)

    def _search(self, options: SearchOptions) -> pa.Table:
        from skerry.iceberg.reading.searching import search

        return search(self.handle.state, options)
