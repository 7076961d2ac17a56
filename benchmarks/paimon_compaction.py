"""What automatic compaction costs a stream of upserts into a Paimon table, beside Paimon Java.

The same commits of random keys go into tables: one with `write-only`, one that compacts by the format's defaults (five
sorted runs), and one that does so in the background (`skerry.compaction.background`). Shown are the time of all
commits, in the background also until the last compaction has ended, the bytes of all data files that were written in
relation to those of level 0 (write amplification; nothing expires), and the time of a scan afterwards. The cost of
compaction is the time in relation to the first table's. With `--java` Paimon Java does the same in Spark's JVM, waiting
for its compactions; skerry scans its tables.

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


def make(folder: Path, *, write_only: bool = False, background: bool = False) -> PaimonTable:
    shutil.rmtree(folder, ignore_errors=True)
    properties = {"bucket": str(BUCKETS), "write-only": str(write_only).lower()}
    properties["skerry.compaction.background"] = str(background).lower()
    return PaimonTable.create(Storage(), str(folder), SCHEMA, primary_key=["id"], properties=properties)


def data_bytes(table: PaimonTable) -> int:
    return sum(path.stat().st_size for path in Path(table.location).rglob("bucket-*/data-*"))


def ours(table: PaimonTable, commits: list[pa.Table]) -> Timing:
    def stream() -> None:
        for rows in commits:
            table.append(rows)

    return timed(stream)


def ending(table: PaimonTable) -> Timing:
    """What remains of compactions in the background."""
    return timed(table.handle.request().background.wait)


def theirs(java: Any, table: PaimonTable, size: int, count: int, keys: int) -> Timing:
    java.open(table.location)
    wall = used = 0.0
    for number in range(count):
        java.make(size, keys, number)
        one = timed(java.commit, False, BUCKETS)
        wall, used = wall + one[0], used + one[1]
    java.close()
    return wall, used


def show(route: str, tables: dict[str, PaimonTable], times: dict[str, Timing], records: int) -> None:
    if route == "skerry":
        figure("a stream with its compaction", times["compacting"][0], times["write-only"][0])
        figure("a stream beside its compaction", times["in the background"][0], times["write-only"][0])
    plain, (plain_wall, plain_used) = data_bytes(tables["write-only"]), times["write-only"]
    for name, (wall, used) in times.items():
        table = tables[name.split(",")[0]]
        scan = timed(lambda table=table: table.refresh().scan().to_arrow())[0]
        processor = f", {used:6.2f} s of processor time" if route == "skerry" else ""
        cost = f"; costs {wall / plain_wall - 1:.0%}" if name != "write-only" else ""
        if cost and route == "skerry":
            cost += f" ({used / plain_used - 1:.0%} of processor time)"
        print(
            f"{route:8} {name:22} {wall:7.2f} s, {records / wall:12,.0f} rows/s{processor}; scan {scan:5.2f} s"
            f"; write amplification {data_bytes(table) / plain:.1f}{cost}"
        )


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
    tables = {
        "write-only": make(given.folder / "plain", write_only=True),
        "compacting": make(given.folder / "compacting"),
        "in the background": make(given.folder / "background", background=True),
    }
    ours(make(given.folder / "warm"), commits[:6])
    times = {name: ours(table, commits) for name, table in list(tables.items())[:2]}
    wall, used = times["in the background"] = ours(tables["in the background"], commits)
    rest = ending(tables["in the background"])
    times["in the background, end"] = wall + rest[0], used + rest[1]
    show("skerry", tables, times, records)
    if given.java:
        java = peer(given.folder)
        theirs(java, make(given.folder / "warm"), given.size, 6, given.keys)
        tables = {
            "write-only": make(given.folder / "java", write_only=True),
            "compacting": make(given.folder / "java-c"),
        }
        times = {name: theirs(java, table, given.size, given.commits, given.keys) for name, table in tables.items()}
        show("Java", tables, times, records)
    shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
