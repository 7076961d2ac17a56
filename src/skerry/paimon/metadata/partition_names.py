"""Partition values in paths. The actual values of a partition are in the manifest; its path is never parsed.

Spec: docs/formats/paimon.md § 7.5.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.paimon.values.binary_reading import decode_rows
from skerry.paimon.values.java_texts import double_text, float_text, time_text
from skerry.paimon.values.types import AtomicType, DataField, TypeRoot

__all__ = ["partition_texts"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_TIME_UNITS: Final = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def partition_texts(
    fields: Sequence[DataField], partitions: Sequence[bytes], *, legacy: bool
) -> list[tuple[str | None, ...]]:
    """The texts of partitions' values, as Java writes them in paths.

    Args:
        fields: The partition keys.
        partitions: Rows of their values, with arity.
        legacy: Whether values are in their internal form, such as days as numbers (`partition.legacy-name`).

    Returns:
        For each partition a text per key, None for null.

    Raises:
        UnsupportedError: A key has a type without a text form.
        FormatError: A row does not match the types.
    """
    columns = decode_rows([field.type for field in fields], list(partitions)) if fields else []
    texts = [_texts(field, column, legacy) for field, column in zip(fields, columns, strict=True)]
    return list(zip(*texts, strict=True)) if texts else [()] * len(partitions)


def _texts(field: DataField, column: pa.Array, legacy: bool) -> list[str | None]:
    type_ = field.type
    form = (_LEGACY if legacy else _SQL).get(type_.root) if isinstance(type_, AtomicType) else None
    if form is None or not isinstance(type_, AtomicType):
        raise UnsupportedError(f"partition key {field.name!r} of type {type_} is not supported")
    if type_.root in _TIME_UNITS:
        form = functools.partial(form, _PER_SECOND[column.type.unit], type_.precision)
    elif form is _sql_time_of_day:
        form = functools.partial(form, type_.precision)
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int64() if column.type.bit_width == 64 else pa.int32())
    return [None if value is None else form(value) for value in column.to_pylist()]


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _iso_time(per_second: int, precision: int, value: int) -> str:
    """Format like Java's `LocalDateTime.toString`: seconds only if needed, with groups of three fractional digits."""
    seconds, part = divmod(value, per_second)
    moment = _EPOCH + timedelta(seconds=seconds)
    nanos = part * (10**9 // per_second)
    text = moment.strftime("%Y-%m-%dT%H:%M").rjust(16, "0")
    if not nanos:
        return f"{text}:{moment:%S}" if moment.second else text
    digits = 3 if nanos % 10**6 == 0 else 6 if nanos % 10**3 == 0 else 9
    return f"{text}:{moment:%S}.{nanos:09d}"[: len(text) + 4 + digits]


def _sql_time(per_second: int, precision: int, value: int) -> str:
    seconds, part = divmod(value, per_second)
    moment = _EPOCH + timedelta(seconds=seconds)
    text = moment.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
    digits = f"{part * (10**9 // per_second):09d}"[:precision]
    return f"{text}.{digits}" if digits else text


def _sql_date(days: int) -> str:
    return (_EPOCH + timedelta(days=days)).strftime("%Y-%m-%d").rjust(10, "0")


def _sql_time_of_day(precision: int, millis: int) -> str:
    return time_text(millis, precision)


def _utf8(value: bytes) -> str:
    """Decode like `new String(bytes, UTF_8)`: invalid UTF-8 becomes U+FFFD, so that several values share a folder."""
    return value.decode("utf-8", "replace")


_PLAIN: Final[dict[TypeRoot, Callable[..., str]]] = {
    TypeRoot.BOOLEAN: _boolean,
    TypeRoot.DECIMAL: _decimal,
    TypeRoot.FLOAT: float_text,
    TypeRoot.DOUBLE: double_text,
    **dict.fromkeys((TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT), str),
    **dict.fromkeys((TypeRoot.CHAR, TypeRoot.VARCHAR), str),
}
_LEGACY: Final[dict[TypeRoot, Callable[..., str]]] = {
    **_PLAIN,
    TypeRoot.DATE: str,
    TypeRoot.TIME: str,
    TypeRoot.TIMESTAMP: _iso_time,
    TypeRoot.TIMESTAMP_LTZ: _iso_time,
}
_SQL: Final[dict[TypeRoot, Callable[..., str]]] = {
    **_PLAIN,
    TypeRoot.DATE: _sql_date,
    TypeRoot.TIME: _sql_time_of_day,
    TypeRoot.BINARY: _utf8,
    TypeRoot.VARBINARY: _utf8,
    TypeRoot.TIMESTAMP: _sql_time,
    TypeRoot.TIMESTAMP_LTZ: _sql_time,
}
