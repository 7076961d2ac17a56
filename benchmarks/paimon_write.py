"""Writing Paimon tables beside pypaimon 2.1: five overlapping commits to a primary-key table, and one large append.

The data is that of `paimon_read.py`: 200,000 rows a commit with keys from 500,000, four buckets; and two million rows
in one append. Both write Parquet, zstd level 1. The routes take turns; medians and their ratio are shown. pypaimon runs
in an environment of its own (`make peers`), whose process times itself; without that environment it is left out.

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

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from figures import figure
from paimon_read import COMMITS, KEYS, PYPAIMON, ROOT, ROWS, SCHEMA, some_rows
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

FOLDER = ROOT / ".cache" / "paimon-write"
APPENDED = 2_000_000
Timing = tuple[float, float]

PEER = """
import json, sys, time
import pyarrow as pa
from pypaimon.table.file_store_table import FileStoreTable
for line in sys.stdin:
    path, files = json.loads(line)
    commits = []
    for file in files:
        with pa.ipc.open_file(file) as reader:
            commits.append(reader.read_all())
    table = FileStoreTable.from_path(path)
    start, used = time.perf_counter(), time.process_time()
    for rows in commits:
        builder = table.new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(rows)
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()
    print(json.dumps([time.perf_counter() - start, time.process_time() - used]), flush=True)
"""


def data_sets() -> dict[str, tuple[list[pa.Table], dict[str, object]]]:
    """The commits of each table, and how it is made."""
    random = np.random.default_rng(7)
    keyed = [some_rows(random.choice(KEYS, ROWS, replace=False), random) for _ in range(COMMITS)]
    options = {"write-only": "true"}
    return {
        "primary key": (keyed, {"primary_key": ["id"], "properties": {**options, "bucket": "4"}}),
        "append": ([some_rows(np.arange(APPENDED), random)], {"properties": options}),
    }


def make(how: dict[str, object]) -> PaimonTable:
    shutil.rmtree(FOLDER / "table", ignore_errors=True)
    return PaimonTable.create(Storage(), str(FOLDER / "table"), SCHEMA, **how)  # type: ignore[arg-type]


def timed(write: Callable[[], None]) -> Timing:
    start, used = time.perf_counter(), time.process_time()
    write()
    return time.perf_counter() - start, time.process_time() - used


def write_skerry(commits: list[pa.Table], how: dict[str, object]) -> Timing:
    table = make(how)

    def write() -> None:
        for rows in commits:
            table.append(rows)

    return timed(write)


def write_parquet(commits: list[pa.Table]) -> Timing:
    def write() -> None:
        for number, rows in enumerate(commits):
            pq.write_table(rows, FOLDER / f"plain-{number}.parquet", compression="zstd", compression_level=1)

    return timed(write)


def write_peer(peer: subprocess.Popen[str], files: list[str], how: dict[str, object]) -> Timing:
    table = make(how)
    assert peer.stdin is not None
    assert peer.stdout is not None
    peer.stdin.write(json.dumps([table.location, files]) + "\n")
    peer.stdin.flush()
    wall, used = json.loads(peer.stdout.readline())
    return wall, used


def keep(commits: list[pa.Table], name: str) -> list[str]:
    """The commits as Arrow files, for the peer's process."""
    found = []
    for number, rows in enumerate(commits):
        path = FOLDER / f"{name.replace(' ', '-')}-{number}.arrow"
        with pa.ipc.new_file(path, rows.schema) as writer:
            writer.write_table(rows)
        found.append(str(path))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    FOLDER.mkdir(parents=True, exist_ok=True)
    peer = None
    if PYPAIMON.exists():
        peer = subprocess.Popen([PYPAIMON, "-c", PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for name, (commits, how) in data_sets().items():
        rows = sum(map(len, commits))
        times: dict[str, list[Timing]] = {"skerry": [], "Parquet alone": [], **({"pypaimon": []} if peer else {})}
        files = keep(commits, name) if peer else []
        write_skerry(commits, how)  # kernels are compiled and imports made
        for _ in range(rounds):
            times["skerry"].append(write_skerry(commits, how))
            times["Parquet alone"].append(write_parquet(commits))
            if peer:
                times["pypaimon"].append(write_peer(peer, files, how))
        ours = statistics.median(wall for wall, _ in times["skerry"])
        for peer_name in [route for route in times if route != "skerry"]:
            figure(
                f"{name}, beside {peer_name}", *([wall for wall, _ in times[side]] for side in ("skerry", peer_name))
            )
        for route, found in times.items():
            wall, used = (statistics.median(values) for values in zip(*found, strict=True))
            print(
                f"{name:12} {route:14} {wall:7.3f} s, {used:7.3f} s of processor time, {rows / wall:12,.0f} rows/s, "
                f"{wall / ours:6.2f} times skerry's"
            )
    if peer is not None and peer.stdin is not None:
        peer.stdin.close()
        peer.wait()


if __name__ == "__main__":
    main()
