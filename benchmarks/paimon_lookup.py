"""Looking rows up by primary key in a Paimon table, beside pypaimon 2.1 and PyArrow reading the same files.

A table of ten million rows in four buckets is made under `.cache/` and compacted. Each round asks for 1,000 random
keys, others every time: by `table.lookup`, by a scan with a list of the keys, by PyArrow over all data files, and by
pypaimon (in an environment of its own, `make peers`; without that it is left out). The first look-ups, which decode
what later ones find in memory, are shown by themselves.

On a machine that has other work, the processor time says more than the time of the clock; both are shown.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from figures import figure
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".cache" / "paimon-lookup"
PYPAIMON = ROOT / ".venv-pypaimon" / "bin" / "python"
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("amount", pa.float64()), ("text", pa.string())])
ROWS, COMMITS, KEYS = 10_000_000, 2, 1_000
WARM = 5
COLUMNS = ["id", "amount"]

PEER = """
import json, sys, time
from pypaimon.table.file_store_table import FileStoreTable
for line in sys.stdin:
    path, keys = json.loads(line)
    start, used = time.perf_counter(), time.process_time()
    builder = FileStoreTable.from_path(path).new_read_builder()
    builder = builder.with_filter(builder.new_predicate_builder().is_in("id", keys)).with_projection(["id", "amount"])
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    print(json.dumps([time.perf_counter() - start, time.process_time() - used, rows.num_rows]), flush=True)
"""


def make_table() -> str:
    """The table; one that is not complete is made again."""
    location = str(FOLDER / "table")
    if not (FOLDER / "done").exists():
        shutil.rmtree(FOLDER, ignore_errors=True)
        table = PaimonTable.create(
            Storage(), location, SCHEMA, primary_key=["id"], properties={"bucket": "4", "write-only": "true"}
        )
        random = np.random.default_rng(1)
        for ids in np.split(random.permutation(ROWS), COMMITS):
            texts = pa.array([f"text {number}" for number in range(len(ids))])
            table.append(pa.table([pa.array(ids), pa.array(random.random(len(ids))), texts], schema=SCHEMA))
        table.compact(full=True)
        (FOLDER / "done").touch()
    return location


def timed(read: Callable[[], int]) -> tuple[float, float, int]:
    start, used = time.perf_counter(), time.process_time()
    rows = read()
    return time.perf_counter() - start, time.process_time() - used, rows


def compare(rounds: int) -> None:
    location = make_table()
    table = PaimonTable.open(Storage(), location)
    random = np.random.default_rng(5)
    peer = None
    if PYPAIMON.exists():
        peer = subprocess.Popen([PYPAIMON, "-c", PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def by_pypaimon(keys: list[int]) -> tuple[float, float, int]:
        assert peer is not None
        assert peer.stdin is not None
        assert peer.stdout is not None
        peer.stdin.write(json.dumps([location, keys]) + "\n")
        peer.stdin.flush()
        seconds, used, rows = json.loads(peer.stdout.readline())
        return seconds, used, rows

    def by_pyarrow(keys: list[int]) -> int:
        files = [file.location for file in table.files()]
        return ds.dataset(files).to_table(COLUMNS, filter=pc.field("id").isin(keys)).num_rows

    routes: dict[str, Callable[[list[int]], tuple[float, float, int]]] = {
        "lookup": lambda keys: timed(lambda: table.lookup(keys, COLUMNS).num_rows),
        "scan": lambda keys: timed(lambda: table.scan(COLUMNS, [("id", "in", keys)]).to_arrow().num_rows),
        "pyarrow, all files": lambda keys: timed(lambda: by_pyarrow(keys)),
    }
    if peer is not None:
        routes["pypaimon"] = by_pypaimon
    one = [int(random.integers(ROWS))]
    print(f"one key, first: {1000 * timed(lambda: table.lookup(one, COLUMNS).num_rows)[0]:.1f} ms")
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in routes}
    for number in range(rounds + 1):
        keys = random.choice(ROWS, KEYS, replace=False).tolist()
        for name, read in routes.items():
            seconds, used, rows = read(keys)
            assert rows == KEYS, (name, rows)
            if number:
                found[name].append((seconds, used))
            elif name == "lookup":
                print(f"{KEYS} keys, first: {1000 * seconds:.1f} ms")
                for _ in range(WARM):
                    read(random.choice(ROWS, KEYS, replace=False).tolist())
    ours = statistics.median(seconds for seconds, _ in found["lookup"])
    peer_name = "pyarrow, all files" if peer is None else "pypaimon"
    for name in ("lookup", "scan"):
        figure(name, *([seconds for seconds, _ in found[route]] for route in (name, peer_name)))
    for name, times in found.items():
        seconds, used = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"{name:20} {1000 * seconds:9.1f} ms, {1000 * used:9.1f} ms of processor time, {seconds / ours:7.1f}x")
    if peer is not None and peer.stdin is not None:
        peer.stdin.close()
        peer.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    compare(parser.parse_args().rounds)
