"""Plans: which encoding a stream gets, and which its parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skerry.amudai.encodings.codes import Encoding

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a stream is to be encoded.

    A plan is a wish: values that do not go with it (a `SINGLE_VALUE` that is not one, integers too large for
    `TRUNCATE_8`) get the nearest encoding that holds them.

    Args:
        encoding: Of the stream itself.
        parts: Of the streams within, in the order in which they are stored; a part that is missing, or None, is stored
            as it is.
        decimals: For `ALP`: exponent and factor; found by a sample of each block if None.
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
