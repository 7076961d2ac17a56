"""The samples of an Iceberg snapshot, as the next commit continues them: which may be continued, and for how long.

A piece may continue samples of the present schema that cover all files. The file of the whole sample goes with its
snapshot, whichever engine expires it: so a whole sample is written again where that could be soon.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Final

from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.statistics.published import open_registered
from skerry.puffin import PuffinReader
from skerry.table.statistics.group_sketches import group_sketch_bytes
from skerry.table.statistics.pieces.chain import SAMPLE_PROPERTIES, Link, pieces_of
from skerry.table.statistics.pieces.known_sample import KnownSample, remember, remembered
from skerry.table.statistics.puffin_regions import decimal_number

__all__ = ["continued", "known_sample", "open_statistics"]

_MAX_AGE_PROPERTY: Final = "history.expire.max-snapshot-age-ms"
_MAX_AGE_MS: Final = 5 * 86_400_000


def known_sample(state: TableState, snapshot: Snapshot) -> KnownSample | None:
    """The samples of a snapshot, remembered or read; None if there are none, or if one of the pieces is lost."""
    file = state.statistics_file(snapshot.snapshot_id)
    if file is None:
        return None
    paths_of = functools.partial(_paths, state)
    found = remembered(state.storage, file.statistics_path, paths_of)
    if found is not None:
        return found
    parts = pieces_of(functools.partial(open_statistics, state), str(snapshot.snapshot_id))
    paths = None if parts is None else paths_of(parts.links)
    if parts is None or paths is None:
        return None
    sample = KnownSample.of(parts, paths)
    remember(state.storage, sample)
    return sample


def continued(base: TableState, parent: Snapshot | None) -> KnownSample | None:
    """The samples of a snapshot if a piece may continue them; None if they are to be written whole."""
    known = None if parent is None or group_sketch_bytes(base.properties) else known_sample(base, parent)
    if known is None or known.missing_files or known.own.sketches:
        return None
    chain, metadata = known.chain, base.metadata
    is_like_now = (chain.schema_id, chain.last_column_id) == (metadata.current_schema_id, metadata.last_column_id)
    if not is_like_now or not chain.whole_groups or _may_expire_soon(base, int(chain.links[0].name)):
        return None
    return known


def open_statistics(state: TableState, name: str) -> PuffinReader | None:
    """The statistics file of a snapshot, by its number; None if it has none, or one of another snapshot."""
    snapshot_id = decimal_number(name)
    file = None if snapshot_id is None else state.statistics_file(snapshot_id)
    if file is None:
        return None
    reader = open_registered(state.storage, file)
    return reader if reader.properties.get(SAMPLE_PROPERTIES[3]) == name else None


def _paths(state: TableState, links: Sequence[Link]) -> tuple[str, ...] | None:
    """The statistics files that are registered for the parts of a sample; None if one has none."""
    files = [state.statistics_file(int(link.name)) for link in links]
    paths = tuple(file.statistics_path for file in files if file is not None)
    return paths if len(paths) == len(files) else None


def _may_expire_soon(base: TableState, snapshot_id: int) -> bool:
    """Whether half of the time is over after which expiry, of any engine, deletes the file with the whole sample."""
    snapshot = base.metadata.snapshot_by_id(snapshot_id)
    text = base.properties.get(_MAX_AGE_PROPERTY, "").strip()
    age_ms = int(text) if text.isdecimal() else _MAX_AGE_MS
    return snapshot is None or 2 * (time.time() * 1000 - snapshot.timestamp_ms) > age_ms
