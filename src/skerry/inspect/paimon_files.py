"""Index files of Paimon tables: deletion vectors, hashes of keys, and the indexes of data files.

Spec: docs/formats/paimon.md § 12.1, § 12.2.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from skerry.entry import Entry
from skerry.errors import FormatError, SkerryError
from skerry.paimon.file_index import decode_container
from skerry.paimon.manifests.deletion_vectors import decode_vector
from skerry.storage import Storage

__all__ = ["inspect_file_index", "inspect_hashes", "inspect_vectors"]

_U32: Final = struct.Struct(">I")
_WIDE_MAGIC: Final = bytes.fromhex("d1d33964")
_FRAME_BYTES: Final = 8
"""The length before a vector, and the checksum behind it."""
_MOST_BYTES: Final = 256 << 20


def _read(storage: Storage, location: str) -> bytes:
    size = storage.size(location)
    if size > _MOST_BYTES:
        raise FormatError(f"index file of {size:,} bytes; those of up to {_MOST_BYTES:,} are shown", location=location)
    return storage.read(location)


def inspect_vectors(storage: Storage, location: str, at: Sequence[int] = ()) -> Entry:
    """Look into a file of deletion vectors.

    Args:
        storage: Access to the file.
        location: The file.
        at: The way to a part; all is read anyway.

    Raises:
        FormatError: A vector ends outside of the file.
    """
    data = _read(storage, location)
    parts = [Entry("header", "version", {"value": data[0]}, location, 0, 1)]
    position = 1
    while position < len(data):
        if len(data) - position < _FRAME_BYTES:
            raise FormatError("the file ends within a deletion vector", location=location, offset=position)
        length = _U32.unpack_from(data, position)[0]
        end = position + length + _FRAME_BYTES
        if end > len(data):
            raise FormatError(
                f"a deletion vector of {length} bytes ends outside of the file", location=location, offset=position
            )
        parts.append(_vector(data[position:end], location, position))
        position = end
    return Entry("Paimon deletion vectors", "", {"vectors": len(parts) - 1}, location, 0, len(data), tuple(parts))


def _vector(data: bytes, location: str, start: int) -> Entry:
    length, magic = _U32.unpack_from(data)[0], data[4:8]
    is_wide = magic == _WIDE_MAGIC
    end = start + len(data)
    entry = Entry("deletion vector", f"at {start:,}", {"bits": 64 if is_wide else 32}, location, start, end)
    try:
        stated = length + _FRAME_BYTES if is_wide else length
        positions = decode_vector(data, stated, location=location, offset=start)
        entry.details["deleted_rows"] = len(positions)
        if len(positions):
            entry.details.update(first=int(positions[0]), last=int(positions[-1]))
    except SkerryError as error:
        entry.details["error"] = str(error)
    fields = [
        ("length", "of magic and bitmap, big-endian", start, start + 4),
        ("magic", magic.hex(), start + 4, start + 8),
        ("bitmap", f"{64 if is_wide else 32}-bit Roaring bitmap of positions", start + 8, end - 4),
        ("checksum", "CRC-32 of magic and bitmap, big-endian", end - 4, end),
    ]
    return entry.with_children(
        tuple(Entry("field", name, {"meaning": said}, location, first, last) for name, said, first, last in fields)
    )


def inspect_file_index(storage: Storage, location: str, at: Sequence[int] = ()) -> Entry:
    """Look into the indexes of a data file.

    Args:
        storage: Access to the file.
        location: The file.
        at: The way to a part; all is read anyway.

    Raises:
        FormatError: The container is unsound.
        UnsupportedError: Its version is unknown.
    """
    data = _read(storage, location)
    parts = []
    for column, indexes in decode_container(data, location=location).items():
        for kind, cursor in indexes.items():
            if cursor is None:
                parts.append(Entry("index", f"{kind} of {column}", {"values": "none"}, location))
            else:
                end = cursor.offset + len(cursor.data)
                parts.append(Entry("index", f"{kind} of {column}", {}, location, cursor.offset, end))
    first = min((part.start for part in parts if part.start is not None), default=len(data))
    head = Entry("header", "columns and their indexes", {}, location, 0, first)
    return Entry("Paimon file index", "", {"indexes": len(parts)}, location, 0, len(data), (head, *parts))


def inspect_hashes(storage: Storage, location: str, at: Sequence[int] = ()) -> Entry:
    """Look into the hashes of the keys of a bucket, which dynamic buckets have.

    Args:
        storage: Access to the file.
        location: The file.
        at: The way to a part; there are none.
    """
    size = storage.size(location)
    details = {"hashes": size // 4, "meaning": "a 32-bit hash per key of the bucket, big-endian"}
    return Entry("Paimon hash index", "", details, location, 0, size)
