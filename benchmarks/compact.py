"""Compaction of many small files on Spark, beside the Iceberg connector's `rewrite_data_files` in the same session.

Every run gets a table of its own with copies of the same 1,000 small files of 4 columns. Both compact all of it with
the same threads, taking turns; skerry does so as tasks on Spark and, to compare, in threads of one process. Statistics
are fresh after skerry's run, at no extra scan; after the connector's there are none for the new snapshot.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import skerry
import skerry.spark
from figures import figure
from skerry.iceberg.writing.table_writers import write_batches
from skerry.spark.runtime.session import ICEBERG_EXTENSIONS, iceberg_packages, iceberg_settings
from skerry.table.rows.incoming import conform
from skerry.table.statistics.written_file import WrittenFile

FOLDER = Path(__file__).parents[1] / ".cache" / "compact"
THREADS = 2


def rows(count: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "key": random.integers(0, 6_000_000, count),
            "price": random.random(count) * 100_000,
            "day": pa.array(random.integers(8_000, 10_500, count, np.int32)).cast(pa.date32()),
            "comment": pa.array([f"comment {number}" for number in random.integers(0, 100_000, count)]),
        }
    )


def make_files(warehouse: Path, files: int, rows_of_file: int) -> list[WrittenFile]:
    """Small files of a table that nobody compacts."""
    table = skerry.connect(warehouse).create_table("d.source", rows(1, 0).schema)
    layout = table.handle.layout()
    return [
        file
        for number in range(files)
        for file in write_batches(layout, conform(rows(rows_of_file, number), layout.schema))
    ]


def make_table(warehouse: Path, name: str, files: list[WrittenFile]) -> None:
    """A table of its own with copies of the files, in one commit."""
    table = skerry.connect(warehouse).create_table(name, rows(1, 0).schema)
    folder = Path(table.handle.layout().folder.removeprefix("file://"))
    folder.mkdir(parents=True)
    copies = []
    for file in files:
        path = Path(file.data_file.location.removeprefix("file://"))
        shutil.copy(path, folder / path.name)
        data_file = dataclasses.replace(file.data_file, location=f"file://{folder / path.name}")
        copies.append(dataclasses.replace(file, data_file=data_file))
    table.append_files(copies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=10_000, help="rows of each file")
    chosen = parser.parse_args()
    warehouse = FOLDER / "warehouse"
    shutil.rmtree(warehouse, ignore_errors=True)
    made = make_files(warehouse, chosen.files, chosen.rows)
    spark = skerry.spark.session(
        master=f"local[{THREADS}]",
        packages=iceberg_packages("4.1"),
        config={"spark.sql.extensions": ICEBERG_EXTENSIONS, **iceberg_settings(str(warehouse))},
    )

    def by_connector(name: str) -> int:
        call = f"CALL skerry.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
        return int(spark.sql(call).collect()[0]["added_data_files_count"])

    def by_skerry(name: str, executor: str) -> int:
        table = skerry.connect(warehouse).load_table(name)
        if executor == "Spark":
            done = skerry.spark.compact(spark, table, full=True)
        else:
            done = table.compact(full=True)
        assert {str(found.freshness) for found in table.statistics().values()} == {"fresh"}
        return done.added_files

    runs: dict[str, Callable[[str], int]] = {
        "rewrite_data_files": by_connector,
        "skerry on Spark": lambda name: by_skerry(name, "Spark"),
        "skerry in threads": lambda name: by_skerry(name, "threads"),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(chosen.rounds + 1):
        turns = list(runs.items())
        for name, run in turns if number % 2 else reversed(turns):
            table = f"d.round_{number}_{'_'.join(name.split())}".lower()
            make_table(warehouse, table, made)
            begin = time.perf_counter()
            files = run(table)
            seconds = time.perf_counter() - begin
            if number:  # the first round warms up
                times[name].append(seconds)
            print(f"round {number}, {name}: {seconds:.2f} s, {files} files")
            skerry.connect(warehouse).drop_table(table, purge=True)
    for name, seconds in times.items():
        rate = chosen.files * chosen.rows / statistics.median(seconds) / 1e6
        if name.startswith("skerry"):
            figure(name, seconds, times["rewrite_data_files"])
        print(f"{name}: median {statistics.median(seconds):.2f} s, {rate:.2f} million rows/s")
    for name in ("skerry on Spark", "skerry in threads"):
        ratio = statistics.median(
            theirs / ours for theirs, ours in zip(times["rewrite_data_files"], times[name], strict=True)
        )
        print(f"throughput of {name} to rewrite_data_files: {ratio:.2f} (at least 1)")
    spark.stop()


if __name__ == "__main__":
    main()
