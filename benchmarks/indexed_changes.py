"""Delete of one user's rows and upsert of 1,000 keys, in an indexed table and in one without, merge-on-read.

The rows are those of `lookup.py` with a user: each has a hundred rows somewhere in the table, so that bounds leave out
nothing. Beside the time stand the bytes read, as the kernel counts them. Statistics of columns are kept, which is part
of the time: the values that the deleted rows take along are subtracted.

    python benchmarks/indexed_changes.py --rows 5000000
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import skerry
from figures import figure
from lookup import ROOT, lines, timed
from skerry.kernels import warm_up

ROWS_OF_USER = 100
UPSERTED = 1_000
INDEXES = {"skerry.index.trace": "hash", "skerry.index.user": "hash"}


def build(folder: Path, rows: int, *, indexed: bool) -> skerry.Table:
    """The table."""
    shutil.rmtree(folder, ignore_errors=True)
    random = np.random.default_rng(5)
    mode = {"write.delete.mode": "merge-on-read", "write.merge.mode": "merge-on-read"}
    made = None
    for part in lines(rows):
        users = random.integers(0, max(rows // ROWS_OF_USER, 1), part.num_rows)
        whole = part.append_column("user", pa.array(users))
        if made is None:
            properties = {**mode, **(INDEXES if indexed else {})}
            made = skerry.connect(folder).create_table("logs.t", whole.schema, properties=properties, format_version=3)
        made.append(whole)
    assert made is not None
    return made


def bytes_read() -> int:
    """What this process has read from files so far."""
    return int(Path("/proc/self/io").read_text().split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    warm_up()
    folder = ROOT / ".cache" / f"changes-{arguments.rows}"
    tables = {name: build(folder / name, arguments.rows, indexed=name == "indexed") for name in ("indexed", "plain")}
    random = np.random.default_rng(3)
    traces = tables["plain"].scan(["trace", "ts", "message"]).to_arrow().combine_chunks()
    figures: dict[str, list[tuple[float, int]]] = {}
    for number in range(arguments.rounds):
        chosen = traces.take(pa.array(random.choice(arguments.rows, UPSERTED, replace=False)))
        for name, table in tables.items():
            for what, act in (
                ("delete of a user", partial(table.delete, f"user = {number}")),
                ("upsert of 1,000 keys", partial(table.upsert, chosen, on="trace")),
            ):
                before = bytes_read()
                took, _ = timed(act)
                figures.setdefault(f"{what}, {name}", []).append((took, bytes_read() - before))
    for what, found in figures.items():
        figure(what, [seconds for seconds, _ in found])
        figure(f"{what}: read", [size / 1e6 for _, size in found], unit="MB")
        took, read = (statistics.median(values) for values in zip(*found, strict=True))
        print(f"{what:<32} {1000 * took:9.1f} ms {read / 1e6:10.2f} MB read")


if __name__ == "__main__":
    sys.exit(main())
