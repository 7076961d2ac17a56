"""The bytes of Puffin files, without I/O: tables of bytes, round trips, and a closed list of bad files."""

from __future__ import annotations

import json
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.compression import compress_lz4_frame, compress_zstd
from skerry.errors import FormatError, UnsupportedError
from skerry.puffin.layout import (
    MAGIC,
    check_magic,
    decode_blob,
    decode_footer,
    decode_footer_trailer,
    encode_blob,
    encode_footer,
    max_blob_bytes,
)
from skerry.puffin.metadata import BlobMetadata, FileMetadata, decode_file_metadata, encode_file_metadata

BLOB = {"type": "x", "fields": [1], "snapshot-id": 2, "sequence-number": 3, "offset": 4, "length": 0}


def footer_of(payload: bytes, *, flags: bytes = bytes(4), size: int | None = None, magic: bytes = MAGIC) -> bytes:
    return MAGIC + payload + struct.pack("<i", len(payload) if size is None else size) + flags + magic


def decode_file(data: bytes, *, location: str | None = None) -> FileMetadata:
    """The steps of a reader, on a file that is in memory as a whole."""
    check_magic(data[: len(MAGIC)], 0, location=location)
    trailer = decode_footer_trailer(data, file_size=len(data), location=location)
    return decode_footer(data[-trailer.footer_size :], file_size=len(data), location=location)


def document(**changes: Any) -> dict[str, Any]:
    """A footer document with one blob, with fields of the blob changed or (by ...) left out."""
    blob = {**BLOB, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return {"blobs": [{name: value for name, value in blob.items() if value is not ...}]}


# (metadata, payload) for both directions.
PAYLOADS: list[tuple[FileMetadata, str]] = [
    (FileMetadata(()), '{"blobs":[]}'),
    (
        FileMetadata((), {"created-by": "Trino version 381"}),
        '{"blobs":[],"properties":{"created-by":"Trino version 381"}}',
    ),
    (
        FileMetadata((BlobMetadata("é", (3, 1, 2), -1, 2**63 - 1, 4, 9, "zstd", {"ndv": "12"}),)),
        (
            '{"blobs":[{"type":"é","fields":[3,1,2],"snapshot-id":-1,"sequence-number":9223372036854775807,'
            '"offset":4,"length":9,"compression-codec":"zstd","properties":{"ndv":"12"}}]}'
        ),
    ),
    (
        FileMetadata(
            (BlobMetadata("", (), 0, 0, 4, 0, "lz4"), BlobMetadata("b", (-(2**31), 2**31 - 1), 0, -(2**63), 4, 0))
        ),
        (
            '{"blobs":[{"type":"","fields":[],"snapshot-id":0,"sequence-number":0,"offset":4,"length":0,'
            '"compression-codec":"lz4"},{"type":"b","fields":[-2147483648,2147483647],"snapshot-id":0,'
            '"sequence-number":-9223372036854775808,"offset":4,"length":0}]}'
        ),
    ),
]


@pytest.mark.parametrize(("metadata", "payload"), PAYLOADS)
def test_payload_both_ways(metadata: FileMetadata, payload: str) -> None:
    assert encode_file_metadata(metadata) == payload.encode()
    assert decode_file_metadata(payload.encode()) == metadata


def test_smallest_file_by_hand() -> None:
    assert MAGIC == b"\x50\x46\x41\x31"
    data = bytes.fromhex("50464131504641317b22626c6f6273223a5b5d7d0c0000000000000050464131")
    assert decode_file(data) == FileMetadata(())
    assert MAGIC + encode_footer(FileMetadata(())) == data
    assert decode_footer_trailer(data, file_size=len(data)).footer_size == len(data) - 4


def test_flags_are_zero_but_for_the_compressed_payload() -> None:
    metadata = FileMetadata((), {"created-by": "é" * 100})
    assert encode_footer(metadata)[-8:-4] == bytes(4)
    compressed = encode_footer(metadata, compress=True)
    assert compressed[-8:-4] == b"\x01\x00\x00\x00"
    assert compressed[4:8] == bytes.fromhex("04224d18")  # an LZ4 frame ...
    assert compressed[8] & 0x08  # ... with the content size present
    assert int.from_bytes(compressed[-12:-8], "little", signed=True) == len(compressed) - 16
    assert decode_footer(compressed, file_size=len(compressed) + 4) == metadata


def test_unknown_fields_are_ignored_and_nulls_are_absent() -> None:
    text = json.dumps(
        {
            "blobs": [{**BLOB, "compression-codec": None, "properties": None, "later": [1.5, {}]}],
            "properties": None,
            "new": 1,
        }
    )
    assert decode_file_metadata(text.encode()) == FileMetadata((BlobMetadata("x", (1,), 2, 3, 4, 0),))


def test_any_json_layout_is_read() -> None:
    text = '\n { "properties" : {"a":"\\u00e9\\ud83d\\ude00"} , "blobs" : [ ] } \t'
    assert decode_file_metadata(text.encode()) == FileMetadata((), {"a": "é😀"})


BAD_PAYLOADS: list[tuple[str, bytes | str | dict[str, Any], str]] = [
    ("empty", b"", "footer payload is not JSON: Expecting value"),
    ("not UTF-8", b'{"blobs":[],"properties":{"a":"\xff"}}', "footer payload is not UTF-8: invalid start byte"),
    ("surrogate in UTF-8", b'{"blobs":[],"properties":{"a":"\xed\xa0\x80"}}', "footer payload is not UTF-8"),
    (
        "escaped lone surrogate",
        '{"blobs":[],"properties":{"a":"\\ud800"}}',
        "FileMetadata.properties['a']: expected a string of Unicode",
    ),
    ("UTF-16", '{"blobs":[]}'.encode("utf-16"), "footer payload is not UTF-8"),
    ("byte order mark", '\ufeff{"blobs":[]}', "footer payload is not JSON: Unexpected UTF-8 BOM"),
    ("trailing garbage", '{"blobs":[]}{', "footer payload is not JSON: Extra data"),
    ("NUL padding", b'{"blobs":[]}\x00', "footer payload is not JSON: Extra data"),
    ("cut short", '{"blobs":[', "footer payload is not JSON"),
    ("deep", "[" * 200_000, "footer payload nests too deeply"),
    ("a list", "[]", "FileMetadata: expected a JSON object, found []"),
    ("a number", "1", "FileMetadata: expected a JSON object, found 1"),
    ("no blobs", "{}", "FileMetadata: required field 'blobs' is missing"),
    ("null blobs", '{"blobs":null}', "FileMetadata: required field 'blobs' is null"),
    ("blobs is an object", '{"blobs":{}}', "FileMetadata.blobs: expected a JSON list, found {}"),
    ("blob is a string", '{"blobs":["x"]}', "blobs[0]: expected a JSON object, found 'x'"),
    ("blobs twice", '{"blobs":[],"blobs":[]}', "footer payload gives the field 'blobs' twice"),
    ("field of a blob twice", '{"blobs":[{"type":"a","type":"a"}]}', "footer payload gives the field 'type' twice"),
    ("property twice", '{"blobs":[],"properties":{"a":"1","a":"1"}}', "footer payload gives the field 'a' twice"),
    (
        "properties is a list",
        '{"blobs":[],"properties":[]}',
        "FileMetadata.properties: expected a JSON object with string values, found []",
    ),
    (
        "property is a number",
        '{"blobs":[],"properties":{"a":1}}',
        "FileMetadata.properties['a']: expected a JSON string, found 1",
    ),
    (
        "property is null",
        '{"blobs":[],"properties":{"a":null}}',
        "FileMetadata.properties['a']: expected a JSON string, found None",
    ),
    *[(f"no {name}", document(**{name: ...}), f"blobs[0]: required field {name!r} is missing") for name in BLOB],
    *[(f"null {name}", document(**{name: None}), f"blobs[0]: required field {name!r} is null") for name in BLOB],
    ("type is a number", document(type=1), "blobs[0].type: expected a JSON string, found 1"),
    ("fields is a number", document(fields=1), "blobs[0].fields: expected a JSON list, found 1"),
    ("field is a string", document(fields=[1, "2"]), "blobs[0].fields[1]: expected an integer of 32 bits, found '2'"),
    ("field is a float", document(fields=[1.0]), "blobs[0].fields[0]: expected an integer of 32 bits, found 1.0"),
    ("field is a boolean", document(fields=[True]), "blobs[0].fields[0]: expected an integer of 32 bits, found True"),
    (
        "field is beyond int",
        document(fields=[2**31]),
        "blobs[0].fields[0]: expected an integer of 32 bits, found 2147483648",
    ),
    (
        "snapshot is a boolean",
        document(snapshot_id=False),
        "blobs[0].snapshot-id: expected an integer of 64 bits, found False",
    ),
    (
        "snapshot is beyond long",
        document(snapshot_id=2**63),
        "blobs[0].snapshot-id: expected an integer of 64 bits, found 9223372036854775808",
    ),
    (
        "sequence below long",
        document(sequence_number=-(2**63) - 1),
        "blobs[0].sequence-number: expected an integer of 64 bits",
    ),
    ("offset is a float", document(offset=4.0), "blobs[0].offset: expected an integer of 64 bits, found 4.0"),
    ("length is a string", document(length="0"), "blobs[0].length: expected an integer of 64 bits, found '0'"),
    ("codec is a number", document(compression_codec=0), "blobs[0].compression-codec: expected a JSON string, found 0"),
    (
        "blob property is a boolean",
        document(properties={"ndv": True}),
        "blobs[0].properties['ndv']: expected a JSON string, found True",
    ),
    ("NaN", '{"blobs":[],"x":NaN}', "footer payload is not JSON: NaN is no JSON value"),
    ("Infinity", '{"blobs":[],"x":-Infinity}', "footer payload is not JSON: -Infinity is no JSON value"),
    (
        "very long integer",
        '{"blobs":[],"x":' + "9" * 10_000 + "}",
        "footer payload is not readable JSON: Exceeds the limit",
    ),
]


@pytest.mark.parametrize(("payload", "message"), [case[1:] for case in BAD_PAYLOADS], ids=[c[0] for c in BAD_PAYLOADS])
def test_bad_payload(payload: bytes | str | dict[str, Any], message: str) -> None:
    text = json.dumps(payload) if isinstance(payload, dict) else payload
    raw = text.encode() if isinstance(text, str) else text
    with pytest.raises(FormatError) as caught:
        decode_file_metadata(raw, location="f.puffin", offset=8)
    assert caught.value.message.startswith(message)
    assert caught.value.location == "f.puffin"
    assert caught.value.rule == "Puffin spec, Footer Payload"
    assert caught.value.offset is not None
    assert 8 <= caught.value.offset <= 8 + len(raw)


def test_json_error_tells_the_byte() -> None:
    with pytest.raises(FormatError) as caught:
        decode_file_metadata('{"é":1,}'.encode(), offset=100)
    assert caught.value.offset == 100 + len('{"é":1,'.encode())


OK = b'{"blobs":[]}'
BAD_FILES: list[tuple[str, bytes, type[Exception], str, int | None]] = [
    ("empty", b"", FormatError, "not a Puffin file: expected magic 50464131, found no bytes", 0),
    ("magic only", MAGIC, FormatError, "Puffin file of 4 bytes, expected at least 20", 4),
    ("19 bytes", (MAGIC + footer_of(b""))[:19], FormatError, "Puffin file of 19 bytes, expected at least 20", 19),
    (
        "first magic",
        b"PAR1" + footer_of(OK),
        FormatError,
        "not a Puffin file: expected magic 50464131, found 50415231",
        0,
    ),
    (
        "last magic",
        MAGIC + footer_of(OK, magic=b"PFA2"),
        FormatError,
        "not a Puffin file: expected magic 50464131, found 50464132",
        28,
    ),
    (
        "footer magic",
        MAGIC + b"pfa1" + footer_of(OK)[4:],
        FormatError,
        "not a Puffin file: expected magic 50464131, found 70666131",
        4,
    ),
    ("negative size", MAGIC + footer_of(OK, size=-1), FormatError, "footer payload size is -1, expected 0 to 12", 20),
    (
        "least size",
        MAGIC + footer_of(OK, size=-(2**31)),
        FormatError,
        "footer payload size is -2147483648, expected 0 to 12",
        20,
    ),
    ("oversized", MAGIC + footer_of(OK, size=13), FormatError, "footer payload size is 13, expected 0 to 12", 20),
    ("undersized", MAGIC + footer_of(OK, size=11), FormatError, "not a Puffin file: expected magic", 5),
    ("greatest size", MAGIC + footer_of(OK, size=2**31 - 1), FormatError, "footer payload size is 2147483647", 20),
    (
        "flag bit 1",
        MAGIC + footer_of(OK, flags=b"\x02\0\0\0"),
        UnsupportedError,
        "footer flags with unknown meaning are set: byte 0 bit 1",
        24,
    ),
    (
        "flags in all bytes",
        MAGIC + footer_of(OK, flags=b"\x81\x01\0\x80"),
        UnsupportedError,
        "footer flags with unknown meaning are set: byte 0 bit 7, byte 1 bit 0, byte 3 bit 7",
        24,
    ),
    (
        "flag without LZ4",
        MAGIC + footer_of(OK, flags=b"\x01\0\0\0"),
        FormatError,
        "footer payload: not an LZ4 frame",
        8,
    ),
    ("LZ4 without flag", MAGIC + footer_of(compress_lz4_frame(OK)), FormatError, "footer payload is not ", None),
    (
        "LZ4 without content size",
        MAGIC + footer_of(compress_lz4_frame(OK, content_size=False), flags=b"\x01\0\0\0"),
        FormatError,
        "footer payload: LZ4 frame does not state the size",
        12,
    ),
    (
        "LZ4 with trailing bytes",
        MAGIC + footer_of(compress_lz4_frame(OK) + b"\0", flags=b"\x01\0\0\0"),
        FormatError,
        "footer payload: LZ4 frame is followed by 1 other bytes",
        None,
    ),
    (
        "zstd footer",
        MAGIC + footer_of(compress_zstd(OK), flags=b"\x01\0\0\0"),
        FormatError,
        "footer payload: not an LZ4 frame",
        8,
    ),
    ("trailing byte", MAGIC + footer_of(OK) + b"\0", FormatError, "not a Puffin file: expected magic", 29),
]


@pytest.mark.parametrize(
    ("data", "error", "message", "offset"), [case[1:] for case in BAD_FILES], ids=[case[0] for case in BAD_FILES]
)
def test_bad_file(data: bytes, error: type[Exception], message: str, offset: int | None) -> None:
    with pytest.raises(error) as caught:
        decode_file(data, location="f.puffin")
    assert caught.value.message.startswith(message)
    assert caught.value.location == "f.puffin"
    assert caught.value.rule is not None or "followed by" in message
    if offset is not None:
        assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("offset", "length"),
    [
        (0, 1),
        (3, 0),
        (-1, 2),
        (4, 11),
        (14, 1),
        (15, 0),
        (4, -1),
        (20, -10),
        (2**63 - 1, 1),
        (4, 2**63 - 1),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), 0),
    ],
)
def test_blob_outside_of_the_blob_area(offset: int, length: int) -> None:
    data = MAGIC + bytes(10) + footer_of(json.dumps(document(offset=offset, length=length)).encode())
    with pytest.raises(FormatError, match=r"blobs\[0\] has offset .* expected within bytes 4 to 14"):
        decode_file(data)


@pytest.mark.parametrize(("offset", "length"), [(4, 0), (4, 10), (14, 0), (13, 1)])
def test_blob_at_the_edges_of_the_blob_area(offset: int, length: int) -> None:
    data = MAGIC + bytes(10) + footer_of(json.dumps(document(offset=offset, length=length)).encode())
    assert decode_file(data).blobs[0].length == length


def test_footer_of_another_length_than_the_file_says() -> None:
    footer = footer_of(OK)
    with pytest.raises(FormatError, match="footer of 29 bytes given, the file says that it has 28"):
        decode_footer(b"x" + footer, file_size=100)


LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
PROPERTIES = st.dictionaries(TEXTS, TEXTS, max_size=3)
BLOBS = st.builds(
    BlobMetadata,
    type=TEXTS,
    fields=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4).map(tuple),
    snapshot_id=LONGS,
    sequence_number=LONGS,
    offset=st.integers(4, 50),
    length=st.integers(0, 50),
    compression_codec=st.none() | TEXTS,
    properties=PROPERTIES,
)


@given(st.lists(BLOBS, max_size=4).map(tuple), PROPERTIES, st.booleans())
def test_footer_round_trip(blobs: tuple[BlobMetadata, ...], properties: dict[str, str], compress: bool) -> None:
    metadata = FileMetadata(blobs, properties)
    data = MAGIC + bytes(96) + encode_footer(metadata, compress=compress)
    assert decode_file(data) == metadata


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from([*BLOB, "blobs", "properties", "compression-codec"]), inner, max_size=8)
        ),
    )
)
def test_any_json_is_read_or_refused(value: Any) -> None:
    """Whatever JSON is there, decoding gives metadata or `FormatError`."""
    for text in (json.dumps(value), json.dumps({"blobs": [value]}), json.dumps({"blobs": value})):
        try:
            decode_file_metadata(text.encode())
        except FormatError:
            continue


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises((FormatError, UnsupportedError)):
        decode_file(data)
    with pytest.raises((FormatError, UnsupportedError)):
        decode_file(MAGIC + data + MAGIC)


@pytest.mark.parametrize(
    "metadata",
    [
        FileMetadata((BlobMetadata("x", (True,), 1, 1, 4, 0),)),
        FileMetadata((BlobMetadata("x", (1,), 2**63, 1, 4, 0),)),
        FileMetadata((BlobMetadata("x", (1,), 1, 1.0, 4, 0),)),  # type: ignore[arg-type]
        FileMetadata((BlobMetadata(None, (1,), 1, 1, 4, 0),)),  # type: ignore[arg-type]
        FileMetadata((), {"a": 1}),  # type: ignore[dict-item]
        FileMetadata((), {"a": "\ud800"}),
    ],
)
def test_what_could_not_be_read_is_not_written(metadata: FileMetadata) -> None:
    with pytest.raises(FormatError):
        encode_footer(metadata)


def blob_of(codec: str | None, length: int) -> BlobMetadata:
    return BlobMetadata("x", (), 1, 1, 4, length, codec)


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
@settings(max_examples=50)
@given(data=st.binary(max_size=500))
def test_blob_round_trip(codec: str | None, data: bytes) -> None:
    stored, stored_codec = encode_blob(data, codec)
    assert stored_codec == codec
    assert decode_blob(blob_of(codec, len(stored)), stored) == data


def test_codecs_write_frames_with_content_size() -> None:
    data = b"sketch" * 100
    zstd, _ = encode_blob(data, "zstd")
    lz4, _ = encode_blob(data, "lz4")
    assert zstd[:4] == bytes.fromhex("28b52ffd")
    assert zstd[4] >> 6 or zstd[4] & 0x20  # Frame_Content_Size_flag or Single_Segment_flag
    assert lz4[:4] == bytes.fromhex("04224d18")
    assert lz4[4] & 0x08


def test_very_repetitive_content_is_stored_uncompressed() -> None:
    data = bytes(20 << 20)
    stored, codec = encode_blob(data, "zstd")
    assert (stored, codec) == (data, None)
    assert encode_blob(data, "lz4")[1] == "lz4"


@pytest.mark.parametrize("codec", ["snappy", "ZSTD", "none", "lz4hc", ""])
def test_unknown_codec_is_refused_by_name(codec: str) -> None:
    with pytest.raises(UnsupportedError, match=f"compression codec '{codec}', expected one of lz4, zstd"):
        decode_blob(blob_of(codec, 1), b"x", location="f.puffin")
    with pytest.raises(UnsupportedError, match=f"compression codec '{codec}'"):
        encode_blob(b"x", codec)


@pytest.mark.parametrize(
    ("codec", "stored"),
    [
        ("zstd", compress_zstd(b"x" * 100, content_size=False)),
        ("lz4", compress_lz4_frame(b"x" * 100, content_size=False)),
        ("zstd", compress_lz4_frame(b"x" * 100)),
        ("lz4", compress_zstd(b"x" * 100)),
        ("zstd", compress_zstd(b"x" * 100) + b"\0"),
        ("lz4", compress_lz4_frame(b"x" * 100) * 2),
        ("zstd", compress_zstd(b"x" * 100)[:-1]),
        ("zstd", b""),
        ("lz4", b""),
        ("zstd", compress_zstd(bytes(200 << 20))),
    ],
    ids=[
        "zstd-no-size",
        "lz4-no-size",
        "lz4-as-zstd",
        "zstd-as-lz4",
        "trailing",
        "two-frames",
        "cut",
        "e",
        "e2",
        "bomb",
    ],
)
def test_blob_that_is_not_one_frame_with_its_size(codec: str, stored: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        decode_blob(blob_of(codec, len(stored)), stored, location="f.puffin")
    assert caught.value.message.startswith("blob of type 'x': ")
    assert caught.value.location == "f.puffin"
    assert caught.value.offset is not None
    assert caught.value.offset >= 4


def test_a_frame_that_claims_too_much_is_refused_before_memory_is_taken() -> None:
    """A Zstandard frame header that claims 2**62 bytes, with blocks of nothing behind it."""
    bomb = bytes.fromhex("28b52ffd") + b"\xe0" + (2**62).to_bytes(8, "little") + b"\x03\x00\x00\x00"
    with pytest.raises(FormatError):
        decode_blob(blob_of("zstd", len(bomb)), bomb)
    with pytest.raises(FormatError):
        decode_blob(blob_of("zstd", len(bomb)), bomb, max_bytes=2**63)


def test_bound_can_be_raised_by_the_caller() -> None:
    data = bytes(20 << 20)
    stored = compress_zstd(data)
    assert len(data) > max_blob_bytes(len(stored))
    assert decode_blob(blob_of("zstd", len(stored)), stored, max_bytes=len(data)) == data


def test_a_compressed_footer_that_holds_far_more_than_its_bytes_is_refused_before_it_is_kept() -> None:
    payload = b'{"blobs":[' + b"[]," * (10 << 20) + b"[]]}"
    data = MAGIC + footer_of(compress_lz4_frame(payload), flags=b"\x01\0\0\0")
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"footer payload: LZ4 frame holds .* expected at most"):
            decode_file(data, location="bomb.puffin")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    repetitive = FileMetadata((), {"a": "x" * (17 << 20)})
    assert decode_file(MAGIC + encode_footer(repetitive, compress=True)) == repetitive
