"""Parsing and writing the metadata of a table with 10,000 snapshots and 1,000 columns, beside orjson and PyIceberg.

orjson only makes dictionaries of the text and text of the dictionaries: it is what the checks and records cost that is
measured. PyIceberg makes its own models and writes them. All take turns, in processor time; the median of the rounds
counts. `--statistics` registers a statistics file with a blob of every tenth column for every hundredth snapshot.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import orjson
from pyiceberg.table.metadata import TableMetadataUtil

from figures import figure
from skerry.iceberg.metadata.metadata_json import decode_metadata, encode_metadata

BEGIN_MS = 1_760_000_000_000


def snapshot(number: int) -> dict[str, Any]:
    """A snapshot as an append of skerry makes it."""
    counts = {
        "added-data-files": "2",
        "added-files-size": str(1_000_003 + number),
        "added-records": "20000",
        "changed-partition-count": "1",
        "engine-name": "skerry",
        "engine-version": "0.1.0",
        "total-data-files": str(2 * number),
        "total-delete-files": "0",
        "total-equality-deletes": "0",
        "total-files-size": str(1_000_003 * number),
        "total-position-deletes": "0",
        "total-records": str(20_000 * number),
    }
    return {
        "snapshot-id": 10**18 + number,
        **({"parent-snapshot-id": 10**18 + number - 1} if number > 1 else {}),
        "sequence-number": number,
        "timestamp-ms": BEGIN_MS + 60_000 * number,
        "manifest-list": f"s3://lake/warehouse/shop/sales/metadata/snap-{10**18 + number}-0-{number:032x}.avro",
        "summary": {"operation": "append", **counts},
        "schema-id": 0,
    }


def statistics_file(number: int, columns: int) -> dict[str, Any]:
    """A statistics file with a sketch of every tenth column."""
    blob = {"type": "apache-datasketches-theta-v1", "snapshot-id": 10**18 + number, "sequence-number": number}
    return {
        "snapshot-id": 10**18 + number,
        "statistics-path": f"s3://lake/warehouse/shop/sales/metadata/{10**18 + number}.stats",
        "file-size-in-bytes": 3_000_000,
        "file-footer-size-in-bytes": 30_000,
        "blob-metadata": [
            {**blob, "fields": [field], "properties": {"ndv": "4711"}} for field in range(1, columns, 10)
        ],
    }


def document(snapshots: int, columns: int, *, with_statistics: bool) -> bytes:
    """The metadata file."""
    kinds = ["long", "string", "double", "timestamptz", "decimal(12, 2)", "date", "boolean"]
    fields = [
        {"id": number, "name": f"column_{number}", "required": False, "type": kinds[number % len(kinds)]}
        for number in range(1, columns + 1)
    ]
    numbers = range(1, snapshots + 1)
    found = {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "s3://lake/warehouse/shop/sales",
        "last-sequence-number": snapshots,
        "last-updated-ms": BEGIN_MS + 60_000 * snapshots,
        "last-column-id": columns,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"owner": "us"},
        "current-snapshot-id": 10**18 + snapshots,
        "refs": {"main": {"snapshot-id": 10**18 + snapshots, "type": "branch"}},
        "snapshots": [snapshot(number) for number in numbers],
        "statistics": [statistics_file(n, columns) for n in numbers if n % 100 == 0] if with_statistics else [],
        "partition-statistics": [],
        "snapshot-log": [
            {"snapshot-id": 10**18 + number, "timestamp-ms": BEGIN_MS + 60_000 * number} for number in numbers
        ],
        "metadata-log": [],
    }
    return json.dumps(found).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--snapshots", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--statistics", action="store_true")
    options = parser.parse_args()
    data = document(options.snapshots, options.columns, with_statistics=options.statistics)
    ours, plain, theirs = decode_metadata(data), orjson.loads(data), TableMetadataUtil.parse_raw(data.decode())
    assert orjson.loads(encode_metadata(ours)) == plain, "nothing is lost"
    assert len(theirs.snapshots) == len(ours.snapshots) == options.snapshots
    routes: dict[tuple[str, str], Callable[[], Any]] = {
        ("parse", "skerry"): lambda: decode_metadata(data),
        ("parse", "orjson"): lambda: orjson.loads(data),
        ("parse", "PyIceberg"): lambda: TableMetadataUtil.parse_raw(data.decode()),
        ("write", "skerry"): lambda: encode_metadata(ours),
        ("write", "orjson"): lambda: orjson.dumps(plain),
        ("write", "PyIceberg"): lambda: theirs.model_dump_json().encode(),
    }
    times: dict[tuple[str, str], list[float]] = {route: [] for route in routes}
    for _ in range(options.rounds):
        for route, run in routes.items():
            begin = time.process_time()
            run()
            times[route].append(time.process_time() - begin)
    print(f"{len(data) / 1e6:.1f} MB, {options.snapshots} snapshots, {options.columns} columns, processor time")
    for what in ("parse", "write"):
        own = statistics.median(times[what, "skerry"])
        for peer in ("orjson", "PyIceberg"):
            figure(f"{what}, beside {peer}", times[what, "skerry"], times[what, peer])
            other = statistics.median(times[what, peer])
            print(f"{what}: skerry {own * 1000:.1f} ms, {peer} {other * 1000:.1f} ms, ratio {own / other:.2f}")


if __name__ == "__main__":
    main()
