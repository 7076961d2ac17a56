"""A slow decoder of blocks in plain Python, and a speller of what encodings a block has. Knows no kernel."""

from __future__ import annotations

import itertools
import struct

import lz4.block
import numpy as np
import zstandard
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


def stream(data, dtype, count):  # noqa: C901  a case per encoding
    """Decode one numeric stream."""
    dtype = np.dtype(dtype)
    code, size = u16(data, 0), dtype.itemsize
    wide = 16 if size == 8 else 8
    if code == 1:
        return np.frombuffer(data[2:], dtype, count)
    if code == 2:
        return np.array(unpacked(data[8:], data[2], 8 * size, count), dtype)
    if code == 3:
        low = np.frombuffer(data[2 : 2 + size], unsigned(dtype))[0]
        return wrapped([int(x) + int(low) for x in stream(data[wide:], unsigned(dtype), count)], dtype)
    if code == 4:
        low = np.frombuffer(data[2 : 2 + size], unsigned(dtype))[0]
        return wrapped([x + int(low) for x in unpacked(data[wide:], data[2 + size], 8 * size, count)], dtype)
    if code == 5:
        total = int(np.frombuffer(data[2 : 2 + size], dtype)[0])
        sums = [total]
        for step in stream(data[wide:], dtype, count - 1):
            total += int(step)
            sums.append(total)
        return wrapped(sums, dtype)
    if code == 6:
        values_size, runs = u32(data, 2), u32(data, 6)
        values = part(data[16 : 16 + values_size], data[10], dtype, runs)
        return np.repeat(values, part(data[16 + pad8(values_size) :], data[11], np.dtype("<u4"), runs))
    if code == 7:
        return np.repeat(np.frombuffer(data[2 : 2 + size], dtype), count)
    if code in (8, 9, 10, 11):
        narrow = np.dtype(f"<u{1 << code - 8}")
        return part(data[8:], data[2], narrow, count).view(f"<i{narrow.itemsize}").astype(dtype)
    if code == 12:
        return decimals(data, dtype, count)
    if code == 13:
        return halves(data, dtype, count)
    if code == 14:
        codes_size, distinct = u32(data, 2), u32(data, 6)
        codes = stream(data[16 : 16 + codes_size], np.dtype("<u4"), count)
        return np.append(np.zeros(1, dtype), part(data[16 + codes_size :], data[10], dtype, distinct))[codes]
    if code == 16:
        return np.frombuffer(zstandard.ZstdDecompressor().decompressobj().decompress(data[8:]), dtype, count)
    if code == 17:
        return np.frombuffer(lz4.block.decompress(data[12:], u32(data, 8)), dtype, count)
    if code == 18:
        words = [int(word) for word in part(data[8:], data[2], unsigned(dtype), count)]
        return wrapped([word >> 1 ^ -(word & 1) for word in words], dtype)
    assert code == 19
    entries, positions_size = u32(data, 2), u32(data, 6)
    result = np.zeros(count, dtype)
    if entries:
        places = part(data[16 : 16 + positions_size], data[10], np.dtype("<u4"), entries)
        result[places] = part(data[16 + pad8(positions_size) :], data[11], dtype, entries)
    return result


def decimals(data, dtype, count):
    size, exceptions, exponent, factor = struct.unpack_from("<IHBB", data, 2)
    integers = stream(data[16 : 16 + size], np.dtype(f"<i{dtype.itemsize}"), count)
    up, down = dtype.type(float(f"1e{factor}")), dtype.type(float(f"1e-{exponent}"))
    result = integers.astype(dtype) * up * down
    tail = data[16 + size :]
    result[np.frombuffer(tail, "<u4", exceptions)] = np.frombuffer(tail[4 * exceptions :], dtype, exceptions)
    return result


def halves(data, dtype, count):
    left_size, right_size, exceptions, width, entries = struct.unpack_from("<IIHBB", data, 2)
    dictionary = np.frombuffer(data[16:], "<u2", entries)
    data = data[16 + 2 * entries :]
    lefts = dictionary[stream(data[:left_size], np.dtype("<u2"), count)].copy()
    rights = stream(data[left_size : left_size + right_size], unsigned(dtype), count)
    tail = data[left_size + right_size :]
    lefts[np.frombuffer(tail, "<u4", exceptions)] = np.frombuffer(tail[4 * exceptions :], "<u2", exceptions)
    return wrapped([int(a) << width | int(b) for a, b in zip(lefts, rights, strict=True)], dtype)


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
    code = u16(data, 0)
    if code == 7:
        return [data[2:] if present else b"" for present in valid]
    if code == 14:
        return dictionary(data, count, fixed_size)
    if code == 1:
        width, offsets_at, content = data[2], 3, data[3 + data[2] * (count + 1) if data[2] else 3 :]
        nested = 0
    elif code == 15:
        symbols, size, nested, width = data[2], u32(data, 3), data[7], data[8]
        content = fsst(data[16:], symbols, size)
        offsets_at = 16 + pad8(9 * symbols + size)
    else:
        size, width, nested = u32(data, 2), data[6], data[7]
        packed = data[8 : 8 + size]
        content = zstandard.ZstdDecompressor().decompressobj().decompress(packed) if code == 16 else None
        content = lz4.block.decompress(packed[4:], u32(packed, 0)) if content is None else content
        offsets_at = 8 + pad8(size)
    if fixed_size is not None:
        assert width == 0
        return [content[i * fixed_size : (i + 1) * fixed_size] for i in range(count)]
    offsets = part(data[offsets_at:], nested, np.dtype("<u8"), count + 1).tolist()
    return [content[start:end] for start, end in itertools.pairwise(offsets)]


def dictionary(data, count, fixed_size):
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


def fsst(data, symbols, size):
    words, lengths, codes = data[: 8 * symbols], data[8 * symbols : 9 * symbols], data[9 * symbols :][:size]
    result, at = b"", 0
    while at < size:
        code = codes[at]
        if code == 255:
            result += codes[at + 1 : at + 2]
            at += 2
        else:
            result += words[8 * code : 8 * code + lengths[code]]
            at += 1
    return result
