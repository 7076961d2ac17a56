"""Tables for tests of the metadata, and other writers that are always a little faster."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from skerry.iceberg.commit import IcebergTarget

SCHEMA = pa.schema([("k", pa.int32()), ("s", pa.string()), ("d", pa.date32())])
EPOCH = dt.date(2020, 1, 1)


def rows(start, stop):
    ks = range(start, stop)
    days = [EPOCH + dt.timedelta(days=k % 3) for k in ks]
    return pa.table({"k": list(ks), "s": [f"word {k % 7}" for k in ks], "d": days}, schema=SCHEMA)


def keys(table, **scan):
    return sorted(table.scan(columns=["k"], **scan).to_arrow()["k"].to_pylist())


def peer(warehouse: Path, name: str):
    """The table as PyIceberg loads it."""
    return SqlCatalog("skerry", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}").load_table(
        name
    )


def metadata_json(table):
    return json.loads(path_of(table.metadata_location).read_text())


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def files_below(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_file() and path.name != "catalog.db"}


class Elsewhere:
    """An executor that sends tasks and results away as bytes, as Spark does."""

    def __init__(self):
        self.tasks = 0

    def map(self, function, tasks):
        for task in tasks:
            self.tasks += 1
            send = pickle.dumps((function, task))
            there, given = pickle.loads(send)
            yield pickle.loads(pickle.dumps(there(given)))


def beaten_by(monkeypatch, *actions):
    """Let other writers commit after each of the next attempts was staged, one action each; gives the attempts."""
    stage = IcebergTarget.stage
    waiting = list(actions)
    attempts = []

    def stage_then_lose(self, base, change, files):
        staged = stage(self, base, change, files)
        attempts.append(staged)
        if waiting:
            action = waiting.pop(0)
            monkeypatch.setattr(IcebergTarget, "stage", stage)
            action()
            monkeypatch.setattr(IcebergTarget, "stage", stage_then_lose)
        return staged

    monkeypatch.setattr(IcebergTarget, "stage", stage_then_lose)
    return attempts
