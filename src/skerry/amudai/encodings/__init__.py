"""Encoded buffers: values to blocks and back, and the maps that tell where the blocks lie.

Everything here is a function of bytes: readers and writers bring and take them. Numbers have NumPy's types, bitmaps are
Arrow's (least significant bit first, 1 = valid).
"""

from __future__ import annotations

from skerry.amudai.encodings.block_map import BlockMap, Blocks, decode_block_map, encode_block_map
from skerry.amudai.encodings.codes import Encoding, PresenceKind, Profile
from skerry.amudai.encodings.decoding import (
    ByteValues,
    Numbers,
    decode_binary,
    decode_byte_values,
    decode_numbers,
    decode_numeric,
)
from skerry.amudai.encodings.gathering import gather_byte_values, gather_fixed

__all__ = [
    "BlockMap",
    "Blocks",
    "ByteValues",
    "Encoding",
    "Numbers",
    "PresenceKind",
    "Profile",
    "decode_binary",
    "decode_block_map",
    "decode_byte_values",
    "decode_numbers",
    "decode_numeric",
    "encode_block_map",
    "gather_byte_values",
    "gather_fixed",
]
