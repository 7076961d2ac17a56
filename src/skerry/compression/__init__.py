"""Compressed blocks of memory: Zstandard frames, LZ4 frames and raw LZ4 blocks, deflate and gzip, with bounded output.

Decompression never trusts its input. The caller says how many bytes it accepts; sizes claimed inside the data are
checked against that, and against the most that the compressed bytes can expand to, before memory is allocated. Data
of any other kind than the one asked for, damaged data, several frames in a row and trailing bytes all raise
`skerry.errors.FormatError`, and nothing else.

Functions take any contiguous bytes-like object and return `bytes`; `decompress_zstd_into` fills memory that the
caller provides. Functions may be called from many threads; the codecs release the interpreter lock.
"""

from __future__ import annotations

from skerry.compression.deflate import decompress_deflate, decompress_gzip
from skerry.compression.lz4 import (
    compress_lz4_block,
    compress_lz4_frame,
    decompress_lz4_block,
    decompress_lz4_frame,
)
from skerry.compression.zstd import (
    compress_zstd,
    decompress_zstd,
    decompress_zstd_frames,
    decompress_zstd_into,
    decompress_zstd_of_size,
)

__all__ = [
    "compress_lz4_block",
    "compress_lz4_frame",
    "compress_zstd",
    "decompress_deflate",
    "decompress_gzip",
    "decompress_lz4_block",
    "decompress_lz4_frame",
    "decompress_zstd",
    "decompress_zstd_frames",
    "decompress_zstd_into",
    "decompress_zstd_of_size",
]
