"""Applying change records: rows that say of themselves whether they come, change or go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skerry.catalog.backend import WriteOptions
from skerry.catalog.handle import TableHandle
from skerry.errors import SchemaError
from skerry.table.history import MAIN
from skerry.table.stream_batch import StreamBatch
from skerry.table.summaries import ChangeSummary
from skerry.table.tasks import Executor, Watcher

__all__ = ["TableApplying", "batch_arguments", "stream_batch"]


class TableApplying(TableHandle):
    """What follows a source of changes: one snapshot per batch of records."""

    def apply_changes(
        self,
        data: Any,
        on: str | Sequence[str] | None = None,
        *,
        op: str = "op",
        order_by: str | Sequence[str] = (),
        before: str = "before",
        blind: bool = False,
        stream: str | None = None,
        batch: int | None = None,
        query: str | None = None,
        take_over: bool = False,
        ref: str = MAIN,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> ChangeSummary:
        """Apply change records: per key the last record by order says what row it has, or that it has none.

        Records that come again change nothing, in the same batch or in a later one that begins where an earlier one
        did not end. If the columns of the order are columns of an Iceberg table, or the `sequence.field` of a Paimon
        table, records that are older than the row they are about do nothing wherever they come.

        Example:
            table.apply_changes(records, on="id", order_by="lsn", stream="orders", batch=17)

        Args:
            data: The records: anything with the Arrow C stream interface, held in memory. Their columns are those of
                the table, of deletes at least the key's, and those named here. Columns of an Iceberg table that they
                lack stay as they are; a Paimon table needs all of them.
            on: The key columns; those that identify a row of the table if None.
            op: The column of op codes: `c`, `r`, `u`, `d` as Debezium writes them, `+I`, `-U`, `+U`, `-D`, or `I`, `U`,
                `D`. The row of a `u` is the one after the change.
            order_by: Columns that order the records of a key, whole numbers, times or texts; the first that differs
                decides. If there are none, records are in order as they stand.
            before: A column with a struct of the row before the change, or of its key, if there is one; an update whose
                row had another key there takes that key away.
            blind: Do not look at an Iceberg table: write the keys as equality deletes, whether they are there or not,
                and the rows. The cost does not depend on the table then; readers pay until it is compacted. Paimon
                tables are always written so.
            stream: With `batch`, the stream that the records are a batch of; a name that stays the same after restarts.
            batch: The number of the batch; numbers of a stream only grow. A batch that the table has is not applied
                again, whoever brings it.
            query: Who counts the batches: an id that stays the same as long as the count goes on, as Spark's id of a
                query does. A number that is not above the last one is a batch that the table has only if the same
                query has counted both; without ids only the last number may come again.
            take_over: Go on under a name that another query has used, from whatever number.
            ref: The branch.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are read and rewritten; threads of this process by default.
            watcher: Called with the progress.

        Returns:
            What was done; whether it was done now.

        Raises:
            ConflictError: Others changed the same rows, again and again; nothing was changed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            SchemaError: The records do not fit: an op code that is none, a null in the key or the order, columns or
                types that are not the table's.
            StreamNameError: The stream's name belongs to another query; nothing was changed.
            UnsupportedError: The Paimon table has no primary key or merges rows otherwise; or it cannot be done
                blindly.
        """
        named = stream_batch(stream, batch, query, take_over)
        options = WriteOptions(ref, False, snapshot_properties or {}, executor, watcher, named)
        order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
        return self._backend.apply_changes(data, self._key(on), op, order, before, blind, options)

    def _key(self, on: str | Sequence[str] | None) -> tuple[str, ...]:
        if on is not None:
            return (on,) if isinstance(on, str) else tuple(on)
        if not self.primary_key and self.format == "iceberg":
            raise SchemaError(
                f"table {self.name} has no identifier columns: apply_changes needs on=", location=self.name
            )
        return tuple(self.primary_key)


def stream_batch(
    stream: str | None, batch: int | None, query: str | None = None, take_over: bool = False
) -> StreamBatch | None:
    """A batch of a stream, as arguments name it.

    Raises:
        SchemaError: One is given without the other, or the number is below 0.
    """
    if stream is None and batch is None:
        if query is not None or take_over:
            raise SchemaError("query= and take_over= are about a stream: they go with stream= and batch=")
        return None
    if stream is None or batch is None:
        raise SchemaError("stream= and batch= go together: the stream's name and the number of the batch")
    if batch < 0:
        raise SchemaError(f"batch= is a number from 0, found {batch}")
    return StreamBatch(stream, batch, query, take_over)


def batch_arguments(batch: StreamBatch | None) -> dict[str, Any]:
    """The arguments that name a batch of a stream."""
    if batch is None:
        return {}
    return {"stream": batch.stream, "batch": batch.number, "query": batch.query, "take_over": batch.takes_over}
