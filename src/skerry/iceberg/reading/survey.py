"""Preview of a scan's files: how many of their row groups, and of the pages in these, are read."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from skerry.iceberg.planning.planned_files import PlannedFiles
from skerry.table.files.parquet_file import ParquetFile
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask, ScanPlan, ScanStep, sum_steps
from skerry.table.files.stored_file import StoredFile
from skerry.table.files.stored_files import open_stored
from skerry.table.predicate import Column, FieldMetrics, conjuncts_of, evaluate
from skerry.table.rows.metadata_columns import is_metadata_column
from skerry.table.work.read_ahead import WorkPool

__all__ = ["survey"]


def survey(reader: RowReader, plan: ScanPlan[PlannedFiles]) -> ScanPlan[PlannedFiles]:
    """Prune the row groups (or stripes) of files by their statistics and indexes. Footers are read, rows are not.

    Args:
        reader: The reader of the tasks.
        plan: Tasks of files or of parts of files.

    Returns:
        The plan with a step for row groups, and if indexes leave single rows of files that say where their pages are,
        one for pages.

    Raises:
        FormatError: A file is corrupt.
        NotFoundError: A file is missing.
        SchemaError: A file's columns do not fit the table's schema.
        UnsupportedError: A file is in an unsupported format, or uses unsupported features.
    """
    with WorkPool(reader.threads, "survey", is_local=reader.is_local) as pool:
        found = list(pool.in_order(lambda task: _survey(reader, task), plan.tasks))
    pages = [step for _, step in found if step is not None]
    steps = [*plan.steps, sum_steps((step for step, _ in found), _NAME)]
    return replace(plan, steps=(*steps, sum_steps(pages, _PAGES)) if pages else tuple(steps))


_NAME: Final = "row groups by statistics"
_PAGES: Final = "pages by index"


def _survey(reader: RowReader, task: FileScanTask) -> tuple[ScanStep, ScanStep | None]:
    """The row groups of a file; and if indexes leave single rows, the pages of all columns in the remaining ones."""
    data_file = task.data_file
    file = open_stored(
        reader.storage,
        data_file.location,
        data_file.file_format,
        reader.read_schema,
        reader.names,
        key_metadata=data_file.key_metadata,
    )
    end = data_file.file_size_bytes if task.end_byte is None else task.end_byte
    within = np.array([task.start_byte <= part.offset < end for part in file.parts], bool)
    rows = np.array([part.row_count for part in file.parts], np.int64)
    alive = within.copy()
    reasons: Counter[str] = Counter()

    def metrics(column: Column) -> FieldMetrics | None:
        return None if is_metadata_column(column.field_id) else file.metrics(column)

    for conjunct in () if task.matches_all else conjuncts_of(reader.predicate):
        may = evaluate(conjunct, metrics, len(rows)).may
        reasons[f"statistics without {conjunct}"] += int(np.count_nonzero(alive & ~may))
        alive &= may
    if task.rows is not None:
        edges = np.append([part.first_row for part in file.parts], file.row_count)
        has_rows = np.diff(np.searchsorted(task.rows, edges)) > 0
        reasons["no row by the indexes"] += int(np.count_nonzero(alive & ~has_rows))
        alive &= has_rows
    step = ScanStep(
        _NAME,
        int(np.count_nonzero(within)),
        int(np.count_nonzero(alive)),
        int(rows[within].sum()),
        int(rows[alive].sum()),
        tuple((+reasons).items()),
    )
    return step, None if task.rows is None else _pages(file, np.flatnonzero(alive), task.rows)


def _pages(file: StoredFile, groups: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> ScanStep | None:
    """The pages with wanted rows in some row groups; None if the file does not say where its pages are."""
    if not isinstance(file, ParquetFile) or not file.paged_columns:
        return None
    positions = [position for position, _ in file.paged_columns]
    total = kept = count = 0
    for group in groups.tolist():
        chunks = file.layout.row_groups[group].chunks
        if any(chunks[position].offset_index is None for position in positions):
            return None
        part = file.parts[group]
        wanted = rows[(rows >= part.first_row) & (rows < part.first_row + part.row_count)] - part.first_row
        count += len(wanted)
        for chunk in file.paged_chunks(part.index, positions):
            first = chunk.places.first_rows
            total += len(first) - 1
            kept += len(np.unique(np.searchsorted(first, wanted, "right")))
    in_groups = sum(file.parts[group].row_count for group in groups.tolist())
    return ScanStep(_PAGES, total, kept, in_groups, count)
