"""Range bitmaps: a sorted dictionary of a column's values, and the code of every row in bit slices.

    index      = head_size 1 rows cardinality [min max] dictionary_length dictionary sliced
    dictionary = head_size 1 chunks offsets_length chunks_length offset* chunk* keys
    chunk      = 1 first_key code offset further_keys (keys_length key_width | offsets_length keys_length)
    sliced     = head_size 1 slices existing_length offsets_length (offset length)* existing bitmap*

Spec: docs/formats/paimon.md § 12.6; Paimon spec, File Index, Index: Range Bitmap.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.bitmaps import positions_from_roaring32
from skerry.errors import UnsupportedError
from skerry.paimon.file_index.bit_slices import SlicedNumbers, bit_slices
from skerry.paimon.file_index.cursor import I32, U8, Cursor
from skerry.paimon.file_index.grouped_bitmaps import encode_bitmaps
from skerry.paimon.file_index.keys import Leaf, intervals_of, key_form, take_key
from skerry.paimon.file_index.records import packed_records
from skerry.paimon.file_index.row_sets import NO_ROWS, complement
from skerry.paimon.file_index.sorted_keys import SortedKeys
from skerry.paimon.values.types import AtomicType, TypeRoot
from skerry.table.predicate import IsNull

__all__ = ["TYPE", "RangeBitmapIndex", "can_index", "default_chunk_size", "encode_range_bitmap"]

TYPE: Final = "range-bitmap"

_VERSION: Final = 1
_MAX_DECIMAL: Final = 18
_MAX_FRACTION: Final = 6
_CHUNK_BYTES: Final = 16 << 10
_SMALL: Final = (TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT)
_SLICES_OF_NOTHING: Final = 64
"""Java counts the bits of cardinality - 1 as a 64-bit number, which is -1 without values."""


def can_index(type_: AtomicType) -> bool:
    """Whether Paimon has range bitmaps of a type."""
    if type_.root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return False
    return type_.precision <= (_MAX_DECIMAL if type_.root is TypeRoot.DECIMAL else _MAX_FRACTION)


@dataclass(frozen=True, slots=True)
class RangeBitmapIndex:
    """An index read from a file.

    Args:
        row_count: Rows of the data file.
        keys: The values, ascending; the index of each is its code.
        codes: The code of every row that is not null.
    """

    row_count: int
    keys: tuple[Any, ...]
    codes: SlicedNumbers

    @classmethod
    def decode(cls, cursor: Cursor, type_: AtomicType, row_count: int) -> RangeBitmapIndex:
        """Read an index.

        Raises:
            FormatError: The bytes are not a valid range bitmap.
            UnsupportedError: Its version is unknown.
        """
        head = _take_head(cursor)
        head.check_row_count(row_count)
        cardinality = head.size("number of values")
        if cardinality > row_count:
            raise head.error(f"{cardinality} values in {row_count} rows")
        if cardinality:
            take_key(head, type_), take_key(head, type_)
        dictionary = cursor.part(cursor.position, head.size("length of the dictionary"), "the dictionary")
        keys = _take_keys(dictionary, type_, cardinality)
        cursor.bytes(len(dictionary.data), "dictionary")
        return cls(row_count, keys, _take_codes(cursor.rest(), row_count, cardinality))

    def select(self, leaf: Leaf) -> npt.NDArray[np.int64]:
        """The rows whose keys satisfy a condition on keys: int64[n], ascending."""
        if isinstance(leaf, IsNull):
            return self.codes.rows if leaf.negated else complement(self.codes.rows, self.row_count)
        chosen = np.zeros(len(self.codes.rows), bool)
        for low, high in intervals_of(leaf, self._rank, 0, len(self.keys)):
            if low < high:
                chosen |= (self.codes.numbers >= np.uint64(low)) & (self.codes.numbers < np.uint64(high))
        return self.codes.rows[chosen]

    def _rank(self, value: Any, is_behind: bool) -> int:
        """The number of keys below a value, or not above it; NaN, the last one, is above all others."""
        end = len(self.keys)
        if end and isinstance(self.keys[-1], float) and math.isnan(self.keys[-1]):
            end -= 1
        return (bisect_right if is_behind else bisect_left)(self.keys, value, 0, end)


def _take_head(cursor: Cursor) -> Cursor:
    """Read the size of a head and its version; leaves the cursor after the head."""
    size = cursor.size("size of the head")
    head = cursor.part(cursor.position, size, "the head")
    version = head.take(U8, "version")
    if version != _VERSION:
        raise UnsupportedError(f"range bitmap of version {version}", location=cursor.location)
    cursor.bytes(size, "head")
    return head


def _take_keys(cursor: Cursor, type_: AtomicType, cardinality: int) -> tuple[Any, ...]:
    """Read the keys of all chunks. Spec: Paimon Java, `ChunkedDictionary`."""
    head = _take_head(cursor)
    chunk_count = head.size("number of chunks")
    offsets_length, chunks_length = head.size("length of the offsets"), head.size("length of the chunks")
    if offsets_length != chunk_count * I32.size:
        raise head.error(f"{offsets_length} bytes of offsets of {chunk_count} chunks")
    offsets = np.frombuffer(cursor.bytes(offsets_length, "offsets of the chunks"), ">i4")
    chunks = cursor.part(cursor.position, chunks_length, "the chunks")
    cursor.bytes(chunks_length, "chunks")
    keys_area = cursor.rest()
    keys: list[Any] = []
    for offset in offsets.tolist():
        chunk = chunks.part(offset, chunks_length - offset, "a chunk")
        keys += _take_chunk(chunk, keys_area, type_, len(keys))
        if len(keys) > cardinality:
            break
    if len(keys) != cardinality:
        raise head.error(f"{len(keys)} keys in the dictionary, expected {cardinality}")
    if any(left > right for left, right in pairwise(keys)):
        raise head.error("the keys do not ascend")
    return tuple(keys)


def _take_chunk(chunk: Cursor, area: Cursor, type_: AtomicType, first_code: int) -> list[Any]:
    """Read a chunk's first key, which is in its head, and the remaining ones."""
    version = chunk.take(U8, "version of a chunk")
    if version != _VERSION:
        raise UnsupportedError(f"chunk of version {version} in a range bitmap", location=chunk.location)
    keys = [take_key(chunk, type_)]
    code, offset = chunk.take(I32, "code of a key"), chunk.size("offset of the keys")
    if code != first_code:
        raise chunk.error(f"a chunk begins with code {code}, expected {first_code}")
    count = chunk.size("number of further keys")
    if key_form(type_) is None:
        offsets_length, keys_length = chunk.size("length of the offsets"), chunk.size("length of the keys")
        if offsets_length != count * I32.size:
            raise chunk.error(f"{offsets_length} bytes of offsets of {count} keys")
        body = area.part(offset, offsets_length + keys_length, "the keys of a chunk")
        starts = np.frombuffer(body.bytes(offsets_length, "offsets of the keys"), ">i4").tolist()
        texts = body.rest()
        return keys + [take_key(texts.part(start, keys_length - start, "a key"), type_) for start in starts]
    keys_length, width = chunk.size("length of the keys"), chunk.size("width of a key")
    if keys_length != count * width:
        raise chunk.error(f"{keys_length} bytes of {count} keys of {width} bytes")
    body = area.part(offset, keys_length, "the keys of a chunk")
    if count > body.left:
        raise chunk.error(f"{count} keys in {body.left} bytes")
    return keys + [take_key(body, type_) for _ in range(count)]


def _take_codes(cursor: Cursor, row_count: int, cardinality: int) -> SlicedNumbers:
    """Read the slices. Spec: Paimon Java, `BitSliceIndexBitmap`."""
    if not cardinality:
        return SlicedNumbers(NO_ROWS, np.zeros(0, np.uint64))
    head = _take_head(cursor)
    slice_count = head.take(U8, "number of slices")
    existing_length = head.size("length of the existing rows")
    index_length = head.size("length of the index of slices")
    if index_length != 2 * I32.size * slice_count:
        raise head.error(f"{index_length} bytes of the positions of {slice_count} slices")
    places = np.frombuffer(head.bytes(index_length, "positions of the slices"), ">i4").reshape(-1, 2).tolist()
    existing = _bitmap(cursor.part(cursor.position, existing_length, "the existing rows"), row_count)
    cursor.bytes(existing_length, "existing rows")
    body = cursor.rest()
    slices = [_bitmap(body.part(offset, size, "a slice"), row_count) for offset, size in places]
    codes = SlicedNumbers.join(existing, slices, row_count, cursor)
    if len(codes.numbers) and int(codes.numbers.max()) >= cardinality:
        raise cursor.error(f"code {codes.numbers.max()} of {cardinality} values")
    return codes


def _bitmap(cursor: Cursor, row_count: int) -> npt.NDArray[np.int64]:
    return positions_from_roaring32(
        cursor.data, max_positions=row_count, location=cursor.location, offset=cursor.offset
    )


# Writing ------------------------------------------------------------------------------------------------------------


def default_chunk_size(type_: AtomicType) -> int:
    """The default of `chunk-size` in bytes: types with few values have one key per chunk."""
    return 0 if type_.root in _SMALL else _CHUNK_BYTES


def encode_range_bitmap(keys: SortedKeys, chunk_size: int) -> bytes:
    """Encode the index of a column.

    Args:
        keys: The column's keys.
        chunk_size: Bytes of further keys of a chunk (`file-index.range-bitmap.<column>.chunk-size`).
    """
    records, places = packed_records(keys, [])
    bounds = b""
    if len(keys):
        bounds = records[: places[1]] + records[places[-2] :]
    dictionary = _encode_dictionary(keys, records, places, chunk_size)
    counts = I32.pack(keys.row_count) + I32.pack(len(keys))
    head = U8.pack(_VERSION) + counts + bounds + I32.pack(len(dictionary))
    return b"".join([I32.pack(len(head)), head, dictionary, _encode_codes(keys)])


def _encode_dictionary(keys: SortedKeys, records: bytes, places: npt.NDArray[np.int64], chunk_size: int) -> bytes:
    is_text = key_form(keys.type) is None
    offsets: list[bytes] = []
    chunks: list[bytes] = []
    areas: list[bytes] = []
    chunks_length = areas_length = first = 0
    while first < len(keys):
        start = places[first + 1]
        last = int(np.searchsorted(places, start + chunk_size, side="right")) - 1
        if is_text:  # the offsets of further keys have a limit of the same size
            last = min(last, first + 1 + chunk_size // I32.size)
        starts = (places[first + 1 : last] - start).astype(">i4").tobytes() if is_text else b""
        area = records[start : places[last]]
        sizes = (len(starts), len(area)) if is_text else (len(area), int(start - places[first]))
        numbers = (first, areas_length, last - first - 1, *sizes)
        offsets.append(I32.pack(chunks_length))
        chunks.append(U8.pack(_VERSION) + records[places[first] : start] + b"".join(map(I32.pack, numbers)))
        areas.append(starts + area)
        chunks_length, areas_length = chunks_length + len(chunks[-1]), areas_length + len(areas[-1])
        first = last
    head = U8.pack(_VERSION) + b"".join(map(I32.pack, (len(chunks), I32.size * len(chunks), chunks_length)))
    return b"".join([I32.pack(len(head)), head, *offsets, *chunks, *areas])


def _encode_codes(keys: SortedKeys) -> bytes:
    slice_count = max((len(keys) - 1).bit_length(), 1) if len(keys) else _SLICES_OF_NOTHING
    rows, starts = bit_slices(keys.rows, keys.codes, slice_count)
    encoded, ends = encode_bitmaps(np.concatenate([keys.rows, rows]), np.concatenate([[0], len(keys.rows) + starts]))
    places = np.stack([ends[1:-1] - ends[1], np.diff(ends[1:])], axis=1).astype(">i4").tobytes()
    head = U8.pack(_VERSION) + U8.pack(slice_count) + I32.pack(int(ends[1])) + I32.pack(len(places)) + places
    return b"".join([I32.pack(len(head)), head, encoded.tobytes()])
