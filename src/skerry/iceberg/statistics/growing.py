"""Samples that grow by appends: a commit writes only what its files add to the samples of the snapshot before.

Pieces are joined like the digits of a binary counter: a new one takes up those before it that describe no more files
than itself. So the chain of n appends has at most log2(n) pieces, and each sample is written log2(n) times. What that
writes is bounded by the size of the commit: in tables of very many columns, larger pieces stay apart until there are
32. A whole sample is written again once the pieces take half of its size, and where its snapshot could expire soon;
other changes than appends always write a whole one.

What a process has written or read last is remembered, so that its next commit reads no statistics.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.statistics.sample_pieces import (
    ADDED_PROPERTIES,
    CHAIN_PROPERTY,
    SAMPLE_PROPERTIES,
    SKETCH_PROPERTIES,
    Link,
    SamplePieces,
    chain_text,
)
from skerry.iceberg.statistics.samples import keep_pieces, paths_of, read_pieces
from skerry.puffin import PuffinWriter
from skerry.table.statistics.column_sample import ColumnSample
from skerry.table.statistics.group_samples import PUBLISHED_HASHES, GroupSamples
from skerry.table.statistics.group_samples_layout import encode_group_samples
from skerry.table.statistics.group_sketches import encode_group_sketches, group_sketch_bytes
from skerry.table.statistics.puffin_regions import add_region, add_rows
from skerry.table.statistics.table_sample import SampleChange, TableSample, max_groups
from skerry.table.work.remembered import Remembered
from skerry.theta.layout import CompactSketch
from skerry.theta.setops import below, smallest, union

__all__ = ["GrowingSample", "Growth", "add_sample", "growth"]

_LEAST_BYTES: Final = 32 << 10
"""Samples of less are written whole."""
_LEAST_JOINED_BYTES: Final = 256 << 10
"""Pieces up to this size are joined, whatever the size of the commit."""
_COLUMN_BYTES: Final = 48
"""What a column takes in a piece beside its hashes."""
_MOST_PIECES: Final = 32
"""A longer chain is joined, whatever that writes: readers read every piece."""
_MAX_AGE_PROPERTY: Final = "history.expire.max-snapshot-age-ms"
_MAX_AGE_MS: Final = 5 * 86_400_000


@dataclass(frozen=True, slots=True, eq=False)
class GrowingSample:
    """The samples of a snapshot, as far as the next append needs them.

    Args:
        pieces: The samples.
        paths: The statistics files of the parts.
        sketches: By field id, the smallest hashes of all rows, as they would be published.
        exact: The columns whose samples describe exactly the live rows.
    """

    pieces: SamplePieces
    paths: tuple[str, ...]
    sketches: Mapping[int, CompactSketch]
    exact: frozenset[int]

    @property
    def size_bytes(self) -> int:
        """The memory it takes."""
        return self.pieces.size_bytes + sum(sketch.hashes.nbytes for sketch in self.sketches.values())


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """What an append adds to the samples of the snapshot before.

    Args:
        before: The earlier parts that stay.
        paths: The statistics files of these.
        piece: The new part.
        sketches: By field id, the smallest hashes of all rows after the append.
        exact: The columns whose samples describe exactly the live rows.
    """

    before: SamplePieces
    paths: tuple[str, ...]
    piece: GroupSamples
    sketches: Mapping[int, CompactSketch]
    exact: frozenset[int]

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        """The snapshots whose statistics files hold the earlier parts."""
        return tuple(link.snapshot_id for link in self.before.links)

    def after(self, link: Link, path: str) -> GrowingSample:
        """What the next append needs, once the piece has been written.

        Args:
            link: The new part.
            path: Its statistics file.
        """
        old = self.before
        links, added = (*old.links, link), (*old.added, self.piece)
        pieces = SamplePieces(links, old.whole, added, 0, old.schema_id, old.last_column_id)
        return GrowingSample(pieces, (*self.paths, path), self.sketches, self.exact)


_REMEMBERED: Final[Remembered[str, GrowingSample]] = Remembered(
    64, limit_bytes=256 << 20, size_of=lambda sample: sample.size_bytes
)
"""The growing samples that this process used last, by the statistics file of their newest part."""


def _remember(sample: GrowingSample) -> None:
    for path in sample.paths[:-1]:
        _REMEMBERED.forget(path)
    _REMEMBERED.keep(sample.paths[-1], sample)


def growth(base: TableState, parent: Snapshot | None, change: SampleChange, data_bytes: int) -> Growth | None:
    """What a change adds to the samples of the snapshot before; None if a whole sample is to be written.

    Args:
        base: The state before.
        parent: The snapshot before.
        change: The change.
        data_bytes: Size of the files that the commit adds.
    """
    known = _known(base, parent) if parent is not None and _only_appends(change) else None
    if known is None or group_sketch_bytes(base.properties):
        return None
    old, metadata = known.pieces, base.metadata
    is_like_now = (old.schema_id, old.last_column_id) == (metadata.current_schema_id, metadata.last_column_id)
    if not is_like_now or old.missing_files or old.own.sketches or not old.whole.groups:
        return None
    if _may_expire_soon(base, old.links[0]):
        return None
    columns = old.whole.columns
    limit = max_groups(base.properties)
    piece = GroupSamples().with_files(change.added, max_groups=limit)
    if not columns.keys() <= piece.columns.keys():
        return None
    piece = GroupSamples(
        piece.groups,
        {id_: _below(piece.columns[id_], columns[id_].theta) for id_ in columns},
        None if piece.rows is None or old.whole.rows is None else piece.rows.below(old.whole.rows.theta),
    )
    if not _pays(old, piece, data_bytes):
        return None
    links, paths, added = list(old.links), list(known.paths), list(old.added)
    most_bytes = None if len(added) >= _MOST_PIECES else max(_LEAST_JOINED_BYTES, data_bytes // 10)
    while added and _file_count(added[-1]) <= _file_count(piece):
        if most_bytes is not None and _joined_bytes(piece, added[-1]) > most_bytes:
            break
        piece = added.pop().with_groups_of(piece, max_groups=limit)
        del links[-1], paths[-1]
    before = SamplePieces(tuple(links), old.whole, tuple(added), 0, old.schema_id, old.last_column_id)
    sketches = {
        id_: smallest(union([sketch, *(file.samples[id_].compact for file in change.added)]), PUBLISHED_HASHES)
        for id_, sketch in known.sketches.items()
    }
    return Growth(before, tuple(paths), piece, sketches, known.exact)


def add_sample(
    writer: PuffinWriter, state: TableState, location: str, snapshot: Snapshot, sample: TableSample | Growth
) -> Callable[[], None]:
    """Add samples to a statistics file.

    Args:
        writer: The unfinished file.
        state: The table; values were hashed with its current schema.
        location: The file.
        snapshot: The snapshot that the samples describe.
        sample: All of its samples, or what it adds to those before.

    Returns:
        Remembers them for the next commit; to be called once the file has been written.
    """
    metadata = state.metadata
    missing_files = sample.missing_files if isinstance(sample, TableSample) else 0
    values = (snapshot.snapshot_id, metadata.current_schema_id, metadata.last_column_id, missing_files)
    writer.properties |= dict(zip(SAMPLE_PROPERTIES[3:], map(str, values), strict=True))
    if isinstance(sample, Growth):
        writer.properties[CHAIN_PROPERTY] = chain_text(sample.before.links)
        checksum = add_region(writer, ADDED_PROPERTIES, encode_group_samples(sample.piece))
        add_rows(writer, sample.piece.rows, state.properties)
        grown = sample.after(Link(snapshot.snapshot_id, checksum), location)
        return lambda: _remember(grown)
    checksum = add_region(writer, SAMPLE_PROPERTIES, encode_group_samples(sample.groups))
    has_rows = add_rows(writer, sample.groups.rows, state.properties)
    if sample.own.sketches:
        add_region(writer, SKETCH_PROPERTIES, encode_group_sketches(sample.own))
    groups = sample.groups if has_rows else replace(sample.groups, rows=None)
    link = Link(snapshot.snapshot_id, checksum)
    pieces = SamplePieces((link,), groups, (), *values[3:], *values[1:3], sample.own)
    return lambda: keep_pieces(state.storage, (location,), pieces)


def _grown(pieces: SamplePieces, paths: tuple[str, ...], groups: GroupSamples) -> GrowingSample:
    sketches = {id_: groups.sketch(id_).compact for id_ in groups.columns}
    return GrowingSample(pieces, paths, sketches, frozenset(id_ for id_ in groups.columns if groups.is_exact(id_)))


def _known(base: TableState, parent: Snapshot) -> GrowingSample | None:
    """The samples of a snapshot, remembered or read; None if its statistics file has none."""
    file = base.statistics_file(parent.snapshot_id)
    if file is None:
        return None
    found = _REMEMBERED.find(file.statistics_path)
    if found is not None and paths_of(base, found.pieces) == found.paths:
        return found
    pieces = read_pieces(base, parent)
    paths = None if pieces is None else paths_of(base, pieces)
    if pieces is None or paths is None or pieces.whole.size_bytes < _LEAST_BYTES:
        return None
    return _grown(pieces, paths, pieces.groups(max_groups(base.properties)))


def _only_appends(change: SampleChange) -> bool:
    others = change.unsampled_files or change.thinned or change.resketched or change.added_groups.groups
    return bool(change.added) and change.only_adds and not change.same_rows and not others


def _pays(old: SamplePieces, piece: GroupSamples, data_bytes: int) -> bool:
    """Whether a piece is worth it: the whole sample is large, also beside the commit and beside all pieces."""
    whole_bytes = old.whole.size_bytes
    added_bytes = piece.size_bytes + sum(part.size_bytes for part in old.added)
    return whole_bytes >= _LEAST_BYTES and whole_bytes * 10 > data_bytes and 2 * added_bytes <= whole_bytes


def _may_expire_soon(base: TableState, whole: Link) -> bool:
    """Whether half of the time is over after which expiry, of any engine, deletes the file with the whole sample."""
    snapshot = base.metadata.snapshot_by_id(whole.snapshot_id)
    text = base.properties.get(_MAX_AGE_PROPERTY, "").strip()
    age_ms = int(text) if text.isdecimal() else _MAX_AGE_MS
    return snapshot is None or 2 * (time.time() * 1000 - snapshot.timestamp_ms) > age_ms


def _below(column: ColumnSample, theta: int) -> ColumnSample:
    """A column without the hashes that a sample with a lower threshold does not take."""
    if theta >= column.theta:
        return column
    groups = map(column.group, range(len(column.members)))
    return ColumnSample.empty(0).with_groups(
        [CompactSketch(theta, below(group.hashes, theta), False) for group in groups]
    )


def _joined_bytes(first: GroupSamples, second: GroupSamples) -> int:
    """About what both take in a file as one piece."""
    return first.size_bytes + second.size_bytes + _COLUMN_BYTES * len(first.columns)


def _file_count(groups: GroupSamples) -> int:
    return sum(len(group.files) for group in groups.groups)
