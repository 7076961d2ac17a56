"""The key metadata of a file: its key, what identifies it, and its length.

The bytes are a version and a record in Avro's binary encoding. No specification describes them; they are those of
Iceberg's Java library.

    key metadata = 1 encryption-key:bytes aad-prefix:[null, bytes] file-length:[null, long]

Spec: docs/encryption.md, Key metadata; Avro spec, Binary Encoding.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final

from skerry.encryption.ciphers import KEY_BYTES
from skerry.errors import FormatError, UnsupportedError

__all__ = ["KeyMetadata", "decode_key_metadata", "encode_key_metadata", "new_file_key"]

_VERSION: Final = 1
_RULE: Final = "docs/encryption.md, Key metadata"
_MAX_VARINT_BYTES: Final = 10
_AAD_PREFIX_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class KeyMetadata:
    """What decrypts a file. It is never printed.

    Args:
        key: The key of the file: 16, 24 or 32 bytes.
        aad_prefix: What identifies the file to its cipher, so that no other can take its place.
        file_length: Size of the encrypted file, if it is known from a trusted place.
    """

    key: bytes = field(repr=False)
    aad_prefix: bytes = field(default=b"", repr=False)
    file_length: int | None = None


def new_file_key(key_bytes: int) -> KeyMetadata:
    """A key for one file that is to be written.

    Args:
        key_bytes: Its length: 16, 24 or 32.
    """
    return KeyMetadata(os.urandom(key_bytes), os.urandom(_AAD_PREFIX_BYTES))


def encode_key_metadata(key: KeyMetadata) -> bytes:
    """Encode key metadata as Iceberg's Java library does."""
    parts = [bytes([_VERSION]), _long(len(key.key)), key.key, b"\x02", _long(len(key.aad_prefix)), key.aad_prefix]
    parts += [b"\x00"] if key.file_length is None else [b"\x02", _long(key.file_length)]
    return b"".join(parts)


def decode_key_metadata(data: bytes, *, location: str | None = None) -> KeyMetadata:
    """Decode key metadata.

    Args:
        data: The bytes.
        location: The file that they decrypt, for messages.

    Raises:
        FormatError: They are malformed.
        UnsupportedError: They are of another version, such as that of another encryption scheme.
    """
    if data[:1] != bytes([_VERSION]):
        raise UnsupportedError(
            f"the file is encrypted with key metadata of version {data[0] if data else 'none'}, expected {_VERSION}",
            location=location,
        )
    reader = _Reader(data, location)
    key = reader.read_bytes()
    aad_prefix = reader.read_bytes() if reader.read_branch() else b""
    file_length = reader.read_long() if reader.read_branch() else None
    if reader.place != len(data):
        raise reader.malformed(f"{len(data) - reader.place} bytes are left over")
    if len(key) not in KEY_BYTES:
        raise reader.malformed(f"a key of {len(key)} bytes, expected 16, 24 or 32")
    if file_length is not None and file_length < 0:
        raise reader.malformed(f"a file of {file_length} bytes")
    return KeyMetadata(key, aad_prefix, file_length)


class _Reader:
    """Values one after the other; messages never contain any of the bytes."""

    def __init__(self, data: bytes, location: str | None) -> None:
        self.data, self.location, self.place = data, location, 1

    def read_long(self) -> int:
        value = 0
        for index in range(_MAX_VARINT_BYTES):
            if self.place >= len(self.data):
                raise self.malformed("it ends within a number")
            byte = self.data[self.place]
            self.place += 1
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise self.malformed("a number has more than 10 bytes")

    def read_bytes(self) -> bytes:
        length = self.read_long()
        if not 0 <= length <= len(self.data) - self.place:
            raise self.malformed(f"{length} bytes wanted, {len(self.data) - self.place} left")
        self.place += length
        return self.data[self.place - length : self.place]

    def read_branch(self) -> bool:
        """Whether an optional value is there."""
        branch = self.read_long()
        if branch not in (0, 1):
            raise self.malformed(f"branch {branch} of a union of 2")
        return bool(branch)

    def malformed(self, problem: str) -> FormatError:
        return FormatError(f"key metadata is malformed: {problem}", location=self.location, rule=_RULE)


def _long(value: int) -> bytes:
    """A number as Avro writes it, zigzag and in groups of seven bits."""
    rest = value << 1
    groups = bytearray()
    while rest >= 0x80:
        groups.append(rest & 0x7F | 0x80)
        rest >>= 7
    groups.append(rest)
    return bytes(groups)
