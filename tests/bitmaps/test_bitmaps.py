"""Roaring bitmaps: there and back, a plain decoder beside ours, and every way to be damaged."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from skerry.bitmaps import (
    positions_from_roaring32,
    positions_from_roaring64,
    roaring32_from_positions,
    roaring64_from_positions,
)
from skerry.errors import FormatError, SchemaError

ARRAY = list(range(0, 2000, 3))
BITSET = list(range(65536, 2 * 65536, 2))
RUN = list(range(5 * 65536 + 7, 6 * 65536))
HIGH = [(1 << 32) + 5, (3 << 32) + (1 << 31), (1 << 62) + 1]


def plain_decode_32(data: bytes) -> tuple[list[int], int]:
    """The specification word by word: positions, and how many bytes they took."""
    (cookie,) = struct.unpack_from("<I", data)
    at, runs = 4, b""
    if cookie & 0xFFFF == 12347:
        count = (cookie >> 16) + 1
        runs = data[at : at + (count + 7) // 8]
        at += len(runs)
    else:
        assert cookie == 12346
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
    heads = [struct.unpack_from("<HH", data, at + 4 * i) for i in range(count)]
    at += 4 * count
    if not runs or count >= 4:
        at += 4 * count
    found: list[int] = []
    for i, (key, last) in enumerate(heads):
        base = key << 16
        if runs and runs[i // 8] >> (i % 8) & 1:
            (number,) = struct.unpack_from("<H", data, at)
            for r in range(number):
                first, more = struct.unpack_from("<HH", data, at + 2 + 4 * r)
                found += range(base + first, base + first + more + 1)
            at += 2 + 4 * number
        elif last + 1 <= 4096:
            found += [base + low for low in struct.unpack_from(f"<{last + 1}H", data, at)]
            at += 2 * (last + 1)
        else:
            bits = int.from_bytes(data[at : at + 8192], "little")
            found += [base + low for low in range(65536) if bits >> low & 1]
            at += 8192
    return found, at


def plain_decode_64(data: bytes) -> list[int]:
    (count,) = struct.unpack_from("<Q", data)
    at, found = 8, []
    for _ in range(count):
        (key,) = struct.unpack_from("<I", data, at)
        low, size = plain_decode_32(data[at + 4 :])
        found += [(key << 32) + position for position in low]
        at += 4 + size
    assert at == len(data)
    return found


@pytest.mark.parametrize(
    "positions",
    [
        [],
        [0],
        [2**32 - 1],
        ARRAY,
        BITSET,
        RUN,
        ARRAY + BITSET + RUN,
        [n << 16 for n in range(9)],
        ARRAY + HIGH,
        [2**63 - 1],
    ],
)
def test_positions_come_back_as_any_reader_of_the_format_finds_them(positions):
    data = roaring64_from_positions(np.array(positions, np.int64))
    decoded = positions_from_roaring64(data)
    assert decoded.dtype == np.int64
    assert decoded.tolist() == positions == plain_decode_64(data) == list(BitMap64.deserialize(data))
    if max(positions, default=0) < 1 << 32:
        short = roaring32_from_positions(np.array(positions, np.uint64))
        assert positions_from_roaring32(short).tolist() == positions == plain_decode_32(short)[0]


@given(
    st.sets(
        st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 200_000), st.integers(2**32 - 50, 2**32 + 50)),
        max_size=300,
    ),
    st.lists(st.tuples(st.integers(0, 2**33), st.integers(1, 300)), max_size=4),
    st.booleans(),
)
def test_every_set_comes_back(points, runs, optimized):
    points |= {start + step for start, length in runs for step in range(length)}
    bitmap = BitMap64(points)
    if optimized:
        bitmap.run_optimize()
    assert positions_from_roaring64(bitmap.serialize()).tolist() == sorted(points)
    assert plain_decode_64(roaring64_from_positions(np.array(sorted(points), np.int64))) == sorted(points)


def test_positions_given_twice_count_once():
    assert positions_from_roaring64(roaring64_from_positions(np.array([3, 3, 9]))).tolist() == [3, 9]


@pytest.mark.parametrize(
    ("positions", "encode"),
    [([2, 1], roaring64_from_positions), ([-1, 1], roaring64_from_positions), ([2**32], roaring32_from_positions)],
)
def test_positions_that_no_bitmap_holds_are_refused(positions, encode):
    with pytest.raises(SchemaError, match="positions of a bitmap must ascend and be between 0 and"):
        encode(np.array(positions))


ONE = roaring64_from_positions(np.array([7]))
NO_RUNS = BitMap(ARRAY + BITSET).serialize()
RUNS = roaring32_from_positions(np.array(RUN))
FOUR = roaring32_from_positions(np.concatenate([np.arange(10) + (n << 16) for n in range(5)]))


def changed(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


@pytest.mark.parametrize(
    ("data", "message", "offset"),
    [
        (b"", "Roaring bitmap: ends within its number of bitmaps", 0),
        (b"\xff" * 8, "Roaring bitmap: 18446744073709551615 bitmaps are claimed in 0 bytes", 0),
        (ONE[:10], "Roaring bitmap: 1 bitmaps are claimed in 2 bytes", 0),
        (ONE[:16], "Roaring bitmap: ends within its number of containers", 16),
        (ONE[:-1], "Roaring bitmap: ends within its containers", 29),
        (ONE + b"!", "Roaring bitmap: is followed by 1 other bytes", 30),
        (changed(ONE, 11, b"\x80"), "Roaring bitmap: key 2147483648 after key -1, expected", 8),
        (b"\x02" + ONE[1:] + ONE[8:], "Roaring bitmap: key 0 after key 0, expected ascending keys below 2\\^31", 30),
        (changed(ONE, 12, b"\x00"), "Roaring bitmap: expected cookie 12346 or 12347, found 0x00003000", 12),
        (changed(ONE, 14, b"\x01"), "Roaring bitmap: expected cookie 12346 or 12347, found 0x0001303a", 12),
        (changed(ONE, 16, b"\xff\xff\xff\xff"), "Roaring bitmap: 4294967295 containers, expected at most 65536", 16),
        (changed(ONE, 16, b"\x02"), "Roaring bitmap: ends within its offsets", 30),
        (
            changed(ONE, 24, b"\x11"),
            "Roaring bitmap: its container offsets do not match the positions",
            12,
        ),
    ],
)
def test_what_is_no_bitmap_is_refused(data, message, offset):
    with pytest.raises(FormatError, match=f"^{message}") as caught:
        positions_from_roaring64(data, location="a.puffin", offset=100)
    assert (caught.value.location, caught.value.offset) == ("a.puffin", 100 + offset)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (RUNS[:5], "ends within its keys"),
        (RUNS[:9], "ends within its containers"),
        (RUNS[:11], "ends within its containers"),
        (changed(RUNS, 9, b"\x09"), "ends within its containers"),
        (changed(RUNS, 13, b"\x00\x00"), "1 positions, its containers claim 65529"),
        (changed(RUNS, 11, b"\xff\xff\xff\xff"), "Invalid bitmap after deserialization"),
        (changed(FOUR, len(FOUR) - 4, b"\xff\xff"), "Invalid bitmap after deserialization"),
        (changed(NO_RUNS, 12, b"\x00"), "Invalid bitmap after deserialization: keys not strictly increasing"),
        (changed(NO_RUNS, len(NO_RUNS) - 1, b"\xff"), "Invalid bitmap after deserialization"),
    ],
)
def test_containers_that_contradict_themselves_are_refused(data, message):
    with pytest.raises(FormatError, match=message):
        positions_from_roaring32(data)


def test_a_bitmap_may_hold_no_more_than_its_reader_expects():
    whole = roaring64_from_positions(np.arange(1 << 20))
    assert len(whole) < 300
    with pytest.raises(FormatError, match="1048576 positions, expected at most 1000"):
        positions_from_roaring64(whole, max_positions=1000)
    split = roaring64_from_positions(np.array([1, 2, (1 << 32) + 1]))
    with pytest.raises(FormatError, match="1 positions, expected at most 0"):
        positions_from_roaring64(split, max_positions=2)


@given(st.data())
def test_damage_is_refused_or_makes_another_sound_bitmap(data):
    whole = bytearray(data.draw(st.sampled_from([ONE, roaring64_from_positions(np.array(ARRAY + BITSET + RUN))])))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(whole), 120) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for damaged in (bytes(whole), bytes(whole[:cut])):
        try:
            found = positions_from_roaring64(damaged, max_positions=1 << 18)
        except FormatError:
            continue
        assert found.tolist() == plain_decode_64(damaged)
