"""Checks of a table's health: from its metadata, what slows it down or wastes space, and the call that mends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.storage import file_key
from skerry.table.inspection.inspect import Inspect
from skerry.table.inspection.partitions import number_groups
from skerry.table.inspection.upkeep import Upkeep
from skerry.table.reachability import DEFAULT_GRACE_DAYS, ReachableTable
from skerry.table.records import Record, Records
from skerry.table.statistics.column_statistics import Freshness, FreshnessState
from skerry.table.work.quantities import count, size

__all__ = ["Finding", "Findings", "check_health", "check_orphans"]

_DELETED_SHARE: Final = 0.1
_SKEW: Final = 10.0
_MANIFESTS: Final = 100
_METADATA_BYTES: Final = 16_000_000
_METADATA_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True)
class Finding(Record):
    """The result of one check of a table's health.

    Args:
        check: Its name, such as `small_files`.
        number: What was measured.
        unit: Of the number: `files`, `columns`, `snapshots`, `manifests`, `bytes`, or `ratio`.
        limit: The largest number that is well.
        detail: What was found, for people.
        why: Why it matters.
        call: What mends it, as Python code about `table`.
    """

    check: str
    number: float
    unit: str
    limit: float
    detail: str
    why: str
    call: str

    @property
    def ok(self) -> bool:
        """Whether the number is within its limit, so that nothing need be done."""
        return self.number <= self.limit

    def __str__(self) -> str:
        return f"{self.check}: {self.detail}" + ("" if self.ok else f". {self.why}: {self.call}")


class Findings(Records[Finding]):
    """The results of checks; a table in a notebook."""

    title = "Health"


def check_health(inspect: Inspect, upkeep: Upkeep, freshness: Mapping[str, Freshness]) -> list[Finding]:
    """All checks but that for orphans; the manifests of the current snapshot are read once.

    Args:
        inspect: The table's metadata.
        upkeep: The rules of its upkeep.
        freshness: How fresh the distinct counts are, by column.
    """
    known = inspect.schema("files").names
    wanted = ["content", "record_count", "file_size_in_bytes", "partition", "delete_row_count", *upkeep.beside]
    files = inspect.files(columns=[name for name in wanted if name in known])
    is_data = pc.equal(files.column("content"), 0)
    data = files.filter(is_data)
    deletes = files.filter(pc.invert(is_data))
    partitions = data.column("partition").combine_chunks().flatten() if "partition" in known else []
    partition = number_groups(partitions, data.num_rows)
    found = [_small_files(data, partition, upkeep), _deleted_rows(data, deletes), _skew(data, partition, upkeep)]
    found += _metadata(inspect.manifests(), upkeep, _sum(data, "file_size_in_bytes"))
    return found + _statistics(freshness, upkeep)


# Files --------------------------------------------------------------------------------------------------------------


def _small_files(data: pa.Table, partition: npt.NDArray[np.int64], upkeep: Upkeep) -> Finding:
    beside = [data.column(name).combine_chunks() for name in upkeep.beside]
    group = number_groups([pa.array(partition), *beside], data.num_rows)
    is_small = data.column("file_size_in_bytes").to_numpy() < upkeep.small_file_bytes
    counts = np.bincount(group[is_small], minlength=1)
    joined = int(counts[counts >= max(upkeep.min_input_files, 2)].sum())
    return Finding(
        "small_files",
        joined,
        "files",
        0,
        f"{count(joined)} of {count(data.num_rows)} data files are smaller than {size(upkeep.small_file_bytes)} and in "
        f"groups of {upkeep.min_input_files} or more, which compaction joins",
        "every file costs each scan some requests, and time to plan",
        "table.compact()",
    )


def _deleted_rows(data: pa.Table, deletes: pa.Table) -> Finding:
    rows = _sum(data, "record_count")
    deleted = _sum(deletes, "record_count") + (
        _sum(data, "delete_row_count") if "delete_row_count" in data.schema.names else 0
    )
    share = deleted / rows if rows else 0.0
    return Finding(
        "delete_ratio",
        share,
        "ratio",
        _DELETED_SHARE,
        f"{count(deleted)} deletes in {count(deletes.num_rows)} delete files, on {count(rows)} rows in files",
        "deleted rows are read and thrown away, and their delete files are read as well",
        "table.compact()",
    )


def _skew(data: pa.Table, partition: npt.NDArray[np.int64], upkeep: Upkeep) -> Finding:
    """How much larger than the mean the largest partition is; means below the size of a file count as that."""
    sizes = np.zeros(int(partition.max()) + 1 if len(partition) else 1, np.int64)
    np.add.at(sizes, partition, data.column("file_size_in_bytes").to_numpy())
    largest, mean = int(sizes.max()), float(sizes.mean())
    return Finding(
        "skew",
        max(1.0, largest / max(mean, upkeep.small_file_bytes, 1)),
        "ratio",
        _SKEW,
        f"of {count(len(sizes))} partitions the largest has {size(largest)}, the mean is {size(int(mean))}"
        if len(sizes) > 1
        else "one partition",
        "work that is split by partition waits for the largest",
        upkeep.split_partitions,
    )


def _sum(table: pa.Table, name: str) -> int:
    return pc.sum(table.column(name)).as_py() or 0


# Metadata -----------------------------------------------------------------------------------------------------------


def _metadata(manifests: pa.Table, upkeep: Upkeep, data_bytes: int) -> list[Finding]:
    """Snapshots that would expire, the size of metadata, and manifests."""
    manifest_bytes = _sum(manifests, "length")
    own_bytes = upkeep.metadata_bytes or 0
    newest = "a metadata file" if upkeep.metadata_bytes is None else f"{size(own_bytes)} in the newest metadata file"
    found = [
        Finding(
            "expirable_snapshots",
            upkeep.expirable_snapshots,
            "snapshots",
            0,
            f"{count(upkeep.expirable_snapshots)} of {count(upkeep.snapshots)} snapshots would expire now",
            "files that only old snapshots need take space, and every load reads their list",
            "table.expire_snapshots()",
        ),
        Finding(
            "metadata_size",
            own_bytes + manifest_bytes,
            "bytes",
            max(_METADATA_BYTES, _METADATA_SHARE * data_bytes),
            f"{newest}, {size(manifest_bytes)} in {count(manifests.num_rows)} manifests, on {size(data_bytes)} of data",
            "every load reads the first, every plan what it needs of the others",
            "table.expire_snapshots()" if own_bytes > manifest_bytes else "table.compact()",
        ),
    ]
    if upkeep.manifests_to_rewrite is not None:
        rewritten = upkeep.manifests_to_rewrite
        found.append(
            Finding(
                "manifests",
                rewritten,
                "manifests",
                _MANIFESTS,
                f"{count(rewritten)} of {count(manifests.num_rows)} manifests could be fewer and larger",
                "every plan asks for each of them",
                "table.rewrite_manifests()",
            )
        )
    return found


# Statistics ---------------------------------------------------------------------------------------------------------


def _statistics(freshness: Mapping[str, Freshness], upkeep: Upkeep) -> list[Finding]:
    """Columns whose distinct counts are stale or missing, of those that the table's properties want sketched."""
    if not upkeep.snapshots:
        freshness = {}
    states = {name: found.state for name, found in freshness.items() if name in upkeep.sketched}
    kinds = {
        "stale_statistics": (FreshnessState.STALE, FreshnessState.UPPER_BOUND),
        "missing_statistics": (FreshnessState.ABSENT,),
    }
    found = []
    for check, of_kind in kinds.items():
        columns = [name for name, state in states.items() if state in of_kind]
        named = f": {', '.join(columns[:5])}{', …' if len(columns) > 5 else ''}" if columns else ""
        found.append(
            Finding(
                check,
                len(columns),
                "columns",
                0,
                f"{count(len(columns))} of {count(len(states))} columns{named}",
                "joins are planned and selectivities guessed without their distinct counts",
                "table.analyze()",
            )
        )
    return found


# Orphans ------------------------------------------------------------------------------------------------------------


def check_orphans(table: ReachableTable) -> Finding:
    """Files in the table's folder that its state does not name, estimated: `remove_orphans` looks more closely.

    Args:
        table: The table; its folder is listed, and all its manifests are read.
    """
    reached = table.reached(())
    oldest = datetime.now(UTC) - timedelta(days=DEFAULT_GRACE_DAYS)
    old = [file for file in table.storage.list(table.location) if file.modified < oldest]
    sizes = [file.size_bytes for file in old if file_key(file.location) not in reached]
    return Finding(
        "orphans",
        len(sizes),
        "files",
        0,
        f"about {count(len(sizes))} files ({size(sum(sizes))}) older than {DEFAULT_GRACE_DAYS:.0f} days that no "
        "snapshot needs",
        "they take space that nothing else frees",
        "table.remove_orphans()",
    )
