"""The frame of Avro files: headers, blocks, codecs; bytes by hand, round trips, and a closed list of bad files."""

from __future__ import annotations

import io
import json
import zlib
from typing import Any

import avro_oracle
import fastavro
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from skerry.avro import read_batches, read_columns, read_header, write_container
from skerry.avro.container import MAGIC, Block, decode_block, decode_blocks, encode_block, encode_header, encode_long
from skerry.errors import FormatError, SchemaError, UnsupportedError

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}
RECORDS = [{"a": i, "b": "x" * (i % 7)} for i in range(1000)]
CODECS = ["null", "deflate", "snappy", "zstandard"]
SYNC = bytes(range(16))


def long(value: int) -> bytes:
    return encode_long(value)


def text(value: bytes) -> bytes:
    return long(len(value)) + value


def header(schema: Any = SCHEMA, codec: bytes | None = b"null", entries: int | None = None) -> bytes:
    schema_json = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    pairs = [text(b"avro.schema") + text(schema_json)]
    if codec is not None:
        pairs.append(text(b"avro.codec") + text(codec))
    return MAGIC + long(len(pairs) if entries is None else entries) + b"".join(pairs) + b"\0" + SYNC


def block(data: bytes, count: int, *, size: int | None = None, sync: bytes = SYNC) -> bytes:
    return long(count) + long(len(data) if size is None else size) + data + sync


ONE = long(5) + text(b"xyz")

# The examples of the specification (Primitive types) and the edges of 64 bits.
LONGS = [
    (0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (2, "04"), (-64, "7f"), (64, "8001"), (8192, "808001"),
    (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f"),
    (2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "encoded"), LONGS)
def test_longs_both_ways(value: int, encoded: str) -> None:
    assert encode_long(value).hex() == encoded
    data = header() + block(bytes.fromhex(encoded) + text(b""), 1)
    assert read_columns(data)["a"].to_pylist() == [value]


def test_a_file_by_hand() -> None:
    data = header(codec=None) + block(ONE + long(-3) + text("é".encode()), 2) + block(b"", 0) + block(ONE, 1)
    found = read_header(data)
    assert found.codec == "null"
    assert found.sync_marker == SYNC
    assert json.loads(found.schema_json) == SCHEMA
    assert list(found.metadata) == ["avro.schema"]
    assert found.size == len(header(codec=None))
    assert [b.records for b in decode_blocks(memoryview(data), found)] == [2, 0, 1]
    assert read_columns(data).to_pylist() == [{"a": 5, "b": "xyz"}, {"a": -3, "b": "é"}, {"a": 5, "b": "xyz"}]


def test_metadata_in_several_blocks_with_sizes() -> None:
    first = text(b"avro.schema") + text(json.dumps(SCHEMA).encode())
    second = text(b"more") + text(b"\xff\0")
    data = MAGIC + long(-1) + long(len(first)) + first + long(1) + second + b"\0" + SYNC
    found = read_header(data)
    assert found.metadata["more"] == b"\xff\0"
    assert found.codec == "null"


def test_header_only() -> None:
    assert read_columns(header()).num_rows == 0
    assert read_columns(header()).schema.names == ["a", "b"]
    assert list(read_batches(header())) == []


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("block_bytes", [1, 1000, 1 << 20])
def test_round_trip_through_every_codec(codec: str, block_bytes: int) -> None:
    data = write_container(SCHEMA, RECORDS, metadata={"k": "v", "b": b"\0"}, codec=codec, block_bytes=block_bytes)
    found = read_header(data)
    assert found.codec == codec
    assert (found.metadata["k"], found.metadata["b"]) == (b"v", b"\0")
    assert read_columns(data).to_pylist() == RECORDS
    assert avro_oracle.read_records(data) == RECORDS
    blocks = len(list(decode_blocks(memoryview(data), found)))
    assert blocks == {1: 1000, 1 << 20: 1}.get(block_bytes, blocks)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_files_of_fastavro(codec: str) -> None:
    stream = io.BytesIO()
    fastavro.writer(stream, SCHEMA, RECORDS, codec=codec, sync_interval=500, metadata={"k": "v"})
    assert read_columns(stream.getvalue()).to_pylist() == RECORDS
    assert read_columns(memoryview(stream.getvalue())).to_pylist() == RECORDS
    assert read_columns(bytearray(stream.getvalue())).to_pylist() == RECORDS


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_fastavro_reads_ours(codec: str) -> None:
    data = write_container(json.dumps(SCHEMA), iter(RECORDS), codec=codec)
    reader = fastavro.reader(io.BytesIO(data))
    assert list(reader) == RECORDS
    assert reader.metadata["avro.codec"] == codec


def test_schema_goes_into_the_file_as_it_is() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int", "field-id": 7}], "x": {"y": [1]}}
    assert json.loads(read_header(write_container(schema, [])).schema_json) == schema
    assert read_header(write_container(json.dumps(schema), [])).schema_json == json.dumps(schema)


def test_batches_follow_the_blocks() -> None:
    data = write_container(SCHEMA, RECORDS, codec="deflate", block_bytes=100)
    batches = list(read_batches(data, batch_bytes=1000))
    assert len(batches) > 3
    assert pa.Table.from_batches(batches).to_pylist() == RECORDS
    assert len(list(read_batches(data))) == 1


def test_what_zlib_wrappers_leave_behind_a_deflate_stream_is_skipped() -> None:
    """PyIceberg and old fastavro cut one byte of zlib's four-byte checksum, not four."""
    data = header(codec=b"deflate") + block(zlib.compress(ONE)[2:-1], 1)
    assert read_columns(data).to_pylist() == [{"a": 5, "b": "xyz"}]


def test_zstandard_with_and_without_content_size() -> None:
    for with_size in (True, False):
        frame = zstandard.ZstdCompressor(write_content_size=with_size).compress(ONE)
        assert read_columns(header(codec=b"zstandard") + block(frame, 1)).num_rows == 1


@given(st.binary(max_size=200), st.sampled_from(CODECS))
def test_blocks_round_trip(data: bytes, codec: str) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "bytes"}]}
    encoded = encode_header(json.dumps(schema), codec, {}, SYNC) + encode_block(1, text(data), codec, SYNC)
    assert read_columns(encoded).to_pylist() == [{"a": data}]


# --- Writing what does not fit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema", ["{", "5", {"type": "record"}, {"type": "missing"}, {"type": "array"}, {"type": "fixed", "name": "f"}]
)
def test_no_schema(schema: Any) -> None:
    with pytest.raises(SchemaError, match="not an Avro schema"):
        write_container(schema, [])


@pytest.mark.parametrize(
    "record", [{}, {"a": "x", "b": "y"}, {"a": 1}, {"a": 1, "b": None}, None, {"a": 2**70, "b": ""}]
)
def test_record_that_does_not_fit(record: Any) -> None:
    with pytest.raises(SchemaError, match="record 1 does not fit the Avro schema"):
        write_container(SCHEMA, [RECORDS[0], record])


def test_unknown_codec_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="Avro codec 'lzma', expected one of null, deflate, snappy, zstandard"):
        write_container(SCHEMA, RECORDS, codec="lzma")
    assert read_header(header(codec=b"bzip2")).codec == "bzip2"
    with pytest.raises(UnsupportedError, match="Avro codec 'bzip2'") as caught:
        read_columns(header(codec=b"bzip2") + block(b"", 0), location="f.avro")
    assert caught.value.location == "f.avro"


# --- Bad files --------------------------------------------------------------------------------------------------------

OK = header()
BAD_FILES: list[tuple[str, bytes, str, int]] = [
    ("empty", b"", "not an Avro file: expected magic 4f626a01, found no bytes", 0),
    ("other file", b"PAR1....", "not an Avro file: expected magic 4f626a01, found 50415231", 0),
    ("version 2", b"Obj\x02" + OK[4:], "not an Avro file: expected magic 4f626a01, found 4f626a02", 0),
    ("magic only", MAGIC, "ends within its number of metadata entries", 4),
    ("endless count", MAGIC + b"\x80" * 20, "number of metadata entries does not fit 64 bits", 4),
    ("tenth byte", MAGIC + b"\x80" * 9 + b"\x02", "number of metadata entries does not fit 64 bits", 4),
    ("many entries", header(entries=2**60), "metadata key has -1 bytes", -1),
    ("negative key", MAGIC + long(1) + long(-1), "metadata key has -1 bytes, expected 0 to 0", 5),
    ("long key", MAGIC + long(1) + long(9) + b"abc", "metadata key has 9 bytes, expected 0 to 3", 5),
    ("key not UTF-8", MAGIC + long(1) + text(b"\xff") + text(b"") + b"\0" + SYNC, "metadata key is not UTF-8", 5),
    ("huge value", MAGIC + long(1) + text(b"k") + long(2**62), f"metadata entry 'k' has {2**62} bytes", 7),
    ("no sync marker", OK[:-1], "ends within its sync marker", len(OK) - 1),
    ("no schema", MAGIC + b"\0" + SYNC, "header has no entry 'avro.schema'", 21),
    ("schema not UTF-8", header(b"\xff"), "is not UTF-8", -1),
    ("codec not UTF-8", header(codec=b"\xff"), "is not UTF-8", -1),
    ("negative records", OK + block(ONE, -1), "block has -1 records, expected at least 0", len(OK)),
    ("negative size", OK + block(ONE, 1, size=-1), "block has -1 bytes, expected 0 to", len(OK) + 1),
    ("size beyond the end", OK + block(ONE, 1, size=99), "block has 99 bytes, expected 0 to", len(OK) + 1),
    ("huge size", OK + block(ONE, 1, size=2**62), f"block has {2**62} bytes", len(OK) + 1),
    ("wrong marker", OK + block(ONE, 1, sync=bytes(16)), "not followed by the sync marker", len(OK) + 2 + len(ONE)),
    ("cut marker", OK + block(ONE, 1)[:-1], "block has 5 bytes, expected 0 to 4", len(OK) + 1),
    ("garbage behind", OK + block(ONE, 1) + b"\x80", "ends within its number of records", -1),
    ("half a record", OK + block(ONE[:-1], 1), "Avro field 'b': the block ends within the value", len(OK) + 3),
    ("more records", OK + block(ONE, 2), "Avro field 'a': the block ends within the value", len(OK) + 2 + len(ONE)),
    ("fewer records", OK + block(ONE * 2, 1), "the block goes on after its last record", len(OK) + 2 + len(ONE)),
    (
        "record count",
        OK + block(ONE, 2**62),
        "more records are claimed than the block can hold",
        len(OK) + 11,
    ),
    (
        "long of 11 bytes",
        OK + block(b"\xff" * 10 + b"\x01\0", 1),
        "field 'a': the integer does not fit 64 bits",
        len(OK) + 2,
    ),
    (
        "long of 65 bits",
        OK + block(b"\xff" * 9 + b"\x02\0", 1),
        "field 'a': the integer does not fit 64 bits",
        len(OK) + 2,
    ),
    ("negative length", OK + block(b"\0\x01", 1), "Avro field 'b': the length is negative", len(OK) + 3),
    ("length beyond", OK + block(b"\0\x7e", 1), "Avro field 'b': the block ends within the value", len(OK) + 3),
    ("not UTF-8", OK + block(b"\0" + text(b"a\xc0\x80"), 1), "Avro field 'b': the string is not UTF-8", len(OK) + 3),
]


@pytest.mark.parametrize(("data", "message", "offset"), [case[1:] for case in BAD_FILES], ids=[c[0] for c in BAD_FILES])
def test_bad_file(data: bytes, message: str, offset: int) -> None:
    with pytest.raises(FormatError) as caught:
        read_columns(data, location="f.avro")
    assert message in caught.value.message
    assert caught.value.location == "f.avro"
    assert caught.value.rule is not None
    assert caught.value.rule.startswith("Avro spec, ")
    assert caught.value.offset is not None
    assert offset in (-1, caught.value.offset)


SNAPPY = pa.Codec("snappy").compress(ONE, asbytes=True)
CRC = zlib.crc32(ONE).to_bytes(4, "big")
ZSTD = zstandard.ZstdCompressor().compress(ONE)
BAD_BLOCKS: list[tuple[str, str, bytes, str]] = [
    ("deflate cut", "deflate", zlib.compress(ONE)[2:-5], "deflate stream is cut short"),
    ("deflate garbage", "deflate", b"\xff\xff\xff", "not a deflate stream"),
    ("deflate empty", "deflate", b"", "deflate stream is cut short"),
    ("deflate and more", "deflate", zlib.compress(ONE)[2:] + b"x", "deflate stream is followed by 5 other bytes"),
    ("zlib", "deflate", zlib.compress(ONE), "not a deflate stream"),
    ("snappy wrong checksum", "snappy", SNAPPY + bytes(4), "snappy data does not have its checksum"),
    ("snappy little-endian checksum", "snappy", SNAPPY + CRC[::-1], "snappy data does not have its checksum"),
    ("snappy cut", "snappy", SNAPPY[:-1] + CRC, "snappy data is damaged"),
    ("snappy empty", "snappy", b"", "snappy data without its size"),
    ("snappy only a checksum", "snappy", CRC, "snappy data without its size"),
    ("snappy endless size", "snappy", b"\xff" * 9 + CRC, "snappy data without its size"),
    ("snappy bomb", "snappy", b"\xff\xff\xff\x7f" + bytes(9), "claims 268435455 bytes, expected at most"),
    ("zstandard cut", "zstandard", ZSTD[:-1], "Zstandard frame"),
    ("zstandard empty", "zstandard", b"", "not a Zstandard frame"),
    ("zstandard and more", "zstandard", ZSTD + b"\0", "Zstandard frame"),
    ("two frames", "zstandard", ZSTD * 2, "Zstandard frame"),
]


@pytest.mark.parametrize(
    ("codec", "data", "message"), [case[1:] for case in BAD_BLOCKS], ids=[case[0] for case in BAD_BLOCKS]
)
def test_bad_block(codec: str, data: bytes, message: str) -> None:
    start = header(codec=codec.encode())
    with pytest.raises(FormatError) as caught:
        read_columns(start + block(data, 1), location="f.avro")
    assert caught.value.message.startswith(f"block in codec {codec}: ")
    assert message in caught.value.message
    assert caught.value.location == "f.avro"
    assert caught.value.rule is not None
    assert caught.value.offset is not None
    assert len(start) < caught.value.offset <= len(start) + 2 + len(data)


def test_error_in_a_compressed_block_names_the_byte_within_it() -> None:
    start = header(codec=b"deflate")
    stored = zlib.compress(ONE + b"\0\x01", wbits=-15)
    with pytest.raises(
        FormatError, match="Avro field 'b' at byte 6 of the decompressed block: the length is negative"
    ) as caught:
        read_columns(start + block(stored, 2))
    assert caught.value.offset == len(start) + 2


def test_zstandard_bomb_is_refused() -> None:
    """A file may not blow up to more than 16 MiB and 1,024 times its bytes."""
    stored = zstandard.ZstdCompressor().compress(bytes(100 << 20))
    assert len(stored) < 20_000
    with pytest.raises(FormatError, match="Zstandard frame holds 104857600 bytes, expected at most"):
        read_columns(header(codec=b"zstandard") + block(stored, 1))


@pytest.mark.parametrize("codec", CODECS)
def test_no_block_takes_more_than_it_may(codec: str) -> None:
    start = header(codec=codec.encode())
    data = memoryview(start + encode_block(1, bytes(1000), codec, SYNC))
    (found,) = decode_blocks(data, read_header(data))
    assert bytes(decode_block(data, found, codec, max_bytes=1000)) == bytes(1000)
    for max_bytes in (999, 1, 0):
        with pytest.raises(FormatError):
            decode_block(data, found, codec, max_bytes=max_bytes)


# --- Damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_every_truncation_is_refused(codec: str) -> None:
    data = write_container(SCHEMA, RECORDS[:20], codec=codec, block_bytes=60)
    found = read_header(data)
    whole = {found.size} | {b.offset + b.size + 16 for b in decode_blocks(memoryview(data), found)}
    for size in range(len(data)):
        if size in whole:
            assert read_columns(data[:size]).num_rows < 20
            continue
        with pytest.raises(FormatError):
            read_columns(data[:size])


@pytest.mark.parametrize("codec", CODECS)
def test_every_flipped_bit_is_harmless_or_refused(codec: str) -> None:
    data = write_container(SCHEMA, RECORDS[:20], codec=codec, block_bytes=60)
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            read_columns(bytes(damaged))
        except (FormatError, UnsupportedError):
            continue


def test_blocks_are_plain_records() -> None:
    data = header() + block(ONE, 1)
    assert list(decode_blocks(memoryview(data), read_header(data))) == [Block(1, len(header()) + 2, len(ONE))]
