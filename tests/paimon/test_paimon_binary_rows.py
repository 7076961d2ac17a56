"""Binary rows: Java's own bytes and hashes, every value against plain Python, and rows that break the rules."""

from __future__ import annotations

import decimal
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_rows import array_of, java_vectors, plain_hash, plain_row, types, values, with_arity

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.paimon.metadata.buckets import assign_buckets, buckets_of_rows
from skerry.paimon.metadata.options import BucketFunction
from skerry.paimon.values import byte_spans
from skerry.paimon.values.binary_reading import decode_rows
from skerry.paimon.values.binary_row import encode_rows
from skerry.paimon.values.types import PaimonType, decode_type

decimal.getcontext().prec = 60
VECTORS = java_vectors()
INT, BIGINT, STRING = decode_type("INT"), decode_type("BIGINT"), decode_type("STRING")


@pytest.mark.parametrize(("row_types", "cases"), VECTORS, ids=[str(row_types[0]) for row_types, _ in VECTORS])
def test_rows_and_hashes_are_those_of_java(row_types: list[PaimonType], cases: list[dict[str, Any]]) -> None:
    columns = [array_of(type_, [case["values"][place] for case in cases]) for place, type_ in enumerate(row_types)]
    rows = encode_rows(row_types, columns)
    assert [row.hex() for row in rows.to_list()] == [case["binaryRowHex"] for case in cases]
    assert rows.hashes().tolist() == [case["murmurHash"] for case in cases]
    for total, key in ((4, "bucketOf4"), (7, "bucketOf7")):
        assert buckets_of_rows(rows, total).tolist() == [case[key] for case in cases]
    decoded = decode_rows(row_types, [bytes.fromhex(case["binaryRowHex"]) for case in cases])
    assert all(found.equals(column) for found, column in zip(decoded, columns, strict=True))


@st.composite
def _rows(draw: st.DrawFn) -> tuple[list[PaimonType], list[list[Any]]]:
    row_types = draw(st.lists(types(), min_size=0, max_size=4))
    rows = draw(st.lists(st.tuples(*(values(type_) for type_ in row_types)).map(list), min_size=1, max_size=5))
    return row_types, rows


@given(_rows())
def test_rows_are_those_of_plain_python_and_come_back(found: tuple[list[PaimonType], list[list[Any]]]) -> None:
    row_types, rows = found
    if not row_types:
        rows = rows[:1]
    columns = [array_of(type_, [row[place] for row in rows]) for place, type_ in enumerate(row_types)]
    encoded = encode_rows(row_types, columns)
    assert encoded.to_list() == [with_arity(row_types, row) for row in rows]
    assert encoded.hashes().tolist() == [plain_hash(plain_row(row_types, row)) for row in rows]
    for column, back in zip(columns, decode_rows(row_types, encoded.to_list()), strict=True):
        back.validate(full=True)
        assert back.equals(column)


@settings(max_examples=40)
@given(_rows())
def test_slices_are_encoded_like_what_they_show(found: tuple[list[PaimonType], list[list[Any]]]) -> None:
    row_types, rows = found
    if not row_types:
        return
    columns = [array_of(type_, [row[place] for row in rows]) for place, type_ in enumerate(row_types)]
    sliced = [pa.concat_arrays([column, column]).slice(len(rows) // 2, len(rows)) for column in columns]
    expected = (encode_rows(row_types, columns).to_list() * 2)[len(rows) // 2 :][: len(rows)]
    assert encode_rows(row_types, sliced).to_list() == expected


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # which masks undo
def test_loops_do_in_machine_code_what_they_do_in_python() -> None:
    data = np.arange(64, dtype=np.uint8)
    positions, words = np.array([1, 17, 40]), np.array([2**63 + 5, 7, 2**40], np.uint64)
    for width in (1, 2, 4, 8):
        outs = [np.zeros(64, np.uint8) for _ in range(2)]
        read = [np.zeros(3, np.uint64) for _ in range(2)]
        for number, call in enumerate((lambda kernel: kernel, lambda kernel: kernel.py_func)):
            call(byte_spans.put_words)(outs[number], positions, words, width)
            call(byte_spans.get_words)(data, positions, width, read[number])
        assert (outs[0] == outs[1]).all()
        assert (read[0] == read[1]).all()
    outs = [np.zeros(64, np.uint8) for _ in range(2)]
    spans = (data, positions, np.array([5, 0, 20]))
    byte_spans.copy_spans(*spans, outs[0], np.array([0, 5, 30]))
    byte_spans.copy_spans.py_func(*spans, outs[1], np.array([0, 5, 30]))
    assert (outs[0] == outs[1]).all()
    hashes = [np.zeros(3, np.int32) for _ in range(2)]
    byte_spans.hash_spans(data, np.array([0, 16, 16, 64]), hashes[0])
    byte_spans.hash_spans.py_func(data, np.array([0, 16, 16, 64]), hashes[1])
    assert (hashes[0] == hashes[1]).all()


def test_wanted_fields_alone_are_decoded() -> None:
    rows = encode_rows(
        [INT, STRING, BIGINT], [array_of(INT, [1]), array_of(STRING, ["long enough"]), array_of(BIGINT, [7])]
    )
    broken = bytearray(rows.to_list()[0])
    broken[4 + 8 + 8 : 4 + 8 + 16] = b"\xff\xff\xff\x7f\xff\xff\xff\x7f"  # the string points out of the row
    assert decode_rows([INT, STRING, BIGINT], [bytes(broken)], [2, 0]) == [array_of(BIGINT, [7]), array_of(INT, [1])]
    with pytest.raises(FormatError, match="exceed a row of"):
        decode_rows([INT, STRING, BIGINT], [bytes(broken)])


# Buckets ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(1, 100))
def test_mod_buckets_are_remainders_that_are_never_negative(keys: list[int | None], total: int) -> None:
    found = assign_buckets(BucketFunction.MOD, [BIGINT], [array_of(BIGINT, keys)], total)
    assert found.tolist() == [(key or 0) % total for key in keys]


def _wrap(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def _hive_bytes(data: bytes) -> int:
    state = 0
    for byte in data:
        state = _wrap(state * 31 + (byte - 256 if byte > 127 else byte))
    return state


HIVE = [
    ("BOOLEAN", True, 1),
    ("TINYINT", -3, -3),
    ("INT", -7, -7),
    ("BIGINT", 2**40 + 5, _wrap((2**40 + 5) ^ (2**40 + 5) >> 32)),
    ("BIGINT", -1, 0),
    ("STRING", "Zürich", _hive_bytes("Zürich".encode())),
    ("BYTES", b"\xff\x00\x80", _hive_bytes(b"\xff\x00\x80")),
    ("DATE", 20512, 20512),
    ("FLOAT", 1.5, 0x3FC00000),
    ("FLOAT", -0.0, 0),
    ("DOUBLE", 1.5, 0x3FF80000),
    ("DOUBLE", -0.0, 0),
    ("DECIMAL(10, 2)", decimal.Decimal("12.30"), 31 * 123 + 1),
    ("DECIMAL(10, 2)", decimal.Decimal("-100.00"), _wrap(31 * -100)),
    ("DECIMAL(38, 0)", decimal.Decimal(2**64 + 3), _wrap(31 * (31 * 31 + 3))),
    ("DECIMAL(10, 2)", decimal.Decimal("0.00"), 0),
    ("STRING", None, 0),
]


@pytest.mark.parametrize(("text", "value", "expected"), HIVE)
def test_hive_buckets_are_those_of_hives_hash(text: str, value: Any, expected: int) -> None:
    type_ = decode_type(text)
    found = assign_buckets(BucketFunction.HIVE, [type_], [array_of(type_, [value])], 2**31 - 1)
    assert found.tolist() == [(expected & 0x7FFFFFFF) % (2**31 - 1)]


def test_hive_buckets_of_several_columns_wrap_like_java() -> None:
    columns = [array_of(STRING, ["a long text that overflows"]), array_of(INT, [2**31 - 1])]
    first = _hive_bytes(b"a long text that overflows")
    expected = (_wrap(31 * first + 2**31 - 1) & 0x7FFFFFFF) % 17
    assert assign_buckets(BucketFunction.HIVE, [STRING, INT], columns, 17).tolist() == [expected]


@pytest.mark.parametrize(
    ("function", "texts"),
    [("mod", ["STRING"]), ("mod", ["INT", "INT"]), ("mod", ["SMALLINT"]), ("hive", ["TIMESTAMP(3)"])],
)
def test_bucket_functions_refuse_keys_that_they_do_not_take(function: str, texts: list[str]) -> None:
    row_types = [decode_type(text) for text in texts]
    columns = [array_of(type_, [None]) for type_ in row_types]
    with pytest.raises(SchemaError, match=f"bucket-function.type={function}"):
        assign_buckets(BucketFunction(function), row_types, columns, 4)


# Bad rows -----------------------------------------------------------------------------------------------------------

_ONE = with_arity([STRING], ["far too long for a slot"])
_DECIMAL, _NANO = decode_type("DECIMAL(38, 0)"), decode_type("TIMESTAMP(9)")
_ARRAY, _MAP = (
    decode_type({"type": "ARRAY", "element": "INT"}),
    decode_type({"type": "MAP", "key": "INT", "value": "INT"}),
)


def _poke(data: bytes, place: int, what: bytes) -> bytes:
    return data[:place] + what + data[place + len(what) :]


BAD_ROWS = [
    ("empty", [INT], b"", "takes at least 20 bytes, found 0"),
    ("too short", [INT], with_arity([INT], [5])[:-1], "takes at least 20 bytes, found 19"),
    ("arity", [INT], _poke(with_arity([INT], [5]), 0, b"\0\0\0\2"), "a row has 2 fields, expected 1"),
    ("negative arity", [INT], _poke(with_arity([INT], [5]), 0, b"\xff\xff\xff\xff"), "a row has 4294967295 fields"),
    ("string beyond", [STRING], _poke(_ONE, 12, b"\xff"), "exceed a row of"),
    ("string far beyond", [STRING], _poke(_ONE, 16, b"\xff\xff\xff\x7f"), "exceed a row of"),
    ("not UTF-8", [STRING], _poke(_ONE, 24, b"\xff"), "a string is not UTF-8"),
    ("inline length", [STRING], _poke(with_arity([STRING], ["a"]), 19, b"\x8f"), "15 bytes do not fit a slot"),
    ("decimal length", [_DECIMAL], _poke(with_arity([_DECIMAL], [decimal.Decimal(5)]), 12, b"\x11"), "1 to 16 bytes"),
    ("empty decimal", [_DECIMAL], _poke(with_arity([_DECIMAL], [decimal.Decimal(5)]), 12, b"\0"), "1 to 16 bytes"),
    (
        "too many digits",
        [decode_type("DECIMAL(20, 0)")],
        with_arity([_DECIMAL], [decimal.Decimal(10**20)]),
        "more digits than",
    ),
    ("nanoseconds", [_NANO], _poke(with_arity([_NANO], [0]), 12, b"\x40\x42\x0f\0"), "1000000 nanoseconds exceed"),
    ("time beyond", [_NANO], _poke(with_arity([_NANO], [0]), 16, b"\x11"), "exceed a row of"),
    ("elements", [_ARRAY], _poke(with_arity([_ARRAY], [[1, 2]]), 20, b"\xff\xff\xff\x7f"), "more elements than bytes"),
    ("array size", [_ARRAY], _poke(with_arity([_ARRAY], [[1, 2]]), 12, b"\3"), "takes at least 4 bytes, found 3"),
    ("map keys", [_MAP], _poke(with_arity([_MAP], [[(1, 2)]]), 20, b"\xff"), "keys of a map take more bytes"),
    ("map items", [_MAP], _poke(with_arity([_MAP], [[(1, 2)]]), 40, b"\0"), "different numbers of keys and values"),
    ("null key", [_MAP], _poke(with_arity([_MAP], [[(1, 2)]]), 28, b"\1"), "a null among its keys"),
]


@pytest.mark.parametrize(
    ("row_types", "data", "message"), [case[1:] for case in BAD_ROWS], ids=[c[0] for c in BAD_ROWS]
)
def test_bad_rows_are_refused(row_types: list[PaimonType], data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        decode_rows(row_types, [data])


def test_times_that_arrow_cannot_hold_are_refused_by_name() -> None:
    row = struct.pack(">i", 1) + bytes(8) + struct.pack("<ii", 0, 16) + struct.pack("<q", 2**60)
    with pytest.raises(
        UnsupportedError, match=r"a TIMESTAMP\(9\) of 1152921504606846976 ms is beyond what Arrow holds"
    ):
        decode_rows([_NANO], [row])


@settings(max_examples=60)
@given(st.data())
def test_flipped_rows_are_read_or_refused(data: st.DataObject) -> None:
    row_types, rows = data.draw(_rows())
    row = bytearray(with_arity(row_types, rows[0]))
    for _ in range(data.draw(st.integers(1, 3))):
        row[data.draw(st.integers(0, len(row) - 1))] ^= data.draw(st.integers(1, 255))
    end = data.draw(st.integers(0, len(row)))
    try:
        found = decode_rows(row_types, [bytes(row[:end])])
    except (FormatError, UnsupportedError):
        return
    for column in found:
        column.validate(full=True)


def test_columns_of_other_types_are_refused() -> None:
    for type_, column in (
        (INT, pa.array(["a"])),
        (STRING, pa.array([1])),
        (_NANO, pa.array([1])),
        (_DECIMAL, pa.array([1])),
    ):
        with pytest.raises(SchemaError, match="expected, found a column of type"):
            encode_rows([type_], [column])
