"""Settings of a Spark session, changed for a while: for what Spark lets no single read or write choose."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping

from pyspark.sql import SparkSession

__all__ = ["changed_settings"]

_lock = threading.Lock()
_changed: dict[tuple[SparkSession, str], tuple[int, str | None]] = {}  # how many need the change, and the value before


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
