"""decimal128 numbers: the kernels against plain Python, and against what the reference stored."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.amudai.values.decimals import decode_decimal, decode_decimals, encode_decimal, encode_decimals
from skerry.errors import FormatError, SchemaError

_EXACT = Context(prec=200)

# (number, the 16 bytes in the order of writing, highest first), from the examples of decNumber's test cases
_KNOWN = [
    ("-7.50", "A20780000000000000000000000003D0"),
    ("0", "22080000000000000000000000000000"),
    ("1", "22080000000000000000000000000001"),
    ("999", "220800000000000000000000000000FF"),
    ("9.999999999999999999999999999999999E+6144", "77FFCFF3FCFF3FCFF3FCFF3FCFF3FCFF"),
    ("1E-6176", "00000000000000000000000000000001"),
    ("Infinity", "78000000000000000000000000000000"),
    ("-Infinity", "F8000000000000000000000000000000"),
    ("NaN", "7C000000000000000000000000000000"),
]


@pytest.mark.parametrize(("text", "stored"), _KNOWN)
def test_known_numbers(text: str, stored: str) -> None:
    data = bytes.fromhex(stored)[::-1]
    assert str(decode_decimal(data)) == str(Decimal(text))
    assert encode_decimal(Decimal(text)) == data


def test_every_packed_group_decodes_to_three_digits() -> None:
    one = int.from_bytes(encode_decimal(Decimal(1)), "little")
    found = [int(decode_decimal((one - 1 + declet).to_bytes(16, "little"))) for declet in range(1024)]
    assert set(found) == set(range(1000))
    words = np.array([[declet, one >> 64] for declet in range(1024)], np.uint64)
    out = decode_decimals(words.reshape(-1).view(np.uint8), pa.decimal128(3, 0))
    assert out[::2].tolist() == found


@st.composite
def _columns(draw: st.DrawFn) -> pa.Array:
    wide = draw(st.booleans())
    precision = draw(st.integers(1, 76 if wide else 38))
    scale = draw(st.integers(0, precision))
    digits = draw(st.integers(1, min(precision, 34)))
    zeros = draw(st.integers(0, precision - digits))
    bound = 10**digits - 1
    numbers = draw(st.lists(st.none() | st.integers(-bound, bound), max_size=20))
    values = [
        None if number is None else Decimal(number * 10**zeros).scaleb(-scale, context=_EXACT) for number in numbers
    ]
    return pa.array(values, (pa.decimal256 if wide else pa.decimal128)(precision, scale))


@given(_columns(), st.integers(0, 3))
def test_arrow_decimals_come_back(column: pa.Array, skipped: int) -> None:
    column = column[skipped:]
    stored = encode_decimals(column)
    assert stored.null_count == column.null_count
    for value, data in zip(column.to_pylist(), stored.to_pylist(), strict=True):
        if value is not None:
            assert decode_decimal(data) == value
            trimmed = value.normalize(_EXACT) if value else Decimal(0)
            exponent = min(trimmed.as_tuple().exponent, 0)
            if len(value.as_tuple().digits) <= 34:
                assert data == encode_decimal(value.quantize(Decimal(1).scaleb(exponent), context=_EXACT))
    raw = np.frombuffer(stored.buffers()[1], np.uint8)
    out = decode_decimals(raw, column.type, lambda: ~np.asarray(column.is_null()))
    bits = column.is_valid().buffers()[1]
    assert pa.Array.from_buffers(column.type, len(column), [bits, pa.py_buffer(out)]).equals(column)


@given(st.integers(0, 2**128 - 1), st.integers(0, 38))
def test_any_bits_decode_as_the_plain_twin_does(word: int, scale: int) -> None:
    data = word.to_bytes(16, "little")
    number = decode_decimal(data)
    arrow_type = pa.decimal256(76, scale)
    fits = number.is_finite()
    if fits:
        unscaled = number.scaleb(scale, context=Context(prec=200, Emax=99999, Emin=-99999))
        fits = unscaled == unscaled.to_integral_value(context=Context(prec=20000)) and abs(unscaled) < 10**76
    if not fits:
        with pytest.raises(SchemaError, match="row 0 has"):
            decode_decimals(np.frombuffer(data, np.uint8), arrow_type)
        return
    out = decode_decimals(np.frombuffer(data, np.uint8), arrow_type)
    found = int.from_bytes(out.tobytes(), "little", signed=True)
    assert found == int(unscaled)


def test_too_many_digits_are_refused() -> None:
    column = pa.array([Decimal(1), Decimal(12345678901234567890123456789012345)], pa.decimal128(38, 0))
    with pytest.raises(SchemaError, match=r"row 1 has 12345678901234567890123456789012345, expected at most 34 digits"):
        encode_decimals(column)
    with pytest.raises(SchemaError, match="has no decimal128"):
        encode_decimal(column[1].as_py())


def test_rows_without_a_value_may_hold_anything() -> None:
    nan = encode_decimal(Decimal("NaN")) + encode_decimal(Decimal("2.5"))
    raw = np.frombuffer(nan, np.uint8)
    assert decode_decimals(raw, pa.decimal128(2, 1), lambda: np.array([False, True]))[2] == 25
    with pytest.raises(SchemaError, match="row 0 has NaN, which is not a number"):
        decode_decimals(raw, pa.decimal128(2, 1))
    with pytest.raises(SchemaError, match=r"row 1 has 2.5, which does not fit in decimal128\(2, 0\)"):
        decode_decimals(raw, pa.decimal128(2, 0), lambda: np.array([False, True]))


def test_a_number_has_16_bytes() -> None:
    with pytest.raises(FormatError, match="decimal128 of 15 bytes, expected 16"):
        decode_decimal(bytes(15))
