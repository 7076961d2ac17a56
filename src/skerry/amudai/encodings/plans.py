"""Plans: which encoding a stream gets, and which its parts; and the encoder that follows them, as encodings see it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy.typing as npt

from skerry.amudai.encodings.codes import Encoding, Profile

__all__ = ["BIT_PACKED", "FRAMED", "PLAIN", "Encoder", "Plan", "make_stream"]

_Values = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a stream of values is encoded: a tree of encodings.

    Values that an encoding cannot represent (several for `SINGLE_VALUE`, integers too large for `TRUNCATE_8`) get the
    nearest one that can.

    Example:
        amudai.Plan(amudai.Encoding.ZSTD)

    Args:
        encoding: Of the stream itself.
        parts: Of the streams within, in the order in which they are stored; a part that is missing, or None, is stored
            as it is.
        decimals: For `ALP`: exponent and factor; found from a sample of each block if None.
    """

    encoding: Encoding
    parts: tuple[Plan | None, ...] = ()
    decimals: tuple[int, int] | None = None

    def part(self, index: int) -> Plan | None:
        """The plan of a part, None for one stored as it is."""
        return self.parts[index] if index < len(self.parts) else None

    def encodings(self) -> Iterator[Encoding]:
        """All encodings of the plan, the outermost first."""
        yield self.encoding
        for part in self.parts:
            if part is not None:
                yield from part.encodings()

    def __str__(self) -> str:
        inner = ", ".join("-" if part is None else str(part) for part in self.parts)
        return self.encoding.name + (f"({inner})" if inner else "")


PLAIN: Final = Plan(Encoding.PLAIN)
BIT_PACKED: Final = Plan(Encoding.BIT_PACKING)
FRAMED: Final = Plan(Encoding.FUSED_FRAME_OF_REFERENCE)


class Encoder(Protocol):
    """What an encoding needs to write a stream: encodings know neither each other nor who calls them."""

    @property
    def profile(self) -> Profile:
        """How hard codecs try."""

    def stream(self, values: _Values, plan: Plan | None) -> bytes:
        """Encode numbers as a stream; plain if there is no plan."""

    def part(self, values: _Values, plan: Plan | None) -> tuple[int, bytes]:
        """Encode numbers as a part of a stream: 1 and a stream, or 0 and the values as they are if that is shorter."""

    def pack(self, values: _Values, width: int, reference: int = 0) -> bytes:
        """Pack integers in `width` bits each, less a reference, in FastLanes order."""


def make_stream(encoding: Encoding, header_bytes: int, header: bytes, *data: bytes) -> bytes:
    """Put code and header before the data; both together have `header_bytes` bytes."""
    return b"".join((struct.pack("<H", encoding) + header.ljust(header_bytes - 2, b"\0"), *data))
