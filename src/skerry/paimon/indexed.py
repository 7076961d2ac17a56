"""The part of a Paimon table's face that indexes it and searches it."""

from __future__ import annotations

from collections.abc import Sequence
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
        from skerry.table.indexes.definitions import index_definitions

        state = self.handle.refresh()
        if state.options.data_evolution and not index_definitions(state.properties):
            return self._build_global_index(None, executor, progress)
        return index(self.handle, executor=executor, progress=progress)

    def _create_global_index(
        self, columns: tuple[str, ...], executor: Executor | None, progress: ProgressCallback | None
    ) -> IndexSummary:
        return self._build_global_index(columns, executor, progress)

    def _build_global_index(
        self, columns: Sequence[str] | None, executor: Executor | None, progress: ProgressCallback | None
    ) -> IndexSummary:
        from skerry.paimon.jobs.indexes.global_index import build_global_indexes

        request = self.handle.request(executor=executor, progress=progress)
        done = build_global_indexes(request, columns)
        self.handle.keep(request)
        return done

    def _globally_indexed(self) -> Sequence[str]:
        from skerry.paimon.jobs.indexes.global_index import indexed_columns

        return indexed_columns(self.handle.refresh())

    def _drop_global_index(self, columns: Sequence[str]) -> None:
        from skerry.paimon.jobs.indexes.global_index import drop_global_indexes

        request = self.handle.request()
        drop_global_indexes(request, columns)
        self.handle.keep(request)

    def _indexes(self) -> list[TableIndex]:
        from skerry.paimon.jobs.index import indexes
        from skerry.paimon.jobs.indexes.global_index import global_indexes

        state = self.handle.state
        return global_indexes(state) if state.options.data_evolution else indexes(state)

    def _search_count(self, options: SearchOptions) -> int:
        from skerry.paimon.reading.searching import search_count

        return search_count(self.handle.state, options)

    def _search(self, options: SearchOptions) -> pa.Table:
        from skerry.paimon.reading.searching import search

        return search(self.handle.state, options)
