"""Framed messages: a length, the payload, a checksum of the payload. Functions of bytes, without I/O.

Spec: docs/formats/amudai.md § 2.2; Amudai book, chapter 6, Checksums, Message Serialization.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeVar

from google.protobuf.message import DecodeError, EncodeError, Message

from skerry.amudai.shard.checksum import checksum
from skerry.errors import FormatError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "FRAME_BYTES",
    "decode_frame",
    "decode_message",
    "decode_protobuf",
    "encode_frame",
    "encode_message",
]

_U32: Final = struct.Struct("<I")
FRAME_BYTES: Final = 2 * _U32.size
"""Bytes that a message takes beside its payload."""
_RULE: Final = "docs/formats/amudai.md § 2.2"

M = TypeVar("M", bound=Message)


def encode_frame(payload: Buffer) -> bytes:
    """Put length and checksum around a payload.

    Raises:
        FormatError: The payload has 4 GiB or more.
    """
    view = memoryview(payload).cast("B")
    if view.nbytes >= 1 << 32:
        raise FormatError(f"message of {view.nbytes} bytes, expected less than 4 GiB", rule=_RULE)
    return b"".join((_U32.pack(view.nbytes), view, _U32.pack(checksum(view))))


def encode_message(message: Message) -> bytes:
    """Serialize a protobuf message, with length and checksum around it.

    Raises:
        FormatError: The message cannot be serialized: it nests too deep, or is too large.
    """
    try:
        return encode_frame(message.SerializeToString())
    except (EncodeError, ValueError) as error:
        raise FormatError(f"{_name(type(message))} message cannot be serialized: {error}", rule=_RULE) from error


def decode_frame(frame: Buffer, *, what: str = "message", location: str | None = None, offset: int = 0) -> memoryview:
    """Take the payload out of a frame, and check it.

    Args:
        frame: The bytes of a message; what follows the checksum is not looked at.
        what: The kind of message, for errors.
        location: The file, for errors.
        offset: Where the frame starts in the file, for errors.

    Returns:
        The payload, a view.

    Raises:
        FormatError: The frame is too short for what its length says, or the checksum is another one.
    """
    view = memoryview(frame).cast("B")
    if view.nbytes < FRAME_BYTES:
        raise FormatError(
            f"{what} of {view.nbytes} bytes, expected at least {FRAME_BYTES}",
            location=location,
            offset=offset,
            rule=_RULE,
        )
    (length,) = _U32.unpack_from(view)
    if length > view.nbytes - FRAME_BYTES:
        raise FormatError(
            f"{what} has a length of {length}, expected at most {view.nbytes - FRAME_BYTES} in a frame of "
            f"{view.nbytes} bytes",
            location=location,
            offset=offset,
            rule=_RULE,
        )
    payload = view[_U32.size : _U32.size + length]
    (expected,) = _U32.unpack_from(view, _U32.size + length)
    found = checksum(payload)
    if found != expected:
        raise FormatError(
            f"{what} has checksum {found:#010x}, expected {expected:#010x}",
            location=location,
            offset=offset,
            rule="docs/formats/amudai.md § 2.2",
        )
    return payload


def decode_message(kind: type[M], frame: Buffer, *, location: str | None = None, offset: int = 0) -> M:
    """Decode a protobuf message out of its frame.

    Args:
        kind: The class of the message, one of `skerry.amudai.messages`.
        frame: The bytes of the message with length and checksum.
        location: The file, for errors.
        offset: Where the frame starts in the file, for errors.

    Returns:
        The message. Its values are what the bytes say, and nothing more is checked.

    Raises:
        FormatError: The frame is damaged, or the payload is not a message of that kind. Messages that nest deeper than
            about a hundred levels are refused.
    """
    payload = decode_frame(frame, what=f"{_name(kind)} message", location=location, offset=offset)
    return decode_protobuf(kind, payload, location=location, offset=offset + _U32.size)


def decode_protobuf(kind: type[M], payload: Buffer, *, location: str | None = None, offset: int = 0) -> M:
    """Decode a protobuf message that has no frame.

    Raises:
        FormatError: The bytes are not a message of that kind.
    """
    message = kind()
    try:
        message.ParseFromString(bytes(payload))
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(
            f"{_name(kind)} message cannot be decoded: {error}", location=location, offset=offset, rule=_RULE
        ) from error
    return message


def _name(kind: type[Any]) -> str:
    return str(kind.DESCRIPTOR.name)
