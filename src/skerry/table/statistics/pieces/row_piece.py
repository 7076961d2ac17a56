"""How a sample of rows differs from the one before: the rows that are gone, and those that came.

A sampled row is known by its priority, file and position. Rows that agree in all three, which takes files whose
positions are unknown, go together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from skerry.table.statistics.row_sample import RowSample, united

__all__ = ["ROW_ID", "RowPiece"]

ROW_ID = np.dtype([("priority", "<u4"), ("file", "<u8"), ("position", "<i8")])
"""What a sampled row is known by."""

_Ids = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class RowPiece:
    """What becomes of a sample of rows.

    Args:
        added: Rows that come, the threshold, and the files that are blurred from now on.
        gone_files: Keys of files: no earlier row of them stays, and they are no longer blurred.
        gone_rows: `ROW_ID`[n], earlier rows of other files that go.
    """

    added: RowSample = field(default_factory=RowSample)
    gone_files: frozenset[int] = frozenset()
    gone_rows: _Ids = field(default_factory=lambda: np.empty(0, ROW_ID))

    @classmethod
    def between(cls, before: RowSample, after: RowSample, files: Iterable[int]) -> RowPiece:
        """The difference of two samples.

        Args:
            before: The sample before.
            after: The sample after; its threshold is not higher.
            files: Keys of the files that are described after.
        """
        if after is before:
            return cls(RowSample(after.theta))
        earlier, later = _ids(before.below(after.theta)), _ids(after)
        gone_files = (set(earlier["file"].tolist()) | before.blurred) - set(files)
        gone_files |= before.blurred - after.blurred
        kept = frozenset(earlier.tolist()).intersection(later.tolist())
        stays = np.fromiter((row in kept for row in earlier.tolist()), np.bool_, len(earlier))
        gone = earlier[~stays & ~_of_files(earlier["file"], gone_files)]
        comes = np.fromiter((row not in kept for row in later.tolist()), np.bool_, len(later))
        added = after.only_rows(comes | _of_files(later["file"], gone_files))
        return cls(replace(added, blurred=after.blurred - (before.blurred - gone_files)), frozenset(gone_files), gone)

    @property
    def takes(self) -> bool:
        """Whether earlier rows go, or files are no longer blurred."""
        return bool(self.gone_files) or len(self.gone_rows) > 0

    @property
    def size_bytes(self) -> int:
        """The memory it takes."""
        return self.added.size_bytes + 8 * (len(self.gone_files) + len(self.added.blurred)) + self.gone_rows.nbytes

    def applied_to(self, before: RowSample) -> RowSample:
        """The sample after the change."""
        return united([self._left_of(before.below(self.added.theta)), self.added])

    def then(self, later: RowPiece) -> RowPiece:
        """This change and a later one as one."""
        mine = set(_ids(self.added).tolist())
        of_earlier = [row not in mine for row in later.gone_rows.tolist()]
        gone = [self.gone_rows, later.gone_rows[np.array(of_earlier, np.bool_)]]
        return RowPiece(
            united([later._left_of(self.added), later.added]),
            self.gone_files | later.gone_files,
            np.concatenate(gone),
        )

    def _left_of(self, sample: RowSample) -> RowSample:
        if self.gone_files:
            sample = sample.only_files(lambda file: file not in self.gone_files)
        if not len(self.gone_rows):
            return sample
        gone = set(self.gone_rows.tolist())
        return sample.only_rows(np.fromiter((row not in gone for row in _ids(sample).tolist()), np.bool_, len(sample)))


def _ids(sample: RowSample) -> _Ids:
    """`ROW_ID`[n]: what the rows of a sample are known by."""
    found = np.empty(len(sample), ROW_ID)
    found["priority"], found["file"], found["position"] = sample.priorities, sample.files, sample.positions
    return found


def _of_files(keys: npt.NDArray[np.uint64], files: Iterable[int]) -> npt.NDArray[np.bool_]:
    return np.isin(keys, np.array(list(files), np.uint64))
