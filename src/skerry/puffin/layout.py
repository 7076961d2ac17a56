"""The bytes of a Puffin file: magic, blobs, footer. Decoding and encoding here are functions of bytes, without I/O.

    file   = Magic Blob₁ Blob₂ ... Blobₙ Footer
    footer = Magic FooterPayload FooterPayloadSize Flags Magic

Spec: Puffin spec, File structure, Footer structure.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from skerry.compression import compress_lz4_frame, compress_zstd, decompress_lz4_frame, decompress_zstd
from skerry.errors import FormatError, UnsupportedError
from skerry.puffin.metadata import BlobMetadata, FileMetadata, decode_file_metadata, encode_file_metadata

__all__ = [
    "FOOTER_TRAILER_BYTES",
    "MAGIC",
    "FooterTrailer",
    "check_magic",
    "decode_blob",
    "decode_footer",
    "decode_footer_trailer",
    "encode_blob",
    "encode_footer",
    "max_blob_bytes",
]

MAGIC: Final = b"PFA1"
_TRAILER: Final = struct.Struct("<iI4s")
FOOTER_TRAILER_BYTES: Final = _TRAILER.size
"""Bytes at the end of every file that hold the size of the footer."""
_FOOTER_FRAME_BYTES: Final = len(MAGIC) + FOOTER_TRAILER_BYTES
_MIN_FILE_BYTES: Final = len(MAGIC) + _FOOTER_FRAME_BYTES
_COMPRESSED_PAYLOAD: Final = 1
_MAX_PAYLOAD_BYTES: Final = 16 << 20
_MAX_PAYLOAD_EXPANSION: Final = 8
"""A compressed footer payload may hold this many times its stored bytes, or 16 MiB if that is more: as objects, JSON
takes up to twenty times its text. The writer keeps to the bound, too."""
_MAX_BLOB_BYTES: Final = 16 << 20
_MAX_BLOB_EXPANSION: Final = 64

_Compress = Callable[[Any], bytes]
_CODECS: Final[dict[str, tuple[_Compress, Callable[..., bytes]]]] = {
    "lz4": (compress_lz4_frame, decompress_lz4_frame),
    "zstd": (compress_zstd, decompress_zstd),
}


@dataclass(frozen=True, slots=True)
class FooterTrailer:
    """The last twelve bytes of a file: FooterPayloadSize, Flags, Magic.

    Args:
        payload_size: Bytes of the footer payload as stored.
        payload_compressed: Whether the payload is an LZ4 frame.
    """

    payload_size: int
    payload_compressed: bool = False

    @property
    def footer_size(self) -> int:
        """Bytes of the whole footer, its magic included; table metadata calls it `file-footer-size-in-bytes`."""
        return self.payload_size + _FOOTER_FRAME_BYTES


def check_magic(data: bytes, offset: int, *, location: str | None = None) -> None:
    """Refuse four bytes, found at `offset` of the file, that are not the magic.

    Raises:
        FormatError: They are something else.
    """
    if data != MAGIC:
        raise FormatError(
            f"not a Puffin file: expected magic {MAGIC.hex()}, found {data.hex() or 'no bytes'}",
            location=location,
            offset=offset,
            rule="Puffin spec, File structure",
        )


def decode_footer_trailer(data: bytes, *, file_size: int, location: str | None = None) -> FooterTrailer:
    """Decode the end of a file.

    Args:
        data: At least the last `FOOTER_TRAILER_BYTES` bytes of the file.
        file_size: Bytes of the whole file.
        location: The file, for messages.

    Returns:
        The trailer; its footer fits into the file.

    Raises:
        FormatError: The file is too short, ends without magic, or its footer cannot be as large as it says.
        UnsupportedError: A flag is set whose meaning is not known.

    Spec: Puffin spec, Footer structure.
    """
    if file_size < _MIN_FILE_BYTES or len(data) < FOOTER_TRAILER_BYTES:
        raise FormatError(
            f"Puffin file of {file_size} bytes, expected at least {_MIN_FILE_BYTES}",
            location=location,
            offset=file_size,
            rule="Puffin spec, File structure",
        )
    start = file_size - FOOTER_TRAILER_BYTES
    payload_size, flags, magic = _TRAILER.unpack(data[-FOOTER_TRAILER_BYTES:])
    check_magic(magic, file_size - len(MAGIC), location=location)
    largest = file_size - _MIN_FILE_BYTES
    if not 0 <= payload_size <= largest:
        raise FormatError(
            f"footer payload size is {payload_size}, expected 0 to {largest} in a file of {file_size} bytes",
            location=location,
            offset=start,
            rule="Puffin spec, Footer structure, `FooterPayloadSize`",
        )
    unknown = flags & ~_COMPRESSED_PAYLOAD
    if unknown:
        names = ", ".join(f"byte {bit // 8} bit {bit % 8}" for bit in range(32) if unknown >> bit & 1)
        raise UnsupportedError(
            f"footer flags with unknown meaning are set: {names}",
            location=location,
            offset=start + 4,
            rule="Puffin spec, Footer structure, `Flags`",
        )
    return FooterTrailer(payload_size, bool(flags & _COMPRESSED_PAYLOAD))


def decode_footer(footer: bytes, *, file_size: int, location: str | None = None) -> FileMetadata:
    """Decode a whole footer.

    Args:
        footer: The bytes from the footer's magic to the end of the file.
        file_size: Bytes of the whole file.
        location: The file, for messages.

    Returns:
        The metadata; every blob is between the first magic and the footer.

    Raises:
        FormatError: The footer breaks a rule of the format, or a blob is outside of the file's blob area.
        UnsupportedError: A flag is set whose meaning is not known.

    Spec: Puffin spec, Footer structure, Footer Payload.
    """
    trailer = decode_footer_trailer(footer, file_size=file_size, location=location)
    footer_start = file_size - trailer.footer_size
    payload_start = footer_start + len(MAGIC)
    if len(footer) != trailer.footer_size:
        raise FormatError(
            f"footer of {len(footer)} bytes given, the file says that it has {trailer.footer_size}",
            location=location,
            offset=file_size - FOOTER_TRAILER_BYTES,
            rule="Puffin spec, Footer structure, `FooterPayloadSize`",
        )
    check_magic(footer[: len(MAGIC)], footer_start, location=location)
    payload = footer[len(MAGIC) : -FOOTER_TRAILER_BYTES]
    if trailer.payload_compressed:
        try:
            payload = decompress_lz4_frame(
                payload, max_bytes=_max_payload_bytes(len(payload)), require_content_size=True
            )
        except FormatError as error:
            raise _in_file(error, "footer payload", location, payload_start) from error
    metadata = decode_file_metadata(payload, location=location, offset=payload_start)
    for i, blob in enumerate(metadata.blobs):
        if not (blob.length >= 0 and len(MAGIC) <= blob.offset <= footer_start - blob.length):
            raise FormatError(
                f"blobs[{i}] has offset {blob.offset} and length {blob.length}, "
                f"expected within bytes {len(MAGIC)} to {footer_start}",
                location=location,
                offset=payload_start,
                rule="Puffin spec, BlobMetadata",
            )
    return metadata


def encode_footer(metadata: FileMetadata, *, compress: bool = False) -> bytes:
    """Encode a whole footer, from its magic to the end of the file.

    Args:
        metadata: What the footer says.
        compress: Whether the payload becomes an LZ4 frame, unless it would shrink suspiciously. Iceberg Java and
            PyIceberg cannot read such footers.

    Returns:
        The footer; its length is the footer size that table metadata records.

    Raises:
        FormatError: A value does not have the type that the specification demands, or the payload is 2 GiB or more.

    Spec: Puffin spec, Footer structure.
    """
    payload = encode_file_metadata(metadata)
    if compress:
        stored = compress_lz4_frame(payload)
        compress = len(payload) <= _max_payload_bytes(len(stored))
        payload = stored if compress else payload
    if len(payload) >= 1 << 31:
        raise FormatError(
            f"footer payload of {len(payload)} bytes, expected less than 2 GiB", rule="Puffin spec, Footer structure"
        )
    return MAGIC + payload + _TRAILER.pack(len(payload), _COMPRESSED_PAYLOAD if compress else 0, MAGIC)


def max_blob_bytes(length: int) -> int:
    """The most bytes that a stored blob may decompress to: 16 MiB and 64 times its stored length.

    The formats allow far more (a Zstandard frame of 1 MiB can hold 8 GiB); sketches and bitmaps come nowhere near,
    so a larger claim is taken for damage or malice. The writer keeps to the bound, too.
    """
    return _MAX_BLOB_BYTES + _MAX_BLOB_EXPANSION * length


def _max_payload_bytes(stored: int) -> int:
    return max(_MAX_PAYLOAD_BYTES, _MAX_PAYLOAD_EXPANSION * stored)


def decode_blob(
    blob: BlobMetadata, stored: bytes, *, max_bytes: int | None = None, location: str | None = None
) -> bytes:
    """Decompress a blob.

    Args:
        blob: Its metadata.
        stored: Its bytes in the file.
        max_bytes: The largest content to accept; by default `max_blob_bytes(blob.length)`.
        location: The file, for messages.

    Returns:
        The content.

    Raises:
        FormatError: The bytes are not one frame of the codec with its content size, or the content is too large.
        UnsupportedError: The codec is not one that the specification lists.

    Spec: Puffin spec, Compression codecs.
    """
    if blob.compression_codec is None:
        return stored
    _, decompress = _codec(blob.compression_codec, location=location, offset=blob.offset)
    limit = max_blob_bytes(len(stored)) if max_bytes is None else max_bytes
    try:
        return decompress(stored, max_bytes=limit, require_content_size=True)
    except FormatError as error:
        raise _in_file(error, f"blob of type {blob.type!r}", location, blob.offset) from error


def encode_blob(data: bytes, compression_codec: str | None) -> tuple[bytes, str | None]:
    """Compress a blob.

    Args:
        data: Its content.
        compression_codec: `zstd`, `lz4`, or None to store it as it is.

    Returns:
        The bytes to store, and the codec they are in: None where the content is so repetitive that its compressed form
        would break the bound of `max_blob_bytes`.

    Raises:
        UnsupportedError: The codec is not one that the specification lists.

    Spec: Puffin spec, Compression codecs.
    """
    if compression_codec is None:
        return data, None
    compress, _ = _codec(compression_codec)
    stored = compress(data)
    if len(data) > max_blob_bytes(len(stored)):
        return data, None
    return stored, compression_codec


def _codec(
    name: str, *, location: str | None = None, offset: int | None = None
) -> tuple[_Compress, Callable[..., bytes]]:
    codec = _CODECS.get(name)
    if codec is None:
        raise UnsupportedError(
            f"compression codec {name!r}, expected one of {', '.join(sorted(_CODECS))}",
            location=location,
            offset=offset,
            rule="Puffin spec, Compression codecs",
        )
    return codec


def _in_file(error: FormatError, what: str, location: str | None, start: int) -> FormatError:
    """Say of a codec's error where in the file it is."""
    return FormatError(
        f"{what}: {error.message}", location=location, offset=start + (error.offset or 0), rule=error.rule
    )
