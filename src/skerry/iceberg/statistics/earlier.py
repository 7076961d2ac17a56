"""Statistics that earlier metadata files name and the newest does not: entries that were thinned or replaced.

A branch that moves back to a snapshot gets its statistics again, in a new file, so that they are as fresh as on the day
of that snapshot's commit.

Spec: Iceberg spec, Table Metadata Fields, Table Statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from skerry.errors import SkerryError
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.statistics_file import StatisticsFile
from skerry.iceberg.metadata.stray_metadata import decode_json, read_table_metadata
from skerry.iceberg.statistics.published import extendable_sketches
from skerry.iceberg.statistics.samples import read_sample
from skerry.storage import Storage
from skerry.table.statistics.column_statistics import SketchPolicy
from skerry.table.statistics.table_sample import TableSample
from skerry.table.table_files import FileKind, TableFile
from skerry.theta import ThetaSketch

__all__ = ["earlier_statistics", "restored", "statistics_named_by"]

_UNREADABLE = (SkerryError, OSError, EOFError, ValueError, KeyError, TypeError, AttributeError)
_LOOKED_AT = 8


def statistics_named_by(storage: Storage, metadata_location: str) -> tuple[tuple[int, TableFile], ...] | None:
    """The statistics files that a metadata file names, each with its snapshot; None if it cannot be read."""
    try:
        return tuple(map(_file, decode_json(storage.read(metadata_location)).get("statistics") or ()))
    except _UNREADABLE:
        return None


def _file(entry: Mapping[str, Any]) -> tuple[int, TableFile]:
    size = entry["file-size-in-bytes"]
    return entry["snapshot-id"], TableFile(entry["statistics-path"] + "", FileKind.STATISTICS, size)


def earlier_statistics(state: TableState) -> Iterator[tuple[int, TableFile]]:
    """The statistics files that earlier metadata files name, each with its snapshot, possibly several times.

    Metadata files that cannot be read are skipped; files named only by them are left to orphan removal.
    """
    for entry in state.metadata.metadata_log:
        yield from statistics_named_by(state.storage, entry.metadata_file) or ()


def restored(state: TableState, snapshot: Snapshot) -> tuple[dict[int, ThetaSketch], TableSample | None]:
    """The sketches and samples that a snapshot without statistics once had; nothing if they are no longer there.

    They are looked for in the metadata files since the snapshot's commit, in which the oldest is the likeliest.
    """
    if state.statistics_file(snapshot.snapshot_id) is not None:
        return {}, None
    if not SketchPolicy.from_properties(state.properties).enabled:
        return {}, None
    log = [entry for entry in state.metadata.metadata_log if entry.timestamp_ms >= snapshot.timestamp_ms]
    for entry in log[:_LOOKED_AT]:
        try:
            statistics: tuple[StatisticsFile, ...] = read_table_metadata(state.storage, entry.metadata_file).statistics
            if not any(file.snapshot_id == snapshot.snapshot_id for file in statistics):
                continue
            then = replace(state, metadata=replace(state.metadata, statistics=statistics))
            return extendable_sketches(then, snapshot), read_sample(then, snapshot)
        except SkerryError:
            continue
    return {}, None
