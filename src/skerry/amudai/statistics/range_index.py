"""Range indexes: the least and greatest value of every 256 rows of a numeric field.

    buffer = header, section of least values, section of greatest values, [section of invalid counts], zeros

Each section is one block of numbers whose values are the bytes of the array. Nulls and NaN are *invalid*: they count
for no range.

Spec: docs/formats/amudai-indexes.md § 1.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from skerry.amudai.blocks import Blocks, choose_numeric, decode_numbers, encode_numeric_block
from skerry.amudai.encodings.codes import Profile
from skerry.amudai.shard.schema import BasicType, DataType
from skerry.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["BLOCK_POSITIONS", "RangeIndex", "decode_range_index", "encode_range_index", "index_numbers"]

BLOCK_POSITIONS: Final = 256
DECIMAL_BYTES: Final = 16
_HEADER: Final = struct.Struct("<HBBQQQQHH")
_VERSION: Final = 1
_ALIGNMENT: Final = 64
_RULE: Final = "docs/formats/amudai-indexes.md § 1.2"
_Values = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class RangeIndex:
    """Ranges of the blocks of one field in one stripe.

    Args:
        basic_type: The kind of values.
        positions: Rows covered.
        block_positions: Rows of a block; the last may have fewer.
        lows: The least valid value of each block: numbers[blocks], or uint8[blocks, 16] of decimals. Zero in a block
            without any.
        highs: The greatest.
        invalid_counts: uint16[blocks], nulls and NaN.
    """

    basic_type: BasicType
    positions: int
    block_positions: int
    lows: _Values
    highs: _Values
    invalid_counts: npt.NDArray[np.uint16]

    @property
    def has_values(self) -> npt.NDArray[np.bool_]:
        """Which blocks have a valid value, bool[blocks]."""
        return self.invalid_counts < self.lengths

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Rows of each block, int64[blocks]."""
        lengths = np.full(len(self.lows), self.block_positions, np.int64)
        if len(lengths):
            lengths[-1] = self.positions - self.block_positions * (len(lengths) - 1)
        return lengths

    def bounds(self) -> tuple[Any, Any] | None:
        """The least and the greatest valid number of all blocks; None if there is none. Decimals have no order here."""
        having = self.has_values
        if not having.any():
            return None
        if having.all():
            return self.lows.min(), self.highs.max()
        return self.lows[having].min(), self.highs[having].max()


def index_numbers(basic_type: BasicType, values: _Values, valid: npt.NDArray[np.bool_] | None) -> RangeIndex:
    """Find the ranges of blocks of numbers.

    Args:
        basic_type: The kind of values.
        values: Integers or floating point numbers, [n], n > 0.
        valid: bool[n]; None if there are no nulls.
    """
    starts = np.arange(0, len(values), BLOCK_POSITIONS)
    lows = np.minimum.reduceat(values, starts)
    highs = np.maximum.reduceat(values, starts)
    invalid = ~valid if valid is not None else None
    if basic_type.is_floating and np.isnan(lows).any():
        nans = np.isnan(values)
        invalid = nans if invalid is None else invalid | nans
    if invalid is None:
        counts = np.zeros(len(starts), np.uint16)
        return RangeIndex(basic_type, len(values), BLOCK_POSITIONS, lows, highs, counts)
    counts = np.add.reduceat(invalid, starts, dtype=np.uint16)
    least, most = _limits(values.dtype)
    np.minimum.reduceat(np.where(invalid, most, values), starts, out=lows)
    np.maximum.reduceat(np.where(invalid, least, values), starts, out=highs)
    index = RangeIndex(basic_type, len(values), BLOCK_POSITIONS, lows, highs, counts)
    empty = ~index.has_values
    lows[empty] = highs[empty] = 0
    return index


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    return dtype.type(np.iinfo(dtype).min), dtype.type(np.iinfo(dtype).max)


def encode_range_index(index: RangeIndex, profile: Profile) -> bytes:
    """Lay out an index.

    Args:
        index: The ranges.
        profile: How its sections are encoded.

    Returns:
        The buffer, a multiple of 64 bytes.

    Spec: docs/formats/amudai-indexes.md § 1.2.
    """
    arrays = [index.lows, index.highs, *([index.invalid_counts] if index.invalid_counts.any() else [])]
    sections = [_encode_section(array, profile) for array in arrays]
    sizes = [len(section) for section in sections]
    header = _HEADER.pack(
        _VERSION, index.basic_type, 1, index.positions, *sizes, *([0] * (3 - len(sizes))), index.block_positions, 0
    )
    data = b"".join((header, *sections))
    return data + bytes(-len(data) % _ALIGNMENT)


def _encode_section(array: _Values, profile: Profile) -> bytes:
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return encode_numeric_block(data, None, choose_numeric(data, profile), profile=profile)


def decode_range_index(
    data: Buffer, node: DataType, positions: int, *, location: str | None = None, offset: int = 0
) -> RangeIndex:
    """Read an index.

    Args:
        data: The buffer; what follows the last section is not looked at.
        node: The type of the field.
        positions: How many values the field has in the stripe.
        location: The file, for errors.
        offset: Where the buffer starts in it, for errors.

    Returns:
        The ranges.

    Raises:
        FormatError: The header does not fit the field, a section is not within the buffer, or a block breaks
            its rules.
        UnsupportedError: The index is of a version to come.

    Spec: docs/formats/amudai-indexes.md § 1.2.
    """
    decoder = _Decoder(memoryview(data).cast("B"), location, offset)
    return decoder.decode(node, positions)


_DTYPES: Final = {
    BasicType.INT8: "1",
    BasicType.INT16: "2",
    BasicType.INT32: "4",
    BasicType.INT64: "8",
    BasicType.FLOAT32: "<f4",
    BasicType.FLOAT64: "<f8",
    BasicType.DATE_TIME: "<u8",
}


def _value_dtype(node: DataType) -> np.dtype[Any]:
    name = _DTYPES[node.basic_type]
    return np.dtype(("i" if node.signed else "u") + name if node.basic_type.is_integer else name)


@dataclass(frozen=True, slots=True)
class _Decoder:
    view: memoryview
    location: str | None
    offset: int

    def decode(self, node: DataType, positions: int) -> RangeIndex:
        if len(self.view) < _HEADER.size:
            self.fail(f"has {len(self.view)} bytes, expected at least {_HEADER.size}", 0)
        version, kind, flag, covered, *sizes, block_positions, padding = _HEADER.unpack_from(self.view)
        if version != _VERSION:
            raise UnsupportedError(
                f"range index of version {version}, expected {_VERSION}",
                location=self.location,
                offset=self.offset,
                rule=_RULE,
            )
        if kind != node.basic_type or flag > 1 or padding:
            self.fail(f"is of type {kind}, expected {node.basic_type.value}, or has a flag of {flag} or {padding}", 2)
        if covered != positions or positions == 0 or block_positions == 0:
            self.fail(f"covers {covered} values, {block_positions} a block, expected {positions}", 4)
        if sum(sizes) > len(self.view) - _HEADER.size or 0 in sizes[:2]:
            self.fail(f"has sections of {sizes} bytes, expected {len(self.view) - _HEADER.size} at most", 12)
        blocks = -(-positions // block_positions)
        width = DECIMAL_BYTES if node.is_decimal else _value_dtype(node).itemsize
        starts = [_HEADER.size, _HEADER.size + sizes[0], _HEADER.size + sizes[0] + sizes[1]]
        lows = self.section(starts[0], sizes[0], blocks * width, flag)
        highs = self.section(starts[1], sizes[1], blocks * width, flag)
        counts = self.section(starts[2], sizes[2], blocks * 2, flag) if sizes[2] else np.zeros(blocks * 2, np.uint8)
        least, most = (
            array.reshape(-1, DECIMAL_BYTES) if node.is_decimal else array.view(_value_dtype(node))
            for array in (lows, highs)
        )
        index = RangeIndex(node.basic_type, positions, block_positions, least, most, counts.view("<u2"))
        if (index.invalid_counts > index.lengths).any():
            self.fail("counts more invalid values in a block than it has", starts[2])
        return index

    def section(self, start: int, size: int, count: int, has_checksum: int) -> npt.NDArray[np.uint8]:
        blocks = Blocks(
            np.frombuffer(self.view, np.uint8),
            np.array([start]),
            np.array([start + size]),
            np.array([count]),
            has_checksums=bool(has_checksum),
            location=self.location,
            offset=self.offset,
        )
        return decode_numbers(blocks, np.uint8, has_presence=False).values

    def fail(self, message: str, position: int) -> NoReturn:
        raise FormatError(f"range index {message}", location=self.location, offset=self.offset + position, rule=_RULE)
