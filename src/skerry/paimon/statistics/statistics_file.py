"""Paimon's own statistics file: counts and bounds per column, as engines' optimizers read them.

Spec: docs/formats/paimon.md § 12.7; Paimon spec, Snapshot (statistics); Paimon Java, `Statistics`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ColStats", "StatisticsFile", "encode_statistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColStats:
    """Statistics of a column.

    Args:
        col_id: Its field id.
        distinct_count: Distinct values.
    """

    col_id: int
    distinct_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsFile:
    """Statistics of a table.

    Args:
        snapshot_id: The snapshot that it describes.
        schema_id: Its schema.
        merged_record_count: Rows, after merging.
        merged_record_size: Their bytes in data files, about.
        col_stats: Statistics by the name of the column.
    """

    snapshot_id: int
    schema_id: int
    merged_record_count: int
    merged_record_size: int
    col_stats: Mapping[str, ColStats] = field(default_factory=dict)


def encode_statistics(statistics: StatisticsFile) -> bytes:
    """Encode a statistics file."""
    found: dict[str, Any] = {
        "snapshotId": statistics.snapshot_id,
        "schemaId": statistics.schema_id,
        "mergedRecordCount": statistics.merged_record_count,
        "mergedRecordSize": statistics.merged_record_size,
        "colStats": {
            name: {"colId": column.col_id, "distinctCount": column.distinct_count}
            for name, column in statistics.col_stats.items()
        },
    }
    return json.dumps(found, indent=2, ensure_ascii=False).encode()
