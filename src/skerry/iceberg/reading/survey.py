"""Preview of a scan's files: how many of their row groups remain after pruning by statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask, ScanStep, sum_steps
from skerry.table.files.stored_files import open_stored
from skerry.table.predicate import Column, FieldMetrics, conjuncts_of, evaluate
from skerry.table.rows.metadata_columns import is_metadata_column
from skerry.table.work.read_ahead import WorkPool

__all__ = ["survey_row_groups"]


def survey_row_groups(reader: RowReader, tasks: Iterable[FileScanTask]) -> ScanStep:
    """Prune the row groups (or stripes) of files by their statistics. Footers are read, rows are not.

    Args:
        reader: The reader of the tasks.
        tasks: Tasks of files or of parts of files.

    Raises:
        FormatError: A file is corrupt.
        NotFoundError: A file is missing.
        SchemaError: A file's columns do not fit the table's schema.
        UnsupportedError: A file is in an unsupported format, or uses unsupported features.
    """
    with WorkPool(reader.threads, "survey", is_local=reader.is_local) as pool:
        found = list(pool.in_order(lambda task: _survey(reader, task), tasks))
    return sum_steps(found, _NAME)


_NAME = "row groups by statistics"


def _survey(reader: RowReader, task: FileScanTask) -> ScanStep:
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
    return ScanStep(
        _NAME,
        int(np.count_nonzero(within)),
        int(np.count_nonzero(alive)),
        int(rows[within].sum()),
        int(rows[alive].sum()),
        tuple((+reasons).items()),
    )
