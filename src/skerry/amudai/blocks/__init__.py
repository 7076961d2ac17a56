"""Encoded buffers: values to blocks and back, and the maps that say where the blocks are.

Everything here is a function of bytes: readers and writers bring and take them. Numbers have NumPy's types, bitmaps are
Arrow's (least significant bit first, 1 = valid). How values are encoded within a block is the business of `encodings`.
"""

from __future__ import annotations

from skerry.amudai.blocks.block_frame import encode_binary_block, encode_numeric_block
from skerry.amudai.blocks.block_map import BlockMap, Blocks, decode_block_map, encode_block_map
from skerry.amudai.blocks.buffers import BuiltBuffer, encode_binary_buffer, encode_numeric_buffer
from skerry.amudai.blocks.choosing import choose_binary, choose_numeric
from skerry.amudai.blocks.decoding import (
    ByteValues,
    Numbers,
    decode_binary,
    decode_byte_values,
    decode_numbers,
    decode_numeric,
)
from skerry.amudai.blocks.dictionary_values import gather_byte_values, gather_fixed
from skerry.amudai.blocks.encoder import encode_binary, encode_numeric
from skerry.amudai.blocks.taking import take_numbers

__all__ = [
    "BlockMap",
    "Blocks",
    "BuiltBuffer",
    "ByteValues",
    "Numbers",
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
    "take_numbers",
]
