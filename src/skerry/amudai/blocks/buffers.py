"""Values of a stripe to an encoded buffer: blocks, and the map of them.

Spec: docs/formats/amudai-encodings.md § 1, § 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.blocks.block_frame import encode_binary_block, encode_numeric_block
from skerry.amudai.blocks.block_map import encode_block_map
from skerry.amudai.blocks.choosing import BinaryChoice, choose_binary, choose_numeric
from skerry.amudai.blocks.packing import carry_forward
from skerry.amudai.blocks.whole_columns import MAX_BLOCK_VALUES, FramedBlocks, frame_decimals, frame_integers
from skerry.amudai.encodings.byte_values import Strings
from skerry.amudai.encodings.codes import Encoding, Profile
from skerry.amudai.encodings.plans import FRAMED, Plan

__all__ = ["BuiltBuffer", "encode_binary_buffer", "encode_numeric_buffer"]

_Flags = npt.NDArray[np.bool_] | None

_MAP_ALIGNMENT: Final = 16
_LIGHT_VALUES: Final = 4 * 1024
"""Values of a block that kernels decode alone: few, because rows by position decode whole blocks."""
_SHARED_VALUES: Final = 16 * 1024
"""Values of a block whose values share a dictionary or a codec's window."""
_SMALL_VALUES: Final = 256 * 1024
_CHOICE_VALUES: Final = 1 << 20
"""After this many values another plan is chosen."""
_SHARED: Final = frozenset(
    (Encoding.ZSTD, Encoding.LZ4, Encoding.BLOCK_DICTIONARY, Encoding.SPARSE, Encoding.RUN_LENGTH)
)
_BLOCK_BYTES: Final = {Profile.SMALL: 1 << 22, Profile.HIGH: 1 << 20}
_LIGHT_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class BuiltBuffer:
    """An encoded buffer; it must begin at a multiple of 64 of its file.

    Args:
        data: All its bytes, the block map last.
        map_bytes: Bytes of the block map.
        block_count: How many blocks it has.
        plans: What was chosen, in order, without repetitions.
    """

    data: bytes
    map_bytes: int
    block_count: int
    plans: tuple[Plan, ...]


def encode_numeric_buffer(
    values: npt.NDArray[Any],
    valid: _Flags,
    *,
    profile: Profile = Profile.BALANCED,
    plan: Plan | None = None,
    block_values: int | None = None,
    has_checksums: bool = True,
) -> BuiltBuffer:
    """Encode numbers as a buffer.

    Args:
        values: T[n], of one of the ten types of streams; at nulls anything.
        valid: bool[n], None if no value is null.
        profile: What to aim for.
        plan: How each block is encoded; chosen by samples if None.
        block_values: Values of a block; by plan and profile if None.
        has_checksums: Whether blocks have checksums.

    Returns:
        The buffer.
    """
    parts = _Parts()
    for start, stop in _stretches(len(values), plan):
        stretch, flags = values[start:stop], None if valid is None else valid[start:stop]
        chosen = plan
        if chosen is None:
            chosen = choose_numeric(stretch if flags is None else carry_forward(stretch, flags), profile)
        size = block_values or _block_values(chosen, profile)
        parts.plans.append(chosen)
        framed = _frame_at_once(stretch, flags, chosen, profile, size, has_checksums)
        if framed is not None:
            parts.add_all(framed)
            continue
        for first in range(0, stop - start, size):
            block = stretch[first : first + size]
            present = None if flags is None else flags[first : first + size]
            encoded = encode_numeric_block(block, present, chosen, profile=profile, has_checksum=has_checksums)
            parts.add(len(block), encoded)
    return parts.built()


def _frame_at_once(
    values: npt.NDArray[Any], valid: _Flags, plan: Plan, profile: Profile, size: int, has_checksums: bool
) -> FramedBlocks | None:
    """All blocks of a plan that kernels write at once, None if they cannot."""
    if size > MAX_BLOCK_VALUES or profile == Profile.PLAIN:
        return None
    if plan == FRAMED and values.dtype.kind != "f":
        return frame_integers(values, valid, size, has_checksums=has_checksums)
    if plan.encoding == Encoding.ALP and plan.parts == (FRAMED,) and plan.decimals and values.dtype.kind == "f":
        return frame_decimals(values, valid, plan.decimals, size, has_checksums=has_checksums)
    return None


def encode_binary_buffer(
    offsets: npt.NDArray[np.int64] | None,
    data: npt.NDArray[np.uint8],
    valid: _Flags,
    *,
    fixed_size: int | None = None,
    profile: Profile = Profile.BALANCED,
    plan: Plan | None = None,
    block_values: int | None = None,
    has_checksums: bool = True,
) -> BuiltBuffer:
    """Encode strings of bytes as a buffer.

    Args:
        offsets: int64[n + 1], from 0 to m; None if all values have one size, which is not 0.
        data: uint8[m]; a null has no bytes, or any if all values have one size.
        valid: bool[n], None if no value is null.
        fixed_size: Bytes of each value, None if they differ.
        profile: What to aim for.
        plan: How each block is encoded; chosen by samples if None.
        block_values: The most values of a block; by plan and profile if None.
        has_checksums: Whether blocks have checksums.

    Returns:
        The buffer.
    """
    if offsets is None:
        assert fixed_size
        offsets = np.arange(len(data) // fixed_size + 1, dtype=np.int64) * fixed_size
    strings = Strings(offsets, data, valid, fixed_size)
    parts = _Parts()
    for start, stop in _stretches(strings.count, plan):
        stretch = _slice(strings, start, stop)
        choice = choose_binary(stretch, profile) if plan is None else BinaryChoice(plan)
        parts.plans.append(choice.plan)
        for block in _cut(stretch, choice.plan, profile, block_values):
            encoded = encode_binary_block(
                block, choice.plan, profile=profile, symbols=choice.symbols, has_checksum=has_checksums
            )
            parts.add(block.count, encoded)
    return parts.built()


def _stretches(count: int, plan: Plan | None) -> Iterator[tuple[int, int]]:
    """Ranges of values that share a plan."""
    size = _CHOICE_VALUES if plan is None else max(count, 1)
    for start in range(0, count, size):
        yield start, min(start + size, count)


def _block_values(plan: Plan, profile: Profile) -> int:
    if profile == Profile.SMALL and not _SHARED.isdisjoint(plan.encodings()):
        return _SMALL_VALUES
    return _LIGHT_VALUES if _SHARED.isdisjoint(plan.encodings()) else _SHARED_VALUES


def _slice(strings: Strings, start: int, stop: int) -> Strings:
    """Some of the values, counted from 0 on."""
    if start == 0 and stop == strings.count:
        return strings
    first, last = int(strings.offsets[start]), int(strings.offsets[stop])
    valid = None if strings.valid is None else strings.valid[start:stop]
    return Strings(strings.offsets[start : stop + 1] - first, strings.data[first:last], valid, strings.fixed_size)


def _cut(strings: Strings, plan: Plan, profile: Profile, block_values: int | None) -> Iterator[Strings]:
    """Blocks of as many bytes and values as suit a plan."""
    most_bytes = _BLOCK_BYTES.get(profile, _LIGHT_BYTES)
    most = block_values or (_SMALL_VALUES if profile in _BLOCK_BYTES else _SHARED_VALUES)
    start = 0
    while start < strings.count:
        limit = int(strings.offsets[start]) + most_bytes
        stop = int(np.searchsorted(strings.offsets, limit, "right")) - 1
        stop = min(max(stop, start + 1), start + most, strings.count)
        yield _slice(strings, start, stop)
        start = stop


class _Parts:
    """The blocks of a buffer as they are made."""

    def __init__(self) -> None:
        self.data: list[bytes | memoryview] = []
        self.counts: list[npt.NDArray[np.int64]] = []
        self.sizes: list[npt.NDArray[np.int64]] = []
        self.plans: list[Plan] = []

    def add(self, count: int, block: bytes) -> None:
        """Add a block of `count` values."""
        self.data.append(block)
        self.counts.append(np.array([count]))
        self.sizes.append(np.array([len(block)]))

    def add_all(self, framed: FramedBlocks) -> None:
        """Add consecutive blocks."""
        self.data.append(framed.data.data)
        self.counts.append(framed.counts)
        self.sizes.append(framed.sizes)

    def built(self) -> BuiltBuffer:
        """The buffer: all blocks, and their map."""
        none = [np.zeros(0, np.int64)]
        counts, sizes = np.concatenate(self.counts or none), np.concatenate(self.sizes or none)
        block_map = encode_block_map(counts, sizes)
        data = b"".join((*self.data, bytes(-int(sizes.sum()) % _MAP_ALIGNMENT), block_map))
        return BuiltBuffer(data, len(block_map), len(counts), tuple(dict.fromkeys(self.plans)))
