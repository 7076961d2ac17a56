"""Appending 1,000 rows of 2,000 columns to an Iceberg table, beside PyArrow writing the same rows as Parquet.

Each figure is a process of its own, ours and PyArrow's in turn: seconds of the call, seconds of processor time, and how
much the greatest resident memory of the process grew while it ran. Kernels are loaded before.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from figures import figure


def rows(columns: int, count: int) -> pa.Table:
    """A quarter each of integers, floats, texts and times; half of the columns repeat few values."""
    random = np.random.default_rng(7)
    arrays: dict[str, pa.Array] = {}
    for i in range(columns):
        numbers = random.integers(0, 20 if i % 2 else 1 << 40, count)
        kind = i // 2 % 4
        if kind == 0:
            arrays[f"c{i}"] = pa.array(numbers)
        elif kind == 1:
            arrays[f"c{i}"] = pa.array(numbers / 7)
        elif kind == 2:
            arrays[f"c{i}"] = pa.array([f"text {number}" for number in numbers.tolist()])
        else:
            arrays[f"c{i}"] = pa.array(numbers, pa.timestamp("us"))
    return pa.table(arrays)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measured(side: str, folder: Path, columns: int, count: int) -> dict[str, float]:
    data = rows(columns, count)
    if side == "skerry":
        import skerry

        catalog = skerry.connect(folder)
        small = data.slice(0, 10).select(data.schema.names[:8])
        catalog.create_table("d.small", small.schema).append(small)
        table = catalog.create_table("d.wide", data.schema)
        write = lambda: table.append(data)  # noqa: E731
    else:
        pq.write_table(data.slice(0, 10).select(data.schema.names[:8]), folder / "small.parquet")
        write = lambda: pq.write_table(data, folder / "wide.parquet", compression="zstd")  # noqa: E731
    before, begin, used = peak_bytes(), time.perf_counter(), time.process_time()
    write()
    return {
        "seconds": time.perf_counter() - begin,
        "processor seconds": time.process_time() - used,
        "memory, MB": (peak_bytes() - before) / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--columns", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--side", help="be one of the processes that are measured")
    arguments = parser.parse_args()
    if arguments.side:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measured(arguments.side, Path(folder), arguments.columns, arguments.rows)))
        return
    results: dict[str, list[dict[str, float]]] = {"skerry": [], "pyarrow": []}
    size = ["--columns", str(arguments.columns), "--rows", str(arguments.rows)]
    for _ in range(arguments.rounds):
        for side, found in results.items():
            command = [sys.executable, __file__, "--side", side, *size]
            found.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    for name in results["skerry"][0]:
        ours, theirs = (statistics.median(result[name] for result in found) for found in results.values())
        unit = "MB" if "memory" in name else "s"
        figure(name, *([result[name] for result in found] for found in results.values()), unit=unit)
        goal = 3 if "memory" in name else 2
        print(f"{name:18s} skerry {ours:8.2f}   PyArrow {theirs:8.2f}   {ours / theirs:5.2f} x   (goal: {goal})")


if __name__ == "__main__":
    main()
