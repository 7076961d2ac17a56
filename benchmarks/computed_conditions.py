"""Scans with computed conditions: skerry and DuckDB over the same Parquet files; CPU time, and the files that are read.

Usage: python benchmarks/computed_conditions.py [millions of rows]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import skerry
from figures import figure

ROWS = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 4_000_000
FILES = 16
CONDITIONS = (
    "date_trunc('month', ts) = '2024-03-01'",
    "year(ts) = 2024 AND price * qty > 900",
    "name LIKE '%77%'",
    "lower(name) LIKE 'user-1%9'",
    "qty > price",
    "CASE WHEN qty > 5 THEN price ELSE 0 END > 99",
)


def rows(number: int) -> pa.Table:
    """The rows of a file, which follow those of the one before in time."""
    random = np.random.default_rng(number)
    count = ROWS // FILES
    start = np.datetime64("2024-01-01", "us").astype(np.int64) + number * 30 * 86_400_000_000
    return pa.table(
        {
            "ts": pa.array(start + np.sort(random.integers(0, 30 * 86_400_000_000, count)), pa.timestamp("us")),
            "name": [f"User-{value}" for value in random.integers(0, 1_000_000, count)],
            "price": random.uniform(0, 100, count),
            "qty": random.integers(0, 20, count),
        }
    )


def main() -> None:
    """Print one line per condition."""
    with tempfile.TemporaryDirectory() as folder:
        table = skerry.connect(Path(folder) / "warehouse").create_table("b.t", rows(0).slice(0, 0).schema)
        for number in range(FILES):
            table.append(rows(number))
        paths = [file.location.removeprefix("file://") for file in table.files()]
        with duckdb.connect() as duck:
            duck.execute("SET threads = 2")
            print(f"{ROWS:,} rows in {FILES} files; CPU seconds, the better of three")
            for condition in CONDITIONS:
                found, ours = best(lambda: table.scan(where=condition).to_arrow().num_rows)  # noqa: B023
                query = f"SELECT * FROM read_parquet({paths}) WHERE {condition}"
                expected, theirs = best(lambda: duck.sql(query).to_arrow_table().num_rows)  # noqa: B023
                assert found == expected, (condition, found, expected)
                figure(condition, ours, theirs)
                files = len(table.scan(where=condition).plan())
                print(f"{condition:50} {found:>9,} rows {files:>3} files {ours:6.2f} s, DuckDB {theirs:6.2f} s")


def best(run) -> tuple[int, float]:
    """A result, and the least CPU time that it took."""
    times = []
    for _ in range(3):
        begin = time.process_time()
        result = run()
        times.append(time.process_time() - begin)
    return result, min(times)


if __name__ == "__main__":
    main()
