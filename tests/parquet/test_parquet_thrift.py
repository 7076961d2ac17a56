from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thrift_bytes import encode_struct, varint

from skerry.errors import FormatError
from skerry.parquet.thrift import CompactDecoder, Struct

_scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.binary(max_size=40)
_field_ids = st.integers(1, 32767)
_structures = st.recursive(
    st.dictionaries(_field_ids, _scalars, max_size=6),
    lambda inner: st.dictionaries(_field_ids, _scalars | inner | st.lists(inner, max_size=20), max_size=4),
    max_leaves=8,
)


def decode(data: bytes) -> Struct:
    return CompactDecoder(memoryview(data), location="a.parquet", base=100).decode_struct("Thing")


@given(_structures)
def test_a_structure_decodes_to_what_was_encoded(fields: dict[int, Any]) -> None:
    assert decode(encode_struct(fields)).fields == fields


@given(_structures)
def test_every_truncation_is_a_format_error_with_its_place(fields: dict[int, Any]) -> None:
    data = encode_struct(fields)
    for size in range(len(data)):
        with pytest.raises(FormatError) as raised:
            decode(data[:size])
        assert raised.value.location == "a.parquet"
        assert 100 <= raised.value.offset <= 100 + size


@given(st.binary(max_size=60))
def test_arbitrary_bytes_decode_or_raise_a_format_error(data: bytes) -> None:
    with contextlib.suppress(FormatError):
        decode(data)


def test_structures_follow_each_other() -> None:
    data = encode_struct({1: 5}) + encode_struct({2: b"x"})
    decoder = CompactDecoder(data, position=0)
    assert decoder.decode_struct("A").fields == {1: 5}
    assert decoder.decode_struct("B").fields == {2: b"x"}
    assert decoder.position == len(data)


def test_types_that_parquet_does_not_use_are_stepped_over() -> None:
    i8, set_of_i32, map_of_text, uuid, empty_map = (
        b"\x13\xff",
        b"\x1a\x25\x02\x04",
        b"\x1b\x01\x88\x01a\x01b",
        b"\x1d" + bytes(16),
        b"\x1b\x00",
    )
    fields = decode(i8 + set_of_i32 + map_of_text + uuid + empty_map + b"\x15\x02" + b"\x00").fields
    assert fields == {1: -1, 2: [1, 2], 3: None, 4: bytes(16), 5: None, 6: 1}


DEEP = b"\x1c" * 100
BAD = {
    "container larger than the data": (b"\x19\xfc" + varint(2**40), "container of 1099511627776 elements"),
    "map larger than the data": (b"\x1b" + varint(2**40) + b"\x88", "container of 1099511627776 elements"),
    "text larger than the data": (b"\x18" + varint(50) + b"abc", "value of 50 bytes, only 3 are left"),
    "structures without end": (DEEP, "structures nest deeper than 24 levels"),
    "lists without end": (b"\x19" + b"\x19" * 100, "containers nest deeper than 24 levels"),
    "integer without end": (b"\x16" + b"\xff" * 11, "longer than 10 bytes"),
    "type 0 in a field": (b"\x10\x00", "type 0 is not one of the protocol's"),
    "type 14": (b"\x1e\x00", "type 14 is not one of the protocol's"),
}


@pytest.mark.parametrize(("data", "message"), BAD.values(), ids=BAD)
def test_bad_bytes(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as raised:
        decode(data)
    assert raised.value.rule == "Thrift compact protocol"


def test_fields_are_handed_out_with_their_type_checked() -> None:
    thing = decode(encode_struct({1: 7, 2: "é", 3: True, 4: {1: 1}, 5: [{1: 2}], 6: [1, 2], 8: b"\xff"}))
    assert thing.integer(1, "one") == 7
    assert thing.optional_integer(99, "none") is None
    assert thing.text(2, "two") == "é"
    assert thing.flag(3, "three", default=False) is True
    assert thing.flag(99, "none", default=True) is True
    assert thing.structure(4, "four").integer(1, "one") == 1
    assert thing.structures(5, "five")[0].integer(1, "one") == 2
    assert thing.structures(99, "none") == []
    assert thing.integers(6, "six") == [1, 2]
    wrong = {
        "has no one": lambda: thing.integer(99, "one"),
        "has no two": lambda: thing.text(99, "two"),
        "has no four": lambda: thing.structure(99, "four"),
        "has one 7, expected an integer from 0 to 6": lambda: thing.integer(1, "one", maximum=6),
        "has one True, expected an integer": lambda: thing.integer(3, "one"),
        "has a two that is not a string": lambda: thing.text(1, "two"),
        "has a two that is not UTF-8": lambda: thing.text(8, "two"),
        "has three 7, expected a boolean": lambda: thing.flag(1, "three", default=True),
        "has a four that is not a structure": lambda: thing.structure(1, "four"),
        "has a five that is not a list of dict": lambda: thing.structures(6, "five"),
        "has a six that is not a list of int": lambda: thing.integers(1, "six"),
    }
    for message, access in wrong.items():
        with pytest.raises(FormatError, match=message) as raised:
            access()
        assert (raised.value.location, raised.value.offset) == ("a.parquet", 100)
