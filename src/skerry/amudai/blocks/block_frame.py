"""Blocks: presence and values in a frame.

    0  u32  bytes of the presence section
    4  u32  bytes of the values section
    8  the presence section, zeros to a multiple of 8, the values section, zeros, u32 checksum; a multiple of 8 in all

Spec: docs/formats/amudai-encodings.md § 3.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.blocks.encoder import encode_binary, encode_numeric
from skerry.amudai.blocks.packing import carry_forward
from skerry.amudai.blocks.presence import encode_presence
from skerry.amudai.encodings.byte_values import Strings
from skerry.amudai.encodings.codes import Profile
from skerry.amudai.encodings.fsst import SymbolTable
from skerry.amudai.encodings.plans import Plan
from skerry.amudai.shard.checksum import CHECKSUM_BYTES, checksum

__all__ = ["BLOCK_ALIGNMENT", "encode_binary_block", "encode_numeric_block", "frame_block"]

BLOCK_ALIGNMENT: Final = 8
_HEAD: Final = struct.Struct("<II")


def frame_block(presence: bytes, values: bytes, *, has_checksum: bool = True) -> bytes:
    """Put a block together.

    Args:
        presence: The presence section.
        values: The values section.
        has_checksum: Whether a checksum ends the block.

    Returns:
        The block, a multiple of 8 bytes.
    """
    parts = [_HEAD.pack(len(presence), len(values)), presence, bytes(-len(presence) % BLOCK_ALIGNMENT), values]
    size = sum(map(len, parts))
    tail = CHECKSUM_BYTES if has_checksum else 0
    parts.append(bytes(-(size + tail) % BLOCK_ALIGNMENT))
    block = b"".join(parts)
    return block + checksum(block).to_bytes(CHECKSUM_BYTES, "little") if has_checksum else block


def encode_numeric_block(
    values: npt.NDArray[Any],
    valid: npt.NDArray[np.bool_] | None,
    plan: Plan,
    *,
    profile: Profile = Profile.BALANCED,
    has_checksum: bool = True,
) -> bytes:
    """Encode a block of numbers.

    Args:
        values: T[n], at least one; at nulls anything.
        valid: bool[n], None if no value is null.
        plan: How the values are encoded.
        profile: How hard codecs try, and whether presence is packed.
        has_checksum: Whether a checksum ends the block.

    Returns:
        The block.
    """
    presence = encode_presence(valid, profile)
    if presence and valid is not None:
        values = carry_forward(values, valid)
    return frame_block(presence, encode_numeric(values, plan, profile), has_checksum=has_checksum)


def encode_binary_block(
    strings: Strings,
    plan: Plan,
    *,
    profile: Profile = Profile.BALANCED,
    symbols: SymbolTable | None = None,
    has_checksum: bool = True,
) -> bytes:
    """Encode a block of strings of bytes.

    Args:
        strings: The values, at least one.
        plan: How they are encoded.
        profile: How hard codecs try, and whether presence is packed.
        symbols: For FSST; trained on these values if missing.
        has_checksum: Whether a checksum ends the block.

    Returns:
        The block.
    """
    presence = encode_presence(strings.valid, profile)
    return frame_block(presence, encode_binary(strings, plan, profile, symbols), has_checksum=has_checksum)
