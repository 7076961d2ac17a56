"""Find the rows of a table that a merge changes, and compute their new values.

To find them, only key columns, positions and the columns of conditions are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.iceberg.jobs.rewrite import Matches
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.merging import NOTHING, MergeRules, MergeSource, StagedSource, refuse_repeated
from skerry.table.merging.rules import Actions, RowNumbers
from skerry.table.rows.metadata_columns import LINEAGE_COLUMNS

__all__ = ["POSITION", "ROW_ID", "Matcher", "RowUpdate", "RowUpdater", "TaskMatches", "with_lineage"]

POSITION, ROW_ID = "_pos", "_row_id"

_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TaskMatches:
    """The matches of a merge in a part of a data file.

    Args:
        matches: The rows to be updated or deleted.
        row_ids: int64[n], the ids of these rows; None if they were not requested.
        matched: int64[m], the rows of the source that match some row, whether it changes or not; each once, and only
            the first of several with one key.
    """

    matches: Matches
    row_ids: pa.Array | None
    matched: RowNumbers


@dataclass(frozen=True)
class Matcher:
    """Matches rows of a table with those of a merge's source, and chooses their actions; picklable.

    Args:
        reader: Delivers key columns, columns that conditions need, `_pos` and, if `with_row_ids`, `_row_id`.
        source: The source.
        rules: The clauses.
        with_row_ids: Whether to return the rows' ids.
    """

    reader: RowReader
    source: MergeSource | StagedSource
    rules: MergeRules
    with_row_ids: bool = False

    def __call__(self, task: FileScanTask) -> TaskMatches:
        """Read a part of a data file and match its rows.

        Raises:
            SchemaError: Several rows of the source match one row of the table; the message names the key.
        """
        source = self.source.holding(self.rules.deciding_columns)
        parts: list[Matches] = []
        row_ids: list[pa.Array] = []
        matched: _Mask = np.zeros(source.rows.num_rows, bool)
        for batch in self.reader.batches([task]):
            rows = source.index.find([batch.column(name) for name in source.on])
            hit = rows >= 0
            refuse_repeated(source, self.rules, rows[hit])
            matched[rows[hit]] = True
            candidates = np.arange(len(rows)) if self.rules.has_by_source else np.flatnonzero(hit)
            if not len(candidates):
                continue
            some = batch if len(candidates) == batch.num_rows else batch.take(pa.array(candidates))
            actions = self.rules.decide(source, rows[candidates], some)
            decided = np.flatnonzero(actions != NOTHING)
            chosen = candidates[decided]
            parts.append(Matches(batch.column(POSITION).to_numpy()[chosen], rows[chosen], actions[decided]))
            if self.with_row_ids:
                row_ids.append(batch.column(ROW_ID).take(pa.array(chosen)))
        matches = Matches.concatenated(parts) if parts else Matches.to_delete(np.empty(0, np.int64))
        ids = pa.concat_arrays(row_ids or [pa.array([], pa.int64())]) if self.with_row_ids else None
        return TaskMatches(matches, ids, np.flatnonzero(matched))


@dataclass(frozen=True)
class RowUpdate:
    """Computes the new values of rows; picklable.

    Args:
        source: The source.
        rules: The clauses.
        lineage: Whether rows keep their ids.
    """

    source: MergeSource | StagedSource
    rules: MergeRules
    lineage: bool

    def __call__(self, source_rows: RowNumbers, old: pa.RecordBatch, actions: Actions) -> pa.RecordBatch:
        """The updated rows, from the matching rows of the source, their old values, and their actions."""
        new = self.rules.updated(self.source.holding(self.rules.new_columns), source_rows, old, actions)
        return with_lineage(new, old.column(ROW_ID)) if self.lineage else new


@dataclass(frozen=True)
class RowUpdater:
    """Reads the values that updated rows keep, and computes the new rows; picklable.

    Args:
        reader: Delivers the columns that updates need, `_pos` and, for row lineage, `_row_id`.
        update: Computes the new values.
    """

    reader: RowReader
    update: RowUpdate

    def __call__(self, found: tuple[FileScanTask, Matches]) -> list[pa.RecordBatch]:
        """The new values of the updated rows of a part of a data file, in file order."""
        task, matches = found
        batches = []
        for batch in self.reader.batches([task]):
            hit, which = matches.found_in(batch.column(POSITION).to_numpy())
            if len(which):
                old = batch.take(pa.array(np.flatnonzero(hit)))
                batches.append(self.update(matches.source_rows[which], old, matches.actions[which]))
        return batches


def with_lineage(rows: pa.RecordBatch, row_ids: pa.Array | None) -> pa.RecordBatch:
    """Rows with the row lineage columns: their old ids or null, and a null sequence number, inherited later.

    Spec: Iceberg spec, Row Lineage: null means that the row takes its values from the file's manifest entry.
    """
    nulls = pa.nulls(rows.num_rows, pa.int64())
    schema = pa.schema([*rows.schema, *LINEAGE_COLUMNS], rows.schema.metadata)
    return pa.RecordBatch.from_arrays([*rows.columns, nulls if row_ids is None else row_ids, nulls], schema=schema)
