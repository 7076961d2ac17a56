from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from thrift_bytes import encode_struct

from skerry.errors import FormatError, NotFoundError, UnsupportedError
from skerry.parquet import Codec, Encoding, FileMetadata, PhysicalType, decode_metadata, read_metadata
from skerry.storage import Storage

TYPES = {
    "bool": (pa.bool_(), PhysicalType.BOOLEAN),
    "i8": (pa.int8(), PhysicalType.INT32),
    "i16": (pa.int16(), PhysicalType.INT32),
    "i32": (pa.int32(), PhysicalType.INT32),
    "i64": (pa.int64(), PhysicalType.INT64),
    "u8": (pa.uint8(), PhysicalType.INT32),
    "u16": (pa.uint16(), PhysicalType.INT32),
    "u32": (pa.uint32(), PhysicalType.INT32),
    "u64": (pa.uint64(), PhysicalType.INT64),
    "f16": (pa.float16(), PhysicalType.FIXED_LEN_BYTE_ARRAY),
    "f32": (pa.float32(), PhysicalType.FLOAT),
    "f64": (pa.float64(), PhysicalType.DOUBLE),
    "d9": (pa.decimal128(9, 2), PhysicalType.INT32),
    "d18": (pa.decimal128(18, 2), PhysicalType.INT64),
    "d38": (pa.decimal128(38, 10), PhysicalType.FIXED_LEN_BYTE_ARRAY),
    "d76": (pa.decimal256(76, 10), PhysicalType.FIXED_LEN_BYTE_ARRAY),
    "date": (pa.date32(), PhysicalType.INT32),
    "t_ms": (pa.time32("ms"), PhysicalType.INT32),
    "t_us": (pa.time64("us"), PhysicalType.INT64),
    "t_ns": (pa.time64("ns"), PhysicalType.INT64),
    "ts_ms": (pa.timestamp("ms"), PhysicalType.INT64),
    "ts_us": (pa.timestamp("us"), PhysicalType.INT64),
    "ts_ns": (pa.timestamp("ns"), PhysicalType.INT64),
    "tz_us": (pa.timestamp("us", "UTC"), PhysicalType.INT64),
    "text": (pa.string(), PhysicalType.BYTE_ARRAY),
    "binary": (pa.binary(), PhysicalType.BYTE_ARRAY),
    "fixed": (pa.binary(7), PhysicalType.FIXED_LEN_BYTE_ARRAY),
    "null": (pa.null(), PhysicalType.INT32),
}


def field(name: str, type_: pa.DataType, id_: int, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, type_, nullable, metadata={"PARQUET:field_id": str(id_)})


def write(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"store_decimal_as_integer": True, **options})
    return sink.getvalue()


def metadata_of(data: bytes) -> FileMetadata:
    size = int.from_bytes(data[-8:-4], "little") + 8
    return decode_metadata(data[-size:], location="a.parquet", file_size=len(data))


def test_types_and_physical_types_of_every_annotation() -> None:
    schema = pa.schema([field(name, type_, i) for i, (name, (type_, _)) in enumerate(TYPES.items())])
    metadata = metadata_of(write(schema.empty_table(), store_schema=False))
    assert {column.name: (column.type, column.physical_type) for column in metadata.columns} == TYPES
    assert [column.field_id for column in metadata.columns] == list(range(len(TYPES)))
    assert metadata.columns[list(TYPES).index("fixed")].type_length == 7


def test_the_arrow_schema_of_the_writer_does_not_decide() -> None:
    """A file that says seconds or a dictionary in its Arrow schema holds milliseconds and plain strings."""
    schema = pa.schema(
        [("s", pa.timestamp("s")), ("d", pa.dictionary(pa.int32(), pa.string())), ("l", pa.large_string())]
    )
    metadata = metadata_of(write(schema.empty_table()))
    assert [column.type for column in metadata.columns] == [pa.timestamp("ms"), pa.string(), pa.string()]


def test_levels_paths_and_ids_of_nested_columns() -> None:
    schema = pa.schema(
        [
            field("s", pa.struct([field("a", pa.int32(), 2, nullable=False), field("b.c", pa.string(), 3)]), 1),
            field("l", pa.list_(field("element", pa.int64(), 5)), 4),
            field("m", pa.map_(pa.string(), pa.int32()), 6),
            field("r", pa.int32(), 7, nullable=False),
        ]
    )
    columns = metadata_of(write(schema.empty_table())).columns
    assert [(c.path, c.field_id, c.max_definition_level, c.max_repetition_level) for c in columns] == [
        (("s", "a"), 2, 1, 0),
        (("s", "b.c"), 3, 2, 0),
        (("l", "list", "element"), 5, 3, 1),
        (("m", "key_value", "key"), None, 2, 1),
        (("m", "key_value", "value"), None, 3, 1),
        (("r",), 7, 0, 0),
    ]


def test_chunks_agree_with_pyarrow() -> None:
    table = pa.table({"a": [1, None, 3] * 1000, "b": [f"x{i}" for i in range(3000)], "c": [1.5] * 3000})
    data = write(
        table, row_group_size=1000, compression={"a": "snappy", "b": "zstd", "c": "none"}, use_dictionary=["a"]
    )
    metadata = metadata_of(data)
    arrow = metadata.arrow
    assert arrow.equals(pq.read_metadata(io.BytesIO(data)))
    assert (metadata.row_count, len(metadata.row_groups)) == (3000, 3)
    assert metadata.created_by == arrow.created_by
    assert "ARROW:schema" in metadata.key_values
    for i, group in enumerate(metadata.row_groups):
        assert group.row_count == 1000
        for j, chunk in enumerate(group.chunks):
            other = arrow.row_group(i).column(j)
            assert chunk.column is metadata.columns[j]
            assert Codec(chunk.codec).name == other.compression.replace("NONE", "UNCOMPRESSED")
            assert {Encoding(encoding).name for encoding in chunk.encodings} == set(other.encodings)
            assert chunk.size_bytes == other.total_compressed_size
            assert chunk.uncompressed_size_bytes == other.total_uncompressed_size
            assert chunk.dictionary_offset == other.dictionary_page_offset
            assert chunk.data_offset == other.data_page_offset
            assert chunk.value_count == other.num_values
            assert chunk.null_count == other.statistics.null_count
    assert [chunk.is_dictionary_encoded for chunk in metadata.row_groups[0].chunks] == [True, False, False]
    assert metadata.split_offsets == tuple(group.chunks[0].offset for group in metadata.row_groups)
    assert metadata.split_offsets[0] == 4


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_dictionary_that_grew_too_large_is_not_taken_for_all_of_the_chunk(version: str) -> None:
    table = pa.table({"a": [f"value {i}" for i in range(3000)]})
    options: dict[str, Any] = {"dictionary_pagesize_limit": 4096, "data_page_size": 2048, "write_batch_size": 100}
    chunk = metadata_of(write(table, data_page_version=version, **options)).row_groups[0].chunks[0]
    assert chunk.data_page_encodings == {Encoding.PLAIN, Encoding.RLE_DICTIONARY}
    assert not chunk.is_dictionary_encoded


def minimal(**changes: Any) -> dict[int, Any]:
    """The footer of a file of 1,000 bytes with one INT64 column of 10 rows."""
    meta = {1: 2, 2: [0], 3: ["a"], 4: 0, 5: 10, 6: 300, 7: 300, 9: 4} | changes.pop("meta", {})
    chunk = {2: 0, 3: meta} | changes.pop("chunk", {})
    leaf = {1: 2, 3: 1, 4: "a"} | changes.pop("leaf", {})
    group = {1: [{k: v for k, v in chunk.items() if v is not None}], 2: 300, 3: 10} | changes.pop("group", {})
    root = {1: 1, 2: [{4: "schema", 5: 1}, leaf], 3: 10, 4: [group]} | changes.pop("root", {})
    return {k: v for k, v in root.items() if v is not None}


def decode(fields: dict[int, Any]) -> FileMetadata:
    thrift = encode_struct(fields)
    return decode_metadata(thrift + len(thrift).to_bytes(4, "little") + b"PAR1", location="a.parquet", file_size=1000)


def test_the_minimal_footer_is_sound() -> None:
    metadata = decode(minimal())
    chunk = metadata.row_groups[0].chunks[0]
    assert (chunk.offset, chunk.size_bytes, chunk.null_count, chunk.data_page_encodings) == (4, 300, None, None)
    assert metadata.created_by == ""


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({}, False),
        ({2: [2, 3, 4], 11: 4, 9: 100}, True),  # written before encoding_stats: PLAIN_DICTIONARY and levels
        ({2: [0, 2, 3, 4], 11: 4, 9: 100}, False),
        ({2: [0, 8, 3], 11: 4, 9: 100}, False),  # PLAIN may be that of the dictionary, or that of a data page
        ({2: [0, 8, 3], 11: 4, 9: 100, 13: [{1: 2, 2: 0, 3: 1}, {1: 0, 2: 8, 3: 5}]}, True),
        ({2: [0, 8, 3], 11: 4, 9: 100, 13: [{1: 2, 2: 0, 3: 1}, {1: 3, 2: 8, 3: 5}]}, True),
        ({2: [0, 8, 3], 11: 4, 9: 100, 13: [{1: 2, 2: 0, 3: 1}, {1: 3, 2: 8, 3: 5}, {1: 3, 2: 0, 3: 1}]}, False),
        ({2: [0, 8, 3], 11: 4, 9: 100, 13: [{1: 3, 2: 8, 3: 5}, {1: 3, 2: 0, 3: 0}]}, True),
        ({2: [0, 8, 3], 11: 4, 9: 100, 13: [{1: 2, 2: 0, 3: 1}]}, False),
        ({2: [2, 3], 11: 0}, False),  # no dictionary page
    ],
)
def test_when_all_data_pages_are_known_to_be_dictionary_encoded(meta: dict[int, Any], expected: bool) -> None:
    assert decode(minimal(meta=meta)).row_groups[0].chunks[0].is_dictionary_encoded is expected


SCHEMA = {4: "schema", 5: 1}
LEAF = {1: 2, 3: 1, 4: "a"}
BAD: dict[str, tuple[dict[int, Any], type[Exception], str]] = {
    "no schema": (minimal(root={2: []}), FormatError, "schema is empty"),
    "no rows": (minimal(root={3: None}), FormatError, "FileMetaData has no num_rows"),
    "row counts differ": (minimal(root={3: 11}), FormatError, "has num_rows 11, its row groups 10"),
    "element after the root": (
        minimal(root={2: [SCHEMA, {1: 2, 3: 1, 4: "a"}, {1: 2, 3: 1, 4: "b"}]}),
        FormatError,
        "outside of",
    ),
    "group without its children": (
        minimal(root={2: [{4: "schema", 5: 2}, {1: 2, 3: 1, 4: "a"}]}),
        FormatError,
        "children to come",
    ),
    "levels without end": (
        minimal(root={2: [SCHEMA, *[{3: 1, 4: "g", 5: 1}] * 256, LEAF]}),
        FormatError,
        "deeper than 255 optional levels",
    ),
    "unknown type": (minimal(leaf={1: 8}), FormatError, "has type 8, expected an integer from 0 to 7"),
    "no repetition": (minimal(root={2: [SCHEMA, {1: 2, 4: "a"}]}), FormatError, "has no repetition_type"),
    "fixed without length": (minimal(leaf={1: 7}), FormatError, "has no type_length"),
    "uuid of 15 bytes": (minimal(leaf={1: 7, 2: 15, 10: {14: {}}}), FormatError, "values of 15 bytes, expected 16"),
    "text of INT64": (minimal(leaf={10: {1: {}}}), FormatError, "annotates INT64 as string, expected BYTE_ARRAY"),
    "old text of INT64": (minimal(leaf={6: 0}), FormatError, "annotates INT64 as string, expected BYTE_ARRAY"),
    "decimal of 19 digits": (
        minimal(leaf={10: {5: {1: 2, 2: 19}}}),
        FormatError,
        "precision 19, expected",
    ),
    "scale above precision": (
        minimal(leaf={10: {5: {1: 3, 2: 2}}}),
        FormatError,
        "scale 3, expected",
    ),
    "decimal of doubles": (minimal(leaf={1: 5, 10: {5: {1: 3, 2: 2}}}), FormatError, "annotates DOUBLE as a decimal"),
    "integer of 24 bits": (minimal(leaf={10: {10: {1: 24, 2: True}}}), FormatError, "bitWidth 24"),
    "timestamp without unit": (minimal(leaf={10: {8: {1: True}}}), FormatError, "has no unit"),
    "timestamp of unknown unit": (minimal(leaf={10: {8: {1: True, 2: {9: {}}}}}), FormatError, "none of MILLIS"),
    "too few chunks": (minimal(group={1: []}), FormatError, "0 column chunks, the schema 1 columns"),
    "no metadata": (minimal(chunk={3: None}), FormatError, "has no ColumnMetaData"),
    "other type": (minimal(meta={1: 1}), FormatError, "has type 1, the schema INT64 for a"),
    "other value count": (minimal(meta={5: 9}), FormatError, "has 9 values of a, its row group 10 rows"),
    "negative size": (minimal(meta={7: -1}), FormatError, "total_compressed_size -1"),
    "offset in the magic": (minimal(meta={9: 3}), FormatError, "puts a at bytes 3"),
    "size behind the data": (minimal(meta={7: 990}), FormatError, "puts a at bytes 4 to 994"),
    "offset beyond 64 bits": (minimal(meta={9: 2**63 - 1}), FormatError, "puts a at bytes 9223372036854775807"),
    "data outside of the chunk": (
        minimal(meta={11: 4, 9: 304}),
        FormatError,
        "4 to 304 with data from 304",
    ),
    "more nulls than values": (minimal(meta={12: {3: 11}}), FormatError, "null_count 11"),
    "another file": (minimal(chunk={1: "b.parquet"}), UnsupportedError, "is in another file"),
    "encrypted column": (minimal(chunk={3: None, 9: b"secret"}), UnsupportedError, "column a is encrypted"),
}


@pytest.mark.parametrize(("fields", "error", "message"), BAD.values(), ids=BAD)
def test_bad_footers(fields: dict[int, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        decode(fields)
    assert raised.value.location == "a.parquet"


def test_arrow_reports_what_pyarrow_cannot_read_as_a_format_error() -> None:
    metadata = decode(minimal(root={1: None}))
    with pytest.raises(FormatError, match="PyArrow cannot read the footer"):
        _ = metadata.arrow


@pytest.fixture
def place(tmp_path: Path) -> Callable[[bytes], str]:
    def write_file(data: bytes) -> str:
        path = tmp_path / "a.parquet"
        path.write_bytes(data)
        return str(path)

    return write_file


def test_a_footer_takes_one_read_and_a_large_one_two(place: Callable[[bytes], str]) -> None:
    small = place(
        write(
            pa.table(
                {"a": list(range(100_000))},
            ),
            use_dictionary=False,
        )
    )
    storage = Storage()
    assert read_metadata(storage, small).row_count == 100_000
    assert (storage.metrics.requests, storage.metrics.bytes_read) == (1, 65536)
    with open(small, "rb") as file:
        size = len(file.read())
    assert read_metadata(storage, small, file_size=size).file_size_bytes == size
    assert storage.metrics.requests == 2

    wide = write(pa.table({f"column {i:05}": [i] for i in range(1000)}))
    footer = int.from_bytes(wide[-8:-4], "little")
    assert footer > 65536
    large = place(wide)
    for file_size in (None, len(wide)):
        storage = Storage()
        assert len(read_metadata(storage, large, file_size=file_size).columns) == 1000
        assert (storage.metrics.requests, storage.metrics.bytes_read) == (2, footer + 8)


BAD_FILES = {
    "empty": (b"", FormatError, "file of 0 bytes is too small"),
    "magic only": (b"PAR1", FormatError, "too small"),
    "other file": (b"A" * 100, FormatError, "expected it to end in b'PAR1', found b'AAAA'"),
    "encrypted": (b"PARE" + bytes(90) + b"\x10\x00\x00\x00PARE", UnsupportedError, "footer is encrypted"),
    "footer larger than the file": (
        b"PAR1" + bytes(90) + b"\xff\xff\xff\xffPAR1",
        FormatError,
        "footer of 4294967295 bytes",
    ),
    "footer over the head": (
        b"PAR1" + bytes(10) + b"\x0b\x00\x00\x00PAR1",
        FormatError,
        "footer of 11 bytes in a file of 22",
    ),
    "empty footer": (b"PAR1" + bytes(4) + b"PAR1", FormatError, "footer of 0 bytes"),
}


@pytest.mark.parametrize(("data", "error", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files(data: bytes, error: type[Exception], message: str, place: Callable[[bytes], str]) -> None:
    location = place(data)
    for file_size in (None, len(data)):
        with pytest.raises(error, match=message) as raised:
            read_metadata(Storage(), location, file_size=file_size)
        assert raised.value.location == location


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_metadata(Storage(), str(tmp_path / "no.parquet"))
