"""Samples that follow changes: a commit writes only what it changes in the samples of the snapshot before.

Pieces are joined like the digits of a binary counter: a new one takes up those before it that are not larger than twice
itself. So the chain of n changes of one row has about log2(n) pieces, and each change is written log2(n) times. What
that writes is bounded by the size of the commit: larger pieces stay apart until there are 32. A whole sample is written
again once the pieces take half of its size, and where the samples have become small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from skerry.puffin import PuffinWriter
from skerry.table.statistics.group_samples import PUBLISHED_HASHES, GroupSamples
from skerry.table.statistics.group_samples_layout import encode_group_samples
from skerry.table.statistics.group_sketches import encode_group_sketches
from skerry.table.statistics.pieces.chain import (
    CHAIN_PROPERTY,
    GONE_PROPERTIES,
    PIECE_PROPERTIES,
    SAMPLE_PROPERTIES,
    SKETCH_PROPERTIES,
    Link,
    SamplePieces,
    chain_text,
)
from skerry.table.statistics.pieces.known_sample import Chain, KnownSample, LaterSamples
from skerry.table.statistics.pieces.layout import encode_gone_rows, encode_sample_piece
from skerry.table.statistics.pieces.sample_piece import SamplePiece
from skerry.table.statistics.puffin_regions import add_region, add_rows
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


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """What a commit changes in the samples of the snapshot before.

    Args:
        before: The earlier parts that stay.
        piece: The new part.
        samples: The samples of the new snapshot.
        sketches: By field id, the smallest hashes of all rows after the commit; None if not known yet.
        exact: The columns whose samples describe exactly the live rows; None if not known yet.
    """

    before: Chain
    piece: SamplePiece
    samples: LaterSamples
    sketches: Mapping[int, CompactSketch] | None
    exact: frozenset[int] | None

    @property
    def names(self) -> tuple[str, ...]:
        """The statistics files that hold the earlier parts, as the table format names them."""
        return tuple(link.name for link in self.before.links)

    def groups(self) -> GroupSamples:
        """The samples of the new snapshot, put together."""
        return self.samples.groups()

    def after(self, link: Link, path: str) -> KnownSample:
        """What the next commit needs, once the piece has been written.

        Args:
            link: The new part.
            path: Its statistics file.
        """
        chain = self.before.continued(link, path, self.piece)
        return KnownSample(chain, self.samples, sketches=self.sketches, exact=self.exact)


def appended(known: KnownSample, change: SampleChange, properties: Mapping[str, str], data_bytes: int) -> Growth | None:
    """What an append adds to samples; None if the change is not only one, or they are to be written whole.

    The samples are not put together for that.

    Args:
        known: The samples before, which a piece may continue.
        change: The change.
        properties: Those of the table.
        data_bytes: Size of the files that the commit adds.
    """
    chain = known.chain
    if not _only_appends(change) or known.samples.base.size_bytes < _LEAST_BYTES:
        return None
    if not all(chain.thetas.keys() <= file.samples.keys() for file in change.added):
        return None
    published, exact, samples = known.published(), known.exact_columns(), known.samples
    piece = SamplePiece.of_files(chain.groups, chain.thetas, chain.rows_theta, change.added, max_groups(properties))
    if not _pays(chain, piece, samples.base.size_bytes, data_bytes):
        return None
    sketches = {
        id_: smallest(union([sketch, *(file.samples[id_].compact for file in change.added)]), PUBLISHED_HASHES)
        for id_, sketch in published.items()
    }
    return Growth(*_joined(chain, piece, data_bytes), samples.then(piece), sketches, exact)


def changed(known: KnownSample, after: TableSample, data_bytes: int) -> Growth | None:
    """What a commit changes in samples; None if they are to be written whole.

    Args:
        known: The samples before, which a piece may continue.
        after: All samples after the commit.
        data_bytes: Size of the files that the commit adds.
    """
    if after.missing_files or after.own.sketches or not after.groups.groups:
        return None
    chain = known.chain
    now_bytes = after.groups.size_bytes
    if now_bytes < _LEAST_BYTES or 2 * now_bytes < chain.whole_bytes:
        return None
    before = known.groups()
    groups = _lowered(after.groups, before)
    piece = None if groups is None else SamplePiece.between(before, groups, chain.thetas)
    if groups is None or piece is None or not _pays(chain, piece, now_bytes, data_bytes):
        return None
    return Growth(*_joined(chain, piece, data_bytes), LaterSamples(groups), None, None)


def add_sample(
    writer: PuffinWriter,
    sample: TableSample | Growth,
    name: str,
    location: str,
    properties: Mapping[str, str],
    schema_id: int,
    last_column_id: int,
) -> KnownSample:
    """Add samples to a statistics file.

    Args:
        writer: The unfinished file; its properties already describe the samples.
        sample: All samples, or what has changed since those before.
        name: The file, as the table format names it.
        location: The file.
        properties: Those of the table.
        schema_id: The schema by which the values were hashed.
        last_column_id: The highest field id of that time.

    Returns:
        What the next commit needs, once the file has been written.
    """
    if isinstance(sample, Growth):
        return sample.after(Link(name, _add_piece(writer, sample, properties)), location)
    checksum = add_region(writer, SAMPLE_PROPERTIES, encode_group_samples(sample.groups))
    has_rows = add_rows(writer, sample.groups.rows, properties)
    if sample.own.sketches:
        add_region(writer, SKETCH_PROPERTIES, encode_group_sketches(sample.own))
    groups = sample.groups if has_rows else replace(sample.groups, rows=None)
    link = Link(name, checksum)
    parts = SamplePieces((link,), groups, (), sample.missing_files, schema_id, last_column_id, sample.own)
    return KnownSample.of(parts, (location,))


def _add_piece(writer: PuffinWriter, growth: Growth, properties: Mapping[str, str]) -> str:
    """Add a piece; returns its checksum."""
    rows = growth.piece.rows
    writer.properties[CHAIN_PROPERTY] = chain_text(growth.before.links)
    checksum = add_region(writer, PIECE_PROPERTIES, encode_sample_piece(growth.piece, growth.before.groups))
    if rows is not None and add_rows(writer, rows.added, properties) and rows.takes:
        add_region(writer, GONE_PROPERTIES, encode_gone_rows(rows))
    return checksum


def _only_appends(change: SampleChange) -> bool:
    others = change.unsampled_files or change.thinned or change.resketched or change.added_groups.groups
    return bool(change.added) and change.only_adds and not change.same_rows and not others


def _lowered(after: GroupSamples, before: GroupSamples) -> GroupSamples | None:
    """Samples with thresholds as low as those before, which no piece can raise; None if half of a sample would go.

    They are higher where files were sampled again, or values are gone.
    """
    columns = {}
    for id_, column in after.columns.items():
        known = before.columns.get(id_)
        columns[id_] = column if known is None else column.below(known.theta)
        if 2 * len(columns[id_].hashes) < len(column.hashes):
            return None
    rows = after.rows
    if rows is not None and before.rows is not None:
        rows = rows.below(before.rows.theta)
        if 2 * len(rows) < len(after.rows or ()):
            return None
    return replace(after, columns=columns, rows=rows)


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


def _file_bytes(piece: SamplePiece) -> int:
    """About what a piece takes in a file."""
    return piece.size_bytes + _PIECE_BYTES
