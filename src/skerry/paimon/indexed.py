"""The part of a Paimon table's face that indexes it and searches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.jobs.table import JobTable
from skerry.paimon.handle import PaimonHandle
from skerry.table.arguments import SearchOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.table.summaries import IndexSummary, TableIndex
    from skerry.table.work.tasks import Executor, ProgressCallback

__all__ = ["IndexedPaimonTable"]


class IndexedPaimonTable(JobTable):
    """A Paimon table that can be indexed.

    Attributes:
        handle: The table as jobs work on it.
    """

    handle: PaimonHandle

    def _index(self, executor: Executor | None, progress: ProgressCallback | None) -> IndexSummary:
        from skerry.paimon.jobs.index import index

        return index(self.handle, executor=executor, progress=progress)

    def _indexes(self) -> list[TableIndex]:
        from skerry.paimon.jobs.index import indexes

        return indexes(self.handle.state)

    def _search(self, options: SearchOptions) -> pa.Table:
        from skerry.paimon.reading.searching import search

        return search(self.handle.state, options)
