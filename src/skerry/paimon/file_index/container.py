"""The container of file indexes: which columns of a data file have which indexes, and where their bytes are.

    container = magic version head_length columns* redundant_length body

Spec: docs/formats/paimon.md § 12.2; Paimon spec, File Index.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.file_index.cursor import I32, I64, Cursor

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["decode_container", "encode_container"]

_MAGIC: Final = 1493475289347502
_VERSION: Final = 1
_EMPTY: Final = -1
_U16: Final = struct.Struct(">H")
_LEAST_COLUMN: Final = _U16.size + I32.size
_LEAST_INDEX: Final = _U16.size + 2 * I32.size


def decode_container(data: Buffer, *, location: str | None = None) -> dict[str, dict[str, Cursor | None]]:
    """Find the indexes of a data file.

    Args:
        data: An index file, or the index embedded in a manifest.
        location: The file, for messages.

    Returns:
        The indexes by type for each column; None for an index of a column without values.

    Raises:
        FormatError: The bytes are not a valid container.
        UnsupportedError: Its version is unknown.
    """
    whole = Cursor(memoryview(data).cast("B"), "file index", location)
    magic = whole.take(I64, "magic")
    if magic != _MAGIC:
        raise whole.error(f"expected magic {_MAGIC}, found {magic}", 0)
    version = whole.take(I32, "version")
    if version != _VERSION:
        raise UnsupportedError(
            f"file index of version {version}, only {_VERSION} is known", location=location, offset=I64.size
        )
    head_length = whole.size("head length")
    head = whole.part(0, head_length, "the head")
    head.position = min(whole.position, head_length)
    columns: dict[str, dict[str, Cursor | None]] = {}
    for _ in range(head.count("number of columns", _LEAST_COLUMN)):
        name = _take_text(head, "name of a column")
        indexes: dict[str, Cursor | None] = {}
        for _ in range(head.count("number of indexes", _LEAST_INDEX)):
            type_ = _take_text(head, "type of an index")
            start, size = head.take(I32, "start of an index"), head.take(I32, "length of an index")
            indexes[type_] = None if start == _EMPTY else whole.part(start, size, f"index {type_!r} of {name!r}")
        if name in columns:
            raise head.error(f"column {name!r} is listed twice")
        columns[name] = indexes
    return columns


def encode_container(columns: Mapping[str, Mapping[str, bytes | None]], redundant: bytes = b"") -> bytes:
    """Encode a container of indexes.

    Args:
        columns: The indexes by type for each column; None for an index of a column without values.
        redundant: Bytes that readers skip.

    Returns:
        The container.
    """
    names = [_encode_text(name) for name in columns]
    types = [[_encode_text(type_) for type_ in indexes] for indexes in columns.values()]
    head_length = I64.size + 4 * I32.size + len(redundant)  # magic; version, head length, columns, redundant length
    head_length += sum(len(name) + I32.size for name in names)
    head_length += sum(len(type_) + 2 * I32.size for found in types for type_ in found)
    head = [I64.pack(_MAGIC), I32.pack(_VERSION), I32.pack(head_length), I32.pack(len(columns))]
    body: list[bytes] = []
    position = head_length
    for name, found, indexes in zip(names, types, columns.values(), strict=True):
        head += [name, I32.pack(len(found))]
        for type_, index in zip(found, indexes.values(), strict=True):
            head += [type_, I32.pack(_EMPTY if index is None else position), I32.pack(len(index or b""))]
            body.append(index or b"")
            position += len(body[-1])
    return b"".join([*head, I32.pack(len(redundant)), redundant, *body])


# Java's modified UTF-8: 0 is two bytes, and characters beyond 16 bits are two surrogates of three bytes each -----


def _take_text(cursor: Cursor, what: str) -> str:
    size = cursor.take(_U16, f"length of the {what}")
    encoded = bytes(cursor.bytes(size, what))
    try:
        units = encoded.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise cursor.error(f"the {what} is not modified UTF-8", cursor.position - size) from None


def _encode_text(text: str) -> bytes:
    units = struct.unpack(f"<{len(text.encode('utf-16-le')) // 2}H", text.encode("utf-16-le"))
    encoded = "".join(map(chr, units)).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(encoded) >= 1 << 16:
        raise SchemaError(f"a name of {len(encoded)} bytes does not fit a file index, which allows 65535")
    return _U16.pack(len(encoded)) + encoded
