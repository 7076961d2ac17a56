"""Each encoding decoded once more: slowly, in plain Python, without any kernel or code of the package.

The functions have the names of the modules of `skerry.amudai.encodings`, those of binary blocks with `_bytes`.
"""

from __future__ import annotations

import itertools
import struct

import numpy as np
import zstandard
from lz4.block import decompress as decompress_lz4
from pyroaring import BitMap

ORDER = [0, 4, 2, 6, 1, 5, 3, 7]


def u16(data, at):
    return int.from_bytes(data[at : at + 2], "little")


def u32(data, at):
    return int.from_bytes(data[at : at + 4], "little")


def pad8(number):
    return -(-number // 8) * 8


def unpacked(data, width, bits, count):
    """FastLanes: the bits of each lane as one long number."""
    lanes, chunk_bytes, result = 1024 // bits, 128 * width, []
    for start in range(0, len(data), chunk_bytes):
        words = np.frombuffer(data[start : start + chunk_bytes], f"<u{bits // 8}").reshape(width, lanes)
        values = [0] * 1024
        for lane in range(lanes):
            string = sum(int(word) << bits * i for i, word in enumerate(words[:, lane]))
            for row in range(bits):
                place = ORDER[row // 8] * 16 + row % 8 * 128 + lane
                values[place] = string >> row * width & (1 << width) - 1
        result += values
    return result[:count]


def wrapped(numbers, dtype):
    """Integers to a type, by their lowest bits."""
    bits = 8 * dtype.itemsize
    return np.array([number & (1 << bits) - 1 for number in numbers], f"<u{dtype.itemsize}").view(dtype)


def part(data, nested, dtype, count):
    return stream(data, dtype, count) if nested else np.frombuffer(data, dtype, count)


def unsigned(dtype):
    return np.dtype(f"<u{dtype.itemsize}")


def stream(data, dtype, count):
    """Decode one numeric stream."""
    return NUMBERS[u16(data, 0)](data, np.dtype(dtype), count)


def wide(dtype):
    """Bytes of code and header of a stream whose header holds a value."""
    return 16 if dtype.itemsize == 8 else 8


def value_of_header(data, dtype):
    return int(np.frombuffer(data[2 : 2 + dtype.itemsize], unsigned(dtype))[0])


def plain(data, dtype, count):
    return np.frombuffer(data[2:], dtype, count)


def bit_packing(data, dtype, count):
    return np.array(unpacked(data[8:], data[2], 8 * dtype.itemsize, count), dtype)


def frame_of_reference(data, dtype, count):
    low = value_of_header(data, dtype)
    return wrapped([int(x) + low for x in stream(data[wide(dtype) :], unsigned(dtype), count)], dtype)


def fused_frame_of_reference(data, dtype, count):
    size, low = dtype.itemsize, value_of_header(data, dtype)
    return wrapped([x + low for x in unpacked(data[wide(dtype) :], data[2 + size], 8 * size, count)], dtype)


def delta(data, dtype, count):
    sums = [value_of_header(data, dtype)]
    for step in stream(data[wide(dtype) :], dtype, count - 1):
        sums.append(sums[-1] + int(step))
    return wrapped(sums, dtype)


def run_length(data, dtype, count):
    values_size, runs = u32(data, 2), u32(data, 6)
    values = part(data[16 : 16 + values_size], data[10], dtype, runs)
    return np.repeat(values, part(data[16 + pad8(values_size) :], data[11], np.dtype("<u4"), runs))


def single_value(data, dtype, count):
    return np.repeat(np.frombuffer(data[2 : 2 + dtype.itemsize], dtype), count)


def truncate(data, dtype, count):
    narrow = np.dtype(f"<u{1 << u16(data, 0) - 8}")
    return part(data[8:], data[2], narrow, count).view(f"<i{narrow.itemsize}").astype(dtype)


def alp(data, dtype, count):
    size, exceptions, exponent, factor = struct.unpack_from("<IHBB", data, 2)
    integers = stream(data[16 : 16 + size], np.dtype(f"<i{dtype.itemsize}"), count)
    up, down = dtype.type(float(f"1e{factor}")), dtype.type(float(f"1e-{exponent}"))
    result = integers.astype(dtype) * up * down
    tail = data[16 + size :]
    result[np.frombuffer(tail, "<u4", exceptions)] = np.frombuffer(tail[4 * exceptions :], dtype, exceptions)
    return result


def alp_rd(data, dtype, count):
    left_size, right_size, exceptions, width, entries = struct.unpack_from("<IIHBB", data, 2)
    dictionary = np.frombuffer(data[16:], "<u2", entries)
    data = data[16 + 2 * entries :]
    lefts = dictionary[stream(data[:left_size], np.dtype("<u2"), count)].copy()
    rights = stream(data[left_size : left_size + right_size], unsigned(dtype), count)
    tail = data[left_size + right_size :]
    lefts[np.frombuffer(tail, "<u4", exceptions)] = np.frombuffer(tail[4 * exceptions :], "<u2", exceptions)
    return wrapped([int(a) << width | int(b) for a, b in zip(lefts, rights, strict=True)], dtype)


def block_dictionary(data, dtype, count):
    codes_size, distinct = u32(data, 2), u32(data, 6)
    codes = stream(data[16 : 16 + codes_size], np.dtype("<u4"), count)
    return np.append(np.zeros(1, dtype), part(data[16 + codes_size :], data[10], dtype, distinct))[codes]


def zstd(data, dtype, count):
    return np.frombuffer(zstandard.ZstdDecompressor().decompressobj().decompress(data[8:]), dtype, count)


def lz4(data, dtype, count):
    return np.frombuffer(decompress_lz4(data[12:], u32(data, 8)), dtype, count)


def zig_zag(data, dtype, count):
    words = [int(word) for word in part(data[8:], data[2], unsigned(dtype), count)]
    return wrapped([word >> 1 ^ -(word & 1) for word in words], dtype)


def sparse(data, dtype, count):
    entries, positions_size = u32(data, 2), u32(data, 6)
    result = np.zeros(count, dtype)
    if entries:
        places = part(data[16 : 16 + positions_size], data[10], np.dtype("<u4"), entries)
        result[places] = part(data[16 + pad8(positions_size) :], data[11], dtype, entries)
    return result


NUMBERS = {
    1: plain,
    2: bit_packing,
    3: frame_of_reference,
    4: fused_frame_of_reference,
    5: delta,
    6: run_length,
    7: single_value,
    8: truncate,
    9: truncate,
    10: truncate,
    11: truncate,
    12: alp,
    13: alp_rd,
    14: block_dictionary,
    16: zstd,
    17: lz4,
    18: zig_zag,
    19: sparse,
}


def presence(section, count):
    """Which values are valid."""
    if not section:
        return [True] * count
    if section[0] == 1:
        return [False] * count
    if section[0] == 2:
        return [byte == 1 for byte in section[1:]]
    assert section[0] == 3
    positions = BitMap.deserialize(bytes(section[2:]))
    return [(place in positions) != bool(section[1]) for place in range(count)]


def sections(block):
    """Presence and values of a block."""
    first, second = u32(block, 0), u32(block, 4)
    start = 8 + pad8(first)
    return block[8 : 8 + first], block[start : start + second]


def number_block(block, dtype, count):
    """Values of a numeric block, None for nulls."""
    flags, values = sections(block)
    numbers = stream(values, dtype, count).tolist()
    return [number if valid else None for number, valid in zip(numbers, presence(flags, count), strict=True)]


def byte_block(block, count, fixed_size):
    """Values of a binary block, None for nulls."""
    flags, values = sections(block)
    valid = presence(flags, count)
    strings = byte_values(values, count, fixed_size, valid)
    return [string if present else None for string, present in zip(strings, valid, strict=True)]


def byte_values(data, count, fixed_size, valid):
    """Decode the values section of a binary block."""
    return BYTES[u16(data, 0)](data, count, fixed_size, valid)


def cut(content, data, offsets_at, nested, width, count, fixed_size):
    """The bytes of all values in pieces, by their size or by offsets."""
    if fixed_size is not None:
        assert width == 0
        return [content[i * fixed_size : (i + 1) * fixed_size] for i in range(count)]
    offsets = part(data[offsets_at:], nested, np.dtype("<u8"), count + 1).tolist()
    return [content[start:end] for start, end in itertools.pairwise(offsets)]


def plain_bytes(data, count, fixed_size, valid):
    width = data[2]
    content = data[3 + width * (count + 1) if width else 3 :]
    return cut(content, data, 3, 0, width, count, fixed_size)


def single_value_bytes(data, count, fixed_size, valid):
    return [data[2:] if present else b"" for present in valid]


def block_dictionary_bytes(data, count, fixed_size, valid):
    codes_size, lengths_size, distinct = struct.unpack_from("<III", data, 2)
    codes = stream(data[16 : 16 + codes_size], np.dtype("<u4"), count).tolist()
    lengths_at = 16 + pad8(codes_size)
    lengths = [fixed_size] * distinct
    if fixed_size is None:
        found = part(data[lengths_at : lengths_at + lengths_size], data[14], np.dtype("<u4"), distinct)
        lengths = found.tolist()
    place, entries = lengths_at + lengths_size, [bytes(fixed_size or 0)]
    for length in lengths:
        entries.append(data[place : place + length])
        place += length
    assert place == len(data)
    return [entries[code] for code in codes]


def fsst_bytes(data, count, fixed_size, valid):
    symbols, size, nested, width = data[2], u32(data, 3), data[7], data[8]
    body = data[16:]
    words, lengths, codes = body[: 8 * symbols], body[8 * symbols : 9 * symbols], body[9 * symbols :][:size]
    content, at = b"", 0
    while at < size:
        code = codes[at]
        if code == 255:
            content += codes[at + 1 : at + 2]
            at += 2
        else:
            content += words[8 * code : 8 * code + lengths[code]]
            at += 1
    return cut(content, data, 16 + pad8(9 * symbols + size), nested, width, count, fixed_size)


def zstd_bytes(data, count, fixed_size, valid):
    size, width, nested = u32(data, 2), data[6], data[7]
    content = zstandard.ZstdDecompressor().decompressobj().decompress(data[8 : 8 + size])
    return cut(content, data, 8 + pad8(size), nested, width, count, fixed_size)


def lz4_bytes(data, count, fixed_size, valid):
    size, width, nested = u32(data, 2), data[6], data[7]
    content = decompress_lz4(data[12 : 8 + size], u32(data, 8))
    return cut(content, data, 8 + pad8(size), nested, width, count, fixed_size)


BYTES = {
    1: plain_bytes,
    7: single_value_bytes,
    14: block_dictionary_bytes,
    15: fsst_bytes,
    16: zstd_bytes,
    17: lz4_bytes,
}
