"""Opening a catalog and loading a table, beside PyIceberg on the same SQLite database.

Both open the catalog and load the table's metadata, again and again in one warm process, taking turns; the median of
the rounds counts. The table has 50 columns and a snapshot per append. What a fresh process pays is in `cold_start.py`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

import skerry
from figures import figure

COLUMNS = 50
TARGET = 5


def make(folder: Path, snapshots: int) -> None:
    """A table of some snapshots."""
    rows = pa.table({f"c{number}": [number] for number in range(COLUMNS)})
    table = skerry.connect(folder).create_table("d.t", rows.schema)
    for _ in range(snapshots):
        table.append(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=31)
    rounds = parser.parse_args().rounds
    for snapshots in (1, 100):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make(folder, snapshots)

            def by_skerry(folder: Path = folder) -> Any:
                return skerry.connect(folder).load_table("d.t").snapshots()

            def by_pyiceberg(folder: Path = folder) -> Any:
                catalog = SqlCatalog("skerry", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
                found = catalog.load_table("d.t").snapshots()
                catalog.close()
                return found

            assert len(by_skerry()) == len(by_pyiceberg()) == snapshots
            routes: list[Callable[[], Any]] = [by_skerry, by_pyiceberg]
            times: list[list[float]] = [[], []]
            for _ in range(rounds):
                for turn, run in enumerate(routes):
                    begin = time.perf_counter()
                    run()
                    times[turn].append(time.perf_counter() - begin)
            own, peer = map(statistics.median, times)
            figure(f"{snapshots} snapshots", *times)
            print(
                f"{snapshots} snapshots: skerry {own * 1000:.2f} ms, PyIceberg {peer * 1000:.2f} ms, "
                f"{peer / own:.1f} times as fast (at least {TARGET})"
            )


if __name__ == "__main__":
    main()
