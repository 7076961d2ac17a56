"""Footers that speak of encryption, found by a walk over their bytes; beside the decoder that decodes them."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import FormatError
from skerry.parquet import is_encrypted
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
    with pytest.raises(FormatError, match="the Parquet footer is no sound structure"):
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
