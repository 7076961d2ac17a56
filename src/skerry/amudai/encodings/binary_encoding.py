"""Strings of bytes to the values sections of binary blocks, as a plan says.

Spec: docs/formats/amudai-encodings.md § 5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.codes import Encoding, Profile
from skerry.amudai.encodings.dictionaries import number_spans
from skerry.amudai.encodings.fsst import SymbolTable, encode_fsst, train_fsst
from skerry.amudai.encodings.numeric_encoding import BIT_PACKED, FRAMED, LZ4_LEVELS, ZSTD_LEVELS, encode_numeric
from skerry.amudai.encodings.plans import Plan
from skerry.compression import compress_lz4_block, compress_zstd

__all__ = ["OFFSETS", "Strings", "encode_binary"]

OFFSETS: Final = Plan(Encoding.DELTA, (FRAMED,))
"""How offsets are stored if a plan does not say."""
_MAX_UNCOMPRESSED: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Strings:
    """The values of one block.

    Args:
        offsets: int64[n + 1], from 0 to m, also where all values have one size.
        data: uint8[m]; a null has no bytes, or any if all values have one size.
        valid: bool[n], None if no value is null.
        fixed_size: Bytes of each value, None if they differ.
    """

    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    valid: npt.NDArray[np.bool_] | None
    fixed_size: int | None

    @property
    def count(self) -> int:
        """How many values there are."""
        return len(self.offsets) - 1


def encode_binary(
    strings: Strings, plan: Plan, profile: Profile = Profile.BALANCED, symbols: SymbolTable | None = None
) -> bytes:
    """Encode strings of bytes as a values section.

    Args:
        strings: The values.
        plan: How.
        profile: How hard the codecs try.
        symbols: For FSST; trained on these values if missing.

    Returns:
        The section.
    """
    if plan.encoding == Encoding.FSST:
        return _fsst(strings, plan, profile, symbols)
    return _ENCODERS[plan.encoding](strings, plan, profile)


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _offsets(strings: Strings, plan: Plan, profile: Profile) -> tuple[int, int, bytes]:
    """Offsets as they end a section: whether they are a stream, bytes of one, and all of them."""
    if strings.fixed_size is not None:
        return 0, 0, b""
    offsets = strings.offsets.astype("<u8")
    if plan.parts and plan.part(0) is None:
        return 0, 8, offsets.tobytes()
    return 1, 8, encode_numeric(offsets, plan.part(0) or OFFSETS, profile)


def _plain(strings: Strings, plan: Plan, profile: Profile) -> bytes:
    if strings.fixed_size is not None:
        return struct.pack("<HB", Encoding.PLAIN, 0) + strings.data.tobytes()
    head = struct.pack("<HB", Encoding.PLAIN, 8)
    return b"".join((head, strings.offsets.astype("<u8").tobytes(), strings.data.tobytes()))


def _single_value(strings: Strings, plan: Plan, profile: Profile) -> bytes:
    numbers = _distinct_of_valid(strings, 1)
    if numbers is None:
        return _block_dictionary(strings, Plan(Encoding.BLOCK_DICTIONARY, (BIT_PACKED,)), profile)
    first = int(numbers)
    value = strings.data[strings.offsets[first] : strings.offsets[first + 1]]
    return struct.pack("<H", Encoding.SINGLE_VALUE) + value.tobytes()


def _distinct_of_valid(strings: Strings, limit: int) -> int | None:
    """The first valid value if all valid ones are equal."""
    places = np.arange(strings.count) if strings.valid is None else np.flatnonzero(strings.valid)
    if not len(places):
        return 0
    sizes = np.diff(strings.offsets)[places]
    if (sizes != sizes[0]).any():
        return None
    starts = strings.offsets[places]
    first = strings.data[starts[0] : starts[0] + sizes[0]]
    rows = starts[:, None] + np.arange(sizes[0])
    return int(places[0]) if bool((strings.data[rows] == first).all()) else None


def _block_dictionary(strings: Strings, plan: Plan, profile: Profile) -> bytes:
    numbered = number_spans(strings.data, strings.offsets, strings.count)
    assert numbered is not None
    numbers, firsts = numbered
    codes = numbers + np.uint32(1)
    if strings.valid is not None:
        codes[~strings.valid] = 0
    starts, ends = strings.offsets[firsts], strings.offsets[firsts + 1]
    entries = b"".join(
        strings.data[start:end].tobytes() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    packed = encode_numeric(codes, plan.part(0) or BIT_PACKED, profile)
    flag, lengths = 0, b""
    if strings.fixed_size is None:
        sizes = (ends - starts).astype("<u4")
        part = plan.part(1)
        flag, lengths = (0, sizes.tobytes()) if part is None else (1, encode_numeric(sizes, part, profile))
    header = struct.pack("<HIIIBx", Encoding.BLOCK_DICTIONARY, len(packed), len(lengths), len(firsts), flag)
    return b"".join((header, _pad(packed), lengths, entries))


def _fsst(strings: Strings, plan: Plan, profile: Profile, symbols: SymbolTable | None) -> bytes:
    table = train_fsst(strings.data) if symbols is None else symbols
    codes = encode_fsst(strings.data, table)
    flag, width, offsets = _offsets(strings, plan, profile)
    header = struct.pack("<HBIBB7x", Encoding.FSST, len(table.symbols), len(codes), flag, width)
    body = b"".join((table.symbols.astype("<u8").tobytes(), table.lengths.tobytes(), codes))
    return b"".join((header, _pad(body), offsets))


def _zstd(strings: Strings, plan: Plan, profile: Profile) -> bytes:
    frame = compress_zstd(strings.data.data, level=ZSTD_LEVELS[profile], content_size=False)
    return _packed(strings, plan, profile, frame)


def _lz4(strings: Strings, plan: Plan, profile: Profile) -> bytes:
    block = compress_lz4_block(strings.data.data, level=LZ4_LEVELS[profile])
    return _packed(strings, plan, profile, struct.pack("<I", len(strings.data)) + block)


def _packed(strings: Strings, plan: Plan, profile: Profile, content: bytes) -> bytes:
    flag, width, offsets = _offsets(strings, plan, profile)
    header = struct.pack("<HIBB", plan.encoding, len(content), width, flag)
    return b"".join((header, _pad(content), offsets))


_ENCODERS: Final[dict[Encoding, Callable[[Strings, Plan, Profile], bytes]]] = {
    Encoding.PLAIN: _plain,
    Encoding.SINGLE_VALUE: _single_value,
    Encoding.BLOCK_DICTIONARY: _block_dictionary,
    Encoding.ZSTD: _zstd,
    Encoding.LZ4: _lz4,
}
