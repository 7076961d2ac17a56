"""Hashes, HyperLogLog counters and Bloom filters: against xxHash, against plain Python, and by what they promise."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from skerry.amudai.messages import HllSketchV1, SplitBlockBloomFilter
from skerry.amudai.statistics import bloom, hll
from skerry.amudai.statistics.bloom import BloomFilter
from skerry.amudai.statistics.hll import HllSketch
from skerry.amudai.statistics.xxh3 import hash_values
from skerry.errors import FormatError

EDGES = [*range(260), 511, 512, 1023, 1024, 1025, 1087, 1088, 1089, 2048, 2049, 4096, 70_000]


def spans(values: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.zeros(len(values) + 1, np.int64)
    offsets[1:] = np.cumsum([len(value) for value in values])
    return np.frombuffer(b"".join(values), np.uint8), offsets


@pytest.mark.parametrize("seed", [0, 1, hll.HASH_SEED, bloom.HASH_SEED, (1 << 64) - 1])
def test_hashes_of_every_length_are_those_of_the_library(seed: int) -> None:
    random = np.random.default_rng(7)
    values = [random.bytes(length) for length in EDGES]
    expected = [xxhash.xxh3_64_intdigest(value, seed) for value in values]
    assert hash_values(*spans(values), seed).tolist() == expected


@given(st.lists(st.binary(max_size=600), max_size=20), st.integers(0, (1 << 64) - 1))
def test_hashes_of_any_values_are_those_of_the_library(values: list[bytes], seed: int) -> None:
    assert hash_values(*spans(values), seed).tolist() == [xxhash.xxh3_64_intdigest(value, seed) for value in values]


# HyperLogLog --------------------------------------------------------------------------------------------------------


def plain_counters(hashes: list[int], bits: int) -> list[int]:
    counters = [0] * (1 << bits)
    for word in hashes:
        below = word & ((1 << (64 - bits)) - 1)
        index = word >> (64 - bits)
        counters[index] = max(counters[index], 64 - bits - below.bit_length() + 1)
    return counters


@given(st.lists(st.integers(0, (1 << 64) - 1) | st.integers(0, 3), max_size=200), st.integers(4, 18))
def test_counters_are_the_plain_ones(hashes: list[int], bits: int) -> None:
    sketch = HllSketch(bits, counters=np.zeros(1 << bits, np.uint8))
    sketch.update(np.array(hashes, np.uint64))
    assert sketch.counters.tolist() == plain_counters(hashes, bits)


@pytest.mark.parametrize("bits", [4, 7, 10, 14, 18])
@pytest.mark.parametrize("count", [0, 1, 5, 60, 90, 200, 640, 5_000, 200_000])
def test_estimates_are_as_good_as_the_counters_allow(bits: int, count: int) -> None:
    hashes = np.random.default_rng(count).integers(0, 1 << 64, count, np.uint64, endpoint=False)
    sketch = HllSketch(bits, counters=np.zeros(1 << bits, np.uint8))
    sketch.update(hashes)
    assert abs(sketch.estimate() - count) <= 4 * 1.04 / (1 << bits) ** 0.5 * count + 1


@given(st.lists(st.integers(0, (1 << 64) - 1)), st.lists(st.integers(0, (1 << 64) - 1)))
def test_a_merged_sketch_is_that_of_all_values(left: list[int], right: list[int]) -> None:
    parts = []
    for hashes in (left, right, left + right):
        parts.append(HllSketch())
        parts[-1].update(np.array(hashes, np.uint64))
    merged = parts[0].merge(parts[1])
    assert merged is not None
    assert merged.to_message() == parts[2].to_message()
    again = HllSketch.from_message(merged.to_message())
    assert again is not None
    assert again.estimate() == parts[2].estimate()


def test_sketches_made_differently_are_not_merged() -> None:
    assert HllSketch().merge(HllSketch(hash_seed=1)) is None
    assert HllSketch().merge(HllSketch(8, counters=np.zeros(256, np.uint8))) is None
    assert HllSketch.from_message(HllSketchV1(hash_algorithm="sip")) is None


@pytest.mark.parametrize(
    ("bits", "counters", "error"),
    [
        (7, bytes(127), "an HLL sketch of 7 bits has 127 counters"),
        (3, bytes(8), "an HLL sketch of 3 bits has 8 counters"),
        (19, bytes(1 << 19), "an HLL sketch of 19 bits"),
        (4_000_000_000, b"", "an HLL sketch of 4000000000 bits has 0 counters"),
        (7, bytes(127) + b"\x3b", "a counter of an HLL sketch is 59, but 57 bits allow 58 at most"),
    ],
)
def test_bad_sketches_are_refused(bits: int, counters: bytes, error: str) -> None:
    message = HllSketchV1(hash_algorithm="xxh3_64", bits_per_index=bits, counters=counters)
    with pytest.raises(FormatError, match=error):
        HllSketch.from_message(message)


# Bloom filters ------------------------------------------------------------------------------------------------------


def plain_bits(value: bytes, blocks: int) -> tuple[int, list[int]]:
    word = xxhash.xxh3_64_intdigest(value, bloom.HASH_SEED)
    salts = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
    return (word >> 32) * blocks >> 32, [1 << (((word & 0xFFFFFFFF) * salt & 0xFFFFFFFF) >> 27) for salt in salts]


def filter_of(values: list[bytes]) -> BloomFilter:
    return BloomFilter.build(np.unique(hash_values(*spans(values), bloom.HASH_SEED)))


@given(st.sets(st.binary(max_size=40), min_size=1, max_size=80))
def test_filters_are_the_plain_ones(values: set[bytes]) -> None:
    made = filter_of(sorted(values))
    expected = np.zeros_like(made.blocks)
    for value in values:
        block, bits = plain_bits(value, len(expected))
        expected[block] |= np.array(bits, np.uint32)
    assert made.blocks.tolist() == expected.tolist()
    assert made.may_contain(sorted(values)).all()


@pytest.mark.parametrize(("count", "blocks"), [(1, 1), (25, 1), (26, 1), (28, 2), (100, 4), (1000, 40), (1024, 40)])
def test_a_filter_has_about_ten_bits_per_value(count: int, blocks: int) -> None:
    made = filter_of([b"%d" % i for i in range(count)])
    assert (len(made.blocks), made.num_values) == (blocks, count)
    absent = made.may_contain([b"no %d" % i for i in range(20_000)])
    assert absent.mean() < 0.02


def test_a_filter_survives_its_message() -> None:
    made = filter_of([b"a", b"b"])
    again = BloomFilter.from_message(made.to_message())
    assert again is not None
    assert again.may_contain([b"a", b"b", b"c"]).tolist() == [True, True, False]
    assert BloomFilter.from_message(SplitBlockBloomFilter(hash_algorithm="sip")) is None


@pytest.mark.parametrize(("blocks", "size"), [(0, 0), (1, 31), (2, 32), (1 << 63, 0)])
def test_bad_filters_are_refused(blocks: int, size: int) -> None:
    message = SplitBlockBloomFilter(hash_algorithm="xxh3_64", num_blocks=blocks, data=bytes(size))
    with pytest.raises(FormatError, match=f"a Bloom filter of {blocks} blocks has {size} bytes"):
        BloomFilter.from_message(message)
