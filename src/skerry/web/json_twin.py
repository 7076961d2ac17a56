"""Records of screens as JSON."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from math import isfinite
from typing import Any

from skerry.table.work.quantities import iso_text

__all__ = ["to_json"]


def to_json(value: Any) -> str:
    """A record as JSON.

    As on the command line, times are ISO 8601 text, decimals text, bytes hexadecimal text, NaN and infinities null.
    """
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace").decode()


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Enum):
        return _plain(value.value)
    if hasattr(value, "as_json"):
        return _plain(value.as_json())
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, datetime.date | datetime.time):
        return iso_text(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, decimal.Decimal | uuid.UUID | datetime.timedelta):
        return str(value)
    return repr(value)
