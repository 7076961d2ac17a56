"""Values to streams and values sections, as a plan says: calls `encode` of each encoding.

Positions of nested streams that hold packed bits are multiples of eight, as the reference implementation's reader needs
them.

Spec: docs/formats/amudai-encodings.md § 4, § 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy.typing as npt

from skerry.amudai.blocks.packing import pack_bits
from skerry.amudai.encodings import (
    alp,
    alp_rd,
    bit_packing,
    block_dictionary,
    delta,
    frame_of_reference,
    fsst,
    fused_frame_of_reference,
    lz4,
    plain,
    run_length,
    single_value,
    sparse,
    truncate,
    zig_zag,
    zstd,
)
from skerry.amudai.encodings.byte_values import ByteEncoder, Strings
from skerry.amudai.encodings.codes import Encoding, Profile
from skerry.amudai.encodings.plans import PLAIN, Encoder, Plan

__all__ = ["encode_binary", "encode_numeric"]

_Values = npt.NDArray[Any]

_NUMBERS: Final[dict[Encoding, Callable[[_Values, Plan, Encoder], bytes]]] = {
    plain.CODE: plain.encode,
    bit_packing.CODE: bit_packing.encode,
    frame_of_reference.CODE: frame_of_reference.encode,
    fused_frame_of_reference.CODE: fused_frame_of_reference.encode,
    delta.CODE: delta.encode,
    run_length.CODE: run_length.encode,
    single_value.CODE: single_value.encode,
    **dict.fromkeys(truncate.CODES, truncate.encode),
    alp.CODE: alp.encode,
    alp_rd.CODE: alp_rd.encode,
    block_dictionary.CODE: block_dictionary.encode,
    zstd.CODE: zstd.encode,
    lz4.CODE: lz4.encode,
    zig_zag.CODE: zig_zag.encode,
    sparse.CODE: sparse.encode,
}
_BYTES: Final[dict[Encoding, Callable[[Strings, Plan, ByteEncoder], bytes]]] = {
    plain.CODE: plain.encode_bytes,
    single_value.CODE: single_value.encode_bytes,
    block_dictionary.CODE: block_dictionary.encode_bytes,
    zstd.CODE: zstd.encode_bytes,
    lz4.CODE: lz4.encode_bytes,
}


@dataclass(frozen=True, slots=True)
class _Encoder:
    """What encodings call for the streams within theirs; see `Encoder` and `ByteEncoder`."""

    profile: Profile
    symbols: fsst.SymbolTable | None = None

    def stream(self, values: _Values, plan: Plan | None) -> bytes:
        if plan is None or not len(values):
            return plain.encode(values, PLAIN, self)
        return _NUMBERS[plan.encoding](values, plan, self)

    def part(self, values: _Values, plan: Plan | None) -> tuple[int, bytes]:
        if plan is not None:
            stream = self.stream(values, plan)
            if len(stream) < values.nbytes:  # of few values, those of bit packing fill up a chunk
                return 1, stream
        return 0, values.tobytes()

    def pack(self, values: _Values, width: int, reference: int = 0) -> bytes:
        return pack_bits(values, width, reference)

    def byte_section(self, strings: Strings, plan: Plan) -> bytes:
        if plan.encoding == fsst.CODE:
            return fsst.encode_bytes(strings, plan, self, self.symbols)
        return _BYTES[plan.encoding](strings, plan, self)


def encode_numeric(values: _Values, plan: Plan | None, profile: Profile = Profile.BALANCED) -> bytes:
    """Encode numbers as a stream.

    Args:
        values: T[n], of one of the ten types of streams, little-endian; none is null.
        plan: How; None for values as they are.
        profile: How hard the codecs try.

    Returns:
        The stream.

    Spec: docs/formats/amudai-encodings.md § 4.
    """
    return _Encoder(profile).stream(values, plan)


def encode_binary(
    strings: Strings, plan: Plan, profile: Profile = Profile.BALANCED, symbols: fsst.SymbolTable | None = None
) -> bytes:
    """Encode strings of bytes as a values section.

    Args:
        strings: The values.
        plan: How.
        profile: How hard the codecs try.
        symbols: For FSST; trained on these values if missing.

    Returns:
        The section.

    Spec: docs/formats/amudai-encodings.md § 5.
    """
    return _Encoder(profile, symbols).byte_section(strings, plan)
