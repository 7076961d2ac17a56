"""Numbers to streams, as a plan says.

Every function returns a whole stream: the code, the header, the data. Positions of nested streams that hold packed
bits are multiples of eight, as the reference implementation's reader needs them.

Spec: docs/formats/amudai-encodings.md § 4.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.alp import cut_floats, find_decimals, to_decimals
from skerry.amudai.encodings.codes import Encoding, Profile
from skerry.amudai.encodings.dictionaries import number_values
from skerry.amudai.encodings.packing import as_bytes, pack_bits
from skerry.amudai.encodings.plans import Plan
from skerry.compression import compress_lz4_block, compress_zstd

__all__ = ["BIT_PACKED", "FRAMED", "LZ4_LEVELS", "PLAIN", "ZSTD_LEVELS", "encode_numeric"]

_Values = npt.NDArray[Any]

PLAIN: Final = Plan(Encoding.PLAIN)
BIT_PACKED: Final = Plan(Encoding.BIT_PACKING)
FRAMED: Final = Plan(Encoding.FUSED_FRAME_OF_REFERENCE)
_RUNS: Final = Plan(Encoding.RUN_LENGTH, (None, BIT_PACKED))

ZSTD_LEVELS: Final = {Profile.PLAIN: 1, Profile.FAST: 1, Profile.BALANCED: 1, Profile.HIGH: 6, Profile.SMALL: 9}
LZ4_LEVELS: Final = {Profile.PLAIN: 0, Profile.FAST: 0, Profile.BALANCED: 0, Profile.HIGH: 4, Profile.SMALL: 9}

_MAX_EXCEPTIONS: Final = (1 << 16) - 1
_MAX_LEFTS: Final = 8


def encode_numeric(values: _Values, plan: Plan | None, profile: Profile = Profile.BALANCED) -> bytes:
    """Encode numbers as a stream.

    Args:
        values: T[n], of one of the ten types of streams, little-endian; none is null.
        plan: How; None for values as they are.
        profile: How hard the codecs try.

    Returns:
        The stream.

    Spec: docs/formats/amudai-encodings.md § 4.
    """
    if plan is None or not len(values):
        return _plain(values, PLAIN, profile)
    return _ENCODERS[plan.encoding](values, plan, profile)


def _stream(encoding: Encoding, header_bytes: int, header: bytes, *data: bytes) -> bytes:
    """Put code and header before the data; both together have `header_bytes` bytes."""
    return b"".join((struct.pack("<H", encoding) + header.ljust(header_bytes - 2, b"\0"), *data))


def _part(values: _Values, plan: Plan | None, profile: Profile) -> tuple[int, bytes]:
    """A part: a flag that tells whether it is a stream, and its bytes."""
    if plan is not None:
        stream = encode_numeric(values, plan, profile)
        if len(stream) < values.nbytes:  # of few values, those of bit packing fill up a chunk
            return 1, stream
    return 0, values.tobytes()


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _words(values: _Values) -> _Values:
    """The same bits as unsigned integers."""
    return np.ascontiguousarray(values).view(f"<u{values.itemsize}")


def _is_constant(values: _Values) -> bool:
    words = _words(values)
    return bool((words == words[0]).all())


def _plain(values: _Values, plan: Plan, profile: Profile) -> bytes:
    return struct.pack("<H", Encoding.PLAIN) + values.tobytes()


def _single_value(values: _Values, plan: Plan, profile: Profile) -> bytes:
    if not _is_constant(values):
        return _run_length(values, _RUNS, profile)
    return struct.pack("<H", Encoding.SINGLE_VALUE) + values[:1].tobytes()


def _bit_packing(values: _Values, plan: Plan, profile: Profile) -> bytes:
    if values.dtype.kind != "u":
        return _fused_frame_of_reference(values, plan, profile)
    width = int(values.max()).bit_length()
    if width == 0:
        return _single_value(values, plan, profile)
    return _stream(Encoding.BIT_PACKING, 8, bytes((width,)), pack_bits(values, width))


def _reference(values: _Values) -> tuple[int, int]:
    """The least value, and the bits of the largest distance from it."""
    low, high = int(values.min()), int(values.max())
    return low, (high - low).bit_length()


def _frame_of_reference(values: _Values, plan: Plan, profile: Profile) -> bytes:
    if values.dtype.kind == "f":
        return _plain(values, plan, profile)
    low, _ = _reference(values)
    distances = _words(values) - np.array(low, values.dtype).view(f"<u{values.itemsize}")
    header = np.array(low, values.dtype).tobytes()
    nested = encode_numeric(distances, plan.part(0) or BIT_PACKED, profile)
    return _stream(Encoding.FRAME_OF_REFERENCE, _short_or_long(values), header, nested)


def _fused_frame_of_reference(values: _Values, plan: Plan, profile: Profile) -> bytes:
    if values.dtype.kind == "f":
        return _plain(values, plan, profile)
    low, width = _reference(values)
    if width == 0:
        return _single_value(values, plan, profile)
    header = np.array(low, values.dtype).tobytes() + bytes((width,))
    packed = pack_bits(values, width, low)
    return _stream(Encoding.FUSED_FRAME_OF_REFERENCE, _short_or_long(values), header, packed)


def _short_or_long(values: _Values) -> int:
    """Bytes of code and header of a stream whose header holds a value."""
    return 16 if values.itemsize == 8 else 8


def _delta(values: _Values, plan: Plan, profile: Profile) -> bytes:
    if values.dtype.kind == "f" or len(values) < 8:
        return _plain(values, plan, profile)
    words = _words(values)
    differences = (words[1:] - words[:-1]).view(values.dtype)
    nested = encode_numeric(differences, plan.part(0) or FRAMED, profile)
    return _stream(Encoding.DELTA, _short_or_long(values), values[:1].tobytes(), nested)


def _run_length(values: _Values, plan: Plan, profile: Profile) -> bytes:
    words = _words(values)
    starts = np.flatnonzero(np.concatenate(([True], words[1:] != words[:-1])))
    lengths = np.diff(np.append(starts, len(values))).astype("<u4")
    values_flag, runs = _part(values[starts], plan.part(0), profile)
    lengths_flag, counts = _part(lengths, plan.part(1), profile)
    header = struct.pack("<IIBB", len(runs), len(lengths), values_flag, lengths_flag)
    return _stream(Encoding.RUN_LENGTH, 16, header, _pad(runs), counts)


def _truncate(values: _Values, plan: Plan, profile: Profile) -> bytes:
    size = 1 << (plan.encoding - Encoding.TRUNCATE_8)
    if values.dtype.kind != "i" or values.itemsize < max(size, 2):
        return _bit_packing(values, BIT_PACKED, profile)
    low, high = int(values.min()), int(values.max())
    while not -(1 << 8 * size - 1) <= low <= high < 1 << 8 * size - 1:
        size *= 2
    encoding = Encoding(Encoding.TRUNCATE_8 + size.bit_length() - 1)
    flag, nested = _part(values.astype(f"<i{size}").view(f"<u{size}"), plan.part(0), profile)
    return _stream(encoding, 8, bytes((flag,)), nested)


def _zig_zag(values: _Values, plan: Plan, profile: Profile) -> bytes:
    if values.dtype.kind != "i":
        return _bit_packing(values, BIT_PACKED, profile)
    bits = 8 * values.itemsize
    words = (_words(values) << np.uint8(1)) ^ (values >> np.int8(bits - 1)).view(f"<u{values.itemsize}")
    flag, nested = _part(words, plan.part(0), profile)
    return _stream(Encoding.ZIG_ZAG, 8, bytes((flag,)), nested)


def _alp(values: _Values, plan: Plan, profile: Profile) -> bytes:
    if values.dtype.kind != "f":
        return _fused_frame_of_reference(values, plan, profile)
    found = to_decimals(values, *(plan.decimals or find_decimals(values)))
    if len(found.exceptions) > min(_MAX_EXCEPTIONS, len(values) // 2):
        return _alp_rd(values, plan, profile)
    numbers = encode_numeric(found.numbers, plan.part(0) or FRAMED, profile)
    header = struct.pack("<IHBB", len(numbers), len(found.exceptions), found.exponent, found.factor)
    exceptions = found.exceptions.astype("<u4").tobytes() + values[found.exceptions].tobytes()
    return _stream(Encoding.ALP, 16, header, numbers, exceptions)


def _alp_rd(values: _Values, plan: Plan, profile: Profile) -> bytes:
    if values.dtype.kind != "f":
        return _fused_frame_of_reference(values, plan, profile)
    found = cut_floats(values)
    if len(found.exceptions) > _MAX_EXCEPTIONS:
        return _plain(values, plan, profile)
    code_bits = max(1, int(found.codes.max()).bit_length())  # at least 1: what comes next must stay aligned
    left = _stream(Encoding.BIT_PACKING, 8, bytes((code_bits,)), pack_bits(found.codes, code_bits))
    right_bits = max(1, int(found.rights.max()).bit_length())
    right = _stream(Encoding.BIT_PACKING, 8, bytes((right_bits,)), pack_bits(found.rights, right_bits))
    entries = len(found.dictionary)
    header = struct.pack("<IIHBB", len(left), len(right), len(found.exceptions), found.width, entries)
    exceptions = found.exceptions.astype("<u4").tobytes() + found.lefts.astype("<u2").tobytes()
    dictionary = found.dictionary.astype("<u2").tobytes()
    return _stream(Encoding.ALP_RD, 16, header, dictionary, left, right, exceptions)


def _block_dictionary(values: _Values, plan: Plan, profile: Profile) -> bytes:
    numbered = number_values(values, len(values))
    assert numbered is not None
    numbers, firsts = numbered
    entries = values[firsts]
    codes = encode_numeric(numbers + np.uint32(1), plan.part(0) or BIT_PACKED, profile)
    part = plan.part(1) if len(codes) % 8 == 0 else None  # packed bits would not be aligned
    flag, distinct = _part(entries, part, profile)
    header = struct.pack("<IIB", len(codes), len(entries), flag)
    return _stream(Encoding.BLOCK_DICTIONARY, 16, header, codes, distinct)


def _zstd(values: _Values, plan: Plan, profile: Profile) -> bytes:
    frame = compress_zstd(as_bytes(values).data, level=ZSTD_LEVELS[profile], content_size=False)
    return _stream(Encoding.ZSTD, 8, b"", frame)


def _lz4(values: _Values, plan: Plan, profile: Profile) -> bytes:
    data = as_bytes(values)
    block = compress_lz4_block(data.data, level=LZ4_LEVELS[profile])
    return _stream(Encoding.LZ4, 8, b"", struct.pack("<I", len(data)), block)


def _sparse(values: _Values, plan: Plan, profile: Profile) -> bytes:
    positions = np.flatnonzero(_words(values)).astype("<u4")
    if not len(positions):
        return _stream(Encoding.SPARSE, 16, struct.pack("<IIBB", 0, 0, 0, 0))
    positions_flag, places = _part(positions, plan.part(0), profile)
    values_flag, others = _part(values[positions], plan.part(1), profile)
    header = struct.pack("<IIBB", len(positions), len(places), positions_flag, values_flag)
    return _stream(Encoding.SPARSE, 16, header, _pad(places), others)


_ENCODERS: Final[dict[Encoding, Callable[[_Values, Plan, Profile], bytes]]] = {
    Encoding.PLAIN: _plain,
    Encoding.BIT_PACKING: _bit_packing,
    Encoding.FRAME_OF_REFERENCE: _frame_of_reference,
    Encoding.FUSED_FRAME_OF_REFERENCE: _fused_frame_of_reference,
    Encoding.DELTA: _delta,
    Encoding.RUN_LENGTH: _run_length,
    Encoding.SINGLE_VALUE: _single_value,
    Encoding.TRUNCATE_8: _truncate,
    Encoding.TRUNCATE_16: _truncate,
    Encoding.TRUNCATE_32: _truncate,
    Encoding.TRUNCATE_64: _truncate,
    Encoding.ALP: _alp,
    Encoding.ALP_RD: _alp_rd,
    Encoding.BLOCK_DICTIONARY: _block_dictionary,
    Encoding.ZSTD: _zstd,
    Encoding.LZ4: _lz4,
    Encoding.ZIG_ZAG: _zig_zag,
    Encoding.SPARSE: _sparse,
}
