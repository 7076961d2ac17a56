"""Planning a table of 50,000 files beside Iceberg's own library in Java, which runs in the JVM of PySpark.

Every plan begins with a fresh handle on the metadata file, in warm processes: both have planned the table before. Java
reads all manifests each time, with a thread for every processor; so does skerry as *empty caches*. As *kept manifests*
it finds those of the plan before. Java's tasks are counted in Java. The routes take turns; medians of all rounds but
the first few, in which the JVM compiles.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import skerry
from figures import figure
from planning import FILTERS, compiled_kernels, make_table
from skerry.iceberg.manifests.cache import shared_cache
from skerry.spark import session
from skerry.spark.runtime.session import iceberg_packages

WARM_UP = 5


def java_plans(location: str) -> Callable[[str], int]:
    """How many files Java plans for one of `FILTERS`."""
    spark = session(master="local[2]", packages=iceberg_packages("4.1"))
    jvm = spark._jvm
    iceberg = jvm.org.apache.iceberg
    expressions = iceberg.expressions.Expressions
    configuration = spark._jsc.hadoopConfiguration()

    def between(column: str, low: Any, high: Any) -> Any:
        both = getattr(expressions, "and")
        return both(expressions.greaterThanOrEqual(column, low), expressions.lessThan(column, high))

    filters = {
        "all files": expressions.alwaysTrue(),
        "one day": between("ts", "2024-03-05T00:00:00", "2024-03-06T00:00:00"),
        "5 files by bounds": between("n0", 700, 703),
    }

    def plan(name: str) -> int:
        operations = iceberg.StaticTableOperations(location, iceberg.hadoop.HadoopFileIO(configuration))
        tasks = iceberg.BaseTable(operations, "ns.t").newScan().filter(filters[name]).planFiles()
        count = jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size(tasks)
        tasks.close()
        return int(count)

    return plan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=50_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:  # of this run alone: manifests are removed from it again and again
        compiled_kernels(Path(cache))
        os.environ["SKERRY_CACHE_DIR"] = cache
        compare(arguments.files, arguments.rounds)


def compare(files: int, rounds: int) -> None:
    location = skerry.connect(make_table(files)).load_table("ns.t").handle.state.metadata_location
    by_java = java_plans(location)

    def as_table(name: str) -> int:
        return int(skerry.open_table(location).scan(where=FILTERS[name]).plan_table().num_rows)

    def as_tasks(name: str) -> int:
        return sum(1 for _ in skerry.open_table(location).scan(where=FILTERS[name]).plan())

    routes: dict[str, tuple[Callable[[str], int], bool]] = {
        "Iceberg Java": (by_java, False),
        "skerry, empty caches, Arrow": (as_table, True),
        "skerry, empty caches, tasks": (as_tasks, True),
        "skerry, kept manifests, tasks": (as_tasks, False),
    }
    for name in FILTERS:
        times: dict[str, list[float]] = {route: [] for route in routes}
        counts = set()
        for turn in range(WARM_UP + rounds):
            for route, (plan, empty) in routes.items():
                if empty:
                    forget()
                begin = time.perf_counter()
                counts.add(plan(name))
                if turn >= WARM_UP:
                    times[route].append(time.perf_counter() - begin)
        assert len(counts) == 1, counts
        print(f"{name}: {counts.pop():,} files")
        theirs = times["Iceberg Java"]
        for route, seconds in times.items():
            if route != "Iceberg Java":
                figure(f"{name}, {route}", seconds, theirs)
            middle = statistics.median(seconds)
            print(
                f"  {route:32}{middle:8.3f} s {statistics.median(theirs) / middle:8.1f} times as fast as Java",
                flush=True,
            )


def forget() -> None:
    """Empty the caches of manifests, in memory and on disk."""
    cache = shared_cache()
    cache.clear()
    if cache.folder is not None and cache.folder.path.exists():
        for path in cache.folder.path.iterdir():
            path.unlink()


if __name__ == "__main__":
    main()
