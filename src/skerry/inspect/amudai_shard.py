"""An Amudai shard in the order of its bytes: stripes with the buffers of their fields, then messages about them.

`skerry.amudai.reading.inspection` gives the tree as messages refer to each other; here each part encloses what is
inside of its bytes.

Spec: docs/formats/amudai.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from skerry.amudai import ShardFile
from skerry.amudai.reading.inspection import inspect_shard
from skerry.entry import Entry
from skerry.storage import Storage, redact

__all__ = ["inspect_amudai"]

_FRAME_BYTES: Final = 8
_TRAILER_BYTES: Final = 12
"""The length of the directory, and the magic."""


def inspect_amudai(storage: Storage, location: str, at: Sequence[int] = ()) -> Entry:
    """Look into a shard, by its root file.

    Args:
        storage: Access to its files.
        location: The root file.
        at: The way to a part; all messages are read anyway.

    Raises:
        FormatError: The lists of stripes or descriptors are damaged.
        UnsupportedError: The version of the format is unknown.
    """
    tree = inspect_shard(ShardFile(location, storage=storage))
    size = storage.size(location)
    file = redact(location)
    parts = [Entry("magic", "amud", {}, file, 0, _FRAME_BYTES)]
    for part in tree.children:
        if part.kind == "stripe list":
            for stripe in part.children:
                parts += _stripe(stripe)
        if part.kind == "field list":
            parts.append(_around("descriptors", "of the shard", {}, part.children))
        parts.append(part.with_children(()) if part.kind in ("stripe list", "field list") else part)
    parts.sort(key=lambda part: (part.file != file, part.start or 0))
    end = max((part.end for part in parts if part.end is not None and part.file == file), default=0)
    if end < size - _TRAILER_BYTES:
        parts.append(Entry("directory", "", {}, file, end, size - _TRAILER_BYTES))
    parts.append(Entry("trailer", "length of the directory, amud", {}, file, size - _TRAILER_BYTES, size))
    return Entry("Amudai shard", "", tree.details | {"size_bytes": size}, file, 0, size, tuple(parts))


def _stripe(stripe: Entry) -> Iterator[Entry]:
    """The data of a stripe, and its messages."""
    fields = [_field(part) for part in stripe.children if part.kind == "field"]
    yield _around("stripe", stripe.name, stripe.details, fields)
    descriptors = [part.with_children(()) for part in stripe.children if part.kind == "field"]
    yield _around("descriptors", f"of stripe {stripe.name}", {}, descriptors)
    yield from (part for part in stripe.children if part.kind != "field")


def _field(field: Entry) -> Entry:
    """The buffers of a field."""
    buffers = [_buffer(part) for part in field.children]
    encodings = {name: None for part in buffers for name in part.details.get("encodings", ())}
    details = {"encodings": list(encodings), "stored": field.details.get("encodings")}
    details |= {name: value for name, value in field.details.items() if name != "encodings"}
    return _around("field", field.name, details, buffers)


def _buffer(buffer: Entry) -> Entry:
    """A buffer of blocks, and the map that says where they are."""
    details = dict(buffer.details)
    encodings = details.pop("block_encodings", None)
    if isinstance(encodings, dict):
        details = {"encodings": list(encodings)} | details
    place = details.pop("block_map", None)
    children: tuple[Entry, ...] = ()
    if isinstance(place, list) and buffer.start is not None:
        start, end = place
        blocks = Entry("blocks", "", {"encodings": details.get("encodings")}, buffer.file, buffer.start, start)
        children = (blocks, Entry("block map", "", {}, buffer.file, start, end))
    return Entry(buffer.kind, buffer.name, details, buffer.file, buffer.start, buffer.end, children)


def _around(kind: str, name: str, details: dict[str, Any], parts: Sequence[Entry]) -> Entry:
    """A part that spans others, where these are in one file."""
    placed = [part for part in parts if part.start is not None and part.end is not None]
    if not placed or len({part.file for part in placed}) > 1:
        return Entry(kind, name, details, None, None, None, tuple(parts))
    start = min(part.start for part in placed if part.start is not None)
    end = max(part.end for part in placed if part.end is not None)
    return Entry(kind, name, details, placed[0].file, start, end, tuple(parts))
