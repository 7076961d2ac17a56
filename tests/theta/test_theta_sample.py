"""`Sample`: the k smallest hashes, however the values come in."""

from __future__ import annotations

import pickle
import random
from typing import Any

import datasketches as cpp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_theta import smallest

from skerry.errors import FormatError, UnsupportedError
from skerry.theta import Sample, ThetaSketch, union

NUMBERS = st.lists(st.integers(-20, 20) | st.integers(-(1 << 63), (1 << 63) - 1), max_size=200)


def sample_of(numbers: Any, k: int = 8192, seed: int = 9001) -> Sample:
    return Sample(k, seed).update(np.asarray(numbers, np.int64))


@given(NUMBERS, st.sampled_from([1, 2, 7, 16, 100]), st.integers(0, (1 << 64) - 1))
def test_sample_equals_the_plain_twin(numbers: list[int], k: int, seed: int):
    sample = sample_of(numbers, k, seed)
    values = [number.to_bytes(8, "little", signed=True) for number in numbers]
    assert (sample.theta, sample.hashes.tolist()) == smallest(values, k, seed)
    assert sample.is_empty == (not numbers)


@pytest.mark.parametrize("k", [1, 16, 1000, 8192])
def test_sample_of_many_values_equals_the_plain_twin(k: int):
    numbers = np.random.default_rng(k).integers(0, 30_000, 60_000)
    sample = sample_of(numbers, k)
    expected = smallest((number.tobytes() for number in np.unique(numbers)), k)
    assert (sample.theta, sample.hashes.tolist()) == expected


@given(NUMBERS, st.data(), st.randoms())
def test_neither_order_nor_partitions_matter(numbers: list[int], data: st.DataObject, rng: random.Random):
    whole = sample_of(numbers, 16).serialize()
    shuffled = numbers * 2
    rng.shuffle(shuffled)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(shuffled)), max_size=4)))
    parts = [shuffled[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(shuffled)], strict=True)]
    samples = [sample_of(part, 16) for part in parts]
    rng.shuffle(samples)
    merged = Sample(16)
    for i, sample in enumerate(samples):
        merged.merge(Sample.deserialize(sample.serialize(), 16) if i % 2 else sample)
    assert merged.serialize() == whole
    one_after_another = Sample(16)
    for part in parts:
        one_after_another.update(np.array(part, np.int64))
    assert one_after_another.serialize() == whole


def test_values_and_samples_mix():
    numbers = np.arange(5000)
    merged = Sample(256).update(numbers[:1000]).merge(sample_of(numbers[1000:2000], 256)).update(numbers[2000:3000])
    merged = (
        Sample.deserialize(merged.serialize(), 256).update(numbers[3000:4000]).merge(sample_of(numbers[4000:], 256))
    )
    assert merged.serialize() == sample_of(numbers, 256).serialize()


def test_a_settled_sample_goes_on():
    numbers = np.arange(5000)
    sample = Sample(256).update(numbers[:3000])
    assert sample.release() is sample
    assert sample.serialize() == sample_of(numbers[:3000], 256).serialize()
    assert sample.update(numbers[2000:]).release().release().serialize() == sample_of(numbers, 256).serialize()
    assert Sample().release().is_empty


def test_merging_leaves_the_other_alone():
    one, other = sample_of(range(100)), sample_of(range(50, 150))
    before = other.serialize()
    assert one.merge(other) is one
    assert other.serialize() == before
    assert one.estimate() == 150


@given(NUMBERS, NUMBERS)
def test_published_sketch_is_the_union_that_the_cpp_library_makes(left: list[int], right: list[int]):
    united = cpp.theta_union(5)
    for numbers in (left, right):
        sketch = cpp.update_theta_sketch(12)
        for number in numbers:
            sketch.update(number)
        united.update(sketch)
    expected = united.get_result()
    published = sample_of(left).merge(sample_of(right)).to_sketch(5)
    assert published.theta == expected.theta64
    assert published.hashes.tolist() == sorted(expected)
    assert published.serialize() == union([published], 5).serialize()


def test_sketch_of_a_sample_is_within_its_bounds():
    numbers = np.random.default_rng(0).permutation(500_000)
    sample = sample_of(numbers)
    sketch = sample.to_sketch()
    assert len(sketch.hashes) == 4096
    assert sketch.theta == int(sample.hashes[4096])
    for counted in (sample, sketch):
        lower, upper = counted.bounds(3)
        assert lower <= 500_000 <= upper
        assert lower <= counted.estimate() <= upper
    assert sample.bounds(3)[1] - sample.bounds(3)[0] < sketch.bounds(3)[1] - sketch.bounds(3)[0]


def test_serialised_sample_is_a_theta_sketch():
    sample = sample_of(np.arange(100_000))
    sketch = ThetaSketch.deserialize(sample.serialize())
    assert (sketch.theta, sketch.hashes.tolist()) == (sample.theta, sample.hashes.tolist())
    peer = cpp.compact_theta_sketch.deserialize(sample.serialize())
    assert (peer.theta64, list(peer)) == (sample.theta, sample.hashes.tolist())
    assert len(sample.serialize()) < 6.5 * len(sample.hashes)


@pytest.mark.parametrize("count", [0, 1, 10_000])
def test_pickled_sample_goes_on(count: int):
    sample = sample_of(np.arange(count), 64, 5)
    again = pickle.loads(pickle.dumps(sample))
    assert again.serialize() == sample.serialize()
    again.update(np.arange(20_000))
    assert again.serialize() == sample_of(np.arange(20_000), 64, 5).serialize()


def test_refusals():
    with pytest.raises(UnsupportedError, match="keeps 1 … 2²⁶ hashes, not 0"):
        Sample(0)
    with pytest.raises(UnsupportedError, match="of 8192 hashes with seed 9001 and of 64 with seed 9001 do not merge"):
        Sample().merge(Sample(64))
    with pytest.raises(UnsupportedError, match="with seed 1 do not merge"):
        Sample().merge(Sample(seed=1))
    with pytest.raises(FormatError, match="at most 10 hashes, this has 11"):
        Sample.deserialize(sample_of(range(11)).serialize(), 10)
    assert repr(sample_of(range(3))) == "Sample(estimate=3.0, hashes=3, k=8192, seed=9001)"
