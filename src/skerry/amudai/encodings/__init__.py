"""Encoded buffers: values to blocks and back, and the maps that tell where the blocks lie.

Everything here is a function of bytes: readers and writers bring and take them. Numbers have NumPy's types, bitmaps are
Arrow's (least significant bit first, 1 = valid).
"""

from __future__ import annotations

from skerry.amudai.encodings.binary_encoding import Strings, encode_binary
from skerry.amudai.encodings.block_map import BlockMap, Blocks, decode_block_map, encode_block_map
from skerry.amudai.encodings.blocks import encode_binary_block, encode_numeric_block
from skerry.amudai.encodings.buffers import BuiltBuffer, encode_binary_buffer, encode_numeric_buffer
from skerry.amudai.encodings.choosing import choose_binary, choose_numeric
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
from skerry.amudai.encodings.numeric_encoding import encode_numeric
from skerry.amudai.encodings.plans import Plan

__all__ = [
    "BlockMap",
    "Blocks",
    "BuiltBuffer",
    "ByteValues",
    "Encoding",
    "Numbers",
    "Plan",
    "PresenceKind",
    "Profile",
    "Strings",
    "choose_binary",
    "choose_numeric",
    "decode_binary",
    "decode_block_map",
    "decode_byte_values",
    "decode_numbers",
    "decode_numeric",
    "encode_binary",
    "encode_binary_block",
    "encode_binary_buffer",
    "encode_block_map",
    "encode_numeric",
    "encode_numeric_block",
    "encode_numeric_buffer",
    "gather_byte_values",
    "gather_fixed",
]
