"""Joinable columns among 10,000 sketches: skerry's comparison beside a plain merge of sorted hashes by NumPy.

The sketches are of 10,000 columns in 500 tables (20 each, all of one type, 4,096 hashes and fewer), as the index of a
catalog holds them in memory. A plain merge joins the two sorted runs of hashes of a pair and counts equal
neighbours, one pair after the other. Both take turns, several rounds; medians are shown.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from figures import figure
from skerry.table.statistics.joinable import JoinableColumns, SketchedColumn, TableSketches, find_joinable
from skerry.theta.layout import MAX_THETA, CompactSketch
from skerry.theta.overlap import pack_sketches

K = 4096


def column_sketch(noise: np.random.Generator, pool: np.ndarray) -> CompactSketch:
    """The sketch of a set of 100 to 10 million values, every fifth sharing some with the pool of common ones."""
    distinct = int(10 ** noise.uniform(2, 7))
    theta = MAX_THETA if distinct <= K else int(MAX_THETA * K / distinct)
    hashes = noise.integers(1, theta, min(distinct, K), np.uint64)
    if noise.random() < 0.2:
        below = pool[pool < theta]
        shared = int(noise.integers(0, 1 + min(len(below), len(hashes))))
        hashes[:shared] = below[:shared]
    return CompactSketch(theta, np.unique(hashes), False)


def make_tables(tables: int, columns: int) -> list[TableSketches]:
    noise = np.random.default_rng(0)
    theta = MAX_THETA // 10
    pool = np.unique(noise.integers(1, theta, K, np.uint64))
    asked = CompactSketch(theta, pool, False)
    names = tuple(SketchedColumn(f"c{number}", pa.int64()) for number in range(columns))
    made = []
    for number in range(tables):
        sketches = [column_sketch(noise, pool) for _ in range(columns)]
        if number == 0:
            sketches[0] = asked
        made.append(TableSketches(f"ns.t{number:03}", names, pack_sketches(sketches)))
    return made


def plain_merge(tables: list[TableSketches]) -> int:
    """How many hashes the first column has in common with every other, in all."""
    one = tables[0].sketches.sketch(0)
    common = 0
    for table in tables:
        for number in range(len(table.columns)):
            other = table.sketches.sketch(number)
            theta = np.uint64(min(one.theta, other.theta))
            ours = one.hashes[: np.searchsorted(one.hashes, theta)]
            theirs = other.hashes[: np.searchsorted(other.hashes, theta)]
            merged = np.concatenate([ours, theirs])
            merged.sort(kind="stable")
            common += int(np.count_nonzero(merged[1:] == merged[:-1]))
    return common


def timed(work: Callable[[], object]) -> tuple[float, float, object]:
    start, start_cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - start, time.process_time() - start_cpu, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    tables = make_tables(options.tables, options.columns)
    find_joinable("ns.t000", "c0", tables[:1])  # compiles or loads the kernels
    ours, peers = [], []
    for _ in range(options.rounds):
        ours.append(timed(lambda: find_joinable("ns.t000", "c0", tables, limit=100)))
        peers.append(timed(lambda: plain_merge(tables)))
    found = ours[0][2]
    assert isinstance(found, JoinableColumns)
    print(f"{options.tables * options.columns:,} columns, {options.rounds} rounds; {len(found)} found")
    for name, runs in (("skerry", ours), ("plain merge", peers)):
        clock, cpu = (statistics.median(run[part] for run in runs) for part in (0, 1))
        print(f"{name:<12} {clock:.3f} s, {cpu:.3f} s of processor time")
    figure("joinable columns", [run[1] for run in ours], [run[1] for run in peers])
    ratio = statistics.median(run[1] for run in ours) / statistics.median(run[1] for run in peers)
    print(f"ratio of processor time {ratio:.3f} (goal: 0.15 s, where a plain merge takes 0.4)")


if __name__ == "__main__":
    main()
