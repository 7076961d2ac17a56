"""AES GCM streams and key metadata: both ways, in parts, and what is wrong with them."""

from __future__ import annotations

import dataclasses
import os

import pytest

from skerry.encryption import (
    KeyMetadata,
    decode_gcm_stream,
    decode_key_metadata,
    encode_gcm_stream,
    encode_key_metadata,
    read_gcm_range,
)
from skerry.errors import FormatError, UnsupportedError
from skerry.storage import Storage

BLOCK = 1 << 20
STORED = BLOCK + 28
KEY = KeyMetadata(b"0123456789abcdef", b"prefix of a file")


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
@pytest.mark.parametrize("key_bytes", [16, 24, 32])
def test_streams_both_ways(size, key_bytes):
    data, key = os.urandom(size), KeyMetadata(os.urandom(key_bytes), os.urandom(16))
    stream = encode_gcm_stream(data, key)
    assert stream[:8] == b"AGS1" + BLOCK.to_bytes(4, "little")
    assert len(stream) == 8 + size + 28 * max(1, -(-size // BLOCK))
    assert decode_gcm_stream(stream, key) == data
    assert decode_gcm_stream(stream, dataclasses.replace(key, file_length=len(stream))) == data
    assert encode_gcm_stream(data, key) != stream  # never the same nonce


@pytest.mark.parametrize("has_length", [False, True])
def test_parts_of_a_stream(has_length):
    data = os.urandom(2 * BLOCK + 1000)
    stream = encode_gcm_stream(data, KEY)
    storage, location = Storage(), "memory://streams/parts"
    storage.write(location, stream, overwrite=True)
    key = dataclasses.replace(KEY, file_length=len(stream) if has_length else None)
    for offset, length in [(0, 0), (0, 1), (BLOCK - 1, 2), (BLOCK, BLOCK), (5, 2 * BLOCK), (2 * BLOCK, 1000), (9, 9)]:
        assert read_gcm_range(storage, location, key, offset, length) == data[offset : offset + length]
    for offset, length in [(-1, 1), (0, len(data) + 1), (len(data), 1), (0, -1)]:
        with pytest.raises(FormatError, match=f"cannot read {length} bytes from byte {offset} of {len(data)}"):
            read_gcm_range(storage, location, key, offset, length)


def test_only_the_blocks_of_a_part_are_read():
    storage, location = Storage(), "memory://streams/blocks"
    stream = encode_gcm_stream(bytes(8 * BLOCK), KEY)
    storage.write(location, stream, overwrite=True)
    before = storage.metrics.bytes_read
    read_gcm_range(storage, location, dataclasses.replace(KEY, file_length=len(stream)), 5 * BLOCK + 7, 100)
    assert storage.metrics.bytes_read - before == 8 + STORED


def blocks_of(stream: bytes) -> list[bytes]:
    return [stream[8:][start : start + STORED] for start in range(0, len(stream) - 8, STORED)]


STREAM = encode_gcm_stream(os.urandom(2 * BLOCK + 500), KEY)
FIRST, SECOND, LAST = blocks_of(STREAM)
DAMAGED = {
    "nothing": (b"", "does not begin with AGS1"),
    "half a header": (STREAM[:6], "does not begin with AGS1"),
    "only a header": (STREAM[:8], "ends within a block"),
    "another magic": (b"AGS2" + STREAM[4:], "does not begin with AGS1"),
    "another block length": (STREAM[:4] + b"\0\0\1\0" + STREAM[8:], "blocks of 65536 bytes"),
    "swapped blocks": (STREAM[:8] + SECOND + FIRST + LAST, "cannot be decrypted"),
    "a repeated block": (STREAM[:8] + FIRST + FIRST + LAST, "cannot be decrypted"),
    "a block left out": (STREAM[:8] + FIRST + LAST, "cannot be decrypted"),
    "a block of another file": (
        STREAM[:8] + FIRST + blocks_of(encode_gcm_stream(bytes(2 * BLOCK), KeyMetadata(KEY.key, b"other")))[1] + LAST,
        "cannot be decrypted",
    ),
    "a nonce": (STREAM[:8] + bytes([STREAM[8] ^ 1]) + STREAM[9:], "cannot be decrypted"),
    "a ciphertext": (STREAM[:50] + bytes([STREAM[50] ^ 1]) + STREAM[51:], "cannot be decrypted"),
    "a tag": (STREAM[:-1] + bytes([STREAM[-1] ^ 1]), "cannot be decrypted"),
    "cut in the last block": (STREAM[:-1], "cannot be decrypted"),
    "cut in the last tag": (STREAM[: 8 + 2 * STORED + 20], "ends within a block"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_streams(case):
    data, match = DAMAGED[case]
    with pytest.raises(FormatError, match=match) as caught:
        decode_gcm_stream(data, KEY, location="s3://lake/file")
    assert caught.value.location == "s3://lake/file"
    assert KEY.key.decode() not in str(caught.value)


def test_lengths_from_a_trusted_place():
    whole = dataclasses.replace(KEY, file_length=len(STREAM))
    cut = STREAM[: 8 + 2 * STORED]
    assert len(decode_gcm_stream(cut, KEY)) == 2 * BLOCK  # nothing in the file tells
    for data in (cut, STREAM + LAST, STREAM + b"\0"):
        with pytest.raises(FormatError, match=f"has {len(data)} bytes, its key metadata says {len(STREAM)}"):
            decode_gcm_stream(data, whole)
    storage, location = Storage(), "memory://streams/cut"
    storage.write(location, cut, overwrite=True)
    with pytest.raises(FormatError):
        read_gcm_range(storage, location, whole, 2 * BLOCK, 10)


@pytest.mark.parametrize("key", [KeyMetadata(b"another key, 16!", KEY.aad_prefix), KeyMetadata(KEY.key, b"another")])
def test_another_key_or_prefix(key):
    with pytest.raises(FormatError, match="changed, or encrypted with another key"):
        decode_gcm_stream(STREAM, key)


# ---- key metadata ----


@pytest.mark.parametrize("length", [None, 0, 63, 64, 1 << 40])
@pytest.mark.parametrize("key_bytes", [16, 24, 32])
def test_key_metadata_both_ways(key_bytes, length):
    key = KeyMetadata(os.urandom(key_bytes), os.urandom(16), length)
    assert decode_key_metadata(encode_key_metadata(key)) == key


def test_key_metadata_without_a_prefix():
    assert decode_key_metadata(b"\x01\x20" + KEY.key + b"\x00\x00") == KeyMetadata(KEY.key)


GOOD = encode_key_metadata(dataclasses.replace(KEY, file_length=1000))
MALFORMED = {
    "no key": (b"\x01", "ends within a number"),
    "a short key": (b"\x01\x02k\x00\x00", "a key of 1 bytes"),
    "an empty key": (b"\x01\x00\x00\x00", "a key of 0 bytes"),
    "a key beyond the end": (b"\x01\x40" + KEY.key, "32 bytes wanted, 16 left"),
    "a negative length": (b"\x01\x01" + KEY.key, "-1 bytes wanted"),
    "an endless number": (b"\x01" + b"\xff" * 20, "more than 10 bytes"),
    "another branch": (b"\x01\x20" + KEY.key + b"\x04", "branch 2 of a union of 2"),
    "bytes left over": (GOOD + b"\0", "1 bytes are left over"),
    "a negative file": (b"\x01\x20" + KEY.key + b"\x00\x02\x01", "a file of -1 bytes"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_key_metadata(case):
    data, match = MALFORMED[case]
    with pytest.raises(FormatError, match=match) as caught:
        decode_key_metadata(data, location="f")
    assert KEY.key.decode() not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"\0", b"\x02" + GOOD[1:], b"k"])
def test_key_metadata_of_another_scheme(data):
    with pytest.raises(UnsupportedError, match="expected 1"):
        decode_key_metadata(data, location="f")


@pytest.mark.parametrize("end", range(len(GOOD)))
def test_key_metadata_that_ends_too_early(end):
    with pytest.raises((FormatError, UnsupportedError)):
        decode_key_metadata(GOOD[:end])


def test_keys_are_not_printed():
    assert repr(dataclasses.replace(KEY, file_length=3)) == "KeyMetadata(file_length=3)"
