from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thrift_bytes import encode_struct, varint

from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.parquet import (
    Codec,
    Column,
    ColumnChunk,
    DataPage,
    DictionaryPage,
    Encoding,
    FileMetadata,
    PageBuffer,
    PageType,
    PhysicalType,
    count_codes,
    decode_metadata,
    decode_page_header,
    decode_plain_byte_array,
    decode_plain_fixed,
    iter_pages,
)

DATA = Path(__file__).parent / "data"

# The hybrid of runs ---------------------------------------------------------------------------------------------------


def encode_hybrid(runs: list[tuple[bool, list[int]]], bit_width: int) -> bytes:
    """Runs of (whether bit-packed, codes); a bit-packed run is filled up to a multiple of 8 codes."""
    out = b""
    for packed, codes in runs:
        if packed:
            groups = (len(codes) + 7) // 8
            bits = sum(code << i * bit_width for i, code in enumerate(codes))
            out += varint(groups << 1 | 1) + bits.to_bytes(groups * bit_width, "little")
        else:
            out += varint(len(codes) << 1) + codes[0].to_bytes((bit_width + 7) // 8, "little")
    return out


def decode_hybrid(data: bytes, bit_width: int, count: int) -> list[int]:
    """The slow twin: all codes laid out."""
    codes: list[int] = []
    position = 0
    while len(codes) < count:
        header, shift = 0, 0
        while True:
            byte = data[position]
            position += 1
            header |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if header & 1:
            size = (header >> 1) * bit_width
            bits = int.from_bytes(data[position : position + size], "little")
            codes += [bits >> i * bit_width & (1 << bit_width) - 1 for i in range((header >> 1) * 8)]
        else:
            size = (bit_width + 7) // 8
            codes += [int.from_bytes(data[position : position + size], "little")] * (header >> 1)
        position += size
    return codes[:count]


@st.composite
def hybrids(draw: st.DrawFn) -> tuple[int, list[tuple[bool, list[int]]]]:
    bit_width = draw(st.integers(1, 32))
    code = st.integers(0, min(2**bit_width - 1, 999))
    packed = st.lists(code, min_size=1, max_size=5).map(lambda codes: (True, (codes * 8)[: len(codes) // 8 * 8 or 8]))
    repeated = st.tuples(code, st.integers(1, 300)).map(lambda run: (False, [run[0]] * run[1]))
    return bit_width, draw(st.lists(packed | repeated, max_size=8))


@settings(deadline=None)  # the kernel may have to be compiled first
@given(hybrids(), st.integers(0, 7))
def test_codes_are_counted_as_the_twin_lays_them_out(case: Any, short: int) -> None:
    bit_width, runs = case
    data = encode_hybrid(runs, bit_width)
    codes = [code for _, run in runs for code in run]
    count = max(0, len(codes) - short)
    assert decode_hybrid(data, bit_width, count) == codes[:count]
    counts = np.zeros(1000, np.int64)
    end = count_codes(np.frombuffer(data, np.uint8), bit_width, count, counts)
    assert counts.tolist() == np.bincount(codes[:count], minlength=1000).tolist()
    assert end <= len(data)
    if short == 0:
        assert end == len(data)


def test_a_last_group_may_end_with_the_last_code() -> None:
    data = np.array([0b11, 0b10_01_10_11], np.uint8)  # one group of 8 codes of 2 bits, its second byte left out
    counts = np.zeros(4, np.int64)
    assert count_codes(data, 2, 4, counts) == 2
    assert counts.tolist() == [0, 1, 2, 1]


def test_codes_of_no_bits_are_all_0() -> None:
    counts = np.zeros(1, np.int64)
    assert count_codes(np.empty(0, np.uint8), 0, 5, counts) == 0
    assert counts.tolist() == [5]


@pytest.mark.parametrize(
    ("data", "bit_width", "count", "codes", "message"),
    [
        (b"", 1, 1, 2, "0 bytes of runs end before code 1"),
        (b"\x80", 1, 1, 2, "end before code 1"),
        (b"\x04", 3, 2, 8, "end before code 2"),
        (b"\x03\xff", 3, 8, 8, "end before code 8"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x01", 1, 1, 2, "end before code 1"),
        (b"\x00\x01" * 4, 1, 1, 2, "end before code 1"),  # runs of no codes
        (b"\x04\x03", 2, 2, 3, "a code is not below 3"),
        (b"\x03\xe4\x00", 2, 8, 3, "a code is not below 3"),
        (b"\x04\xff\xff\xff\xff", 32, 2, 3, "a code is not below 3"),
        (b"", 33, 1, 3, "codes of 33 bits"),
        (b"", 0, 1, 0, "code 0 of no codes"),
    ],
)
def test_bad_runs(data: bytes, bit_width: int, count: int, codes: int, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        count_codes(np.frombuffer(data, np.uint8), bit_width, count, np.zeros(codes, np.int64))


# PLAIN ----------------------------------------------------------------------------------------------------------------


def column(type_: PhysicalType, *, length: int = 0, optional: int = 0, repeated: int = 0) -> Column:
    return Column(0, ("a",), None, type_, length, pa.null(), optional, repeated)


@pytest.mark.parametrize(
    ("type_", "length", "data", "values"),
    [
        (PhysicalType.INT32, 0, b"\x01\0\0\0\xff\xff\xff\xff", [1, -1]),
        (PhysicalType.INT64, 0, b"\x01" + bytes(7) + b"\xff" * 8, [1, -1]),
        (PhysicalType.FLOAT, 0, b"\0\0\x80\x3f\0\0\0\x80", [1.0, -0.0]),
        (PhysicalType.DOUBLE, 0, bytes(6) + b"\xf0\x3f" + bytes(7) + b"\x80", [1.0, -0.0]),
        (PhysicalType.FIXED_LEN_BYTE_ARRAY, 3, b"abcdef", [[97, 98, 99], [100, 101, 102]]),
        (PhysicalType.INT96, 0, bytes(range(24)), [list(range(12)), list(range(12, 24))]),
        (PhysicalType.BOOLEAN, 0, b"\x02", [False, True]),
    ],
)
def test_plain_values_of_fixed_width(type_: PhysicalType, length: int, data: bytes, values: list[Any]) -> None:
    raw = np.frombuffer(data, np.uint8)
    decoded = decode_plain_fixed(column(type_, length=length), raw, 2)
    assert decoded.tolist() == values
    if type_ is not PhysicalType.BOOLEAN:
        assert np.shares_memory(decoded, raw)
    for wrong in (data[:-1], data + b"\0"):
        with pytest.raises(FormatError, match=f"2 values of {type_.name} take {len(data)} bytes, found {len(wrong)}"):
            decode_plain_fixed(column(type_, length=length), np.frombuffer(wrong, np.uint8), 2)


@settings(deadline=None)  # the kernel may have to be compiled first
@given(st.lists(st.binary(max_size=300), max_size=50))
def test_plain_byte_arrays(values: list[bytes]) -> None:
    data = b"".join(len(value).to_bytes(4, "little") + value for value in values)
    starts, lengths = decode_plain_byte_array(np.frombuffer(data, np.uint8), len(values))
    assert [data[s : s + n] for s, n in zip(starts.tolist(), lengths.tolist(), strict=True)] == values


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 1),
        (b"\x01\0\0\0", 1),
        (b"\0\0\0\0a", 1),
        (b"\xff\xff\xff\xff", 1),
        (b"\x04\0\0\0abcd\0\0\0", 2),
        (b"", 2**40),
    ],
)
def test_bad_plain_byte_arrays(data: bytes, count: int) -> None:
    with pytest.raises(FormatError, match="BYTE_ARRAY"):
        decode_plain_byte_array(np.frombuffer(data, np.uint8), count)


# Whole chunks, against PyArrow ----------------------------------------------------------------------------------------


def open_file(data: bytes) -> FileMetadata:
    size = int.from_bytes(data[-8:-4], "little") + 8
    return decode_metadata(data[-size:], location="a.parquet", file_size=len(data))


def chunks(data: bytes) -> Iterator[tuple[int, ColumnChunk]]:
    for index, group in enumerate(open_file(data).row_groups):
        for chunk in group.chunks:
            yield index, chunk


def pages(data: bytes, chunk: ColumnChunk) -> Iterator[DictionaryPage | DataPage]:
    view = memoryview(data)[chunk.offset : chunk.offset + chunk.size_bytes]
    return iter_pages(view, chunk, base=chunk.offset, location="a.parquet")


def raw_values(chunk: ColumnChunk, data: np.ndarray, count: int) -> list[Any]:
    if chunk.column.physical_type is PhysicalType.BYTE_ARRAY:
        starts, lengths = decode_plain_byte_array(data, count)
        return [data[s : s + n].tobytes() for s, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
    decoded = decode_plain_fixed(chunk.column, data, count)
    return [value.tobytes() for value in decoded] if decoded.ndim == 2 else decoded.tolist()


def chunk_values(data: bytes, chunk: ColumnChunk) -> list[Any] | None:
    """All values of a chunk that are not null; None if its pages are encoded otherwise."""
    values: list[Any] = []
    dictionary: list[Any] = []
    for page in pages(data, chunk):
        if isinstance(page, DictionaryPage):
            dictionary = raw_values(chunk, page.data, page.value_count)
        elif page.encoding == Encoding.PLAIN:
            values += raw_values(chunk, page.data, page.present_count)
        elif page.encoding in (Encoding.RLE_DICTIONARY, Encoding.PLAIN_DICTIONARY):
            codes = page.data.tobytes()
            values += [dictionary[i] for i in decode_hybrid(codes[1:], codes[0], page.present_count)]
        else:
            return None
    return values


def arrow_values(array: pa.ChunkedArray) -> list[Any]:
    """What PyArrow reads, in the form of the physical type."""
    array = array.combine_chunks().drop_null()
    type_ = array.type
    if pa.types.is_string(type_):
        array = array.cast(pa.binary())
    elif pa.types.is_temporal(type_):
        array = array.cast(pa.int32() if type_.bit_width == 32 else pa.int64())
    return array.to_pylist()


def same(left: list[Any], right: list[Any]) -> bool:
    return [repr(value) for value in left] == [repr(value) for value in right]


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*.parquet")))
def test_pages_of_parquet_mr_hold_what_pyarrow_reads(name: str) -> None:
    data = (DATA / f"{name}.parquet").read_bytes()
    file = pq.ParquetFile(io.BytesIO(data))
    compared = 0
    for group, chunk in chunks(data):
        found = sum(page.present_count for page in pages(data, chunk) if isinstance(page, DataPage))
        if chunk.column.max_repetition_level:
            continue
        assert found == chunk.value_count - (chunk.null_count or 0)
        if pa.types.is_decimal(chunk.column.type) or chunk.column.physical_type is PhysicalType.INT96:
            continue
        values = chunk_values(data, chunk)
        if values is not None:
            path = chunk.column.path
            read = file.read_row_group(group, columns=[chunk.column.name])
            flat = read.flatten().column(chunk.column.name) if len(path) > 1 else read.column(path[0])
            assert same(values, arrow_values(flat)), chunk.column.name
            compared += 1
    assert compared >= 10


def test_dictionaries_of_parquet_mr_hold_no_value_without_a_row() -> None:
    """What hashing a dictionary instead of its rows rests on; other writers promise no such thing."""
    data = (DATA / "snappy.parquet").read_bytes()
    checked = mixed = 0
    for _, chunk in chunks(data):
        dictionary_size, used = 0, set()
        for page in pages(data, chunk):
            if isinstance(page, DictionaryPage):
                dictionary_size = page.value_count
            elif page.encoding != Encoding.PLAIN:
                codes = page.data.tobytes()
                used.update(decode_hybrid(codes[1:], codes[0], page.present_count))
            elif dictionary_size:
                mixed += 1
        assert used == set(range(dictionary_size))
        checked += dictionary_size > 0
    assert checked >= 10
    assert mixed >= 3


TABLE = pa.table(
    {
        "i32": pa.array([None if i % 7 == 0 else i % 50 for i in range(2000)], pa.int32()),
        "i64": pa.array(range(2000), pa.int64()),
        "f64": pa.array([i / 3 for i in range(2000)]),
        "text": pa.array([None if i % 5 == 0 else f"text {i % 300}" for i in range(2000)]),
        "flag": pa.array([i % 3 == 0 for i in range(2000)]),
        "fixed": pa.array([bytes([i % 256, i // 256]) for i in range(2000)], pa.binary(2)),
        "nothing": pa.array([None] * 2000, pa.int64()),
    }
)


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_every_codec_and_page_version(codec: str, version: str) -> None:
    sink = io.BytesIO()
    options: dict[str, Any] = {"data_page_size": 1024, "row_group_size": 1200, "write_batch_size": 64}
    pq.write_table(TABLE, sink, compression=codec, data_page_version=version, **options)
    data = sink.getvalue()
    compared = 0
    for group, chunk in chunks(data):
        values = chunk_values(data, chunk)
        if values is None:  # booleans in pages of version 2
            assert (chunk.column.physical_type, version) == (PhysicalType.BOOLEAN, "2.0")
            continue
        array = TABLE.column(chunk.column.name).slice(group * 1200, 1200)
        assert same(values, arrow_values(array)), chunk.column.name
        compared += 1
    assert compared >= 12
    kinds = {type(page) for _, chunk in chunks(data) for page in pages(data, chunk)}
    assert kinds == {DictionaryPage, DataPage}


def test_the_beginning_of_a_chunk_gives_its_first_pages() -> None:
    data = (DATA / "snappy.parquet").read_bytes()
    chunk = next(chunk for _, chunk in chunks(data) if chunk.column.name == "few")
    assert chunk.dictionary_offset is not None
    start = memoryview(data)[chunk.dictionary_offset : chunk.data_offset]
    (page,) = iter_pages(start, chunk, base=chunk.dictionary_offset)
    assert isinstance(page, DictionaryPage)
    assert raw_values(chunk, page.data, page.value_count)[:2] == [b"value 1", b"value 2"]


def test_one_buffer_serves_many_chunks() -> None:
    data = (DATA / "snappy.parquet").read_bytes()
    buffer = PageBuffer()
    for _, chunk in chunks(data):
        view = memoryview(data)[chunk.offset : chunk.offset + chunk.size_bytes]
        shared = [page.data.tobytes() for page in iter_pages(view, chunk, base=chunk.offset, buffer=buffer)]
        assert shared == [page.data.tobytes() for page in pages(data, chunk)]


# Bad pages ------------------------------------------------------------------------------------------------------------


def page_bytes(body: bytes, fields: dict[int, Any], *, uncompressed: int | None = None) -> bytes:
    size = len(body) if uncompressed is None else uncompressed
    return encode_struct({2: size, 3: len(body), **fields}) + body


def v1(body: bytes, count: int, *, encoding: int = 0, levels: int = 3, **options: Any) -> bytes:
    return page_bytes(body, {1: 0, 5: {1: count, 2: encoding, 3: levels, 4: 3}}, **options)


def v2(
    body: bytes, count: int, *, levels: int = 0, encoding: int = 0, compressed: bool = True, **options: Any
) -> bytes:
    header = {1: count, 2: 0, 3: count, 4: encoding, 5: levels, 6: 0, 7: compressed}
    return page_bytes(body, {1: 3, 8: header}, **options)


def dictionary(body: bytes, count: int, *, encoding: int = 0) -> bytes:
    return page_bytes(body, {1: 2, 7: {1: count, 2: encoding}})


def chunk_of(data: bytes, count: int, *, codec: int = Codec.UNCOMPRESSED, **levels: int) -> ColumnChunk:
    return ColumnChunk(
        column=column(PhysicalType.INT32, **levels),
        codec=codec,
        encodings=frozenset(),
        data_page_encodings=None,
        value_count=count,
        null_count=None,
        offset=100,
        size_bytes=len(data),
        uncompressed_size_bytes=len(data),
        dictionary_offset=None,
        data_offset=100,
    )


def read(data: bytes, count: int, **options: int) -> list[DictionaryPage | DataPage]:
    return list(iter_pages(memoryview(data), chunk_of(data, count, **options), base=100, location="a.parquet"))


ONE = bytes(4)


def test_pages_of_unknown_types_are_stepped_over() -> None:
    index_page, future_page = page_bytes(b"abc", {1: 1}), page_bytes(b"abc", {1: 9})
    found = read(index_page + dictionary(ONE, 1) + future_page + v1(ONE, 1) + b"what follows", 1)
    assert [type(page) for page in found] == [DictionaryPage, DataPage]


def test_pages_of_version_2_may_leave_their_values_uncompressed() -> None:
    levels = varint(2 << 1) + b"\x01"
    data = v2(levels + ONE * 2, 2, levels=2, compressed=False)
    (page,) = read(data, 2, codec=Codec.ZSTD, optional=1)
    assert isinstance(page, DataPage)
    assert (page.present_count, page.data.tobytes(), page.definition_levels.tobytes()) == (2, ONE * 2, levels)


def test_levels_of_a_repeated_column_are_handed_out() -> None:
    levels = varint(2 << 1) + b"\x01"
    prefixed = len(levels).to_bytes(4, "little") + levels
    (page,) = read(v1(prefixed + prefixed + ONE * 2, 2), 2, optional=1, repeated=1)
    assert isinstance(page, DataPage)
    assert page.repetition_levels.tobytes() == page.definition_levels.tobytes() == levels
    assert (page.present_count, page.data.tobytes()) == (2, ONE * 2)


@pytest.mark.parametrize(
    ("levels", "count", "present"),
    [
        (b"\x04\x01", 2, 2),
        (b"\x04\x01", 1, 1),
        (b"\x04\x00", 2, 0),
        (b"\x80\x02\x01", 128, 128),
        (b"\x80\x80\x02\x01", 16384, 16384),
        (b"\x80\x80\x80\x02\x01", 2**21, 2**21),
        (b"\x02\x00\x01", 1, 0),  # a run of one null, and a byte that means nothing
        (b"\x03\x01", 3, 1),  # bit-packed
        (b"\x02\x01\x02\x00", 2, 1),
    ],
)
def test_definition_levels_tell_how_many_values_are_there(levels: bytes, count: int, present: int) -> None:
    body = len(levels).to_bytes(4, "little") + levels + ONE * present
    (page,) = read(v1(body, count), count, optional=1)
    assert isinstance(page, DataPage)
    assert (page.value_count, page.present_count, len(page.data)) == (count, present, 4 * present)


BAD_CHUNKS: dict[str, tuple[bytes, int, dict[str, int], str, int]] = {
    "no pages": (b"", 1, {}, "pages hold 0 values, their column chunk 1", 100),
    "no page header": (b"\xff\xff", 1, {}, "PageHeader is cut short|is not one of", 100),
    "no type": (encode_struct({2: 1, 3: 1}), 1, {}, "PageHeader has no type", 100),
    "negative size": (encode_struct({1: 0, 2: 1, 3: -1}), 1, {}, "compressed_page_size -1", 100),
    "size beyond 2 GiB": (encode_struct({1: 0, 2: 2**31, 3: 1}), 1, {}, "uncompressed_page_size 2147483648", 100),
    "no data header": (encode_struct({1: 0, 2: 1, 3: 1}), 1, {}, "PageHeader has no DataPageHeader", 100),
    "page behind the chunk": (v1(ONE, 1)[:-1], 1, {}, "page of 4 bytes, only 3 are left", 100),
    "too few values": (v1(ONE, 1), 2, {}, "pages hold 1 values, their column chunk 2", 100),
    "too many values": (v1(ONE * 2, 2), 1, {}, "pages hold 2 values, their column chunk 1", 100),
    "late dictionary": (v1(ONE, 1) + dictionary(ONE, 1), 2, {}, "is not the first page", 100 + len(v1(ONE, 1))),
    "two dictionaries": (dictionary(ONE, 1) * 2, 1, {}, "is not the first page", 100 + len(dictionary(ONE, 1))),
    "encoded dictionary": (dictionary(ONE, 1, encoding=5), 1, {}, "dictionary page has encoding 5", 100),
    "other size": (v1(ONE, 1, uncompressed=5), 1, {}, "uncompressed page has 4 bytes, its header says 5", 100),
    "no levels": (v1(b"abc", 1), 1, {"optional": 1}, "levels of 6513249 bytes in a page of 3", 100),
    "levels cut short": (v1(b"\x09\0\0\0a", 1), 1, {"optional": 1}, "levels of 9 bytes in a page of 5", 100),
    "levels without runs": (v1(b"\0\0\0\0", 1), 1, {"optional": 1}, "end before code 1", 100),
    "level too high": (v1(b"\x02\0\0\0\x02\x03", 1), 1, {"optional": 2}, "a code is not below 3", 100),
    "levels of version 2": (v2(ONE, 1, levels=5), 1, {"optional": 1}, "definition_levels_byte_length 5", 100),
    "snappy": (v1(b"\xff" * 8, 1, uncompressed=4), 1, {"codec": Codec.SNAPPY}, "compressed page is damaged", 100),
    "snappy of another size": (v1(b"\x01\x00a", 1, uncompressed=4), 1, {"codec": Codec.SNAPPY}, "holds 1 bytes", 100),
    "snappy bomb": (v1(b"\x01\x00a", 1, uncompressed=2**31 - 1), 1, {"codec": Codec.SNAPPY}, "of 3 bytes claims", 100),
    "zstd": (v1(ONE, 1), 1, {"codec": Codec.ZSTD}, "not a Zstandard frame", 100),
    "zstd of another size": (
        v1(pa.Codec("zstd").compress(ONE, asbytes=True), 1, uncompressed=5),
        1,
        {"codec": Codec.ZSTD},
        "holds 4 bytes, expected 5",
        100,
    ),
    "lz4": (v1(b"\xf0", 1, uncompressed=4), 1, {"codec": Codec.LZ4_RAW}, "LZ4 block is damaged", 100),
    "gzip": (v1(b"\x1f\x8b", 1, uncompressed=4), 1, {"codec": Codec.GZIP}, "compressed page is damaged", 100),
    "brotli": (v1(b"\xff\xff", 1, uncompressed=4), 1, {"codec": Codec.BROTLI}, "compressed page is damaged", 100),
}


@pytest.mark.parametrize(("data", "count", "options", "message", "offset"), BAD_CHUNKS.values(), ids=BAD_CHUNKS)
def test_bad_chunks(data: bytes, count: int, options: dict[str, int], message: str, offset: int) -> None:
    with pytest.raises(FormatError, match=message) as raised:
        read(data, count, **options)
    assert raised.value.location == "a.parquet"
    assert raised.value.offset is not None
    assert 0 <= raised.value.offset - offset <= len(data)


@pytest.mark.parametrize("codec", [Codec.LZO, Codec.LZ4, 99])
def test_codecs_left_to_pyarrow_are_named(codec: int) -> None:
    with pytest.raises(UnsupportedError, match=f"codec {int(codec)} is not supported"):
        read(v1(ONE, 1), 1, codec=codec)


def test_bit_packed_levels_are_left_to_pyarrow() -> None:
    with pytest.raises(UnsupportedError, match="definition levels of encoding 4"):
        read(v1(ONE, 1, levels=4), 1, optional=1)


def test_a_header_tells_its_own_size() -> None:
    data = v2(ONE, 1)
    header = decode_page_header(memoryview(b"xx" + data), 2)
    assert (header.type, header.header_bytes) == (PageType.DATA_PAGE_V2, len(data) - 4)


# Damage ---------------------------------------------------------------------------------------------------------------


def read_everything(data: bytes) -> None:
    for _, chunk in chunks(data):
        for page in pages(data, chunk):
            count = page.value_count if isinstance(page, DictionaryPage) else page.present_count
            if isinstance(page, DictionaryPage) or page.encoding == Encoding.PLAIN:
                if chunk.column.physical_type is PhysicalType.BYTE_ARRAY:
                    decode_plain_byte_array(page.data, count)
                else:
                    decode_plain_fixed(chunk.column, page.data, count)
            elif page.encoding in (Encoding.RLE_DICTIONARY, Encoding.PLAIN_DICTIONARY) and len(page.data):
                count_codes(page.data[1:], int(page.data[0]), count, np.zeros(1000, np.int64))


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
def test_damaged_files_raise_errors_of_ours_only(codec: str) -> None:
    """Bit flips anywhere in a small file, and every truncation of its footer and pages."""
    table = TABLE.slice(0, 60)
    for version in ("1.0", "2.0"):
        sink = io.BytesIO()
        pq.write_table(table, sink, compression=codec, data_page_version=version, store_schema=False)
        data = sink.getvalue()
        read_everything(data)
        choose = random.Random(f"{codec} {version}")
        failed = 0
        for _ in range(400):
            damaged = bytearray(data)
            for _ in range(choose.choice((1, 1, 3))):
                damaged[choose.randrange(len(data) - 8)] ^= 1 << choose.randrange(8)
            try:
                read_everything(bytes(damaged))
            except SkerryError:
                failed += 1
        assert failed > 100
    footer_size = int.from_bytes(data[-8:-4], "little")
    for size in range(0, footer_size, 7):
        footer = data[-8 - footer_size : -8][:size]
        with pytest.raises(FormatError):
            decode_metadata(footer + size.to_bytes(4, "little") + b"PAR1", location="a", file_size=len(data))
    for _, chunk in chunks(data):
        if chunk.column.name == "text":
            for size in range(chunk.size_bytes):
                view = memoryview(data)[chunk.offset : chunk.offset + size]
                try:
                    list(iter_pages(view, chunk, base=chunk.offset))
                except FormatError:
                    continue
                # Cut behind the dictionary page: that is a beginning of the chunk.
                assert size in (0, chunk.data_offset - chunk.offset)
