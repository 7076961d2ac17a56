"""A JSON file, such as metadata.json or a snapshot of Paimon: its members, and members of these."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Final

from skerry.entry import Entry
from skerry.errors import FormatError
from skerry.inspect.values import shown
from skerry.storage import Storage, decode_json

__all__ = ["inspect_json"]

_MOST_BYTES: Final = 256 << 20
_DEPTH: Final = 3
"""How many levels are there below the part that is asked for."""


def inspect_json(storage: Storage, location: str, at: Sequence[int] = ()) -> Entry:
    """Look into a JSON file, which may be compressed by gzip.

    Args:
        storage: Access to the file.
        location: The file.
        at: The way to a part.

    Raises:
        FormatError: It is not JSON.
    """
    size = storage.size(location)
    if size > _MOST_BYTES:
        raise FormatError(f"JSON file of {size:,} bytes; those of up to {_MOST_BYTES:,} are shown", location=location)
    data = storage.read(location)
    try:
        document = decode_json(_unpacked(data))
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise FormatError(f"not JSON: {error}", location=location) from error
    return Entry("JSON file", "", {"size_bytes": size}, location, 0, size, _parts(document, location, len(at) + _DEPTH))


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        return data
    decompressor = zlib.decompressobj(wbits=31)
    text = decompressor.decompress(data, _MOST_BYTES)
    if decompressor.unconsumed_tail:
        raise ValueError(f"it is larger than {_MOST_BYTES:,} bytes when decompressed")
    return text


def _parts(value: Any, location: str, depth: int) -> tuple[Entry, ...]:
    if isinstance(value, dict):
        return tuple(_entry(str(name), each, location, depth) for name, each in value.items())
    if isinstance(value, list):
        return tuple(_entry(str(number), each, location, depth) for number, each in enumerate(value))
    return ()


def _entry(name: str, value: Any, location: str, depth: int) -> Entry:
    """A member; what is deeper than is asked for is only counted."""
    if not isinstance(value, dict | list):
        return Entry("member", name, {"value": shown(value)}, location)
    details: dict[str, Any] = {"members" if isinstance(value, dict) else "items": len(value)}
    if isinstance(value, dict):
        details |= {key: shown(each) for key, each in value.items() if not isinstance(each, dict | list)}
    return Entry("member", name, details, location, children=_parts(value, location, depth - 1) if depth > 1 else ())
