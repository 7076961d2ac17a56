"""Partitions as people name them, and as conditions on the columns that they are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["partition_condition", "partition_name"]

_TRANSFORM: Final = re.compile(r"(year|month|day|hour)\((.+)\)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def partition_name(values: dict[str, Any] | None, partition_by: Sequence[str]) -> str:
    """A partition as `month=2013-07/origin=JFK`; the only one of a table without partitions is `all files`.

    Args:
        values: The partition's values by field.
        partition_by: The table's partition transforms.
    """
    if not values:
        return "all files"
    transforms = _transforms(partition_by)
    return "/".join(f"{name}={_shown(transforms.get(name, ('', ''))[0], value)}" for name, value in values.items())


def _transforms(partition_by: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Transform and column of the fields that have the name a transform gives them by itself."""
    found = {}
    for text in partition_by:
        if parsed := _TRANSFORM.fullmatch(text):
            column = parsed[2].strip('"')
            found[f"{column.replace('.', '_')}_{parsed[1]}"] = (parsed[1], column)
    return found


def _shown(transform: str, value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, int) and transform in _STARTS:
        start = _STARTS[transform](value)
        if start is not None:
            return start.strftime(_FORMATS[transform])
    return str(value)


def _year(number: int) -> datetime | None:
    return datetime(1970 + number, 1, 1, tzinfo=UTC) if 0 < 1970 + number < 10_000 else None


def _month(number: int) -> datetime | None:
    years, months = divmod(number, 12)
    start = _year(years)
    return None if start is None else start.replace(month=months + 1)


def _hour(number: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(hours=number)
    except OverflowError:
        return None


def _day(number: int) -> datetime | None:
    return _hour(24 * number)


_STARTS: Final[dict[str, Callable[[int], datetime | None]]] = {
    "year": _year,
    "month": _month,
    "day": _day,
    "hour": _hour,
}
_FORMATS: Final = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%d-%H"}


def partition_condition(values: dict[str, Any], partition_by: Sequence[str], schema: pa.Schema) -> pc.Expression | None:
    """The condition that holds for the rows of a partition; None if its transforms have none, as buckets do.

    Args:
        values: The partition's values by field.
        partition_by: The table's partition transforms.
        schema: The table's columns.
    """
    transforms = _transforms(partition_by)
    conditions = []
    for name, value in values.items():
        transform, column = transforms.get(name, ("", name))
        if column not in schema.names:
            return None
        field, type_ = pc.field(column), schema.field(column).type
        if value is None:
            conditions.append(field.is_null())
        elif not transform:
            conditions.append(field == pa.scalar(value, type_))
        else:
            number = (value - date(1970, 1, 1)).days if isinstance(value, date) else value
            start, end = _STARTS[transform](number), _STARTS[transform](number + 1)
            if start is None or end is None or (not pa.types.is_timestamp(type_) and not pa.types.is_date(type_)):
                return None
            bounds = [_scalar(moment, type_) for moment in (start, end)]
            conditions.append((field >= bounds[0]) & (field < bounds[1]))
    if not conditions:
        return None
    whole = conditions[0]
    for condition in conditions[1:]:
        whole &= condition
    return whole


def _scalar(moment: datetime, type_: pa.DataType) -> pa.Scalar:
    if pa.types.is_date(type_):
        return pa.scalar(moment.date(), type_)
    return pa.scalar(moment if type_.tz else moment.replace(tzinfo=None), type_)
