"""Skerry on Spark: a configured session, tables as frames, jobs on executors, and the data source `skerry`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skerry.spark.runtime.session import session

if TYPE_CHECKING:
    from skerry.spark.change_records.format import ChangeFormat as ChangeFormat
    from skerry.spark.change_records.ingest import ChangeIngestSummary as ChangeIngestSummary
    from skerry.spark.change_records.ingest import ingest_change_stream as ingest_change_stream
    from skerry.spark.change_records.ingest import ingest_changes as ingest_changes
    from skerry.spark.data_source.source import register as register
    from skerry.spark.maintaining import analyze as analyze
    from skerry.spark.maintaining import compact as compact
    from skerry.spark.maintaining import executor as executor
    from skerry.spark.maintaining import expire_snapshots as expire_snapshots
    from skerry.spark.maintaining import merge as merge
    from skerry.spark.maintaining import migrate as migrate
    from skerry.spark.maintaining import remove_orphans as remove_orphans
    from skerry.spark.maintaining import rewrite_deletes as rewrite_deletes
    from skerry.spark.reading.queries import sql as sql
    from skerry.spark.reading.read import read as read
    from skerry.spark.writing.ingest import IngestSummary as IngestSummary
    from skerry.spark.writing.ingest import ingest as ingest
    from skerry.spark.writing.sources import infer_schema as infer_schema

__all__ = [
    "ChangeFormat",
    "ChangeIngestSummary",
    "IngestSummary",
    "analyze",
    "compact",
    "executor",
    "expire_snapshots",
    "infer_schema",
    "ingest",
    "ingest_change_stream",
    "ingest_changes",
    "merge",
    "migrate",
    "read",
    "register",
    "remove_orphans",
    "rewrite_deletes",
    "session",
    "sql",
]

# Modules that import PySpark are loaded on first use, so that `session` can say how to install it.
_WHERE = {
    "ChangeFormat": "change_records.format",
    "ChangeIngestSummary": "change_records.ingest",
    "IngestSummary": "writing.ingest",
    "analyze": "maintaining",
    "compact": "maintaining",
    "executor": "maintaining",
    "expire_snapshots": "maintaining",
    "infer_schema": "writing.sources",
    "ingest": "writing.ingest",
    "ingest_change_stream": "change_records.ingest",
    "ingest_changes": "change_records.ingest",
    "merge": "maintaining",
    "migrate": "maintaining",
    "read": "reading.read",
    "register": "data_source.source",
    "remove_orphans": "maintaining",
    "rewrite_deletes": "maintaining",
    "sql": "reading.queries",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"skerry.spark.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'skerry.spark' has no attribute {name!r}")
