"""Tables of every kind for tests of copies, and what one has to say."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("s", pa.string()), ("d", pa.int32())])
ON_READ = {"write.delete.mode": "merge-on-read"}
ICEBERG = {
    "v1": {"format_version": 1},
    "v2": {"format_version": 2, "properties": ON_READ},
    "v2_orc": {"format_version": 2, "properties": {**ON_READ, "write.delete.format.default": "orc"}},
    "v2_avro": {
        "format_version": 2,
        "properties": {**ON_READ, "write.delete.granularity": "partition"},
        "file_format": "avro",
    },
    "v3": {"format_version": 3, "properties": ON_READ},
    "packed": {"format_version": 3, "properties": {**ON_READ, "write.metadata.compression-codec": "gzip"}},
}
PAIMON = {
    "plain": {"format": "paimon"},
    "vectors": {"format": "paimon", "properties": {"deletion-vectors.enabled": "true"}},
    "keyed": {"format": "paimon", "primary_key": ["id"], "partition_by": ["bucket(2, id)"]},
}
KINDS = {**ICEBERG, **PAIMON}


def rows(start, stop):
    ids = range(start, stop)
    return pa.table([list(ids), [f"w{i % 7}" for i in ids], [i % 2 for i in ids]], schema=SCHEMA)


def make(catalog, kind, name=None):
    """A table with deletes, a tag, statistics and some history."""
    options = {"partition_by": ["d"], **KINDS[kind]}
    table = catalog.create_table(name or f"n.{kind}", SCHEMA, **options)
    table.append(rows(0, 20))
    table.append(rows(20, 40))
    table.delete("id = 5 or id = 25")
    table.delete("id < 3")
    table.create_tag("then")
    table.append(rows(40, 50))
    return table


def go_on(table):
    """More history: rows, deletes, fewer files."""
    table.delete("id = 30")
    table.append(rows(50, 60))
    table.compact(full=True)
    table.delete("id = 31")


def ids(table, **scan):
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())


def content(table):
    """All that a table has to say."""
    return {
        "rows": table.scan().to_arrow().sort_by("id").to_pylist(),
        "snapshots": [(found.snapshot_id, ids(table, snapshot=found.snapshot_id)) for found in table.snapshots()],
        "then": ids(table, ref="then"),
        "refs": sorted(table.refs()),
        "statistics": {
            name: (c.ndv, c.null_count, c.min, c.max, str(c.freshness)) for name, c in table.statistics().items()
        },
        "properties": table.properties,
    }


def files_of(folder):
    found = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def naming(folder, text):
    """Files in a folder that contain a text."""
    return [path for path in Path(folder).rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
