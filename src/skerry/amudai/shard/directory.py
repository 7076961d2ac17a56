"""The directory of a shard, decoded and checked without I/O.

    file = header … ShardDirectory (length payload checksum) length footer

Spec: docs/formats/amudai.md § 2.3, § 9.2; Amudai book, chapter 6, Shard Directory, Stripe List.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skerry.amudai.messages import DataRef, ShardDirectory, StripeDirectory, StripeList
from skerry.amudai.shard.framing import FRAME_BYTES, decode_message, encode_message
from skerry.amudai.shard.shard_files import FRAME, MAGIC_BYTES, check_magic
from skerry.errors import FormatError

__all__ = [
    "MIN_FILE_BYTES",
    "TRAILER_BYTES",
    "Stripe",
    "decode_directory",
    "decode_stripes",
    "decode_trailer",
    "encode_directory",
    "has_bytes",
]

_U32: Final = struct.Struct("<I")
TRAILER_BYTES: Final = _U32.size + MAGIC_BYTES
"""Bytes at the end of a root file that hold the size of the directory."""
MIN_FILE_BYTES: Final = MAGIC_BYTES + FRAME_BYTES + TRAILER_BYTES
_MAX_DIRECTORY_BYTES: Final = 16 * 1024 * 1024
_MAX_RECORDS: Final = (1 << 63) - 1
_REQUIRED: Final = ("schema_ref", "field_list_ref", "stripe_list_ref", "url_list_ref")
_RULE: Final = "docs/formats/amudai.md § 2.3"


@dataclass(frozen=True, slots=True)
class Stripe:
    """A part of a shard's records.

    Args:
        ordinal: Its place among the stripes.
        record_offset: Number of records in the stripes before.
        record_count: Its records, deleted ones included.
        deleted_record_count: How many of them are deleted.
        raw_data_size: Bytes of its values before encoding, if known.
        directory: The message, for its references.
    """

    ordinal: int
    record_offset: int
    record_count: int
    deleted_record_count: int
    raw_data_size: int | None
    directory: StripeDirectory


def decode_trailer(data: bytes, *, file_size: int, location: str) -> int:
    """Decode the end of a root file.

    Args:
        data: At least the last `TRAILER_BYTES` bytes of the file.
        file_size: Its size.
        location: The file, for errors.

    Returns:
        How many of the file's last bytes are the directory's message and what follows it.

    Raises:
        FormatError: The file is too short, has no footer, or no room for a directory of the size that it says.
        UnsupportedError: The file is of a version to come.

    Spec: docs/formats/amudai.md § 2.3; Amudai book, chapter 6, Shard Directory.
    """
    if file_size < MIN_FILE_BYTES or len(data) < TRAILER_BYTES:
        raise FormatError(
            f"not an Amudai shard: file of {file_size} bytes, a shard has at least {MIN_FILE_BYTES}",
            location=location,
            offset=file_size,
            rule=_RULE,
        )
    check_magic(data[-MAGIC_BYTES:], location=location, offset=file_size - MAGIC_BYTES)
    (length,) = _U32.unpack(data[-TRAILER_BYTES:-MAGIC_BYTES])
    largest = min(file_size - MIN_FILE_BYTES, _MAX_DIRECTORY_BYTES - 1)
    if length > largest:
        raise FormatError(
            f"directory has a length of {length}, expected at most {largest} in a file of {file_size} bytes",
            location=location,
            offset=file_size - TRAILER_BYTES,
            rule=_RULE,
        )
    return int(length) + FRAME_BYTES + TRAILER_BYTES


def decode_directory(tail: bytes, *, file_size: int, location: str) -> ShardDirectory:
    """Decode the directory.

    Args:
        tail: The last bytes of the file, at least as many as `decode_trailer` says.
        file_size: The file's size.
        location: The file, for errors.

    Returns:
        The message, with all references that a shard must have.

    Raises:
        FormatError: The message is damaged, a reference is missing, or counts do not go together.
        UnsupportedError: The file is of a version to come.
    """
    size = decode_trailer(tail, file_size=file_size, location=location)
    start = file_size - size
    frame = tail[-size:-TRAILER_BYTES]
    (length,) = _U32.unpack_from(frame)
    if length != size - FRAME_BYTES - TRAILER_BYTES:
        raise FormatError(
            f"directory has a length of {length} before it and {size - FRAME_BYTES - TRAILER_BYTES} after it",
            location=location,
            offset=start,
            rule=_RULE,
        )
    directory = decode_message(ShardDirectory, frame, location=location, offset=start)
    for name in _REQUIRED:
        if not has_bytes(getattr(directory, name)):
            raise FormatError(f"the directory has no {name}", location=location, offset=start, rule=_RULE)
    if not directory.deleted_record_count <= directory.total_record_count <= _MAX_RECORDS:
        raise FormatError(
            f"{directory.deleted_record_count} of {directory.total_record_count} records are deleted",
            location=location,
            offset=start,
            rule=_RULE,
        )
    return directory


def encode_directory(directory: ShardDirectory) -> bytes:
    """Encode the end of a root file: the directory's message, its length again, and the footer.

    Raises:
        FormatError: The message has 16 MiB or more.
    """
    frame = encode_message(directory)
    if len(frame) - FRAME_BYTES >= _MAX_DIRECTORY_BYTES:
        raise FormatError(f"directory of {len(frame)} bytes, expected less than {_MAX_DIRECTORY_BYTES}", rule=_RULE)
    return frame + _U32.pack(len(frame) - FRAME_BYTES) + FRAME


def has_bytes(data_ref: DataRef) -> bool:
    """Whether a reference names anything: an empty range is not a reference."""
    return data_ref.range.end != data_ref.range.start


def decode_stripes(stripes: StripeList, directory: ShardDirectory, *, location: str) -> tuple[Stripe, ...]:
    """Take the stripe list apart.

    Args:
        stripes: The message.
        directory: The shard's directory, whose counts must be those of the stripes together.
        location: The file, for errors.

    Returns:
        The stripes in order.

    Raises:
        FormatError: Counts or positions do not go together.

    Spec: docs/formats/amudai.md § 2.3; Amudai book, chapter 6, Stripe List.
    """
    found: list[Stripe] = []
    position = 0
    for ordinal, stripe in enumerate(stripes.stripes):
        if stripe.record_offset != position or stripe.deleted_record_count > stripe.total_record_count:
            raise FormatError(
                f"stripe {ordinal} begins at record {stripe.record_offset} and has {stripe.total_record_count}, "
                f"{stripe.deleted_record_count} of them deleted; expected record {position}",
                location=location,
                rule="docs/formats/amudai.md § 2.3",
            )
        raw = stripe.raw_data_size if stripe.HasField("raw_data_size") else None
        counts = (stripe.record_offset, stripe.total_record_count, stripe.deleted_record_count)
        found.append(Stripe(ordinal, *counts, raw, stripe))
        position += stripe.total_record_count
    _check_sums(found, directory, location)
    return tuple(found)


def _check_sums(stripes: Sequence[Stripe], directory: ShardDirectory, location: str) -> None:
    sums = {
        "stripe_count": len(stripes),
        "total_record_count": sum(stripe.record_count for stripe in stripes),
        "deleted_record_count": sum(stripe.deleted_record_count for stripe in stripes),
    }
    for name, expected in sums.items():
        if getattr(directory, name) != expected:
            raise FormatError(
                f"the directory's {name} is {getattr(directory, name)}, the stripes have {expected}",
                location=location,
                rule=_RULE,
            )
