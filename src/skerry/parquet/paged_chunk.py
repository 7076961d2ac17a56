"""A column chunk whose pages are known, with what reading single values of it needs each time.

Spec: Parquet spec, README.md, Data Pages, Encodings.md, Plain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError
from skerry.parquet.codecs import SUPPORTED_CODECS
from skerry.parquet.metadata import ColumnChunk
from skerry.parquet.page_index import PagePlaces
from skerry.parquet.pages import DictionaryPage, iter_pages
from skerry.parquet.plain import decode_plain_byte_array
from skerry.parquet.schema import Column, PhysicalType

if TYPE_CHECKING:
    from skerry.storage import Storage

__all__ = ["BITS", "NO_DICTIONARY", "PAGE_RULE", "VARIABLE", "Dictionary", "PagedChunk"]

PAGE_RULE: Final = "Parquet spec, README.md, Data Pages"
BITS: Final = -1
"""The width of values that are bits."""
VARIABLE: Final = 0
"""The width of values that have a length each."""
_LEFT_TO_ARROW: Final = -2
_KEPT_DICTIONARY_BYTES: Final = 1 << 18
_WIDTHS: Final = {PhysicalType.INT32: 4, PhysicalType.INT64: 8, PhysicalType.FLOAT: 4, PhysicalType.DOUBLE: 8}


@dataclass(frozen=True, slots=True)
class Dictionary:
    """The entries of a dictionary page.

    Args:
        data: uint8[n], where they are.
        entries: int64[entries, 2], where each begins, and its length.
    """

    data: npt.NDArray[np.uint8]
    entries: npt.NDArray[np.int64]


NO_DICTIONARY: Final = Dictionary(np.empty(0, np.uint8), np.empty((0, 2), np.int64))


@dataclass(slots=True, eq=False)
class PagedChunk:
    """A column chunk of a flat column whose pages are known; keeps its dictionary if that is small.

    Args:
        chunk: The chunk.
        places: Its pages.
    """

    chunk: ColumnChunk
    places: PagePlaces
    width: int = field(init=False, repr=False)
    """The bytes of a value, or `VARIABLE`, or `BITS`."""
    _dictionary: Dictionary | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.width = _width(self.chunk.column)

    @property
    def size_bytes(self) -> int:
        """Memory that it takes, without a dictionary."""
        return 3 * int(self.places.offsets.nbytes)

    @property
    def is_plain(self) -> bool:
        """Whether values of its pages are found without PyArrow."""
        is_known = self.width != _LEFT_TO_ARROW and self.chunk.codec in SUPPORTED_CODECS
        return is_known and self.chunk.column.max_definition_level <= 1

    @property
    def missing_dictionary(self) -> tuple[int, int] | None:
        """Where the dictionary is that all pages need and that is not kept; None if there is none such."""
        return self.places.dictionary if self._dictionary is None and self.chunk.is_dictionary_encoded else None

    def dictionary(self, storage: Storage, location: str, data: memoryview | None) -> Dictionary:
        """The entries of its dictionary.

        Args:
            storage: Access to the file.
            location: The file.
            data: The dictionary's page, if it was read.

        Raises:
            FormatError: There is none, or it is unsound.
        """
        found = self._dictionary
        if found is None:
            place = self.places.dictionary
            if place is None:
                raise FormatError(f"pages of {self.chunk.column.name} lack their dictionary", rule=PAGE_RULE)
            page = memoryview(storage.read_range(location, *place)) if data is None else data
            found = self._decoded(page, location, place[0])
            if len(found.data) <= _KEPT_DICTIONARY_BYTES:
                self._dictionary = found
        return found

    def _decoded(self, data: memoryview, location: str, offset: int) -> Dictionary:
        name, width = self.chunk.column.name, self.width
        page = next(iter_pages(data, self.chunk, base=offset, location=location))
        if not isinstance(page, DictionaryPage):
            raise FormatError(f"the first page of {name} is not a dictionary", rule=PAGE_RULE)
        if width == VARIABLE:
            starts, lengths = decode_plain_byte_array(page.data, page.value_count)
            return Dictionary(page.data.copy(), np.stack([starts, lengths], axis=1))
        if width < 1 or page.value_count * width > len(page.data):
            raise FormatError(f"a dictionary of {name} that is shorter than its entries", rule=PAGE_RULE)
        starts = np.arange(page.value_count) * width
        return Dictionary(page.data.copy(), np.stack([starts, np.full_like(starts, width)], axis=1))


def _width(column: Column) -> int:
    """The bytes of a value, 0 where they vary and -1 for bits; another number for a type that is left to PyArrow."""
    type_, physical = column.type, column.physical_type
    if pa.types.is_decimal(type_) or pa.types.is_float16(type_):
        return _LEFT_TO_ARROW
    if physical is PhysicalType.BOOLEAN:
        return BITS if pa.types.is_boolean(type_) else _LEFT_TO_ARROW
    if physical is PhysicalType.BYTE_ARRAY:
        return VARIABLE if pa.types.is_string(type_) or pa.types.is_binary(type_) else _LEFT_TO_ARROW
    if physical is PhysicalType.FIXED_LEN_BYTE_ARRAY:
        return column.type_length if pa.types.is_fixed_size_binary(type_) else _LEFT_TO_ARROW
    width = _WIDTHS.get(physical)
    is_narrow = width == 4 and pa.types.is_integer(type_)
    fits = width is not None and (type_.bit_width == 8 * width or is_narrow)
    return width if fits and width is not None else _LEFT_TO_ARROW
