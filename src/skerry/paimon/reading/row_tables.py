"""System tables that consist of a table's own rows: its records with their kinds, and what needs no merging.

`audit_log` has the newest record of each key, deletes included, behind its kind as text; in `binlog` every column is a
list, of one value here, since only readers of changes see an update's two images. `read_optimized` has the rows of the
highest level, which compaction has merged already. `row_tracking` has all rows with their ids.

Spec: docs/formats/paimon.md § 9.5, § 10.1; Paimon documentation, System Tables; Paimon Java, `AuditLogTable`,
`BinlogTable`, `ReadOptimizedTable`, `RowTrackingTable`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Container, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.merging import Records, RowKind
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.reading.fallback_scan import scan
from skerry.paimon.reading.scan import PaimonScan
from skerry.table.inspection.inspect import RowRequest
from skerry.table.predicate import ALWAYS_TRUE, Predicate, columns_of, conjunction, conjuncts_of, parse, row_mask
from skerry.table.rows.metadata_columns import LINEAGE_COLUMNS
from skerry.table.rows.row_stream import BoundedStream
from skerry.table.rows.schema import FIELD_ID_KEY, field_id
from skerry.table.selection import checked_limit

__all__ = ["ROW_TABLES", "LineageScan", "RecordScan", "row_table"]

ROW_TABLES: Final = ("audit_log", "binlog", "read_optimized", "ro", "row_tracking")
_KIND_ID: Final = 2_147_483_645
"""The field id of a record's kind in data files."""
_KIND: Final = pa.field("rowkind", pa.string(), metadata={FIELD_ID_KEY: str(_KIND_ID).encode()})
_TEXTS: Final = pa.array(["+I", "-U", "+U", "-D"])
"""The kinds as text, by `RowKind`."""
_LINEAGE: Final = {"_ROW_ID": "_row_id", "_SEQUENCE_NUMBER": "_last_updated_sequence_number"}
"""Paimon's names of the columns with a row's id and the snapshot that changed it last, and ours."""


def row_table(
    state: PaimonState, name: str, request: RowRequest | None = None
) -> RecordScan | LineageScan | PaimonScan:
    """A system table of rows.

    Args:
        state: The table, at the snapshot to read.
        name: One of `ROW_TABLES`.
        request: Which rows; the snapshot has been chosen already. All if None.

    Raises:
        FormatError: The condition is not one.
        SchemaError: A column does not exist, or the condition does not fit.
    """
    wanted = request or RowRequest()
    if name == "row_tracking":
        return LineageScan(state, wanted)
    if name in ("audit_log", "binlog"):
        return RecordScan(state, wanted, packed=name == "binlog")
    return scan(state, wanted.columns, wanted.where, limit=wanted.limit, highest_level=True)


class _RowTable(BoundedStream):
    """Rows that are made of those of a scan, and chosen by what the scan does not know.

    Args:
        state: The table, at the snapshot to read.
        known: All columns.
        request: Which columns and rows.
        own: Field ids of the columns that the scan does not know.
    """

    def __init__(self, state: PaimonState, known: pa.Schema, request: RowRequest, own: Container[int]) -> None:
        self.schema = known if request.columns is None else pa.schema([known.field(name) for name in request.columns])
        self._limit = checked_limit(request.limit)
        conjuncts = conjuncts_of(parse(request.where, known))
        below = [part for part in conjuncts if not any(column.field_id in own for column in columns_of(part))]
        self._predicate = conjunction(part for part in conjuncts if part not in below)
        tested = {column.path[0] for column in columns_of(self._predicate)}
        self._needed = {*self.schema.names, *tested}
        self._scan = self._scan_of(state, conjunction(below))

    @abstractmethod
    def _scan_of(self, state: PaimonState, predicate: Predicate) -> PaimonScan:
        """The scan, of what is needed."""

    @abstractmethod
    def _all(self) -> Iterator[pa.RecordBatch]:
        """The rows of the scan, with the columns that are needed."""

    def row_bounds(self) -> tuple[int, int]:
        """Least and greatest number of rows, as far as metadata shows."""
        return 0, self._scan.row_bounds()[1]

    def to_batches(self) -> pa.RecordBatchReader:
        """Read the rows as a stream.

        Raises:
            FormatError: A file is corrupt.
            NotFoundError: A file is missing.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        left = self._limit
        if left == 0:
            return
        for batch in self._all():
            shown = batch if self._predicate == ALWAYS_TRUE else batch.filter(row_mask(self._predicate, batch))
            shown = shown.slice(0, left)
            if shown.num_rows:
                yield pa.RecordBatch.from_arrays([shown.column(name) for name in self.schema.names], schema=self.schema)
            left = None if left is None else left - shown.num_rows
            if left == 0:
                return


class RecordScan(_RowTable):
    """Rows of `audit_log` or `binlog`: the newest record of each key, with its kind.

    Args:
        state: The table, at the snapshot to read.
        request: Which columns and rows.
        packed: Whether every column is a list, as in `binlog`.
    """

    def __init__(self, state: PaimonState, request: RowRequest, *, packed: bool = False) -> None:
        columns = state.arrow_schema
        if _KIND.name in columns.names:
            raise SchemaError(
                f"column {_KIND.name!r} has a name that is reserved for a record's kind; rename it to read records",
                location=state.name,
            )
        self._is_packed = packed
        known = pa.schema([_KIND, *(map(_packed, columns) if packed else columns)])
        self._known = known
        own = [_KIND_ID, *map(field_id, columns)] if packed else [_KIND_ID]
        super().__init__(state, known, request, own)

    def _scan_of(self, state: PaimonState, predicate: Predicate) -> PaimonScan:
        names = state.arrow_schema.names
        read = [name for name in names if name in self._needed] or names[:1]
        self._read_schema = pa.schema([self._known.field(name) for name in (_KIND.name, *read)])
        return scan(state, read, predicate)

    def _all(self) -> Iterator[pa.RecordBatch]:
        for reader, splits in self._scan.reads():
            if reader.state.schema.primary_keys:
                for records in reader.records(splits):
                    yield self._shown(records)
            else:
                for batch in reader.batches(splits):
                    kinds = np.full(batch.num_rows, RowKind.INSERT, np.int8)
                    yield self._shown(Records(batch, kinds, np.zeros(0, np.int64)))

    def _shown(self, records: Records) -> pa.RecordBatch:
        columns = records.values.columns
        if self._is_packed:
            offsets = pa.array(np.arange(len(records) + 1, dtype=np.int32))
            columns = [
                pa.ListArray.from_arrays(offsets, column, type=field.type)
                for column, field in zip(columns, list(self._read_schema)[1:], strict=True)
            ]
        return pa.RecordBatch.from_arrays([_TEXTS.take(pa.array(records.kinds)), *columns], schema=self._read_schema)


class LineageScan(_RowTable):
    """Rows of `row_tracking`: the columns of the table, `_ROW_ID` and `_SEQUENCE_NUMBER`.

    Args:
        state: The table, at the snapshot to read.
        request: Which columns and rows.

    Raises:
        UnsupportedError: The table's rows have no ids.
    """

    def __init__(self, state: PaimonState, request: RowRequest) -> None:
        if not state.options.row_tracking:
            raise UnsupportedError(
                "rows of this table have no ids: it was created without row-tracking.enabled", location=state.name
            )
        lineage = [field.with_name(name) for field, name in zip(LINEAGE_COLUMNS, _LINEAGE, strict=True)]
        self._known = pa.schema([*state.arrow_schema, *lineage])
        super().__init__(state, self._known, request, [field_id(field) for field in lineage])

    def _scan_of(self, state: PaimonState, predicate: Predicate) -> PaimonScan:
        read = [name for name in self._known.names if name in self._needed]
        self._read_schema = pa.schema([self._known.field(name) for name in read])
        return scan(state, [_LINEAGE.get(name, name) for name in read], predicate)

    def _all(self) -> Iterator[pa.RecordBatch]:
        for batch in self._scan.to_batches():
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self._read_schema)


def _packed(field: pa.Field) -> pa.Field:
    """A column of `binlog`: a list of values."""
    return pa.field(field.name, pa.list_(field.with_name("item").with_nullable(True)), metadata=field.metadata)
