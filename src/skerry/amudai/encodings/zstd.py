"""ZSTD: one Zstandard frame.

    numbers   0  u16  code 16
              8  the frame

    bytes     0  u16  code 16
              2  u32  bytes of the frame
              6  u8   bytes of an offset: 8, or 0 for values of one size
              7  u8   whether the offsets are a stream
              8  the frame, zeros to a multiple of 8, the offsets

Spec: docs/formats/amudai-encodings.md § 4.3, § 5.2.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from skerry.amudai.encodings.byte_values import (
    ByteEncoder,
    Output,
    Strings,
    decode_with_offsets,
    decompress_bytes,
    encode_offsets,
)
from skerry.amudai.encodings.codes import Encoding, Profile
from skerry.amudai.encodings.numbers import Values, as_bytes, pad, value_bytes
from skerry.amudai.encodings.plans import Encoder, Plan, make_stream
from skerry.amudai.encodings.stack import (
    DONE,
    WANT_ZSTD,
    Integer,
    Machine,
    Stream,
    ask_codec,
    check_header,
)
from skerry.compression import compress_zstd
from skerry.kernels import kernel, load_u32

__all__ = [
    "CODE",
    "READ_COST",
    "decode",
    "decode_bytes",
    "encode",
    "encode_bytes",
    "finish_bytes",
    "suits",
    "suits_bytes",
]

CODE: Final = Encoding.ZSTD
HEADER: Final = 8
READ_COST: Final = {Profile.FAST: 0.2, Profile.BALANCED: 0.07, Profile.HIGH: 0.01, Profile.SMALL: 0.0}
"""What it costs to read values: a share of their plain size, as if the block were larger by that."""
_LEVELS: Final = {Profile.PLAIN: 1, Profile.FAST: 1, Profile.BALANCED: 1, Profile.HIGH: 6, Profile.SMALL: 9}
MAX_EXPANSION = 1 << 15
"""Bytes of content for a byte of a frame: 128 KiB for a block of four bytes, more than any frame holds."""


def suits(sample: Values, profile: Profile) -> Plan | None:
    """The plan worth a try; see `encodings`."""
    return None if profile == Profile.FAST else Plan(CODE)


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode numbers; see `encodings`."""
    frame = compress_zstd(as_bytes(values).data, level=_LEVELS[encoder.profile], content_size=False)
    return make_stream(CODE, HEADER, b"", frame)


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Have the frame decompressed; see `encodings`."""
    status = check_header(machine, stream, True, HEADER)
    if status != DONE:
        return status
    size = stream.count * value_bytes(stream.kind)
    return ask_codec(machine, WANT_ZSTD, stream.source + HEADER, stream.end, stream.target, size, 0)


def suits_bytes(sample: Strings, profile: Profile) -> Plan | None:
    """The plan worth a try; see `encodings`."""
    return None if profile == Profile.FAST else Plan(CODE)


def encode_bytes(strings: Strings, plan: Plan, encoder: ByteEncoder) -> bytes:
    """Encode strings of bytes; see `encodings`."""
    frame = compress_zstd(strings.data.data, level=_LEVELS[encoder.profile], content_size=False)
    flag, width, offsets = encode_offsets(strings, plan, encoder)
    return make_stream(CODE, HEADER, struct.pack("<IBB", len(frame), width, flag), pad(frame), offsets)


@kernel
def decode_bytes(machine: Machine, stream: Stream) -> Integer:
    """Have the offsets decoded; see `encodings`."""
    status = check_header(machine, stream, True, HEADER)
    if status != DONE:
        return status
    source = stream.source
    size = np.int64(load_u32(machine.data, source + 2))
    return decode_with_offsets(machine, stream, source + HEADER, size, HEADER, source + 6, source + 7)


@kernel
def finish_bytes(machine: Machine, output: Output, stream: Stream) -> Integer:
    """Have the frame decompressed, once the offsets are decoded."""
    start = stream.source + HEADER
    end = start + np.int64(load_u32(machine.data, stream.source + 2))
    return decompress_bytes(machine, output, stream, WANT_ZSTD, start, end, -1, (end - start + 4) * MAX_EXPANSION)
