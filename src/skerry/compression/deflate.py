"""Deflate streams, bare or in gzip members, with bounded output.

Spec: RFC 1951 (deflate); RFC 1952 (gzip).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from skerry.errors import FormatError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["decompress_deflate", "decompress_gzip"]

_BARE: Final = -zlib.MAX_WBITS
_GZIP: Final = zlib.MAX_WBITS + 16
_PIECE_BYTES: Final = 8 << 20
"""Longer streams are measured before they are decompressed: zlib holds twice what it returns."""


def decompress_deflate(data: Buffer, *, max_bytes: int) -> tuple[bytes, int]:
    """Decompress the raw deflate stream at the start of `data`.

    Args:
        data: A stream, perhaps followed by more.
        max_bytes: The largest content that the caller accepts; a larger one costs 8 MiB of memory at most.

    Returns:
        The content, and how many bytes of `data` follow the stream.

    Raises:
        FormatError: The stream is damaged or cut short, or its content is larger than `max_bytes`.
    """
    return _decompress(memoryview(data).cast("B"), _BARE, max_bytes, "deflate stream")


def decompress_gzip(data: Buffer, *, max_bytes: int) -> bytes:
    """Decompress the gzip members that `data` consists of.

    Raises:
        FormatError: A member is damaged or cut short, or their content is larger than `max_bytes`.
    """
    view = memoryview(data).cast("B")
    parts: list[bytes] = []
    while view:
        content, left = _decompress(view, _GZIP, max_bytes - sum(map(len, parts)), "gzip member")
        parts.append(content)
        view = view[len(view) - left :]
    return b"".join(parts)


def _decompress(view: memoryview, window_bits: int, max_bytes: int, what: str) -> tuple[bytes, int]:
    try:
        decompressor = zlib.decompressobj(window_bits)
        content = decompressor.decompress(view, min(max_bytes, _PIECE_BYTES) + 1)
        if len(content) > _PIECE_BYTES and not decompressor.eof:
            size = _measure(view, window_bits, max_bytes)
            if size > max_bytes:
                raise FormatError(f"{what} holds more than the expected {max_bytes} bytes")
            decompressor = zlib.decompressobj(window_bits)
            content = decompressor.decompress(view, size + 1)
    except zlib.error as error:
        raise FormatError(f"not a {what}: {error}", rule="RFC 1951; RFC 1952") from error
    if len(content) > max_bytes:
        raise FormatError(f"{what} holds more than the expected {max_bytes} bytes")
    if not decompressor.eof:
        raise FormatError(f"{what} is cut short", offset=len(view), rule="RFC 1951; RFC 1952")
    return content, len(decompressor.unused_data)


def _measure(view: memoryview, window_bits: int, max_bytes: int) -> int:
    """Measure the content of a stream without keeping it, at most one piece beyond `max_bytes`."""
    decompressor = zlib.decompressobj(window_bits)
    size = len(decompressor.decompress(view, _PIECE_BYTES))
    while size <= max_bytes and (piece := decompressor.decompress(decompressor.unconsumed_tail, _PIECE_BYTES)):
        size += len(piece)
    return size
