"""Reading splits of several branches: each with its branch's schemas and options."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from skerry.paimon.planning.splits import Split
from skerry.paimon.reading.rows import SplitReader

__all__ = ["BranchReader"]


@dataclass(frozen=True)
class BranchReader:
    """Reads the rows of splits of several branches; picklable.

    Args:
        readers: One for each branch; their columns are the same.
    """

    readers: tuple[SplitReader, ...]

    def batches(self, splits: Iterable[Split], *, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Read splits in order; see `SplitReader.batches`."""
        left = limit
        for reader, own in self._by_branch(splits):
            for batch in reader.batches(own, limit=left):
                yield batch
                left = None if left is None else left - batch.num_rows
            if left == 0:
                return

    def count(self, splits: Iterable[Split]) -> int:
        """Count the rows of splits; see `SplitReader.count`."""
        return sum(reader.count(own) for reader, own in self._by_branch(splits))

    def _by_branch(self, splits: Iterable[Split]) -> Iterator[tuple[SplitReader, Iterator[Split]]]:
        reader_of = {reader.state.branch: reader for reader in self.readers}
        for branch, own in itertools.groupby(splits, lambda split: split.branch):
            yield reader_of[branch], own
