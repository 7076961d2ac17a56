"""Distributed work: a Spark session that is ready, tables as frames, jobs on Spark, and the data source `skerry`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skerry.spark.session import session

if TYPE_CHECKING:
    from skerry.spark.analyzing import analyze as analyze
    from skerry.spark.change_format import ChangeFormat as ChangeFormat
    from skerry.spark.change_ingest import IngestedChanges as IngestedChanges
    from skerry.spark.change_ingest import ingest_changes as ingest_changes
    from skerry.spark.data_source import register as register
    from skerry.spark.landing import IngestSummary as IngestSummary
    from skerry.spark.landing import ingest as ingest
    from skerry.spark.maintaining import compact as compact
    from skerry.spark.maintaining import expire_snapshots as expire_snapshots
    from skerry.spark.maintaining import merge as merge
    from skerry.spark.maintaining import migrate as migrate
    from skerry.spark.maintaining import remove_orphans as remove_orphans
    from skerry.spark.maintaining import rewrite_deletes as rewrite_deletes
    from skerry.spark.queries import sql as sql
    from skerry.spark.reading import read as read
    from skerry.spark.sources import infer_schema as infer_schema

__all__ = [
    "ChangeFormat",
    "IngestSummary",
    "IngestedChanges",
    "analyze",
    "compact",
    "expire_snapshots",
    "infer_schema",
    "ingest",
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

# Whatever imports PySpark loads when it is first asked for, so that `session` can say how to install it.
_WHERE = {
    "ChangeFormat": "change_format",
    "IngestSummary": "landing",
    "IngestedChanges": "change_ingest",
    "analyze": "analyzing",
    "compact": "maintaining",
    "expire_snapshots": "maintaining",
    "infer_schema": "sources",
    "ingest": "landing",
    "ingest_changes": "change_ingest",
    "merge": "maintaining",
    "migrate": "maintaining",
    "read": "reading",
    "register": "data_source",
    "remove_orphans": "maintaining",
    "rewrite_deletes": "maintaining",
    "sql": "queries",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"skerry.spark.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'skerry.spark' has no attribute {name!r}")
