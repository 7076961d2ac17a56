"""Single variants: Python values and JSON to bytes and back, and bytes that are none."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import random
import uuid
from typing import Any

import pytest
from variant_samples import PRIMITIVES, column, comparable, decoded, random_value

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.variant import Primitive, Typed, check, decode_variant, encode_variant, parse_json, to_json
from skerry.variant.decoding import decode_names
from skerry.variant.values import MAX_DEPTH

EMPTY = b"\x01\x00\x00"
AB = b"\x11\x02\x00\x01\x02ab"


@pytest.mark.parametrize("value", PRIMITIVES, ids=repr)
def test_primitive_values_come_back(value: Any) -> None:
    found = decode_variant(*encode_variant(value))
    assert found == (value.value if isinstance(value, Typed) and value.type is Primitive.FLOAT else value)


def test_values_have_the_bytes_of_the_specification() -> None:
    """Examples by hand, from the tables of VariantEncoding.md."""
    assert encode_variant(None) == (b"\x11\x00\x00", b"\x00")
    assert encode_variant(True)[1] == b"\x04"
    assert encode_variant(34)[1] == b"\x0c\x22"
    assert encode_variant("n/a")[1] == b"\x0dn/a"
    assert encode_variant("x" * 64)[1] == b"\x40\x40\x00\x00\x00" + b"x" * 64
    assert encode_variant(decimal.Decimal("1.23"))[1] == b"\x20\x02\x7b\x00\x00\x00"
    assert encode_variant({"b": 1, "a": []}) == (AB, b"\x02\x02\x00\x01\x00\x03\x05" + b"\x03\x00\x00" + b"\x0c\x01")
    assert encode_variant(dt.date(1970, 1, 3))[1] == b"\x2c\x02\x00\x00\x00"
    assert encode_variant(uuid.UUID(int=1))[1] == b"\x50" + b"\x00" * 15 + b"\x01"


def test_random_values_come_back() -> None:
    rng = random.Random(5)
    values = [random_value(rng) for _ in range(300)]
    array = column(values)
    check(array)
    again = column(decoded(array))
    assert again.equals(array)
    assert [comparable(value) for value in decoded(again)] == [comparable(value) for value in decoded(array)]


def test_large_containers_come_back() -> None:
    value = {f"name {i:05}": [i] * (i % 300) for i in range(700)}
    metadata, data = encode_variant(value)
    assert decode_variant(metadata, data) == value
    assert decode_names(metadata) == sorted(value)


def test_types_are_exact_on_request() -> None:
    exact = [Typed(Primitive.INT64, 1), Typed(Primitive.FLOAT, 0.5), Typed(Primitive.DECIMAL16, decimal.Decimal("1.0"))]
    assert decode_variant(*encode_variant(exact), typed=True) == exact


def test_dates_that_python_lacks_stay_numbers() -> None:
    far = [Typed(Primitive.DATE, 2**31 - 1), Typed(Primitive.TIMESTAMP, 2**62), Typed(Primitive.TIME_NTZ, -1)]
    assert decode_variant(*encode_variant(far)) == far
    assert to_json(*encode_variant(far[:2])) == '["5881580-07-11","148108-07-06 14:00:27.387904+00:00"]'


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (decimal.Decimal("1E+38"), "more than 38 digits"),
        (2**130, "more than 38 digits"),
        (decimal.Decimal("NaN"), "not a finite number"),
        ({1: 2}, "expected text"),
        (object(), "cannot hold"),
        ("\ud800", "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        (Typed(Primitive.INT8, 300), "INT8"),
        (dt.time(1, tzinfo=dt.UTC), "no zone"),
    ],
)
def test_values_that_no_variant_holds_are_refused(value: Any, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        encode_variant(value)


def test_nesting_has_a_limit() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    metadata, data = encode_variant(value)
    assert decode_variant(metadata, data) == value
    check(column([value]))
    with pytest.raises(UnsupportedError, match="deeper than 200"):
        encode_variant([value])
    deeper = b"\x0f\x01" + (0).to_bytes(4, "little") + len(data).to_bytes(4, "little") + data
    with pytest.raises(UnsupportedError, match="deeper than 200"):
        decode_variant(metadata, deeper)


BAD_METADATA = {
    "empty": (b"", "empty"),
    "another version": (b"\x02\x00\x00", "version 2"),
    "cut in its count": (b"\xc1\x00\x00", "cut short"),
    "cut in its offsets": (b"\x01\x02\x00", "3 bytes"),
    "offsets beyond the end": (b"\x01\x01\x00\x02a", "0 to 2"),
    "offsets that descend": (b"\x01\x02\x00\x01\x00a", "1 to 0"),
    "a name that is not UTF-8": (b"\x01\x01\x00\x01\xff", "UTF-8"),
}


@pytest.mark.parametrize("name", BAD_METADATA)
def test_bad_metadata_is_refused(name: str) -> None:
    metadata, problem = BAD_METADATA[name]
    with pytest.raises(FormatError, match=problem):
        decode_variant(metadata, b"\x00")


BAD_VALUES = {
    "empty": (b"", "cut short"),
    "int cut short": (b"\x14\x01\x00", "cut short"),
    "string cut short": (b"\x40\x05\x00\x00\x00ab", "cut short"),
    "string with a short length": (b"\x40\x05\x00", "cut short"),
    "short string cut short": (b"\x0dab", "cut short"),
    "string that is not UTF-8": (b"\x05\xff", "UTF-8"),
    "decimal of scale 39": (b"\x20\x27\x00\x00\x00\x00", "scale 39"),
    "array of too many elements": (b"\x13\xff\xff\xff\xff", "cut short"),
    "array that ends behind its bytes": (b"\x03\x01\x00\x05\x00", "ends behind"),
    "element behind the array": (b"\x03\x01\x09\x01\x00", "cut short"),
    "object with an unknown name": (b"\x02\x01\x02\x00\x01\x00", "2 names"),
    "object with a name twice": (b"\x02\x02\x00\x00\x00\x01\x02\x00\x00", "two fields 'a'"),
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_bad_values_are_refused(name: str) -> None:
    value, problem = BAD_VALUES[name]
    with pytest.raises(FormatError, match=problem):
        decode_variant(AB, value)


def test_types_of_later_versions_are_named() -> None:
    with pytest.raises(UnsupportedError, match="type 21"):
        decode_variant(EMPTY, bytes([21 << 2]))


def test_overlapping_elements_do_not_grow() -> None:
    """Twenty arrays whose two elements are the same array would have a million elements."""
    value = b"\x00"
    for _ in range(20):
        value = b"\x0f\x02" + (0).to_bytes(4, "little") * 2 + len(value).to_bytes(4, "little") + value
    with pytest.raises(FormatError, match="overlap"):
        decode_variant(EMPTY, value)


# ---- JSON ----


def test_json_comes_back() -> None:
    text = '{"a":[1,-2.50,true,null,"é\\n"],"b":{"":1e3},"c":123456789012345678901234567890}'
    metadata, value = parse_json(text)
    assert json.loads(to_json(metadata, value)) == json.loads(text)
    assert decode_variant(metadata, value)["a"][1] == decimal.Decimal("-2.50")


def test_numbers_of_json_have_the_types_of_spark() -> None:
    text = "[1, 128, 32768, 2147483648, 9223372036854775808, 1.0, 1e0, 0.1234567890123456789012345678901234567890]"
    found = [value.type for value in decode_variant(*parse_json(text), typed=True)]
    integers = [Primitive.INT8, Primitive.INT16, Primitive.INT32, Primitive.INT64, Primitive.DECIMAL16]
    assert found == [*integers, Primitive.DECIMAL4, Primitive.DOUBLE, Primitive.DOUBLE]


def test_values_without_json_become_text() -> None:
    value = [
        b"\x00\xff",
        dt.datetime(2020, 1, 2, 3, 4, 5, 60, dt.UTC),
        dt.time(1, 2, 3),
        float("nan"),
        uuid.UUID(int=1),
    ]
    assert json.loads(to_json(*encode_variant(value))) == [
        "AP8=",
        "2020-01-02 03:04:05.00006+00:00",
        "01:02:03",
        "NaN",
        "00000000-0000-0000-0000-000000000001",
    ]


@pytest.mark.parametrize("text", [None, 5, b"\xff", "{", '{"a":1,"a":2}', "NaN", '"\\ud800"', "[" * 5000 + "]" * 5000])
def test_what_is_not_json_is_refused(text: Any) -> None:
    with pytest.raises((SchemaError, UnsupportedError)):
        parse_json(text)
