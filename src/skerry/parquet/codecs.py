"""Decompression of pages into reused memory.

A page header states the size of the content, and exactly that must come out. Before memory is allocated, the size is
checked against what the compressed bytes can hold.

Spec: Parquet spec, Compression.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from skerry.compression import (
    decompress_lz4_block,
    decompress_zstd_frames,
    decompress_zstd_into,
    decompress_zstd_of_size,
)
from skerry.errors import FormatError, UnsupportedError
from skerry.parquet.metadata import Codec

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["SUPPORTED_CODECS", "PageBuffer", "check_expansion", "decompress_into", "decompress_pages"]

_SMALLEST_BUFFER_BYTES: Final = 1 << 20
_MANY: Final = 8
"""From so many pages on it pays to let the codec take them in one step."""


class PageBuffer:
    """Decompresses one page after another into the same memory. Belongs to one thread."""

    __slots__ = ("_memory",)

    def __init__(self) -> None:
        self._memory: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

    def decompress(self, codec: int, data: memoryview, size: int) -> npt.NDArray[np.uint8]:
        """Decompress one block.

        Args:
            codec: A `Codec`.
            data: The whole block.
            size: What must come out of it, in bytes.

        Returns:
            uint8[size]: a view of `data` (uncompressed), of this buffer until the next call, or memory of its own.

        Raises:
            FormatError: The block is damaged or of another size.
            UnsupportedError: The codec is not among `SUPPORTED_CODECS`.
        """
        if codec == Codec.UNCOMPRESSED:
            if size != len(data):
                raise FormatError(f"uncompressed page has {len(data)} bytes, its header says {size}")
            return np.frombuffer(data, np.uint8)
        if codec not in SUPPORTED_CODECS:
            raise UnsupportedError(f"Parquet codec {codec} is not supported")
        if size == 0:
            return np.empty(0, np.uint8)
        if codec == Codec.LZ4_RAW:
            return np.frombuffer(decompress_lz4_block(data, size=size), np.uint8)
        check_expansion(codec, len(data), size)
        output = self._reserve(size)
        decompress_into(codec, data, output)
        return output

    def _reserve(self, size: int) -> npt.NDArray[np.uint8]:
        if size > len(self._memory):
            self._memory = np.empty(max(size, 2 * len(self._memory), _SMALLEST_BUFFER_BYTES), np.uint8)
        return self._memory[:size]


def check_expansion(codec: int, compressed: int, size: int) -> None:
    """Refuse the size that a block claims to have, before memory is allocated for it.

    Args:
        codec: One of `SUPPORTED_CODECS`.
        compressed: Bytes of the block.
        size: What is to come out of it.

    Raises:
        FormatError: So few bytes cannot hold so many.
    """
    if size > compressed * _MAX_EXPANSION.get(codec, _LZ4_EXPANSION):
        raise FormatError(f"compressed page of {compressed} bytes claims {size} bytes of content")


def decompress_into(codec: int, data: memoryview, output: npt.NDArray[np.uint8]) -> None:
    """Decompress one block into memory of the caller.

    Args:
        codec: One of `SUPPORTED_CODECS`.
        data: The whole block.
        output: uint8[n], contiguous: n bytes must come out.

    Raises:
        FormatError: The block is damaged or of another size.
    """
    size = len(output)
    if codec == Codec.ZSTD and size:
        decompress_zstd_into(data, output.data)
        return
    if codec in (Codec.UNCOMPRESSED, Codec.LZ4_RAW) or not size:
        output[:] = PageBuffer().decompress(codec, data, size)
        return
    decompress, damage = _decompressor(codec)
    try:
        found = decompress(data, output.data)
    except damage as error:
        raise FormatError(f"compressed page is damaged: {error}") from error
    if found != size:
        raise FormatError(f"compressed page holds {found} bytes, its header says {size}")


def decompress_pages(
    codecs: Sequence[int],
    data: memoryview,
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint8]:
    """Decompress blocks, one after another.

    Args:
        codecs: A codec of `SUPPORTED_CODECS` for each of n > 0 blocks.
        data: Bytes that hold them.
        starts: int64[n], where each begins.
        lengths: int64[n], how long it is.
        sizes: int64[n], what must come out of each, in bytes.

    Returns:
        uint8[n]

    Raises:
        FormatError: A block is damaged or of another size.
    """
    if len(codecs) >= _MANY and set(codecs) == {Codec.ZSTD} and sizes.min() > 0:
        expansions = sizes > lengths * _MAX_EXPANSION[Codec.ZSTD]
        if expansions.any():
            first = int(expansions.argmax())
            check_expansion(Codec.ZSTD, int(lengths[first]), int(sizes[first]))
        return np.frombuffer(decompress_zstd_frames(data, starts, lengths, sizes), np.uint8)
    blocks = zip(codecs, starts.tolist(), lengths.tolist(), sizes.tolist(), strict=True)
    contents = [_content(codec, data[start : start + length], size) for codec, start, length, size in blocks]
    return np.frombuffer(contents[0] if len(contents) == 1 else b"".join(contents), np.uint8)


def _content(codec: int, data: memoryview, size: int) -> Any:
    if codec == Codec.UNCOMPRESSED or not size:
        return PageBuffer().decompress(codec, data, size)
    check_expansion(codec, len(data), size)
    if codec == Codec.ZSTD:
        return decompress_zstd_of_size(data, size)
    content = np.empty(size, np.uint8)
    decompress_into(codec, data, content)
    return content


@functools.cache
def _decompressor(codec: int) -> tuple[Callable[[Any, Any], int], type[Exception]]:
    """How to decompress into given memory, and what is raised when that fails. Loaded when the first page comes."""
    import cramjam

    functions = {
        Codec.SNAPPY: cramjam.snappy.decompress_raw_into,
        Codec.GZIP: cramjam.gzip.decompress_into,
        Codec.BROTLI: cramjam.brotli.decompress_into,
    }
    return functions[Codec(codec)], cramjam.DecompressionError


_MAX_EXPANSION: Final[dict[int, int]] = {
    Codec.SNAPPY: 64,  # a copy of 64 bytes takes 2 bytes at least
    Codec.GZIP: 1032,  # a copy of 258 bytes takes 2 bits
    Codec.BROTLI: 1 << 20,  # up to 16 MiB are repeated at once
    Codec.ZSTD: 1 << 16,  # a block of 128 KiB takes 4 bytes
}
"""The most bytes that one compressed byte can hold."""
_LZ4_EXPANSION: Final = 256
"""The same for a block of LZ4: a byte of a length adds 255."""

SUPPORTED_CODECS: Final = frozenset((Codec.UNCOMPRESSED, Codec.LZ4_RAW, *_MAX_EXPANSION))
"""LZO and the first LZ4 (Hadoop's framing) are left to PyArrow."""
