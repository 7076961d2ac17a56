"""Which statistics entries of a table's metadata a commit drops, so that metadata does not grow with every snapshot.

Kept are, for every *head*, the newest entry at or before it, and older ones only for columns of which none of the newer
has a blob: that is what engines find that walk back through the history. Heads are the snapshots of branches and tags,
and those from which no other descends: staged ones, and tips from which a branch was rolled back.

What is dropped stays in earlier metadata files, from which a rollback takes it (`skerry.iceberg.statistics.earlier`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.statistics_file import StatisticsFile
from skerry.iceberg.statistics.published import UNREADABLE, open_registered
from skerry.table.rows.schema import leaves
from skerry.table.statistics.pieces.chain import chain_of
from skerry.table.statistics.puffin_regions import decimal_number
from skerry.table.work.remembered import Remembered

__all__ = ["cut_off", "is_continued", "superseded"]

Blobs = frozenset[tuple[str, tuple[int, ...]]]
"""Types and columns of blobs."""

_READS: Final = 16
_CHAINS: Final[Remembered[str, frozenset[int]]] = Remembered(1024)


def superseded(
    base: TableState, snapshot: Snapshot, file: StatisticsFile, chain: Collection[int], *, moves: str | None
) -> list[int]:
    """The snapshots whose entries no head needs once a new snapshot has its own.

    Args:
        base: The state before.
        snapshot: The new snapshot.
        file: Its statistics file.
        chain: The snapshots whose statistics files its samples continue.
        moves: The branch that moves to it; None if it is staged.
    """
    metadata = base.metadata
    known = {one.snapshot_id for one in metadata.snapshots}
    entries = {one.snapshot_id: one for one in metadata.statistics if one.snapshot_id in known}
    if not entries:
        return []
    entries[snapshot.snapshot_id] = file
    parents = {one.snapshot_id: one.parent_snapshot_id for one in (*metadata.snapshots, snapshot)}
    heads = parents.keys() - set(parents.values())
    heads |= {ref.snapshot_id for name, ref in metadata.refs.items() if name != moves}
    columns = {leaf.field_id for leaf in leaves(base.schema)}
    blobs = {number: _blobs(one, columns) for number, one in entries.items()}
    found: dict[int, tuple[int, ...]] = {}
    kept = {number for head in heads for number in _needed(head, parents, blobs, found)} | {*chain}
    if kept >= entries.keys():
        return []
    tops = {found[head][0] for head in heads if found[head]} - {snapshot.snapshot_id}
    chains = _chains_of(base, [entries[number] for number in tops])
    if chains is None:
        return []
    kept.update(*chains.values())
    return [number for number in entries if number not in kept]


def is_continued(base: TableState, snapshot_id: int) -> bool:
    """Whether samples in other statistics files continue those of a snapshot, so that its file must stay as it is."""
    files = base.metadata.statistics
    others = [file for file in files if file.snapshot_id != snapshot_id]
    if len(others) == len(files):
        return False
    chains = _chains_of(base, others, reads=len(others)) or {}
    return any(snapshot_id in chain for chain in chains.values())


def cut_off(base: TableState, expired: Collection[int]) -> list[int]:
    """The snapshots that stay and whose samples continue those of expired ones; the newest of every line."""
    files = [file for file in base.metadata.statistics if file.snapshot_id not in expired]
    chains = _chains_of(base, files, reads=len(files)) or {}
    continued = set().union(*chains.values())
    return [number for number, chain in chains.items() if number not in continued and not chain.isdisjoint(expired)]


def _chains_of(base: TableState, files: Iterable[StatisticsFile], *, reads: int = _READS) -> dict[int, set[int]] | None:
    """The snapshots whose statistics files the samples of some others continue, by the snapshots of these.

    Args:
        base: The table.
        files: The other statistics files.
        reads: How many footers are read at most.

    Returns:
        None if more would have to be read; what was read is remembered. A file that cannot be read continues nothing.
    """
    found = {}
    for file in files:
        known = _CHAINS.find(file.statistics_path)
        if known is None:
            if reads == 0:
                return None
            reads -= 1
            known = _CHAINS.keep(file.statistics_path, _read_chain(base, file))
        found[file.snapshot_id] = set(known)
    return found


def _read_chain(base: TableState, file: StatisticsFile) -> frozenset[int]:
    try:
        links = chain_of(open_registered(base.storage, file))
    except UNREADABLE:
        return frozenset()
    return frozenset(found for link in links if (found := decimal_number(link.name)) is not None)


def _blobs(file: StatisticsFile, columns: set[int]) -> Blobs:
    """What the blobs of a file are about, without columns that were dropped."""
    return frozenset((blob.type, blob.fields) for blob in file.blob_metadata if columns.issuperset(blob.fields))


def _needed(
    head: int, parents: Mapping[int, int | None], blobs: Mapping[int, Blobs], found: dict[int, tuple[int, ...]]
) -> tuple[int, ...]:
    """The entries that a head needs, newest first; `found` has those of snapshots that were looked at before."""
    line: list[int] = []
    at: int | None = head
    while at is not None and at in parents and at not in found:
        found[at] = ()  # so that damaged metadata with a circle comes to an end
        line.append(at)
        at = parents[at]
    needed = found.get(at, ()) if at is not None else ()
    for number in reversed(line):
        if number in blobs:
            kept, seen = [number], set(blobs[number])
            for older in needed:
                if not blobs[older] <= seen:
                    kept.append(older)
                    seen |= blobs[older]
            needed = tuple(kept)
        found[number] = needed
    return found.get(head, ())
