"""KustoDecimal: decimal128 numbers with densely packed digits, from and to Arrow's decimals.

A number is sign, coefficient of 34 digits and exponent. Columns go through kernels that hold coefficients as limbs of
nine digits, three packed groups each; `decode_decimal` and `encode_decimal` do the same to one number in plain Python.

Spec: docs/formats/amudai.md § 6; IEEE 754-2008, section 3.5.2: decimal128 with the decimal encoding, stored as a
little-endian 128-bit word.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skerry.errors import FormatError, SchemaError
from skerry.kernels import kernel, multiply_high

__all__ = ["DECIMAL_BYTES", "decode_decimal", "decode_decimals", "encode_decimal", "encode_decimals"]

DECIMAL_BYTES: Final = 16
_DIGITS: Final = 34
_BIAS: Final = 6176
_MAX_BIASED: Final = 12287
_MAX_LIMBS: Final = 9
_RULE: Final = "IEEE 754-2008, section 3.5.2"
_NOT_FINITE: Final = 1


def _declet_digits(declet: int) -> tuple[int, int, int]:
    """The three digits of a packed group. Spec: IEEE 754-2008, table 3.3."""
    p, q, r, s, t, u, v, w, x, y = ((declet >> shift) & 1 for shift in range(9, -1, -1))
    pqr, stu = 4 * p + 2 * q + r, 4 * s + 2 * t + u
    if not v:
        return pqr, stu, 4 * w + 2 * x + y
    if not (w and x):
        return (
            (pqr, stu, 8 + y),
            (pqr, 8 + u, 4 * s + 2 * t + y),
            (8 + r, stu, 4 * p + 2 * q + y),
        )[2 * w + x]
    return (
        (8 + r, 8 + u, 4 * p + 2 * q + y),
        (8 + r, 4 * p + 2 * q + u, 8 + y),
        (pqr, 8 + u, 8 + y),
        (8 + r, 8 + u, 8 + y),
    )[2 * s + t]


def _declet_values() -> np.ndarray:
    digits = [_declet_digits(declet) for declet in range(1024)]
    return np.array([100 * a + 10 * b + c for a, b, c in digits], np.uint64)


_VALUES: Final = _declet_values()
"""The number 0 … 999 of each packed group."""
_DECLETS: Final = np.array([int(np.flatnonzero(number == _VALUES)[0]) for number in range(1000)], np.uint64)
"""The canonical packed group of each number."""
_POWERS: Final = np.array([10**i for i in range(20)], np.uint64)


def decode_decimal(data: bytes) -> Decimal:
    """The number in 16 bytes, in plain Python; NaNs lose their payload.

    Raises:
        FormatError: There are not 16 bytes.
    """
    if len(data) != DECIMAL_BYTES:
        raise FormatError(f"decimal128 of {len(data)} bytes, expected {DECIMAL_BYTES}", rule=_RULE)
    word = int.from_bytes(data, "little")
    sign, combination = word >> 127, (word >> 122) & 0x1F
    if combination >= 30:
        return Decimal(("NaN", "Infinity")[combination == 30]).copy_sign(Decimal(-1 if sign else 1))
    lead, high = (combination & 7, combination >> 3)
    if combination >= 24:
        lead, high = 8 + (combination & 1), (combination >> 1) & 3
    digits = [lead]
    for shift in range(100, -1, -10):
        digits += _declet_digits((word >> shift) & 1023)
    return Decimal((sign, tuple(digits), ((high << 12) | ((word >> 110) & 0xFFF)) - _BIAS))


def encode_decimal(number: Decimal) -> bytes:
    """The 16 bytes of a number, in plain Python. Its exponent is kept unless the coefficient needs another one.

    Raises:
        SchemaError: The number has more than 34 digits, or is out of range.
    """
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return ((sign << 127) | ((30 if exponent == "F" else 31) << 122)).to_bytes(DECIMAL_BYTES, "little")
    coefficient, biased = int("".join(map(str, digits))), exponent + _BIAS
    while coefficient % 10 == 0 and coefficient and (coefficient >= 10**_DIGITS or biased < 0):
        coefficient, biased = coefficient // 10, biased + 1
    while biased > _MAX_BIASED and 0 < coefficient < 10 ** (_DIGITS - 1):
        coefficient, biased = coefficient * 10, biased - 1
    if coefficient == 0:
        biased = min(max(biased, 0), _MAX_BIASED)
    if coefficient >= 10**_DIGITS or not 0 <= biased <= _MAX_BIASED:
        raise SchemaError(f"{number} has no decimal128: expected {_DIGITS} digits and an exponent from {-_BIAS}")
    lead, rest = divmod(coefficient, 10 ** (_DIGITS - 1))
    high = biased >> 12
    word = (sign << 127) | ((24 | (high << 1) | (lead & 1) if lead > 7 else (high << 3) | lead) << 122)
    word |= (biased & 0xFFF) << 110
    for i in range(11):
        word |= int(_DECLETS[rest // 1000**i % 1000]) << (10 * i)
    return word.to_bytes(DECIMAL_BYTES, "little")


def encode_decimals(array: pa.Array) -> pa.Array:
    """Make decimal128 numbers out of Arrow decimals.

    Zeros at the end of the fraction are dropped, so that equal values of one column have equal bytes.

    Args:
        array: Values of a decimal type.

    Returns:
        fixed_size_binary(16), null where `array` is.

    Raises:
        SchemaError: A value has more than 34 digits.
    """
    scale = array.type.scale
    if array.type.bit_width < 128:
        array = array.cast(pa.decimal128(array.type.precision, scale))
    filled = array.fill_null(pa.scalar(0, array.type)) if array.null_count else array
    words_each = array.type.bit_width // 64
    words = np.frombuffer(filled.buffers()[1], np.uint64)
    words = words[filled.offset * words_each : (filled.offset + len(filled)) * words_each]
    out = np.empty(2 * len(filled), np.uint64)
    bad = _encode(words, words_each, scale, _DECLETS, _POWERS, np.empty(_MAX_LIMBS + 4, np.uint64), out)
    if bad >= 0:
        raise SchemaError(f"row {bad} has {array[bad].as_py()}, expected at most {_DIGITS} digits", rule=_RULE)
    bits = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(pa.binary(DECIMAL_BYTES), len(out) // 2, [bits, pa.py_buffer(out)], array.null_count)


def decode_decimals(
    numbers: np.ndarray, arrow_type: pa.DataType, present: Callable[[], np.ndarray] | None = None
) -> np.ndarray:
    """Make Arrow decimals out of decimal128 numbers.

    Args:
        numbers: uint8[rows * 16], the numbers end to end.
        arrow_type: A decimal128 or decimal256 type.
        present: Gives a flag per row, bool[rows]: whether there is a value. Asked only if some number does not fit,
            which does not matter where there is none. By default all rows have values.

    Returns:
        uint64[rows * 2 or rows * 4], the unscaled values as Arrow stores them; rows without a value hold anything.

    Raises:
        SchemaError: A value is NaN or infinite, or needs more digits before or after the point than the type has.
    """
    rows = numbers.size // DECIMAL_BYTES
    words_each = arrow_type.bit_width // 64
    out = np.empty(rows * words_each, np.uint64)
    words = np.ascontiguousarray(numbers).view(np.uint64)
    parameters = (arrow_type.precision, arrow_type.scale, words_each, _VALUES, _POWERS)
    limbs = np.empty(_MAX_LIMBS + 4, np.uint64)
    bad = _decode(words, *parameters, limbs, out)
    if bad >= 0 and present is not None:
        words = np.where(np.repeat(present(), 2), words, np.uint64(0))
        bad = _decode(words, *parameters, limbs, out)
    if bad >= 0:
        row, reason = divmod(int(bad), 4)
        number = decode_decimal(words[2 * row : 2 * row + 2].tobytes())
        problem = "is not a number" if reason == _NOT_FINITE else "does not fit"
        raise SchemaError(
            f"row {row} has {number}, which {problem} in {arrow_type}: "
            "read the column as another decimal type, or as fixed_size_binary(16)"
        )
    return out


@kernel("int64(uint64[::1], int64, int64, int64, uint64[::1], uint64[::1], out uint64[::1], out uint64[::1])")
def _decode(
    words: Any, precision: int, scale: int, words_each: int, values: Any, powers: Any, limbs: Any, out: Any
) -> int:
    """Decode all numbers; four times the index of the first that does not fit plus the reason, or -1."""
    limb_count = 5 if words_each == 2 else 9
    for i in range(words.size // 2):
        low, high = words[2 * i], words[2 * i + 1]
        if _decode_short(low, high, precision, scale, words_each, values, powers, out, i):
            continue
        combination = (high >> np.uint64(58)) & np.uint64(31)
        if combination >= 30:
            return 4 * i + 1
        lead = combination & np.uint64(7)
        exponent = combination >> np.uint64(3)
        if combination >= 24:
            lead = np.uint64(8) + (combination & np.uint64(1))
            exponent = (combination >> np.uint64(1)) & np.uint64(3)
        shift = np.int64((exponent << np.uint64(12)) | ((high >> np.uint64(46)) & np.uint64(0xFFF))) - 6176 + scale
        middle = (low >> np.uint64(60)) | ((high << np.uint64(4)) & np.uint64(0x3FF))
        for k in range(limb_count):
            limbs[k] = 0
        fits = _add_shifted(_limb(low, 0, values), shift, powers, limbs, limb_count)
        fits &= _add_shifted(_limb(low, 30, values), shift + 9, powers, limbs, limb_count)
        third = values[middle] + values[(high >> np.uint64(6)) & np.uint64(1023)] * np.uint64(1000)
        third += values[(high >> np.uint64(16)) & np.uint64(1023)] * np.uint64(1_000_000)
        fits &= _add_shifted(third, shift + 18, powers, limbs, limb_count)
        fourth = values[(high >> np.uint64(26)) & np.uint64(1023)]
        fourth += values[(high >> np.uint64(36)) & np.uint64(1023)] * np.uint64(1000) + lead * np.uint64(1_000_000)
        fits &= _add_shifted(fourth, shift + 27, powers, limbs, limb_count)
        top = precision // 9
        fits &= limbs[top] < powers[precision - 9 * top]
        for k in range(top + 1, limb_count):
            fits &= limbs[k] == 0
        if not fits:
            return 4 * i + 2
        _to_binary(limbs, limb_count, high >> np.uint64(63) != 0, words_each, out, i * words_each)
    return -1


@kernel
def _decode_short(
    low: int, high: int, precision: int, scale: int, words_each: int, values: Any, powers: Any, out: Any, i: int
) -> bool:
    """Decode a number of up to 18 digits whose value fits one word, which nearly all are; whether it was one."""
    if low >> np.uint64(60) != 0 or high & np.uint64(0x1C00_3FFF_FFFF_FFFF) != 0:
        return False
    exponent = ((high >> np.uint64(49)) & np.uint64(0x3000)) | ((high >> np.uint64(46)) & np.uint64(0xFFF))
    shift = np.int64(exponent) - 6176 + scale
    if shift < 0 or shift > 9 or high & np.uint64(0x6000_0000_0000_0000) == np.uint64(0x6000_0000_0000_0000):
        return False
    number = _limb(low, 0, values)
    if low >> np.uint64(30) != 0:
        number += _limb(low, 30, values) * np.uint64(1_000_000_000)
        if shift > 0 and number > np.uint64(0x7FFF_FFFF_FFFF_FFFF) // powers[shift]:
            return False
    number *= powers[shift]
    if number >= powers[min(precision, 19)]:
        return False
    sign = np.uint64(0)
    if high >> np.uint64(63) != 0 and number != 0:
        sign = ~sign
    out[i * words_each] = (number ^ sign) - sign
    for w in range(1, words_each):
        out[i * words_each + w] = sign
    return True


@kernel
def _limb(word: int, shift: int, values: Any) -> int:
    """Nine digits: three packed groups of a word."""
    first = values[(word >> np.uint64(shift)) & np.uint64(1023)]
    second = values[(word >> np.uint64(shift + 10)) & np.uint64(1023)]
    third = values[(word >> np.uint64(shift + 20)) & np.uint64(1023)]
    return first + second * np.uint64(1000) + third * np.uint64(1_000_000)


@kernel
def _add_shifted(limb: int, shift: int, powers: Any, limbs: Any, limb_count: int) -> bool:
    """Put nine digits into the limbs, `shift` digits up; whether no digit but zeros falls out at either end."""
    if limb == 0:
        return True
    target = shift // 9
    part = shift - 9 * target
    moved = limb * powers[part]
    upper = moved // np.uint64(1_000_000_000)
    lower = moved - upper * np.uint64(1_000_000_000)
    fits = True
    if 0 <= target < limb_count:
        limbs[target] += lower
    else:
        fits = lower == 0
    if 0 <= target + 1 < limb_count:
        limbs[target + 1] += upper
    elif upper != 0:
        fits = False
    return fits


@kernel
def _to_binary(limbs: Any, limb_count: int, negative: bool, words_each: int, out: Any, at: int) -> None:
    """Write the limbs as a binary number of `words_each` words in two's complement."""
    top = limb_count - 1
    while top > 1 and limbs[top] == 0:
        top -= 1
    for w in range(words_each):
        out[at + w] = 0
    for k in range(top, -1, -1):
        carry = limbs[k]
        for w in range(words_each):
            upper = multiply_high(out[at + w], np.uint64(1_000_000_000))
            lower = out[at + w] * np.uint64(1_000_000_000) + carry
            upper += np.uint64(lower < carry)
            out[at + w] = lower
            carry = upper
    if negative:
        carry = np.uint64(1)
        for w in range(words_each):
            word = ~out[at + w] + carry
            carry = np.uint64(carry != 0 and word == 0)
            out[at + w] = word


@kernel("int64(uint64[::1], int64, int64, uint64[::1], uint64[::1], out uint64[::1], out uint64[::1])")
def _encode(words: Any, words_each: int, scale: int, declets: Any, powers: Any, limbs: Any, out: Any) -> int:
    """Encode all numbers; the index of the first that has too many digits, or -1."""
    limb_count = 5 if words_each == 2 else 9
    for i in range(words.size // words_each):
        negative = words[(i + 1) * words_each - 1] >> np.uint64(63) != 0
        if _encode_short(words, words_each, negative, scale, declets, out, i):
            continue
        _to_limbs(words, i * words_each, words_each, negative, limbs, limb_count)
        zeros, digits = _count_digits(limbs, limb_count, powers)
        strip = min(zeros, scale)
        if digits - strip > 34:
            strip = digits - 34
            if strip > zeros:
                return i
        biased = np.uint64(6176 - scale + strip) if digits else np.uint64(6176)
        whole = strip // 9
        part = strip - 9 * whole
        for k in range(limb_count):
            lower = limbs[k + whole] // powers[part] if k + whole < limb_count else np.uint64(0)
            upper = limbs[k + whole + 1] % powers[part] if k + whole + 1 < limb_count else np.uint64(0)
            limbs[k] = lower + upper * powers[9 - part]
        lead = limbs[3] // np.uint64(1_000_000)
        combination = ((biased >> np.uint64(12)) << np.uint64(3)) | lead
        if lead > 7:
            combination = np.uint64(24) | ((biased >> np.uint64(12)) << np.uint64(1)) | (lead & np.uint64(1))
        third = _packed(limbs[2], declets)
        fourth = _packed(limbs[3] % np.uint64(1_000_000), declets)
        out[2 * i] = (
            _packed(limbs[0], declets) | (_packed(limbs[1], declets) << np.uint64(30)) | (third << np.uint64(60))
        )
        high = (third >> np.uint64(4)) | (fourth << np.uint64(26)) | ((biased & np.uint64(0xFFF)) << np.uint64(46))
        out[2 * i + 1] = high | (combination << np.uint64(58)) | (np.uint64(negative) << np.uint64(63))
    return -1


@kernel
def _encode_short(words: Any, words_each: int, negative: bool, scale: int, declets: Any, out: Any, i: int) -> bool:
    """Encode a value of up to 18 digits, which nearly all are; whether it was one."""
    sign = ~np.uint64(0) if negative else np.uint64(0)
    for w in range(1, words_each):
        if words[i * words_each + w] != sign:
            return False
    number = (words[i * words_each] ^ sign) - sign
    if number >= np.uint64(1_000_000_000_000_000_000) or number == 0:
        return False
    strip = 0
    while strip < scale and number % np.uint64(10) == 0:
        number //= np.uint64(10)
        strip += 1
    biased = np.uint64(6176 - scale + strip)
    upper = number // np.uint64(1_000_000_000)
    coefficient = _packed(number - upper * np.uint64(1_000_000_000), declets)
    if upper != 0:
        coefficient |= _packed(upper, declets) << np.uint64(30)
    out[2 * i] = coefficient
    combination = (biased >> np.uint64(12)) << np.uint64(61)
    out[2 * i + 1] = (
        combination | ((biased & np.uint64(0xFFF)) << np.uint64(46)) | (np.uint64(negative) << np.uint64(63))
    )
    return True


@kernel
def _to_limbs(words: Any, at: int, words_each: int, negative: bool, limbs: Any, limb_count: int) -> None:
    """Write the magnitude of a binary number as limbs; the spare end of `limbs` holds what is left to divide."""
    work = limbs.size - 4
    carry = np.uint64(1)
    for w in range(words_each):
        word = words[at + w]
        if negative:
            word = ~word + carry
            carry = np.uint64(carry != 0 and word == 0)
        limbs[work + w] = word
    for k in range(limb_count):
        remainder = np.uint64(0)
        for w in range(words_each - 1, -1, -1):
            word = limbs[work + w]
            if remainder == 0 and word == 0:
                continue
            upper = (remainder << np.uint64(32)) | (word >> np.uint64(32))
            quotient = upper // np.uint64(1_000_000_000)
            lower = ((upper - quotient * np.uint64(1_000_000_000)) << np.uint64(32)) | (word & np.uint64(0xFFFFFFFF))
            second = lower // np.uint64(1_000_000_000)
            remainder = lower - second * np.uint64(1_000_000_000)
            limbs[work + w] = (quotient << np.uint64(32)) | second
        limbs[k] = remainder


@kernel
def _count_digits(limbs: Any, limb_count: int, powers: Any) -> tuple[int, int]:
    """Zeros at the end of a number, and its digits without leading zeros; both 0 for zero."""
    top = limb_count - 1
    while top >= 0 and limbs[top] == 0:
        top -= 1
    if top < 0:
        return 0, 0
    digits = 9 * top + 1
    while limbs[top] >= powers[digits - 9 * top]:
        digits += 1
    bottom = 0
    while limbs[bottom] == 0:
        bottom += 1
    zeros = 0
    while limbs[bottom] % powers[zeros + 1] == 0:
        zeros += 1
    return 9 * bottom + zeros, digits


@kernel
def _packed(limb: int, declets: Any) -> int:
    """Nine digits as three packed groups, 30 bits."""
    first = declets[limb % np.uint64(1000)]
    second = declets[limb // np.uint64(1000) % np.uint64(1000)]
    return first | (second << np.uint64(10)) | (declets[limb // np.uint64(1_000_000)] << np.uint64(20))
