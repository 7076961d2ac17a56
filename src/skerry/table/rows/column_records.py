"""Conversion of columns to records, thousands at a time: plans are columns, and tasks for executors are records."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

__all__ = ["records_of"]

_Record = TypeVar("_Record")


def records_of(kind: type[_Record], count: int, **columns: Iterable[Any]) -> list[_Record]:
    """Create records from columns, field by field, in half the time of calling the constructor.

    Args:
        kind: A dataclass with slots whose constructor only stores fields; it may be frozen.
        count: Number of records.
        columns: Values by field, at least `count` of them; a field that is not given has its default.

    Raises:
        TypeError: A field does not exist, or one without default has no column.
        ValueError: A column is too short.
    """
    class_: Any = kind
    records: list[_Record] = list(map(object.__new__, itertools.repeat(class_, count)))
    for name, put, defaults in _fields_of(class_):
        values = columns.pop(name) if name in columns else defaults()
        deque(map(put, records, values), maxlen=0)
        if count and not hasattr(records[-1], name):
            raise ValueError(f"fewer than {count} values of {name}")
    if columns:
        raise TypeError(f"{kind.__name__} has no field {', '.join(columns)}")
    return records


@functools.cache
def _fields_of(kind: type[Any]) -> list[tuple[str, Callable[[Any, Any], None], Callable[[], Iterable[Any]]]]:
    """Every field's name, its setter (which works on frozen records too), and the defaults."""

    def defaults_of(field: Field[Any]) -> Iterable[Any]:
        if field.default_factory is not MISSING:
            return itertools.starmap(field.default_factory, itertools.repeat(()))
        if field.default is not MISSING:
            return itertools.repeat(field.default)
        raise TypeError(f"{kind.__name__} without {field.name}")

    return [
        (field.name, getattr(kind, field.name).__set__, functools.partial(defaults_of, field)) for field in fields(kind)
    ]
