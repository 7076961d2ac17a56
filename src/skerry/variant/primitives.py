"""Primitive values of a column read into words, and these as arrays of a wanted type.

Spec: Parquet spec, VariantEncoding.md, Encoding types.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import SchemaError
from skerry.kernels import kernel, load
from skerry.variant.columns import Bytes, Flags, Longs, Spans, raise_on
from skerry.variant.layout import BAD, SHORT, value_end
from skerry.variant.values import EXACT, Primitive

__all__ = ["NO_TYPE", "Words", "read_words", "to_array"]

NO_TYPE: Final = 255
_INTEGERS: Final = (Primitive.INT8, Primitive.INT16, Primitive.INT32, Primitive.INT64)
_DECIMALS: Final = (Primitive.DECIMAL4, Primitive.DECIMAL8, Primitive.DECIMAL16)
_EXACT_BITS: Final = 53
_EXACT_SCALE: Final = 22
"""The largest power of ten that a double holds exactly."""
_I8, _I16, _I32, _I64 = np.int8(0), np.int16(0), np.int32(0), np.int64(0)
_SHORT_STRING, _CONTAINER = 1, 2
_WIDTHS = np.array([0, 0, 0, 1, 2, 4, 8, 8, 4, 8, 8, 4, 8, 8, 4, 0, 0, 8, 8, 8, 8], np.int64)
"""Bytes of a number, or of its lower half, by primitive type."""


@dataclass(frozen=True, slots=True)
class Words:
    """Primitive values of a column.

    Args:
        data: The buffer of the values.
        words: int64[2, n]. The value or its bits, and for 16 bytes their upper half; of text and bytes where they
            begin and end in the buffer.
        scales: uint8[n], of decimals.
        types: uint8[n], the `Primitive`; `NO_TYPE` where there is none.
    """

    data: Bytes
    words: Longs
    scales: Bytes
    types: Bytes

    def are(self, types: Iterable[Primitive]) -> Flags:
        """bool[n]: where a value has one of these types."""
        found: Flags = np.isin(self.types, np.array([int(type_) for type_ in types], np.uint8))
        return found


def read_words(spans: Spans) -> Words:
    """Read the primitive values of a column.

    Raises:
        FormatError: A value is cut short, or a decimal has a scale outside of its range.
        UnsupportedError: A value has an unknown type.
    """
    count = len(spans)
    found = Words(spans.data, np.zeros((2, count), np.int64), np.zeros(count, np.uint8), np.empty(count, np.uint8))
    raise_on(_read_words(spans.data, spans.at, found.words, found.scales, found.types))
    return found


@kernel
def _load_number(data: Any, at: int, width: int) -> Any:
    """A signed number of so many bytes, or the bits of a floating-point one."""
    if width == 1:
        return load(_I8, data, at)
    if width == 2:
        return load(_I16, data, at)
    if width == 4:
        return load(_I32, data, at)
    if width == 8:
        return load(_I64, data, at)
    return np.int64(0)


@kernel("int64(uint8[::1], int64[:, ::1], out int64[:, ::1], out uint8[::1], out uint8[::1])")
def _read_words(data: Any, spans: Any, words: Any, scales: Any, types: Any) -> Any:
    """See `Words`; returns 0, or an error."""
    for row in range(spans.shape[1]):
        types[row] = NO_TYPE
        start = spans[0, row]
        if start < 0:
            continue
        if start >= spans[1, row]:
            return np.int64(SHORT)
        basic = data[start] & 3
        header = np.int64(data[start]) >> 2
        if basic >= _CONTAINER:
            continue
        end = value_end(data, start, spans[1, row])
        if end < 0:
            return end
        at = start + 1
        if basic == _SHORT_STRING:
            types[row] = 16
            words[0, row] = at
            words[1, row] = end
            continue
        types[row] = header
        if 8 <= header <= 10:
            if data[at] > 38:
                return np.int64(BAD)
            scales[row] = data[at]
            at += 1
        words[0, row] = _load_number(data, at, _WIDTHS[header])
        words[1, row] = words[0, row] >> 63
        if header == 10 or header == 20:
            words[1, row] = load(_I64, data, at + 8)
        elif header == 15 or header == 16:
            words[0, row] = at + 4
            words[1, row] = end
    return np.int64(0)


# Arrays -------------------------------------------------------------------------------------------------------------


def to_array(words: Words, type_: pa.DataType) -> pa.Array:
    """The values as an array of a type; null where they are missing, of another kind, or do not fit.

    Whole numbers and decimals are of one kind, and fit where no digit is lost; floating-point types take every number,
    rounded to the nearest. Timestamps fit where no digit of the fraction is lost; those with and without zone, text,
    bytes, dates and the rest are kinds of their own.

    Raises:
        FormatError: Text is not UTF-8.
        SchemaError: The type is not one of those that variants have.
    """
    if pa.types.is_boolean(type_):
        return pa.array(words.types == Primitive.TRUE, mask=~words.are((Primitive.TRUE, Primitive.FALSE)))
    if pa.types.is_integer(type_):
        return _integers(words, type_)
    if pa.types.is_floating(type_) and type_.bit_width >= 32:
        return _floats(words).cast(type_)
    if pa.types.is_decimal128(type_):
        return _decimals(words, type_)
    if pa.types.is_timestamp(type_):
        return _timestamps(words, type_)
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        is_text = pa.types.is_string(type_)
        kept = words.are((Primitive.STRING if is_text else Primitive.BINARY,))
        return Spans(words.data, words.words).only(kept).to_arrow(text=is_text)
    if type_ in (pa.uuid(), pa.binary(16)):
        return _uuids(words, type_)
    found = {pa.date32(): Primitive.DATE, pa.time64("us"): Primitive.TIME_NTZ}.get(type_)
    if found is None:
        raise SchemaError(f"a variant holds no {type_}")
    values = words.words[0].astype(np.int32 if found is Primitive.DATE else np.int64)
    return _masked(values, words.are((found,)), type_)


def _masked(values: npt.NDArray[Any], kept: Flags, type_: pa.DataType) -> pa.Array:
    """Values of a physical type, null where they are not kept."""
    bitmap = None if kept.all() else pa.py_buffer(np.packbits(kept, bitorder="little"))
    return pa.Array.from_buffers(type_, len(kept), [bitmap, pa.py_buffer(np.ascontiguousarray(values))])


def _whole(words: Words) -> tuple[Longs, Flags]:
    """Values that are whole numbers of 64 bits, and where there are any."""
    values, kept = words.words[0], words.are(_INTEGERS)
    decimals = words.are(_DECIMALS)
    if decimals.any():
        values = values.copy()
        kept = kept | (decimals & (words.words[1] == words.words[0] >> 63))
        scaled = decimals & (words.scales > 0)
        factors = 10 ** np.minimum(words.scales, 18).astype(np.int64)
        fits = (words.scales <= 18) & (values % factors == 0)
        kept &= ~scaled | fits | (words.words[0] == 0)
        values[scaled] //= factors[scaled]
        for row in np.flatnonzero(decimals & ~kept):  # a long unscaled value can be a short number: 2.000…
            number = _decimal(words, row)
            whole = int(number) if number == number.to_integral_value() else 1 << 64
            if -(1 << 63) <= whole < 1 << 63:
                values[row], kept[row] = whole, True
    return values, kept


def _integers(words: Words, type_: pa.DataType) -> pa.Array:
    values, kept = _whole(words)
    if pa.types.is_unsigned_integer(type_):
        raise SchemaError(f"a variant holds no {type_}")
    narrow = values.astype(type_.to_pandas_dtype())
    return _masked(narrow, kept & (narrow == values), type_)


def _floats(words: Words) -> pa.Array:
    out = words.words[0].view(np.float64).copy()
    floats = words.types == Primitive.FLOAT
    if floats.any():
        out[floats] = words.words[0][floats].astype(np.int32).view(np.float32)
    whole = words.are(_INTEGERS)
    out[whole] = words.words[0][whole]
    decimals = words.are(_DECIMALS)
    if decimals.any():
        small = np.abs(words.words[0]) < 1 << _EXACT_BITS
        fast = decimals & (words.words[1] == words.words[0] >> 63) & small & (words.scales <= _EXACT_SCALE)
        out[fast] = words.words[0][fast] / 10.0 ** words.scales[fast].astype(np.int64)
        for row in np.flatnonzero(decimals & ~fast):
            out[row] = float(_decimal(words, row))
    return _masked(out, whole | floats | decimals | (words.types == Primitive.DOUBLE), pa.float64())


def _decimal(words: Words, row: Any) -> decimal.Decimal:
    unscaled = int(words.words[1, row]) << 64 | int(words.words[0, row]) & (1 << 64) - 1
    return decimal.Decimal(unscaled).scaleb(-int(words.scales[row]), EXACT)


def _decimals(words: Words, type_: pa.Decimal128Type) -> pa.Array:
    whole, kept = words.are(_INTEGERS), words.are((*_INTEGERS, *_DECIMALS))
    low, high = words.words[0], np.where(whole, words.words[0] >> 63, words.words[1])
    limit = 10**type_.precision
    same = kept & ((words.scales == type_.scale) | (words.words[0] == 0) & (high == 0))
    fits = same & (high == low >> 63)
    if type_.precision <= 18:
        fits &= (low < limit) & (low > -limit)  # the least number has no absolute value
    slow = kept & ~fits
    if slow.any():
        low, high, fits = low.copy(), high.copy(), fits.copy()
        wide = Words(words.data, np.stack((low, high)), words.scales, words.types)
        for row in np.flatnonzero(slow):
            number = _decimal(wide, row).scaleb(type_.scale, EXACT)
            if number == number.to_integral_value() and abs(number) < limit:
                unscaled = int(number)
                low[row] = (unscaled & (1 << 64) - 1) - ((unscaled & 1 << 63) << 1)
                high[row], fits[row] = unscaled >> 64, True
    return _masked(np.stack((low, high), axis=1), fits, type_)


def _timestamps(words: Words, type_: pa.TimestampType) -> pa.Array:
    if type_.unit not in ("us", "ns") or type_.tz not in (None, "UTC"):
        raise SchemaError(f"a variant holds no {type_}")
    micros, nanos = Primitive.TIMESTAMP, Primitive.TIMESTAMP_NS
    if type_.tz is None:
        micros, nanos = Primitive.TIMESTAMP_NTZ, Primitive.TIMESTAMP_NTZ_NS
    values, kept = words.words[0], words.are((nanos, micros))
    if type_.unit == "us":
        finer = kept & (words.types == nanos)
        kept &= ~finer | (values % 1000 == 0)
        values = np.where(finer, values // 1000, values)
    else:
        coarser = kept & (words.types == micros)
        most = ((1 << 63) - 1) // 1000
        kept &= ~coarser | ((values <= most) & (values >= -most))
        values = np.where(coarser & kept, values, 0) * 1000 + np.where(coarser, 0, values)
    return _masked(values, kept, type_)


def _uuids(words: Words, type_: pa.DataType) -> pa.Array:
    found = _masked(words.words.T, words.are((Primitive.UUID,)), pa.binary(16))
    return found if type_ == pa.binary(16) else pa.ExtensionArray.from_storage(type_, found)
