"""Which statistics entries of a table's metadata a commit drops, so that metadata does not grow with every snapshot.

Kept are, for every *head*, the newest entry at or before it, and older ones only for columns of which none of the newer
has a blob: that is what engines find that walk back through the history. Heads are the snapshots of branches and tags,
and those from which no other descends: staged ones, and tips from which a branch was rolled back.

What is dropped stays in earlier metadata files, from which a rollback takes it (`skerry.iceberg.statistics.earlier`).
"""

from __future__ import annotations

from collections.abc import Mapping

from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.statistics_file import StatisticsFile
from skerry.table.rows.schema import leaves

__all__ = ["superseded"]

Blobs = frozenset[tuple[str, tuple[int, ...]]]
"""Types and columns of blobs."""


def superseded(base: TableState, snapshot: Snapshot, file: StatisticsFile, *, moves: str | None) -> list[int]:
    """The snapshots whose entries no head needs once a new snapshot has its own.

    Args:
        base: The state before.
        snapshot: The new snapshot.
        file: Its statistics file.
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
    kept = {number for head in heads for number in _needed(head, parents, blobs, found)}
    return [number for number in entries if number not in kept]


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
