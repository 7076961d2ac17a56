"""What a table format tells about the upkeep of a table, for the checks of its health."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Upkeep"]


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The rules of a table's upkeep, and what only its format knows.

    Args:
        small_file_bytes: Data files below this size are small.
        min_input_files: This many small files side by side are worth compacting.
        beside: Columns of `files` that small files must agree in to be compacted together, besides the partition.
        snapshots: How many snapshots there are.
        expirable_snapshots: How many of them would expire now, by the table's properties.
        metadata_bytes: Size of the file that the newest state is in; None if only the catalog may read it.
        manifests_to_rewrite: How many manifests `rewrite_manifests` would rewrite; None if the format has no such call.
        split_partitions: The call that divides partitions that are too large.
        sketched: Names of the columns that the table's properties want distinct counts of.
    """

    small_file_bytes: int
    min_input_files: int
    beside: tuple[str, ...]
    snapshots: int
    expirable_snapshots: int
    metadata_bytes: int | None
    manifests_to_rewrite: int | None
    split_partitions: str
    sketched: frozenset[str]
