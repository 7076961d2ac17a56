"""Deletion vectors: the blob's frame, and PyIceberg as a second reader."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from skerry.errors import FormatError
from skerry.puffin import PuffinWriter
from skerry.puffin.deletion_vector import (
    BLOB_TYPE,
    CARDINALITY,
    REFERENCED_DATA_FILE,
    decode_deletion_vector,
    encode_deletion_vector,
)

POSITIONS = np.array([1, 3, 5, 7, 9, 1 << 33])
BLOB = encode_deletion_vector(POSITIONS)


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def test_the_frame_is_that_of_the_specification():
    length, magic, stored = BLOB[:4], BLOB[4:8], BLOB[-4:]
    assert int.from_bytes(length, "big") == len(BLOB) - 8
    assert magic == bytes([0xD1, 0xD3, 0x39, 0x64])
    assert int.from_bytes(stored, "big") == zlib.crc32(BLOB[4:-4])
    assert BLOB[8:16] == struct.pack("<Q", 2)
    assert decode_deletion_vector(BLOB).tolist() == POSITIONS.tolist()
    assert decode_deletion_vector(memoryview(BLOB), cardinality=6).tolist() == POSITIONS.tolist()
    assert decode_deletion_vector(encode_deletion_vector(np.array([], np.int64)), cardinality=0).tolist() == []


@pytest.mark.parametrize(
    ("blob", "message", "offset"),
    [
        (b"", "deletion vector: 0 bytes, expected at least 12", 0),
        (BLOB[:11], "deletion vector: 11 bytes, expected at least 12", 0),
        (BLOB[:-1], f"deletion vector: length {len(BLOB) - 8} in a blob of {len(BLOB) - 1} bytes", 0),
        (b"\xff" + BLOB[1:], f"deletion vector: length {0xFF000000 + len(BLOB) - 8} in a blob", 0),
        (BLOB[:4] + b"\x00" + BLOB[5:], "deletion vector: expected magic d1d33964, found 00d33964", 4),
        (BLOB[:-1] + bytes([BLOB[-1] ^ 1]), "deletion vector: CRC-32 .* is stored, .* computed", len(BLOB) - 4),
        (BLOB[:20] + b"\xff" + BLOB[21:], "deletion vector: CRC-32 .* is stored, .* computed", len(BLOB) - 4),
        (framed(BLOB[4:12]), "Roaring bitmap: ends within its number of bitmaps", 12),
        (framed(BLOB[4:-4] + b"!"), "Roaring bitmap: is followed by 1 other bytes", len(BLOB) - 4),
    ],
)
def test_damaged_vectors_are_refused(blob, message, offset):
    with pytest.raises(FormatError, match=f"^{message}") as caught:
        decode_deletion_vector(blob, location="dv.puffin", offset=1000)
    assert (caught.value.location, caught.value.offset) == ("dv.puffin", 1000 + offset)


@pytest.mark.parametrize(
    ("cardinality", "message"), [(7, "6 rows, the metadata says 7"), (4, "5 positions, expected at most 4")]
)
def test_the_metadata_must_know_how_many_rows_are_deleted(cardinality, message):
    with pytest.raises(FormatError, match=message):
        decode_deletion_vector(BLOB, cardinality=cardinality)


def test_pyiceberg_reads_them_from_a_puffin_file():
    writer = PuffinWriter()
    positions = np.unique(np.random.default_rng(0).integers(0, 10_000_000, 50_000))
    writer.add_blob(
        BLOB_TYPE,
        encode_deletion_vector(positions),
        fields=[2147483645],
        snapshot_id=-1,
        sequence_number=-1,
        compression_codec=None,
        properties={REFERENCED_DATA_FILE: "s3://b/data.parquet", CARDINALITY: str(len(positions))},
    )
    (found,) = deletion_vectors_from_puffin_file(PuffinFile(writer.finish()[0]))
    assert found.referenced_data_file == "s3://b/data.parquet"
    assert found.to_vector().to_pylist() == positions.tolist()
