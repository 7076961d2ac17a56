"""Deletion vectors: which rows of data files are deleted, as bitmaps in index files.

    file   = version vector*
    vector = length magic bitmap crc

Both kinds of vectors are read and written. They differ in the bitmap (32 or 64 bits), in the byte order of the magic,
and in the length that the index manifest records: for the 32-bit kind that of magic and bitmap, for the other one it
includes the length field and the checksum.

Spec: docs/formats/paimon.md § 12.1; Paimon spec, Table Index, Deletion Vectors.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from skerry.bitmaps import (
    MAX_POSITIONS,
    positions_from_roaring32,
    positions_from_roaring64,
    roaring32_from_positions,
    roaring64_from_positions,
)
from skerry.errors import FormatError, UnsupportedError
from skerry.paimon.manifests.index_manifest import DeletionVectorMeta

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["VectorBits", "decode_vector", "encode_vectors", "find_vector"]

_Positions: TypeAlias = npt.NDArray[np.int64]


class VectorBits(IntEnum):
    """The width of the positions of a vector."""

    BITS_32 = 32
    """Paimon's default."""
    BITS_64 = 64
    """Set by `deletion-vectors.bitmap64`; laid out as Iceberg's."""


_VERSION: Final = 1
_U32: Final = struct.Struct(">I")
_FRAME_BYTES: Final = 2 * _U32.size  # length and checksum
_MAGIC_BYTES: Final = 4
_RULE: Final = "docs/formats/paimon.md § 12.1"


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of vectors.

    Args:
        magic: The bytes after the length.
        uncounted: Bytes of a vector that the index manifest does not count.
        decode: Reads the bitmap.
        encode: Writes it.
    """

    magic: bytes
    uncounted: int
    decode: Callable[..., _Positions]
    encode: Callable[[_Positions], bytes]


_KINDS: Final = {
    VectorBits.BITS_32: _Kind(
        bytes.fromhex("5e43f2d0"), _FRAME_BYTES, positions_from_roaring32, roaring32_from_positions
    ),
    VectorBits.BITS_64: _Kind(bytes.fromhex("d1d33964"), 0, positions_from_roaring64, roaring64_from_positions),
}
_BY_MAGIC: Final = {kind.magic: kind for kind in _KINDS.values()}


def decode_vector(
    data: Buffer, stated_bytes: int, *, cardinality: int | None = None, location: str | None = None, offset: int = 0
) -> _Positions:
    """Decode a deletion vector of either kind.

    Args:
        data: The vector from its length field on; what follows it is ignored.
        stated_bytes: Its length by the index manifest.
        cardinality: Number of deleted rows by the index manifest; None accepts as many as a bitmap may have.
        location: The index file, for messages.
        offset: Where in it the vector begins, for messages.

    Returns:
        int64[n] Positions of the deleted rows, ascending and distinct.

    Raises:
        FormatError: The bytes are not a valid deletion vector, or differ from the index manifest.
    """
    whole = memoryview(data).cast("B")

    def error(problem: str, at: int) -> FormatError:
        return FormatError(f"deletion vector: {problem}", location=location, offset=offset + at, rule=_RULE)

    if len(whole) < _FRAME_BYTES + _MAGIC_BYTES:
        raise error(f"{len(whole)} bytes, expected at least {_FRAME_BYTES + _MAGIC_BYTES}", 0)
    length = _U32.unpack_from(whole)[0]
    magic = bytes(whole[_U32.size : _U32.size + _MAGIC_BYTES])
    kind = _BY_MAGIC.get(magic)
    if kind is None:
        raise error(f"expected magic {' or '.join(magic.hex() for magic in _BY_MAGIC)}, found {magic.hex()}", _U32.size)
    if length + _FRAME_BYTES != stated_bytes + kind.uncounted:
        expected = stated_bytes + kind.uncounted - _FRAME_BYTES
        raise error(f"length {length}, expected {expected} by the index manifest's {stated_bytes} bytes", 0)
    if not _MAGIC_BYTES <= length <= len(whole) - _FRAME_BYTES:
        raise error(f"length {length} in {len(whole)} bytes", 0)
    body = whole[_U32.size : _U32.size + length]
    stored = _U32.unpack_from(whole, _U32.size + length)[0]
    computed = zlib.crc32(body)
    if stored != computed:
        raise error(f"stored CRC-32 is {stored:08x}, computed {computed:08x}", _U32.size + length)
    positions = kind.decode(
        body[_MAGIC_BYTES:],
        max_positions=MAX_POSITIONS if cardinality is None else cardinality,
        location=location,
        offset=offset + _U32.size + _MAGIC_BYTES,
    )
    if cardinality is not None and len(positions) != cardinality:
        raise error(f"{len(positions)} rows, expected {cardinality} by the index manifest", 0)
    return positions


def encode_vectors(
    deleted: Mapping[str, npt.NDArray[Any]], bits: VectorBits = VectorBits.BITS_32
) -> tuple[bytes, tuple[DeletionVectorMeta, ...]]:
    """Encode the deletion vectors of data files as one index file.

    Args:
        deleted: Ascending positions of deleted rows by name of the data file.
        bits: Which kind to write.

    Returns:
        The file, and the location of the vector of each data file, in the same order.

    Raises:
        SchemaError: Positions are not ascending, negative, or too large for the kind.
    """
    kind = _KINDS[bits]
    parts = [bytes([_VERSION])]
    ranges: list[DeletionVectorMeta] = []
    offset = len(parts[0])
    for name, positions in deleted.items():
        body = kind.magic + kind.encode(positions)
        parts += [_U32.pack(len(body)), body, _U32.pack(zlib.crc32(body))]
        size = len(body) + _FRAME_BYTES
        cardinality = len(np.unique(positions))
        ranges.append(DeletionVectorMeta(name, offset, size - kind.uncounted, cardinality))
        offset += size
    return b"".join(parts), tuple(ranges)


def find_vector(data: Buffer, meta: DeletionVectorMeta, *, location: str | None = None) -> _Positions:
    """Decode one deletion vector of an index file.

    Args:
        data: The file.
        meta: Where the vector is.
        location: The file, for messages.

    Returns:
        int64[n] Positions of the deleted rows, ascending and distinct.

    Raises:
        FormatError: The file is corrupt, or differs from the index manifest.
        UnsupportedError: Its version is unknown.
    """
    whole = memoryview(data).cast("B")
    if meta.offset < 1 or not 0 <= meta.length <= len(whole) - meta.offset:
        raise FormatError(
            f"a deletion vector of {meta.length} bytes at {meta.offset} in a file of {len(whole)}",
            location=location,
            rule=_RULE,
        )
    if whole[0] != _VERSION:
        raise UnsupportedError(
            f"deletion vectors of version {whole[0]}, only {_VERSION} is supported", location=location, rule=_RULE
        )
    vector = whole[meta.offset :]
    return decode_vector(vector, meta.length, cardinality=meta.cardinality, location=location, offset=meta.offset)
