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

from skerry.amudai.encodings.alp import find_decimals
from skerry.amudai.encodings.binary_encoding import Strings, encode_binary
from skerry.amudai.encodings.codes import Encoding, Profile
from skerry.amudai.encodings.dictionaries import number_spans, number_values
from skerry.amudai.encodings.fsst import SymbolTable, train_fsst
from skerry.amudai.encodings.numeric_encoding import BIT_PACKED, FRAMED, PLAIN, encode_numeric
from skerry.amudai.encodings.plans import Plan

__all__ = ["BinaryChoice", "choose_binary", "choose_numeric"]

_Values = npt.NDArray[Any]

SAMPLE_VALUES: Final = 16 * 1024
_LIGHT_SAMPLE: Final = 4 * 1024
_SAMPLE_BYTES: Final = 256 * 1024
_PLACES: Final = (0.0, 0.183, 0.471, 0.829)
"""Where in a column samples are taken: at no regular distances, which data may repeat itself at."""
_WORTH: Final = 0.95
"""An encoding must make the sample smaller than this part of its plain size."""
_MAX_DICTIONARY: Final = 4096
_HEAVIER: Final = 1.05
"""What else than packed distances must be smaller by some part: those are written and read fastest."""

_ZSTD: Final = Plan(Encoding.ZSTD)
_LZ4: Final = Plan(Encoding.LZ4)
_SINGLE: Final = Plan(Encoding.SINGLE_VALUE)
_DELTA: Final = Plan(Encoding.DELTA, (FRAMED,))
_RUNS: Final = Plan(Encoding.RUN_LENGTH, (FRAMED, FRAMED))
_FLOAT_RUNS: Final = Plan(Encoding.RUN_LENGTH, (None, FRAMED))
_DICTIONARY: Final = Plan(Encoding.BLOCK_DICTIONARY, (BIT_PACKED, FRAMED))
_FLOAT_DICTIONARY: Final = Plan(Encoding.BLOCK_DICTIONARY, (BIT_PACKED,))
_ALP_RD: Final = Plan(Encoding.ALP_RD)
_SPARSE: Final = Plan(Encoding.SPARSE, (_DELTA, None))

_CODEC_COST: Final = {
    Encoding.ZSTD: {Profile.FAST: 0.2, Profile.BALANCED: 0.07, Profile.HIGH: 0.01, Profile.SMALL: 0.0},
    Encoding.LZ4: {Profile.FAST: 0.05, Profile.BALANCED: 0.03, Profile.HIGH: 0.01, Profile.SMALL: 0.0},
}
"""What it costs to read values through a codec: a part of their plain size, as if it took so many bytes more."""
_SIZES: Final = {1: Encoding.TRUNCATE_8, 2: Encoding.TRUNCATE_16, 4: Encoding.TRUNCATE_32, 8: Encoding.TRUNCATE_64}


def choose_numeric(values: _Values, profile: Profile) -> Plan:
    """Choose how numbers are encoded.

    Args:
        values: T[n], none of them null.
        profile: What the writer strives for.

    Returns:
        The plan.
    """
    if profile == Profile.PLAIN or not len(values):
        return PLAIN
    words = np.ascontiguousarray(values).view(f"u{values.itemsize}")
    if bool((words == words[0]).all()):
        return _SINGLE
    sample = _sample_numbers(values, _LIGHT_SAMPLE if profile == Profile.FAST else SAMPLE_VALUES)
    best = PLAIN
    best_cost: float = _WORTH * sample.nbytes
    for plan in _candidates(sample, profile):
        stream = encode_numeric(sample, plan, profile)
        cost = len(stream) + _cost_of_reading(plan, sample.nbytes, profile)
        if plan != FRAMED and (plan.encoding, plan.parts) != (Encoding.ALP, (FRAMED,)):
            cost *= _HEAVIER
        if cost < best_cost and stream[0] == plan.encoding:  # otherwise it did not go with the values
            best, best_cost = plan, cost
    return best


def _cost_of_reading(plan: Plan, size: int, profile: Profile) -> float:
    """What is added to the bytes of a plan for `size` bytes of values."""
    used = frozenset(plan.encodings())
    return size * sum(_CODEC_COST[encoding][profile] for encoding in _CODEC_COST if encoding in used)


def _sample_numbers(values: _Values, size: int) -> _Values:
    """Some stretches of neighbours."""
    if len(values) <= size:
        return values
    stretch = size // len(_PLACES)
    starts = (int(place * (len(values) - stretch)) for place in _PLACES)
    return np.concatenate([values[start : start + stretch] for start in starts])


def _candidates(sample: _Values, profile: Profile) -> Iterator[Plan]:
    """Plans worth a try, light ones first."""
    words = sample.view(f"u{sample.itemsize}")
    runs = 1 + int(np.count_nonzero(words[1:] != words[:-1]))
    is_float = sample.dtype.kind == "f"
    if 2 * runs < len(sample):
        yield _FLOAT_RUNS if is_float else _RUNS
    if np.count_nonzero(words) * 16 < len(sample):
        yield _SPARSE
    if not is_float:
        yield FRAMED
        yield _DELTA
    elif profile != Profile.FAST or sample.itemsize == 8:
        yield Plan(Encoding.ALP, (FRAMED,), find_decimals(sample))
    if sample.itemsize > 1 and number_values(sample, min(_MAX_DICTIONARY, len(sample) // 2 + 1)) is not None:
        yield _FLOAT_DICTIONARY if is_float else _DICTIONARY
    if is_float:
        yield _ALP_RD
    if profile == Profile.FAST:
        yield _LZ4
        return
    yield from _deep_candidates(sample, profile)


def _deep_candidates(sample: _Values, profile: Profile) -> Iterator[Plan]:
    """Cascades that end in a codec."""
    yield _ZSTD
    if profile == Profile.BALANCED:
        yield _LZ4
    packed = _ZSTD
    if sample.dtype.kind == "f":
        decimals = find_decimals(sample)
        yield Plan(Encoding.ALP, (_narrowed(4),), decimals)
        yield Plan(Encoding.ALP, (Plan(Encoding.DELTA, (_narrowed(4),)),), decimals)
    elif sample.dtype.kind == "i" and sample.itemsize > 1:
        low, high = int(sample.min()), int(sample.max())
        width = max(low.bit_length(), high.bit_length()) + 1
        if width <= 4 * sample.itemsize:
            yield _narrowed(max(1, 1 << ((width - 1) // 8).bit_length()))
        yield Plan(Encoding.DELTA, (_narrowed(4 if sample.itemsize == 8 else 2),))
    else:
        yield Plan(Encoding.DELTA, (packed,))
    if sample.itemsize > 1:
        yield Plan(Encoding.RUN_LENGTH, (packed, packed))
        yield Plan(Encoding.BLOCK_DICTIONARY, (packed, None))
    if profile == Profile.SMALL:
        yield Plan(Encoding.FRAME_OF_REFERENCE, (packed,))
        yield Plan(Encoding.BLOCK_DICTIONARY, (packed, packed))


def _narrowed(size: int) -> Plan:
    """Signed integers of some bytes (more if they need more), compressed."""
    return Plan(_SIZES[size], (_ZSTD,))


@dataclass(frozen=True, slots=True)
class BinaryChoice:
    """How strings of bytes are encoded.

    Args:
        plan: The plan of each block.
        symbols: For FSST, else None.
    """

    plan: Plan
    symbols: SymbolTable | None = None


def choose_binary(strings: Strings, profile: Profile) -> BinaryChoice:
    """Choose how strings of bytes are encoded.

    Args:
        strings: All of them.
        profile: What the writer strives for.

    Returns:
        The plan, and what it needs.
    """
    if profile == Profile.PLAIN or not strings.count:
        return BinaryChoice(PLAIN)
    sample = sample_strings(strings)
    if not len(sample.data):
        return BinaryChoice(Plan(Encoding.BLOCK_DICTIONARY, (BIT_PACKED,)) if sample.fixed_size is None else PLAIN)
    best = BinaryChoice(PLAIN)
    best_cost: float = _WORTH * len(encode_binary(sample, PLAIN, profile))
    for choice in _binary_candidates(sample, profile):
        size = len(encode_binary(sample, choice.plan, profile, choice.symbols))
        cost = size + _cost_of_reading(choice.plan, len(sample.data), profile)
        if cost < best_cost:
            best, best_cost = choice, cost
    return best


def _binary_candidates(sample: Strings, profile: Profile) -> Iterator[BinaryChoice]:
    # the reference implementation misreads dictionaries of values of one size
    if sample.fixed_size is None and number_spans(sample.data, sample.offsets, sample.count // 2 + 1) is not None:
        yield BinaryChoice(Plan(Encoding.BLOCK_DICTIONARY, (BIT_PACKED, BIT_PACKED)))
    if profile in (Profile.FAST, Profile.BALANCED):
        yield BinaryChoice(Plan(Encoding.LZ4))
    if profile == Profile.BALANCED:
        yield BinaryChoice(Plan(Encoding.FSST), train_fsst(sample.data))
    if profile != Profile.FAST:
        yield BinaryChoice(Plan(Encoding.ZSTD))
    if profile in (Profile.HIGH, Profile.SMALL) and sample.fixed_size is None:
        yield BinaryChoice(Plan(Encoding.ZSTD, (Plan(Encoding.DELTA, (_ZSTD,)),)))


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
