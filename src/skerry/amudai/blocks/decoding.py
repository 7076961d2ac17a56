"""Encoded blocks to values: checksums, room for the results, and what the machine requests.

Spec: docs/formats/amudai-encodings.md § 3, § 4, § 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from skerry.amudai.blocks.block_map import Blocks
from skerry.amudai.blocks.machine import run_blocks
from skerry.amudai.encodings import stack
from skerry.amudai.encodings.byte_values import SLACK
from skerry.amudai.encodings.codes import DTYPES, kind_of
from skerry.amudai.shard.checksum import CHECKSUM_BYTES, checksum
from skerry.compression import decompress_lz4_block, decompress_zstd_into
from skerry.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "ByteValues",
    "Numbers",
    "check_frames",
    "decode_binary",
    "decode_byte_values",
    "decode_numbers",
    "decode_numeric",
]

_Bitmap = npt.NDArray[np.uint8]

_CHUNK_BYTES: Final = 8 * 1024
_MAX_EXPANSION: Final = 64
"""Room is reserved in advance for at most this many times the encoded bytes."""
_EMPTY: Final = np.zeros(0, np.uint8)
_MAX_OFFSET_32: Final = (1 << 31) - 1
_RULE: Final = "docs/formats/amudai-encodings.md § 3, § 4, § 5"
_FAULTS: Final = {
    stack.CUT_SHORT: "cut short: {expected} bytes needed, {found} there",
    stack.WRONG_SIZE: "{found} bytes, expected {expected}",
    stack.UNKNOWN_CODE: "no encoding has code {found}",
    stack.CODE_NOT_FOR_TYPE: "encoding {found} does not go with the type of its values",
    stack.BAD_WIDTH: "values of {found} bits, expected 1 to {expected}",
    stack.TOO_DEEP: "streams nested too deeply",
    stack.TOO_MANY: "{found} parts, expected at most {expected}",
    stack.RUNS_DIFFER: "runs of {found} values, expected {expected}",
    stack.OUT_OF_DICTIONARY: "code {found} in a dictionary of {expected}",
    stack.BAD_POSITION: "position {found} among {expected} values",
    stack.BAD_EXPONENT: "exponent {found} and factor {expected} of decimals",
    stack.BAD_PRESENCE: "presence section holds {found}, expected {expected}",
    stack.BAD_OFFSETS: "offsets do not ascend from 0",
    stack.BAD_OFFSET_WIDTH: "offsets of {found} bytes, expected {expected}",
    stack.BAD_SYMBOL: "symbol of {found} bytes, expected 1 to {expected}",
    stack.BAD_FLAG: "flag of {found}, expected 0 or 1",
}


@dataclass(frozen=True, slots=True)
class Numbers:
    """Decoded numbers.

    Args:
        values: T[n]; at nulls anything.
        validity: uint8[⌈n / 8⌉] Arrow's bitmap, None if no value is null.
        null_count: How many are null.
    """

    values: npt.NDArray[Any]
    validity: _Bitmap | None
    null_count: int


@dataclass(frozen=True, slots=True)
class ByteValues:
    """Decoded strings of bytes.

    Args:
        offsets: int32[n + 1] or int64[n + 1], from 0 on; None if all values have one size.
        data: uint8[m], the values one after the other.
        validity: uint8[⌈n / 8⌉] Arrow's bitmap, None if no value is null.
        null_count: How many are null.
    """

    offsets: npt.NDArray[Any] | None
    data: npt.NDArray[np.uint8]
    validity: _Bitmap | None
    null_count: int


def decode_numbers(blocks: Blocks, dtype: npt.DTypeLike, *, has_presence: bool) -> Numbers:
    """Decode the blocks of a numeric buffer.

    Args:
        blocks: Consecutive or scattered blocks.
        dtype: Type of the values.
        has_presence: Whether the blocks say which values are null.

    Returns:
        All their values, in order.

    Raises:
        FormatError: A checksum does not match, or a block breaks the rules of its encoding.
    """
    kind = kind_of(dtype)
    decoder = _Decoder(blocks, has_presence=has_presence)
    size = decoder.value_count * DTYPES[kind].itemsize
    decoder.run(kind, size)
    values = decoder.memory[:size].view(DTYPES[kind])
    return Numbers(values, *decoder.nulls())


def decode_byte_values(
    blocks: Blocks,
    fixed_size: int | None,
    *,
    offset_dtype: npt.DTypeLike = np.int32,
    max_bytes: int | None = None,
) -> ByteValues:
    """Decode the blocks of a binary buffer.

    Args:
        blocks: Consecutive or scattered blocks.
        fixed_size: Bytes of each value; None if they differ.
        offset_dtype: int32 or int64.
        max_bytes: The most bytes of values that the caller accepts.

    Returns:
        All their values, in order.

    Raises:
        FormatError: A checksum does not match, a block breaks the rules of its encoding, or there are more bytes.
        UnsupportedError: There are more bytes than 32-bit offsets can hold.
    """
    decoder = _Decoder(blocks, has_presence=True)
    dtype = np.dtype(offset_dtype)
    limit = np.iinfo(np.int64).max if max_bytes is None else max_bytes
    if fixed_size is None:
        decoder.make_offsets(dtype.itemsize)
        decoder.run(stack.BYTES, 0, fixed=-1, offset_bytes=dtype.itemsize, max_bytes=limit)
        offsets = decoder.offsets.view(dtype)
    else:
        decoder.run(stack.BYTES, 0, fixed=fixed_size, max_bytes=limit)
        offsets = None
    return ByteValues(offsets, decoder.values[: int(decoder.state[stack.USED])], *decoder.nulls())


def decode_numeric(section: Buffer, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
    """Decode one numeric stream, as it is in a values section or within another stream.

    Args:
        section: The stream and nothing else.
        dtype: Type of its values.
        count: How many there are.

    Returns:
        T[count].

    Raises:
        FormatError: The stream breaks the rules of its encoding.
    """
    return decode_numbers(_as_block(section, count), dtype, has_presence=False).values if count else _empty(dtype)


def decode_binary(
    section: Buffer, count: int, fixed_size: int | None = None
) -> tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.uint8]]:
    """Decode the values section of one binary block in which no value is null.

    Args:
        section: The section and nothing else.
        count: How many values there are.
        fixed_size: Bytes of each; None if they differ.

    Returns:
        int64[count + 1] where each begins, or None for values of one size; and uint8[m].

    Raises:
        FormatError: The section breaks the rules of its encoding.
    """
    found = decode_byte_values(_as_block(section, count), fixed_size, offset_dtype=np.int64)
    return found.offsets, found.data


def _empty(dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.zeros(0, dtype)


def _as_block(section: Buffer, count: int) -> Blocks:
    """Frame a values section as a block without presence and checksum."""
    view = memoryview(section).cast("B")
    framed = bytes(4) + len(view).to_bytes(4, "little") + view.tobytes()
    edges = np.array([0, len(framed)])
    return Blocks(np.frombuffer(framed, np.uint8), edges[:1], edges[1:], np.array([count]), has_checksums=False)


class _Decoder:
    """The arrays that the kernels work on, for one call."""

    def __init__(self, blocks: Blocks, *, has_presence: bool) -> None:
        self.blocks = blocks
        self.rows = np.zeros(len(blocks.counts) + 1, np.int64)
        np.cumsum(blocks.counts, out=self.rows[1:])
        self.value_count = int(self.rows[-1])
        self.has_presence = has_presence
        self.validity = self._room((self.value_count + 7) // 8 if has_presence else 0)
        self.validity.fill(255)
        self.state = np.zeros(stack.REGISTERS, np.int64)
        self.tasks = np.zeros(stack.FIELDS * stack.STACK, np.int64)
        self.memory = self.values = self.offsets = _EMPTY
        self.max_bytes = 0

    def run(self, kind: int, size: int, *, fixed: int = -1, offset_bytes: int = 8, max_bytes: int = 0) -> None:
        """Decode all blocks: numbers of some kind to memory, or bytes (kind BYTES) to values and offsets."""
        blocks, state = self.blocks, self.state
        ends = check_frames(blocks)
        data = np.ascontiguousarray(blocks.data)
        largest = int(blocks.counts.max()) if len(blocks.counts) else 0
        self.memory = self._room(size + _CHUNK_BYTES + 16 * min(largest, 1 << 16))
        self.max_bytes = max_bytes
        state[stack.TAIL], state[stack.TOP] = size, size + _CHUNK_BYTES
        state[stack.FIXED], state[stack.OFFSET_BYTES] = fixed, offset_bytes
        if kind == stack.BYTES:
            largest_block = int((ends - blocks.starts).max()) if len(ends) else 0
            self._grow_values(fixed * self.value_count if fixed >= 0 else 2 * largest_block)
        while status := run_blocks(
            data, blocks.starts, ends, self.rows, kind, int(self.has_presence),
            self.memory, self.values, self.offsets, self.validity, self.tasks, state,
        ):  # fmt: skip
            if status == stack.REFUSED:
                self._fail()
            elif status == stack.WANT_MEMORY:
                room = max(2 * (len(self.memory) - size), int(state[stack.TOP]) - size + int(state[stack.WANTED]))
                self.memory = self._grown(self.memory, size + room)
            elif status == stack.WANT_BYTES:
                self._grow_values(self._estimated_bytes())
            else:
                self._decompress(data, status)

    def make_offsets(self, size: int) -> None:
        """Make room for offsets of some bytes; the first is 0."""
        self.offsets = self._room((self.value_count + 1) * size)
        self.offsets[:size] = 0

    def nulls(self) -> tuple[_Bitmap | None, int]:
        """The bitmap of values that are not null, if some are, and how many are."""
        if not self.has_presence:
            return None, 0
        if self.value_count % 8:
            self.validity[-1] &= (1 << self.value_count % 8) - 1
        null_count = self.value_count - int(np.bitwise_count(self.validity).sum(dtype=np.int64))
        return (self.validity if null_count else None), null_count

    def _room(self, size: int) -> npt.NDArray[np.uint8]:
        """Allocate memory, if there is enough."""
        try:
            return np.empty(size, np.uint8)
        except (MemoryError, ValueError) as error:
            raise UnsupportedError(
                f"{self.value_count} values take {size} bytes, more than there is memory: read fewer at a time",
                location=self.blocks.location,
            ) from error

    def _grown(self, array: npt.NDArray[np.uint8], size: int) -> npt.NDArray[np.uint8]:
        grown = self._room(size)
        grown[: len(array)] = array[:size]
        return grown

    def _estimated_bytes(self) -> int:
        """How many bytes of values there may be in all, if the blocks to come are like those before."""
        wanted, row = int(self.state[stack.WANTED]), int(self.state[stack.ROW])
        by_rows = int(self.state[stack.USED]) * self.value_count // max(row, 1) * 17 // 16
        return max(wanted, min(2 * wanted + by_rows, _MAX_EXPANSION * len(self.blocks.data), self.max_bytes))

    def _grow_values(self, size: int) -> None:
        """Make room for `size` bytes of values, within the limits."""
        wanted = int(self.state[stack.WANTED])
        if wanted > self.max_bytes:
            raise self._error(f"values of {wanted} bytes or more, expected at most {self.max_bytes}", 0)
        if self.state[stack.FIXED] < 0 and self.state[stack.OFFSET_BYTES] == 4 and wanted > _MAX_OFFSET_32:
            raise UnsupportedError(
                f"{wanted} bytes of values at once, more than 32-bit offsets can hold: read fewer rows at a time",
                location=self.blocks.location,
            )
        self.values = self._grown(self.values, size + SLACK)

    def _decompress(self, data: npt.NDArray[np.uint8], status: int) -> None:
        """Decompress what the machine requests."""
        state = self.state
        start, end, place, size = (int(state[i]) for i in (stack.FROM, stack.TO, stack.TARGET, stack.WANTED))
        into = self.values if state[stack.IN_VALUES] else self.memory
        try:
            if status == stack.WANT_ZSTD:
                decompress_zstd_into(data[start:end].data, into[place : place + size].data)
            else:
                into[place : place + size] = np.frombuffer(decompress_lz4_block(data[start:end].data, size=size), "u1")
        except FormatError as error:
            raise self._error(error.message, start) from error

    def _fail(self) -> NoReturn:
        state = self.state
        text = _FAULTS[int(state[stack.FAULT])].format(
            expected=int(state[stack.EXPECTED]), found=int(state[stack.FOUND])
        )
        raise self._error(text, int(state[stack.PLACE]))

    def _error(self, problem: str, place: int) -> FormatError:
        return FormatError(
            f"block {int(self.state[stack.BLOCK])} of an encoded buffer: {problem}",
            location=self.blocks.location,
            offset=self.blocks.offset_of(place),
            rule=_RULE,
        )


def check_frames(blocks: Blocks) -> npt.NDArray[np.int64]:
    """Check the checksum of each block; returns where the blocks end without them."""
    if not blocks.has_checksums:
        return blocks.ends
    view = blocks.data.data
    for i, (start, end) in enumerate(zip(blocks.starts.tolist(), blocks.ends.tolist(), strict=True)):
        last = end - CHECKSUM_BYTES
        if last < start or checksum(view[start:last]) != int.from_bytes(view[last:end], "little"):
            raise FormatError(
                f"block {i} of an encoded buffer: its checksum does not match its bytes",
                location=blocks.location,
                offset=blocks.offset_of(start),
                rule="docs/formats/amudai-encodings.md § 3.2",
            )
    return blocks.ends - CHECKSUM_BYTES
