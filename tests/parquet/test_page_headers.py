"""The quick way through usual page headers gives what the general way gives, and leaves the others to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thrift_bytes import encode_struct

from skerry.errors import FormatError
from skerry.parquet import pages
from skerry.parquet.pages import decode_page_header

NUMBERS = st.integers(0, 2**31 - 1)
STATISTICS = st.dictionaries(
    st.integers(1, 8), st.binary(max_size=300) | st.integers(-(2**40), 2**40) | st.booleans(), max_size=6
).map(lambda fields: dict(sorted(fields.items())))


def header(**changed: Any) -> dict[int, Any]:
    page = {1: changed.get("count", 20_000), 2: changed.get("encoding", 8), 3: 3, 4: 3}
    if "statistics" in changed:
        page[5] = changed["statistics"]
    fields = {1: changed.get("type", 0), 2: changed.get("size", 4000), 3: changed.get("compressed", 3000)}
    if "crc" in changed:
        fields[4] = changed["crc"]
    return {**fields, 5: page, **changed.get("more", {})}


def as_i32(data: bytes) -> bytes:
    """Numbers as writers have them; the encoder of the tests marks them as 64 bits wide, and writes the same digits."""
    out = bytearray(data)
    place = 0
    while place < len(out) and out[place] in (0x16, 0x15):
        out[place] = 0x15
        place += 1
        while out[place] >= 0x80:
            place += 1
        place += 1
    if place < len(out) and out[place] in (0x2C, 0x1C):
        place += 1
        while out[place] == 0x16:
            out[place] = 0x15
            place += 1
            while out[place] >= 0x80:
                place += 1
            place += 1
    return bytes(out)


def generally(data: bytes, position: int) -> Any:
    found = pages._usual_header
    pages._usual_header = lambda data, position: None
    try:
        return decode_page_header(memoryview(data), position)
    finally:
        pages._usual_header = found


@given(
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.sampled_from([0, 2, 3, 8]),
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | STATISTICS,
    st.binary(max_size=5),
)
def test_usual_headers(size, compressed, count, encoding, crc, statistics, before):
    changed = {"size": size, "compressed": compressed, "count": count, "encoding": encoding}
    changed |= {} if crc is None else {"crc": crc}
    changed |= {} if statistics is None else {"statistics": statistics}
    data = before + as_i32(encode_struct(header(**changed))) + b"the page itself"
    found = pages._usual_header(memoryview(data), len(before))
    assert found is not None
    assert found == generally(data, len(before))


@pytest.mark.parametrize(
    "changed",
    [
        {"type": 2, "more": {7: {1: 5, 2: 0}}},
        {"more": {9: 1}},
        {"statistics": {1: b"a", 3: {1: 2}}},
        {"statistics": {20: 5}},
        {"count": 2**40},
        {"size": -1},
    ],
)
def test_other_headers_are_left_to_the_general_way(changed):
    data = as_i32(encode_struct(header(**changed)))
    assert pages._usual_header(memoryview(data), 0) is None


@given(st.integers(0, 60), st.integers(0, 255))
def test_damaged_headers_are_read_alike(place, byte):
    data = bytearray(as_i32(encode_struct(header(statistics={1: b"abc", 3: 4, 7: True}))))
    data[place % len(data)] = byte
    cut = bytes(data[: len(data) - place % 3])
    found = pages._usual_header(memoryview(cut), 0)
    try:
        expected = generally(cut, 0)
    except FormatError:
        expected = None
    assert found is None or found == expected
