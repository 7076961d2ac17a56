"""A full `analyze()` of TPC-H's lineitem, beside DuckDB's approximate counts of all columns.

Scale factor 1, 16 columns, in three tables: as Spark landed it (`skerry.spark.ingest`), as one process appended it, and
in 100 partitions. Both engines work with two threads and take turns; the ratio is the median of the rounds' ratios. On
a machine that has other work, the processor time says more than the clock.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

import skerry
from figures import figure
from refresh import STEP
from skerry.kernels import warm_up
from skerry.table.work.tasks import ThreadExecutor
from tpch_data import CACHE, lineitem_rows, make_lineitem

FOLDER = CACHE / "analyze"
THREADS = 2
TARGET = 0.7


def make_tables() -> dict[str, skerry.catalog.Table]:
    catalog = skerry.connect(FOLDER)
    names = {"landed by Spark": "t.spark", "appended": "t.appended", "100 partitions": "t.partitioned"}
    missing = {label: name for label, name in names.items() if not catalog.table_exists(name)}
    if missing:
        rows = lineitem_rows()
        for name in missing.values():
            partition_by = [f"truncate({STEP}, l_orderkey)"] if name == "t.partitioned" else []
            table = catalog.create_table(name, rows.schema, partition_by=partition_by)
            if name == "t.spark":
                from skerry.spark import ingest, session

                spark = session(master=f"local[{THREADS}]")
                ingest(spark, make_lineitem(), table)
                spark.stop()
            else:
                table.append(rows)
    return {label: catalog.load_table(name) for label, name in names.items()}


def seconds(act: Callable[[], object]) -> tuple[float, float]:
    """Clock and processor time."""
    begin = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    warm_up()
    peer = duckdb.connect(config={"threads": THREADS})
    for label, table in make_tables().items():
        files = [str(Path(file.location.partition(":")[2].replace("//", "", 1))) for file in table.files()]
        counts = ", ".join(f"approx_count_distinct({name})" for name in table.schema.names)
        query = f"select {counts} from read_parquet({files!r})"

        def by_duckdb(query: str = query) -> None:
            peer.execute(query).fetchall()

        def by_skerry(table: skerry.catalog.Table = table) -> None:
            table.analyze(full=True, executor=ThreadExecutor(THREADS))

        times: dict[str, list[tuple[float, float]]] = {"DuckDB": [], "skerry": []}
        for number in range(rounds + 1):
            turns = [("DuckDB", by_duckdb), ("skerry", by_skerry)]
            for name, act in turns[:: 1 if number % 2 else -1]:
                taken = seconds(act)
                if number:  # the first round warms up
                    times[name].append(taken)
        ratios = [
            statistics.median(ours[part] / theirs[part] for ours, theirs in zip(*reversed(times.values()), strict=True))
            for part in (0, 1)
        ]
        told = "; ".join(
            f"{name} {statistics.median(clock for clock, _ in taken):.2f} s, "
            f"processor {statistics.median(processor for _, processor in taken):.2f} s"
            for name, taken in times.items()
        )
        figure(label, *([clock for clock, _ in times[name]] for name in ("skerry", "DuckDB")))
        print(f"{label} ({len(files)} files): {told}")
        print(f"  skerry / DuckDB {ratios[0]:.2f}, processor time {ratios[1]:.2f} (at most {TARGET})")


if __name__ == "__main__":
    main()
