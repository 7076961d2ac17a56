"""JSON objects of metadata: entries of a checked type, with errors that say where in the document they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar, overload

from skerry.errors import FormatError

__all__ = ["JsonObject"]

_INT = (-(2**31), 2**31 - 1)
_LONG = (-(2**63), 2**63 - 1)
_NAMES: Final = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer"}

_D = TypeVar("_D")


class _Required:
    """Stands for the default of entries that must be there."""


_REQUIRED: Final = _Required()


class JsonObject:
    """A JSON object of a document. Null stands for a missing entry, as in Iceberg Java.

    Args:
        value: What was decoded.
        at: Its place in the document, such as `schemas[0].fields[2]`; empty for the document itself.
        rule: The rule that describes it.

    Raises:
        FormatError: It is not an object.
    """

    __slots__ = ("at", "rule", "value")

    def __init__(self, value: Any, at: str = "", rule: str | None = None) -> None:
        self.at = at
        self.rule = rule
        if not isinstance(value, dict):
            raise self.error("", f"expected an object, found {_shown(value)}")
        self.value: dict[str, Any] = value

    def error(self, name: str, problem: str) -> FormatError:
        """The error of an entry, or with an empty name that of the object itself."""
        at = self.path(name)
        return FormatError(f"{at}: {problem}" if at else problem, rule=self.rule)

    def unexpected(self, name: str, expected: str) -> FormatError:
        """The error of an entry that is missing, or not what was expected."""
        value = self.value.get(name)
        return self.error(name, "is missing" if value is None else f"expected {expected}, found {_shown(value)}")

    def has(self, name: str) -> bool:
        """Whether there is such an entry."""
        return self.value.get(name) is not None

    def path(self, name: str) -> str:
        """The place of an entry in the document."""
        return f"{self.at}.{name}" if self.at and name else self.at or name

    def unknown(self, known: frozenset[str]) -> Mapping[str, Any]:
        """The entries whose names are not known, to be written back."""
        value = self.value
        return {} if value.keys() <= known else {name: value[name] for name in value if name not in known}

    @overload
    def integer(self, name: str) -> int: ...
    @overload
    def integer(self, name: str, default: _D) -> int | _D: ...
    def integer(self, name: str, default: Any = _REQUIRED) -> Any:
        """A 32-bit integer."""
        return self._number(name, default, _INT)

    @overload
    def long(self, name: str) -> int: ...
    @overload
    def long(self, name: str, default: _D) -> int | _D: ...
    def long(self, name: str, default: Any = _REQUIRED) -> Any:
        """A 64-bit integer."""
        return self._number(name, default, _LONG)

    @overload
    def text(self, name: str) -> str: ...
    @overload
    def text(self, name: str, default: _D) -> str | _D: ...
    def text(self, name: str, default: Any = _REQUIRED) -> Any:
        """A string."""
        return self._entry(name, default, str)

    @overload
    def boolean(self, name: str) -> bool: ...
    @overload
    def boolean(self, name: str, default: _D) -> bool | _D: ...
    def boolean(self, name: str, default: Any = _REQUIRED) -> Any:
        """True or false."""
        return self._entry(name, default, bool)

    @overload
    def array(self, name: str) -> list[Any]: ...
    @overload
    def array(self, name: str, default: _D) -> list[Any] | _D: ...
    def array(self, name: str, default: Any = _REQUIRED) -> Any:
        """An array of anything."""
        return self._entry(name, default, list)

    @overload
    def object(self, name: str) -> JsonObject: ...
    @overload
    def object(self, name: str, default: _D) -> JsonObject | _D: ...
    def object(self, name: str, default: Any = _REQUIRED) -> Any:
        """An object."""
        value = self._entry(name, default, dict)
        return value if value is default else JsonObject(value, self.path(name), self.rule)

    def objects(self, name: str, *, required: bool = False) -> Iterator[JsonObject]:
        """The objects of an array; none if it is missing and not required."""
        for number, item in enumerate(self.array(name) if required else self.array(name, ())):
            yield JsonObject(item, f"{self.path(name)}[{number}]", self.rule)

    def integers(self, name: str) -> tuple[int, ...]:
        """The 32-bit integers of an array; none if it is missing."""
        values = self.array(name, ())
        low, high = _INT
        for number, value in enumerate(values):
            if type(value) is not int or not low <= value <= high:
                raise self.error(f"{name}[{number}]", f"expected a 32-bit integer, found {_shown(value)}")
        return tuple(values)

    def texts(self, name: str) -> tuple[str, ...]:
        """The strings of an array; none if it is missing."""
        values = self.array(name, ())
        for number, value in enumerate(values):
            if not isinstance(value, str):
                raise self.error(f"{name}[{number}]", f"expected a string, found {_shown(value)}")
        return tuple(values)

    def strings(self, name: str) -> dict[str, str]:
        """An object of strings; empty if it is missing."""
        values: dict[str, Any] = self._entry(name, {}, dict)
        for key, value in values.items():
            if not isinstance(value, str):
                raise self.error(f"{name}.{key}", f"expected a string, found {_shown(value)}")
        return dict(values)

    def _number(self, name: str, default: Any, limits: tuple[int, int]) -> Any:
        value = self.value.get(name)
        if type(value) is int and limits[0] <= value <= limits[1]:
            return value
        if value is None and default is not _REQUIRED:
            return default
        raise self.unexpected(name, f"a {32 if limits is _INT else 64}-bit integer")

    def _entry(self, name: str, default: Any, kind: type) -> Any:
        value = self.value.get(name)
        if isinstance(value, kind):
            return value
        if value is None and default is not _REQUIRED:
            return default
        raise self.unexpected(name, _NAMES[kind])


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return _NAMES[type(value)]
    text = repr(value) if not isinstance(value, int) or abs(value) < 1 << 64 else "a huge integer"
    return text if len(text) <= 100 else text[:100] + "…"
