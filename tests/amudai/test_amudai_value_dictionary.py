from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.amudai.fields.value_dictionary import ValueDictionary, decode_value_dictionary, encode_value_dictionary
from skerry.amudai.shard.checksum import checksum
from skerry.amudai.shard.schema import BasicType
from skerry.errors import FormatError


def dictionary_of(entries: list[bytes], null_id: int | None, fixed_size: int = 0) -> ValueDictionary:
    offsets = np.zeros(len(entries) + 1, np.int64)
    offsets[1:] = np.cumsum([len(entry) for entry in entries])
    ids = sorted((i for i in range(len(entries)) if i != null_id), key=lambda i: entries[i])
    kind = BasicType.FIXED_SIZE_BINARY if fixed_size else BasicType.STRING
    values = np.frombuffer(b"".join(entries), np.uint8)
    return ValueDictionary(kind, fixed_size, null_id, values, offsets, np.array(ids, np.uint32))


@given(st.lists(st.binary(max_size=100), max_size=30, unique=True), st.booleans())
def test_variable_entries_come_back(entries: list[bytes], has_null: bool) -> None:
    null_id = len(entries) // 2 if has_null else None
    if has_null:
        entries.insert(len(entries) // 2, b"")
    data = encode_value_dictionary(dictionary_of(entries, null_id))
    assert len(data) % 64 == 0
    read = decode_value_dictionary(data)
    found = [read.values[read.offsets[i] : read.offsets[i + 1]].tobytes() for i in range(read.count)]
    assert (found, read.null_id) == (entries, null_id)
    assert [found[i] for i in read.sorted_ids] == sorted(e for i, e in enumerate(entries) if i != null_id)


@given(st.integers(1, 20), st.integers(0, 30))
def test_fixed_entries_come_back(size: int, count: int) -> None:
    entries = [i.to_bytes(4, "big").ljust(size, b"x")[-size:] for i in range(count)]
    read = decode_value_dictionary(encode_value_dictionary(dictionary_of(entries, None, size)))
    assert (read.fixed_size, read.count, read.values.tobytes()) == (size, count, b"".join(entries))
    assert read.offsets.tolist() == list(range(0, size * count + 1, size))


GOOD = encode_value_dictionary(dictionary_of([b"pear", b"", b"apple"], 1))


def with_header(position: int, code: str, value: int) -> bytes:
    data = bytearray(GOOD)
    struct.pack_into("<" + code, data, position, value)
    struct.pack_into("<I", data, 124, checksum(bytes(data[:124])))
    return bytes(data)


def with_section(start: int, length: int, position: int, code: str, value: int) -> bytes:
    data = bytearray(GOOD)
    struct.pack_into("<" + code, data, start + 8 + position, value)
    end = start + -(-(length + 76) // 16) * 16
    struct.pack_into("<I", data, end - 4, checksum(bytes(data[start + 8 : start + 8 + length])))
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (GOOD[:127], "has 127 bytes, expected at least 128"),
        (GOOD[:3] + b"\xff" + GOOD[4:], "checksum .* over its header"),
        (GOOD[:140] + b"\xff" + GOOD[141:], "checksum .* over its values"),
        (with_header(0, "B", 5), "is of type 5, expected one whose values have bytes"),
        (with_header(0, "B", 99), "is of type 99"),
        (with_header(1, "I", 4), "has 32 bytes of offsets, expected 5 of 8"),
        (with_header(1, "I", 0xFFFFFFFF), "has 32 bytes of offsets, expected 4294967296 of 8"),
        (with_header(5, "B", 2), "has null id 1 and flag 2"),
        (with_header(6, "I", 3), "has null id 3 and flag 1, expected an id below 3"),
        (with_header(10, "I", 7), "has 9 bytes of values, expected 3 of 7"),
        (with_header(14, "Q", 64), "has its values at 64 to 224"),
        (with_header(22, "Q", 1 << 62), "has its values at 128 to 4611686018427387904"),
        (with_header(30, "Q", 200), "checksum .* over its offsets"),
        (with_section(224, 32, 0, "Q", 1), "has offsets that do not rise from 0 to 9"),
        (with_section(224, 32, 8, "Q", 1 << 63), "has offsets that do not rise from 0 to 9"),
        (with_section(224, 32, 24, "Q", 8), "has offsets that do not rise from 0 to 9"),
        (with_section(336, 8, 4, "I", 3), "sorts an id 3, expected ids below 3"),
    ],
)
def test_bad_dictionaries_are_refused(data: bytes, error: str) -> None:
    with pytest.raises(FormatError, match=error):
        decode_value_dictionary(data)


@given(st.integers(0, len(GOOD) * 8 - 1))
def test_a_flipped_bit_is_noticed_or_lies_in_zeros(bit: int) -> None:
    data = bytearray(GOOD)
    data[bit // 8] ^= 1 << bit % 8
    try:
        read = decode_value_dictionary(bytes(data))
    except FormatError:
        return
    assert encode_value_dictionary(read) == GOOD
