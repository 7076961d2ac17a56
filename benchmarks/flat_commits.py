"""What a commit of one row writes and costs, in tables of few and of many columns, with and without statistics.

Every table begins with rows of many distinct values in every column; then one row after another is appended, deleted
or upserted (merge-on-read, format version 3), and all but the newest 100 snapshots expire after every 100 commits.
Shown are the bytes of statistics files, of metadata.json and of all files that a commit writes, by how much
metadata.json grows from one commit to the next, and the processor time of the tenth and of the last commit, each as the
median of those around it. The same without statistics, and appends with PyIceberg.

    python benchmarks/flat_commits.py --columns 3 100 2000 --commits 1000
    python benchmarks/flat_commits.py --columns 100 --commits 30 --writers statistics none
    python benchmarks/flat_commits.py --columns 100 --commits 100 --operations delete upsert
    python benchmarks/flat_commits.py --columns 100 --writers changes

`changes` is one delete, upsert and merge of a row each.
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
    """What the commits of one writer cost.

    Args:
        puffin_bytes: Statistics files, by commit.
        written_bytes: All files that it has written.
        metadata_bytes: Size of metadata.json after it.
        seconds: Processor time.
        maintenance_puffin_bytes: Statistics files that expiring has written, in all.
    """

    puffin_bytes: list[int] = field(default_factory=list)
    written_bytes: list[int] = field(default_factory=list)
    metadata_bytes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    maintenance_puffin_bytes: int = 0

    def line(self, operation: str, writer: str, columns: int) -> str:
        """A row of the printed table; growth is that of the first commits, before snapshots expire."""
        until = min(len(self.metadata_bytes), KEPT_SNAPSHOTS) - 1
        growth = (self.metadata_bytes[until] - self.metadata_bytes[0]) / until
        tenth, last = self.around(TENTH - 1), self.around(len(self.seconds) - 1 - AROUND)
        return (
            f"{columns:6,} {operation:6} {writer:10} {statistics.mean(self.puffin_bytes) / 1000:11,.1f} "
            f"{max(self.puffin_bytes) / 1000:11,.1f} {self.maintenance_puffin_bytes / 1000:11,.1f} "
            f"{statistics.mean(self.written_bytes) / 1000:11,.1f} "
            f"{statistics.mean(self.metadata_bytes) / 1000:11,.1f} {growth:9,.0f} "
            f"{tenth * 1000:9,.1f} {last * 1000:9,.1f} {last / tenth:6.2f}"
        )

    def around(self, index: int) -> float:
        """The median processor time of the commits around one."""
        return statistics.median(self.seconds[max(0, index - AROUND) : index + AROUND + 1])


def rows(columns: int, count: int, seed: int) -> pa.Table:
    """Rows of integers that hardly occur twice."""
    random = np.random.default_rng(seed)
    return pa.table({f"c{k}": random.integers(0, 1 << 60, count) for k in range(columns)})


def keyed(columns: int, count: int, seed: int, key: int) -> pa.Table:
    """Rows whose first column counts from a key on."""
    return rows(columns, count, seed).set_column(0, "c0", pa.array(range(key, key + count), pa.int64()))


def measure(folder: Path, commits: int, change: Callable[[int], object], expire: Callable[[], object]) -> Measured:
    """Change row by row; `change` gets the numbers from 1 on."""
    found = Measured()
    seen: set[Path] = set()

    def new_bytes() -> tuple[int, int]:
        """The new statistics files, and all new files."""
        new = {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".db"} - seen
        seen.update(new)
        sizes = {path: path.stat().st_size for path in new}
        return sum(size for path, size in sizes.items() if path.suffix == ".stats"), sum(sizes.values())

    new_bytes()
    for number in range(1, commits + 1):
        begin = time.process_time()
        change(number)
        found.seconds.append(time.process_time() - begin)
        puffin, written = new_bytes()
        found.puffin_bytes.append(puffin)
        found.written_bytes.append(written)
        newest = max(folder.rglob("*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
        found.metadata_bytes.append(newest.stat().st_size)
        if number % KEPT_SNAPSHOTS == 0:
            expire()
            found.maintenance_puffin_bytes += new_bytes()[0]
    return found


MERGE_ON_READ = {f"write.{change}.mode": "merge-on-read" for change in ("delete", "update", "merge")}


def with_skerry(operation: str, columns: int, commits: int, properties: dict[str, str]) -> Measured:
    """Append, delete or upsert with skerry."""
    with tempfile.TemporaryDirectory() as name:
        catalog = skerry.connect(f"{name}/warehouse")
        schema = rows(columns, 0, 0).schema
        is_append = operation == "append"
        table = catalog.create_table(
            "n.t",
            schema,
            properties=properties if is_append else properties | MERGE_ON_READ,
            format_version=2 if is_append else 3,
        )
        table.append(rows(columns, FIRST_ROWS, 0) if is_append else keyed(columns, FIRST_ROWS, 0, 0))
        new = {number: rows(columns, 1, number) for number in range(1, commits + 1)} if is_append else {}
        again = {number: keyed(columns, 1, number, 7 * number) for number in range(1, commits + 1)}
        changes: dict[str, Callable[[int], object]] = {
            "append": lambda number: table.append(new[number]),
            "delete": lambda number: table.delete(f"c0 = {7 * number}"),
            "upsert": lambda number: table.upsert(again[number], on=["c0"]),
        }
        far = datetime.now(UTC) + timedelta(days=1)
        return measure(
            Path(name),
            commits,
            changes[operation],
            lambda: table.expire_snapshots(keep_last=KEPT_SNAPSHOTS, older_than=far),
        )


def with_pyiceberg(columns: int, commits: int) -> Measured:
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

        table.append(rows(columns, FIRST_ROWS, 0))
        new = {number: rows(columns, 1, number) for number in range(1, commits + 1)}
        return measure(Path(name), commits, lambda number: table.append(new[number]), expire)


def changes(columns: int) -> None:
    """Print what a delete, an upsert of an old and of a new key, and a merge of one row write."""
    with tempfile.TemporaryDirectory() as name:
        table = skerry.connect(f"{name}/warehouse").create_table(
            "n.t", rows(columns, 0, 0).schema, properties=MERGE_ON_READ, format_version=3
        )
        table.append(keyed(columns, FIRST_ROWS, 0, 0))
        seen = set(Path(name).rglob("*.stats"))
        for what, change in (
            ("delete", lambda: table.delete("c0 = 17")),
            ("upsert", lambda: table.upsert(keyed(columns, 1, 1, 19), on=["c0"])),
            ("upsert new", lambda: table.upsert(keyed(columns, 1, 2, FIRST_ROWS), on=["c0"])),
            ("merge", lambda: table.merge(keyed(columns, 1, 3, 20), on=["c0"], when_matched="update")),
        ):
            begin = time.process_time()
            change()
            seconds = time.process_time() - begin
            new = set(Path(name).rglob("*.stats")) - seen
            seen |= new
            written = sum(path.stat().st_size for path in new)
            print(f"{columns:6,} {what:12} {written / 1000:11,.1f} kB of Puffin, {seconds * 1000:9,.1f} ms", flush=True)


WRITERS: dict[str, Callable[[str, int, int], Measured]] = {
    "statistics": lambda operation, columns, commits: with_skerry(operation, columns, commits, {}),
    "none": lambda operation, columns, commits: with_skerry(
        operation, columns, commits, {"skerry.statistics.enabled": "false"}
    ),
    "pyiceberg": lambda _, columns, commits: with_pyiceberg(columns, commits),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, nargs="+", default=[3, 100, 2000])
    parser.add_argument("--commits", type=int, default=1000, help="at least 10")
    parser.add_argument("--operations", nargs="+", choices=["append", "delete", "upsert"], default=["append"])
    parser.add_argument("--writers", nargs="+", choices=[*WRITERS, "changes"], default=list(WRITERS))
    arguments = parser.parse_args()
    heads = ("Puffin kB", "at most", "expiring", "all kB", "metadata kB")
    print(
        "columns                  " + "".join(f"{head:>12}" for head in heads) + "   growth B  10th ms   last ms  ratio"
    )
    for columns in arguments.columns:
        for operation in arguments.operations:
            for writer in arguments.writers:
                if writer == "changes":
                    changes(columns)
                elif operation == "append" or writer != "pyiceberg":
                    run(operation, writer, columns, arguments.commits)


def run(operation: str, writer: str, columns: int, commits: int) -> None:
    """Measure one writer, and print what it took."""
    found = WRITERS[writer](operation, columns, commits)
    print(found.line(operation, writer, columns), flush=True)
    if writer != "pyiceberg":
        last = found.around(len(found.seconds) - 1 - AROUND)
        what = "metadata" if operation == "append" else f"metadata after {operation}s"
        figure(f"{columns} columns, {writer}: last {operation}, processor time", last)
        figure(f"{columns} columns, {writer}: {what}", found.metadata_bytes[-1] / 1000, unit="kB")


if __name__ == "__main__":
    main()
