"""Zstandard frames, one per block of memory, with or without the size of their content.

Spec: RFC 8878, section 3.1.1 (Zstandard frames).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import zstandard

from skerry.errors import FormatError

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Buffer

__all__ = [
    "compress_zstd",
    "decompress_zstd",
    "decompress_zstd_frames",
    "decompress_zstd_into",
    "decompress_zstd_of_size",
]

MAGIC: Final = b"\x28\xb5\x2f\xfd"
_BLOCK_HEADER_BYTES: Final = 3
_CHECKSUM_BYTES: Final = 4
_MAX_BLOCK_BYTES: Final = 128 * 1024
_RAW, _RLE, _COMPRESSED, _RESERVED = range(4)


class _Codecs(threading.local):
    """The calling thread's codecs.

    Creating one costs ten times as much as decoding a small block, and no codec may be used by two threads at once.
    """

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self.compressors: dict[tuple[int, bool], zstandard.ZstdCompressor] = {}


_codecs = _Codecs()


def compress_zstd(data: Buffer, *, level: int = 3, content_size: bool = True) -> bytes:
    """Compress `data` into one Zstandard frame.

    Args:
        data: Contiguous bytes.
        level: 1 (fast) to 22 (small); negative levels are faster still.
        content_size: Whether the frame header states the size of the content. Puffin requires it; Amudai omits it.

    Returns:
        The frame, without a checksum.
    """
    compressor = _codecs.compressors.get((level, content_size))
    if compressor is None:
        compressor = zstandard.ZstdCompressor(level=level, write_content_size=content_size)
        _codecs.compressors[level, content_size] = compressor
    return compressor.compress(memoryview(data))


def decompress_zstd(data: Buffer, *, max_bytes: int, require_content_size: bool = False) -> bytes:
    """Decompress the one Zstandard frame that `data` consists of.

    At most `max_bytes` are allocated for the result, and never more than the frame's blocks can hold (128 KiB each).
    A frame without content size also takes a window of the size its header names, 128 MiB at most.

    Args:
        data: Exactly one frame.
        max_bytes: The largest content that the caller accepts, in bytes.
        require_content_size: Whether a frame that does not state the size of its content is refused.

    Returns:
        The content, at most `max_bytes` long.

    Raises:
        FormatError: `data` is not exactly one valid frame, or its content is larger than `max_bytes`.

    Spec: RFC 8878, section 3.1.1.1 (frame header), section 3.1.1.2 (blocks).
    """
    view = memoryview(data).cast("B")
    content_size, capacity = _measure_frame(view)
    if content_size is None:
        if require_content_size:
            raise FormatError(
                "Zstandard frame does not state the size of its content", offset=0, rule="RFC 8878, section 3.1.1.1.4"
            )
    elif content_size > max_bytes:
        raise FormatError(f"Zstandard frame holds {content_size} bytes, expected at most {max_bytes}")
    decompressor = _codecs.decompressor
    try:
        if content_size == 0:  # the codec would return without checking the blocks
            content = decompressor.stream_reader(view).read(1)
        else:  # a limit of 0 would mean no limit: a frame of unknown size gets one byte, checked below
            content = decompressor.decompress(view, max_output_size=max(1, min(max_bytes, capacity)))
    except zstandard.ZstdError as error:
        raise FormatError(f"Zstandard frame cannot be decoded into at most {max_bytes} bytes: {error}") from error
    limit = max_bytes if content_size is None else content_size
    if len(content) > limit:
        raise FormatError(f"Zstandard frame holds {len(content)} bytes, expected at most {limit}")
    return content


def decompress_zstd_into(data: Buffer, output: memoryview) -> None:
    """Decompress the one Zstandard frame that `data` consists of into memory that the caller reuses.

    For pages of some hundred kilobytes this takes a third less time than allocating memory for each. The codec takes a
    window of the size that the frame's header names, 128 MiB at most.

    Args:
        data: Exactly one frame.
        output: Writable bytes, exactly as many as the frame holds.

    Raises:
        FormatError: `data` is not exactly one valid frame, or does not hold as many bytes as `output`.

    Spec: RFC 8878, section 3.1.1.1 (frame header), section 3.1.1.2 (blocks).
    """
    view = memoryview(data).cast("B")
    content_size, capacity = _measure_frame(view)
    size = len(output)
    if content_size not in (None, size) or size > capacity:
        found = f"at most {capacity}" if content_size is None else content_size
        raise FormatError(f"Zstandard frame holds {found} bytes, expected {size}")
    filled = 0
    try:
        with _codecs.decompressor.stream_reader(view) as reader:
            while filled < size and (count := reader.readinto(output[filled:])):
                filled += count
            is_more = bool(reader.read(1))
    except zstandard.ZstdError as error:
        raise FormatError(f"Zstandard frame cannot be decoded into {size} bytes: {error}") from error
    if filled < size or is_more:
        raise FormatError(f"Zstandard frame holds {f'more than {size}' if is_more else filled} bytes, expected {size}")


def decompress_zstd_of_size(data: Buffer, size: int) -> bytes:
    """Decompress the one Zstandard frame that `data` consists of, whose content has a size that the caller knows.

    The fastest way for pages of some ten kilobytes: no window is taken, and blocks are not measured before.

    Args:
        data: Exactly one frame.
        size: The bytes that it holds: so much memory is taken.

    Raises:
        FormatError: `data` is not exactly one valid frame, or does not hold `size` bytes.

    Spec: RFC 8878, section 3.1.1 (Zstandard frames).
    """
    view = memoryview(data)
    try:
        stated = zstandard.frame_content_size(view)
        if stated not in (-1, size):
            raise FormatError(f"Zstandard frame holds {stated} bytes, expected {size}")
        content = _codecs.decompressor.decompress(view, max_output_size=max(1, size), allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise FormatError(f"Zstandard frame cannot be decoded into {size} bytes: {error}") from error
    if len(content) != size:
        raise FormatError(f"Zstandard frame holds {len(content)} bytes, expected {size}")
    return content


def decompress_zstd_frames(
    data: Buffer, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> bytes:
    """Decompress frames that lie anywhere in some bytes, in one step that lets other threads run.

    Args:
        data: Contiguous bytes.
        starts: int64[n], n > 0: where each frame begins.
        lengths: int64[n]: how long it is.
        sizes: int64[n]: the bytes that it holds, at least 1: so much memory is taken.

    Returns:
        The contents, one after another.

    Raises:
        FormatError: A frame is beyond `data`, is not valid, or does not hold as many bytes.

    Spec: RFC 8878, section 3.1.1 (Zstandard frames).
    """
    segments = np.stack([starts, lengths], axis=1).astype(np.uint64)
    view = memoryview(data)
    try:
        frames = zstandard.BufferWithSegments(view, segments.tobytes())
        found = _codecs.decompressor.multi_decompress_to_buffer(
            frames, decompressed_sizes=sizes.astype(np.uint64).tobytes()
        )
    except (zstandard.ZstdError, ValueError) as error:
        raise FormatError(f"Zstandard frames cannot be decoded into {int(sizes.sum())} bytes: {error}") from error
    contents: list[Any] = [found[place] for place in range(len(found))]
    return b"".join(contents)


def _measure_frame(view: memoryview) -> tuple[int | None, int]:
    """Check that there is exactly one frame, without decoding it.

    Returns:
        The content size if the header states it, and the most that the blocks can hold, in bytes.

    Spec: RFC 8878, section 3.1.1.1 (frame header), section 3.1.1.2 (blocks).
    """
    magic = bytes(view[:4])
    if magic != MAGIC:
        raise FormatError(
            f"not a Zstandard frame: expected magic {MAGIC.hex()}, found {magic.hex() or 'no bytes'}",
            offset=0,
            rule="RFC 8878, section 3.1.1",
        )
    try:
        header_bytes = zstandard.frame_header_size(view)
        header = zstandard.get_frame_parameters(view)
    except zstandard.ZstdError as error:
        raise FormatError(
            f"Zstandard frame header is damaged: {error}", offset=0, rule="RFC 8878, section 3.1.1.1"
        ) from error
    if header.dict_id:
        raise FormatError(
            f"Zstandard frame needs dictionary {header.dict_id}, expected a frame without dictionary",
            offset=0,
            rule="RFC 8878, section 3.1.1.1.3",
        )
    end, capacity = _measure_blocks(view, header_bytes, min(header.window_size, _MAX_BLOCK_BYTES))
    end += _CHECKSUM_BYTES if header.has_checksum else 0
    if end != len(view):
        problem = "is cut short" if end > len(view) else "is followed by other bytes"
        raise FormatError(f"Zstandard frame of {end} bytes {problem}: found {len(view)} bytes", offset=len(view))
    if header.content_size == zstandard.CONTENTSIZE_UNKNOWN:
        return None, capacity
    if header.content_size > capacity:
        raise FormatError(
            f"Zstandard frame claims {header.content_size} bytes of content, its blocks hold at most {capacity}",
            offset=0,
            rule="RFC 8878, section 3.1.1.1.4",
        )
    return header.content_size, capacity


def _measure_blocks(view: memoryview, start: int, max_block_bytes: int) -> tuple[int, int]:
    """Walk the block headers.

    Returns:
        The offset after the last block, and the most that all blocks can decode to, in bytes.

    Spec: RFC 8878, section 3.1.1.2 (blocks).
    """
    position, capacity, last = start, 0, False
    while not last:
        if position + _BLOCK_HEADER_BYTES > len(view):
            raise FormatError(
                "Zstandard frame is cut short: no last block", offset=len(view), rule="RFC 8878, section 3.1.1.2"
            )
        header = int.from_bytes(view[position : position + _BLOCK_HEADER_BYTES], "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        if kind == _RESERVED or size > max_block_bytes:
            raise FormatError(
                f"Zstandard block of type {kind} and size {size}, expected types 0 to 2 and at most {max_block_bytes}",
                offset=position,
                rule="RFC 8878, section 3.1.1.2",
            )
        position += _BLOCK_HEADER_BYTES + (1 if kind == _RLE else size)
        capacity += max_block_bytes if kind == _COMPRESSED else size
    return position, capacity
