"""LZ4: frames, one per block of memory, and raw blocks whose size the caller knows.

Spec: LZ4 frame format; LZ4 block format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import lz4.block
import lz4.frame

from skerry.errors import FormatError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["compress_lz4_block", "compress_lz4_frame", "decompress_lz4_block", "decompress_lz4_frame"]

MAGIC: Final = b"\x04\x22\x4d\x18"
_VERSION: Final = 1
_CONTENT_SIZE_FLAG: Final = 0x08
_DICTIONARY_FLAG: Final = 0x01
_EMPTY_FRAME: Final = MAGIC + b"\x68\x40" + bytes(8) + b"\x05" + bytes(4)
"""Empty content with its size in the header: the codec takes a size of 0 for an unknown one and omits it."""
_MAX_EXPANSION: Final = 255
"""The highest expansion: a length byte of 255 stands for 255 bytes, and no other byte of a block for more."""
_MAX_BLOCK_INPUT_BYTES: Final = 0x7E000000


def compress_lz4_frame(data: Buffer, *, level: int = 0, content_size: bool = True) -> bytes:
    """Compress `data` into one LZ4 frame.

    Args:
        data: Contiguous bytes.
        level: 0 (fast) to 12 (small; from 3 on by the high-compression search).
        content_size: Whether the frame header states the size of the content. Puffin requires it.

    Returns:
        The frame, with a header checksum but no content checksum.
    """
    view = memoryview(data).cast("B")
    if content_size and not view:
        return _EMPTY_FRAME
    frame: bytes = lz4.frame.compress(view, compression_level=level, store_size=content_size)
    return frame


def decompress_lz4_frame(data: Buffer, *, max_bytes: int, require_content_size: bool = False) -> bytes:
    """Decompress the one LZ4 frame that `data` consists of.

    At most `max_bytes` are allocated for the result, and never more than 255 times the size of `data`.

    Args:
        data: Exactly one frame.
        max_bytes: The largest content that the caller accepts, in bytes.
        require_content_size: Whether a frame that does not state the size of its content is refused.

    Returns:
        The content, at most `max_bytes` long.

    Raises:
        FormatError: `data` is not exactly one valid frame, or its content is larger than `max_bytes`.

    Spec: LZ4 frame format, General Structure of LZ4 Frame format, Frame Descriptor.
    """
    view = memoryview(data).cast("B")
    claimed = _decode_content_size(view)
    if claimed is None and require_content_size:
        raise FormatError(
            "LZ4 frame does not state the size of its content",
            offset=4,
            rule="LZ4 frame format, Frame Descriptor (FLG byte)",
        )
    if claimed is not None and claimed > max_bytes:
        raise FormatError(f"LZ4 frame holds {claimed} bytes, expected at most {max_bytes}", offset=6)
    capacity = len(view) * _MAX_EXPANSION
    if claimed is not None and claimed > capacity:
        raise FormatError(
            f"LZ4 frame of {len(view)} bytes claims {claimed} bytes of content, it can hold at most {capacity}",
            offset=6,
            rule="LZ4 frame format, Frame Descriptor (content size)",
        )
    limit = min(max_bytes, capacity) if claimed is None else claimed
    decompressor = lz4.frame.LZ4FrameDecompressor()
    try:
        # One byte more than allowed, so that content that is too large is detected.
        content: bytes = decompressor.decompress(view, max_length=limit + 1)
    except RuntimeError as error:
        raise FormatError(f"LZ4 frame is damaged: {error}") from error
    if len(content) > limit:
        raise FormatError(f"LZ4 frame holds more than the expected {limit} bytes")
    if not decompressor.eof:
        raise FormatError(
            "LZ4 frame is cut short: no end mark",
            offset=len(view),
            rule="LZ4 frame format, General Structure of LZ4 Frame format (EndMark)",
        )
    if decompressor.unused_data:
        trailing = len(decompressor.unused_data)
        raise FormatError(f"LZ4 frame is followed by {trailing} other bytes", offset=len(view) - trailing)
    if claimed is not None and len(content) != claimed:
        raise FormatError(
            f"LZ4 frame claims {claimed} bytes of content, found {len(content)}",
            offset=6,
            rule="LZ4 frame format, Frame Descriptor (content size)",
        )
    return content


def _decode_content_size(view: memoryview) -> int | None:
    """Decode the content size from a frame's descriptor; None if it has none.

    Spec: LZ4 frame format, Frame Descriptor: FLG, BD, then the content size as 8 bytes, little-endian.
    """
    magic = bytes(view[:4])
    if magic != MAGIC:
        raise FormatError(
            f"not an LZ4 frame: expected magic {MAGIC.hex()}, found {magic.hex() or 'no bytes'}",
            offset=0,
            rule="LZ4 frame format, General Structure of LZ4 Frame format (magic number)",
        )
    if len(view) < 7:
        raise FormatError(
            "LZ4 frame is cut short in its descriptor", offset=len(view), rule="LZ4 frame format, Frame Descriptor"
        )
    flags = view[4]
    if flags >> 6 != _VERSION:
        raise FormatError(
            f"LZ4 frame of version {flags >> 6}, expected {_VERSION}",
            offset=4,
            rule="LZ4 frame format, Frame Descriptor (FLG byte)",
        )
    if flags & _DICTIONARY_FLAG:
        raise FormatError(
            "LZ4 frame needs a dictionary, expected none",
            offset=4,
            rule="LZ4 frame format, Frame Descriptor (FLG byte)",
        )
    if not flags & _CONTENT_SIZE_FLAG:
        return None
    if len(view) < 15:
        raise FormatError(
            "LZ4 frame is cut short in its descriptor", offset=len(view), rule="LZ4 frame format, Frame Descriptor"
        )
    return int.from_bytes(view[6:14], "little")


def compress_lz4_block(data: Buffer, *, level: int = 0) -> bytes:
    """Compress `data` into one raw LZ4 block: no header, no size.

    Args:
        data: Contiguous bytes, at most 2,113,929,216 (the format's limit).
        level: 0 (fast) to 12 (small, by the high-compression search).

    Returns:
        The block.
    """
    mode = {"mode": "high_compression", "compression": level} if level > 0 else {"mode": "default"}
    block: bytes = lz4.block.compress(data, store_size=False, **mode)
    return block


def decompress_lz4_block(data: Buffer, *, size: int) -> bytes:
    """Decompress the one raw LZ4 block that `data` consists of.

    Args:
        data: Exactly one block.
        size: The exact size of its content in bytes. It is checked against what `data` can hold (255 times its own
            size) before that much is allocated.

    Returns:
        The content, `size` bytes.

    Raises:
        FormatError: `data` is not a valid block, or its content is not `size` bytes long.

    Spec: LZ4 block format.
    """
    view = memoryview(data).cast("B")
    if not 0 <= size <= min(len(view) * _MAX_EXPANSION, _MAX_BLOCK_INPUT_BYTES):
        raise FormatError(
            f"LZ4 block of {len(view)} bytes cannot hold the expected {size} bytes", rule="LZ4 block format"
        )
    try:
        content: bytes = lz4.block.decompress(view, uncompressed_size=size)
    except lz4.block.LZ4BlockError as error:
        raise FormatError(f"LZ4 block is damaged or larger than the expected {size} bytes: {error}") from error
    if len(content) != size:
        raise FormatError(f"LZ4 block holds {len(content)} bytes, expected {size}")
    return content
