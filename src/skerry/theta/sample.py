"""`Sample`: a bottom-k sketch of a file's column, from which the statistics of a table are made and updated."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Final

import numpy as np

from skerry.errors import FormatError, UnsupportedError
from skerry.theta import setops
from skerry.theta.collector import Collector
from skerry.theta.hashing import DEFAULT_SEED, seed_hash
from skerry.theta.layout import EMPTY_SKETCH, CompactSketch, Hashes, decode_sketch, encode_compressed_sketch
from skerry.theta.sketch import DEFAULT_LG_K, ThetaSketch
from skerry.theta.workspace import Rule

__all__ = ["Sample"]

DEFAULT_K = 8192
_FEW: Final = 256
_MANY: Final = 1 << 62


class Sample:
    """A bottom-k sketch: the k smallest distinct hashes of a column, and the next greater one as threshold.

    It depends on the set of values alone: neither on their order nor on how they were divided among merged samples.

    Example:
        sample = theta.Sample().update(table["tailnum"]).merge(other)
        sample.to_sketch().estimate()

    Args:
        k: The largest number of hashes to keep, 1 … 2²⁶.
        seed: Seed of the hash, by default that of DataSketches.

    Raises:
        UnsupportedError: `k` is out of range, or DataSketches refuses the seed.
    """

    __slots__ = ("_collector", "_kept", "_merged", "_room", "k", "seed")

    def __init__(self, k: int = DEFAULT_K, seed: int = DEFAULT_SEED) -> None:
        if not 1 <= k <= 1 << 26:
            raise UnsupportedError(f"a sample keeps 1 … 2²⁶ hashes, not {k}")
        seed_hash(seed)
        self.k = k
        self.seed = seed
        self._kept: CompactSketch | None = EMPTY_SKETCH  # everything seen, if it is known
        self._merged = EMPTY_SKETCH  # what came from other samples
        self._collector: Collector | None = None  # what came from values; made when the first ones come
        self._room = 0  # how many more values it takes

    def update(self, values: Any) -> Sample:
        """Add the values of a column; nulls and empty values do not count.

        Args:
            values: An Arrow array or chunked array of any primitive type, a NumPy array, anything with the Arrow C
                interface, or a sequence. Hashed as Iceberg's single-value serialisation: see `skerry.theta.arrow`.

        Returns:
            The sample itself.

        Raises:
            SchemaError: The type is nested or has no Iceberg type.
        """
        self._collecting(len(values) if isinstance(values, Sized) else _MANY).update(values)
        return self

    def update_fixed(self, values: np.ndarray[Any, Any]) -> Sample:
        """Add values as their bytes in memory; NaN is made canonical.

        Args:
            values: Numbers of 4 or 8 bytes, or uint8[n, width] with one value per row.

        Raises:
            SchemaError: Numbers of another width.
        """
        self._collecting(len(values)).update_fixed(values)
        return self

    def update_decimal(self, unscaled: np.ndarray[Any, Any]) -> Sample:
        """Add the unscaled values of decimals.

        Args:
            unscaled: int32[n], int64[n], or uint8[n, width] with one big-endian number of at most 16 bytes per row.

        Raises:
            SchemaError: The array has another shape or type.
        """
        self._collecting(len(unscaled)).update_decimal(unscaled)
        return self

    def update_binary(
        self, data: np.ndarray[Any, Any], starts: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]
    ) -> Sample:
        """Add values at any positions of a buffer.

        Args:
            data: uint8[m], the buffer.
            starts: int64[n], where each value begins.
            lengths: int32[n], its length in bytes.

        Raises:
            FormatError: A value is outside of the buffer.
        """
        self._collecting(len(starts)).update_binary(data, starts, lengths)
        return self

    def merge(self, other: Sample) -> Sample:
        """Add the values of another sample.

        Returns:
            The sample itself.

        Raises:
            UnsupportedError: The other sample has another k or seed.
        """
        if (other.k, other.seed) != (self.k, self.seed):
            raise UnsupportedError(
                f"samples of {self.k} hashes with seed {self.seed} and of {other.k} with seed {other.seed} do not merge"
            )
        self._merged = _smallest([self._merged, other.compact], self.k)
        self._kept = None
        return self

    def release(self) -> Sample:
        """Free the memory (0.6 MB) that adding values needs; adding more allocates it again.

        Returns:
            The sample itself.
        """
        kept = self.compact
        if kept.hashes.base is not None:  # of up to twice as many hashes
            kept = self._kept = CompactSketch(kept.theta, kept.hashes.copy(), kept.is_empty)
        self._merged = kept
        self._collector = None
        return self

    @property
    def compact(self) -> CompactSketch:
        """The threshold and the hashes."""
        if self._kept is None:
            collected = self._collector.compact() if self._collector is not None else EMPTY_SKETCH
            self._kept = _smallest([collected, self._merged], self.k)
        return self._kept

    @property
    def theta(self) -> int:
        """The threshold as a fraction of 2⁶³-1: every hash below it that was seen is in the sample."""
        return self.compact.theta

    @property
    def hashes(self) -> Hashes:
        """uint64[n], ascending, at most k."""
        return self.compact.hashes

    @property
    def is_empty(self) -> bool:
        """Whether no value was ever seen."""
        return self.compact.is_empty

    def estimate(self) -> float:
        """Estimate the number of distinct values."""
        return ThetaSketch.from_compact(self.compact, self.seed).estimate()

    def bounds(self, std_devs: int = 2) -> tuple[float, float]:
        """Lower and upper bound of the number of distinct values at 1, 2 or 3 standard deviations."""
        return ThetaSketch.from_compact(self.compact, self.seed).bounds(std_devs)

    def to_sketch(self, lg_k: int = DEFAULT_LG_K) -> ThetaSketch:
        """Make the theta sketch of the 2^lg_k smallest hashes, which is what a table publishes."""
        return ThetaSketch.from_compact(setops.smallest(self.compact, 1 << lg_k), self.seed)

    def serialize(self) -> bytes:
        """Write the sample as a compressed theta sketch (serial version 4), which DataSketches reads too."""
        return encode_compressed_sketch(self.compact, self.seed)

    @classmethod
    def deserialize(cls, data: bytes | bytearray | memoryview, k: int = DEFAULT_K, seed: int = DEFAULT_SEED) -> Sample:
        """Read a sample, to which values can be added, and which can be merged, as before.

        Raises:
            FormatError: The bytes are not a compact theta sketch of that seed, or hold more than k hashes.
            UnsupportedError: They are not a compact theta sketch, or one of an unknown version.

        Spec: DataSketches Java, `PreambleUtil`.
        """
        compact = decode_sketch(data, seed)
        if len(compact.hashes) > k:
            raise FormatError(f"a sample has at most {k} hashes, this has {len(compact.hashes)}")
        sample = cls(k, seed)
        sample._kept = sample._merged = compact
        return sample

    def _collecting(self, count: int) -> Collector:
        """What takes in so many more values: a small one for the first few, as memory costs more time than they do."""
        if self._collector is None or count > self._room:
            is_small = self._collector is None and count <= _FEW < self.k
            self.release()
            self._collector = Collector(_FEW if is_small else self.k, Rule.SMALLEST, self.seed)
            self._room = _FEW if is_small else _MANY
        if self._room < _MANY:
            self._room -= count
        self._kept = None
        return self._collector

    def __reduce__(self) -> tuple[Any, ...]:
        return Sample.deserialize, (self.serialize(), self.k, self.seed)

    def __repr__(self) -> str:
        return f"Sample(estimate={self.estimate():.1f}, hashes={len(self.hashes)}, k={self.k}, seed={self.seed})"


def _smallest(parts: list[CompactSketch], k: int) -> CompactSketch:
    return setops.smallest(setops.union(parts), k)
