"""Reading TPC-H lineitem at scale factor 1 with a tenth of its rows deleted by position, beside reading it whole.

Three tables with the same data files are made under `.cache/`: one without deletes, one with a file of positions
(version 2), one with deletion vectors (version 3). The rows that are deleted are drawn at random. Every table is read
into an Arrow table with two threads, three columns and all sixteen; the routes take turns, and the ratio is the median
of the rounds' ratios. PyIceberg reads three columns of the first two tables, and a plain NumPy mask over what the first
one gives stands beside.

On a machine that has other work, the processor time says more than the time of the clock; both are shown.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import skerry
from figures import figure
from skerry.iceberg.catalogs.pyiceberg_catalogs import as_pyiceberg
from skerry.iceberg.operations import RowDelta
from skerry.iceberg.writing.delete_files import write_deletion_vectors, write_position_deletes
from tpch_data import CACHE, lineitem_rows

FOLDER = CACHE / "reading-deletes"
COLUMNS = ["l_orderkey", "l_extendedprice", "l_shipdate"]
DELETED = 0.1
TABLES = {"whole": 2, "positions": 2, "vectors": 3}


def make_tables() -> dict[str, Any]:
    """The tables; those that are not complete are made anew."""
    for name, version in TABLES.items():
        if not (FOLDER / name / "done").exists():
            shutil.rmtree(FOLDER / name, ignore_errors=True)
            rows = lineitem_rows()
            catalog = skerry.connect(str(FOLDER / name))
            table = catalog.create_table("tpch.lineitem", rows.schema, properties={"format-version": str(version)})
            table.append(rows)
            delete_rows(table, name)
            (FOLDER / name / "done").touch()
    return {name: skerry.connect(str(FOLDER / name)).load_table("tpch.lineitem") for name in TABLES}


def delete_rows(table: Any, name: str) -> None:
    """Delete a tenth of a table's rows, drawn at random."""
    write = {"positions": write_position_deletes, "vectors": write_deletion_vectors}.get(name)
    if write is None:
        return
    draw = np.random.default_rng(4)
    inner = table.handle
    files = [task.data_file for task in table.scan().plan()]
    deletes = [(file, np.flatnonzero(draw.random(file.record_count) < DELETED)) for file in files]
    added = tuple(write(inner.layout(), deletes))
    inner.commit(RowDelta(added_deletes=added, starting_snapshot_id=inner.state.snapshot().snapshot_id))


def masked(table: Any, columns: list[str] | None) -> pa.Table:
    """What a plain mask over the read rows takes."""
    rows = table.scan(columns).to_arrow()
    keep = np.random.default_rng(4).random(rows.num_rows) >= DELETED
    return rows.filter(pa.array(keep))


def by_pyiceberg(table: Any) -> pa.Table:
    """Three columns of a table, read by PyIceberg."""
    inner = table.handle
    return as_pyiceberg(inner.catalog).load_table(inner.identifier).scan(selected_fields=tuple(COLUMNS)).to_arrow()


def measure(routes: dict[str, Callable[[], pa.Table]], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Time (clock, processor) of every route in every round, after one round that is not counted."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in routes}
    for number in range(rounds + 1):
        for name, route in routes.items():
            clock, processor = time.perf_counter(), time.process_time()
            route()
            if number:
                times[name].append((time.perf_counter() - clock, time.process_time() - processor))
    return times


def report(title: str, times: dict[str, list[tuple[float, float]]], base: str) -> None:
    print(title)
    for name, spent in times.items():
        clock, processor = (statistics.median(each) for each in zip(*spent, strict=True))
        if name != base:
            label = f"{title.partition(', ')[0]}, {name}"
            figure(label, *([seconds for seconds, _ in each] for each in (spent, times[base])))
        ratios = [
            statistics.median(mine[which] / other[which] for mine, other in zip(spent, times[base], strict=True))
            for which in (0, 1)
        ]
        print(f"  {name:<22} {clock:7.3f} s   cpu {processor:7.3f} s   {ratios[0]:5.2f} x   cpu {ratios[1]:5.2f} x")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--without-pyiceberg", action="store_true")
    options = arguments.parse_args()
    tables = make_tables()
    whole = tables["whole"]
    for title, columns in (("3 columns", COLUMNS), ("16 columns", None)):
        routes: dict[str, Callable[[], pa.Table]] = {
            name: lambda table=table, columns=columns: table.scan(columns).to_arrow() for name, table in tables.items()
        }
        routes["mask"] = lambda columns=columns: masked(whole, columns)
        found = {name: route().num_rows for name, route in routes.items()}
        assert len({found["positions"], found["vectors"], found["mask"]}) == 1, found
        times = measure(routes, options.rounds)
        report(f"{title}, {found['whole']:,} rows, {found['positions']:,} of them left", times, "whole")
    if not options.without_pyiceberg:
        peers = {name: lambda name=name: by_pyiceberg(tables[name]) for name in ("whole", "positions")}
        report("PyIceberg, 3 columns", measure(peers, 1), "whole")


if __name__ == "__main__":
    main()
