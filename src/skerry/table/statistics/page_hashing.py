"""Hashing of the pages of a Parquet column chunk into a sample, without intermediate Arrow arrays.

A sketch hashes Iceberg's single-value serialisation of the *table's* type, independent of the file's type: an int
column that was promoted to long hashes 8 bytes, milliseconds hash as microseconds. `plan_hashing` chooses the
conversion.

Spec: Iceberg spec, Binary single-value serialization; Parquet spec, Encodings.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from skerry.errors import FormatError, UnsupportedError
from skerry.parquet import (
    Column,
    DataPage,
    DictionaryPage,
    Encoding,
    PhysicalType,
    count_codes,
    decode_plain_byte_array,
    decode_plain_fixed,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from skerry.theta import Sample

__all__ = ["HASHED_ENCODINGS", "PageCounts", "PageHashing", "hash_dictionary", "hash_pages", "plan_hashing"]

_INDICES: Final = frozenset((Encoding.PLAIN_DICTIONARY, Encoding.RLE_DICTIONARY))
HASHED_ENCODINGS: Final = frozenset((Encoding.PLAIN, Encoding.RLE, Encoding.BIT_PACKED, *_INDICES))
"""Encodings that a chunk may list to be hashed here; BIT_PACKED and RLE are (also) those of levels."""

_LEVEL_LENGTH_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class PageHashing:
    """How the PLAIN values of a column are decoded and hashed.

    Args:
        decode: Decodes values from the column, the bytes and the number of values.
        update: Updates a sample with values.
        is_float: Whether values may be NaN.
    """

    decode: Callable[[Column, npt.NDArray[np.uint8], int], _Values]
    update: Callable[[Sample, _Values], object]
    is_float: bool = False


@dataclass(frozen=True, slots=True)
class PageCounts:
    """The counts of nulls and NaNs in the pages of a chunk.

    Args:
        null_count: Nulls.
        nan_count: NaNs.
    """

    null_count: int
    nan_count: int


@dataclass(frozen=True, slots=True)
class _Values:
    """Decoded values: those of fixed width in an array, others as spans of a page's bytes.

    Args:
        data: The values of any dtype, or the bytes that contain them.
        starts: int64[n] where values start in `data`, None for values of fixed width.
        lengths: int32[n] their lengths in bytes.
    """

    data: npt.NDArray[Any]
    starts: npt.NDArray[np.int64] | None = None
    lengths: npt.NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.data if self.starts is None else self.starts)

    def where(self, mask: npt.NDArray[np.bool_]) -> _Values:
        if self.starts is None or self.lengths is None:
            return _Values(self.data[mask])
        return _Values(self.data, self.starts[mask], self.lengths[mask])


def hash_pages(
    pages: Iterable[DictionaryPage | DataPage],
    column: Column,
    hashing: PageHashing,
    sample: Sample | None,
    *,
    location: str,
    all_entries_used: bool = False,
    count_nans: bool = True,
) -> PageCounts:
    """Hash all values of a chunk.

    Args:
        pages: All pages of the chunk.
        column: Its column.
        hashing: The result of `plan_hashing`.
        sample: Receives the hashes; None if only counts are needed.
        location: The file, for messages.
        all_entries_used: Whether every dictionary entry is used by some row. Otherwise the indices are
            read, and only entries that occur among them are hashed.
        count_nans: Whether NaNs are counted; if not, `nan_count` is undefined.

    Raises:
        FormatError: A page breaks the format.
        UnsupportedError: A page has an encoding outside `HASHED_ENCODINGS`; some values may have been hashed.
    """
    null_count = nan_count = 0
    dictionary: _Dictionary | None = None
    for page in pages:
        try:
            if isinstance(page, DictionaryPage):
                # The page's memory is reused for the next one.
                values = hashing.decode(column, page.data.copy(), page.value_count)
                reads_indices = not all_entries_used or (count_nans and hashing.is_float and _has_nan(values))
                dictionary = _Dictionary(values, np.zeros(len(values), np.int64) if reads_indices else None)
                continue
            null_count += page.value_count - page.present_count
            if page.encoding == Encoding.PLAIN:
                values = hashing.decode(column, page.data, page.present_count)
                if sample is not None:
                    hashing.update(sample, values)
                if count_nans and hashing.is_float:
                    nan_count += int(np.count_nonzero(np.isnan(values.data)))
            elif page.encoding in _INDICES:
                if dictionary is None:
                    raise FormatError("page of dictionary indices without a dictionary")
                dictionary.count(page)
            elif page.encoding == Encoding.RLE and column.physical_type is PhysicalType.BOOLEAN:
                if sample is not None:
                    hashing.update(sample, _decode_rle_booleans(page))
            else:
                raise UnsupportedError(f"column {column.name} has pages of encoding {page.encoding}")
        except (FormatError, UnsupportedError) as error:
            if error.location is None:
                error.location, error.offset = location, page.offset
            raise
    if dictionary is not None:
        if sample is not None:
            hashing.update(sample, dictionary.used_values())
        if count_nans and hashing.is_float:
            nan_count += dictionary.nan_count()
    return PageCounts(null_count, nan_count)


def hash_dictionary(
    page: DictionaryPage, column: Column, hashing: PageHashing, sample: Sample | None, *, location: str
) -> bool:
    """Hash the entries of a dictionary, all of which are used by some row.

    Args:
        page: The dictionary page.
        column: Its column.
        hashing: The result of `plan_hashing`.
        sample: Receives the hashes; None if only the result is needed.
        location: The file, for messages.

    Returns:
        Whether there is a NaN among them.

    Raises:
        FormatError: The page breaks the format.
    """
    try:
        values = hashing.decode(column, page.data, page.value_count)
    except FormatError as error:
        error.location, error.offset = location, page.offset
        raise
    if sample is not None:
        hashing.update(sample, values)
    return hashing.is_float and _has_nan(values)


class _Dictionary:
    """The entries of a chunk's dictionary, and, if requested, how often each occurs."""

    def __init__(self, values: _Values, counts: npt.NDArray[np.int64] | None) -> None:
        self._values = values
        self._counts = counts

    def count(self, page: DataPage) -> None:
        """Count a page's indices.

        Spec: Parquet spec, Encodings.md, Dictionary Encoding: the bit width, then the hybrid.
        """
        if self._counts is None or not page.present_count:
            return
        if not len(page.data):
            raise FormatError("page of dictionary indices is empty")
        count_codes(page.data[1:], int(page.data[0]), page.present_count, self._counts)

    def used_values(self) -> _Values:
        return self._values if self._counts is None else self._values.where(self._counts > 0)

    def nan_count(self) -> int:
        return 0 if self._counts is None else int(self._counts[np.isnan(self._values.data)].sum())


def _has_nan(values: _Values) -> bool:
    return bool(np.isnan(values.data).any())


def _decode_rle_booleans(page: DataPage) -> _Values:
    """The distinct values of a page of booleans.

    Spec: Parquet spec, Encodings.md, Run Length Encoding / Bit-Packing Hybrid: boolean data pages have a length before
    the runs.
    """
    length = int.from_bytes(page.data[:_LEVEL_LENGTH_BYTES].tobytes(), "little")
    runs = page.data[_LEVEL_LENGTH_BYTES:]
    if length > len(runs):
        raise FormatError(f"runs of {length} bytes in a page of {len(page.data)}")
    counts = np.zeros(2, np.int64)
    count_codes(runs[:length], 1, page.present_count, counts)
    return _Values(np.flatnonzero(counts).astype(np.bool_))


# The ways of hashing --------------------------------------------------------------------------------------------------


def plan_hashing(column: Column, type_: pa.DataType) -> PageHashing | None:
    """Choose how a column's PLAIN values are hashed as values of the table's type.

    Args:
        column: The file's column.
        type_: The column's type in the table.

    Returns:
        The conversion, or None if values must be read by PyArrow and cast.
    """
    stored, physical = column.type, column.physical_type
    if pa.types.is_decimal(stored) or pa.types.is_decimal(type_):
        return _plan_decimal(column, type_)
    if physical is PhysicalType.BYTE_ARRAY:
        return _SPANS if _is_of_any_length(type_) else None
    if physical is PhysicalType.FIXED_LEN_BYTE_ARRAY:
        bytes_type = pa.binary(16) if isinstance(type_, pa.UuidType) else type_
        return _AS_IT_IS if pa.types.is_fixed_size_binary(stored) and stored == bytes_type else None
    if physical is PhysicalType.INT96:
        return None
    return _NUMBERS.get((_without_zone(stored), _without_zone(type_)))


def _plan_decimal(column: Column, type_: pa.DataType) -> PageHashing | None:
    """Only the unscaled value is hashed, so precision may differ and the scale may not."""
    stored = column.type
    if not (pa.types.is_decimal(stored) and pa.types.is_decimal128(type_) and stored.scale == type_.scale):
        return None
    is_short = column.type_length <= _DECIMAL_BYTES and column.physical_type is not PhysicalType.BYTE_ARRAY
    return _DECIMALS if is_short else None


def _without_zone(type_: pa.DataType) -> pa.DataType:
    return pa.timestamp(type_.unit) if pa.types.is_timestamp(type_) else type_


def _is_of_any_length(type_: pa.DataType) -> bool:
    return (
        pa.types.is_string(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_string_view(type_)
        or pa.types.is_binary_view(type_)
    )


def _decode_fixed(column: Column, data: npt.NDArray[np.uint8], count: int) -> _Values:
    return _Values(decode_plain_fixed(column, data, count))


def _decode_byte_array(column: Column, data: npt.NDArray[np.uint8], count: int) -> _Values:
    return _Values(data, *decode_plain_byte_array(data, count))


def _fixed(
    convert: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = lambda values: values, *, is_float: bool = False
) -> PageHashing:
    return PageHashing(
        _decode_fixed, lambda sample, values: sample.update_fixed(convert(values.data)), is_float=is_float
    )


def _times(factor: int) -> PageHashing:
    return _fixed(lambda values: values.astype(np.int64) * factor)


def _update_spans(sample: Sample, values: _Values) -> object:
    assert values.starts is not None
    assert values.lengths is not None
    return sample.update_binary(values.data, values.starts, values.lengths)


_DECIMAL_BYTES: Final = 16
_SPANS: Final = PageHashing(_decode_byte_array, _update_spans)
_DECIMALS: Final = PageHashing(_decode_fixed, lambda sample, values: sample.update_decimal(values.data))
_AS_IT_IS: Final = _fixed()
_WIDENED: Final = _times(1)
_THOUSANDTH: Final = _fixed(lambda values: values // 1000)
_FLOAT: Final = _fixed(is_float=True)
_NUMBERS: Final[dict[tuple[pa.DataType, pa.DataType], PageHashing]] = {
    (pa.bool_(), pa.bool_()): _fixed(lambda values: values.view(np.uint8).reshape(-1, 1)),
    (pa.int64(), pa.int64()): _AS_IT_IS,
    (pa.date32(), pa.date32()): _AS_IT_IS,
    (pa.float32(), pa.float32()): _FLOAT,
    (pa.float64(), pa.float64()): _FLOAT,
    (pa.float32(), pa.float64()): _fixed(lambda values: values.astype(np.float64), is_float=True),
    (pa.time32("ms"), pa.time64("us")): _times(1000),
    (pa.time64("us"), pa.time64("us")): _AS_IT_IS,
    (pa.time64("ns"), pa.time64("us")): _THOUSANDTH,
    (pa.timestamp("ms"), pa.timestamp("us")): _times(1000),
    (pa.timestamp("us"), pa.timestamp("us")): _AS_IT_IS,
    (pa.timestamp("ns"), pa.timestamp("us")): _THOUSANDTH,
    (pa.timestamp("ns"), pa.timestamp("ns")): _AS_IT_IS,
    (pa.date32(), pa.timestamp("us")): _times(86_400_000_000),
    (pa.uint32(), pa.int64()): _fixed(lambda values: values.view(np.uint32).astype(np.int64)),
    **{
        (stored, type_): _AS_IT_IS
        for stored in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())
        for type_ in (pa.int8(), pa.int16(), pa.int32())
    },
    **{(stored, pa.int64()): _WIDENED for stored in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())},
}
"""By the file's type and the table's: Iceberg's promotions, and conversions of units."""
