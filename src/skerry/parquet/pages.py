"""The pages of a column chunk: headers decoded and checked, bodies decompressed, values still encoded.

Values are not decoded here: a page has its encoded values as bytes, and their count. `skerry.parquet.plain` and
`skerry.parquet.hybrid` decode them.

Spec: Parquet spec, README.md, Data Pages, parquet.thrift, `PageHeader`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.parquet.codecs import PageBuffer
from skerry.parquet.hybrid import count_codes
from skerry.parquet.metadata import Codec, ColumnChunk, Encoding, PageType
from skerry.parquet.thrift import CompactDecoder, Struct

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["DataPage", "DictionaryPage", "PageHeader", "decode_page_header", "iter_pages"]

_MAX_INT32: Final = 2**31 - 1
_LEVEL_LENGTH_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class PageHeader:
    """The header of a page.

    Args:
        type: A `PageType`, or a number that Parquet may come to define.
        header_bytes: Size of the header itself.
        compressed_bytes: Size of the body in the file.
        uncompressed_bytes: Size of the body after decompression, levels included.
        value_count: Values, nulls included; entries of a dictionary.
        encoding: How values are encoded: an `Encoding`.
        definition_level_encoding: How definition levels are encoded (DATA_PAGE).
        repetition_level_bytes: Size of the repetition levels (DATA_PAGE_V2), never compressed.
        definition_level_bytes: Size of the definition levels (DATA_PAGE_V2), never compressed.
        is_compressed: Whether values are compressed (DATA_PAGE_V2 may say no).
    """

    type: int
    header_bytes: int
    compressed_bytes: int
    uncompressed_bytes: int
    value_count: int = 0
    encoding: int = Encoding.PLAIN
    definition_level_encoding: int = Encoding.RLE
    repetition_level_bytes: int = 0
    definition_level_bytes: int = 0
    is_compressed: bool = True


@dataclass(frozen=True, slots=True)
class DictionaryPage:
    """The distinct values that other pages of the chunk refer to, PLAIN.

    Args:
        offset: Where its header starts in the file.
        value_count: Entries.
        data: uint8[n], the entries; valid until the next page is asked for.
    """

    offset: int
    value_count: int
    data: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class DataPage:
    """Some of a chunk's values.

    Args:
        offset: Where its header starts in the file.
        value_count: Values, nulls included.
        present_count: Values that are not null (in a nested column: whose definition level is the highest).
        encoding: An `Encoding`, or a number that Parquet may come to define.
        repetition_levels: uint8[n], encoded, without length prefix; empty where the column does not repeat.
        definition_levels: uint8[n], encoded, without length prefix; empty where the column is required.
        data: uint8[n], the `present_count` values, encoded; valid until the next page is asked for.
    """

    offset: int
    value_count: int
    present_count: int
    encoding: int
    repetition_levels: npt.NDArray[np.uint8]
    definition_levels: npt.NDArray[np.uint8]
    data: npt.NDArray[np.uint8]


def decode_page_header(
    data: memoryview, position: int = 0, *, location: str | None = None, base: int = 0
) -> PageHeader:
    """Decode the header at `position`.

    Args:
        data: Bytes of the file.
        position: Where in `data` the header starts.
        location: The file, for messages.
        base: The offset of `data` in the file, for messages.

    Raises:
        FormatError: There is no valid header.

    Spec: Parquet spec, parquet.thrift, `PageHeader`, `DataPageHeader`, `DataPageHeaderV2`, `DictionaryPageHeader`.
    """
    usual = _usual_header(data, position)
    if usual is not None:
        return usual
    decoder = CompactDecoder(data, position=position, location=location, base=base)
    header = decoder.decode_struct("PageHeader")
    type_ = header.integer(1, "type", maximum=_MAX_INT32)
    uncompressed_bytes = header.integer(2, "uncompressed_page_size", maximum=_MAX_INT32)
    compressed_bytes = header.integer(3, "compressed_page_size", maximum=_MAX_INT32)
    sizes = (type_, decoder.position - position, compressed_bytes, uncompressed_bytes)
    if type_ == PageType.DATA_PAGE:
        page = header.structure(5, "DataPageHeader")
        return PageHeader(
            *sizes,
            value_count=_count(page),
            encoding=page.integer(2, "encoding"),
            definition_level_encoding=page.integer(3, "definition_level_encoding"),
        )
    if type_ == PageType.DATA_PAGE_V2:
        return _decode_v2(sizes, header.structure(8, "DataPageHeaderV2"))
    if type_ == PageType.DICTIONARY_PAGE:
        page = header.structure(7, "DictionaryPageHeader")
        return PageHeader(*sizes, value_count=_count(page), encoding=page.integer(2, "encoding"))
    return PageHeader(*sizes)


# The byte before a field in Thrift's compact protocol: the distance from the id of the field before, and the type.
_NEXT_I32: Final = 0x15
_NEXT_STRUCT: Final = 0x1C
_STRUCT_AFTER_NEXT: Final = 0x2C
_NO_VALUE, _NUMBERS, _BINARY = frozenset({1, 2}), frozenset({4, 5, 6}), 8


def _usual_header(data: memoryview, position: int) -> PageHeader | None:
    """The header of a DATA_PAGE whose fields are in ascending order, as writers have them; None for any other.

    There is one for every few thousand values of a column, so that decoding it fast matters. The general decoder
    reports what is wrong with a header.
    """
    numbers = [0] * 7
    try:
        at = position
        for place in range(3):  # type, uncompressed_page_size, compressed_page_size
            if data[at] != _NEXT_I32:
                return None
            numbers[place], at = _zigzag(data, at + 1)
        after_sizes = _STRUCT_AFTER_NEXT
        if data[at] == _NEXT_I32:  # crc
            _, at = _zigzag(data, at + 1)
            after_sizes = _NEXT_STRUCT
        if numbers[0] != PageType.DATA_PAGE or data[at] != after_sizes:
            return None
        at += 1
        for place in range(3, 7):  # num_values, encoding, and the encodings of both levels
            if data[at] != _NEXT_I32:
                return None
            numbers[place], at = _zigzag(data, at + 1)
        if data[at] == _NEXT_STRUCT:  # statistics
            at = _behind_struct(data, at + 1)
        if data[at] or data[at + 1]:  # something follows in one of the structures
            return None
    except IndexError:
        return None
    if not all(0 <= number <= _MAX_INT32 for number in numbers):
        return None
    _, uncompressed, compressed, count, encoding, definition_level_encoding, _ = numbers
    return PageHeader(
        PageType.DATA_PAGE,
        at + 2 - position,
        compressed,
        uncompressed,
        value_count=count,
        encoding=encoding,
        definition_level_encoding=definition_level_encoding,
    )


def _zigzag(data: memoryview, at: int) -> tuple[int, int]:
    """A number of at most 35 bits, and where it ends.

    Raises:
        IndexError: The bytes end before it, or it is longer.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 28:
            raise IndexError


def _behind_struct(data: memoryview, at: int) -> int:
    """Where a structure of flags, numbers and bytes ends.

    Raises:
        IndexError: It holds something else, or the bytes end before it.
    """
    while head := data[at]:
        at += 1
        kind = head & 0x0F
        if head < 0x10 or (kind not in _NO_VALUE and kind not in _NUMBERS and kind != _BINARY):
            raise IndexError
        if kind in _NUMBERS:
            while data[at] >= 0x80:
                at += 1
            at += 1
        elif kind == _BINARY:
            length = shift = 0
            while data[at] >= 0x80:
                length |= (data[at] & 0x7F) << shift
                shift += 7
                at += 1
            at += 1 + (length | data[at] << shift)
    return at + 1


def _count(page: Struct) -> int:
    return page.integer(1, "num_values", maximum=_MAX_INT32)


def _decode_v2(sizes: tuple[int, int, int, int], page: Struct) -> PageHeader:
    repetition_level_bytes = page.integer(6, "repetition_levels_byte_length", maximum=sizes[2])
    return PageHeader(
        *sizes,
        value_count=_count(page),
        encoding=page.integer(4, "encoding"),
        repetition_level_bytes=repetition_level_bytes,
        definition_level_bytes=page.integer(
            5, "definition_levels_byte_length", maximum=min(sizes[2], sizes[3]) - repetition_level_bytes
        ),
        is_compressed=page.flag(7, "is_compressed", default=True),
    )


def iter_pages(
    data: memoryview, chunk: ColumnChunk, *, base: int, location: str | None = None, buffer: PageBuffer | None = None
) -> Iterator[DictionaryPage | DataPage]:
    """Decode the pages of a chunk, or of its beginning.

    Pages of other types (INDEX_PAGE, and what Parquet may come to define) are stepped over. Iteration ends with the
    chunk's last value, or where `data` ends after a page.

    Args:
        data: The chunk's bytes from `base` on.
        chunk: What the footer says about it.
        base: Where `data` starts in the file: at a page's header.
        location: The file, for messages.
        buffer: Memory to decompress into, to be used for many chunks; the pages of one are then no longer valid.

    Yields:
        Pages in file order. Their arrays are valid until the next one is asked for.

    Raises:
        FormatError: A page breaks the format, or there are more or fewer values than the footer says.
        UnsupportedError: The codec, or the encoding of definition levels, is not supported.

    Spec: Parquet spec, parquet.thrift, `PageHeader`, README.md, Data Pages.
    """
    buffer = buffer or PageBuffer()
    position, seen, has_dictionary = 0, 0, False
    while position < len(data) and seen < chunk.value_count:
        offset = base + position
        header = decode_page_header(data, position, location=location, base=base)
        start = position + header.header_bytes
        position = start + header.compressed_bytes
        if position > len(data):
            raise FormatError(
                f"page of {header.compressed_bytes} bytes, only {len(data) - start} are left of its column chunk",
                location=location,
                offset=offset,
                rule="Parquet spec, parquet.thrift, `PageHeader.compressed_page_size`",
            )
        try:
            if header.type == PageType.DICTIONARY_PAGE:
                if has_dictionary or seen:
                    raise FormatError("dictionary page is not the first page of its column chunk")
                has_dictionary = True
                yield _decode_dictionary(header, data[start:position], chunk, buffer, offset)
            elif header.type in (PageType.DATA_PAGE, PageType.DATA_PAGE_V2):
                seen += header.value_count
                if seen > chunk.value_count:
                    raise FormatError(f"pages hold {seen} values, their column chunk {chunk.value_count}")
                decode = _decode_v1_page if header.type == PageType.DATA_PAGE else _decode_v2_page
                yield decode(header, data[start:position], chunk, buffer, offset)
        except SkerryError as error:
            if error.location is None:
                error.location, error.offset = location, offset
            raise
    if seen < chunk.value_count and base + position >= chunk.offset + chunk.size_bytes:
        raise FormatError(
            f"pages hold {seen} values, their column chunk {chunk.value_count}",
            location=location,
            offset=base,
            rule="Parquet spec, parquet.thrift, `ColumnMetaData.num_values`",
        )


def _decode_dictionary(
    header: PageHeader, body: memoryview, chunk: ColumnChunk, buffer: PageBuffer, offset: int
) -> DictionaryPage:
    # The older writers say PLAIN_DICTIONARY and mean PLAIN.
    if header.encoding not in (Encoding.PLAIN, Encoding.PLAIN_DICTIONARY):
        raise FormatError(f"dictionary page has encoding {header.encoding}, expected PLAIN")
    data = buffer.decompress(chunk.codec, body, header.uncompressed_bytes)
    return DictionaryPage(offset, header.value_count, data)


def _decode_v1_page(
    header: PageHeader, body: memoryview, chunk: ColumnChunk, buffer: PageBuffer, offset: int
) -> DataPage:
    """Levels and values are compressed together. Spec: Parquet spec, README.md, Data Pages."""
    data = buffer.decompress(chunk.codec, body, header.uncompressed_bytes)
    nothing = data[:0]
    repetition, data = _take_levels(data) if chunk.column.max_repetition_level else (nothing, data)
    if not chunk.column.max_definition_level:
        return DataPage(offset, header.value_count, header.value_count, header.encoding, repetition, nothing, data)
    if header.definition_level_encoding != Encoding.RLE:
        raise UnsupportedError(f"definition levels of encoding {header.definition_level_encoding}, expected RLE")
    definition, data = _take_levels(data)
    present = _count_present(definition, chunk.column.max_definition_level, header.value_count)
    return DataPage(offset, header.value_count, present, header.encoding, repetition, definition, data)


def _take_levels(data: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Split off levels with their length prefix.

    Spec: Parquet spec, Encodings.md, Run Length Encoding / Bit-Packing Hybrid.
    """
    length = int.from_bytes(data[:_LEVEL_LENGTH_BYTES].tobytes(), "little")
    end = _LEVEL_LENGTH_BYTES + length
    if end > len(data):
        raise FormatError(f"levels of {length} bytes in a page of {len(data)}")
    return data[_LEVEL_LENGTH_BYTES:end], data[end:]


def _decode_v2_page(
    header: PageHeader, body: memoryview, chunk: ColumnChunk, buffer: PageBuffer, offset: int
) -> DataPage:
    """Levels come first and are never compressed. Spec: Parquet spec, parquet.thrift, `DataPageHeaderV2`."""
    levels_bytes = header.repetition_level_bytes + header.definition_level_bytes
    repetition = np.frombuffer(body[: header.repetition_level_bytes], np.uint8)
    definition = np.frombuffer(body[header.repetition_level_bytes : levels_bytes], np.uint8)
    codec = chunk.codec if header.is_compressed or chunk.hides_compression else Codec.UNCOMPRESSED
    data = buffer.decompress(codec, body[levels_bytes:], header.uncompressed_bytes - levels_bytes)
    present = header.value_count
    if chunk.column.max_definition_level:
        present = _count_present(definition, chunk.column.max_definition_level, header.value_count)
    return DataPage(offset, header.value_count, present, header.encoding, repetition, definition, data)


def _count_present(levels: npt.NDArray[np.uint8], max_level: int, value_count: int) -> int:
    """How many levels are the highest one."""
    if _is_one_run(levels, max_level, value_count):
        return value_count
    counts = np.zeros(max_level + 1, np.int64)
    count_codes(levels, max_level.bit_length(), value_count, counts)
    return int(counts[max_level])


def _is_one_run(levels: npt.NDArray[np.uint8], level: int, count: int) -> bool:
    """Whether there is but one run, of `level`, at least `count` long: what a page without nulls usually has.

    Spec: Parquet spec, Encodings.md, Run Length Encoding / Bit-Packing Hybrid: a header of 7 bits a byte, the last one
    below 128, then the level in one byte.
    """
    if not 2 <= len(levels) <= 4 or levels[-1] != level:
        return False
    *more, last = levels[:-1].tolist()
    header = sum((byte & 0x7F) << 7 * i for i, byte in enumerate((*more, last)))
    return last < 0x80 and all(byte >= 0x80 for byte in more) and header & 1 == 0 and header >> 1 >= count
