"""Block maps: bytes by hand, both directions against each other, what is asked of them, and what is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.amudai.blocks import decode_block_map, encode_block_map
from skerry.errors import FormatError

HUGE = 1 << 60
# counts, sizes, bytes
BY_HAND = [
    ([], [], bytes(16) + struct.pack("<5Q", 0, 0, 0, 1024, 0)),
    (
        [3, 5],
        [40, 24],
        struct.pack("<QQIIBBH", 0, 0, 3, 24, 8, 8, 2) + bytes((0, 2, 0, 0)) + bytes((16, 0)) + bytes(6)
        + struct.pack("<4Q", 0, 8, 0, 40)
        + struct.pack("<5Q", 8, 2, 1, 1024, 64),
    ),
    (
        [1, 257],
        [8, 70_000],
        struct.pack("<QQIIBBH", 0, 0, 1, 8, 16, 32, 2) + struct.pack("<HHII", 0, 256, 0, 69_992)
        + struct.pack("<4Q", 0, 258, 0, 40)
        + struct.pack("<5Q", 258, 2, 1, 1024, 70_008),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("counts", "sizes", "content"), BY_HAND)
def test_bytes_of_small_maps(counts, sizes, content):
    assert encode_block_map(np.array(counts, np.int64), np.array(sizes, np.int64)) == content
    found = decode_block_map(content, buffer_size=1 << 20)
    assert np.diff(found.positions).tolist() == counts
    assert np.diff(found.offsets).tolist() == sizes
    assert (found.value_count, found.block_count) == (sum(counts), len(counts))


lengths = st.integers(1, 300) | st.integers(1, (1 << 32) - 1)


@given(pairs=st.lists(st.tuples(lengths, lengths), max_size=30))
def test_maps_come_back(pairs):
    counts, sizes = np.array(pairs, np.int64).reshape(-1, 2).T
    encoded = encode_block_map(counts, sizes)
    assert len(encoded) % 8 == 0
    found = decode_block_map(encoded, buffer_size=HUGE)
    assert np.diff(found.positions).tolist() == counts.tolist()
    assert np.diff(found.offsets).tolist() == sizes.tolist()


def test_many_blocks_make_several_segments():
    random = np.random.default_rng(3)
    counts, sizes = random.integers(1, 5000, 2500), random.integers(1, 90_000, 2500)
    encoded = encode_block_map(counts, sizes)
    assert struct.unpack_from("<5Q", encoded, len(encoded) - 40)[1:4] == (2500, 3, 1024)
    found = decode_block_map(encoded, buffer_size=HUGE)
    assert np.diff(found.positions).tolist() == counts.tolist()
    assert np.diff(found.offsets).tolist() == sizes.tolist()


@given(counts=st.lists(st.integers(1, 6), min_size=1, max_size=12), data=st.data())
def test_blocks_of_rows(counts, data):
    block_map = decode_block_map(encode_block_map(np.array(counts), np.full(len(counts), 8)), buffer_size=HUGE)
    total = sum(counts)
    owner = np.repeat(np.arange(len(counts)), counts).tolist()
    first = data.draw(st.integers(0, total))
    stop = data.draw(st.integers(first, total))
    touched = owner[first:stop]
    expected = (touched[0], touched[-1] + 1) if touched else (0, 0)
    assert block_map.blocks_of(first, stop) == expected
    assert block_map.byte_range(*expected) == (8 * expected[0], 8 * expected[1]) if touched else (0, 0)
    rows = data.draw(st.lists(st.integers(0, total - 1), max_size=9))
    assert block_map.blocks_at(np.array(rows, np.int64)).tolist() == sorted({owner[row] for row in rows})


def test_scattered_blocks_are_those_that_were_asked_for():
    block_map = decode_block_map(encode_block_map(np.array([3, 4, 5]), np.array([8, 16, 24])), buffer_size=HUGE)
    blocks = block_map.blocks_from([b"a" * 24, b"b" * 8], np.array([2, 0]), has_checksums=False)
    assert (blocks.counts.tolist(), blocks.starts.tolist(), blocks.ends.tolist()) == ([5, 3], [0, 24], [24, 32])
    assert blocks.value_count == 8
    with pytest.raises(FormatError, match="not read whole"):
        block_map.blocks_from([b"a" * 23, b"b" * 8], np.array([2, 0]), has_checksums=False)
    with pytest.raises(FormatError, match="blocks of 24 bytes, found 23"):
        block_map.blocks(b"x" * 23, 0, 2, has_checksums=False)


GOOD = bytearray(BY_HAND[1][2])


def changed(at, form, number):
    data = bytearray(GOOD)
    struct.pack_into(form, data, at, number)
    return bytes(data)


BAD = {
    "empty": (b"", "0 bytes"),
    "cut short": (bytes(GOOD[8:]), "do not cover|segments"),
    "odd size": (bytes(GOOD) + b"x", "bytes, expected a multiple of 8"),
    "huge segment count": (changed(88, "<Q", 1 << 62), "segments in"),
    "no segments": (changed(88, "<Q", 0), "2 blocks in 0 segments"),
    "too many blocks": (changed(80, "<Q", 1 << 40), "blocks in 1 segments"),
    "fewer values than blocks": (changed(72, "<Q", 1), "1 values in 2 blocks"),
    "values beyond 2^63": (changed(72, "<Q", 1 << 63), "values in 2 blocks"),
    "other value count": (changed(72, "<Q", 9), "do not cover"),
    "other data size": (changed(104, "<Q", 65), "expected 8 and 65"),
    "first position": (changed(0, "<Q", 1), "does not go on"),
    "first offset": (changed(8, "<Q", 1), "does not go on"),
    "width of 7 bits": (changed(24, "<B", 7), "7 and 8 bits"),
    "width of 64 bits": (changed(25, "<B", 64), "8 and 64 bits"),
    "segment of no blocks": (changed(26, "<H", 0), "expected 32"),
    "segment of many blocks": (changed(26, "<H", 60_000), "has 40 bytes"),
    "block without values": (changed(16, "<I", 0), "without values"),
    "block without bytes": (changed(20, "<I", 0), "without values or bytes"),
    "too large a block": (changed(16, "<I", (1 << 32) - 1), "too large"),
    "segments that do not begin at 0": (changed(40, "<Q", 1), "do not cover"),
    "segment end": (changed(64, "<Q", 32), "do not cover"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_maps(name):
    content, message = BAD[name]
    with pytest.raises(FormatError, match=message) as caught:
        decode_block_map(content, buffer_size=1 << 20, location="here", offset=100)
    assert caught.value.location == "here"
    assert caught.value.offset is not None


def test_blocks_must_lie_in_the_buffer():
    decode_block_map(bytes(GOOD), buffer_size=len(GOOD) + 64)
    with pytest.raises(FormatError, match="blocks of 64 bytes in 63"):
        decode_block_map(bytes(GOOD), buffer_size=len(GOOD) + 63)


@given(data=st.data())
def test_damaged_maps_are_refused_or_hold_together(data):
    encoded = bytearray(encode_block_map(np.arange(1, 9), np.arange(8, 16)))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode_block_map(bytes(encoded[: data.draw(st.integers(0, len(encoded)))]), buffer_size=10_000)
    except FormatError:
        return
    assert (np.diff(found.positions) > 0).all()
    assert (np.diff(found.offsets) > 0).all()
