"""Blocks that break the rules: a closed list with exact messages, and random damage, which must never do worse."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from skerry.amudai.blocks import (
    Blocks,
    decode_binary,
    decode_byte_values,
    decode_numbers,
    decode_numeric,
    encode_binary_block,
    encode_numeric_block,
)
from skerry.amudai.encodings.byte_values import Strings
from skerry.amudai.encodings.codes import Encoding
from skerry.amudai.encodings.plans import Plan
from skerry.errors import FormatError, UnsupportedError

E = Encoding
RANDOM = np.random.default_rng(5)


def head(code, form, *fields, size):
    """Code and header of a stream."""
    return (struct.pack("<H", code) + struct.pack("<" + form, *fields)).ljust(size, b"\0")


# name: (type, count, stream, message, place in the stream)
BAD_STREAMS = {
    "nothing": ("<i4", 3, b"", "cut short: 2 bytes needed, 0 there", 0),
    "code 0": ("<i4", 3, b"\0\0", "no encoding has code 0", 0),
    "code 15 in numbers": ("<i4", 3, b"\x0f\0" + bytes(20), "no encoding has code 15", 0),
    "code 99": ("<i4", 3, b"\x63\0", "no encoding has code 99", 0),
    "no header": ("<u4", 3, b"\x02\0", "cut short: 8 bytes needed, 2 there", 0),
    "plain too short": ("<i4", 3, b"\x01\0" + bytes(11), "11 bytes, expected 12", 2),
    "plain too long": ("<i4", 3, b"\x01\0" + bytes(13), "13 bytes, expected 12", 2),
    "half a value": ("<i8", 3, b"\x07\0" + bytes(7), "cut short: 8 bytes needed, 7 there", 2),
    "bit packing of signed": ("<i4", 3, head(2, "B", 3, size=8) + bytes(384), "encoding 2 does not go with", 0),
    "delta of floats": ("<f8", 3, head(5, "d", 3, size=16) + bytes(20), "encoding 5 does not go with", 0),
    "truncation of unsigned": ("<u4", 3, head(8, "B", 0, size=8) + bytes(3), "encoding 8 does not go with", 0),
    "truncation of bytes": ("i1", 3, head(8, "B", 0, size=8) + bytes(3), "encoding 8 does not go with", 0),
    "truncation that widens": ("<i2", 3, head(10, "B", 0, size=8) + bytes(12), "encoding 10 does not go with", 0),
    "decimals of integers": ("<i8", 3, head(12, "IH", 0, 0, size=16), "encoding 12 does not go with", 0),
    "zig-zag of unsigned": ("<u8", 3, head(18, "B", 0, size=8) + bytes(24), "encoding 18 does not go with", 0),
    "width 0": ("<u4", 3, head(2, "B", 0, size=8), "values of 0 bits, expected 1 to 32", 8),
    "width 33": ("<u4", 3, head(2, "B", 33, size=8) + bytes(33 * 128), "values of 33 bits, expected 1 to 32", 8),
    "a chunk too few": ("<u4", 1025, head(2, "B", 1, size=8) + bytes(128), "128 bytes, expected 256", 8),
    "more runs than values": (
        "<i4",
        3,
        head(6, "IIBB", 16, 4, 0, 0, size=16) + bytes(32),
        "4 parts, expected at most 3",
        6,
    ),
    "runs beyond the end": (
        "<i4",
        3,
        head(6, "IIBB", 99, 1, 0, 0, size=16),
        "cut short: 104 bytes needed, 0 there",
        16,
    ),
    "runs too short": (
        "<i4",
        3,
        head(6, "IIBB", 4, 1, 0, 0, size=16) + struct.pack("<iii", 7, 0, 2),
        "runs of 2 values, expected 3",
        16,
    ),
    "runs too long": (
        "<i4",
        3,
        head(6, "IIBB", 4, 1, 0, 0, size=16) + struct.pack("<iii", 7, 0, 1 << 30),
        "runs of 1073741824 values, expected 3",
        16,
    ),
    "flag of 2": ("<i4", 3, head(18, "B", 2, size=8) + bytes(12), "flag of 2, expected 0 or 1", 2),
    "exponent 18": ("<f8", 3, head(12, "IHBB", 0, 0, 18, 0, size=16), "exponent 18 and factor 0", 8),
    "factor above exponent": ("<f8", 3, head(12, "IHBB", 0, 0, 3, 4, size=16), "exponent 3 and factor 4", 8),
    "more exceptions than values": ("<f8", 3, head(12, "IHBB", 0, 4, 1, 0, size=16), "4 parts, expected at most 3", 6),
    "exceptions cut short": ("<f8", 3, head(12, "IHBB", 10, 1, 1, 0, size=16), "16 bytes, expected 38", 0),
    "exception beyond the values": (
        "<f8",
        3,
        head(12, "IHBB", 10, 1, 1, 0, size=16) + b"\x07\0" + bytes(8) + struct.pack("<Id", 3, 0.5),
        "position 3 among 3 values",
        26,
    ),
    "nine left parts": (
        "<f8",
        3,
        head(13, "IIHBB", 0, 0, 0, 50, 9, size=16) + bytes(18),
        "9 parts, expected at most 8",
        10,
    ),
    "right parts of 64 bits": (
        "<f8",
        3,
        head(13, "IIHBB", 0, 0, 0, 64, 1, size=16),
        "values of 64 bits, expected 1 to 63",
        12,
    ),
    "code beyond the left parts": (
        "<f8",
        3,
        head(13, "IIHBB", 8, 10, 0, 50, 1, size=16) + bytes(2) + struct.pack("<H3H", 1, 0, 1, 0) + b"\x07\0" + bytes(8),
        "code 1 in a dictionary of 1",
        16,
    ),
    "more entries than values": (
        "<i4",
        3,
        head(14, "IIB", 6, 4, 0, size=16) + bytes(40),
        "4 parts, expected at most 3",
        6,
    ),
    "codes beyond the end": (
        "<i4",
        3,
        head(14, "IIB", 60, 1, 0, size=16) + bytes(40),
        "cut short: 60 bytes needed, 40 there",
        16,
    ),
    "code beyond the entries": (
        "<i4",
        3,
        head(14, "IIB", 6, 1, 0, size=16) + struct.pack("<HIi", 7, 2, 5),
        "code 2 in a dictionary of 1",
        16,
    ),
    "position beyond the values": (
        "<i4",
        3,
        head(19, "IIBB", 1, 4, 0, 0, size=16) + struct.pack("<I4xi", 3, 5),
        "position 3 among 3 values",
        16,
    ),
    "LZ4 without a size": ("<i4", 3, head(17, "", size=8) + b"abc", "cut short: 4 bytes needed, 3 there", 8),
    "LZ4 of another size": ("<i4", 3, head(17, "", size=8) + struct.pack("<I", 13) + b"a", "13 bytes, expected 12", 8),
    "LZ4 of noise": ("<i4", 3, head(17, "", size=8) + struct.pack("<I", 12) + b"\xff\xff", "LZ4 block is damaged", 12),
    "zstd of noise": ("<i4", 3, head(16, "", size=8) + b"abcdefgh", "not a Zstandard frame", 8),
    "streams in streams in streams": ("<i4", 3, head(18, "B", 1, size=8) * 40, "encoding 18 does not go with", 8),
}


@pytest.mark.parametrize("name", BAD_STREAMS)
def test_bad_streams(name):
    dtype, count, content, message, place = BAD_STREAMS[name]
    with pytest.raises(FormatError) as caught:
        decode_numeric(content, dtype, count)
    assert message in str(caught.value)
    framed = struct.pack("<II", 0, len(content)) + content
    with pytest.raises(FormatError) as caught:
        decode_numbers(one_block(framed, count, "here", 1000), dtype, has_presence=False)
    assert (caught.value.location, caught.value.offset) == ("here", 1008 + place)


def test_nesting_ends():
    deep = b"\x01\0" + bytes(12)
    for _ in range(60):
        deep = head(5, "i", 0, size=8) + deep
    with pytest.raises(FormatError, match="nested too deeply"):
        decode_numeric(deep, "<i4", 63)


def one_block(block, count, location=None, offset=None, has_checksums=False):
    edges = np.array([0, len(block)])
    data = np.frombuffer(block, np.uint8)
    return Blocks(data, edges[:1], edges[1:], np.array([count]), has_checksums, location, offset)


OFFSETS = struct.pack("<3Q", 0, 1, 3)
# name: (count, bytes of each value, section, message)
BAD_SECTIONS = {
    "nothing": (2, None, b"", "cut short: 2 bytes needed"),
    "code 2": (2, None, b"\x02\0" + bytes(20), "no encoding has code 2"),
    "code 18": (2, None, b"\x12\0" + bytes(20), "no encoding has code 18"),
    "no width": (2, None, b"\x01\0", "cut short: 3 bytes needed"),
    "offsets of 4 bytes": (2, None, b"\x01\0\x04" + bytes(20), "offsets of 4 bytes, expected 8"),
    "offsets of values of one size": (2, 3, b"\x01\0\x08" + OFFSETS + b"abc", "offsets of 8 bytes, expected 0"),
    "offsets cut short": (2, None, b"\x01\0\x08" + OFFSETS[:-1], "cut short: 24 bytes needed, 23 there"),
    "offsets from 1 on": (
        2,
        None,
        b"\x01\0\x08" + struct.pack("<3Q", 1, 1, 3) + b"abc",
        "offsets do not ascend from 0",
    ),
    "falling offsets": (2, None, b"\x01\0\x08" + struct.pack("<3Q", 0, 3, 2) + b"abc", "offsets do not ascend"),
    "offsets beyond 2^63": (
        2,
        None,
        b"\x01\0\x08" + struct.pack("<3Q", 0, 1, 1 << 63) + b"abc",
        "offsets do not ascend",
    ),
    "bytes missing": (2, None, b"\x01\0\x08" + OFFSETS + b"ab", "2 bytes, expected 3"),
    "a value too few": (2, 3, b"\x01\0\0" + b"abcde", "5 bytes, expected 6"),
    "single value of another size": (2, 3, b"\x07\0ab", "2 bytes, expected 3"),
    "dictionary cut short": (2, None, head(14, "IIIB", 6, 99, 1, 0, size=16), "cut short: 123 bytes needed"),
    "more entries than values": (
        2,
        None,
        head(14, "IIIB", 6, 4, 3, 0, size=16) + bytes(20),
        "3 parts, expected at most 2",
    ),
    "entries of other sizes": (
        2,
        None,
        head(14, "IIIB", 6, 4, 1, 0, size=16) + struct.pack("<HI2xI", 7, 1, 5) + b"four",
        "4 bytes, expected 5",
    ),
    "code beyond the entries": (
        2,
        None,
        head(14, "IIIB", 6, 4, 1, 0, size=16) + struct.pack("<HI2xI", 7, 2, 4) + b"four",
        "code 2 in a dictionary of 1",
    ),
    "entries of values of one size": (
        2,
        4,
        head(14, "IIIB", 6, 0, 1, 0, size=16) + struct.pack("<HI2x", 7, 1) + b"fou",
        "3 bytes, expected 4",
    ),
    "symbols cut short": (2, None, head(15, "BIBB", 9, 0, 0, 8, size=16) + bytes(80), "cut short"),
    "symbol of nine bytes": (
        2,
        None,
        head(15, "BIBB", 1, 1, 0, 8, size=16) + bytes(8) + b"\x09" + b"\0" + bytes(6) + OFFSETS,
        "symbol of 9 bytes, expected 1 to 8",
    ),
    "code without a symbol": (
        2,
        None,
        head(15, "BIBB", 1, 2, 0, 8, size=16) + b"a" + bytes(7) + b"\x01" + b"\0\x07" + bytes(5) + OFFSETS,
        "expected 3",
    ),
    "escape at the end": (
        2,
        None,
        head(15, "BIBB", 1, 3, 0, 8, size=16) + b"a" + bytes(7) + b"\x01" + b"\0\0\xff" + bytes(4) + OFFSETS,
        "expected 3",
    ),
    "more bytes than codes can stand for": (
        2,
        None,
        head(15, "BIBB", 0, 1, 0, 8, size=16) + b"\xff" + bytes(7) + struct.pack("<3Q", 0, 1, 9),
        "9 parts, expected at most 8",
    ),
    "LZ4 of another size": (
        2,
        None,
        head(17, "IBB", 5, 8, 0, size=8) + struct.pack("<I", 4) + bytes(4) + OFFSETS,
        "4 bytes, expected 3",
    ),
    "zstd of an impossible size": (
        2,
        None,
        head(16, "IBB", 4, 8, 0, size=8) + bytes(8) + struct.pack("<3Q", 0, 1, 1 << 62),
        "4611686018427387904 parts, expected at most",
    ),
    "zstd of noise": (2, None, head(16, "IBB", 4, 8, 0, size=8) + bytes(8) + OFFSETS, "not a Zstandard frame"),
    "packed bytes beyond the end": (
        2,
        None,
        head(16, "IBB", 40, 8, 0, size=8) + bytes(8),
        "cut short: 40 bytes needed",
    ),
    "offsets beyond the end": (2, None, head(16, "IBB", 1, 8, 0, size=8) + b"a", "cut short: 7 bytes needed, 0 there"),
}


@pytest.mark.parametrize("name", BAD_SECTIONS)
def test_bad_sections(name):
    count, fixed_size, content, message = BAD_SECTIONS[name]
    with pytest.raises(FormatError) as caught:
        decode_binary(content, count, fixed_size)
    assert message in str(caught.value)


PLAIN_3 = b"\x01\0" + bytes(12)
ROARING = b"\x3a\x30\0\0\x01\0\0\0"  # no runs, one container


def presence_block(section, values=PLAIN_3):
    padded = section + bytes(-len(section) % 8)
    return struct.pack("<II", len(section), len(values)) + padded + values + bytes(-len(values) % 8)


BAD_BLOCKS = {
    "no frame": (b"\0" * 7, "cut short: 8 bytes needed, 7 there"),
    "values beyond the end": (struct.pack("<II", 0, 99) + PLAIN_3, "bytes, expected 107"),
    "bytes behind the end": (struct.pack("<II", 0, 14) + PLAIN_3 + bytes(8), "30 bytes, expected 22"),
    "presence beyond the end": (struct.pack("<II", 1 << 31, 14) + PLAIN_3, "expected"),
    "presence of kind 0": (presence_block(b"\0"), "presence section holds 0"),
    "presence of kind 4": (presence_block(b"\4"), "presence section holds 4"),
    "all null, and more": (presence_block(b"\1\1"), "presence section holds 2, expected 1"),
    "a byte too few": (presence_block(b"\2\1\1"), "presence section holds 3, expected 4"),
    "a byte of 2": (presence_block(b"\2\1\2\1"), "presence section holds 2, expected 1"),
    "bitmap cut short": (presence_block(b"\3\0\x3a"), "cut short: 6 bytes needed, 3 there"),
    "negation of 2": (presence_block(b"\3\2" + ROARING), "presence section holds 2, expected 1"),
    "another cookie": (presence_block(b"\3\0" + bytes(8)), "presence section holds 0, expected 12346"),
    "containers beyond the end": (presence_block(b"\3\0\x3a\x30\0\0\xff\xff\xff\xff"), "cut short"),
    "values of a container cut short": (
        presence_block(b"\3\0" + ROARING + bytes(8)),
        "cut short: 2 bytes needed, 0 there",
    ),
    "position beyond the values": (
        presence_block(b"\3\0" + ROARING + struct.pack("<HHIH", 0, 0, 16, 3)),
        "position 3 among 3 values",
    ),
    "run beyond the values": (
        presence_block(b"\3\1\x3b\x30\0\0\1" + struct.pack("<HHHHH", 0, 2, 1, 1, 2)),
        "position 3 among 3 values",
    ),
    "container beyond the values": (
        presence_block(b"\3\0" + ROARING + struct.pack("<HHIH", 1, 0, 16, 0)),
        "position 65536 among 3 values",
    ),
    "bytes behind the bitmap": (
        presence_block(b"\3\0" + ROARING + struct.pack("<HHIHH", 0, 0, 16, 1, 1)),
        "presence section holds 2, expected 0",
    ),
}


@pytest.mark.parametrize("name", BAD_BLOCKS)
def test_bad_blocks(name):
    content, message = BAD_BLOCKS[name]
    with pytest.raises(FormatError) as caught:
        decode_numbers(one_block(content, 3), "<i4", has_presence=True)
    assert message in str(caught.value)


def test_presence_where_none_may_be():
    block = presence_block(b"\1")
    assert decode_numbers(one_block(block, 3), "<i4", has_presence=True).null_count == 3
    with pytest.raises(FormatError, match="presence section holds 1, expected 0"):
        decode_numbers(one_block(block, 3), "<i4", has_presence=False)


def test_checksums_are_checked():
    block = encode_numeric_block(np.arange(3), None, Plan(E.PLAIN))
    for at in range(len(block)):
        damaged = bytearray(block)
        damaged[at] ^= 4
        with pytest.raises(FormatError, match="checksum does not match") as caught:
            decode_numbers(one_block(damaged, 3, "here", 64, has_checksums=True), "<i8", has_presence=True)
        assert (caught.value.location, caught.value.offset) == ("here", 64)


def test_more_values_than_memory():
    block = struct.pack("<II", 0, 10) + b"\x07\0" + bytes(8) + bytes(6)
    with pytest.raises(UnsupportedError, match="more than there is memory"):
        decode_numbers(one_block(block, 1 << 60), "<i8", has_presence=False)


PLANS = [
    *(Plan(code) for code in Encoding if code != E.FSST),
    Plan(E.RUN_LENGTH, (Plan(E.FUSED_FRAME_OF_REFERENCE), Plan(E.DELTA))),
    Plan(E.ALP, (Plan(E.DELTA, (Plan(E.TRUNCATE_16),)),)),
    Plan(E.BLOCK_DICTIONARY, (Plan(E.RUN_LENGTH), Plan(E.PLAIN))),
]


@pytest.mark.parametrize("wish", PLANS, ids=str)
@pytest.mark.parametrize("dtype", ["i1", "<i8", "<u4", "<f8", "<f4"])
def test_random_damage_of_numbers(wish, dtype):
    values = np.repeat(np.arange(400) % 50, 3).astype(dtype)
    valid = RANDOM.random(1200) < 0.95
    block = encode_numeric_block(values, valid, wish, has_checksum=False)
    for damaged in damages(block, 60):
        try:
            found = decode_numbers(one_block(damaged, 1200), dtype, has_presence=True)
        except (FormatError, UnsupportedError):
            continue
        assert len(found.values) == 1200


BINARY = [Plan(code) for code in (E.PLAIN, E.SINGLE_VALUE, E.BLOCK_DICTIONARY, E.FSST, E.ZSTD, E.LZ4)]


@pytest.mark.parametrize("wish", BINARY, ids=str)
@pytest.mark.parametrize("fixed_size", [None, 5])
def test_random_damage_of_bytes(wish, fixed_size):
    content = [b"value" if i % 3 else b"other" for i in range(500)]
    offsets = np.arange(501) * 5
    strings = Strings(offsets, np.frombuffer(b"".join(content), np.uint8), RANDOM.random(500) < 2, fixed_size)
    block = encode_binary_block(strings, wish, has_checksum=False)
    for damaged in damages(block, 200):
        try:
            found = decode_byte_values(one_block(damaged, 500), fixed_size, max_bytes=1 << 24)
        except (FormatError, UnsupportedError):
            continue
        size = 500 * fixed_size if fixed_size else found.offsets[-1]
        assert len(found.data) == size


def damages(block, count):
    """Blocks with some bytes changed, most of them in the headers, or cut short, or doubled."""
    for turn in range(count):
        damaged = bytearray(block)
        for _ in range(1 + turn % 3):
            span = min(len(damaged), 64) if RANDOM.random() < 0.7 else len(damaged)
            damaged[RANDOM.integers(0, span)] = RANDOM.integers(0, 256)
        if turn % 5 == 0:
            damaged = damaged[: RANDOM.integers(0, len(damaged))]
        yield bytes(damaged)
