"""Analyze: sketch the rows that a table has, and publish the sketches for the snapshot that holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skerry.errors import NotFoundError, UnsupportedError
from skerry.iceberg.files import refuse_deletes
from skerry.iceberg.table import IcebergTable
from skerry.jobs.executor import Executor, Progress, ThreadExecutor, Watcher
from skerry.storage import Storage
from skerry.table.files import WrittenFile
from skerry.table.schema import leaf
from skerry.table.sketching import sketch_parquet
from skerry.table.statistics import SketchPolicy, union_of_samples

__all__ = ["AnalyzeSummary", "SketchTask", "analyze", "sketch_file"]


@dataclass(frozen=True, slots=True)
class SketchTask:
    """Sketch one data file.

    Args:
        file: The file.
        schema_ipc: The table's schema as Arrow IPC.
        field_ids: The columns.
        storage_options: Options of the storage; never printed.
    """

    file: WrittenFile
    schema_ipc: bytes
    field_ids: tuple[int, ...]
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class AnalyzeSummary:
    """What an analyze did.

    Args:
        snapshot_id: The snapshot that was described, None for a table without rows.
        columns: Columns sketched.
        files: Files read.
        rows: Rows in them.
    """

    snapshot_id: int | None
    columns: int
    files: int
    rows: int
