"""Distributed work: a Spark session that is ready, landing data through Spark, and the data source `skerry`."""

from __future__ import annotations

from skerry.spark.session import session

__all__ = ["session"]
