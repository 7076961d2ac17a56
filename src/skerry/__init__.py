"""One lakehouse storage layer in Python: Iceberg and Paimon tables whose statistics are committed with their rows.

    catalog = skerry.connect("warehouse/")
    table = catalog.create_table("nyc.flights", flights.schema)
    table.append(flights)
    table.scan(columns=["dest"], where="month = 12").to_arrow()
    table.statistics()["tailnum"].ndv

Methods of a table, each with its own help:

- read: `scan`, `head`, `count`, `lookup`, `to_arrow`, `to_pandas`, `to_polars`, `to_duckdb`, `lazy`
- what is known of it: `schema`, `statistics`, `freshness`, `history`, `snapshots`, `inspect`, `health`
- change rows: `append`, `overwrite`, `update`, `delete`, `upsert`, `merge`, `apply_changes`; see them with `changes`
- find rows: `create_index`, `search`, `follow`
- change the table: `update_schema`, `update_spec`, `update_sort_order`, `set_properties`, `upgrade`
- branches and tags: `create_branch`, `create_tag`, `fast_forward`, `cherry_pick`, `publish`, `rollback`
- maintain: `compact`, `expire_snapshots`, `analyze`, `remove_orphans`, `rewrite_manifests`, `copy_to`, `relocate`

A catalog has `sql`, `explain`, `joinable`, `transaction` and more. The other names here are those of results and
arguments, for annotations. Submodules load on first use, so that importing the package costs little.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from skerry._version import __version__

if TYPE_CHECKING:
    from skerry.catalog import Catalog as Catalog
    from skerry.catalog import connect as connect
    from skerry.catalog import open_table as open_table
    from skerry.catalog.view import View as View
    from skerry.catalog.view import ViewDefinition as ViewDefinition
    from skerry.planner.explanation import QueryPlan as QueryPlan
    from skerry.planner.ordering import JoinPlan as JoinPlan
    from skerry.storage import Storage as Storage
    from skerry.table.arguments import ColumnSource as ColumnSource
    from skerry.table.arguments import Condition as Condition
    from skerry.table.arguments import Rows as Rows
    from skerry.table.copying import CopiedFile as CopiedFile
    from skerry.table.copying import CopySummary as CopySummary
    from skerry.table.display import load_ipython_extension as load_ipython_extension
    from skerry.table.explanation import Explanation as Explanation
    from skerry.table.files.data_file import DataFile as DataFile
    from skerry.table.history import Ref as Ref
    from skerry.table.history import Snapshot as Snapshot
    from skerry.table.inspection.health import Finding as Finding
    from skerry.table.inspection.inspect import Inspect as Inspect
    from skerry.table.merging import Delete as Delete
    from skerry.table.merging import Insert as Insert
    from skerry.table.merging import Update as Update
    from skerry.table.rows.row_stream import RowStream as RowStream
    from skerry.table.statistics.column_statistics import ColumnStatistics as ColumnStatistics
    from skerry.table.statistics.column_statistics import Freshness as Freshness
    from skerry.table.statistics.column_statistics import FreshnessState as FreshnessState
    from skerry.table.statistics.joinable import JoinableColumn as JoinableColumn
    from skerry.table.statistics.joinable import JoinableColumns as JoinableColumns
    from skerry.table.statistics.joinable import NotCompared as NotCompared
    from skerry.table.summaries import AnalyzeSummary as AnalyzeSummary
    from skerry.table.summaries import ChangeSummary as ChangeSummary
    from skerry.table.summaries import CompactSummary as CompactSummary
    from skerry.table.summaries import DeletesSummary as DeletesSummary
    from skerry.table.summaries import ExpireSummary as ExpireSummary
    from skerry.table.summaries import FileIndexSummary as FileIndexSummary
    from skerry.table.summaries import IndexAdvice as IndexAdvice
    from skerry.table.summaries import IndexSummary as IndexSummary
    from skerry.table.summaries import ManifestSummary as ManifestSummary
    from skerry.table.summaries import MigrationSummary as MigrationSummary
    from skerry.table.summaries import OrphanFile as OrphanFile
    from skerry.table.summaries import OrphanSummary as OrphanSummary
    from skerry.table.summaries import PartitionExpireSummary as PartitionExpireSummary
    from skerry.table.summaries import RelocationSummary as RelocationSummary
    from skerry.table.summaries import RowChangeSummary as RowChangeSummary
    from skerry.table.summaries import TableIndex as TableIndex
    from skerry.table.summaries import TableRelocationSummary as TableRelocationSummary
    from skerry.table.table import Table as Table
    from skerry.table.table_files import TableFile as TableFile
    from skerry.table.table_scan import TableScan as TableScan
    from skerry.table.updates import SchemaUpdate as SchemaUpdate
    from skerry.table.updates import SpecUpdate as SpecUpdate
    from skerry.table.work.progress import Progress as Progress
    from skerry.table.work.tasks import Executor as Executor
    from skerry.table.work.tasks import JobProgress as JobProgress
    from skerry.table.work.tasks import ThreadExecutor as ThreadExecutor
    from skerry.theta.overlap import Proportion as Proportion

_SUBMODULES: Final = frozenset({"amudai", "catalog", "errors", "puffin", "spark", "theta"})
_WHERE: Final = {
    "AnalyzeSummary": "table.summaries",
    "Catalog": "catalog",
    "ChangeSummary": "table.summaries",
    "ColumnSource": "table.arguments",
    "ColumnStatistics": "table.statistics.column_statistics",
    "CompactSummary": "table.summaries",
    "Condition": "table.arguments",
    "CopiedFile": "table.copying",
    "CopySummary": "table.copying",
    "DataFile": "table.files.data_file",
    "Delete": "table.merging",
    "DeletesSummary": "table.summaries",
    "Executor": "table.work.tasks",
    "ExpireSummary": "table.summaries",
    "FileIndexSummary": "table.summaries",
    "PartitionExpireSummary": "table.summaries",
    "Explanation": "table.explanation",
    "Finding": "table.inspection.health",
    "Freshness": "table.statistics.column_statistics",
    "FreshnessState": "table.statistics.column_statistics",
    "Insert": "table.merging",
    "Inspect": "table.inspection.inspect",
    "JobProgress": "table.work.tasks",
    "JoinPlan": "planner.ordering",
    "JoinableColumn": "table.statistics.joinable",
    "JoinableColumns": "table.statistics.joinable",
    "IndexAdvice": "table.summaries",
    "IndexSummary": "table.summaries",
    "ManifestSummary": "table.summaries",
    "MigrationSummary": "table.summaries",
    "NotCompared": "table.statistics.joinable",
    "OrphanFile": "table.summaries",
    "OrphanSummary": "table.summaries",
    "Progress": "table.work.progress",
    "Proportion": "theta.overlap",
    "QueryPlan": "planner.explanation",
    "Ref": "table.history",
    "RelocationSummary": "table.summaries",
    "RowChangeSummary": "table.summaries",
    "RowStream": "table.rows.row_stream",
    "Rows": "table.arguments",
    "SchemaUpdate": "table.updates",
    "Snapshot": "table.history",
    "SpecUpdate": "table.updates",
    "Storage": "storage",
    "Table": "table.table",
    "TableFile": "table.table_files",
    "TableIndex": "table.summaries",
    "TableRelocationSummary": "table.summaries",
    "TableScan": "table.table_scan",
    "ThreadExecutor": "table.work.tasks",
    "Update": "table.merging",
    "View": "catalog.view",
    "ViewDefinition": "catalog.view",
    "connect": "catalog",
    "load_ipython_extension": "table.display",
    "open_table": "catalog",
}

__all__ = [*_WHERE, "__version__"]  # noqa: PLE0604  all of them are texts


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"skerry.{_WHERE[name]}"), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"skerry.{name}")
    raise AttributeError(f"module 'skerry' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE, *_SUBMODULES})
