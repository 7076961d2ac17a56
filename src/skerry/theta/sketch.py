"""`ThetaSketch`, the distinct count of a column, and what can be done with several of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from skerry.errors import UnsupportedError
from skerry.theta import bounds, setops
from skerry.theta.collector import Collector
from skerry.theta.hashing import DEFAULT_SEED, seed_hash
from skerry.theta.layout import CompactSketch, Hashes, decode_sketch, encode_compressed_sketch, encode_sketch
from skerry.theta.workspace import Rule

__all__ = ["ThetaSketch", "difference", "intersection", "jaccard", "union"]

DEFAULT_LG_K = 12
_MIN_LG_K, _MAX_LG_K = 4, 26


class ThetaSketch:
    """A theta sketch of Apache DataSketches: the number of distinct values of a column in at most 2^lg_k hashes or so.

    A fresh sketch takes values by the Alpha family's rule, and then has the bytes that Java's Alpha sketch has after
    the same values in the same order (Java's has no lg_k below 9). A sketch that was read or results from a set
    operation is compact: it takes no more values.

    Args:
        lg_k: Binary logarithm of the nominal number of hashes, 4 … 26.
        seed: Seed of the hash. Sketches of different seeds have nothing in common.

    Raises:
        UnsupportedError: An lg_k out of range, or a seed that DataSketches refuses.
    """

    __slots__ = ("_collector", "_compact", "seed")

    def __init__(self, lg_k: int = DEFAULT_LG_K, seed: int = DEFAULT_SEED) -> None:
        seed_hash(seed)
        self.seed = seed
        self._collector: Collector | None = Collector(1 << _checked_lg_k(lg_k), Rule.ALPHA, seed)
        self._compact: CompactSketch | None = None

    @classmethod
    def from_compact(cls, compact: CompactSketch, seed: int = DEFAULT_SEED) -> ThetaSketch:
        """A sketch of hashes that were collected elsewhere."""
        sketch = cls.__new__(cls)
        sketch.seed, sketch._collector, sketch._compact = seed, None, compact  # noqa: SLF001  of the same class
        return sketch

    @classmethod
    def deserialize(cls, data: bytes | bytearray | memoryview, seed: int = DEFAULT_SEED) -> ThetaSketch:
        """Read any compact form that DataSketches writes.

        Args:
            data: Exactly one sketch.
            seed: The seed it was made with.

        Raises:
            FormatError: The bytes break a rule of the format, or the seed is another.
            UnsupportedError: No compact theta sketch, or of an unknown version.

        Spec: DataSketches Java, `PreambleUtil`.
        """
        return cls.from_compact(decode_sketch(data, seed), seed)

    def update(self, values: Any) -> ThetaSketch:
        """Take in a column; nulls and values of no bytes do not count.

        Args:
            values: An Arrow array or chunked array of any primitive type, a NumPy array, anything with the Arrow C
                interface, or a sequence. Hashed as Iceberg's single-value serialisation: see `skerry.theta.arrow`.

        Returns:
            The sketch itself.

        Raises:
            SchemaError: The type is nested or has no Iceberg type.
            UnsupportedError: The sketch is compact.
        """
        if self._collector is None:
            raise UnsupportedError("a compact sketch takes no values: update a fresh one and unite the two")
        self._collector.update(values)
        self._compact = None
        return self

    @property
    def compact(self) -> CompactSketch:
        """Threshold and hashes."""
        if self._compact is None:
            assert self._collector is not None
            self._compact = self._collector.compact()
        return self._compact

    @property
    def theta(self) -> int:
        """The threshold θ as a fraction of 2⁶³-1."""
        return self.compact.theta

    @property
    def hashes(self) -> Hashes:
        """uint64[n], ascending: all hashes below θ that were seen."""
        return self.compact.hashes

    @property
    def is_empty(self) -> bool:
        """Whether no value was ever seen."""
        return self.compact.is_empty

    @property
    def is_estimating(self) -> bool:
        """Whether hashes were left out, so that the count is an estimate."""
        return self.compact.is_estimating

    def estimate(self) -> float:
        """The number of distinct values: hashes divided by θ, as DataSketches says of the compact sketch."""
        return bounds.estimate(len(self.hashes), self.theta)

    def bounds(self, std_devs: int = 2) -> tuple[float, float]:
        """Lower and upper bound of the number of distinct values.

        Args:
            std_devs: 1, 2 or 3 standard deviations, which contain the true value for 68, 95.4 or 99.7 percent of
                sketches.

        Raises:
            UnsupportedError: Another number of standard deviations.
        """
        return bounds.bounds(len(self.hashes), self.theta, std_devs, is_empty=self.is_empty)

    def serialize(self, *, compressed: bool = False) -> bytes:
        """The ordered compact form, byte for byte as Java writes it.

        Args:
            compressed: Whether to write serial version 4, a fifth to a third smaller, which older readers do not know.
        """
        return (encode_compressed_sketch if compressed else encode_sketch)(self.compact, self.seed)

    def __repr__(self) -> str:
        return f"ThetaSketch(estimate={self.estimate():.1f}, hashes={len(self.hashes)}, seed={self.seed})"


def union(sketches: Iterable[ThetaSketch], lg_k: int = DEFAULT_LG_K) -> ThetaSketch:
    """What the sketches saw together; depends neither on their order nor on how values were spread over them.

    Args:
        sketches: Sketches of one seed, of any size.
        lg_k: Binary logarithm of the hashes kept at most.

    Returns:
        A compact sketch with the threshold and hashes that DataSketches' unions have.

    Raises:
        UnsupportedError: Different seeds, or an lg_k out of range.
    """
    operands = list(sketches)
    seed = _common_seed(operands)
    result = setops.smallest(setops.union(sketch.compact for sketch in operands), 1 << _checked_lg_k(lg_k))
    return ThetaSketch.from_compact(result, seed)


def intersection(sketches: Iterable[ThetaSketch]) -> ThetaSketch:
    """What every one of the sketches saw.

    Args:
        sketches: At least one, of one seed.

    Raises:
        UnsupportedError: Different seeds, or no sketch at all (no sketch holds everything).
    """
    operands = list(sketches)
    if not operands:
        raise UnsupportedError("the intersection of no sketches is everything, which no sketch can hold")
    seed = _common_seed(operands)
    return ThetaSketch.from_compact(setops.intersection([sketch.compact for sketch in operands]), seed)


def difference(a: ThetaSketch, b: ThetaSketch) -> ThetaSketch:
    """What `a` saw and `b` did not.

    Raises:
        UnsupportedError: Different seeds.
    """
    seed = _common_seed([a, b])
    return ThetaSketch.from_compact(setops.difference(a.compact, b.compact), seed)


def jaccard(a: ThetaSketch, b: ThetaSketch, std_devs: float = 2.0) -> tuple[float, float, float]:
    """How similar two sets are: lower bound, estimate and upper bound of |A∩B| / |A∪B|.

    Args:
        a: One sketch.
        b: Another of the same seed.
        std_devs: Half the width of the interval; at 2 the figures are those of DataSketches.

    Raises:
        UnsupportedError: Different seeds.
    """
    _common_seed([a, b])
    return setops.jaccard(a.compact, b.compact, std_devs)


def _common_seed(sketches: list[ThetaSketch]) -> int:
    """The seed of all sketches that saw anything: an empty one goes with every seed."""
    seeds = sorted({sketch.seed for sketch in sketches if not sketch.is_empty})
    if len(seeds) > 1:
        raise UnsupportedError(f"sketches of different seeds cannot be combined: {', '.join(map(str, seeds))}")
    return seeds[0] if seeds else sketches[0].seed if sketches else DEFAULT_SEED


def _checked_lg_k(lg_k: int) -> int:
    if not _MIN_LG_K <= lg_k <= _MAX_LG_K:
        raise UnsupportedError(f"lg_k must be in {_MIN_LG_K} … {_MAX_LG_K}, not {lg_k}")
    return lg_k
