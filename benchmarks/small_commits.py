"""What small commits cost in a warm process, for tables of three columns: a row appended, deleted, upserted at a time.

Appends to the Iceberg table take turns with PyIceberg's, in a table of its own that has as many snapshots. Figures are
processor time of this process in milliseconds, medians of the commits; new tables are what tests make by the thousand.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

import skerry
from figures import figure

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("x", pa.float64())])


def rows(start: int, stop: int) -> pa.Table:
    ids = range(start, stop)
    return pa.table([list(ids), [f"name {id_}" for id_ in ids], [id_ / 2 for id_ in ids]], schema=SCHEMA)


def milliseconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return 1000 * (time.process_time() - begin)


def appends(catalog: skerry.Catalog, peer: SqlCatalog, commits: int) -> dict[str, list[float]]:
    """Appends to an Iceberg table, to PyIceberg's and to a Paimon table in turn."""
    ours = {format_: catalog.create_table(f"d.{format_}", SCHEMA, format=format_) for format_ in ("iceberg", "paimon")}
    theirs = peer.create_table("d.peer", SCHEMA)
    found: dict[str, list[float]] = {"iceberg": [], "paimon": [], "pyiceberg": []}
    for number in range(commits):
        data = rows(number, number + 1)
        for format_, table in ours.items():
            found[format_].append(milliseconds(lambda table=table, data=data: table.append(data)))
        found["pyiceberg"].append(milliseconds(lambda data=data: theirs.append(data)))
    return found


def changes(catalog: skerry.Catalog, format_: str, commits: int) -> dict[str, list[float]]:
    """Deletes and upserts of single rows in turn, in a table of one file of 1,000 rows; and new tables."""
    table = catalog.create_table(f"d.changed_{format_}", SCHEMA, format=format_)
    table.append(rows(0, 1_000))
    found: dict[str, list[float]] = {"delete": [], "upsert": [], "new table and a row": []}
    for number in range(commits):
        found["delete"].append(milliseconds(lambda number=number: table.delete(f"id = {number}")))
        data = rows(500 + number % 50, 501 + number % 50)
        found["upsert"].append(milliseconds(lambda data=data: table.upsert(data, on=["id"])))

        def make(name: str = f"d.{format_}_{number}") -> None:
            catalog.create_table(name, SCHEMA, format=format_).append(rows(0, 1))

        found["new table and a row"].append(milliseconds(make))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--warm", type=int, default=15, help="commits that are not counted")
    arguments = parser.parse_args()
    count = arguments.commits + arguments.warm
    with tempfile.TemporaryDirectory() as folder:
        catalog = skerry.connect(Path(folder) / "warehouse")
        catalog.create_namespace("d")
        peer = SqlCatalog("peer", uri=f"sqlite:///{folder}/peer.db", warehouse=f"file://{folder}/peer")
        peer.create_namespace("d")
        found = appends(catalog, peer, count)
        theirs = found.pop("pyiceberg")[arguments.warm :]
        measured = {f"{format_}, append": times for format_, times in found.items()}
        for format_ in ("iceberg", "paimon"):
            measured |= {f"{format_}, {name}": times for name, times in changes(catalog, format_, count).items()}
        for name, times in measured.items():
            ours, is_peer = times[arguments.warm :], name == "iceberg, append"
            figure(name, ours, theirs if is_peer else None, unit="ms")
            beside = f"  PyIceberg {statistics.median(theirs):6.2f} ms" if is_peer else ""
            print(f"{name:32}{statistics.median(ours):7.2f} ms{beside}")


if __name__ == "__main__":
    main()
