"""`ThetaSketch`, the distinct count of a column, and what can be done with several of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from skerry.arguments import check_instance
from skerry.errors import SchemaError, UnsupportedError
from skerry.theta import bounds, setops
from skerry.theta.collector import Collector
from skerry.theta.hashing import DEFAULT_SEED, seed_hash
from skerry.theta.layout import CompactSketch, Hashes, decode_sketch, encode_compressed_sketch, encode_sketch
from skerry.theta.workspace import Rule

__all__ = ["ThetaSketch", "difference", "intersection", "jaccard", "union"]

DEFAULT_LG_K = 12
_MIN_LG_K, _MAX_LG_K = 4, 26


class ThetaSketch:
    """A theta sketch of Apache DataSketches: estimates how many distinct values a column has from about 2^lg_k hashes.

    A new sketch takes values by the rule of the Alpha family, and has the bytes of Java's Alpha sketch after the same
    values in the same order (Java's has no lg_k below 9). A sketch that was read, or that results from a set operation,
    is compact: it takes no more values.

    Example:
        monday = theta.ThetaSketch().update(table["tailnum"])
        monday.estimate()  # 4044.0: exact up to 2^lg_k values
        monday.bounds(2)  # lower and upper bound at two standard deviations

    Args:
        lg_k: Binary logarithm of the nominal number of hashes, 4 … 26.
        seed: Seed of the hash, by default that of DataSketches. Sketches with different seeds cannot be combined.

    Raises:
        UnsupportedError: `lg_k` is out of range, or DataSketches refuses the seed.
    """

    __slots__ = ("_collector", "_compact", "seed")

    def __init__(self, lg_k: int = DEFAULT_LG_K, seed: int = DEFAULT_SEED) -> None:
        seed_hash(seed)
        self.seed = seed
        self._collector: Collector | None = Collector(1 << _checked_lg_k(lg_k), Rule.ALPHA, seed)
        self._compact: CompactSketch | None = None

    @classmethod
    def from_compact(cls, compact: CompactSketch, seed: int = DEFAULT_SEED) -> ThetaSketch:
        """Make a sketch from hashes that were collected elsewhere; it takes no more values."""
        sketch = cls.__new__(cls)
        sketch.seed, sketch._collector, sketch._compact = seed, None, compact  # noqa: SLF001  of the same class
        return sketch

    @classmethod
    def deserialize(cls, data: bytes | bytearray | memoryview, seed: int = DEFAULT_SEED) -> ThetaSketch:
        """Read any compact form that DataSketches writes.

        Example:
            theta.ThetaSketch.deserialize(puffin.read(path).read_blob(blob))

        Args:
            data: The bytes of exactly one sketch.
            seed: The seed it was made with.

        Raises:
            FormatError: The bytes break a rule of the format, or the sketch has another seed.
            UnsupportedError: They are not a compact theta sketch, or one of an unknown version.

        Spec: DataSketches Java, `PreambleUtil`.
        """
        return cls.from_compact(decode_sketch(data, seed), seed)

    def update(self, values: Any) -> ThetaSketch:
        """Add the values of a column; nulls and empty values do not count.

        Example:
            sketch.update(table["tailnum"]).update(["N14228", None])

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
        """The threshold and the hashes."""
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
        """Estimate the number of distinct values: hashes divided by θ, as DataSketches does for compact ones."""
        return bounds.estimate(len(self.hashes), self.theta)

    def bounds(self, std_devs: int = 2) -> tuple[float, float]:
        """Lower and upper bound of the number of distinct values; equal while the count is exact.

        Args:
            std_devs: 1, 2 or 3 standard deviations: the bounds contain the true value for 68, 95.4 or 99.7 percent of
                sketches.

        Raises:
            UnsupportedError: `std_devs` is something else.
        """
        return bounds.bounds(len(self.hashes), self.theta, std_devs, is_empty=self.is_empty)

    def serialize(self, *, compressed: bool = False) -> bytes:
        """Write the ordered compact form, byte for byte as Java does.

        Args:
            compressed: Whether to write serial version 4: a fifth to a third smaller, but older readers do not know it.
        """
        return (encode_compressed_sketch if compressed else encode_sketch)(self.compact, self.seed)

    def __repr__(self) -> str:
        return f"ThetaSketch(estimate={self.estimate():.1f}, hashes={len(self.hashes)}, seed={self.seed})"


def union(sketches: Iterable[ThetaSketch], lg_k: int = DEFAULT_LG_K) -> ThetaSketch:
    """The sketch of all values that at least one sketch has; the order of the sketches does not matter.

    Example:
        theta.union([monday, tuesday]).estimate()

    Args:
        sketches: Sketches of one seed, of any size.
        lg_k: Binary logarithm of the largest number of hashes to keep, 4 … 26.

    Returns:
        A compact sketch with the threshold and hashes of DataSketches' unions.

    Raises:
        SchemaError: They are no sketches.
        UnsupportedError: The seeds differ, or `lg_k` is out of range.
    """
    operands = _checked(sketches)
    seed = _common_seed(operands)
    result = setops.smallest(setops.union(sketch.compact for sketch in operands), 1 << _checked_lg_k(lg_k))
    return ThetaSketch.from_compact(result, seed)


def intersection(sketches: Iterable[ThetaSketch]) -> ThetaSketch:
    """The sketch of the values that all sketches have.

    Example:
        theta.intersection([monday, tuesday]).estimate()

    Args:
        sketches: At least one sketch, all of one seed.

    Returns:
        A compact sketch.

    Raises:
        SchemaError: They are no sketches.
        UnsupportedError: The seeds differ, or there are no sketches (no sketch holds everything).
    """
    operands = _checked(sketches)
    if not operands:
        raise UnsupportedError("the intersection of no sketches is everything, which no sketch can hold")
    seed = _common_seed(operands)
    return ThetaSketch.from_compact(setops.intersection([sketch.compact for sketch in operands]), seed)


def difference(a: ThetaSketch, b: ThetaSketch) -> ThetaSketch:
    """The sketch of the values that `a` has and `b` does not have.

    Example:
        theta.difference(monday, tuesday).estimate()

    Returns:
        A compact sketch.

    Raises:
        SchemaError: They are no sketches.
        UnsupportedError: The seeds differ.
    """
    seed = _common_seed(_checked([a, b]))
    return ThetaSketch.from_compact(setops.difference(a.compact, b.compact), seed)


def jaccard(a: ThetaSketch, b: ThetaSketch, std_devs: float = 2.0) -> tuple[float, float, float]:
    """The similarity of two sets: lower bound, estimate and upper bound of `|A∩B| / |A∪B|`, between 0 and 1.

    Example:
        lower, estimate, upper = theta.jaccard(monday, tuesday)

    Args:
        a: A sketch.
        b: Another sketch of the same seed.
        std_devs: Half the width of the interval in standard deviations; with 2 the results are those of DataSketches.

    Raises:
        SchemaError: They are no sketches.
        UnsupportedError: The seeds differ.
    """
    _common_seed(_checked([a, b]))
    return setops.jaccard(a.compact, b.compact, std_devs)


def _checked(sketches: Iterable[ThetaSketch]) -> list[ThetaSketch]:
    """The sketches as a list.

    Raises:
        SchemaError: It is a single sketch, or something else.
    """
    hint = "; write [sketch]" if isinstance(sketches, ThetaSketch) else ""
    if not isinstance(sketches, Iterable):
        raise SchemaError(f"sketches must be a list of sketches, found {type(sketches).__name__}{hint}")
    operands = list(sketches)
    for operand in operands:
        check_instance("a sketch", operand, ThetaSketch, "a ThetaSketch")
    return operands


def _common_seed(sketches: list[ThetaSketch]) -> int:
    """The seed of all sketches that have values: an empty one can be combined with any seed."""
    seeds = sorted({sketch.seed for sketch in sketches if not sketch.is_empty})
    if len(seeds) > 1:
        raise UnsupportedError(f"sketches of different seeds cannot be combined: {', '.join(map(str, seeds))}")
    return seeds[0] if seeds else sketches[0].seed if sketches else DEFAULT_SEED


def _checked_lg_k(lg_k: int) -> int:
    if not _MIN_LG_K <= lg_k <= _MAX_LG_K:
        raise UnsupportedError(f"lg_k must be in {_MIN_LG_K} … {_MAX_LG_K}, not {lg_k}")
    return lg_k
