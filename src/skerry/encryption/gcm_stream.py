"""AES GCM streams: a file as a sequence of encrypted blocks, each of which proves its content and its place.

    stream = "AGS1" block-length:int32 block*
    block = nonce[12] ciphertext[block-length, the last one at most] tag[16]

Spec: Iceberg AES GCM Stream spec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skerry.encryption.ciphers import NONCE_BYTES, TAG_BYTES, decrypt, encrypt
from skerry.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from skerry.encryption.key_metadata import KeyMetadata
    from skerry.storage import Storage

__all__ = ["GcmOutput", "decode_gcm_stream", "encode_gcm_stream", "read_gcm_range"]

_MAGIC: Final = b"AGS1"
_HEADER_BYTES: Final = 8
_BLOCK_BYTES: Final = 1 << 20
_ADDED_BYTES: Final = NONCE_BYTES + TAG_BYTES
_STORED_BYTES: Final = _BLOCK_BYTES + _ADDED_BYTES
_MAX_BLOCKS: Final = (1 << 31) - 1
_RULE: Final = "Iceberg AES GCM Stream spec, File structure"
_LENGTH_RULE: Final = "Iceberg AES GCM Stream spec, File length"


def encode_gcm_stream(data: Buffer, key: KeyMetadata) -> bytes:
    """Encrypt a file.

    Args:
        data: Its content.
        key: Its key; a new one for every file.

    Spec: Iceberg AES GCM Stream spec, File structure.
    """
    view = memoryview(data)
    parts = [_MAGIC, _BLOCK_BYTES.to_bytes(4, "little")]
    # a file without content has one block as well, as Iceberg's Java library writes it
    for index, start in enumerate(range(0, max(len(view), 1), _BLOCK_BYTES)):
        parts.append(encrypt(key.key, view[start : start + _BLOCK_BYTES], _aad(key, index)))
    return b"".join(parts)


class GcmOutput:
    """Encrypts what is written, block by block, into another output.

    Args:
        write: Takes the bytes of the encrypted file.
        key: Its key; a new one for every file.

    Spec: Iceberg AES GCM Stream spec, File structure.
    """

    def __init__(self, write: Callable[[bytes], object], key: KeyMetadata) -> None:
        self._write = write
        self._key = key
        self._rest = bytearray()
        self._blocks = 0
        self._size = _HEADER_BYTES
        write(_MAGIC + _BLOCK_BYTES.to_bytes(4, "little"))

    @property
    def size_bytes(self) -> int:
        """The size of the encrypted file up to here."""
        return self._size + (len(self._rest) + _ADDED_BYTES if self._rest or not self._blocks else 0)

    def write(self, data: Buffer) -> None:
        """Write bytes of the content."""
        self._rest += memoryview(data)
        while len(self._rest) > _BLOCK_BYTES:  # the last block is written at the end, and is not empty
            self._encrypt(_BLOCK_BYTES)

    def finish(self) -> None:
        """Write what is left; a file without content has one block as well."""
        if self._rest or not self._blocks:
            self._encrypt(len(self._rest))

    def _encrypt(self, length: int) -> None:
        block = encrypt(self._key.key, bytes(self._rest[:length]), _aad(self._key, self._blocks))
        self._write(block)
        del self._rest[:length]
        self._blocks += 1
        self._size += len(block)


def decode_gcm_stream(data: Buffer, key: KeyMetadata, *, location: str | None = None) -> bytes:
    """Decrypt a file.

    Args:
        data: The whole file.
        key: Its key.
        location: The file, for messages.

    Raises:
        FormatError: It is not such a stream, was changed or truncated, or was encrypted with another key.

    Spec: Iceberg AES GCM Stream spec, File structure, Additional Authenticated Data, File length.
    """
    view = memoryview(data)
    _check_header(view[:_HEADER_BYTES], location)
    count = _block_count(len(view), key, location)
    return b"".join(
        _decrypt_block(view[place : place + _STORED_BYTES], key, index, location)
        for index, place in enumerate(range(_HEADER_BYTES, _HEADER_BYTES + count * _STORED_BYTES, _STORED_BYTES))
    )


def read_gcm_range(storage: Storage, location: str, key: KeyMetadata, offset: int, length: int) -> bytes:
    """Read a part of an encrypted file; one request for the header, one for the blocks.

    Args:
        storage: Access to the file.
        location: The file.
        key: Its key; the length of the file comes from there, or else from the storage.
        offset: First byte of its content.
        length: How many bytes.

    Raises:
        FormatError: As `decode_gcm_stream`; or the content ends before the range does.
        NotFoundError: It is missing.
    """
    size = storage.size(location) if key.file_length is None else key.file_length
    count = _block_count(size, key, location)
    content = size - _HEADER_BYTES - count * _ADDED_BYTES
    if offset < 0 or length < 0 or offset + length > content:
        raise FormatError(
            f"cannot read {length} bytes from byte {offset} of {content}", location=location, rule=_LENGTH_RULE
        )
    if not length:
        return b""
    first, last = offset // _BLOCK_BYTES, (offset + length - 1) // _BLOCK_BYTES
    start = _HEADER_BYTES + first * _STORED_BYTES
    end = min(_HEADER_BYTES + (last + 1) * _STORED_BYTES, size)
    header, blocks = storage.read_ranges(location, [0, start], [_HEADER_BYTES, end - start])
    _check_header(header, location)
    found = b"".join(
        _decrypt_block(blocks[place : place + _STORED_BYTES], key, index, location)
        for index, place in zip(range(first, last + 1), range(0, end - start, _STORED_BYTES), strict=True)
    )
    skipped = offset - first * _BLOCK_BYTES
    return found[skipped : skipped + length]


def _check_header(header: memoryview, location: str | None) -> None:
    if len(header) < _HEADER_BYTES or bytes(header[:4]) != _MAGIC:
        raise FormatError("the file should be encrypted: it does not begin with AGS1", location=location, rule=_RULE)
    found = int.from_bytes(header[4:], "little")
    if found != _BLOCK_BYTES:
        raise FormatError(f"blocks of {found} bytes, expected {_BLOCK_BYTES}", location=location, offset=4, rule=_RULE)


def _block_count(size: int, key: KeyMetadata, location: str | None) -> int:
    """The number of blocks in a file of a size, which has to be that of the key metadata."""
    if key.file_length is not None and size != key.file_length:
        raise FormatError(
            f"the file has {size} bytes, its key metadata says {key.file_length}", location=location, rule=_LENGTH_RULE
        )
    count, rest = divmod(size - _HEADER_BYTES, _STORED_BYTES)
    count += rest > 0
    if not 0 < count <= _MAX_BLOCKS or 0 < rest < _ADDED_BYTES:
        raise FormatError(f"an encrypted file of {size} bytes ends within a block", location=location, rule=_RULE)
    return count


def _decrypt_block(block: memoryview, key: KeyMetadata, index: int, location: str | None) -> bytes:
    offset = _HEADER_BYTES + index * _STORED_BYTES
    return decrypt(key.key, block, _aad(key, index), location=location, offset=offset)


def _aad(key: KeyMetadata, index: int) -> bytes:
    return key.aad_prefix + index.to_bytes(4, "little")
