"""Records that cannot be applied: the job ends, or they go to a table of their own.

They are committed to that table once per batch, *before* the batch itself. If the job dies in
between, the batch is repeated: its refused records are already there and are skipped, its good ones are applied. In
the reverse order a record could be lost: a batch that is in the table is never read again.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from skerry.catalog import Catalog, Table
from skerry.errors import AlreadyExistsError, NotFoundError, SchemaError
from skerry.spark.change_records.batches import REFUSED
from skerry.table.stream_batch import StreamBatch, batch_arguments

__all__ = ["FAIL", "REFUSED_RECORDS", "keep_refused", "refuse_batch", "refused_table"]

FAIL = "fail"

REFUSED_RECORDS = pa.schema(
    [
        *REFUSED,
        pa.field("stream", pa.string()),
        pa.field("batch", pa.int64()),
        pa.field("refused_at", pa.timestamp("us", "UTC"), nullable=False),
    ]
)
"""The columns of a table of refused records."""


def refused_table(on_bad_record: str | Table, catalog: Catalog, format: str) -> Table | None:
    """The table for refused records; None if the job is to end.

    Args:
        on_bad_record: `fail`, a table, or the name of one, which is created if it does not exist.
        catalog: The catalog of that name.
        format: The table format to create it in.

    Raises:
        SchemaError: The table lacks a column.
    """
    if isinstance(on_bad_record, Table):
        table = on_bad_record
    elif on_bad_record == FAIL:
        return None
    else:
        try:
            table = catalog.load_table(on_bad_record)
        except NotFoundError:
            try:
                table = catalog.create_table(on_bad_record, REFUSED_RECORDS, format=format)
            except AlreadyExistsError:
                table = catalog.load_table(on_bad_record)
    missing = [name for name in REFUSED_RECORDS.names if name not in table.schema.names]
    if missing:
        raise SchemaError(
            f"a table of refused records has the columns {', '.join(REFUSED_RECORDS.names)}; {missing[0]!r} is missing",
            location=table.name,
        )
    return table


def refuse_batch(refused: pa.Table) -> SchemaError:
    """The error that ends a job because of refused records: the first one, and how many there are."""
    first = refused.slice(0, 1).to_pylist()[0]
    more = f"; {refused.num_rows - 1:,} more records of the batch are refused" if refused.num_rows > 1 else ""
    where = f"record at {first['position']}: " if first["position"] else "a record: "
    return SchemaError(f"{where}{first['reason']}{more}; on_bad_record= can name a table for such records")


def keep_refused(table: Table, refused: pa.Table, batch: StreamBatch | None) -> None:
    """Append refused records to their table, once per batch.

    Raises:
        ConflictError: Other writers won every race.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
    """
    count = refused.num_rows
    stream = pa.nulls(count, pa.string()) if batch is None else pa.repeat(batch.stream, count)
    number = pa.nulls(count, pa.int64()) if batch is None else pa.repeat(batch.number, count)
    at = pa.repeat(pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC")), count)
    columns = [*refused.columns, stream, number.cast(pa.int64()), at]
    rows = pa.table(columns, schema=REFUSED_RECORDS)
    table.append(rows, **batch_arguments(batch))
