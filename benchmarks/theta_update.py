"""Sketching columns of TPC-H lineitem in memory on one core, beside DuckDB, polars and the C++ library of DataSketches.

Every engine has its data where it wants it beforehand: Arrow for us and polars, a table of its own for DuckDB. They
take turns; a figure is the median of its rounds in million rows per second. The `datasketches` package takes one value
at a time from Python, so it is timed on the first 300,000. DuckDB and polars count with HyperLogLog and cheaper hashes:
their figures are what a user would get instead, not the same work. The last column says whether the target was met by
the slower of `ThetaSketch` and `Sample`. On a machine that has other work, `--cpu-time` leaves out the waiting.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ["POLARS_MAX_THREADS"] = "1"

import datasketches
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

from figures import figure
from skerry.theta import Sample, ThetaSketch
from tpch_data import make_lineitem

# Million rows per second that a column must reach. The second of the dictionaries has a value that no row uses, so that
# all indices must be looked at.
TARGETS = {
    "l_orderkey": 250,
    "l_partkey": 250,
    "l_suppkey": 100,
    "l_shipdate": 100,
    "l_comment": 48,
    "l_shipdate, dictionary": 1000,
    "l_shipdate, dictionary with an unused value": 1000,
}
ONE_BY_ONE = 300_000


def columns() -> dict[str, pa.ChunkedArray]:
    table = pq.read_table(make_lineitem(), columns=[name for name in TARGETS if "," not in name])
    table = table.set_column(4, "l_comment", table["l_comment"].cast(pa.string()))
    arrays = {name: table[name] for name in table.column_names}
    encoded = table["l_shipdate"].dictionary_encode()
    arrays["l_shipdate, dictionary"] = encoded
    values = encoded.chunk(0).dictionary
    longer = pa.concat_arrays([values, pa.array([0], pa.int32()).cast(values.type)])
    arrays["l_shipdate, dictionary with an unused value"] = pa.chunked_array(
        [pa.DictionaryArray.from_arrays(chunk.indices, longer) for chunk in encoded.chunks]
    )
    return arrays


def contenders(name: str, array: pa.ChunkedArray) -> dict[str, tuple[int, Callable[[], Any]]]:
    """What each engine does with a column, and with how many rows."""
    rows = len(array)
    found: dict[str, tuple[int, Callable[[], Any]]] = {
        "ThetaSketch": (rows, lambda: ThetaSketch().update(array).estimate()),
        "Sample": (rows, lambda: Sample().update(array).estimate()),
    }
    if pa.types.is_dictionary(array.type):
        texts = polars.Series(array.cast(array.type.value_type).cast(pa.string()))
        found["polars"] = (rows, texts.cast(polars.Categorical).approx_n_unique)
        return found
    connection = duckdb.connect(config={"threads": 1})
    connection.register("arrow_table", pa.table({"c": array}))
    connection.execute("CREATE TABLE t AS SELECT c FROM arrow_table")
    found["DuckDB"] = (rows, lambda: connection.execute("SELECT approx_count_distinct(c) FROM t").fetchone())
    series = polars.Series(array)
    found["polars"] = (rows, series.approx_n_unique)
    first = array.slice(0, ONE_BY_ONE)
    if pa.types.is_date(array.type):
        first = first.cast(pa.int32())
    few = first.to_pylist()

    def one_by_one() -> float:
        sketch = datasketches.update_theta_sketch(12)
        for value in few:
            sketch.update(value)
        return sketch.get_estimate()

    found["C++ from Python"] = (ONE_BY_ONE, one_by_one)
    return found


def measure(
    runs: dict[str, tuple[int, Callable[[], Any]]], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Median million rows per second of each contender; they take turns, and a first round does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(rounds + 1):
        for name, (_, run) in runs.items():
            begin = clock()
            run()
            if round_:
                seconds[name].append(clock() - begin)
    return {name: runs[name][0] / statistics.median(times) / 1e6 for name, times in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--column", choices=TARGETS, action="append")
    parser.add_argument("--cpu-time", action="store_true", help="measure processor time of all threads, not wall time")
    options = parser.parse_args()
    clock = time.process_time if options.cpu_time else time.perf_counter
    engines = ["ThetaSketch", "Sample", "DuckDB", "polars", "C++ from Python"]
    print(f"{'million rows per second':44}", *(f"{engine:>16}" for engine in engines), f"{'target':>8}")
    for name, array in columns().items():
        if options.column and name not in options.column:
            continue
        rates = measure(contenders(name, array), options.rounds, clock)
        peer = rates.get("DuckDB", rates["polars"])
        for engine in engines[:2]:
            figure(f"{name}, {engine}", rates[engine], peer, "M rows/s", more_is_better=True)
        cells = [f"{rates[engine]:16,.1f}" if engine in rates else f"{'':16}" for engine in engines]
        met = "met" if min(rates["ThetaSketch"], rates["Sample"]) >= TARGETS[name] else "missed"
        print(f"{name:44}", *cells, f"{TARGETS[name]:8,} {met}", flush=True)


if __name__ == "__main__":
    main()
