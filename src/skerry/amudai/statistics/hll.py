"""HyperLogLog: estimates of how many distinct values a field has.

A counter keeps the rarest hash of its share, as the position of its first set bit, so the sketch of a union is the
counters' maximum. With 128 counters, which is what shards have, an estimate is off by 9 % as a rule.

Spec: docs/formats/amudai.md § 5.4; HyperLogLog in Practice (the estimate, with the bias measured there for 128
counters); Ertl 2017 (for other numbers of counters, which needs no measurements).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.messages import HllSketchV1
from skerry.errors import FormatError
from skerry.kernels import kernel

__all__ = ["BITS_PER_INDEX", "HASH_ALGORITHM", "HASH_SEED", "HllSketch"]

HASH_ALGORITHM: Final = "xxh3_64"
HASH_SEED: Final = 0x416D7564484C4C31
BITS_PER_INDEX: Final = 7
_RULE: Final = "docs/formats/amudai.md § 5.4"
_FEWEST_BITS, _MOST_BITS = 4, 18
_LINEAR_UP_TO: Final = 80.0  # the estimate from empty counters is the better one up to here, for 128 counters


@dataclass(frozen=True, slots=True, eq=False)
class HllSketch:
    """Counters of the values seen so far.

    Args:
        bits_per_index: The sketch has 2 to this power counters, 4 … 18.
        hash_seed: Seed of the xxh3_64 of the values' bytes.
        counters: uint8[2^bits_per_index]; `update` changes them.
    """

    bits_per_index: int = BITS_PER_INDEX
    hash_seed: int = HASH_SEED
    counters: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(1 << BITS_PER_INDEX, np.uint8))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HllSketch) and self.to_message() == other.to_message()

    __hash__ = None  # type: ignore[assignment]

    def update(self, hashes: npt.NDArray[np.uint64]) -> None:
        """Take in values.

        Args:
            hashes: uint64[n], their xxh3_64 with the sketch's seed; values may repeat.
        """
        raise_counters(hashes, self.bits_per_index, self.counters)

    def merge(self, other: HllSketch) -> HllSketch | None:
        """The sketch of what either has seen; None if the two were made differently."""
        if (self.bits_per_index, self.hash_seed) != (other.bits_per_index, other.hash_seed):
            return None
        return HllSketch(self.bits_per_index, self.hash_seed, np.maximum(self.counters, other.counters))

    def estimate(self) -> int:
        """About how many distinct values were seen."""
        estimate = _estimate_128 if self.bits_per_index == BITS_PER_INDEX else _estimate_any
        return round(estimate(self.counters))

    def to_message(self) -> HllSketchV1:
        """The message that shards keep."""
        return HllSketchV1(
            hash_algorithm=HASH_ALGORITHM,
            hash_seed=self.hash_seed,
            bits_per_index=self.bits_per_index,
            counters=self.counters.tobytes(),
        )

    @classmethod
    def from_message(cls, message: HllSketchV1, *, location: str | None = None) -> HllSketch | None:
        """Read a message of a shard.

        Returns:
            The sketch, with counters of its own; None if its values were hashed in a way unknown here.

        Raises:
            FormatError: The number of counters, or one of them, cannot be.
        """
        if message.hash_algorithm != HASH_ALGORITHM:
            return None
        bits = message.bits_per_index
        if not _FEWEST_BITS <= bits <= _MOST_BITS or len(message.counters) != 1 << bits:
            raise FormatError(
                f"an HLL sketch of {bits} bits has {len(message.counters)} counters, expected 2 to that power, of "
                f"{_FEWEST_BITS} to {_MOST_BITS} bits",
                location=location,
                rule=_RULE,
            )
        counters = np.frombuffer(message.counters, np.uint8).copy()
        if int(counters.max()) > 65 - bits:
            raise FormatError(
                f"a counter of an HLL sketch is {counters.max()}, but {64 - bits} bits allow {65 - bits} at most",
                location=location,
                rule=_RULE,
            )
        return cls(bits, message.hash_seed, counters)


U0, U1 = np.uint64(0), np.uint64(1)


@kernel("int64(uint64[::1], int64, out uint8[::1])")
def raise_counters(hashes: Any, bits: int, counters: Any) -> int:
    """Raise the counter that a hash's top bits name to the position of the first bit set below them, 1 is the first."""
    below = np.uint64(64 - bits)
    for i in range(len(hashes)):
        word = hashes[i]
        bit = U1 << (below - U1)
        rank = 1
        while bit != U0 and word & bit == U0:
            bit >>= U1
            rank += 1
        index = np.int64(word >> below)
        if rank > counters[index]:
            counters[index] = rank
    return 0


def _estimate_128(counters: npt.NDArray[np.uint8]) -> float:
    """HLL++: the harmonic mean, freed of its bias when it is small, or the share of counters still empty."""
    count = len(counters)
    empty = int(np.count_nonzero(counters == 0))
    raw = 0.7213 / (1 + 1.079 / count) * count * count / float(np.sum(np.ldexp(1.0, -counters.astype(np.int32))))
    if empty:
        linear = count * math.log(count / empty)
        if linear <= _LINEAR_UP_TO:
            return linear
    if raw > 5 * count:
        return raw
    if raw < _RAW[0]:
        return max(0.0, raw - float(_RAW[0] - _TRUE[0]))
    return raw - float(_RAW[-1] - _TRUE[-1]) if raw > _RAW[-1] else float(np.interp(raw, _RAW, _TRUE))


def _estimate_any(counters: npt.NDArray[np.uint8]) -> float:
    """Ertl's estimate, for any number of counters."""
    count = len(counters)
    bits = 65 - count.bit_length()  # of a hash that a counter may point at
    having = np.bincount(counters, minlength=bits + 2).astype(float)
    total = count * _tau(1 - float(having[bits + 1]) / count)
    for rank in range(bits, 0, -1):
        total = (total + float(having[rank])) / 2
    total += count * _sigma(float(having[0]) / count)
    return count * count / (2 * math.log(2) * total)


def _sigma(share: float) -> float:
    if share == 1.0:
        return math.inf
    total, before, weight = share, -1.0, 1.0
    while total != before:
        share *= share
        before = total
        total += share * weight
        weight += weight
    return total


def _tau(share: float) -> float:
    if share in (0.0, 1.0):
        return 0.0
    total, before, weight = 1 - share, -1.0, 1.0
    while total != before:
        share = math.sqrt(share)
        before = total
        weight /= 2
        total -= (1 - share) ** 2 * weight
    return total / 3


# What 128 counters say on average (_RAW) when this many values were seen (_TRUE): HyperLogLog in Practice, appendix.
_RAW: Final = np.fromstring(
    """
    92 93.4934 94.9758 96.4574 97.9718 99.4954 101.5302 103.0756 104.6374 106.1782 107.7888 109.9522 111.592
    113.2532 114.9086 116.5938 118.9474 120.6796 122.4394 124.2176 125.9768 128.4214 130.2528 132.0102 133.8658
    135.7278 138.3044 140.1316 142.093 144.0032 145.9092 148.6306 150.5294 152.5756 154.6508 156.662 159.552
    161.3724 163.617 165.5754 167.7872 169.8444 172.7988 174.8606 177.2118 179.3566 181.4476 184.5882 186.6816
    189.0824 191.0258 193.6048 196.4436 198.7274 200.957 203.147 205.4364 208.7592 211.3386 213.781 215.8028
    218.656 221.6544 223.996 226.4718 229.1544 231.6098 234.5956 237.0616 239.5758 242.4878 244.5244 248.2146
    250.724 252.8722 255.5198 258.0414 261.941 264.9048 266.87 269.4304 272.028 274.4708 278.37 281.0624 283.4668
    286.5532 289.4352 293.2564 295.2744 298.2118 300.7472 304.1456 307.2928 309.7504 312.5528 315.979 318.2102
    322.1834 324.3494 327.325 330.6614 332.903 337.2544 339.9042 343.215 345.2864 348.0814 352.6764 355.301
    357.139 360.658 363.1732 366.5902 369.9538 373.0828 375.922 378.9902 382.7328 386.4538 388.1136 391.2234
    394.0878 396.708 401.1556 404.1852 406.6372 409.6822 412.7796 416.6078 418.4916 422.131 424.5376 428.1988
    432.211 434.4502 438.5282 440.912 444.0448 447.7432 450.8524 453.7988 456.7858 458.8868 463.9886 466.5064
    468.9124 472.6616 475.4682 478.582 481.304 485.2738 488.6894 490.329 496.106 497.6908 501.1374 504.5322
    506.8848 510.3324 513.4512 516.179 520.4412 522.6066 526.167 528.7794 533.379 536.067 538.46 542.9116 545.692
    547.9546 552.493 555.2722 557.335 562.449 564.2014 569.0738 571.0974 574.8564 578.2996 581.409 583.9704
    585.8098 589.6528 594.5998 595.958 600.068 603.3278 608.2016 609.9632 612.864 615.43 620.7794 621.272 625.8644
    629.206 633.219 634.5154 638.6102
    """,
    sep=" ",
)
_TRUE: Final = np.fromstring(
    """
    1 4 7 10 13 16 20 23 26 29 32 36 39 42 45 48 52 55 58 61 64 68 71 74 77 80 84 87 90 93 96 100 103 106 109 112
    116 119 122 125 128 131 135 138 141 144 147 151 154 157 160 163 167 170 173 176 179 183 186 189 192 195 199
    202 205 208 211 215 218 221 224 227 231 234 237 240 243 247 250 253 256 259 262 266 269 272 275 278 282 285
    288 291 294 298 301 304 307 310 314 317 320 323 326 330 333 336 339 342 346 349 352 355 358 362 365 368 371
    374 378 381 384 387 390 393 397 400 403 406 409 413 416 419 422 425 429 432 435 438 441 445 448 451 454 457
    461 464 467 470 473 477 480 483 486 489 493 496 499 502 505 509 512 515 518 521 524 528 531 534 537 540 544
    547 550 553 556 560 563 566 569 572 576 579 582 585 588 592 595 598 601 604 608 611 614 617 620 624 627 630
    633 636
    """,
    sep=" ",
)
