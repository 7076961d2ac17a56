"""Planning scans of a table of 50,000 (and 250,000) files: skerry beside PyIceberg, each in processes of its own.

The table has manifests of 1,000 files each, day and bucket partitions, and 10 columns with full metrics. It is made
once in `.cache/`; its data files do not exist, since planning opens none. Every measurement is a fresh process, which
imports, plans a table of two files, loads the table, and then plans it; the time is that of this planning alone, the
memory is how far the process grew by it. Peers and routes take turns, several rounds; medians are shown.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from figures import figure

FOLDER = Path(__file__).parent.parent / ".cache" / "planning"
FILES_PER_MANIFEST, BUCKETS, FIRST_DAY = 1000, 16, date(2024, 1, 1)
DAYS_PER_MANIFEST = 7
SCHEMA = pa.schema(
    [("id", pa.int64()), ("ts", pa.timestamp("us")), ("name", pa.string()), ("place", pa.string())]
    + [(f"n{number}", pa.int64()) for number in range(5)]
    + [("x", pa.float64())]
)
FILTERS = {
    "all files": None,
    "one day": "ts >= TIMESTAMP '2024-03-05 00:00:00' AND ts < TIMESTAMP '2024-03-06 00:00:00'",
    "5 files by bounds": "n0 >= 700 AND n0 < 703",
}


# ---- the table ----


def data_file(folder: str, number: int, noise: random.Random) -> Any:
    from skerry.table.files.data_file import DataFile

    days = (FIRST_DAY - date(1970, 1, 1)).days + number // FILES_PER_MANIFEST * DAYS_PER_MANIFEST
    day, bucket = days + number % DAYS_PER_MANIFEST, number % BUCKETS
    rows = noise.randrange(10**5, 10**6)
    start = day * 86_400_000_000
    # n0 grows with the file: a narrow range of it lies in few files, which no partition tells
    lower = [number * 10**4, start, *(noise.getrandbits(40) for _ in range(4))]
    ranges: list[tuple[bytes, bytes]] = [
        (struct.pack("<q", number * 10**4), struct.pack("<q", number * 10**4 + 10**6)),
        (struct.pack("<q", start), struct.pack("<q", start + 86_399_999_999)),
        *((bytes(noise.choices(b"abcdefgh", k=16)), bytes(noise.choices(b"stuvwxyz", k=16))) for _ in range(2)),
        (struct.pack("<q", number), struct.pack("<q", number + 2)),
        *((struct.pack("<q", value), struct.pack("<q", value + 10**9)) for value in lower[2:]),
        (struct.pack("<d", noise.random()), struct.pack("<d", 1 + noise.random())),
    ]
    ids = range(1, len(ranges) + 1)
    partition = f"ts_day={date(1970, 1, 1) + timedelta(day)}/id_bucket={bucket}"
    return DataFile(
        location=f"{folder}/data/{partition}/{noise.getrandbits(128):032x}.parquet",
        file_format="parquet",
        record_count=rows,
        file_size_bytes=noise.randrange(10**7, 10**8),
        partition=(day, bucket),
        column_sizes={key: noise.randrange(10**5, 10**7) for key in ids},
        value_counts=dict.fromkeys(ids, rows),
        null_value_counts={key: noise.randrange(100) for key in ids},
        nan_value_counts={len(ranges): 0},
        lower_bounds={key: low for key, (low, _) in zip(ids, ranges, strict=True)},
        upper_bounds={key: high for key, (_, high) in zip(ids, ranges, strict=True)},
        split_offsets=(4,),
    )


def make_table(files: int) -> Path:
    """The table of so many files, made once."""
    folder = FOLDER / str(files)
    if not (folder / "done").exists():
        import skerry
        from skerry.iceberg.operations import AppendFiles

        properties = {"skerry.statistics.enabled": "false", "commit.manifest-merge.enabled": "false"}
        table = skerry.connect(folder).create_table(
            "ns.t", SCHEMA, partition_by=["day(ts)", "bucket(16, id)"], properties=properties
        )
        noise = random.Random(0)
        for first in range(0, files, FILES_PER_MANIFEST):
            count = min(FILES_PER_MANIFEST, files - first)
            batch = [data_file(table.location, first + row, noise) for row in range(count)]
            table.handle.commit(AppendFiles(tuple(batch)))
        (folder / "done").touch()
    return folder


# ---- peers, each in a process of its own ----


def grown_mb() -> float:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(prepare: Callable[[], Any], plan: Callable[[Any], int]) -> dict[str, float]:
    """Time and memory of one plan, after one of a table of two files: modules are imported, kernels are loaded."""
    ready = prepare()
    before, begin, begin_cpu = grown_mb(), time.perf_counter(), time.process_time()
    files = plan(ready)
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - begin_cpu
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "files": files, "grown_mb": grown_mb() - before}


def skerry_scan(folder: Path, where: str | None) -> Any:
    import skerry

    table = skerry.connect(folder).load_table("ns.t")
    return lambda: table.scan(where=where)


def run_skerry(folder: Path, where: str | None, route: str) -> dict[str, float]:
    """Plan with skerry: cold, from the folder of manifests, or from memory; as columns or as objects."""
    from skerry.iceberg.manifests.cache import shared_cache

    def prepare() -> Any:
        skerry_scan(make_table(2), "n0 > 1")().plan_table()
        make = skerry_scan(folder, where)
        if route in ("disk", "memory", "objects"):
            make().plan_table()
        if route == "disk":
            shared_cache().clear()
        return make

    def plan(make: Any) -> int:
        return sum(1 for _ in make().plan()) if route in ("objects", "cold objects") else make().plan_table().num_rows

    return measure(prepare, plan)


def run_pyiceberg(folder: Path, where: str | None, route: str) -> dict[str, float]:
    """Plan with PyIceberg, which always makes objects and keeps no manifests."""
    from pyiceberg.catalog.sql import SqlCatalog

    def load(path: Path) -> Any:
        return SqlCatalog("skerry", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}").load_table("ns.t")

    filters = {
        None: None,
        FILTERS["one day"]: "ts >= '2024-03-05T00:00:00' and ts < '2024-03-06T00:00:00'",
        FILTERS["5 files by bounds"]: FILTERS["5 files by bounds"],
        "n0 > 1": "n0 > 1",
    }

    def files(table: Any, condition: str | None) -> int:
        chosen = filters[condition]
        scan = table.scan() if chosen is None else table.scan(row_filter=chosen)
        return sum(1 for _ in scan.plan_files())

    def prepare() -> Any:
        files(load(make_table(2)), "n0 > 1")
        return load(folder)

    return measure(prepare, lambda table: files(table, where))


def in_process(arguments: list[str], cache: str) -> dict[str, float]:
    """Run this script as a worker."""
    environment = {**os.environ, "SKERRY_CACHE_DIR": cache}
    output = subprocess.run(
        [sys.executable, __file__, *arguments], env=environment, capture_output=True, text=True, check=True
    ).stdout
    return dict(json.loads(output.splitlines()[-1]))


def worker(arguments: argparse.Namespace) -> None:
    folder, where = make_table(arguments.files), FILTERS[arguments.filter]
    run = run_pyiceberg if arguments.worker == "pyiceberg" else run_skerry
    print(json.dumps(run(folder, where, arguments.worker)))


# ---- the comparison ----

ROUTES = {
    "PyIceberg": "pyiceberg",
    "skerry, cold, Arrow": "cold",
    "skerry, cold, tasks": "cold objects",
    "skerry, from the folder, Arrow": "disk",
    "skerry, from memory, Arrow": "memory",
    "skerry, from memory, tasks": "objects",
}


def compiled_kernels(cache: Path) -> None:
    """A cache folder with this machine's kernels and without manifests."""
    from skerry.kernels import user_cache_directory

    root = user_cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    if root is not None and (root / "kernels").exists():
        with contextlib.suppress(FileExistsError):
            (cache / "kernels").symlink_to(root / "kernels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--filter", choices=FILTERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments)
        return
    make_table(2)
    make_table(arguments.files)
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for _ in range(arguments.rounds):
        for name, route in ROUTES.items():
            for condition in FILTERS:
                with tempfile.TemporaryDirectory() as cache:  # no manifests of an earlier process
                    compiled_kernels(Path(cache))
                    options = ["--files", str(arguments.files), "--worker", route, "--filter", condition]
                    found.setdefault((name, condition), []).append(in_process(options, cache))
    print(f"{arguments.files:,} files, {arguments.rounds} rounds, load {os.getloadavg()[0]:.1f}")
    for condition in FILTERS:
        counts = {int(run["files"]) for (_, other), runs in found.items() for run in runs if other == condition}
        print(f"\n{condition}: {', '.join(map(str, counts))} files")
        peer = statistics.median(run["seconds"] for run in found["PyIceberg", condition])
        for name in ROUTES:
            runs = found[name, condition]
            if name != "PyIceberg":
                others = found["PyIceberg", condition]
                figure(f"{condition}, {name}", *([run["seconds"] for run in both] for both in (runs, others)))
            seconds, cpu_seconds, memory = (
                statistics.median(run[key] for run in runs) for key in ("seconds", "cpu_seconds", "grown_mb")
            )
            print(
                f"  {name:32}{seconds:8.3f} s {cpu_seconds:8.3f} s of processors {memory:6.0f} MB"
                f"{peer / seconds:8.1f} times as fast as PyIceberg"
            )


if __name__ == "__main__":
    main()
