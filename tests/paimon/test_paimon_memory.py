"""Merging, compaction and row-level changes of a bucket that is much larger than the memory they are given."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import skerry

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("n", pa.int64())])
RUNS, ROWS = 4, 250_000
LIMIT = 16 << 20

MEASURE = """
import sys
import pyarrow as pa
import skerry
from skerry.paimon.reading.fallback_scan import scan

def work(table, what, limit):
    if what == "scan":
        return sum(batch.num_rows for batch in scan(table.handle.state, memory_bytes=limit, threads=1).to_batches())
    if what == "compact":
        return table.compact(full=True).added_files
    return table.delete("n < 1000").deleted_rows

def peak():
    status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
    return int(status["VmHWM"].split()[0])

_, warehouse, what, limit = sys.argv
catalog = skerry.connect(warehouse)
work(catalog.load_table("ns.small"), what, 1 << 20)  # loads what the work needs
open("/proc/self/clear_refs", "w").write("5")  # forgets the most memory so far
before = peak()
assert work(catalog.load_table("ns.large"), what, int(limit)) > 0
print(peak() - before)
"""


def make(catalog, name, rows):
    table = catalog.create_table(
        f"ns.{name}",
        SCHEMA,
        format="paimon",
        primary_key=["id"],
        partition_by=["bucket(1, id)"],
        properties={"write-only": "true", "sort-spill-buffer-size": f"{LIMIT} b", "write-buffer-size": f"{LIMIT} b"},
    )
    random = np.random.default_rng(5)
    for _ in range(RUNS):
        ids = pa.array(random.permutation(2 * rows)[:rows])
        name = pc.binary_join_element_wise("a name that takes some bytes ", ids.cast(pa.string()), "")
        table.append(pa.table([ids, name, random.integers(0, 1 << 20, rows)], schema=SCHEMA))


def test_memory_stays_near_the_limit(tmp_path):
    """All records at once take 65 MiB as Arrow, and many times that while they are merged."""
    catalog = skerry.connect(tmp_path)
    make(catalog, "large", ROWS)
    make(catalog, "small", 100)
    for what in ("scan", "delete", "compact"):
        command = [sys.executable, "-c", MEASURE, str(tmp_path), what, str(LIMIT)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr
        grown_kib = int(found.stdout)
        assert grown_kib < 110 << 10, f"the process grew by {grown_kib >> 10} MiB: {what}"
