"""Selected positions of a field, as ranges, and where they are among the values of decoded blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Selection"]

_Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Ranges of positions, ascending, apart from each other, and none of them empty.

    Args:
        starts: int64[k], the first position of each range.
        stops: int64[k], the position after the last of each.
        count: How many positions there are in all.
    """

    starts: _Positions
    stops: _Positions
    count: int

    @classmethod
    def range(cls, start: int, stop: int) -> Selection:
        """All positions from `start` to `stop` - 1; none if `stop` is not greater."""
        if stop <= start:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64), 0)
        return cls(np.array([start], np.int64), np.array([stop], np.int64), stop - start)

    @classmethod
    def ranges(cls, starts: _Positions, stops: _Positions) -> Selection:
        """Ranges that ascend and do not overlap; empty ones are left out, and those that touch become one."""
        filled = stops > starts
        if not filled.all():
            starts, stops = starts[filled], stops[filled]
        if len(starts) == 0:
            return cls.range(0, 0)
        apart = starts[1:] > stops[:-1]
        if not apart.all():
            starts, stops = starts[np.append(True, apart)], stops[np.append(apart, True)]
        return cls(starts, stops, int((stops - starts).sum()))

    @classmethod
    def of_positions(cls, positions: npt.NDArray[np.integer]) -> Selection:
        """Positions that ascend and are distinct."""
        first = positions.astype(np.int64, copy=False)
        return cls.ranges(first, first + 1)

    @classmethod
    def of_flags(cls, flags: npt.NDArray[np.bool_], start: int = 0) -> Selection:
        """Positions from `start` on where a flag is set."""
        edges = np.flatnonzero(np.diff(flags.view(np.int8), prepend=0, append=0))
        return cls.ranges(edges[::2] + start, edges[1::2] + start)

    @property
    def is_range(self) -> bool:
        """Whether there is at most one range."""
        return len(self.starts) <= 1

    @property
    def start(self) -> int:
        """The first position; 0 if there is none."""
        return int(self.starts[0]) if len(self.starts) else 0

    @property
    def stop(self) -> int:
        """The position after the last; 0 if there is none."""
        return int(self.stops[-1]) if len(self.stops) else 0

    def is_all_of(self, count: int) -> bool:
        """Whether these are all positions below `count`."""
        return self.count == count

    def positions(self) -> _Positions:
        """All positions, int64[count]."""
        lengths = self.stops - self.starts
        steps = np.ones(self.count, np.int64)
        if self.count:
            heads = np.cumsum(lengths[:-1])
            steps[0] = self.starts[0]
            steps[heads] = self.starts[1:] - self.stops[:-1] + 1
        return np.cumsum(steps)

    def halves(self) -> tuple[Selection, Selection]:
        """The first and the second half."""
        positions = self.positions()
        middle = self.count // 2
        return Selection.of_positions(positions[:middle]), Selection.of_positions(positions[middle:])

    def scaled(self, size: int) -> Selection:
        """The positions of items, where each position has `size` items."""
        return Selection(self.starts * size, self.stops * size, self.count * size)

    def pick(self, flags: npt.NDArray[np.bool_]) -> Selection:
        """Those positions whose flag is set.

        Args:
            flags: bool[count].
        """
        if self.is_range:
            return Selection.of_flags(flags, self.start)
        return Selection.of_positions(self.positions()[flags])

    def narrowed(self, starts: _Positions, stops: _Positions) -> Selection:
        """The positions within ranges that ascend and do not overlap."""
        edges = np.zeros(2 * (len(starts) + len(self.starts)), np.int64)
        change = np.empty(len(edges), np.int64)
        for i, (at, step) in enumerate(((self.starts, 1), (self.stops, -1), (starts, 1), (stops, -1))):
            first = (i // 2) * 2 * len(self.starts) + (i % 2) * len(at)
            edges[first : first + len(at)] = at
            change[first : first + len(at)] = step
        order = np.lexsort((change, edges))  # at one place, ranges end before others begin
        depth = np.cumsum(change[order])
        both = np.flatnonzero(depth[:-1] == 2)
        return Selection.ranges(edges[order][both], edges[order][both + 1])

    def placed(self, blocks: npt.NDArray[np.integer], edges: _Positions) -> Selection:
        """Where the positions are among the values of some blocks.

        Args:
            blocks: Ordinals of the blocks, ascending; they hold all positions.
            edges: int64[k + 1], the first position of each block there is, then the number of positions.

        Returns:
            The same positions, counted within the values of these blocks.
        """
        if len(blocks) == 0:
            return Selection.range(0, 0)
        bases = np.cumsum(edges[blocks + 1] - edges[blocks]) - (edges[blocks + 1] - edges[blocks])
        place = np.searchsorted(blocks, np.searchsorted(edges, self.starts, "right") - 1)
        shift = bases[place] - edges[blocks[place]]
        return Selection.ranges(self.starts + shift, self.stops + shift)

    def take_from(self, array: pa.Array) -> pa.Array:
        """The values at these positions of an array: a slice, or a copy."""
        if self.is_all_of(len(array)):
            return array
        if self.is_range:
            return array.slice(self.start, self.count)
        return array.take(pa.array(self.positions()))
