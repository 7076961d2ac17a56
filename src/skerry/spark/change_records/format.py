"""The format of change records in a frame."""

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
    """How the records of a frame describe changes.

    Args:
        value: The column that holds a record as JSON text, in Debezium's envelope (`op`, `before`, `after`, `source`),
            with or without `payload` around it; records whose value is null are skipped. If None, the frame has
            the table's columns, typed, and the other columns named here.
        op: The column of op codes (of the envelope, its field); see `skerry.jobs.change_records.OP_KINDS`.
        order_by: The order of a key's records: columns of the frame, and fields of the envelope, such as
            `source.lsn`. If empty, records are ordered as they are in the frame.
        before: The column (of the envelope, the field) with the row before the change, or its key.
        position: Columns of the frame that locate a record, for messages; missing ones are ignored. If it has
            none of them, `file` is the file that Spark read the record from.
        timestamps: The unit of whole numbers in timestamp columns: `micros` or `millis`; texts are parsed as ISO 8601.
    """

    value: str | None = None
    op: str = "op"
    order_by: tuple[str, ...] = ()
    before: str = "before"
    position: tuple[str, ...] = ("topic", "partition", "offset", "file")
    timestamps: str = "micros"

    def __post_init__(self) -> None:
        if isinstance(self.order_by, str):
            raise SchemaError(f"order_by must be a tuple of names, found {self.order_by!r}")
        if self.timestamps not in _UNITS:
            raise SchemaError(f"timestamps must be {' or '.join(_UNITS)}, found {self.timestamps!r}")

    @property
    def micros(self) -> int:
        """How many microseconds the unit of a whole number in a column of times has."""
        return _UNITS[self.timestamps]


DEBEZIUM: Final = ChangeFormat(value="value", order_by=("source.lsn",))
"""Debezium's records of PostgreSQL, as read from Kafka: JSON text in the column `value`."""

_BY_NAME: Final = {"debezium": DEBEZIUM, "rows": ChangeFormat()}


def change_format(given: ChangeFormat | str) -> ChangeFormat:
    """The format that a caller requests.

    Raises:
        UnsupportedError: No format has this name.
    """
    if isinstance(given, ChangeFormat):
        return given
    found = _BY_NAME.get(given.lower())
    if found is None:
        raise UnsupportedError(f"format={given!r} is not supported{nearest(given, _BY_NAME)}")
    return found
