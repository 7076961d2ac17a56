"""The statistics file that Paimon defines: counts and bounds per column, as engines' optimizers read them.

Spec: docs/formats/paimon.md § 12.7; Paimon spec, Snapshot (statistics); Paimon Java, `Statistics`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from skerry.errors import FormatError
from skerry.paimon.metadata.snapshot import decode_object

__all__ = ["ColStats", "StatisticsFile", "decode_statistics", "encode_statistics"]

_RULE: Final = "docs/formats/paimon.md § 12.7"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColStats:
    """Statistics of a column.

    Args:
        col_id: Its field id.
        distinct_count: Distinct values; None if unknown, as are the following.
        min: The least value, as text.
        max: The greatest.
        null_count: Nulls.
        avg_len: Average bytes of a value.
        max_len: Bytes of the largest.
    """

    col_id: int
    distinct_count: int | None = None
    min: str | None = None
    max: str | None = None
    null_count: int | None = None
    avg_len: int | None = None
    max_len: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsFile:
    """Statistics of a table.

    Args:
        snapshot_id: The snapshot that was looked at.
        schema_id: Its schema.
        merged_record_count: Rows, after merging.
        merged_record_size: Their bytes.
        col_stats: Statistics by the name of the column.
    """

    snapshot_id: int
    schema_id: int
    merged_record_count: int | None = None
    merged_record_size: int | None = None
    col_stats: Mapping[str, ColStats] = field(default_factory=dict)


_TABLE_KEYS: Final = {
    "snapshot_id": "snapshotId",
    "schema_id": "schemaId",
    "merged_record_count": "mergedRecordCount",
    "merged_record_size": "mergedRecordSize",
}
_COLUMN_KEYS: Final = {
    "col_id": "colId",
    "distinct_count": "distinctCount",
    "min": "min",
    "max": "max",
    "null_count": "nullCount",
    "avg_len": "avgLen",
    "max_len": "maxLen",
}


def decode_statistics(data: bytes | str, *, location: str | None = None) -> StatisticsFile:
    """Read a statistics file.

    Raises:
        FormatError: It is none.
    """
    found = decode_object(data, "statistics", location)
    columns = found.get("colStats") or {}
    if not isinstance(columns, dict):
        raise FormatError("colStats must be an object", location=location, rule=_RULE)
    col_stats = {
        name: ColStats(**_values(stats, _COLUMN_KEYS, ("col_id",), location)) for name, stats in columns.items()
    }
    return StatisticsFile(**_values(found, _TABLE_KEYS, ("snapshot_id", "schema_id"), location), col_stats=col_stats)


def _values(found: Any, keys: Mapping[str, str], required: tuple[str, ...], location: str | None) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise FormatError(
            f"statistics of a column must be an object, found {found!r:.80}", location=location, rule=_RULE
        )
    values = {}
    for name, key in keys.items():
        value = found.get(key)
        wanted: type = str if name in ("min", "max") else int
        if value is None:
            if name in required:
                raise FormatError(f"statistics must have {key!r}", location=location, rule=_RULE)
        elif isinstance(value, bool) or not isinstance(value, wanted):
            raise FormatError(f"{key!r} cannot be {value!r:.80}", location=location, rule=_RULE)
        values[name] = value
    return values


def encode_statistics(statistics: StatisticsFile) -> bytes:
    """A statistics file; what is unknown is left out."""
    found = _known(statistics, _TABLE_KEYS)
    found["colStats"] = {name: _known(stats, _COLUMN_KEYS) for name, stats in statistics.col_stats.items()}
    return json.dumps(found, indent=2, ensure_ascii=False).encode()


def _known(record: StatisticsFile | ColStats, keys: Mapping[str, str]) -> dict[str, Any]:
    values = {slot.name: getattr(record, slot.name) for slot in fields(record)}
    return {key: values[name] for name, key in keys.items() if values[name] is not None}
