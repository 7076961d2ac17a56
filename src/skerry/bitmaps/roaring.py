"""Positions to the portable bytes of Roaring bitmaps and back, over CRoaring.

Their framing is checked here before CRoaring sees the bytes: every container must fit in them, and the cardinalities in
the headers bound the memory that the positions will take.

    32 bits = cookie [count] [run flags] (key cardinality-1)* [offset*] container*
    64 bits = count (high key, bitmap of 32 bits)*

Spec: Roaring spec, Standard 32-bit Roaring Bitmap, Extension for 64-bit implementations.
"""

from __future__ import annotations

import array
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from skerry.errors import FormatError, SchemaError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "MAX_POSITIONS",
    "leading_roaring32",
    "positions_from_roaring32",
    "positions_from_roaring64",
    "roaring32_from_positions",
    "roaring64_from_positions",
]

MAX_POSITIONS: Final = 1 << 28
"""Most positions decoded unless the caller gives its own bound: 2 GiB of them."""

_Positions = npt.NDArray[np.int64]

_RULE_32: Final = "Roaring spec, Standard 32-bit Roaring Bitmap"
_RULE_64: Final = "Roaring spec, Extension for 64-bit implementations"
_COOKIE_WITHOUT_RUNS: Final = 12346
_COOKIE: Final = 12347
_OFFSETS_FROM: Final = 4  # bitmaps with runs and fewer containers have no offsets
_MAX_CONTAINERS: Final = 1 << 16
_MAX_ARRAY: Final = 4096
_BITSET_BYTES: Final = 8192
_HEAD: Final = struct.Struct("<HH")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")


# Decoding -----------------------------------------------------------------------------------------------------------


def positions_from_roaring64(
    data: Buffer, *, max_positions: int = MAX_POSITIONS, location: str | None = None, offset: int = 0
) -> _Positions:
    """Decode a 64-bit bitmap. Memory stays below 24 bytes for each position, and four times the bytes given.

    Args:
        data: Exactly one bitmap.
        max_positions: The most positions to accept.
        location: The file, for messages.
        offset: Where in the file the bitmap begins, for messages.

    Returns:
        int64[n] The positions, ascending and distinct.

    Raises:
        FormatError: The bytes are not a valid bitmap, or hold more positions, or one of 2^63 or more.
    """
    cursor = _Cursor(memoryview(data).cast("B"), location, offset, _RULE_64)
    count = cursor.take(_U64, "number of bitmaps")[0]
    room = len(cursor.data) - cursor.position
    if count * _U64.size > room:  # key, cookie and what follows take more
        raise cursor.error(f"{count} bitmaps are claimed in {room} bytes", 0)
    parts: list[_Positions] = []
    last, found = -1, 0
    for _ in range(count):
        start = cursor.position
        key = cursor.take(_U32, "key of a bitmap")[0]
        if not last < key < 1 << 31:
            raise cursor.error(f"key {key} after key {last}, expected ascending keys below 2^31", start)
        last = key
        low = _decode_32(cursor, max_positions - found)
        found += len(low)
        parts.append(low.astype(np.int64) | np.int64(key << 32))
    cursor.end()
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def positions_from_roaring32(
    data: Buffer, *, max_positions: int = MAX_POSITIONS, location: str | None = None, offset: int = 0
) -> _Positions:
    """Decode a 32-bit bitmap; see `positions_from_roaring64`."""
    cursor = _Cursor(memoryview(data).cast("B"), location, offset, _RULE_32)
    positions = _decode_32(cursor, max_positions).astype(np.int64)
    cursor.end()
    return positions


def leading_roaring32(
    data: Buffer, *, max_positions: int = MAX_POSITIONS, location: str | None = None, offset: int = 0
) -> tuple[_Positions, int]:
    """Decode the 32-bit bitmap at the start of the bytes; see `positions_from_roaring64`.

    Returns:
        int64[n] the positions, and how many bytes they take.
    """
    cursor = _Cursor(memoryview(data).cast("B"), location, offset, _RULE_32)
    positions = _decode_32(cursor, max_positions).astype(np.int64)
    return positions, cursor.position


@dataclass(slots=True)
class _Cursor:
    """A position in a bitmap, with checked reads from there on."""

    data: memoryview
    location: str | None
    base: int
    rule: str
    position: int = 0

    def error(self, problem: str, position: int) -> FormatError:
        return FormatError(
            f"Roaring bitmap: {problem}", location=self.location, offset=self.base + position, rule=self.rule
        )

    def skip(self, size: int, what: str) -> memoryview:
        taken = self.data[self.position : self.position + size]
        if len(taken) < size:
            raise self.error(f"ends within its {what}", len(self.data))
        self.position += size
        return taken

    def take(self, form: struct.Struct, what: str) -> tuple[Any, ...]:
        return form.unpack(self.skip(form.size, what))

    def end(self) -> None:
        if self.position < len(self.data):
            raise self.error(f"is followed by {len(self.data) - self.position} other bytes", self.position)


def _decode_32(cursor: _Cursor, max_positions: int) -> npt.NDArray[np.uint32]:
    """Decode one 32-bit bitmap and move past it."""
    start = cursor.position
    cardinality = _pass_containers(cursor)
    if cardinality > max_positions:
        raise cursor.error(f"{cardinality} positions, expected at most {max_positions}", start)
    try:
        bitmap = BitMap.deserialize(bytes(cursor.data[start : cursor.position]))
    except (ValueError, IndexError) as error:
        raise cursor.error(f"{error}", start) from error
    if len(bitmap) != cardinality:
        raise cursor.error(f"{len(bitmap)} positions, its containers claim {cardinality}", start)
    return np.frombuffer(bitmap.to_array(), dtype=np.uint32)


def _pass_containers(cursor: _Cursor) -> int:
    """Move past a bitmap, checking that its containers fit in the bytes; return how many positions they claim."""
    start = cursor.position
    cookie, high = cursor.take(_HEAD, "cookie")
    if cookie == _COOKIE:
        count = high + 1
        flags = np.frombuffer(cursor.skip((count + 7) // 8, "run flags"), np.uint8)
        is_run = np.unpackbits(flags, bitorder="little")[:count].astype(bool)
    elif cookie == _COOKIE_WITHOUT_RUNS and high == 0:
        (count,) = cursor.take(_U32, "number of containers")
        if count > _MAX_CONTAINERS:
            raise cursor.error(f"{count} containers, expected at most {_MAX_CONTAINERS}", start + _HEAD.size)
        is_run = np.zeros(count, bool)
    else:
        raise cursor.error(
            f"expected cookie {_COOKIE_WITHOUT_RUNS} or {_COOKIE}, found {cookie | high << 16:#010x}", start
        )
    heads = np.frombuffer(cursor.skip(4 * count, "keys"), "<u2").reshape(count, 2)
    cardinalities = heads[:, 1].astype(np.int64) + 1
    offsets = None
    if cookie == _COOKIE_WITHOUT_RUNS or count >= _OFFSETS_FROM:
        offsets = np.frombuffer(cursor.skip(4 * count, "offsets"), "<u4")
    sizes = np.where(cardinalities <= _MAX_ARRAY, 2 * cardinalities, _BITSET_BYTES)
    _size_runs(cursor, sizes, np.flatnonzero(is_run))
    starts = cursor.position - start + np.cumsum(sizes) - sizes
    if offsets is not None and not np.array_equal(offsets, starts):
        raise cursor.error("its container offsets do not match the positions of its containers", start)
    cursor.skip(int(sizes.sum()), "containers")
    return int(cardinalities.sum())


def _size_runs(cursor: _Cursor, sizes: npt.NDArray[np.int64], runs: npt.NDArray[np.int64]) -> None:
    """Fill in the sizes of run containers, which only the containers themselves give."""
    position, previous = cursor.position, 0
    for index in runs.tolist():
        position += int(sizes[previous:index].sum())
        head = cursor.data[position : position + 2]
        if len(head) < 2:
            raise cursor.error("ends within its containers", len(cursor.data))
        size = 2 + 4 * int.from_bytes(head, "little")
        sizes[index] = size
        position, previous = position + size, index + 1


# Encoding -----------------------------------------------------------------------------------------------------------


def roaring64_from_positions(positions: npt.NDArray[Any]) -> bytes:
    """Encode positions as a 64-bit bitmap, with runs where these are shorter.

    Args:
        positions: Integers, ascending; none negative.

    Returns:
        The portable bytes.

    Raises:
        SchemaError: The positions are not ascending, or negative.
    """
    ascending = _checked(positions, 1 << 63)
    high = ascending >> 32
    keys, starts = np.unique(high, return_index=True)
    parts = [_U64.pack(len(keys))]
    for key, low in zip(keys.tolist(), np.split(ascending, starts)[1:], strict=True):
        parts += [_U32.pack(key), _encode_32(low)]
    return b"".join(parts)


def roaring32_from_positions(positions: npt.NDArray[Any]) -> bytes:
    """Encode positions below 2^32 as a 32-bit bitmap; see `roaring64_from_positions`."""
    return _encode_32(_checked(positions, 1 << 32))


def _checked(positions: npt.NDArray[Any], end: int) -> _Positions:
    ascending = np.asarray(positions, np.int64)
    if len(ascending) and not (ascending[0] >= 0 and int(ascending[-1]) < end and (np.diff(ascending) >= 0).all()):
        raise SchemaError(f"positions of a bitmap must ascend and be between 0 and {end - 1}")
    return ascending


def _encode_32(positions: _Positions) -> bytes:
    words = array.array("I")
    words.frombytes((positions & 0xFFFFFFFF).astype(np.uint32).tobytes())
    bitmap = BitMap(words)
    bitmap.run_optimize()
    return bytes(bitmap.serialize())
