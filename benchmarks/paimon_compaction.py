"""What automatic compaction costs a stream of upserts into a Paimon table, beside Paimon Java.

The same commits of random keys go into two tables: one with `write-only`, one that compacts by the format's defaults
(five sorted runs). Shown are the time of all commits, the bytes of all data files that were written in relation to
those of level 0 (write amplification; nothing expires), and the time of a scan afterwards. The cost of compaction is
the second table's time in relation to the first's. With `--java` Paimon Java does the same in Spark's JVM, waiting for
its compactions; skerry scans its tables.

On a machine that has other work, the processor time says more than the time of the clock; ours is shown, too.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from figures import figure
from paimon_changelog import BUCKETS, Timing, peer, timed
from paimon_read import ROOT, SCHEMA, some_rows
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage


def make(folder: Path, *, write_only: bool) -> PaimonTable:
    shutil.rmtree(folder, ignore_errors=True)
    properties = {"bucket": str(BUCKETS), "write-only": str(write_only).lower()}
    return PaimonTable.create(Storage(), str(folder), SCHEMA, primary_key=["id"], properties=properties)


def data_bytes(table: PaimonTable) -> int:
    return sum(path.stat().st_size for path in Path(table.location).rglob("bucket-*/data-*"))


def ours(table: PaimonTable, commits: list[pa.Table]) -> Timing:
    def stream() -> None:
        for rows in commits:
            table.append(rows)

    return timed(stream)


def theirs(java: Any, table: PaimonTable, size: int, count: int, keys: int) -> Timing:
    java.open(table.location)
    wall = used = 0.0
    for number in range(count):
        java.make(size, keys, number)
        one = timed(java.commit, False, BUCKETS)
        wall, used = wall + one[0], used + one[1]
    java.close()
    return wall, used


def show(route: str, tables: list[PaimonTable], times: list[Timing], records: int) -> None:
    plain, compacted = tables
    scans = [timed(lambda table=table: table.refresh().scan().to_arrow())[0] for table in tables]
    amplification = data_bytes(compacted) / data_bytes(plain)
    for name, (wall, used), scan in zip(("write-only", "compacting"), times, scans, strict=True):
        processor = f", {used:7.2f} s of processor time" if route == "skerry" else ""
        print(f"{route:8} {name:12} {wall:7.2f} s, {records / wall:12,.0f} rows/s{processor}; scan {scan:6.2f} s")
    if route == "skerry":
        figure("a stream with its compaction", times[1][0], times[0][0])
    cost = times[1][0] / times[0][0] - 1
    used = f" ({times[1][1] / times[0][1] - 1:.0%} of processor time)" if route == "skerry" else ""
    print(f"{route:8} compaction costs {cost:.0%}{used}; write amplification {amplification:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=5_000_000, help="random keys are below this")
    parser.add_argument("--size", type=int, default=200_000, help="rows of a commit")
    parser.add_argument("--commits", type=int, default=25)
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "paimon-compaction")
    parser.add_argument("--java", action="store_true", help="beside Paimon Java, in Spark's JVM")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    commits = [some_rows(random.integers(0, given.keys, given.size), random) for _ in range(given.commits)]
    records = given.size * given.commits
    tables = [make(given.folder / f"ours-{only}", write_only=only) for only in (True, False)]
    ours(make(given.folder / "warm", write_only=False), commits[:6])
    show("skerry", tables, [ours(table, commits) for table in tables], records)
    if given.java:
        java = peer(given.folder)
        theirs(java, make(given.folder / "warm", write_only=False), given.size, 6, given.keys)
        tables = [make(given.folder / f"java-{only}", write_only=only) for only in (True, False)]
        times = [theirs(java, table, given.size, given.commits, given.keys) for table in tables]
        show("Java", tables, times, records)
    shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
