"""Manifests, their lists, index manifests: what is written comes back, in the Avro schema of Java; bad ones do not."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.avro import read_header, write_container
from skerry.errors import FormatError, NotFoundError, SchemaError, UnsupportedError
from skerry.paimon.manifests.index_manifest import (
    DeletionVectorMeta,
    GlobalIndexMeta,
    IndexManifestEntry,
    encode_index_manifest,
    read_index_manifest,
)
from skerry.paimon.manifests.manifest import (
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    decode_entries,
    encode_entries,
    encode_manifest,
    entries_of,
    read_manifest,
)
from skerry.paimon.manifests.manifest_list import ManifestFileMeta, encode_manifest_list, read_manifest_list
from skerry.paimon.manifests.metadata_file import MetadataEncoding, encode_metadata, required
from skerry.paimon.values.simple_stats import SimpleStats
from skerry.storage import Storage

STORAGE = Storage()


def decode_manifest(data: bytes) -> list[ManifestEntry]:
    return entries_of(decode_entries(data))


LONGS = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(0, 2**63 - 1)
NAMES = st.text(max_size=8)
STATS = st.builds(
    SimpleStats, st.binary(max_size=9), st.binary(max_size=9), st.none() | st.lists(st.none() | LONGS).map(tuple)
)
FILES = st.builds(
    DataFileMeta,
    NAMES,
    COUNTS,
    COUNTS,
    st.binary(max_size=9),
    st.binary(max_size=9),
    STATS,
    STATS,
    LONGS,
    LONGS,
    COUNTS,
    st.integers(0, 9),
    st.lists(NAMES, max_size=2).map(tuple),
    st.none() | st.integers(0, 2**45),
    st.none() | COUNTS,
    st.none() | st.binary(max_size=9),
    st.none() | st.sampled_from(FileSource),
    st.none() | st.lists(NAMES, max_size=2).map(tuple),
    st.none() | NAMES,
    st.none() | LONGS,
    st.none() | st.lists(NAMES, max_size=2).map(tuple),
    st.none() | st.lists(LONGS, max_size=2).map(tuple),
)
ENTRIES = st.builds(
    ManifestEntry,
    st.sampled_from(FileKind),
    st.binary(max_size=20),
    st.integers(-2, 40000),
    st.integers(-2, 40000),
    FILES,
)
BUCKETS = st.none() | st.integers(-2, 2**31 - 1)
MANIFESTS = st.builds(
    ManifestFileMeta, NAMES, COUNTS, COUNTS, COUNTS, STATS, COUNTS, BUCKETS, BUCKETS, BUCKETS, BUCKETS, LONGS, LONGS
)
INTS = st.integers(-(2**31), 2**31 - 1)
INDEX_FILES = st.builds(
    IndexManifestEntry,
    st.binary(max_size=20),
    INTS,
    NAMES,
    NAMES,
    st.integers(2**32, 2**63 - 1),
    COUNTS,
    st.none()
    | st.lists(
        st.builds(DeletionVectorMeta, NAMES, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.none() | LONGS),
        max_size=3,
    ).map(tuple),
    st.none() | NAMES,
    st.none()
    | st.builds(
        GlobalIndexMeta,
        LONGS,
        LONGS,
        INTS,
        st.none() | st.lists(INTS, max_size=2).map(tuple),
        st.none() | st.binary(max_size=5),
    ),
)
ENCODINGS = st.sampled_from(
    [
        *(MetadataEncoding("avro", codec) for codec in ("zstd", "none", "deflate", "snappy")),
        *(MetadataEncoding("orc", codec) for codec in ("zstd", "none", "zlib", "snappy", "lz4")),
    ]
)
BRIEF = settings(max_examples=40)


@BRIEF
@given(st.lists(ENTRIES, max_size=4), ENCODINGS)
def test_manifests_come_back(entries: list[ManifestEntry], encoding: MetadataEncoding) -> None:
    data = encode_manifest(entries, encoding)
    assert decode_manifest(data) == entries
    assert decode_manifest(encode_entries(decode_entries(data))) == entries


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_few_entries_are_encoded_as_many_are(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    stats = SimpleStats(b"\0", b"\1", (0, None))
    file = DataFileMeta("f", 1, 2, b"k", b"l", stats, stats, 3, 4, 5, 0, ("x",), 1_700_000_000_123, 0, None, None)
    entry = ManifestEntry(FileKind.ADD, b"p", 1, 2, file)
    for count in (1, 32, 33, 100):
        assert decode_manifest(encode_manifest([entry] * count)) == [entry] * count
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("count", [2, 40])
@pytest.mark.parametrize("column", ["name", "number", "pair"])
def test_required_columns_are_not_written_as_null(column: str, count: int) -> None:
    pair = pa.struct([required("number", pa.int32()), required("data", pa.binary())])
    schema = pa.schema([required("name", pa.string()), required("number", pa.int64()), required("pair", pair)])
    row: dict[str, Any] = {"name": "n", "number": 1, "pair": {"number": 1, "data": b""}}
    row[column] = {"number": 1, "data": None} if column == "pair" else None
    batch = pa.RecordBatch.from_arrays(
        [pa.array([row[field.name]] * count, field.type) for field in schema], schema=schema
    )
    for file_format in ("avro", "orc"):
        with pytest.raises(SchemaError):
            encode_metadata(batch, 1, MetadataEncoding(file_format))


@BRIEF
@given(st.lists(MANIFESTS, max_size=4), ENCODINGS)
def test_manifest_lists_come_back(manifests: list[ManifestFileMeta], encoding: MetadataEncoding) -> None:
    location = "memory://lists/list"
    STORAGE.write(location, encode_manifest_list(manifests, encoding), overwrite=True)
    assert read_manifest_list(STORAGE, location) == manifests


@BRIEF
@given(st.lists(INDEX_FILES, max_size=3), ENCODINGS)
def test_index_manifests_come_back(entries: list[IndexManifestEntry], encoding: MetadataEncoding) -> None:
    location = "memory://lists/index"
    STORAGE.write(location, encode_index_manifest(entries, encoding), overwrite=True)
    assert read_index_manifest(STORAGE, location) == entries


STATS_FIELDS = [
    {"name": "_MIN_VALUES", "type": "bytes"},
    {"name": "_MAX_VALUES", "type": "bytes"},
    {"name": "_NULL_COUNTS", "type": ["null", {"type": "array", "items": ["null", "long"]}], "default": None},
]


def test_the_avro_schema_is_java_s() -> None:
    header = read_header(encode_manifest_list([]))
    schema = json.loads(header.schema_json)
    assert (schema["namespace"], schema["name"]) == ("org.apache.paimon.avro.generated", "record")
    assert schema["fields"][0] == {"name": "_VERSION", "type": "int"}
    stats = {"type": "record", "name": "record__PARTITION_STATS", "fields": STATS_FIELDS}
    assert schema["fields"][5] == {"name": "_PARTITION_STATS", "type": stats}
    assert schema["fields"][7] == {"name": "_MIN_BUCKET", "type": ["null", "int"], "default": None}
    file = json.loads(read_header(encode_manifest([])).schema_json)["fields"][5]["type"]
    by_name = {field["name"]: field["type"] for field in file["fields"]}
    assert file["name"] == "record__FILE"
    assert by_name["_VALUE_STATS"] == {"type": "record", "name": "record__FILE__VALUE_STATS", "fields": STATS_FIELDS}
    assert by_name["_EXTRA_FILES"] == {"type": "array", "items": "string"}
    assert by_name["_CREATION_TIME"] == ["null", {"type": "long", "logicalType": "timestamp-millis"}]
    assert "_WRITE_COLS_SEQUENCES" not in by_name


# Files of others ----------------------------------------------------------------------------------------------------

ENTRY = ManifestEntry(FileKind.ADD, bytes(12), 0, 1, DataFileMeta("data-0.parquet", 100, 5))


def _rewritten(change: Any) -> bytes:
    """A manifest of one entry whose schema and record a function has changed."""
    schema = json.loads(read_header(encode_manifest([ENTRY])).schema_json)
    record = {
        "_VERSION": 2,
        "_KIND": 0,
        "_PARTITION": bytes(12),
        "_BUCKET": 0,
        "_TOTAL_BUCKETS": 1,
        "_FILE": {
            "_FILE_NAME": "data-0.parquet",
            "_FILE_SIZE": 100,
            "_ROW_COUNT": 5,
            "_MIN_KEY": bytes(12),
            "_MAX_KEY": bytes(12),
            "_KEY_STATS": {"_MIN_VALUES": bytes(12), "_MAX_VALUES": bytes(12), "_NULL_COUNTS": []},
            "_VALUE_STATS": {"_MIN_VALUES": bytes(12), "_MAX_VALUES": bytes(12), "_NULL_COUNTS": []},
            "_MIN_SEQUENCE_NUMBER": 0,
            "_MAX_SEQUENCE_NUMBER": 0,
            "_SCHEMA_ID": 0,
            "_LEVEL": 0,
            "_EXTRA_FILES": [],
        },
    }
    fields = schema["fields"][5]["type"]["fields"]
    change(schema, fields, record)
    return write_container(schema, [record], codec="null")


def _drop(fields: list[dict[str, Any]], name: str) -> None:
    fields[:] = [field for field in fields if field["name"] != name]


def test_fields_that_are_missing_are_null_and_others_skipped() -> None:
    def older(schema: dict[str, Any], fields: list[dict[str, Any]], record: dict[str, Any]) -> None:
        fields[:] = fields[:12]
        fields.append({"name": "_INVENTED", "type": "long"})
        record["_FILE"]["_INVENTED"] = 7
        schema["fields"].append({"name": "_ALSO", "type": ["null", "string"], "default": None})
        schema["name"] = "other"

    assert decode_manifest(_rewritten(older)) == [ENTRY]


def _version(schema: Any, fields: Any, record: Any) -> None:
    record["_VERSION"] = 3


def _no_version(schema: Any, fields: Any, record: Any) -> None:
    _drop(schema["fields"], "_VERSION")


def _no_name(schema: Any, fields: Any, record: Any) -> None:
    _drop(fields, "_FILE_NAME")


def _kind(schema: Any, fields: Any, record: Any) -> None:
    record["_KIND"] = 2


def _size(schema: Any, fields: Any, record: Any) -> None:
    record["_FILE"]["_FILE_SIZE"] = -1


def _source(schema: Any, fields: Any, record: Any) -> None:
    record["_FILE"]["_FILE_SOURCE"] = 7


def _null_name(schema: Any, fields: Any, record: Any) -> None:
    fields[0]["type"] = ["null", "string"]
    record["_FILE"]["_FILE_NAME"] = None


def _wrong_type(schema: Any, fields: Any, record: Any) -> None:
    fields[1]["type"] = "string"
    record["_FILE"]["_FILE_SIZE"] = "large"


def _no_record(schema: Any, fields: Any, record: Any) -> None:
    schema["fields"][5]["type"] = "long"
    record["_FILE"] = 7


BAD = [
    (_version, UnsupportedError, "version 3 is not supported, only 2"),
    (_no_version, FormatError, "field _VERSION is missing"),
    (_no_name, FormatError, "field _FILE_NAME is missing"),
    (_kind, FormatError, "field _KIND cannot be 2"),
    (_size, FormatError, "field _FILE_SIZE cannot be -1"),
    (_source, FormatError, "file source 7 is unknown"),
    (_null_name, FormatError, "field _FILE_NAME is null"),
    (_wrong_type, FormatError, "field _FILE_SIZE is of type string, expected int64"),
    (_no_record, FormatError, "field _FILE is of type int64"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD, ids=[case[0].__name__ for case in BAD])
def test_bad_manifests_are_refused(change: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        decode_manifest(_rewritten(change))


def test_files_of_another_size_or_cut_short_are_refused(tmp_path: Path) -> None:
    data = encode_manifest([ENTRY] * 3)
    location = str(tmp_path / "manifest")
    STORAGE.write(location, data)
    assert len(read_manifest(STORAGE, location, size=len(data))) == 3
    with pytest.raises(FormatError, match=f"found {len(data)} bytes, expected 5 by the metadata"):
        read_manifest(STORAGE, location, size=5)
    for end in range(0, len(data), 7):
        with pytest.raises(FormatError):
            decode_manifest(data[:end])
    with pytest.raises(NotFoundError):
        read_manifest(STORAGE, str(tmp_path / "nowhere"))


@settings(max_examples=60)
@given(st.data())
def test_flipped_manifests_are_read_or_refused(data: st.DataObject) -> None:
    encoding = data.draw(ENCODINGS)
    found = bytearray(encode_manifest([ENTRY, replace(ENTRY, bucket=3)], encoding))
    for _ in range(data.draw(st.integers(1, 3))):
        found[data.draw(st.integers(0, len(found) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        decode_manifest(bytes(found))
    except (FormatError, UnsupportedError, SchemaError):
        return


def test_vectors_beyond_their_file_are_refused() -> None:
    location = "memory://lists/bad-index"
    for vector in (DeletionVectorMeta("f", 90, 20), DeletionVectorMeta("f", -1, 5), DeletionVectorMeta("f", 1, -5)):
        entry = IndexManifestEntry(bytes(12), 0, "DELETION_VECTORS", "index-0", 100, 1, (vector,))
        STORAGE.write(location, encode_index_manifest([entry]), overwrite=True)
        with pytest.raises(FormatError, match="the deletion vector of f is outside its file of 100 bytes"):
            read_index_manifest(STORAGE, location)
    gone = IndexManifestEntry(bytes(12), 0, "HASH", "index-0", 100, 1, kind=FileKind.DELETE)
    STORAGE.write(location, encode_index_manifest([gone]), overwrite=True)
    with pytest.raises(FormatError, match="index manifests only add files, found kind 1"):
        read_index_manifest(STORAGE, location)


def test_unknown_compressions_are_refused_by_the_name_of_the_option() -> None:
    for encoding in (MetadataEncoding("avro", "lz4"), MetadataEncoding("orc", "deflate")):
        with pytest.raises(UnsupportedError, match=rf"manifest\.compression={encoding.compression}"):
            encode_manifest([ENTRY], encoding)
