"""The hash of values: in plain Python against another library, in kernels against plain Python."""

from __future__ import annotations

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import UnsupportedError
from skerry.kernels import kernel
from skerry.theta.hashing import hash_bytes, hash_span, hash_wide_decimal, seed_hash

SEEDS = st.integers(0, (1 << 64) - 1)


@kernel("uint64(uint8[::1], int64, int64, uint64)")
def span(data, start, length, seed):
    return hash_span(data, start, length, seed)


@kernel("uint64(uint64, uint64, uint64)")
def decimal(low, high, seed):
    return hash_wide_decimal(low, high, seed)


@given(st.binary(max_size=100), st.integers(0, (1 << 32) - 1))
def test_plain_hash_is_murmur3(data: bytes, seed: int):
    assert hash_bytes(data, seed) == mmh3.hash64(data, seed, signed=False)[0] >> 1


def test_seed_hash_of_the_default_seed_is_what_every_sketch_of_the_world_has():
    assert seed_hash(9001) == 0x93CC


def test_seed_whose_hash_is_0_is_refused():
    seed = next(
        seed for seed in range(1 << 20) if mmh3.hash64(seed.to_bytes(8, "little"), 0, signed=False)[0] % 65536 == 0
    )
    with pytest.raises(UnsupportedError, match=f"the seed {seed} hashes to 0"):
        seed_hash(seed)


@given(st.binary(max_size=60), st.binary(max_size=70), st.binary(max_size=40), SEEDS)
def test_kernel_hashes_bytes_anywhere_in_a_buffer(before: bytes, value: bytes, after: bytes, seed: int):
    data = np.frombuffer(before + value + after, np.uint8)
    assert span(data, len(before), len(value), seed) == hash_bytes(value, seed)


@given(st.integers(1, 127).flatmap(lambda bits: st.integers(-(1 << bits), (1 << bits) - 1)), SEEDS)
def test_kernel_hashes_the_fewest_bytes_of_a_decimal(unscaled: int, seed: int):
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    low, high = unscaled & ((1 << 64) - 1), unscaled >> 64 & ((1 << 64) - 1)
    assert decimal(low, high, seed) == hash_bytes(unscaled.to_bytes(length, "big", signed=True), seed)


@pytest.mark.parametrize("bits", [7, 8, 15, 16, 31, 32, 55, 56, 63, 64, 71, 72, 119, 120, 126])
@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize("sign", [-1, 1])
def test_decimals_at_the_edges_of_lengths(bits: int, off: int, sign: int):
    unscaled = sign * (1 << bits) + off
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    low, high = unscaled & ((1 << 64) - 1), unscaled >> 64 & ((1 << 64) - 1)
    assert decimal(low, high, 9001) == hash_bytes(unscaled.to_bytes(length, "big", signed=True), 9001)
