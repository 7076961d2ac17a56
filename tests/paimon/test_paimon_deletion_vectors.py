from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.paimon.manifests.deletion_vectors import VectorBits, decode_vector, encode_vectors, find_vector
from skerry.paimon.manifests.index_manifest import DeletionVectorMeta

BITS = pytest.mark.parametrize("bits", list(VectorBits))


def positions(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@BITS
@given(
    deleted=st.dictionaries(st.text(min_size=1), st.lists(st.integers(0, 1 << 20), unique=True).map(sorted), max_size=4)
)
def test_what_is_written_is_read(bits: VectorBits, deleted: dict) -> None:
    data, ranges = encode_vectors({name: np.array(rows, np.int64) for name, rows in deleted.items()}, bits)
    assert [meta.data_file_name for meta in ranges] == list(deleted)
    for meta in ranges:
        assert meta.cardinality == len(deleted[meta.data_file_name])
        assert find_vector(data, meta).tolist() == deleted[meta.data_file_name]


def test_layout_of_32_bits() -> None:
    data, (meta,) = encode_vectors({"f": positions(3, 70_000)})
    assert data[0] == 1
    assert meta.offset == 1
    length = struct.unpack_from(">I", data, 1)[0]
    assert meta.length == length
    assert len(data) == 1 + 4 + length + 4
    assert struct.unpack_from(">I", data, 5)[0] == 1581511376
    assert struct.unpack_from(">I", data, 5 + length)[0] == zlib.crc32(data[5 : 5 + length])


def test_layout_of_64_bits() -> None:
    data, (meta,) = encode_vectors({"f": positions(3, 1 << 40)}, VectorBits.BITS_64)
    length = struct.unpack_from(">I", data, 1)[0]
    assert meta.length == length + 8
    assert len(data) == 1 + meta.length
    assert struct.unpack_from("<I", data, 5)[0] == 1681511377
    assert decode_vector(data[1:], meta.length).tolist() == [3, 1 << 40]


def test_the_second_vector_lies_behind_the_first() -> None:
    data, ranges = encode_vectors({"a": positions(1), "b": positions(2, 3)})
    assert ranges[1].offset == ranges[0].offset + ranges[0].length + 8
    assert decode_vector(data[ranges[1].offset :], ranges[1].length).tolist() == [2, 3]


def test_32_bits_hold_no_more() -> None:
    with pytest.raises(SchemaError, match="between 0 and 4294967295"):
        encode_vectors({"f": positions(1 << 32)})


def damaged(change: str) -> tuple[bytes, int, int | None]:
    data, (meta,) = encode_vectors({"f": positions(1, 2, 5)})
    vector = bytearray(data[1:])
    stated, cardinality = meta.length, meta.cardinality
    match change:
        case "short":
            vector = vector[:11]
        case "magic":
            vector[4] ^= 1
        case "length":
            vector[3] += 1
        case "stated":
            stated += 1
        case "truncated":
            vector = vector[:-1]
        case "crc":
            vector[-1] ^= 1
        case "bitmap":
            vector[9] ^= 255
            vector[-4:] = struct.pack(">I", zlib.crc32(vector[4:-4]))
        case "cardinality":
            cardinality = 4
        case "fewer":
            cardinality = 2
    return bytes(vector), stated, cardinality


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("short", "11 bytes, expected at least 12"),
        ("magic", "expected magic 5e43f2d0 or d1d33964, found 5f43f2d0"),
        ("length", "expected 26 by the index manifest's 26 bytes"),
        ("stated", "length 26, expected 27 by the index manifest's 27 bytes"),
        ("truncated", "length 26 in 33 bytes"),
        ("crc", "CRC-32"),
        ("bitmap", "cookie"),
        ("cardinality", "3 rows, expected 4 by the index manifest"),
        ("fewer", "3 positions, expected at most 2"),
    ],
)
def test_damage_is_told(change: str, message: str) -> None:
    vector, stated, cardinality = damaged(change)
    with pytest.raises(FormatError, match=message):
        decode_vector(vector, stated, cardinality=cardinality, location="index-0", offset=1)


def test_every_flipped_bit_is_told() -> None:
    data, (meta,) = encode_vectors({"f": positions(1, 2, 5)})
    for bit in range(8 * len(data[1:])):
        vector = bytearray(data[1:])
        vector[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError):
            decode_vector(vector, meta.length)


def test_a_vector_lies_within_its_file() -> None:
    data, (meta,) = encode_vectors({"f": positions(1)})
    for offset, length in ((0, meta.length), (1, len(data)), (len(data) + 1, 0), (1, -1)):
        with pytest.raises(FormatError, match="in a file of"):
            find_vector(data, DeletionVectorMeta("f", offset, length), location="index-0")


def test_other_versions_are_refused() -> None:
    data, (meta,) = encode_vectors({"f": positions(1)})
    with pytest.raises(UnsupportedError, match="version 2"):
        find_vector(b"\x02" + data[1:], meta)
