"""The checksum of messages, sections and blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["CHECKSUM_BYTES", "checksum"]

CHECKSUM_BYTES = 4


def checksum(data: Buffer) -> int:
    """Hash bytes and fold the hash to 32 bits.

    Args:
        data: Contiguous bytes.

    Returns:
        The two halves of the unseeded xxh3_64 of `data`, combined by exclusive or.

    Spec: docs/formats/amudai.md § 2.2; Amudai book, chapter 6, Checksums.
    """
    hashed = xxhash.xxh3_64_intdigest(data)
    return hashed >> 32 ^ hashed & 0xFFFFFFFF
