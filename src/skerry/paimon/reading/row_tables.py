"""System tables that consist of a table's own rows: its records with their kinds, and what needs no merging.

`audit_log` has the newest record of each key, deletes included, behind its kind as text; in `binlog` every column is a
list, of one value here, since only readers of changes see an update's two images. `read_optimized` has the rows of the
highest level, which compaction has merged already.

Spec: docs/formats/paimon.md § 9.5, § 10.1; Paimon documentation, System Tables; Paimon Java, `AuditLogTable`,
`BinlogTable`, `ReadOptimizedTable`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from skerry.errors import SchemaError
from skerry.paimon.merging import Records, RowKind
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.reading.fallback_scan import scan
from skerry.paimon.reading.scan import PaimonScan
from skerry.table.inspection.inspect import RowRequest
from skerry.table.predicate import ALWAYS_TRUE, Predicate, columns_of, conjunction, conjuncts_of, parse, row_mask
from skerry.table.rows.row_stream import BoundedStream
from skerry.table.rows.schema import FIELD_ID_KEY
from skerry.table.selection import checked_limit

__all__ = ["ROW_TABLES", "RecordScan", "row_table"]

ROW_TABLES: Final = ("audit_log", "binlog", "read_optimized", "ro")
_KIND_ID: Final = 2_147_483_645
"""The field id of a record's kind in data files."""
_KIND: Final = pa.field("rowkind", pa.string(), metadata={FIELD_ID_KEY: str(_KIND_ID).encode()})
_TEXTS: Final = pa.array(["+I", "-U", "+U", "-D"])
"""The kinds as text, by `RowKind`."""


def row_table(state: PaimonState, name: str, request: RowRequest | None = None) -> RecordScan | PaimonScan:
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
    if name in ("audit_log", "binlog"):
        return RecordScan(state, wanted, packed=name == "binlog")
    return scan(state, wanted.columns, wanted.where, limit=wanted.limit, highest_level=True)


class RecordScan(BoundedStream):
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
        known = pa.schema([_KIND, *(map(_packed, columns) if packed else columns)])
        self.schema = known if request.columns is None else pa.schema([known.field(name) for name in request.columns])
        self._limit = checked_limit(request.limit)
        self._is_packed = packed
        conjuncts = conjuncts_of(parse(request.where, known))
        below = [] if packed else [part for part in conjuncts if _KIND_ID not in _ids(part)]
        self._predicate = conjunction(part for part in conjuncts if part not in below)
        tested = {column.path[0] for column in columns_of(self._predicate)}
        needed = {*self.schema.names, *tested}
        read = [name for name in columns.names if name in needed] or columns.names[:1]
        self._read_schema = pa.schema([known.field(name) for name in (_KIND.name, *read)])
        self._scan = scan(state, read, conjunction(below))

    def row_bounds(self) -> tuple[int, int]:
        """Least and greatest number of rows, as far as metadata shows."""
        return 0, self._scan.row_bounds()[1]

    def to_batches(self) -> pa.RecordBatchReader:
        """Read the records as a stream.

        Raises:
            FormatError: A file is corrupt.
            NotFoundError: A file is missing.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        left = self._limit
        for batch in self._all():
            shown = batch if self._predicate == ALWAYS_TRUE else batch.filter(row_mask(self._predicate, batch))
            shown = shown.slice(0, left)
            if shown.num_rows:
                yield pa.RecordBatch.from_arrays([shown.column(name) for name in self.schema.names], schema=self.schema)
            left = None if left is None else left - shown.num_rows
            if left == 0:
                return

    def _all(self) -> Iterator[pa.RecordBatch]:
        if self._limit == 0:
            return
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


def _packed(field: pa.Field) -> pa.Field:
    """A column of `binlog`: a list of values."""
    return pa.field(field.name, pa.list_(field.with_name("item").with_nullable(True)), metadata=field.metadata)


def _ids(predicate: Predicate) -> set[int]:
    return {column.field_id for column in columns_of(predicate)}
