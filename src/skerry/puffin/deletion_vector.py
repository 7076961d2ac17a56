"""Blobs of type `deletion-vector-v1`: which rows of one data file are deleted.

    blob = length magic bitmap crc

Spec: Puffin spec, Blob types, `deletion-vector-v1`.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from skerry.bitmaps import MAX_POSITIONS, positions_from_roaring64, roaring64_from_positions
from skerry.errors import FormatError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["BLOB_TYPE", "CARDINALITY", "REFERENCED_DATA_FILE", "decode_deletion_vector", "encode_deletion_vector"]

BLOB_TYPE: Final = "deletion-vector-v1"
REFERENCED_DATA_FILE: Final = "referenced-data-file"
"""Blob property: location of the data file."""
CARDINALITY: Final = "cardinality"
"""Blob property: number of deleted rows."""

_MAGIC: Final = b"\xd1\xd3\x39\x64"
_U32: Final = struct.Struct(">I")
_FRAME_BYTES: Final = _U32.size + len(_MAGIC) + _U32.size
_RULE: Final = "Puffin spec, Blob types, `deletion-vector-v1`"


def decode_deletion_vector(
    blob: Buffer, *, cardinality: int | None = None, location: str | None = None, offset: int = 0
) -> npt.NDArray[np.int64]:
    """Decode a deletion vector.

    Args:
        blob: The blob, which is never compressed.
        cardinality: How many rows the metadata says are deleted; None accepts as many as a bitmap may have.
        location: The Puffin file, for messages.
        offset: Where in it the blob begins, for messages.

    Returns:
        int64[n] Positions of the deleted rows, ascending and distinct.

    Raises:
        FormatError: The bytes are not a deletion vector, are damaged, or do not have `cardinality` rows.
    """
    data = memoryview(blob).cast("B")

    def error(problem: str, at: int) -> FormatError:
        return FormatError(f"deletion vector: {problem}", location=location, offset=offset + at, rule=_RULE)

    if len(data) < _FRAME_BYTES:
        raise error(f"{len(data)} bytes, expected at least {_FRAME_BYTES}", 0)
    length = _U32.unpack(data[: _U32.size])[0]
    if length != len(data) - 2 * _U32.size:
        raise error(f"length {length} in a blob of {len(data)} bytes, expected {len(data) - 2 * _U32.size}", 0)
    body = data[_U32.size : -_U32.size]
    magic = bytes(body[: len(_MAGIC)])
    if magic != _MAGIC:
        raise error(f"expected magic {_MAGIC.hex()}, found {magic.hex()}", _U32.size)
    stored = _U32.unpack(data[-_U32.size :])[0]
    computed = zlib.crc32(body)
    if stored != computed:
        raise error(f"CRC-32 {stored:08x} is stored, {computed:08x} computed", len(data) - _U32.size)
    start = _U32.size + len(_MAGIC)
    positions = positions_from_roaring64(
        data[start : -_U32.size],
        max_positions=MAX_POSITIONS if cardinality is None else cardinality,
        location=location,
        offset=offset + start,
    )
    if cardinality is not None and len(positions) != cardinality:
        raise error(f"{len(positions)} rows, the metadata says {cardinality}", 0)
    return positions


def encode_deletion_vector(positions: npt.NDArray[Any]) -> bytes:
    """Encode positions of deleted rows as a blob.

    Args:
        positions: Integers, ascending; none negative.

    Raises:
        SchemaError: The positions are not ascending, or negative.
    """
    body = _MAGIC + roaring64_from_positions(positions)
    return b"".join([_U32.pack(len(body)), body, _U32.pack(zlib.crc32(body))])
