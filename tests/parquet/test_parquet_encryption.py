"""Footers that speak of encryption, found by a walk over their bytes; beside the decoder that decodes them."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import FormatError
from skerry.parquet import is_encrypted, read_arrow_metadata
from skerry.parquet.encryption import check_chunks
from skerry.parquet.thrift import CompactDecoder


def footer_of(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    data = sink.getvalue()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


NESTED = pa.table({"a": [1, 2, None], "s": [{"x": [1.5], "m": [("k", b"v")]}] * 3, "t": ["x", "y", "z"]})
FOOTER = footer_of(NESTED, row_group_size=1, write_page_index=True)


def plain_is_encrypted(footer: bytes) -> bool:
    root = CompactDecoder(memoryview(footer)).decode_struct("FileMetaData")
    chunks = [chunk for group in root.fields.get(4, []) for chunk in group.get(1, [])]
    return 8 in root.fields or any({8, 9} & chunk.keys() for chunk in chunks)


def compact(fields) -> bytes:
    """A structure of fields (number, type, bytes), each with its number in full."""
    return b"".join(bytes([kind, number << 1]) + value for number, kind, value in fields) + b"\0"


def listed(*structures) -> bytes:
    return bytes([len(structures) << 4 | 12]) + b"".join(structures)


def file_with(chunk) -> bytes:
    group = compact([(1, 9, listed(compact([(2, 6, b"\x08")]), chunk)), (3, 6, b"\x02")])
    return compact([(1, 5, b"\x02"), (4, 9, listed(group)), (6, 8, b"\x02ab")])


@pytest.mark.parametrize(
    ("footer", "expected"),
    [
        (FOOTER, False),
        (file_with(compact([(2, 6, b"\x08")])), False),
        (file_with(compact([(2, 6, b"\x08"), (8, 12, compact([]))])), True),
        (file_with(compact([(9, 8, b"\x01!")])), True),
        (compact([(8, 12, compact([(1, 12, compact([]))]))]), True),
        (compact([(9, 8, b"\x01!"), (7, 9, listed(compact([(8, 12, compact([]))])))]), False),
        (compact([(20, 11, b"\x02\x8c" + b"\x01a" + compact([]) + b"\x01b" + compact([(8, 1, b"")]))]), False),
        (
            compact([(20, 11, b"\x00"), (21, 13, bytes(16)), (22, 7, bytes(8)), (23, 3, b"\0"), (24, 9, b"\x21\1\2")]),
            False,
        ),
    ],
)
def test_encryption_is_found_where_it_is(footer, expected):
    assert is_encrypted(footer) is expected
    if b"\x02\x8c" not in footer:  # the decoder decodes no maps
        assert plain_is_encrypted(footer) is expected


@pytest.mark.parametrize(
    "footer",
    [
        b"",
        FOOTER[: len(FOOTER) // 2],
        b"\x1c" * 30,
        b"\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x18\xff\xff\xff\xff\x0f",
        b"\x19\xfc\xff\xff\xff\xff\x0f",
        b"\x19\x20",
        b"\x1b\x01\x00",
        b"\x1e",
        b"\x0f\x00",
    ],
)
def test_what_is_no_structure_is_refused(footer):
    with pytest.raises(FormatError, match="it is not a valid structure"):
        is_encrypted(footer)


@given(st.data())
def test_damage_is_judged_as_the_decoder_judges_it(data):
    damaged = bytearray(FOOTER)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        expected = plain_is_encrypted(bytes(damaged))
    except (FormatError, AttributeError, TypeError):
        expected = None
    try:
        found = is_encrypted(bytes(damaged))
    except FormatError:
        found = None
    assert found is not False or expected is not True


def test_a_structure_instead_of_a_list_has_no_chunks():
    encrypted = compact([(8, 12, compact([]))])
    for kind, value in ((9, listed(encrypted)), (12, compact([(1, 12, encrypted)]))):
        assert is_encrypted(compact([(4, 9, listed(compact([(1, kind, value)])))])) is (kind == 9)
        assert is_encrypted(compact([(4, kind, value if kind == 12 else listed(compact([(1, 9, value)])))])) is (
            kind == 9
        )


# What PyArrow would end the process over ------------------------------------------------------------------------------

INT32_COLUMN, FIXED_COLUMN, TEXT_COLUMN = [1, 0, 0, 1], [7, 5, 0, 1], [6, 0, 1, 2]


def longs(count) -> bytes:
    return bytes([count << 4 | 6]) + b"\2" * count


def text(data) -> bytes:
    return bytes([len(data)]) + data


def meta(kind, statistics=(), sizes=()) -> bytes:
    fields = [(1, 5, bytes([kind << 1])), (12, 12, compact(statistics)), (16, 12, compact(sizes))]
    return compact([(3, 12, compact(fields))])


def file_of(*chunks) -> bytes:
    return compact([(4, 9, listed(compact([(1, 9, listed(*chunks)), (3, 6, b"\2")])))])


def checked(footer, *columns) -> list[list[bool]]:
    return check_chunks(footer, np.array(columns), 1).tolist()


def test_chunks_that_go_with_their_columns():
    sizes = [(2, 9, longs(1)), (3, 9, longs(2))]
    number = meta(1, [(5, 8, text(b"abcd")), (6, 8, text(b"abcd"))], sizes)
    string = meta(6, [(1, 8, text(b"a")), (2, 8, text(b""))], [(1, 6, b"\2"), (2, 9, longs(2)), (3, 9, longs(3))])
    assert checked(file_of(number, string, meta(7)), INT32_COLUMN, TEXT_COLUMN, FIXED_COLUMN) == [[True] * 3]


def test_statistics_shorter_than_a_value_are_not_asked_for():
    for field in (1, 2, 5, 6):
        short = meta(1, [(field, 8, text(b"abc" * (field % 2)))]), meta(7, [(field, 8, text(b"abcd"))])
        assert checked(file_of(*short, meta(6)), INT32_COLUMN, FIXED_COLUMN, TEXT_COLUMN) == [[False, False, True]]


@pytest.mark.parametrize(
    ("footer", "problem"),
    [
        (file_of(meta(1)), "not one column chunk per column"),
        (file_of(meta(1), meta(1), meta(1)), "not one column chunk per column"),
        (file_of(meta(1), compact([])), "not one column chunk per column"),
        (file_of(meta(1), meta(2)), "of another type than its column"),
        (file_of(meta(1), meta(1, sizes=[(2, 9, longs(2))])), "size statistics"),
        (file_of(meta(1), meta(1, sizes=[(3, 9, longs(1))])), "size statistics"),
        (file_of(meta(1), meta(1, sizes=[(1, 6, b"\2")])), "size statistics"),
    ],
)
def test_chunks_that_do_not_go_with_their_columns_are_refused(footer, problem):
    with pytest.raises(FormatError, match=problem):
        checked(footer, INT32_COLUMN, INT32_COLUMN)


def test_footers_of_real_files_pass():
    sink = pa.BufferOutputStream()
    pq.write_table(NESTED, sink, row_group_size=1, write_page_index=True)
    data = sink.getvalue().to_pybytes()
    metadata, sound = read_arrow_metadata(data[-8 - int.from_bytes(data[-8:-4], "little") :])
    assert metadata.num_rows == 3
    assert sound.shape == (3, metadata.num_columns)
    assert sound.all()
