"""Planning of range requests: which ranges of a file to fetch together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Fetch", "plan_fetches"]

_MAX_FETCH_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Fetch:
    """One range to fetch, and the wanted ranges within it.

    Args:
        offset: First byte.
        length: Bytes.
        wanted: Indices of the wanted ranges.
    """

    offset: int
    length: int
    wanted: tuple[int, ...]


def plan_fetches(offsets: Sequence[int], lengths: Sequence[int], max_gap_bytes: int) -> list[Fetch]:
    """Merge ranges that are close together, because a request costs more than a few unneeded bytes.

    Args:
        offsets: First byte of each wanted range, in any order; ranges may overlap.
        lengths: Their lengths; empty ranges are in no fetch.
        max_gap_bytes: The most unneeded bytes between two merged ranges. Merged fetches stay below 16 MiB, so that
            large ranges are still fetched concurrently.

    Returns:
        The fetches by offset; together they contain every wanted range once.
    """
    fetches: list[Fetch] = []
    members: list[int] = []
    start = end = 0
    for index in sorted((i for i, length in enumerate(lengths) if length), key=lambda i: offsets[i]):
        offset, stop = offsets[index], offsets[index] + lengths[index]
        merges = offset <= end + max_gap_bytes and (max(end, stop) - start <= _MAX_FETCH_BYTES or stop <= end)
        if members and merges:
            members.append(index)
            end = max(end, stop)
            continue
        if members:
            fetches.append(Fetch(start, end - start, tuple(members)))
        members, start, end = [index], offset, stop
    if members:
        fetches.append(Fetch(start, end - start, tuple(members)))
    return fetches
