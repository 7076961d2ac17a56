"""What a kind of file is to the harness: sound samples, how they are changed, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuzz_mutations import Mutator, of_bytes

__all__ = ["Kind"]


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Args:
        name: Its name.
        samples: Sound files.
        read: Reads a file, made of the sample of that index, through skerry; what it gives tells the values.
        mutators: How samples are changed; one is chosen for each mutant.
        seal: Mends what would keep deeper layers from being reached: checksums.
        is_protected: Whether a checksum protects all values: a mutant that is read must give those of a sample.
        share: How many mutants `make test` reads.
    """

    name: str
    samples: Sequence[bytes]
    read: Callable[[bytes, int], Any]
    mutators: Sequence[Mutator] = (of_bytes,)
    seal: Callable[[bytes, int], bytes] | None = None
    is_protected: bool = False
    share: int = 100
    _expected: dict[int, Any] = field(default_factory=dict, repr=False)

    def is_expected(self, found: Any, index: int) -> bool:
        """Whether values are those of the sample, or of another one, which a splice may have put there whole."""
        return any(found == self.expected(other) for other in (index, *range(len(self.samples))))

    def expected(self, index: int) -> Any:
        """What the sample gives."""
        if index not in self._expected:
            self._expected[index] = self.read(self.samples[index], index)
        return self._expected[index]
