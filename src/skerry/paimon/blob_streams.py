"""Values of BLOB columns as streams, which read only what is asked for.

Spec: docs/formats/paimon.md § 8.11.
"""

from __future__ import annotations

from dataclasses import replace

from skerry.errors import FormatError
from skerry.paimon.allowed_locations import Place, check_location
from skerry.paimon.values.blob_layout import RULE, BlobDescriptor
from skerry.storage import RangeReader, Storage

__all__ = ["open_blob"]


def open_blob(state: Place, value: bytes) -> RangeReader:
    """A seekable stream over a value, which reads only the ranges that are asked for.

    Args:
        state: The table.
        value: Its descriptor.

    Raises:
        FormatError: It is not a descriptor, or reaches beyond the end of the file.
        NotFoundError: The file does not exist.
        SkerryError: The file is outside the table's folder.
    """
    descriptor = BlobDescriptor.decode(value)
    check_location(state, descriptor.location)
    whole = _whole(state.storage, descriptor)

    def fetch(offset: int, length: int) -> bytes:
        return state.storage.read_range(whole.location, whole.offset + offset, length)

    return RangeReader(whole.length, b"", fetch)


def _whole(storage: Storage, descriptor: BlobDescriptor) -> BlobDescriptor:
    """The descriptor with its length, checked against the size of the file."""
    size = storage.size(descriptor.location)
    length = size - descriptor.offset if descriptor.length < 0 else descriptor.length
    if descriptor.offset > size or length > size - descriptor.offset:
        raise FormatError(
            f"the descriptor of a BLOB names bytes {descriptor.offset} to {descriptor.offset + length} of a file of "
            f"{size} bytes",
            location=descriptor.location,
            rule=RULE,
        )
    return replace(descriptor, length=length)
