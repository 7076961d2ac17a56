"""Searching a column for words: candidates by text indexes, then the values themselves."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.reading.narrowing import few_tasks
from skerry.iceberg.reading.scan import Scan, scan
from skerry.storage import is_local
from skerry.table.arguments import SearchOptions
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.indexes.finding import TableIndexes
from skerry.table.indexes.word_search import WordSearch
from skerry.table.rows.metadata_columns import METADATA_COLUMNS
from skerry.table.work.read_ahead import scan_pool

if TYPE_CHECKING:
    from typing import Self

__all__ = ["search", "search_count"]

_POSITION: Final = METADATA_COLUMNS.field("_pos")
_FEW_UNCHECKED: Final = 16
"""So many rows are read with all columns before their words are checked: that takes fewer steps."""


def search(state: TableState, options: SearchOptions) -> pa.Table:
    """Find rows by words; see `skerry.table.searchable.SearchableTable.search`."""
    looked, tasks = _Search.of(state, options)
    words = looked.words
    wanted = scan(state, options.columns, options.where, snapshot=options.snapshot).schema
    both = words.read_schema(wanted)
    if is_local(state.metadata.location):
        few, others = few_tasks(tasks, looked.rows)
        if others is None and not (looked.checks_first and sum(_row_count(task) for task in few) > _FEW_UNCHECKED):
            found = looked.scan.row_reader(both).batches_here(few)
            return words.table(map(words.matching, found), wanted, options.limit)
        tasks = itertools.chain(few, others or ())
    if looked.checks_first:
        return words.table(looked.batches(wanted, tasks), wanted, options.limit)
    return words.table(map(words.matching, looked.batches(both, tasks)), wanted, options.limit)


def _row_count(task: FileScanTask) -> int:
    return 0 if task.rows is None else len(task.rows)


def search_count(state: TableState, options: SearchOptions) -> int:
    """Count rows by words; see `skerry.table.searchable.SearchableTable.search_count`."""
    looked, tasks = _Search.of(state, options)
    words = looked.words
    found = looked.batches(words.read_schema(pa.schema([])), tasks, checked=False)
    return sum(words.matching(batch).num_rows for batch in found)


@dataclass(frozen=True)
class _Search:
    """A search in the files of a plan.

    Args:
        scan: Reads the table's columns.
        indexes: The table's indexes.
        words: What is searched.
    """

    scan: Scan
    indexes: TableIndexes
    words: WordSearch

    @classmethod
    def of(cls, state: TableState, options: SearchOptions) -> tuple[Self, Iterable[FileScanTask]]:
        """A search, and the files that it is in, the newest first."""
        searched = scan(state, None, options.where, snapshot=options.snapshot, threads=options.threads)
        words = WordSearch.of(searched.schema, state.properties, options.column, options.query)
        tasks = sorted(searched.whole_files(), key=lambda task: -(task.sequence_number or 0))
        return cls(searched, searched.indexes, words), tasks

    @cached_property
    def checks_first(self) -> bool:
        """Whether values are looked at before the other columns are read: an index leaves more rows than match.

        Of one word it hardly does. A table may have a column of its own with the name of the rows' positions.
        """
        is_word = self.words.is_one_word
        return not is_word and _POSITION.name not in self.scan.schema.names

    def rows(self, task: FileScanTask) -> npt.NDArray[np.int64] | None:
        """The rows of a file that may match: int64[n], ascending; None for all."""
        return self.indexes.rows(task.data_file, [self.words.condition])

    def batches(
        self, schema: pa.Schema, tasks: Iterable[FileScanTask], *, checked: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """The rows that may match, file by file; indexes and values of later files are looked at meanwhile.

        Args:
            schema: The columns to read.
            tasks: The files, whole ones or those whose index was asked.
            checked: Whether values are looked at before, if that `checks_first`.
        """
        narrow = partial(self._narrowed, checked=checked and self.checks_first)
        reader = self.scan.row_reader(schema)
        with scan_pool(reader.threads, is_local=reader.is_local) as pool:
            narrowed = pool.in_order(narrow, tasks)
            yield from reader.batches(task for task in narrowed if task.rows is None or len(task.rows))

    def _narrowed(self, task: FileScanTask, *, checked: bool) -> FileScanTask:
        """The rows of a file that may match, or do."""
        rows = task.rows if task.rows is not None else self.rows(task)
        task = replace(task, rows=rows)
        if not checked or (rows is not None and not len(rows)):
            return task
        reader = replace(self._checking, threads=1)
        found = [self.words.matching(batch).column(_POSITION.name) for batch in reader.batches([task])]
        positions = [np.asarray(each) for each in found]
        return replace(task, rows=np.concatenate([np.empty(0, np.int64), *positions]))

    @cached_property
    def _checking(self) -> RowReader:
        return self.scan.row_reader(pa.schema([self.words.column, _POSITION]))
