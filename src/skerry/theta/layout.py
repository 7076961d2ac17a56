"""The bytes of compact theta sketches: reads every form that Apache DataSketches writes, and writes two.

A compact sketch is a threshold θ and all distinct hashes below it that were seen. Version 3 is the form of today:

| bytes | field |
| --- | --- |
| 0 | preamble length in 8-byte words (1 empty or single item, 2 exact, 3 estimating), lower 6 bits |
| 1 | serial version |
| 2 | family, 3 = COMPACT |
| 5 | flags |
| 6–7 | hash of the seed, 0 when empty |
| 8–11 | number of hashes (not in preambles of one word) |
| 12–15 | sampling probability, always 1.0 and not read |
| 16–23 | θ (only in preambles of three words; else 2⁶³-1) |
| rest | the hashes, 8 bytes each |

Versions 1 and 2 are older and always ordered. Version 4 (`toByteArrayCompressed`) packs the differences of ordered
hashes into as many bits as the largest needs, highest bit first. All numbers are little-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntFlag
from typing import Any, NoReturn, TypeAlias

import numpy as np

from skerry.errors import FormatError, UnsupportedError
from skerry.theta.hashing import DEFAULT_SEED, seed_hash

__all__ = ["MAX_THETA", "CompactSketch", "Hashes", "decode_sketch", "encode_compressed_sketch", "encode_sketch"]

Hashes: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]

MAX_THETA = (1 << 63) - 1  # θ = 1: nothing was left out
_FAMILY_COMPACT = 3
_FAMILIES = {1: "ALPHA", 2: "QUICKSELECT", 4: "UNION", 5: "INTERSECTION", 6: "A_NOT_B"}
_RULE = "DataSketches Java, `PreambleUtil`"
_EMPTY = bytes([1, 3, 3, 0, 0, 0x1E, 0, 0])


class _Flag(IntFlag):
    BIG_ENDIAN = 1
    READ_ONLY = 2
    EMPTY = 4
    COMPACT = 8
    ORDERED = 16
    SINGLE_ITEM = 32


@dataclass(frozen=True, slots=True, eq=False)
class CompactSketch:
    """What a compact sketch says.

    Args:
        theta: The threshold θ, 1 … 2⁶³-1, as a fraction of 2⁶³-1.
        hashes: uint64[n], ascending, distinct: all hashes below the threshold that were seen.
        is_empty: Whether nothing was ever seen. An intersection may have no hashes and yet not be empty.
    """

    theta: int
    hashes: Hashes
    is_empty: bool

    @property
    def is_estimating(self) -> bool:
        """Whether hashes were left out."""
        return self.theta < MAX_THETA


EMPTY_SKETCH = CompactSketch(MAX_THETA, np.empty(0, np.uint64), True)


def encode_sketch(sketch: CompactSketch, seed: int = DEFAULT_SEED) -> bytes:
    """Serialise as Java's `CompactSketch.toByteArray` does for an ordered sketch, byte for byte.

    Args:
        sketch: The sketch.
        seed: The seed of its hashes.

    Returns:
        Version 3 in the shortest preamble that holds it.

    Spec: DataSketches Java, `PreambleUtil`.
    """
    count, estimating = len(sketch.hashes), sketch.is_estimating
    if count == 0 and not estimating:
        return _EMPTY
    flags = _Flag.READ_ONLY | _Flag.COMPACT | _Flag.ORDERED
    words = 3 if estimating else 2 if count > 1 else 1
    if words == 1:
        flags |= _Flag.SINGLE_ITEM
    preamble = struct.pack("<BBBxxBH", words, 3, _FAMILY_COMPACT, flags, seed_hash(seed))
    if words > 1:
        preamble += struct.pack("<If", count, 1.0)
    if words > 2:
        preamble += struct.pack("<Q", sketch.theta)
    return preamble + sketch.hashes.astype("<u8", copy=False).tobytes()


def encode_compressed_sketch(sketch: CompactSketch, seed: int = DEFAULT_SEED) -> bytes:
    """Serialise as Java's `CompactSketch.toByteArrayCompressed` does, byte for byte.

    Args:
        sketch: The sketch.
        seed: The seed of its hashes.

    Returns:
        Version 4, or version 3 for an empty sketch and a single item.

    Spec: DataSketches Java, `CompactSketch.toByteArrayV4`.
    """
    count, estimating = len(sketch.hashes), sketch.is_estimating
    if count == 0 or (count == 1 and not estimating):
        return encode_sketch(sketch, seed)
    deltas = np.diff(sketch.hashes, prepend=np.uint64(0))
    bits = int(np.bitwise_or.reduce(deltas)).bit_length()
    flags = _Flag.READ_ONLY | _Flag.COMPACT | _Flag.ORDERED
    count_bytes = (count.bit_length() + 7) // 8
    head = struct.pack("<BBBBBBH", 1 + estimating, 4, _FAMILY_COMPACT, bits, count_bytes, flags, seed_hash(seed))
    if estimating:
        head += struct.pack("<Q", sketch.theta)
    planes = np.unpackbits(deltas.astype(">u8").view(np.uint8).reshape(count, 8), axis=1)
    return head + count.to_bytes(count_bytes, "little") + np.packbits(planes[:, 64 - bits :]).tobytes()


def decode_sketch(data: bytes | bytearray | memoryview, seed: int = DEFAULT_SEED) -> CompactSketch:
    """Read a compact sketch of any serial version.

    Args:
        data: Exactly one sketch.
        seed: The seed that its hashes must have been made with.

    Returns:
        The sketch; memory is bounded by 64 times the data (version 4 with differences of one bit).

    Raises:
        FormatError: The bytes are not a sketch of that seed: truncated, too long, or breaking a rule of their form.
        UnsupportedError: A sketch in update form, of another family, of an unknown version, or big-endian.

    Spec: DataSketches Java, `PreambleUtil`, `ForwardCompatibility` (versions 1 and 2), `CompactSketch.heapifyV4`.
    """
    raw = np.frombuffer(data, np.uint8)
    if len(raw) < 8:
        _refuse(f"a theta sketch has at least 8 bytes, this has {len(raw)}", 0)
    version, family = int(raw[1]), int(raw[2])
    if version not in _DECODERS:
        raise UnsupportedError(f"serial version {version} of theta sketches is not known", offset=1, rule=_RULE)
    if family != _FAMILY_COMPACT:
        if family in _FAMILIES:
            raise UnsupportedError(
                f"a sketch of the family {_FAMILIES[family]} is not a compact theta sketch", offset=2, rule=_RULE
            )
        _refuse(f"a compact theta sketch has family 3, this has {family}", 2)
    return _DECODERS[version](raw, seed)


def _decode_version_1(raw: Any, seed: int) -> CompactSketch:
    if (words := _preamble_words(raw)) != 3:
        _refuse(f"version 1 has a preamble of 3 words, this says {words}", 0)
    return _decode_words(raw, words, ordered=True)


def _decode_version_2(raw: Any, seed: int) -> CompactSketch:
    words = _preamble_words(raw)
    _check_seed(raw, seed)
    if words == 1:
        _check_size(raw, 8)
        return EMPTY_SKETCH
    return _decode_words(raw, words, ordered=True)


def _decode_version_3(raw: Any, seed: int) -> CompactSketch:
    words, flags = _preamble_words(raw), _flags(raw)
    if not flags & _Flag.READ_ONLY:
        _refuse("a compact sketch has the read-only flag set, this has not", 5)
    if flags & _Flag.EMPTY:
        if flags & _Flag.SINGLE_ITEM or (words > 1 and _count(raw)):
            _refuse("an empty sketch has no hashes, this says it has", 5)
        _check_size(raw, 8 * words)
        return EMPTY_SKETCH
    if words == 1:
        if len(raw) == 8:  # old writers did not set the flag for empty
            return EMPTY_SKETCH
        _check_size(raw, 16)
        _check_seed(raw, seed)
        return CompactSketch(MAX_THETA, _checked_hashes(raw[8:].view("<u8"), MAX_THETA, 8, ordered=True), False)
    if flags & _Flag.SINGLE_ITEM:
        _refuse(f"a single item has a preamble of 1 word, this says {words}", 0)
    _check_seed(raw, seed)
    return _decode_words(raw, words, ordered=bool(flags & _Flag.ORDERED))


def _decode_version_4(raw: Any, seed: int) -> CompactSketch:
    words, flags = _preamble_words(raw), _flags(raw)
    if words == 3 or flags & (_Flag.EMPTY | _Flag.SINGLE_ITEM) or not flags & _Flag.ORDERED:
        _refuse(f"version 4 holds ordered hashes after 1 or 2 words, this says {words} words and flags {flags:#x}", 0)
    _check_seed(raw, seed)
    theta = _theta(raw, 8) if words == 2 else MAX_THETA
    bits, count_bytes, start = int(raw[3]), int(raw[4]), 8 * words
    if not 1 <= bits <= 63:
        _refuse(f"differences of hashes have 1 to 63 bits, this says {bits}", 3)
    if not 1 <= count_bytes <= 4 or start + count_bytes > len(raw):
        _refuse(f"the number of hashes has 1 to 4 bytes, this says {count_bytes} of {len(raw) - start} left", 4)
    count = int.from_bytes(raw[start : start + count_bytes].tobytes(), "little")
    start += count_bytes
    if count == 0:
        _refuse("version 4 holds at least one hash, this has none", start - count_bytes)
    _check_size(raw, start + (count * bits + 7) // 8)
    hashes = np.cumsum(_unpack(raw[start:], count, bits), dtype=np.uint64)
    return CompactSketch(theta, _checked_hashes(hashes, theta, start, ordered=True, bits=bits), False)


_DECODERS = {1: _decode_version_1, 2: _decode_version_2, 3: _decode_version_3, 4: _decode_version_4}


def _decode_words(raw: Any, words: int, *, ordered: bool) -> CompactSketch:
    """A preamble of two or three words, then the hashes."""
    count, start = _count(raw), 8 * words
    theta = _theta(raw, 16) if words == 3 else MAX_THETA
    _check_size(raw, start + 8 * count)
    if count == 0 and theta == MAX_THETA:
        return EMPTY_SKETCH
    return CompactSketch(theta, _checked_hashes(raw[start:].view("<u8"), theta, start, ordered=ordered), False)


def _preamble_words(raw: Any) -> int:
    words = int(raw[0]) & 0x3F
    if not 1 <= words <= 3:
        _refuse(f"a compact sketch has a preamble of 1 to 3 words, this says {words}", 0)
    if len(raw) < 8 * words:
        _refuse(f"the preamble has {8 * words} bytes, {len(raw)} are there", 0)
    return words


def _flags(raw: Any) -> _Flag:
    flags = int(raw[5])
    if flags & _Flag.BIG_ENDIAN:
        raise UnsupportedError("big-endian theta sketches are not read", offset=5, rule=_RULE)
    if flags & 0xC0:
        _refuse(f"flag bits 6 and 7 are reserved, the flags are {flags:#x}", 5)
    if not flags & _Flag.COMPACT:
        _refuse("a sketch of the family COMPACT has the compact flag set, this has not", 5)
    return _Flag(flags)


def _count(raw: Any) -> int:
    return int(raw[8:12].view("<u4")[0])


def _theta(raw: Any, offset: int) -> int:
    theta = int(raw[offset : offset + 8].view("<u8")[0])
    if not 1 <= theta <= MAX_THETA:
        _refuse(f"θ is in 1 … 2⁶³-1, this is {theta:#x}", offset)
    return theta


def _check_seed(raw: Any, seed: int) -> None:
    expected, found = seed_hash(seed), int(raw[6:8].view("<u2")[0])
    if found != expected:
        _refuse(f"the seed {seed} has the hash {expected:#06x}, the sketch was made with another: {found:#06x}", 6)


def _check_size(raw: Any, size_bytes: int) -> None:
    if len(raw) != size_bytes:
        _refuse(f"by its preamble the sketch has {size_bytes} bytes, {len(raw)} are there", min(len(raw), size_bytes))


def _unpack(packed: Any, count: int, bits: int) -> Hashes:
    """`count` numbers of `bits` bits, highest bit first.

    Each is cut from the nine bytes that its first bit starts in: one more than 63 bits can touch.
    """
    padded = np.concatenate([packed, np.zeros(9, np.uint8)])
    first_bit = np.arange(count, dtype=np.int64) * bits
    first_byte = first_bit >> 3
    shift = (first_bit & 7).astype(np.uint64)
    window = np.zeros(count, np.uint64)
    for i in range(8):
        window = window << np.uint64(8) | padded[first_byte + i]
    ninth = padded[first_byte + 8].astype(np.uint64)
    window = window << shift | ninth >> (np.uint64(8) - shift)
    return window >> np.uint64(64 - bits)


def _checked_hashes(hashes: Hashes, theta: int, start: int, *, ordered: bool, bits: int = 64) -> Hashes:
    """The hashes, ascending, in memory of their own; the data has them from `start` on, in `bits` bits each."""
    hashes = hashes.astype(np.uint64)
    wrong = (hashes == 0) | (hashes >= np.uint64(theta))
    if wrong.any():
        i = int(wrong.argmax())
        _refuse(f"a hash is above 0 and below θ = {theta:#x}, number {i} is {int(hashes[i]):#x}", start + i * bits // 8)
    if not ordered:
        hashes.sort()
    falling = hashes[1:] <= hashes[:-1]
    if falling.any():
        i = int(falling.argmax()) + 1
        order = "ascending and distinct" if ordered else "distinct"
        _refuse(f"hashes are {order}, number {i} is {int(hashes[i]):#x}", start + i * bits // 8 if ordered else start)
    return hashes


def _refuse(message: str, offset: int) -> NoReturn:
    raise FormatError(message, offset=offset, rule=_RULE)
