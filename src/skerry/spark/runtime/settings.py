"""Settings of a Spark session: those that reading tables needs, and temporary changes of others.

Spark does not allow them per read or write.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FIELD_ID_SETTING", "OPTIMIZER_SETTING", "READ_SETTINGS", "apply_defaults", "changed_settings"]

FIELD_ID_SETTING = "spark.sql.parquet.fieldId.read.enabled"
"""Whether Spark's Parquet reader finds columns by field id."""

OPTIMIZER_SETTING = "spark.sql.cbo.enabled"
"""Whether Spark's optimizer uses statistics of rows and columns, in addition to sizes."""

READ_SETTINGS = {FIELD_ID_SETTING: "true", OPTIMIZER_SETTING: "true", "spark.sql.cbo.joinReorder.enabled": "true"}
"""What `skerry.spark.read` needs to be correct and useful."""

_lock = threading.Lock()
_changed: dict[tuple[SparkSession, str], tuple[int, str | None]] = {}  # how many need the change, and the value before


def apply_defaults(spark: SparkSession) -> None:
    """Set the settings for reading, unless the session already sets them."""
    present = spark.conf.getAll
    for key, value in READ_SETTINGS.items():
        if key not in present:
            spark.conf.set(key, value)


@contextlib.contextmanager
def changed_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session until the block ends.

    Several threads may change the same setting, to the same value: the first one changes it, the last one restores it.

    Args:
        spark: The session.
        settings: Values by name.
    """
    with _lock:
        present = spark.conf.getAll
        for key, value in settings.items():
            users, before = _changed.get((spark, key), (0, present.get(key)))
            _changed[spark, key] = (users + 1, before)
            if not users:
                spark.conf.set(key, value)
    try:
        yield
    finally:
        with _lock:
            for key in settings:
                users, before = _changed.pop((spark, key))
                if users > 1:
                    _changed[spark, key] = (users - 1, before)
                elif before is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, before)
