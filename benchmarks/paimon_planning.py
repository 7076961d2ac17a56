"""Planning reads of a Paimon table of 10,000 files in 10 manifests: skerry beside pypaimon, on the same metadata.

The table has 20 days as partitions and 8 columns with full statistics. It is made once in `.cache/`; its data files do
not exist, since planning opens none. Every measurement loads the table, plans it and makes records of all splits; both
sides are warmed up, each in a process of its own, and take turns. Medians of wall and processor time are shown.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from figures import figure

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".cache" / "paimon_planning"
PYPAIMON = ROOT / ".venv-pypaimon" / "bin" / "python"
MANIFESTS, FILES_PER_MANIFEST, DAYS = 10, 1_000, 20
DAY = 86_400_000_000
COLUMNS = pa.schema(
    [
        ("dt", pa.string()),
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("name", pa.string()),
        ("x", pa.float64()),
        ("ts", pa.timestamp("us")),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
    ]
)
FILTERS = {"all files": None, "one day": "dt = '2026-01-05'", "one file by bounds": "id = 7777777"}


# ---- the table ----


def entries_of(state: Any, number: int) -> list[Any]:
    """The entries of one manifest."""
    from skerry.paimon.manifests.manifest import DataFileMeta, FileKind, FileSource, ManifestEntry
    from skerry.paimon.values.binary_row import encode_rows
    from skerry.paimon.values.simple_stats import SimpleStats

    types = [field.type for field in state.schema.fields]
    files = range(number * FILES_PER_MANIFEST, (number + 1) * FILES_PER_MANIFEST)
    days = [f"2026-01-{file % DAYS + 1:02d}" for file in files]
    partitions = encode_rows(types[:1], [pa.array(days)]).to_list()

    def bounds(last: int) -> list[bytes]:
        ids = [file * 1_000 + last for file in files]
        columns = [
            pa.array(days),
            pa.array(ids),
            pa.array(ids, pa.int32()),
            pa.array([f"name {value:011d}" for value in ids]),
            pa.array([value / 7 for value in ids]),
            pa.array([value * 1_000_000 for value in ids]).cast(pa.timestamp("us")),
            pa.array(ids, pa.int64()).cast(pa.decimal128(38, 2)).cast(pa.decimal128(10, 2)),
            pa.array([20_000 + file % DAYS for file in files], pa.int32()).cast(pa.date32()),
        ]
        return encode_rows(types, columns).to_list()

    return [
        ManifestEntry(
            FileKind.ADD,
            partition,
            0,
            -1,
            DataFileMeta(
                file_name=f"data-{file:032x}-0.parquet",
                file_size=1_000_000,
                row_count=1_000,
                value_stats=SimpleStats(low, high, (0,) * len(types)),
                max_sequence_number=999,
                creation_time=1_795_263_860_520,
                delete_row_count=0,
                file_source=FileSource.APPEND,
            ),
        )
        for file, partition, low, high in zip(files, partitions, bounds(0), bounds(999), strict=True)
    ]


def make(location: str) -> None:
    """Write the table's metadata, once."""
    from skerry.paimon.manifests.manifest import encode_manifest
    from skerry.paimon.manifests.manifest_list import encode_manifest_list, summarize
    from skerry.paimon.metadata.creation import create_table, first_schema
    from skerry.paimon.metadata.snapshot import CommitKind, Snapshot, encode_snapshot
    from skerry.paimon.metadata.snapshots import write_hint
    from skerry.storage import Storage

    storage = Storage()
    if storage.exists(f"{location}/snapshot/LATEST"):
        return
    state = create_table(storage, location, first_schema(COLUMNS, partition_by=["dt"]), name="planning")
    metas = []
    for number in range(MANIFESTS):
        entries, name = entries_of(state, number), f"manifest-planning-{number}"
        data = encode_manifest(entries)
        storage.write(state.paths.manifest(name), data)
        metas.append(summarize(name, len(data), entries, state.schema.partition_fields))
    sizes = []
    for name, manifests in (("manifest-list-planning-0", metas[:-1]), ("manifest-list-planning-1", metas[-1:])):
        data = encode_manifest_list(manifests)
        storage.write(state.paths.manifest(name), data)
        sizes.append(len(data))
    rows = MANIFESTS * FILES_PER_MANIFEST * 1_000
    snapshot = Snapshot(
        id=1,
        schema_id=0,
        base_manifest_list="manifest-list-planning-0",
        base_manifest_list_size=sizes[0],
        delta_manifest_list="manifest-list-planning-1",
        delta_manifest_list_size=sizes[1],
        commit_user="benchmark",
        commit_identifier=1,
        commit_kind=CommitKind.APPEND,
        time_millis=1_795_263_860_520,
        total_record_count=rows,
        delta_record_count=rows // MANIFESTS,
    )
    storage.write(state.paths.snapshot(1), encode_snapshot(snapshot))
    write_hint(storage, state.paths, 1)


# ---- both sides: a filter's name in, files and times out ----


def plan_here(location: str) -> Callable[[str | None], int]:
    from skerry.paimon.metadata.state import load_state
    from skerry.paimon.reading.fallback_scan import scan
    from skerry.storage import Storage

    def plan(where: str | None) -> int:
        return sum(1 for split in scan(load_state(Storage(), location), where=where).plan() for _ in split.files)

    return plan


PYPAIMON_SIDE = """
import json, sys, time
from pypaimon.table.file_store_table import FileStoreTable

def plan(location, name):
    builder = FileStoreTable.from_path(location).new_read_builder()
    predicates = builder.new_predicate_builder()
    if name == "one day":
        builder = builder.with_filter(predicates.equal("dt", "2026-01-05"))
    elif name == "one file by bounds":
        builder = builder.with_filter(predicates.equal("id", 7777777))
    return sum(len(split.files) for split in builder.new_scan().plan().splits())

replies, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    command = json.loads(line)
    wall, cpu = time.perf_counter(), time.process_time()
    files = plan(command["location"], command["name"])
    print(json.dumps([files, time.perf_counter() - wall, time.process_time() - cpu]), file=replies, flush=True)
"""


def serve(location: str) -> None:
    """Answer like the peer does."""
    plan = plan_here(location)
    for line in sys.stdin:
        where = FILTERS[json.loads(line)["name"]]
        wall, cpu = time.perf_counter(), time.process_time()
        files = plan(where)
        print(json.dumps([files, time.perf_counter() - wall, time.process_time() - cpu]), flush=True)


def ask(side: subprocess.Popen[str], location: str, name: str) -> list[float]:
    assert side.stdin is not None
    assert side.stdout is not None
    side.stdin.write(json.dumps({"location": location, "name": name}) + "\n")
    side.stdin.flush()
    return [float(number) for number in json.loads(side.stdout.readline())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    location = str(FOLDER / "made.db" / "planning")
    if arguments.serve:
        serve(location)
        return
    make(location)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    sides = {
        "skerry": subprocess.Popen([sys.executable, __file__, "--serve"], **pipes),
        "pypaimon": subprocess.Popen([str(PYPAIMON), "-c", PYPAIMON_SIDE], **pipes, stderr=subprocess.DEVNULL),
    }
    for name in FILTERS:
        times: dict[str, list[list[float]]] = {side: [] for side in sides}
        for number in range(arguments.rounds + 1):
            for side, process in sides.items():
                found = ask(process, location, name)
                if number:  # the first is to warm up
                    times[side].append(found)
        medians = {
            side: [statistics.median(column) for column in zip(*runs, strict=True)] for side, runs in times.items()
        }
        figure(name, *([wall for _, wall, _ in times[side]] for side in sides))
        for side, (files, wall, cpu) in medians.items():
            print(f"{name:20} {side:10} {int(files):>6,} files  {wall:7.3f} s  {cpu:7.3f} s of processors")
        print(f"{name:20} skerry takes 1/{medians['pypaimon'][1] / medians['skerry'][1]:.0f} of pypaimon's time")
    for process in sides.values():
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    main()
