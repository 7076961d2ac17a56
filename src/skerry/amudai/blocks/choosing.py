"""Which encoding suits some values: candidates are tried on a sample, and weighed by what they cost to read.

A light encoding is read several times faster than a codec's frame. So each profile says by how much a candidate must be
smaller than lighter ones to be chosen, and which candidates there are at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.blocks.encoder import encode_binary, encode_numeric
from skerry.amudai.encodings import (
    alp,
    alp_rd,
    block_dictionary,
    delta,
    fsst,
    fused_frame_of_reference,
    lz4,
    run_length,
    sparse,
    truncate,
    zstd,
)
from skerry.amudai.encodings.byte_values import Strings
from skerry.amudai.encodings.codes import Encoding, Profile
from skerry.amudai.encodings.numbers import is_constant
from skerry.amudai.encodings.plans import BIT_PACKED, FRAMED, PLAIN, Plan

__all__ = ["BinaryChoice", "choose_binary", "choose_numeric"]

_Values = npt.NDArray[Any]

SAMPLE_VALUES: Final = 16 * 1024
_LIGHT_SAMPLE: Final = 4 * 1024
_SAMPLE_BYTES: Final = 256 * 1024
_PLACES: Final = (0.0, 0.183, 0.471, 0.829)
"""Where in a column samples are taken: at irregular distances, since data may repeat at regular ones."""
_WORTH: Final = 0.95
"""An encoding must make the sample smaller than this part of its plain size."""
_HEAVIER: Final = 1.05
"""What else than packed distances must be smaller by some part: those are written and read fastest."""

_NUMBERS: Final = (
    run_length,
    sparse,
    fused_frame_of_reference,
    delta,
    alp,
    block_dictionary,
    alp_rd,
    zstd,
    lz4,
)
"""Encodings of numbers that are worth a try on their own, light ones first."""
_BYTES: Final = (block_dictionary, lz4, fsst, zstd)
"""Those of strings of bytes."""
_CODECS: Final = (zstd, lz4)
_ZSTD: Final = Plan(zstd.CODE)


def choose_numeric(values: _Values, profile: Profile) -> Plan:
    """Choose how numbers are encoded.

    Args:
        values: T[n], none of them null.
        profile: What the writer aims for.

    Returns:
        The plan.
    """
    if profile == Profile.PLAIN or not len(values):
        return PLAIN
    if is_constant(values):
        return Plan(Encoding.SINGLE_VALUE)
    sample = _sample_numbers(values, _LIGHT_SAMPLE if profile == Profile.FAST else SAMPLE_VALUES)
    best = PLAIN
    best_cost: float = _WORTH * sample.nbytes
    for plan in _candidates(sample, profile):
        stream = encode_numeric(sample, plan, profile)
        cost = len(stream) + _cost_of_reading(plan, sample.nbytes, profile)
        if plan != FRAMED and (plan.encoding, plan.parts) != (alp.CODE, (FRAMED,)):
            cost *= _HEAVIER
        if cost < best_cost and stream[0] == plan.encoding:  # otherwise it did not go with the values
            best, best_cost = plan, cost
    return best


def _cost_of_reading(plan: Plan, size: int, profile: Profile) -> float:
    """What is added to the bytes of a plan for `size` bytes of values."""
    used = frozenset(plan.encodings())
    return size * sum(codec.READ_COST[profile] for codec in _CODECS if codec.CODE in used)


def _sample_numbers(values: _Values, size: int) -> _Values:
    """Some stretches of neighbours."""
    if len(values) <= size:
        return values
    stretch = size // len(_PLACES)
    starts = (int(place * (len(values) - stretch)) for place in _PLACES)
    return np.concatenate([values[start : start + stretch] for start in starts])


def _candidates(sample: _Values, profile: Profile) -> Iterator[Plan]:
    """Plans worth a try, light ones first."""
    plans = (encoding.suits(sample, profile) for encoding in _NUMBERS)
    yield from (plan for plan in plans if plan is not None)
    if profile != Profile.FAST:
        yield from _cascades(sample, profile)


def _cascades(sample: _Values, profile: Profile) -> Iterator[Plan]:
    """Encodings of several levels that end in a codec."""
    if sample.dtype.kind == "f":
        decimals = alp.find_decimals(sample)
        yield Plan(alp.CODE, (_narrowed(4),), decimals)
        yield Plan(alp.CODE, (Plan(delta.CODE, (_narrowed(4),)),), decimals)
    elif sample.dtype.kind == "i" and sample.itemsize > 1:
        low, high = int(sample.min()), int(sample.max())
        width = max(low.bit_length(), high.bit_length()) + 1
        if width <= 4 * sample.itemsize:
            yield _narrowed(max(1, 1 << ((width - 1) // 8).bit_length()))
        yield Plan(delta.CODE, (_narrowed(4 if sample.itemsize == 8 else 2),))
    else:
        yield Plan(delta.CODE, (_ZSTD,))
    if sample.itemsize > 1:
        yield Plan(run_length.CODE, (_ZSTD, _ZSTD))
        yield Plan(block_dictionary.CODE, (_ZSTD, None))
    if profile == Profile.SMALL:
        yield Plan(Encoding.FRAME_OF_REFERENCE, (_ZSTD,))
        yield Plan(block_dictionary.CODE, (_ZSTD, _ZSTD))


def _narrowed(size: int) -> Plan:
    """Signed integers of some bytes (more if they need more), compressed."""
    return Plan(truncate.BY_SIZE[size], (_ZSTD,))


@dataclass(frozen=True, slots=True)
class BinaryChoice:
    """How strings of bytes are encoded.

    Args:
        plan: The plan of each block.
        symbols: For FSST, else None.
    """

    plan: Plan
    symbols: fsst.SymbolTable | None = None


def choose_binary(strings: Strings, profile: Profile) -> BinaryChoice:
    """Choose how strings of bytes are encoded.

    Args:
        strings: All of them.
        profile: What the writer aims for.

    Returns:
        The plan, and what it needs.
    """
    if profile == Profile.PLAIN or not strings.count:
        return BinaryChoice(PLAIN)
    sample = sample_strings(strings)
    if not len(sample.data):
        return BinaryChoice(Plan(block_dictionary.CODE, (BIT_PACKED,)) if sample.fixed_size is None else PLAIN)
    best = BinaryChoice(PLAIN)
    best_cost: float = _WORTH * len(encode_binary(sample, PLAIN, profile))
    for choice in _binary_candidates(sample, profile):
        size = len(encode_binary(sample, choice.plan, profile, choice.symbols))
        cost = size + _cost_of_reading(choice.plan, len(sample.data), profile)
        if cost < best_cost:
            best, best_cost = choice, cost
    return best


def _binary_candidates(sample: Strings, profile: Profile) -> Iterator[BinaryChoice]:
    """Choices worth a try, light ones first."""
    for encoding in _BYTES:
        plan = encoding.suits_bytes(sample, profile)
        if plan is not None:
            yield BinaryChoice(plan, fsst.train_symbols(sample.data) if plan.encoding == fsst.CODE else None)
    if profile in (Profile.HIGH, Profile.SMALL) and sample.fixed_size is None:
        yield BinaryChoice(Plan(zstd.CODE, (Plan(delta.CODE, (_ZSTD,)),)))


def sample_strings(strings: Strings) -> Strings:
    """Some stretches of neighbours."""
    if len(strings.data) <= _SAMPLE_BYTES and strings.count <= SAMPLE_VALUES:
        return strings
    mean = max(1, len(strings.data) // strings.count)
    size = max(1, min(SAMPLE_VALUES, _SAMPLE_BYTES // mean, strings.count) // len(_PLACES))
    data, lengths, valid = [], [], []
    for place in _PLACES:
        start = int(place * (strings.count - size))
        offsets = strings.offsets[start : start + size + 1]
        data.append(strings.data[offsets[0] : offsets[-1]])
        lengths.append(np.diff(offsets))
        if strings.valid is not None:
            valid.append(strings.valid[start : start + size])
    edges = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
    flags = np.concatenate(valid) if valid else None
    return Strings(edges, np.concatenate(data), flags, strings.fixed_size)
