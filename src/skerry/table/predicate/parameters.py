"""Values for the parameters of a condition, written into it as literals before anything else sees it."""

from __future__ import annotations

import math
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from typing import Any, Final

from skerry.errors import FormatError, SchemaError
from skerry.table.arguments import Parameters
from skerry.table.predicate.syntax import describe_position
from skerry.table.predicate.tokens import Token, tokenize
from skerry.table.rows.value_texts import DAY_NS, format_date, format_timestamp

__all__ = ["settled"]

_TIMES: Final = frozenset({"NOW", "CURRENT_TIMESTAMP", "TODAY", "CURRENT_DATE"})
_WITHOUT_CALL: Final = frozenset({"CURRENT_TIMESTAMP", "CURRENT_DATE"})


def settled(where: Any, parameters: Parameters | None = None) -> Any:
    """A condition that stays the same however often it is read: with its parameters' values, and the time of now().

    Args:
        where: A condition; one that is not text is returned as it is.
        parameters: The values.

    Raises:
        FormatError: The condition is not well-formed, or has another number of parameters.
        SchemaError: A value cannot be written as a literal, or parameters are given for a condition that is not text.
    """
    if not isinstance(where, str):
        if parameters is not None:
            raise SchemaError("parameters= are values for a condition in SQL")
        return where
    if parameters is None and not any(word in where.upper() for word in _TIMES):
        return where
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping | None):
        raise SchemaError(f"parameters must be a list, or a dict by name, found {parameters!r}")
    values = _Values(parameters, where)
    tokens = tokenize(where)
    parts, position, after = [], 0, ""
    now = time.time_ns() // 1000 * 1000
    for place, token in enumerate(tokens):
        called = [each.text for each in tokens[place + 1 : place + 3]] == ["(", ")"]
        end = token.start + len(token.text)
        if token.kind == "parameter":
            text = values.text(token)
        elif token.word in _TIMES and after != "." and (called or token.word in _WITHOUT_CALL):
            end = tokens[place + 2].start + 1 if called else end
            is_date = token.word in ("TODAY", "CURRENT_DATE")
            moment = f"CAST(TIMESTAMPTZ '{format_timestamp(now)}+00:00' AS TIMESTAMPTZ)"
            text = f"DATE '{format_date(now // DAY_NS)}'" if is_date else moment
        else:
            after = token.text
            continue
        parts += [where[position : token.start], text]
        position, after = end, token.text
    values.check_use()
    return "".join(parts) + where[position:]


class _Values:
    """The values of parameters, and which of them were used."""

    def __init__(self, parameters: Parameters | None, where: str) -> None:
        self._where = where
        named = isinstance(parameters, Mapping)
        self._known: dict[str, Any] = (
            dict(parameters)
            if isinstance(parameters, Mapping)
            else {str(number): value for number, value in enumerate(parameters or (), 1)}
        )
        self._kind = "named" if named else "given"
        self._used: set[str] = set()
        self._next = 0

    def text(self, token: Token) -> str:
        """The value of a parameter as a literal."""
        if token.text == "?":
            self._next += 1
        name = str(self._next) if token.text == "?" else token.text[1:]
        if name not in self._known:
            where = describe_position(self._where, token.start)
            raise FormatError(f"parameter {token.text} has no value; {len(self._known)} are {self._kind}{where}")
        self._used.add(name)
        return _literal(self._known[name], name)

    def check_use(self) -> None:
        """Refuse values that the condition does not use."""
        unused = [name for name in self._known if name not in self._used]
        if unused:
            raise FormatError(f"the condition does not use parameter {', '.join(unused)}: {self._where[:80]}")


def _literal(value: Any, name: str) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | Decimal() if not isinstance(value, Decimal) or value.is_finite():
            return f"{value:f}" if isinstance(value, Decimal) else str(value)
        case float():
            return f"DOUBLE '{value!r}'" if math.isfinite(value) else f"DOUBLE '{'NaN' if value != value else value}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            text = value.isoformat(sep=" ")
            return f"TIMESTAMP '{text}'" if value.tzinfo is None else f"TIMESTAMPTZ '{_without_seconds(text)}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case clock_time() if value.tzinfo is None:
            return f"TIME '{value.isoformat()}'"
        case timedelta():
            return f"INTERVAL '{value.days} days {value.seconds} seconds {value.microseconds} microseconds'"
        case uuid.UUID():
            return f"UUID '{value}'"
        case list() | tuple() | set() if value:
            return "(" + ", ".join(_literal(each, name) for each in value) + ")"
    raise SchemaError(f"parameter {name} cannot be a literal in SQL: {value!r:.80}")


def _without_seconds(text: str) -> str:
    """A time whose zone has no seconds, as historic local times have."""
    return re.sub(r"([+-]\d{2}:\d{2}):\d{2}(\.\d+)?$", r"\1", text)
