"""Snapshot summaries: what a commit added and removed, and the totals of the table afterwards.

Spec: Iceberg spec, Snapshots, Optional Snapshot Summary Fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from skerry._version import __version__
from skerry.errors import SchemaError
from skerry.iceberg.metadata.snapshot import Operation, Snapshot
from skerry.table.rows.schema import nearest

if TYPE_CHECKING:
    from skerry.iceberg.manifests.manifest import ManifestEntry

__all__ = ["ENGINE_NAME", "ENGINE_VERSION", "snapshot_summary", "summary_of"]

ENGINE_NAME = "engine-name"
ENGINE_VERSION = "engine-version"

_TOTALS = (
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)
"""Total, what raises it, what lowers it."""


def summary_of(snapshot: Snapshot) -> dict[str, str]:
    """The entries of a snapshot's summary besides its operation; empty if it has no summary.

    Values are texts, as the specification has them, even where a writer has left out the quotes.
    """
    if snapshot.summary is None:
        return {}
    found = {**snapshot.summary}
    found.pop("operation", None)
    if {*map(type, found.values())} <= {str}:  # nearly always
        return cast("dict[str, str]", found)
    return {key: str(value) for key, value in found.items()}


def snapshot_summary(
    operation: str,
    *,
    added: Iterable[ManifestEntry],
    removed: Iterable[ManifestEntry],
    previous: Mapping[str, str] | None,
    properties: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The summary of a new snapshot.

    Args:
        operation: `append`, `replace`, `overwrite` or `delete`.
        added: The files that it adds.
        removed: The files that it removes.
        previous: The parent's summary; None without a parent. A total that it lacks is omitted.
        properties: Further entries; they replace computed ones of the same name.

    Raises:
        SchemaError: There is no such operation.

    Spec: Iceberg spec, Optional Snapshot Summary Fields: counters that are 0 are left out, totals are not.
    """
    try:
        kind = Operation(operation)
    except ValueError:
        choices = nearest(operation, (choice.value for choice in Operation))
        raise SchemaError(f"there is no snapshot operation {operation!r}{choices}") from None
    counters: dict[str, int] = {}
    partitions: set[tuple[Any, ...]] = set()
    for entries, names in ((added, _ADDED), (removed, _REMOVED)):
        for entry in entries:
            # as text, because no NaN equals another
            partitions.add((entry.data_file.spec_id, *map(repr, entry.data_file.partition)))
            for name, number in _counts(entry, names):
                counters[name] = counters.get(name, 0) + number
    summary = {name: str(number) for name, number in counters.items() if number > 0}
    summary["changed-partition-count"] = str(len(partitions))
    summary |= _totals(counters, previous)
    summary |= {ENGINE_NAME: "skerry", ENGINE_VERSION: __version__}
    return {"operation": kind.value, **summary, **(properties or {})}


_ADDED = {
    "size": "added-files-size",
    "files": "added-data-files",
    "records": "added-records",
    "delete files": "added-delete-files",
    "position files": "added-position-delete-files",
    "vectors": "added-dvs",
    "positions": "added-position-deletes",
    "equality files": "added-equality-delete-files",
    "equalities": "added-equality-deletes",
}
_REMOVED = {
    "size": "removed-files-size",
    "files": "deleted-data-files",
    "records": "deleted-records",
    "delete files": "removed-delete-files",
    "position files": "removed-position-delete-files",
    "vectors": "removed-dvs",
    "positions": "removed-position-deletes",
    "equality files": "removed-equality-delete-files",
    "equalities": "removed-equality-deletes",
}


def _counts(entry: ManifestEntry, names: Mapping[str, str]) -> Iterable[tuple[str, int]]:
    from skerry.iceberg.manifests.manifest import FileContent  # not needed for reading summaries

    rows = entry.data_file.record_count
    size = entry.data_file.file_size_bytes
    if entry.is_deletion_vector:
        size = entry.content_size_bytes or 0  # many vectors share a file
    yield names["size"], size
    if entry.content is FileContent.DATA:
        yield names["files"], 1
        yield names["records"], rows
        return
    yield names["delete files"], 1
    if entry.content is FileContent.EQUALITY_DELETES:
        yield names["equality files"], 1
        yield names["equalities"], rows
        return
    yield names["vectors" if entry.is_deletion_vector else "position files"], 1
    yield names["positions"], rows


def _totals(counters: Mapping[str, int], previous: Mapping[str, str] | None) -> dict[str, str]:
    totals = {}
    for total, raising, lowering in _TOTALS:
        before = "0" if previous is None else previous.get(total, "")
        if before.isdigit():
            after = int(before) + counters.get(raising, 0) - counters.get(lowering, 0)
            if after >= 0:  # otherwise the parent's total was wrong
                totals[total] = str(after)
    return totals
