"""Upsert of keys into a table, merge-on-read (versions 2 and 3) and copy-on-write, beside PyIceberg's upsert.

The table has 10 million rows of five columns in ten files, its keys in random order, so that every file holds some of
the keys and bounds leave out nothing. One million rows are upserted, nine of ten update a row. PyIceberg would take
minutes on that: it upserts fewer rows into a smaller table, in turn with us on the same; what it would take for all is
more than in proportion. Beside the time stand the bytes written.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

import skerry
from figures import figure
from skerry.kernels import warm_up

FOLDER = Path(__file__).parents[1] / ".cache" / "upsert"
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("account", pa.int32()),
        ("amount", pa.float64()),
        ("at", pa.timestamp("us")),
        ("note", pa.string()),
    ]
)
SEED = 11


def rows(ids: np.ndarray, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    count = len(ids)
    notes = pa.array([f"note number {n}" for n in range(1000)])
    return pa.table(
        [
            pa.array(ids),
            pa.array(random.integers(0, 100_000, count, np.int32)),
            pa.array(random.random(count) * 1000),
            pa.array(random.integers(1_700_000_000_000_000, 1_800_000_000_000_000, count)).cast(pa.timestamp("us")),
            notes.take(pa.array(random.integers(0, 1000, count))),
        ],
        schema=SCHEMA,
    )


def make_rows(count: int, upserted: int) -> tuple[pa.Table, pa.Table]:
    """The table's rows, keys in random order, and the rows to upsert."""
    path = FOLDER / f"rows-{count}.parquet"
    random = np.random.default_rng(SEED)
    ids = random.permutation(count)
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows(ids, SEED), path, row_group_size=1 << 20)
    old = random.choice(count, upserted * 9 // 10, replace=False)
    new = np.arange(count, count + upserted - len(old))
    return pq.read_table(path), rows(random.permutation(np.concatenate([old, new])), SEED + 1)


def make_table(folder: Path, content: pa.Table, files: int, kind: tuple[str, str]) -> skerry.catalog.Table:
    """A table of some version and mode with the rows in so many files."""
    shutil.rmtree(folder, ignore_errors=True)
    version, mode = kind
    properties = {"format-version": version, "write.merge.mode": mode, "write.delete.mode": mode}
    table = skerry.connect(folder).create_table("bench.t", SCHEMA, properties=properties)
    step = -(-content.num_rows // files)
    for start in range(0, content.num_rows, step):
        table.append(content.slice(start, step))
    return table


def folder_size(table: skerry.catalog.Table) -> int:
    """Bytes of all files that the table has ever written: nothing of them is removed."""
    folder = Path(table.location.removeprefix("file://"))
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def timed(action: Callable[[], object]) -> tuple[float, float, object]:
    wall, processor = time.perf_counter(), time.process_time()
    result = action()
    return time.perf_counter() - wall, time.process_time() - processor, result


def measure_ours(content: pa.Table, changes: pa.Table, files: int, rounds: int) -> None:
    for version, mode in (("2", "merge-on-read"), ("3", "merge-on-read"), ("2", "copy-on-write")):
        walls, processors, written = [], [], 0
        for number in range(rounds):
            table = make_table(FOLDER / f"ours-{version}-{mode}", content, files, (version, mode))
            before = folder_size(table)
            wall, processor, done = timed(partial(table.upsert, changes, "id"))
            walls.append(wall)
            processors.append(processor)
            written = folder_size(table) - before
            if number == 0:
                assert done.updated_rows + done.inserted_rows == changes.num_rows
                assert table.scan(["id"]).count() == content.num_rows + done.inserted_rows
        figure(f"version {version}, {mode}", walls)
        print(
            f"skerry v{version} {mode:<14} {changes.num_rows:>9,} into {content.num_rows:>10,}: "
            f"{statistics.median(walls):7.2f} s, processor {statistics.median(processors):6.2f} s, "
            f"{written / 1e6:,.1f} MB written, the table has {before / 1e6:,.1f} MB",
            flush=True,
        )


def measure_both(count: int, upserted: int, rounds: int) -> None:
    content, changes = make_rows(count, upserted)
    ratios = []
    times: dict[str, list[float]] = {"skerry": [], "pyiceberg": []}
    for _ in range(rounds):
        ours = make_table(FOLDER / "small-ours", content, 1, ("2", "merge-on-read"))
        folder = FOLDER / "small-theirs"
        make_table(folder, content, 1, ("2", "copy-on-write"))
        catalog = SqlCatalog("skerry", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        theirs = catalog.load_table("bench.t")
        wall, _, _ = timed(partial(ours.upsert, changes, "id"))
        peer, _, _ = timed(partial(theirs.upsert, changes, ["id"]))
        times["skerry"].append(wall)
        times["pyiceberg"].append(peer)
        ratios.append(peer / wall)
        ids = [("id", "ascending")]
        mine = ours.scan().to_arrow().sort_by(ids)
        assert mine.equals(theirs.scan().to_arrow().select(SCHEMA.names).cast(mine.schema).sort_by(ids))
    for name, found in times.items():
        print(f"{name:<9} {upserted:>9,} into {count:>10,}: {statistics.median(found):8.2f} s")
    figure("few rows beside PyIceberg", times["skerry"], times["pyiceberg"])
    print(f"ratio     {statistics.median(ratios):.1f} (median of {rounds} rounds)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--upserted", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-rows", type=int, default=100_000)
    parser.add_argument("--peer-upserted", type=int, default=5_000)
    arguments = parser.parse_args()
    warm_up()
    measure_ours(*make_rows(arguments.rows, arguments.upserted), 10, arguments.rounds)
    measure_both(arguments.peer_rows, arguments.peer_upserted, arguments.rounds)


if __name__ == "__main__":
    sys.exit(main())
