"""Values in the types that JSON has, as details of an entry have them."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["name_of", "shown"]

_MOST_LETTERS: Final = 400
_MOST_BYTES: Final = 64


def shown(value: Any) -> Any:
    """A value, cut to what one can read: bytes as hexadecimal text, what JSON lacks as text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value[:_MOST_BYTES])
        return f"0x{data.hex()}{'…' if len(value) > _MOST_BYTES else ''}"
    if isinstance(value, dict):
        return {str(key): shown(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    text = str(value)
    return f"{text[:_MOST_LETTERS]}…" if len(text) > _MOST_LETTERS else text


def name_of(codes: Any, code: int) -> str:
    """The name of a code of a format, or its number."""
    return str(codes(code).name) if code in codes.__members__.values() else f"code {code}"
