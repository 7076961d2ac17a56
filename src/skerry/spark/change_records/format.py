"""What frames of change records look like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skerry.errors import SchemaError, UnsupportedError
from skerry.table.rows.schema import nearest

__all__ = ["DEBEZIUM", "ChangeFormat", "change_format"]

ORDER_FIELDS: Final = {
    "ts_ms": "bigint",
    "ts_us": "bigint",
    "ts_ns": "bigint",
    "source.ts_ms": "bigint",
    "source.ts_us": "bigint",
    "source.ts_ns": "bigint",
    "source.lsn": "bigint",
    "source.txId": "bigint",
    "source.file": "string",
    "source.pos": "bigint",
    "source.row": "bigint",
    "source.change_lsn": "string",
    "source.commit_lsn": "string",
    "source.event_serial_no": "bigint",
}
"""Fields of Debezium's envelope that records can be ordered by, with their types."""

_UNITS: Final = {"micros": 1, "millis": 1000}


@dataclass(frozen=True, slots=True)
class ChangeFormat:
    """How the records of a frame say what has changed.

    Args:
        value: The column that holds a record as JSON text, in Debezium's envelope (`op`, `before`, `after`, `source`),
            with or without `payload` around it; records whose value is null are passed over. If None, the frame has
            the table's columns, typed, and the others that are named here.
        op: The column of op codes (of the envelope, its field); see `skerry.jobs.change_records.OP_KINDS`.
        order_by: What orders the records of a key: columns of the frame, and fields of the envelope, such as
            `source.lsn`. If empty, records are in order as they stand in the frame.
        before: The column (of the envelope, the field) with the row before the change, or its key.
        position: Columns of the frame that tell where a record stands, for messages, as far as it has them. If it has
            none of them, `file` is the file that Spark has read the record from.
        timestamps: What whole numbers in columns of timestamps count: `micros` or `millis`; texts are read as ISO 8601.
    """

    value: str | None = None
    op: str = "op"
    order_by: tuple[str, ...] = ()
    before: str = "before"
    position: tuple[str, ...] = ("topic", "partition", "offset", "file")
    timestamps: str = "micros"

    def __post_init__(self) -> None:
        if isinstance(self.order_by, str):
            raise SchemaError(f"order_by takes a tuple of names, found {self.order_by!r}")
        if self.timestamps not in _UNITS:
            raise SchemaError(f"timestamps must be {' or '.join(_UNITS)}, found {self.timestamps!r}")

    @property
    def micros(self) -> int:
        """How many microseconds a whole number in a column of times counts."""
        return _UNITS[self.timestamps]


DEBEZIUM: Final = ChangeFormat(value="value", order_by=("source.lsn",))
"""Debezium's records of PostgreSQL, as Kafka's source gives them: JSON text in the column `value`."""

_BY_NAME: Final = {"debezium": DEBEZIUM, "rows": ChangeFormat()}


def change_format(given: ChangeFormat | str) -> ChangeFormat:
    """The format that a caller asks for.

    Raises:
        UnsupportedError: No format has that name.
    """
    if isinstance(given, ChangeFormat):
        return given
    found = _BY_NAME.get(given.lower())
    if found is None:
        raise UnsupportedError(f"format={given!r} is not supported{nearest(given, _BY_NAME)}")
    return found
