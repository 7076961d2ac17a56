"""What a commit of one row writes and costs, in tables of few and of many columns, with and without statistics.

Every table begins with rows of many distinct values in every column; then one row after another is appended, and all
but the newest 100 snapshots expire after every 100 appends. Shown are bytes of statistics files and of metadata.json
that an append writes, by how much metadata.json grows from one append to the next, and the processor time of the tenth
and of the last append, each as the median of the appends around it. The same without statistics, and with PyIceberg.

    python benchmarks/flat_commits.py --columns 3 100 2000 --appends 1000
    python benchmarks/flat_commits.py --columns 100 --appends 30 --writers statistics none
    python benchmarks/flat_commits.py --columns 100 --writers changes

`changes` is one delete, upsert and merge of a row each, merge-on-read, in a table of version 3.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

import skerry
from figures import figure

FIRST_ROWS = 10_000
KEPT_SNAPSHOTS = 100
TENTH = 10
AROUND = 4


@dataclass
class Measured:
    """What the appends of one writer cost.

    Args:
        puffin_bytes: Statistics files, by append.
        metadata_bytes: Size of metadata.json after it.
        seconds: Processor time.
        maintenance_puffin_bytes: Statistics files that expiring has written, in all.
    """

    puffin_bytes: list[int] = field(default_factory=list)
    metadata_bytes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    maintenance_puffin_bytes: int = 0

    def line(self, writer: str, columns: int) -> str:
        """A row of the printed table; growth is that of the first appends, before snapshots expire."""
        until = min(len(self.metadata_bytes), KEPT_SNAPSHOTS) - 1
        growth = (self.metadata_bytes[until] - self.metadata_bytes[0]) / until
        tenth, last = self.around(TENTH - 1), self.around(len(self.seconds) - 1 - AROUND)
        return (
            f"{columns:6,} {writer:12} {statistics.mean(self.puffin_bytes) / 1000:11,.1f} "
            f"{max(self.puffin_bytes) / 1000:11,.1f} {self.maintenance_puffin_bytes / 1000:11,.1f} "
            f"{statistics.mean(self.metadata_bytes) / 1000:11,.1f} {growth:9,.0f} "
            f"{tenth * 1000:9,.1f} {last * 1000:9,.1f} {last / tenth:6.2f}"
        )

    def around(self, index: int) -> float:
        """The median processor time of the appends around one."""
        return statistics.median(self.seconds[max(0, index - AROUND) : index + AROUND + 1])


def rows(columns: int, count: int, seed: int) -> pa.Table:
    """Rows of integers that hardly occur twice."""
    random = np.random.default_rng(seed)
    return pa.table({f"c{k}": random.integers(0, 1 << 60, count) for k in range(columns)})


def measure(
    folder: Path, columns: int, appends: int, append: Callable[[pa.Table], object], expire: Callable[[], object]
) -> Measured:
    """Append row by row."""
    found = Measured()
    seen: set[Path] = set()

    def new_puffin_bytes() -> int:
        new = set(folder.rglob("*.stats")) - seen
        seen.update(new)
        return sum(path.stat().st_size for path in new)

    append(rows(columns, FIRST_ROWS, 0))
    new_puffin_bytes()
    for number in range(1, appends + 1):
        row = rows(columns, 1, number)
        begin = time.process_time()
        append(row)
        found.seconds.append(time.process_time() - begin)
        found.puffin_bytes.append(new_puffin_bytes())
        newest = max(folder.rglob("*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
        found.metadata_bytes.append(newest.stat().st_size)
        if number % KEPT_SNAPSHOTS == 0:
            expire()
            found.maintenance_puffin_bytes += new_puffin_bytes()
    return found


def with_skerry(columns: int, appends: int, properties: dict[str, str]) -> Measured:
    """Append with skerry."""
    with tempfile.TemporaryDirectory() as name:
        catalog = skerry.connect(f"{name}/warehouse")
        table = catalog.create_table("n.t", rows(columns, 0, 0).schema, properties=properties)
        far = datetime.now(UTC) + timedelta(days=1)
        return measure(
            Path(name),
            columns,
            appends,
            table.append,
            lambda: table.expire_snapshots(keep_last=KEPT_SNAPSHOTS, older_than=far),
        )


def with_pyiceberg(columns: int, appends: int) -> Measured:
    """Append with PyIceberg, which writes no statistics and deletes no files of expired snapshots."""
    with tempfile.TemporaryDirectory() as name:
        Path(name, "warehouse").mkdir()
        catalog = SqlCatalog("c", uri=f"sqlite:///{name}/catalog.db", warehouse=f"file://{name}/warehouse")
        catalog.create_namespace("n")
        table = catalog.create_table("n.t", rows(columns, 0, 0).schema)

        def expire() -> None:
            old = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
            table.maintenance.expire_snapshots().by_ids(
                [snapshot.snapshot_id for snapshot in old[:-KEPT_SNAPSHOTS]]
            ).commit()

        return measure(Path(name), columns, appends, table.append, expire)


def changes(columns: int) -> None:
    """Print what a delete, an upsert of an old and of a new key, and a merge of one row write."""
    modes = {f"write.{change}.mode": "merge-on-read" for change in ("delete", "update", "merge")}

    def keyed(count: int, seed: int, key: int) -> pa.Table:
        keys = pa.array(range(key, key + count), pa.int64())
        return rows(columns, count, seed).set_column(0, "c0", keys)

    with tempfile.TemporaryDirectory() as name:
        table = skerry.connect(f"{name}/warehouse").create_table(
            "n.t", rows(columns, 0, 0).schema, properties=modes, format_version=3
        )
        table.append(keyed(FIRST_ROWS, 0, 0))
        seen = set(Path(name).rglob("*.stats"))
        for what, change in (
            ("delete", lambda: table.delete("c0 = 17")),
            ("upsert", lambda: table.upsert(keyed(1, 1, 19), on=["c0"])),
            ("upsert new", lambda: table.upsert(keyed(1, 2, FIRST_ROWS), on=["c0"])),
            ("merge", lambda: table.merge(keyed(1, 3, 20), on=["c0"], when_matched="update")),
        ):
            begin = time.process_time()
            change()
            seconds = time.process_time() - begin
            new = set(Path(name).rglob("*.stats")) - seen
            seen |= new
            written = sum(path.stat().st_size for path in new)
            print(f"{columns:6,} {what:12} {written / 1000:11,.1f} kB of Puffin, {seconds * 1000:9,.1f} ms", flush=True)


WRITERS: dict[str, Callable[[int, int], Measured]] = {
    "statistics": lambda columns, appends: with_skerry(columns, appends, {}),
    "none": lambda columns, appends: with_skerry(columns, appends, {"skerry.statistics.enabled": "false"}),
    "pyiceberg": with_pyiceberg,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, nargs="+", default=[3, 100, 2000])
    parser.add_argument("--appends", type=int, default=1000, help="at least 10")
    parser.add_argument("--writers", nargs="+", choices=[*WRITERS, "changes"], default=list(WRITERS))
    arguments = parser.parse_args()
    print("                    Puffin kB / append  Puffin kB   metadata.json kB    growth      ms of append")
    print("columns writer             mean         max   expiring        mean       B      10th      last  ratio")
    for columns in arguments.columns:
        for writer in arguments.writers:
            if writer == "changes":
                changes(columns)
                continue
            found = WRITERS[writer](columns, arguments.appends)
            print(found.line(writer, columns), flush=True)
            if writer != "pyiceberg":
                last = found.around(len(found.seconds) - 1 - AROUND)
                figure(f"{columns} columns, {writer}: last append, processor time", last)
                figure(f"{columns} columns, {writer}: metadata", found.metadata_bytes[-1] / 1000, unit="kB")


if __name__ == "__main__":
    main()
