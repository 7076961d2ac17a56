"""LZ4: one LZ4 block after its size.

    numbers   0  u16  code 17
              8  u32  bytes of the values
             12  the block

    bytes     0  u16  code 17
              2  u32  bytes of size and block
              6  u8   bytes of an offset: 8, or 0 for values of one size
              7  u8   whether the offsets are a stream
              8  u32  bytes of the values
             12  the block, zeros to a multiple of 8, the offsets

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
    CUT_SHORT,
    DONE,
    WANT_LZ4,
    WRONG_SIZE,
    Integer,
    Machine,
    Stream,
    ask_codec,
    check_header,
    refuse,
)
from skerry.compression import compress_lz4_block
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

CODE: Final = Encoding.LZ4
HEADER: Final = 8
READ_COST: Final = {Profile.FAST: 0.05, Profile.BALANCED: 0.03, Profile.HIGH: 0.01, Profile.SMALL: 0.0}
"""What it costs to read values: a share of their plain size, as if the block were larger by that."""
_LEVELS: Final = {Profile.PLAIN: 0, Profile.FAST: 0, Profile.BALANCED: 0, Profile.HIGH: 4, Profile.SMALL: 9}
MAX_EXPANSION = 255
"""Bytes of content for a byte of a block, more than any block holds."""


def suits(sample: Values, profile: Profile) -> Plan | None:
    """The plan worth a try; see `encodings`."""
    return Plan(CODE) if profile in (Profile.FAST, Profile.BALANCED) else None


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode numbers; see `encodings`."""
    data = as_bytes(values)
    block = compress_lz4_block(data.data, level=_LEVELS[encoder.profile])
    return make_stream(CODE, HEADER, b"", struct.pack("<I", len(data)), block)


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Have the block decompressed; see `encodings`."""
    status = check_header(machine, stream, True, HEADER)
    if status != DONE:
        return status
    start, end = stream.source + HEADER, stream.end
    if end - start < 4:
        return refuse(machine, CUT_SHORT, start, 4, end - start)
    wanted, found = stream.count * value_bytes(stream.kind), np.int64(load_u32(machine.data, start))
    if found != wanted:
        return refuse(machine, WRONG_SIZE, start, wanted, found)
    return ask_codec(machine, WANT_LZ4, start + 4, end, stream.target, wanted, 0)


def suits_bytes(sample: Strings, profile: Profile) -> Plan | None:
    """The plan worth a try; see `encodings`."""
    return Plan(CODE) if profile in (Profile.FAST, Profile.BALANCED) else None


def encode_bytes(strings: Strings, plan: Plan, encoder: ByteEncoder) -> bytes:
    """Encode strings of bytes; see `encodings`."""
    block = compress_lz4_block(strings.data.data, level=_LEVELS[encoder.profile])
    content = struct.pack("<I", len(strings.data)) + block
    flag, width, offsets = encode_offsets(strings, plan, encoder)
    return make_stream(CODE, HEADER, struct.pack("<IBB", len(content), width, flag), pad(content), offsets)


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
    """Have the block decompressed, once the offsets are decoded."""
    start = stream.source + HEADER
    end = start + np.int64(load_u32(machine.data, stream.source + 2))
    if end - start < 4:
        return refuse(machine, CUT_SHORT, start, 4, end - start)
    size = np.int64(load_u32(machine.data, start))
    most = (end - start) * MAX_EXPANSION
    return decompress_bytes(machine, output, stream, WANT_LZ4, start + 4, end, size, most)
