"""Samples that follow changes: a commit writes only what it changes in the samples of the snapshot before.

Pieces are joined like the digits of a binary counter: a new one takes up those before it that are not larger than twice
itself. So the chain of n changes of one row has about log2(n) pieces, and each change is written log2(n) times. What
that writes is bounded by the size of the commit: larger pieces stay apart until there are 32. A whole sample is written
again once the pieces take half of its size, where the samples have become small, and where its snapshot could expire
soon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.statistics.known_samples import Chain, KnownSample, known_sample, remember
from skerry.iceberg.statistics.sample_pieces import (
    CHAIN_PROPERTY,
    GONE_PROPERTIES,
    PIECE_PROPERTIES,
    SAMPLE_PROPERTIES,
    SKETCH_PROPERTIES,
    Link,
    SamplePieces,
    chain_text,
)
from skerry.puffin import PuffinWriter
from skerry.table.statistics.group_samples import PUBLISHED_HASHES, GroupSamples
from skerry.table.statistics.group_samples_layout import encode_group_samples
from skerry.table.statistics.group_sketches import encode_group_sketches, group_sketch_bytes
from skerry.table.statistics.puffin_regions import add_region, add_rows
from skerry.table.statistics.sample_piece import SamplePiece
from skerry.table.statistics.sample_piece_layout import encode_gone_rows, encode_sample_piece
from skerry.table.statistics.table_sample import SampleChange, TableSample, max_groups
from skerry.theta.layout import CompactSketch
from skerry.theta.setops import smallest, union

__all__ = ["Growth", "add_sample", "appended", "changed"]

_LEAST_BYTES: Final = 32 << 10
"""Samples of less are written whole."""
_LEAST_JOINED_BYTES: Final = 256 << 10
"""Pieces up to this size are joined, whatever the size of the commit."""
_PIECE_BYTES: Final = 256
"""What a piece takes beside its hashes and rows."""
_MOST_PIECES: Final = 32
"""A longer chain is joined, whatever that writes: readers read every piece."""
_MAX_AGE_PROPERTY: Final = "history.expire.max-snapshot-age-ms"
_MAX_AGE_MS: Final = 5 * 86_400_000


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """What a commit changes in the samples of the snapshot before.

    Args:
        before: The earlier parts that stay.
        piece: The new part.
        base: Samples of the new snapshot, or of an earlier one.
        later: What has changed since that one.
        sketches: By field id, the smallest hashes of all rows after the commit; None if not known yet.
        exact: The columns whose samples describe exactly the live rows; None if not known yet.
    """

    before: Chain
    piece: SamplePiece
    base: GroupSamples
    later: SamplePiece | None
    sketches: Mapping[int, CompactSketch] | None
    exact: frozenset[int] | None

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        """The snapshots whose statistics files hold the earlier parts."""
        return tuple(link.snapshot_id for link in self.before.links)

    def after(self, link: Link, path: str) -> KnownSample:
        """What the next commit needs, once the piece has been written.

        Args:
            link: The new part.
            path: Its statistics file.
        """
        chain = self.before.continued(link, path, self.piece)
        return KnownSample(chain, self.base, self.later, sketches=self.sketches, exact=self.exact)


def appended(base: TableState, parent: Snapshot | None, change: SampleChange, data_bytes: int) -> Growth | None:
    """What an append adds to the samples of the snapshot before; None if more than files is to be added.

    The samples are not put together for that.

    Args:
        base: The state before.
        parent: The snapshot before.
        change: The change.
        data_bytes: Size of the files that the commit adds.
    """
    known = _continued(base, parent) if _only_appends(change) else None
    if known is None or known.base.size_bytes < _LEAST_BYTES:
        return None
    chain = known.chain
    if not all(chain.thetas.keys() <= file.samples.keys() for file in change.added):
        return None
    published, exact = known.published(), known.exact_columns()
    limit = max_groups(base.properties)
    piece = SamplePiece.of_files(chain.groups, chain.thetas, chain.rows_theta, change.added, limit)
    later = piece if known.later is None else known.later.then(piece)
    if not _pays(chain, piece, known.base.size_bytes, data_bytes):
        return None
    sketches = {
        id_: smallest(union([sketch, *(file.samples[id_].compact for file in change.added)]), PUBLISHED_HASHES)
        for id_, sketch in published.items()
    }
    return Growth(*_joined(chain, piece, data_bytes), known.base, later, sketches, exact)


def changed(base: TableState, parent: Snapshot | None, after: TableSample, data_bytes: int) -> Growth | None:
    """What a commit changes in the samples of the snapshot before; None if they are to be written whole.

    Args:
        base: The state before.
        parent: The snapshot before.
        after: All samples after the commit.
        data_bytes: Size of the files that the commit adds.
    """
    known = _continued(base, parent)
    if known is None or after.missing_files or after.own.sketches or not after.groups.groups:
        return None
    chain = known.chain
    now_bytes = after.groups.size_bytes
    if now_bytes < _LEAST_BYTES or 2 * now_bytes < chain.whole_bytes:
        return None
    piece = SamplePiece.between(known.groups(), after.groups, chain.thetas)
    if piece is None or not _pays(chain, piece, now_bytes, data_bytes):
        return None
    return Growth(*_joined(chain, piece, data_bytes), after.groups, None, None, None)


def add_sample(
    writer: PuffinWriter, state: TableState, location: str, snapshot: Snapshot, sample: TableSample | Growth
) -> Callable[[], None]:
    """Add samples to a statistics file.

    Args:
        writer: The unfinished file.
        state: The table; values were hashed with its current schema.
        location: The file.
        snapshot: The snapshot that the samples describe.
        sample: All of its samples, or what has changed since those before.

    Returns:
        Remembers them for the next commit; to be called once the file has been written.
    """
    metadata = state.metadata
    missing_files = sample.missing_files if isinstance(sample, TableSample) else 0
    values = (snapshot.snapshot_id, metadata.current_schema_id, metadata.last_column_id, missing_files)
    writer.properties |= dict(zip(SAMPLE_PROPERTIES[3:], map(str, values), strict=True))
    if isinstance(sample, Growth):
        known = sample.after(Link(snapshot.snapshot_id, _add_piece(writer, state, sample)), location)
        return lambda: remember(state.storage, known)
    checksum = add_region(writer, SAMPLE_PROPERTIES, encode_group_samples(sample.groups))
    has_rows = add_rows(writer, sample.groups.rows, state.properties)
    if sample.own.sketches:
        add_region(writer, SKETCH_PROPERTIES, encode_group_sketches(sample.own))
    groups = sample.groups if has_rows else replace(sample.groups, rows=None)
    link = Link(snapshot.snapshot_id, checksum)
    parts = SamplePieces((link,), groups, (), *values[3:], *values[1:3], sample.own)
    return lambda: remember(state.storage, KnownSample.of(parts, (location,), len(groups.groups)))


def _add_piece(writer: PuffinWriter, state: TableState, growth: Growth) -> str:
    """Add a piece; returns its checksum."""
    rows = growth.piece.rows
    writer.properties[CHAIN_PROPERTY] = chain_text(growth.before.links)
    checksum = add_region(writer, PIECE_PROPERTIES, encode_sample_piece(growth.piece, growth.before.groups))
    if rows is not None and add_rows(writer, rows.added, state.properties) and rows.takes:
        add_region(writer, GONE_PROPERTIES, encode_gone_rows(rows))
    return checksum


def _continued(base: TableState, parent: Snapshot | None) -> KnownSample | None:
    """The samples of a snapshot if a piece may continue them: in files that stay for a while, of the schema of now."""
    known = None if parent is None or group_sketch_bytes(base.properties) else known_sample(base, parent)
    if known is None or known.missing_files or known.own.sketches:
        return None
    chain, metadata = known.chain, base.metadata
    is_like_now = (chain.schema_id, chain.last_column_id) == (metadata.current_schema_id, metadata.last_column_id)
    if not is_like_now or not chain.whole_groups or _may_expire_soon(base, chain.links[0]):
        return None
    return known


def _only_appends(change: SampleChange) -> bool:
    others = change.unsampled_files or change.thinned or change.resketched or change.added_groups.groups
    return bool(change.added) and change.only_adds and not change.same_rows and not others


def _pays(chain: Chain, piece: SamplePiece, now_bytes: int, data_bytes: int) -> bool:
    """Whether a piece is worth it: the samples are large beside the commit, and larger than all pieces."""
    added_bytes = sum(part.size_bytes for part in (*chain.pieces, piece))
    return now_bytes * 10 > data_bytes and 2 * added_bytes <= chain.whole_bytes


def _joined(chain: Chain, piece: SamplePiece, data_bytes: int) -> tuple[Chain, SamplePiece]:
    """The parts that stay, and the new one, which takes up those before it that are small."""
    pieces = list(chain.pieces)
    most_bytes = None if len(pieces) >= _MOST_PIECES else max(_LEAST_JOINED_BYTES, data_bytes // 10)
    while pieces and _file_bytes(pieces[-1]) <= 2 * _file_bytes(piece):
        if most_bytes is not None and _file_bytes(piece) + _file_bytes(pieces[-1]) > most_bytes:
            break
        piece = pieces.pop().then(piece)
    return chain.cut(1 + len(pieces)), piece


def _may_expire_soon(base: TableState, whole: Link) -> bool:
    """Whether half of the time is over after which expiry, of any engine, deletes the file with the whole sample."""
    snapshot = base.metadata.snapshot_by_id(whole.snapshot_id)
    text = base.properties.get(_MAX_AGE_PROPERTY, "").strip()
    age_ms = int(text) if text.isdecimal() else _MAX_AGE_MS
    return snapshot is None or 2 * (time.time() * 1000 - snapshot.timestamp_ms) > age_ms


def _file_bytes(piece: SamplePiece) -> int:
    """About what a piece takes in a file."""
    return piece.size_bytes + _PIECE_BYTES
