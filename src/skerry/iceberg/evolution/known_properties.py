"""The names of table properties that Iceberg's engines obey, so that a misspelt one is told when it is set."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable
from typing import Final

__all__ = ["warn_of_unknown"]

_PARQUET: Final = (
    "compression-codec compression-level dict-size-bytes page-row-limit page-size-bytes page-version "
    "row-group-check-max-record-count row-group-check-min-record-count row-group-limit row-group-size-bytes"
)
_ORC: Final = "block-size-bytes compression-codec compression-strategy stripe-size-bytes vectorized.batch-size"
_AVRO: Final = "compression-codec compression-level"
_NAMES: Final = {
    "commit.manifest-merge": "enabled",
    "commit.manifest": "min-count-to-merge target-size-bytes",
    "commit.retry": "max-wait-ms min-wait-ms num-retries total-timeout-ms",
    "commit.status-check": "max-wait-ms min-wait-ms num-retries total-timeout-ms",
    "gc": "enabled",
    "history.expire": "max-ref-age-ms max-snapshot-age-ms min-snapshots-to-keep",
    "read": "data-planning-mode delete-planning-mode",
    "read.orc.vectorization": "batch-size enabled",
    "read.parquet.vectorization": "batch-size enabled",
    "read.split": "adaptive-size.enabled metadata-target-size open-file-cost planning-lookback target-size",
    "write": "distribution-mode target-file-size-bytes",
    "write.amudai": "profile",
    "write.avro": _AVRO,
    "write.data": "path",
    "write.delete": "distribution-mode granularity isolation-level mode target-file-size-bytes",
    "write.delete.amudai": "profile",
    "write.delete.avro": _AVRO,
    "write.delete.format": "default",
    "write.delete.orc": _ORC,
    "write.delete.parquet": _PARQUET,
    "write.folder-storage": "path",
    "write.format": "default",
    "write.location-provider": "impl",
    "write.manifest": "compression-codec compression-level",
    "write.manifest-lists": "enabled",
    "write.merge": "distribution-mode isolation-level mode",
    "write.metadata": "compression-codec delete-after-commit.enabled path previous-versions-max",
    "write.metadata.metrics": "default max-inferred-column-defaults",
    "write.object-storage": "enabled partitioned-paths path",
    "write.orc": f"{_ORC} bloom.filter.columns bloom.filter.fpp",
    "write.parquet": (
        f"{_PARQUET} bloom-filter-adaptive-enabled bloom-filter-max-bytes row-group-size-track-uncompressed "
        "shred-variants variant-inference-buffer-size"
    ),
    "write.py-location-provider": "impl",
    "write.summary": "partition-limit",
    "write.update": "distribution-mode isolation-level mode",
    "write.upsert": "enabled",
    "write.wap": "enabled",
}
_KNOWN: Final = frozenset(f"{prefix}.{name}" for prefix, names in _NAMES.items() for name in names.split())
_OF_COLUMNS: Final = (
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.bloom-filter-ndv.column.",
    "write.parquet.dict-encoding-enabled.column.",
    "write.parquet.stats-enabled.column.",
)
_GROUPS: Final = frozenset(name.split(".")[0] for name in _KNOWN)
_PARTS: Final = frozenset(".".join(name.split(".")[:2]) for name in _KNOWN if name.count(".") > 1)
_NEAR: Final = 0.85


def warn_of_unknown(names: Iterable[str]) -> None:
    """Warn of names that no engine obeys: those of Iceberg's groups, and others only if they resemble one of them.

    Whatever else an engine may have chosen, such as `write.spark.fanout.enabled`, is kept without a word.
    """
    for name in names:
        if name in _KNOWN or name.startswith(_OF_COLUMNS):
            continue
        group, _, rest = name.partition(".")
        if not rest or group not in _GROUPS:
            continue
        near = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=_NEAR)
        if near or ".".join(name.split(".")[:2]) in _PARTS:
            hint = f"; did you mean {near[0]!r}?" if near else ""
            warnings.warn(f"nothing obeys the table property {name!r}{hint}", stacklevel=2)
