"""Planning tables of 1,000,000 and 10,000,000 files: time to the first and to the last file, memory, and requests.

The tables have metadata only, made in minutes: manifests of 10,000 files of one day each, with metrics of ten columns.
Each measurement is a process of its own, which imports, plans a small table, opens the large one, and then plans it.
With `--store` the metadata lies in a store that answers after 30 ms, and 200 requests a second: a small S3 server of
this script. PyIceberg (`--peer`) plans the table of up to 1,000,000 files once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from figures import figure

FOLDER = Path(__file__).parent.parent / ".cache" / "scale"
BUCKET = "s3://scale"
FILES_PER_MANIFEST, FIRST_DAY, SNAPSHOT = 10_000, 19_723, 1
LATENCY_SECONDS, REQUESTS_PER_SECOND = 0.03, 200
SCHEMA = pa.schema(
    [("id", pa.int64()), ("ts", pa.timestamp("us")), ("name", pa.string()), ("place", pa.string())]
    + [(f"n{number}", pa.int64()) for number in range(5)]
    + [("x", pa.float64())]
)
FILTERS = {
    "whole": None,
    "one day": "ts >= TIMESTAMP '2024-02-10 00:00:00' AND ts < TIMESTAMP '2024-02-11 00:00:00'",
    "by bounds": "id >= 5000100 AND id < 5000500",
}


# ---- the tables ----


def folder_of(files: int, scheme: str) -> Path:
    return FOLDER / f"{files}-{scheme}"


def root_of(files: int, scheme: str) -> str:
    """What the metadata calls the table's folder."""
    return f"{BUCKET}/{files}-s3" if scheme == "s3" else f"file://{folder_of(files, scheme)}"


def make_table(files: int, scheme: str) -> Path:
    """The metadata file of a table of so many files, made once."""
    folder = folder_of(files, scheme)
    target = folder / "metadata" / "v1.metadata.json"
    if target.exists():
        return target
    import skerry

    shutil.rmtree(folder, ignore_errors=True)
    properties = {"skerry.statistics.enabled": "false"}
    table = skerry.connect(folder / "made").create_table(
        "ns.t", SCHEMA, partition_by=["day(ts)"], properties=properties
    )
    metadata = json.loads(next(Path(table.location.removeprefix("file://")).glob("metadata/*.json")).read_text())
    target.parent.mkdir()
    root = root_of(files, scheme)
    manifests = [
        write_manifest(table, folder, root, number, files) for number in range(-(-files // FILES_PER_MANIFEST))
    ]
    from skerry.iceberg.manifests.manifest_list import encode_manifest_list

    listed = encode_manifest_list(manifests, format_version=2, snapshot_id=SNAPSHOT, sequence_number=1)
    (folder / "metadata" / "snap-1.avro").write_bytes(listed.data)
    now = metadata["last-updated-ms"]
    metadata |= {
        "location": root,
        "last-sequence-number": 1,
        "current-snapshot-id": SNAPSHOT,
        "refs": {"main": {"snapshot-id": SNAPSHOT, "type": "branch"}},
        "snapshots": [
            {
                "snapshot-id": SNAPSHOT,
                "sequence-number": 1,
                "timestamp-ms": now,
                "manifest-list": f"{root}/metadata/snap-1.avro",
                "summary": {"operation": "append", "total-data-files": str(files)},
                "schema-id": metadata["current-schema-id"],
            }
        ],
        "snapshot-log": [{"snapshot-id": SNAPSHOT, "timestamp-ms": now}],
    }
    shutil.rmtree(folder / "made")
    target.write_text(json.dumps(metadata))
    return target


def write_manifest(table: Any, folder: Path, root: str, number: int, files: int) -> Any:
    """The manifest of a day, and its record in the list."""
    from skerry.avro.writer import ContainerEncoder
    from skerry.iceberg.manifests.avro_schemas import manifest_schema
    from skerry.iceberg.manifests.manifest_list import FieldSummary, ManifestFile
    from skerry.iceberg.partitioning.partitions import partition_type

    count = min(FILES_PER_MANIFEST, files - number * FILES_PER_MANIFEST)
    metadata = table.handle.state.metadata
    schema, spec = metadata.schema(), metadata.spec()
    header = {
        "schema": json.dumps(schema.to_json()),
        "schema-id": str(schema.schema_id),
        "partition-spec": json.dumps([field.to_json() for field in spec.fields]),
        "partition-spec-id": str(spec.spec_id),
        "format-version": "2",
        "content": "data",
    }
    encoder = ContainerEncoder(manifest_schema(partition_type(schema, spec), 2), metadata=header)
    rows, entries = columns(root, number, count)
    data = b"".join([encoder.header, *encoder.encode_columns(entries)])
    name = f"metadata/m{number:05}.avro"
    (folder / name).write_bytes(data)
    day = struct.pack("<i", FIRST_DAY + number)
    return ManifestFile(
        f"{root}/{name}",
        len(data),
        spec.spec_id,
        added_snapshot_id=SNAPSHOT,
        added_files_count=count,
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=rows,
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=(FieldSummary(False, False, day, day),),
    )


def columns(root: str, number: int, count: int) -> tuple[int, pa.Table]:
    """The rows of a manifest's files, and its entries."""
    noise = np.random.default_rng(number)
    day, first = FIRST_DAY + number, number * FILES_PER_MANIFEST
    rows = noise.integers(10**5, 10**6, count)
    start = np.full(count, day * 86_400_000_000)
    numbers = noise.integers(0, 2**40, (5, count))
    texts = noise.integers(97, 105, (2, count, 16)).astype(np.uint8)
    ids = np.arange(first, first + count) * 1000
    lower = [ids, start, *texts, *numbers, noise.random(count)]
    upper = [
        ids + 999,
        start + 86_399_999_999,
        *(text + 10 for text in texts),
        *(numbers + 10**9),
        noise.random(count) + 1,
    ]
    width = len(SCHEMA)

    def bounds(values: list[Any]) -> pa.Array:
        cells = [np.ascontiguousarray(value).view(np.uint8).reshape(count, -1) for value in values]
        ends = np.cumsum(np.tile([cell.shape[1] for cell in cells], count), dtype=np.int32)
        offsets = np.concatenate([np.zeros(1, np.int32), ends])
        content = np.concatenate(cells, axis=1)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        return mapped(pa.Array.from_buffers(pa.binary(), len(ends), buffers), pa.binary())

    def mapped(values: Any, type_: pa.DataType, keys: int = width, first_key: int = 1) -> pa.Array:
        names = pa.array(np.tile(np.arange(first_key, first_key + keys, dtype=np.int32), count))
        items = values if isinstance(values, pa.Array) else pa.array(values, type_)
        offsets = pa.array(np.arange(count + 1, dtype=np.int32) * keys)
        type_ = pa.map_(pa.int32(), pa.field("value", type_, nullable=False))
        return pa.MapArray.from_arrays(offsets, names, items, type_)

    def constant(value: Any, type_: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, type_), count)

    names = noise.integers(0, 2**63, (count, 2))
    paths = [f"{root}/data/ts_day={day}/{one:016x}{other:016x}.parquet" for one, other in names.tolist()]
    partition = pa.StructArray.from_arrays([constant(day, pa.int32())], fields=[pa.field("ts_day", pa.int32())])
    nothing = {"key_metadata": pa.binary(), "equality_ids": pa.list_(pa.int32())}
    required = {"content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes"}
    found = {
        "content": constant(0, pa.int32()),
        "file_path": pa.array(paths),
        "file_format": constant("PARQUET", pa.string()),
        "partition": partition,
        "record_count": pa.array(rows),
        "file_size_in_bytes": pa.array(noise.integers(10**7, 10**8, count)),
        "column_sizes": mapped(noise.integers(10**5, 10**7, count * width), pa.int64()),
        "value_counts": mapped(np.repeat(rows, width), pa.int64()),
        "null_value_counts": mapped(noise.integers(0, 100, count * width), pa.int64()),
        "nan_value_counts": mapped(np.zeros(count, np.int64), pa.int64(), 1, width),
        "lower_bounds": bounds(lower),
        "upper_bounds": bounds(upper),
        "key_metadata": pa.nulls(count, nothing["key_metadata"]),
        "split_offsets": pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32), constant(4, pa.int64())).cast(
            pa.list_(pa.field("item", pa.int64(), nullable=False))
        ),
        "equality_ids": pa.nulls(count, nothing["equality_ids"]),
        "sort_order_id": constant(0, pa.int32()),
        "referenced_data_file": pa.nulls(count, pa.string()),
    }
    fields = [pa.field(name, array.type, nullable=name not in required) for name, array in found.items()]
    entry = {
        "status": constant(1, pa.int32()),
        "snapshot_id": constant(SNAPSHOT, pa.int64()),
        "sequence_number": pa.nulls(count, pa.int64()),
        "file_sequence_number": pa.nulls(count, pa.int64()),
        "data_file": pa.StructArray.from_arrays(list(found.values()), fields=fields),
    }
    schema = pa.schema(
        [pa.field(name, array.type, name not in ("status", "data_file")) for name, array in entry.items()]
    )
    return int(rows.sum()), pa.Table.from_arrays(list(entry.values()), schema=schema)


# ---- a store far away ----


class Limit:
    """Lets so many requests a second through, each after some time."""

    def __init__(self) -> None:
        self.lock, self.next = threading.Lock(), 0.0

    def wait(self) -> None:
        with self.lock:
            self.next = max(self.next + 1 / REQUESTS_PER_SECOND, time.monotonic())
            at = self.next
        time.sleep(max(0.0, at - time.monotonic()) + LATENCY_SECONDS)


def serve() -> None:
    """Answer GET and HEAD of objects below `FOLDER` until the process is killed; prints the port, then each request."""
    limit = Limit()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            limit.wait()
            print(self.command, flush=True)
            file = FOLDER / self.path.partition("?")[0].removeprefix("/scale/")
            if not file.is_file():
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            size, asked = file.stat().st_size, re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
            first, last = 0, size - 1
            if asked and asked[1]:
                first, last = int(asked[1]), min(int(asked[2] or last), last)
            elif asked:
                first = max(size - int(asked[2]), 0)
            self.send_response(206 if asked else 200)
            self.send_header("Content-Length", str(last - first + 1))
            self.send_header("ETag", f'"{size}"')
            self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
            if asked:
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
            self.end_headers()
            if self.command == "GET":
                with file.open("rb") as content:
                    content.seek(first)
                    self.wfile.write(content.read(last - first + 1))

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


class Store:
    """The store of `serve` in a process of its own, and the number of requests that it had."""

    def __init__(self) -> None:
        command = [sys.executable, __file__, "--serve"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port, self.requests = int(self.process.stdout.readline()), 0
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        assert self.process.stdout is not None
        for _ in self.process.stdout:
            self.requests += 1

    @property
    def options(self) -> dict[str, str]:
        return {
            "s3.endpoint": f"http://127.0.0.1:{self.port}",
            "s3.access-key-id": "reader",
            "s3.secret-access-key": "of metadata",
            "s3.region": "us-east-1",
        }


# ---- measurements, each in a process of its own ----


def grown_mb() -> float:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


Plan = Callable[[], tuple[float, int]]
"""Plans: seconds to the first file, and how many there are."""


def skerry_plans(location: str, options: dict[str, str], where: str | None, route: str) -> Plan:
    import skerry

    opened = skerry.open_table(location, **options)
    scan = opened.scan(where=where)

    def stream() -> tuple[float, int]:
        begin, first, files = time.perf_counter(), 0.0, 0
        for batch in scan.plan_batches():
            first = first or time.perf_counter() - begin
            files += batch.num_rows
        return first, files

    def table() -> tuple[float, int]:
        begin = time.perf_counter()
        files = scan.plan_table().num_rows
        return time.perf_counter() - begin, files

    def count() -> tuple[float, int]:
        begin = time.perf_counter()
        rows = scan.count()
        return time.perf_counter() - begin, rows

    def column_statistics() -> tuple[float, int]:
        begin = time.perf_counter()
        nulls = opened.statistics()["id"].null_count
        return time.perf_counter() - begin, nulls or 0

    return {"stream": stream, "table": table, "count": count, "statistics": column_statistics}[route]


def pyiceberg_plans(location: str, where: str | None) -> Plan:
    from pyiceberg.table import StaticTable

    filters = {
        None: "true",
        FILTERS["one day"]: "ts >= '2024-02-10T00:00:00' AND ts < '2024-02-11T00:00:00'",
        FILTERS["by bounds"]: FILTERS["by bounds"],
    }
    table = StaticTable.from_metadata(location)

    def plan() -> tuple[float, int]:
        begin = time.perf_counter()
        from pyiceberg.expressions import AlwaysTrue

        row_filter: Any = AlwaysTrue() if where is None else filters[where]
        files = sum(1 for _ in table.scan(row_filter=row_filter).plan_files())
        return time.perf_counter() - begin, files

    return plan


def measure(job: dict[str, Any]) -> None:
    """One measurement, printed as JSON."""
    small = f"file://{make_table(2, 'file')}"
    if job["route"] == "PyIceberg":
        pyiceberg_plans(small, job["where"])()
        plan = pyiceberg_plans(job["location"], job["where"])
    else:
        skerry_plans(small, {}, job["where"], job["route"])()
        plan = skerry_plans(job["location"], job["options"], job["where"], job["route"])
    before, begin, cpu = grown_mb(), time.perf_counter(), time.process_time()
    first, found = plan()
    seconds, used = time.perf_counter() - begin, time.process_time() - cpu
    print(json.dumps({"first": first, "last": seconds, "cpu": used, "found": found, "mb": grown_mb() - before}))


def run(job: dict[str, Any]) -> dict[str, float]:
    environment = {**os.environ, "SKERRY_CACHE_DIR": str(FOLDER / "cache")}
    shutil.rmtree(FOLDER / "cache" / "manifests", ignore_errors=True)
    command = [sys.executable, __file__, "--job", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", action="store_true", help="the metadata lies far away")
    parser.add_argument("--peer", action="store_true", help="PyIceberg as well, once")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve()
    elif chosen.job:
        measure(json.loads(chosen.job))
    else:
        compare(chosen.files, chosen.rounds, Store() if chosen.store else None, with_peer=chosen.peer)


def compare(sizes: list[int], rounds: int, store: Store | None, *, with_peer: bool) -> None:
    """All plans of all tables."""
    heads = [f"{head:>10}" for head in ("first s", "last s", "cpu s", "MB", "requests", "found")]
    print(f"{'files':>10} {'plan':<10}{'how':<12}", *heads, sep="")
    for files in sizes:
        scheme = "s3" if store else "file"
        begin, path = time.perf_counter(), make_table(files, scheme)
        if (made := time.perf_counter() - begin) > 1:
            print(f"made {files:,} files in {made:.0f} s")
        routes = [*((name, "stream") for name in FILTERS), ("whole", "count"), ("whole", "statistics")]
        if files <= 1_000_000:
            routes.append(("whole", "table"))
            routes += [(name, "PyIceberg") for name in FILTERS] if with_peer and store is None else []
        for name, route in routes:
            job = {"location": f"{root_of(files, scheme)}/metadata/{path.name}", "where": FILTERS[name], "route": route}
            show(f"{files:>10} {name:<10}{route:<12}", job, 1 if route == "PyIceberg" else rounds, store)
    if store:
        store.process.kill()


def show(title: str, job: dict[str, Any], rounds: int, store: Store | None) -> None:
    """A line of medians."""
    results, requests = [], []
    for _ in range(rounds):
        before = store.requests if store else 0
        results.append(run(job | {"options": store.options if store else {}}))
        requests.append(store.requests - before if store else 0)
    name = " ".join(title.split())
    figure(f"{name}: last file", [result["last"] for result in results])
    figure(f"{name}: memory", [result["mb"] for result in results], unit="MB")
    first, last, cpu, found, mb = (statistics.median(values) for values in zip(*map(dict.values, results), strict=True))
    numbers = f"{first:>10.3f}{last:>10.2f}{cpu:>10.2f}{mb:>10.0f}{statistics.median(requests):>10.0f}{found:>14.0f}"
    print(title, numbers, sep="", flush=True)


if __name__ == "__main__":
    main()
