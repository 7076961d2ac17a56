"""Delete of 1,000 rows by key out of 10 million, merge-on-read and copy-on-write, beside PyIceberg's delete.

The rows lie in ten files with their keys in random order, so that bounds leave out nothing and every file holds some
of the keys: each file's key column is read once, which is measured beside it as a scan for the same keys. PyIceberg
deletes by rewriting files.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from functools import partial
from pathlib import Path

import numpy as np
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import In

from figures import figure
from skerry.kernels import warm_up
from upsert import FOLDER, folder_size, make_rows, make_table, timed

MODES = (("2", "merge-on-read"), ("3", "merge-on-read"), ("2", "copy-on-write"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--deleted", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true")
    arguments = parser.parse_args()
    warm_up()
    content, _ = make_rows(arguments.rows, arguments.deleted)
    random = np.random.default_rng(3)
    tables = {mode: make_table(FOLDER / f"delete-{mode[0]}-{mode[1]}", content, 10, mode) for mode in MODES}
    peer_folder: Path = FOLDER / "delete-pyiceberg"
    if not arguments.no_peer:
        make_table(peer_folder, content, 10, ("2", "copy-on-write"))
    times: dict[str, list[float]] = {}
    written: dict[str, list[float]] = {}
    for _ in range(arguments.rounds):
        keys = random.choice(arguments.rows, arguments.deleted, replace=False).tolist()
        where = f"id IN ({', '.join(map(str, keys))})"
        for (version, mode), table in tables.items():
            name = f"skerry v{version} {mode}"
            scanned, _, found = timed(partial(table.scan(["id"], where).count))
            before = folder_size(table)
            wall, _, done = timed(partial(table.delete, where))
            assert done.deleted_rows == found
            times.setdefault(f"{name}: scan for the keys", []).append(scanned)
            times.setdefault(name, []).append(wall)
            written.setdefault(name, []).append(folder_size(table) - before)
        if not arguments.no_peer:
            catalog = SqlCatalog("skerry", uri=f"sqlite:///{peer_folder}/catalog.db", warehouse=f"file://{peer_folder}")
            peer = catalog.load_table("bench.t")
            wall, _, _ = timed(partial(peer.delete, In("id", keys)))
            times.setdefault("pyiceberg", []).append(wall)
    for name, found in times.items():
        if name in written:
            figure(name, found, times.get("pyiceberg"))
            figure(f"{name}: written", [size / 1e6 for size in written[name]], unit="MB")
        size = f", {statistics.median(written[name]) / 1e6:,.2f} MB written" if name in written else ""
        print(f"{name:<45} {statistics.median(found):7.2f} s{size}")
    if "pyiceberg" in times:
        for version, mode in MODES:
            name = f"skerry v{version} {mode}"
            ratios = [peer / ours for peer, ours in zip(times["pyiceberg"], times[name], strict=True)]
            print(f"pyiceberg / {name:<33} {statistics.median(ratios):7.1f}")


if __name__ == "__main__":
    sys.exit(main())
