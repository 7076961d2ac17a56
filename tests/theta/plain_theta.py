"""Slow plain twins of the kernels: what a sketch is, said in sets of Python numbers."""

from __future__ import annotations

from collections.abc import Iterable

from skerry.theta.hashing import hash_bytes

MAX_THETA = (1 << 63) - 1


def alpha(values: Iterable[bytes], k: int, seed: int = 9001) -> tuple[int, list[int]]:
    """Threshold and hashes of an Alpha sketch: the threshold shrinks with every new hash after the k-th."""
    theta, seen = MAX_THETA, set()
    for value in values:
        hash_ = hash_bytes(value, seed)
        if value and 0 < hash_ < theta and hash_ not in seen:
            seen.add(hash_)
            if len(seen) > k:
                theta = int(float(theta) * (k / (k + 1.0)))
    return theta, sorted(hash_ for hash_ in seen if hash_ < theta)


def smallest(values: Iterable[bytes], k: int, seed: int = 9001) -> tuple[int, list[int]]:
    """The k smallest hashes, and the next one as threshold."""
    hashes = sorted({hash_bytes(value, seed) for value in values if value} - {0})
    return (hashes[k], hashes[:k]) if len(hashes) > k else (MAX_THETA, hashes)
