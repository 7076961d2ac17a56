"""A piece of samples: how those of a snapshot differ from those before, whatever the change was.

A piece names the groups after the change, and for each of them the groups before whose hashes it has: none for a new
group, one for a group that stays, several for groups that were merged. Beside that it holds only the hashes whose
groups are not those. So applying a piece repeats no decision of the change, and several pieces are joined without the
samples that they belong to.

A piece of an append is made without these samples as well: hashes are added to its new groups, and the samples then
have more hashes than they keep. They are cut when they are put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from skerry.table.statistics.column_sample import SAMPLE_HASHES, ColumnSample, distinct, gaps, narrowed, widened
from skerry.table.statistics.file_groups import FileGroup, SketchedFile, key_of
from skerry.table.statistics.group_samples import GroupSamples, groups_with, rows_of_files
from skerry.table.statistics.pieces.row_piece import RowPiece
from skerry.theta.layout import MAX_THETA
from skerry.theta.setops import below

__all__ = ["ChangedHashes", "SamplePiece"]

_Bits: TypeAlias = npt.NDArray[np.bool_]
_Packed: TypeAlias = npt.NDArray[np.uint8]
_Ids: TypeAlias = npt.NDArray[np.int32]
_Hashes: TypeAlias = npt.NDArray[np.uint64]
Sources: TypeAlias = tuple[tuple[int, ...], ...]

_COMPARED_COLUMNS = 4


@dataclass(frozen=True, slots=True, eq=False)
class ChangedHashes:
    """The hashes of all columns whose groups are not those of the sources of these.

    Args:
        field_ids: int32[n], ascending.
        values: uint64[n], the hashes; ascending within a column.
        replaced: bool[n], whether the hash is in exactly the groups of `members`, otherwise in these besides.
        members: uint8[n, ceil(groups / 8)], bit g of row i (least significant first) for hash i in group g.
    """

    field_ids: _Ids
    values: _Hashes
    replaced: _Bits
    members: _Packed

    @classmethod
    def none(cls, groups: int) -> ChangedHashes:
        """No hashes."""
        return cls.of([], groups)

    @classmethod
    def of(cls, columns: Sequence[tuple[int, _Hashes, _Bits, _Bits]], groups: int) -> ChangedHashes:
        """From columns by ascending field id: its hashes, whether they are replaced, and bool[n, groups] members."""
        if not columns:
            nothing = np.empty((0, (groups + 7) // 8), np.uint8)
            return cls(np.empty(0, np.int32), np.empty(0, np.uint64), np.empty(0, np.bool_), nothing)
        return cls(
            np.repeat(np.array([column[0] for column in columns], np.int32), [len(column[1]) for column in columns]),
            np.concatenate([column[1] for column in columns]),
            np.concatenate([column[2] for column in columns]),
            _pack(np.concatenate([column[3] for column in columns])),
        )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def size_bytes(self) -> int:
        """The memory they take."""
        return self.field_ids.nbytes + self.values.nbytes + self.replaced.nbytes + self.members.nbytes

    def column(self, field_id: int) -> slice:
        """The rows of a column."""
        first, stop = np.searchsorted(self.field_ids, [field_id, field_id + 1])
        return slice(int(first), int(stop))

    def at(self, rows: npt.NDArray[np.int64] | _Bits) -> ChangedHashes:
        """Some of the hashes."""
        return ChangedHashes(self.field_ids[rows], self.values[rows], self.replaced[rows], self.members[rows])

    def regrouped(self, sources: Sources, before: int) -> ChangedHashes:
        """The hashes in the groups that were made from those before."""
        if _stays(sources, before):
            return self
        members = _pack(_regrouped(_unpack(self.members, before).T, sources).T)
        return ChangedHashes(self.field_ids, self.values, self.replaced, members)

    def then(self, later: ChangedHashes) -> ChangedHashes:
        """Of the same groups: these changes and later ones."""
        if not len(self) or not len(later):
            return later if not len(self) else self
        ids = np.concatenate([self.field_ids, later.field_ids])
        values = np.concatenate([self.values, later.values])
        order = np.lexsort((values, ids))  # stable: the earlier of two equal ones comes first
        ids, values = ids[order], values[order]
        replaced = np.concatenate([self.replaced, later.replaced])[order]
        members = np.concatenate([self.members, later.members])[order]
        is_first = np.zeros(len(ids), np.bool_)
        np.logical_and(ids[1:] == ids[:-1], values[1:] == values[:-1], out=is_first[:-1])
        firsts = np.flatnonzero(is_first)
        adds = firsts[~replaced[firsts + 1]]
        members[adds + 1] |= members[adds]
        replaced[adds + 1] = replaced[adds]
        return ChangedHashes(ids, values, replaced, members).at(~is_first)

    def below(self, thetas: Mapping[int, int], dropped: frozenset[int]) -> ChangedHashes:
        """Without hashes that no sample can have any more, or that say nothing."""
        says = self.replaced | self.members.any(axis=1)
        if dropped:
            says &= ~np.isin(self.field_ids, np.array(list(dropped), np.int32))
        ids, starts = np.unique(self.field_ids, return_index=True)
        limits = np.array([thetas.get(id_, MAX_THETA) for id_ in ids.tolist()], np.uint64)
        if len(ids):
            says &= self.values < np.repeat(limits, np.diff(starts, append=len(self)))
        return self if says.all() else self.at(says)


@dataclass(frozen=True, slots=True, eq=False)
class SamplePiece:
    """How samples differ from those before.

    Args:
        groups: The groups after the change.
        sources: For each of them, the rows of the groups before whose hashes it has.
        thetas: By field id, thresholds that may be lower than before.
        dropped: Field ids of the columns that are no longer sampled.
        hashes: Those that are in other groups than their sources' ones.
        rows: What becomes of the sampled rows; None if there is no sample of rows.
    """

    groups: tuple[FileGroup, ...]
    sources: Sources
    thetas: Mapping[int, int]
    dropped: frozenset[int]
    hashes: ChangedHashes
    rows: RowPiece | None = field(default_factory=RowPiece)

    @classmethod
    def between(
        cls, before: GroupSamples, after: GroupSamples, thetas: Mapping[int, int] | None = None
    ) -> SamplePiece | None:
        """The difference of two samples; None if it cannot be said as one.

        Args:
            before: The samples before.
            after: The samples after.
            thetas: The thresholds before, as earlier pieces say them: those of `before` may be lower, which was cut.
        """
        known = before.columns
        if not after.columns.keys() <= known.keys() or (before.rows is None) != (after.rows is None):
            return None
        if any(column.theta > known[id_].theta for id_, column in after.columns.items()):
            return None
        sources = _likely_sources(before, after)
        stays = _stays(sources, len(before.groups))
        said = {id_: column.theta for id_, column in known.items()} if thetas is None else thetas
        found = []
        for id_ in sorted(after.columns):
            changed = _changed(known[id_], after.columns[id_], sources, stays=stays)
            if changed is not None:
                found.append((id_, *changed))
        rows = None
        if before.rows is not None and after.rows is not None:
            if after.rows.theta > before.rows.theta:
                return None
            rows = RowPiece.between(before.rows, after.rows, after.files)
        return cls(
            after.groups,
            sources,
            {id_: column.theta for id_, column in after.columns.items() if column.theta < said[id_]},
            frozenset(known.keys() - after.columns.keys()),
            ChangedHashes.of(found, len(after.groups)),
            rows,
        )

    @classmethod
    def of_files(
        cls,
        groups: Sequence[FileGroup],
        thetas: Mapping[int, int],
        rows_theta: int | None,
        files: Sequence[SketchedFile],
        max_groups: int,
    ) -> SamplePiece:
        """What files add to samples, of which only the groups and thresholds are needed.

        Args:
            groups: The groups before.
            thetas: The threshold of every column; the files are sampled for all of them.
            rows_theta: The threshold of sampled rows; None if there are none.
            files: The files.
            max_groups: More groups than this are merged.
        """
        after = groups_with(groups, files, max_groups)
        places = {file: row for row, group in enumerate(after) for file in group.files}
        into = [places[key_of(file.location)] for file in files]
        found, fallen = [], {}
        for id_ in sorted(thetas):
            parts = [file.samples[id_].compact for file in files]
            theta = min(thetas[id_], *(part.theta for part in parts))
            if theta < thetas[id_]:
                fallen[id_] = theta
            found.append((id_, *_of_parts([below(part.hashes, theta) for part in parts], into, len(after))))
        rows = None if rows_theta is None else RowPiece(rows_of_files(files).below(rows_theta))
        hashes = ChangedHashes.of(found, len(after))
        return cls(after, _sources(groups, after), fallen, frozenset(), hashes, rows)

    @classmethod
    def of_groups(cls, groups: Sequence[FileGroup], added: GroupSamples, columns: Iterable[int]) -> SamplePiece:
        """What the samples of added files add, as version 1 of pieces holds them.

        Args:
            groups: The groups before.
            added: The samples of the added files.
            columns: Field ids of the columns before.
        """
        after = (*groups, *added.groups)
        found = []
        for id_ in sorted(added.columns):
            sample = added.columns[id_]
            members = np.zeros((len(sample.hashes), len(after)), np.bool_)
            members[:, len(groups) :] = _unpack(sample.members, len(sample.hashes)).T
            found.append((id_, sample.hashes, np.zeros(len(sample.hashes), np.bool_), members))
        return cls(
            after,
            (*((row,) for row in range(len(groups))), *(() for _ in added.groups)),
            {id_: sample.theta for id_, sample in added.columns.items()},
            frozenset(columns) - added.columns.keys(),
            ChangedHashes.of(found, len(after)),
            None if added.rows is None else RowPiece(added.rows),
        )

    @property
    def size_bytes(self) -> int:
        """The memory that its hashes and rows take."""
        return self.hashes.size_bytes + (0 if self.rows is None else self.rows.size_bytes)

    def then(self, later: SamplePiece) -> SamplePiece:
        """This change and a later one as one."""
        mine = self.hashes.regrouped(later.sources, len(self.groups))
        thetas = {
            id_: min(self.thetas.get(id_, MAX_THETA), later.thetas.get(id_, MAX_THETA))
            for id_ in self.thetas.keys() | later.thetas.keys()
        }
        dropped = self.dropped | later.dropped
        return SamplePiece(
            later.groups,
            tuple(tuple(sorted({old for row in rows for old in self.sources[row]})) for rows in later.sources),
            thetas,
            dropped,
            mine.then(later.hashes).below(thetas, dropped),
            None if self.rows is None or later.rows is None else self.rows.then(later.rows),
        )

    def applied_to(self, before: GroupSamples) -> GroupSamples:
        """The samples after the change."""
        stays = _stays(self.sources, len(before.groups))
        columns = {
            id_: self._column(id_, column, stays=stays)
            for id_, column in before.columns.items()
            if id_ not in self.dropped
        }
        rows = None if before.rows is None or self.rows is None else self.rows.applied_to(before.rows)
        after = GroupSamples(self.groups, columns, rows)
        return after.with_columns(columns) if self.dropped else after

    def _column(self, field_id: int, column: ColumnSample, *, stays: bool) -> ColumnSample:
        changed = self.hashes.column(field_id)
        theta = min(column.theta, self.thetas.get(field_id, MAX_THETA))
        if not self.groups:
            return ColumnSample.empty(0)
        if theta == column.theta and stays and changed.start == changed.stop:
            return column
        hashes = below(column.hashes, theta)
        bits = _unpack(column.members, len(hashes))
        bits = bits if stays else _regrouped(bits, self.sources)
        values = below(self.hashes.values[changed], theta)
        changed = slice(changed.start, changed.start + len(values))
        members = _unpack(self.hashes.members[changed], len(self.groups))
        bits, hashes = widened(bits, gaps(hashes, values)), distinct([hashes, values])
        at = np.searchsorted(hashes, values)
        bits[:, at] = (members | (bits[:, at].T & ~self.hashes.replaced[changed, None])).T
        held: _Bits = np.any(bits, axis=0)
        if int(np.count_nonzero(held)) > SAMPLE_HASHES:
            stop = int(np.flatnonzero(held)[SAMPLE_HASHES])
            theta, hashes, bits, held = int(hashes[stop]), hashes[:stop], bits[:, :stop], held[:stop]
        return ColumnSample(theta, hashes[held], _pack(narrowed(bits, np.flatnonzero(~held))))


def _stays(sources: Sources, before: int) -> bool:
    """Whether every group stays where it was."""
    return len(sources) == before and all(rows == (row,) for row, rows in enumerate(sources))


def _regrouped(bits: _Bits, sources: Sources) -> _Bits:
    """In which groups hashes are that were made from others: bool[before, n] to bool[after, n]."""
    made = np.zeros((len(sources), bits.shape[1]), np.bool_)
    single = [row for row, rows in enumerate(sources) if len(rows) == 1]
    made[single] = bits[[sources[row][0] for row in single]]
    for row, rows in enumerate(sources):
        if len(rows) > 1:
            made[row] = bits[list(rows)].any(axis=0)
    return made


def _sources(before: Sequence[FileGroup], after: Sequence[FileGroup]) -> Sources:
    """For each group, those before that had some of its files; where that is not right, hashes are changed."""
    same = {id(group): row for row, group in enumerate(before)}
    others = [group for group in after if id(group) not in same]
    wanted = {key for group in others for key in group.files}
    places = {key: row for row, group in enumerate(before) for key in group.files.keys() & wanted}
    return tuple(
        (row,)
        if (row := same.get(id(group))) is not None
        else tuple(sorted({places[key] for key in group.files.keys() & places.keys()}))
        for group in after
    )


def _likely_sources(before: GroupSamples, after: GroupSamples) -> Sources:
    """As `_sources`; new groups that have mostly the hashes of groups that lost files are made of these.

    So rewriting a file costs no more than what changes in it.
    """
    sources = _sources(before.groups, after.groups)
    left = after.files.keys()
    lost = [row for row, group in enumerate(before.groups) if not group.files.keys() <= left]
    largest = sorted(after.columns, key=lambda id_: -len(after.columns[id_].hashes))[:_COMPARED_COLUMNS]
    found = []
    for row, rows in enumerate(sources):
        places = after.groups[row].partitions
        likely = () if rows else tuple(old for old in lost if places & before.groups[old].partitions)
        found.append(likely if likely and _is_alike(before, likely, after, row, largest) else rows)
    return tuple(found)


def _is_alike(before: GroupSamples, rows: Sequence[int], after: GroupSamples, row: int, columns: Iterable[int]) -> bool:
    """Whether most hashes of a group are those of some groups before, in some columns."""
    differing = count = 0
    for id_ in columns:
        column = after.columns[id_]
        new = column.group(row).hashes
        differing += len(np.setxor1d(new, below(before.columns[id_].union(list(rows)).hashes, column.theta), True))
        count += len(new)
    return differing < count


def _changed(
    before: ColumnSample, after: ColumnSample, sources: Sources, *, stays: bool
) -> tuple[_Hashes, _Bits, _Bits] | None:
    """The hashes whose groups are not those of their sources: them, whether replaced, and bool[n, groups] members.

    Args:
        before: The column before.
        after: The column after.
        sources: Of the groups after.
        stays: Whether all groups stay where they were.
    """
    if not sources or (before is after and stays):
        return None
    earlier, hashes = below(before.hashes, after.theta), after.hashes
    if len(earlier) == len(hashes) and np.array_equal(earlier, hashes):
        was = before.members[:, : (len(hashes) + 7) // 8]
        was = was if stays else np.stack([np.bitwise_or.reduce(was[list(rows)], axis=0) for rows in sources])
        rows = np.flatnonzero(_unpack(np.bitwise_or.reduce(was ^ after.members, axis=0), len(hashes)))
        values, old, new = hashes[rows], _bits_at(was, rows), _bits_at(after.members, rows)
    else:
        values = distinct([earlier, hashes])
        bits = _unpack(before.members, len(earlier))
        wider = widened(bits if stays else _regrouped(bits, sources), gaps(earlier, values))
        later = widened(_unpack(after.members, len(hashes)), gaps(hashes, values))
        rows = np.flatnonzero((wider != later).any(axis=0))
        values, old, new = values[rows], wider[:, rows].T, later[:, rows].T
    if not len(values):
        return None
    replaced: _Bits = np.any(old & ~new, axis=1)
    return values, replaced, new & (replaced[:, None] | ~old)


def _bits_at(members: _Packed, rows: npt.NDArray[np.int64]) -> _Bits:
    """bool[n, groups]: the groups of some hashes."""
    return ((members[:, rows >> 3] >> (rows & 7).astype(np.uint8)) & 1).T.astype(np.bool_)


def _of_parts(parts: Sequence[_Hashes], groups: Sequence[int], count: int) -> tuple[_Hashes, _Bits, _Bits]:
    """The hashes of files, each in one group, as changes of a column."""
    values = parts[0] if len(parts) == 1 else distinct(parts)
    members = np.zeros((len(values), count), np.bool_)
    for part, group in zip(parts, groups, strict=True):
        members[np.searchsorted(values, part), group] = True
    return values, np.zeros(len(values), np.bool_), members


def _unpack(bits: _Packed, count: int) -> _Bits:
    return np.unpackbits(bits, axis=-1, count=count, bitorder="little").view(np.bool_)


def _pack(bits: _Bits) -> _Packed:
    return np.packbits(bits, axis=-1, bitorder="little")
