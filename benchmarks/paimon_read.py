"""Reading Paimon tables beside pypaimon 2.1, and beside merely reading their Parquet files.

Two tables are made under `.cache/`: one with a primary key, four buckets and five commits of 200,000 rows of which most
keys occur in several, none of them compacted; and an append table of two million rows. Each is read whole into an Arrow
table; the routes take turns, and the medians are shown with their ratio to ours. pypaimon runs in an environment of its
own (`make peers`), whose process times itself; without that environment it is left out.

With `--memory` a bucket more than ten times as large as the memory it is given is merged as a stream, in a process
of its own; what memory that had at most, Linux tells.

On a machine that has other work, the processor time says more than the time of the clock; both are shown.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from figures import figure
from skerry.paimon.metadata.state import load_state
from skerry.paimon.reading.fallback_scan import scan
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".cache" / "paimon-read"
PYPAIMON = ROOT / ".venv-pypaimon" / "bin" / "python"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("count", pa.int32()),
        pa.field("at", pa.timestamp("us")),
    ]
)
COMMITS, ROWS, KEYS = 5, 200_000, 500_000
MEMORY_LIMIT = 32 << 20
WIDE_COMMITS, WIDE_ROWS = 6, 1_000_000

PEER = """
import json, sys, time
from pypaimon.table.file_store_table import FileStoreTable
for path in sys.stdin:
    start, used = time.perf_counter(), time.process_time()
    builder = FileStoreTable.from_path(path.strip()).new_read_builder()
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    print(json.dumps([time.perf_counter() - start, time.process_time() - used, rows.num_rows]), flush=True)
"""


def some_rows(ids: np.ndarray, random: np.random.Generator, name: str = "name") -> pa.Table:
    count = len(ids)
    columns = [
        pa.array(ids, pa.int64()),
        pa.array([f"{name} {number % 1000}" for number in ids.tolist()]),
        pa.array(random.random(count)),
        pa.array(random.integers(0, 1000, count), pa.int32()),
        pa.array(random.integers(0, 10**15, count), pa.timestamp("us")),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def make_table(
    name: str, commits: list[np.ndarray], primary_key: list[str], text: str = "name", **properties: str
) -> str:
    """A table; one that is not complete is made anew."""
    folder = FOLDER / name
    location = str(folder / "table")
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        table = PaimonTable.create(
            Storage(), location, SCHEMA, primary_key=primary_key, properties={"write-only": "true", **properties}
        )
        random = np.random.default_rng(3)
        for ids in commits:
            table.append(some_rows(ids, random, text))
        (folder / "done").touch()
    return location


def make_tables() -> dict[str, str]:
    random = np.random.default_rng(7)
    keyed = [random.choice(KEYS, ROWS, replace=False) for _ in range(COMMITS)]
    return {
        "primary key": make_table("keyed", keyed, ["id"], bucket="4"),
        "append": make_table("append", [np.arange(2_000_000)], []),
    }


def timed(read: Callable[[], int]) -> tuple[float, float, int]:
    start, used = time.perf_counter(), time.process_time()
    rows = read()
    return time.perf_counter() - start, time.process_time() - used, rows


def read_skerry(location: str) -> int:
    return scan(load_state(Storage(), location)).to_arrow().num_rows


def read_parquet(location: str) -> int:
    return sum(pq.read_table(path).num_rows for path in sorted(Path(location).glob("bucket-*/data-*.parquet")))


def compare(rounds: int) -> None:
    peer = None
    if PYPAIMON.exists():
        peer = subprocess.Popen([PYPAIMON, "-c", PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read_peer(location: str) -> tuple[float, float, int]:
        assert peer is not None
        assert peer.stdin is not None
        assert peer.stdout is not None
        print(location, file=peer.stdin, flush=True)
        return tuple(json.loads(peer.stdout.readline()))

    for name, location in make_tables().items():
        routes: dict[str, Callable[[], tuple[float, float, int]]] = {
            "skerry": lambda location=location: timed(lambda: read_skerry(location)),
            "pyarrow, files only": lambda location=location: timed(lambda: read_parquet(location)),
        }
        if peer is not None:
            routes["pypaimon"] = lambda location=location: read_peer(location)
        taken: dict[str, list[tuple[float, float, int]]] = {route: [] for route in routes}
        for number in range(rounds + 1):
            for route, read in routes.items():
                result = read()
                if number:  # the first round warms up
                    taken[route].append(result)
        ours = statistics.median(wall for wall, _, _ in taken["skerry"])
        peers = [route for route in taken if route != "skerry"]
        for route in peers:
            figure(f"{name}, beside {route}", *([wall for wall, _, _ in taken[side]] for side in ("skerry", route)))
        print(f"{name}: medians of {rounds} rounds")
        for route, results in taken.items():
            wall, used = (statistics.median(result[place] for result in results) for place in (0, 1))
            print(f"  {route:<20} {wall:7.3f} s  processor {used:7.3f} s  {wall / ours:6.2f} ×  {results[0][2]:,} rows")
    if peer is not None and peer.stdin is not None:
        peer.stdin.close()
        peer.wait()


def merge_in_little_memory() -> None:
    """Merge a bucket that is larger than the memory it is given; run in a process of its own."""
    random = np.random.default_rng(7)
    commits = [random.permutation(2 * WIDE_ROWS)[:WIDE_ROWS] for _ in range(WIDE_COMMITS)]
    location = make_table("wide", commits, ["id"], "a name that takes some bytes of every row, number", bucket="1")
    subprocess.run([sys.executable, __file__, "--merge", location], check=True)


def merge(location: str) -> None:
    state = load_state(Storage(), location)

    def peak() -> float:
        """The most memory of this process since it was asked to forget, in MiB."""
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(status["VmHWM"].split()[0]) / 1024

    small = make_table("keyed-small", [np.arange(10), np.arange(10)], ["id"], bucket="1")
    read_skerry(small)  # load what reading needs
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    rows, row_bytes = 0, 0.0
    start = time.perf_counter()
    for batch in scan(state, memory_bytes=MEMORY_LIMIT, threads=1).to_batches():
        rows += batch.num_rows
        row_bytes = batch.nbytes / batch.num_rows
    records = WIDE_COMMITS * WIDE_ROWS
    print(
        f"one bucket, {records:,} records ({records * row_bytes / 2**20:,.0f} MiB) merged into {rows:,} rows with "
        f"{MEMORY_LIMIT >> 20} MiB: {time.perf_counter() - start:.1f} s; the process rose from {before:,.0f} to "
        f"{peak():,.0f} MiB at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", action="store_true", help="merge a large bucket in little memory")
    parser.add_argument("--merge", metavar="TABLE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.merge:
        merge(arguments.merge)
    elif arguments.memory:
        merge_in_little_memory()
    else:
        compare(arguments.rounds)


if __name__ == "__main__":
    main()
