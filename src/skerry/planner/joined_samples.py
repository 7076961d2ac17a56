"""Joins of the sampled rows of several inputs: how conditions on one go together with those on another.

Statistics of single tables say nothing about that: orders of the last week have no lines that were shipped before, and
a popular value has many rows that refer to it. Where the samples of joined inputs have enough rows that belong
together, the share of them that satisfies all conditions is taken. That is so wherever at most one of the inputs is
large, since samples of small tables have all rows, and the more, the smaller the others are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.table.statistics.histogram import SampledRows, share_within
from skerry.table.statistics.row_sample import ALL_ROWS

if TYPE_CHECKING:
    from skerry.table.predicate import Predicate

__all__ = ["JoinedSamples", "SampledInput"]

_LEAST_ROWS: Final = 64
"""Fewer joined rows of samples say nothing."""
_MOST_ROWS: Final = 1 << 17
"""Of more of them, a random choice is kept."""
_DEVIATIONS: Final = 3.0

_Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SampledInput:
    """The sampled rows of an input that is a table.

    Args:
        sampled: The rows.
        predicate: The conditions on the input that were tested on them, if there are any.
        share: The share of rows that these are estimated to leave.
        row_count: Rows of the table.
        table: The table's name.
    """

    sampled: SampledRows
    predicate: Predicate | None
    share: float
    row_count: float
    table: str

    @cached_property
    def rows(self) -> pa.RecordBatch | None:
        """The rows, if they are a random sample of all rows."""
        return self.sampled.rows if self.sampled.freshness.is_fresh else None

    @cached_property
    def mask(self) -> npt.NDArray[np.bool_] | None:
        """Which rows satisfy the conditions; None if that cannot be tested."""
        if self.rows is None:
            return None
        if self.predicate is None:
            return np.ones(self.rows.num_rows, np.bool_)
        found = self.sampled.mask_of(self.predicate)
        return None if found is None else np.asarray(pc.fill_null(found, False), np.bool_)

    def values_of(self, column: str) -> pa.Array | None:
        """The values of a column in the rows that satisfy the conditions; None if they are not sampled."""
        if self.rows is None or self.mask is None or column not in self.rows.schema.names:
            return None
        return self.rows.column(self.rows.schema.get_field_index(column)).filter(pa.array(self.mask))

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the table are in the sample."""
        return self.sampled.sample is not None and self.sampled.sample.theta == ALL_ROWS

    @property
    def rate(self) -> float:
        """The share of the table's rows that are sampled."""
        count = 0 if self.rows is None else self.rows.num_rows
        return 1.0 if self.is_whole else min(1.0, count / max(self.row_count, 1.0))


@dataclass(frozen=True, eq=False)
class _Joined:
    """Joined rows of samples.

    Args:
        places: For each input, the place of its row in its sample, of every joined row that is kept.
        weight: How many joined rows there are for each that is kept.
    """

    places: Mapping[str, _Places]
    weight: float = 1.0

    @cached_property
    def kept(self) -> int:
        """The joined rows that are kept."""
        return len(next(iter(self.places.values())))

    @property
    def count(self) -> float:
        """All joined rows."""
        return self.kept * self.weight


class JoinedSamples:
    """Corrects estimated sizes of joins by joining samples.

    Args:
        inputs: The inputs that have sampled rows, by name.
        classes: For each class of equated columns, the column by input.
        expected: Estimates the rows that some inputs have when joined, conditions aside.
    """

    def __init__(
        self,
        inputs: Mapping[str, SampledInput],
        classes: Sequence[Mapping[str, str]],
        expected: Callable[[frozenset[str]], float],
    ) -> None:
        self._inputs = inputs
        self._classes = classes
        self._expected = expected
        self._joined: dict[frozenset[str], _Joined | None] = {}
        self._factors: dict[frozenset[str], float] = {}
        self._codes: dict[int, dict[str, _Places] | None] = {}

    def factor(self, names: frozenset[str]) -> float:
        """By what the product of selectivities of conditions and joins has to be multiplied.

        Args:
            names: Inputs.
        """
        if names not in self._factors:
            groups = list(self._groups(names & self._inputs.keys()))
            if len(groups) == 1 and groups[0] == names:
                self._factors[names] = self._of_connected(names)
            else:
                self._factors[names] = math.prod(self.factor(group) for group in groups if len(group) > 1)
        return self._factors[names]

    def _of_connected(self, names: frozenset[str]) -> float:
        if len(names) == 1:
            return 1.0
        inputs = [self._inputs[name] for name in sorted(names)]
        joined = self._rows(names)
        is_whole = all(part.is_whole for part in inputs)
        if joined is None or (joined.kept < _LEAST_ROWS and not is_whole):
            return self._of_parts(names)
        left = np.ones(joined.kept, np.bool_)
        for name, places in joined.places.items():
            mask = self._inputs[name].mask
            assert mask is not None
            left &= mask[places]
        independent, expected = math.prod(part.share for part in inputs), self._expected(names)
        if not independent or not expected:
            return 1.0
        if is_whole:
            return float(left.sum()) * joined.weight / (independent * expected)
        parts = self._of_parts(names) if len(names) > 2 else 1.0
        together = self._together(joined)
        share = share_within(float(left.sum()) / together, joined.kept / together, min(1.0, independent * parts))
        size = 1.0 if len(names) > 2 else self._size(joined, expected)
        return size * share / independent

    def _together(self, joined: _Joined) -> float:
        """How many joined rows count as one, as they have the same row of an input: the design effect of clusters."""
        parts = ((self._inputs[name], places) for name, places in joined.places.items())
        matches = [np.bincount(places) for part, places in parts if not part.is_whole]
        return max((float((found**2).sum() / found.sum()) for found in matches), default=1.0)

    def _of_parts(self, names: frozenset[str]) -> float:
        """The factor of all inputs but the one that is sampled least, times that of this one and the next."""
        if len(names) == 2:
            return 1.0
        for name in sorted(names, key=lambda name: (self._inputs[name].rate, name)):
            rest = names - {name}
            if len(list(self._groups(rest))) == 1:
                pairs = [frozenset((name, other)) for other in rest if self._are_joined(name, other)]
                known = [pair for pair in pairs if self._rows(pair) is not None]
                best = max(known, key=lambda pair: (self._count(pair), sorted(pair)), default=None)
                return self.factor(rest) * (1.0 if best is None else self.factor(best))
        return 1.0

    def _size(self, joined: _Joined, expected: float) -> float:
        """How many times more rows two inputs have joined than estimated, if that cannot be chance."""
        ratio = joined.count / math.prod(self._inputs[name].rate for name in joined.places) / max(expected, 1.0)
        variance = 1 / joined.kept
        for name, places in joined.places.items():
            part = self._inputs[name]
            if part.rows is not None and not part.is_whole:  # rows of one input that have many others come together
                matches = np.bincount(places, minlength=part.rows.num_rows)
                variance += len(matches) * float(matches.var()) / joined.kept**2
        return ratio if abs(math.log(ratio)) > _DEVIATIONS * math.sqrt(variance) else 1.0

    # ---- joining ----

    def _count(self, names: frozenset[str]) -> float:
        joined = self._rows(names)
        return 0.0 if joined is None else joined.count

    def _rows(self, names: frozenset[str]) -> _Joined | None:
        """The joined rows of samples; None if that cannot be known."""
        if names not in self._joined:
            self._joined[names] = self._join(names)
        return self._joined[names]

    def _join(self, names: frozenset[str]) -> _Joined | None:
        inputs = [self._inputs[name] for name in names]
        if any(part.mask is None for part in inputs):
            return None
        partial = [part.table for part in inputs if not part.is_whole]
        if len(set(partial)) < len(partial):
            return None  # two samples of one table are the same rows, which find each other too often
        if len(names) == 1:
            (name,) = names
            rows = self._inputs[name].rows
            assert rows is not None
            return _Joined({name: np.arange(rows.num_rows)})
        for name in sorted(names, reverse=True):
            rest = names - {name}
            if len(list(self._groups(rest))) == 1:
                return self._matched(self._rows(rest), name)
        return None

    def _matched(self, rest: _Joined | None, name: str) -> _Joined | None:
        """Join one more input."""
        if rest is None:
            return None
        left, right = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for number, members in enumerate(self._classes):
            other = next((other for other in members if other in rest.places), None)
            if name not in members or other is None:
                continue
            codes = self._codes_of(number)
            if codes is None:
                return None
            mine, theirs = codes[name], codes[other][rest.places[other]]
            values = max(int(mine.max(initial=0)), int(theirs.max(initial=0))) + 1
            left = np.where((theirs < 0) | (left < 0), -1, left * values + theirs)
            right = np.where((mine < 0) | (right < 0), -2, right * values + mine)
            both = np.unique(np.concatenate((left, right)), return_inverse=True)[1] - 2  # products stay small
            lost = (left < 0, right < 0)
            left, right = np.where(lost[0], -1, both[: len(left)]), np.where(lost[1], -2, both[len(left) :])
        order = np.argsort(right, kind="stable")
        first = np.searchsorted(right[order], left, "left")
        counts = np.searchsorted(right[order], left, "right") - first
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        kept = np.arange(total) if total <= _MOST_ROWS else np.random.default_rng(0).integers(0, total, _MOST_ROWS)
        rows = np.searchsorted(ends, kept, "right")
        mine = order[kept - ends[rows] + counts[rows] + first[rows]]
        found = {other: places[rows] for other, places in rest.places.items()}
        return _Joined({**found, name: mine}, rest.weight * max(1.0, total / _MOST_ROWS))

    def _codes_of(self, number: int) -> dict[str, _Places] | None:
        """Numbers for the values of equated columns, the same for equal ones, -1 for nulls; None if unknown."""
        if number not in self._codes:
            self._codes[number] = self._encode(number)
        return self._codes[number]

    def _encode(self, number: int) -> dict[str, _Places] | None:
        columns: dict[str, Any] = {}
        for name, column in self._classes[number].items():
            rows = self._inputs[name].rows if name in self._inputs else None
            if rows is None:
                continue
            if column not in rows.schema.names:
                return None
            columns[name] = rows.column(rows.schema.get_field_index(column))
        if len({values.type for values in columns.values()}) != 1:
            return None
        whole = pa.chunked_array(list(columns.values())).combine_chunks().dictionary_encode()
        codes = np.asarray(pc.fill_null(whole.indices, -1), np.int64)
        ends = np.cumsum([len(values) for values in columns.values()])
        return dict(zip(columns, np.split(codes, ends[:-1]), strict=True))

    # ---- the graph ----

    def _are_joined(self, first: str, second: str) -> bool:
        return any(first in members and second in members for members in self._classes)

    def _groups(self, names: frozenset[str]) -> Iterator[frozenset[str]]:
        """Inputs that are joined with each other, directly or indirectly."""
        rest = set(names)
        while rest:
            group = {min(rest)}
            while grown := {name for name in rest - group if any(self._are_joined(name, known) for known in group)}:
                group |= grown
            rest -= group
            yield frozenset(group)
