"""Avro files with other values, and all the rest as it was."""

from __future__ import annotations

import json

import pytest

from skerry.avro import read_header, rewrite_records, write_container
from skerry.errors import FormatError

SCHEMA = {
    "type": "record",
    "name": "entry",
    "doc": "kept",
    "fields": [
        {"name": "path", "type": "string", "field-id": 100},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None, "field-id": 101},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}, "field-id": 102},
        {
            "name": "price",
            "type": [
                "null",
                {"type": "fixed", "name": "d", "size": 3, "logicalType": "decimal", "precision": 5, "scale": 2},
            ],
            "field-id": 103,
        },
        {
            "name": "bounds",
            "type": {
                "type": "array",
                "logicalType": "map",
                "items": {
                    "type": "record",
                    "name": "k1_v2",
                    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}],
                },
            },
            "field-id": 104,
        },
    ],
}
# a date and a time that Python's own types do not reach
RECORDS = [
    {
        "path": f"/a/{n}",
        "day": None if n % 3 else 10**6 * n,
        "at": 10**18 + n,
        "price": b"\x00\x01\x02",
        "bounds": [{"key": n, "value": b"\xff"}],
    }
    for n in range(500)
]


def written(codec):
    return write_container(
        json.dumps(SCHEMA), RECORDS, metadata={"content": "data", "format-version": "2"}, codec=codec
    )


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_only_what_is_changed_changes(codec):
    data = written(codec)

    def change(record):
        record["path"] = record["path"].replace("/a/", "/elsewhere/")

    changed = rewrite_records(data, change)
    old, new = read_header(data), read_header(changed)
    assert (new.metadata, new.schema_json, new.codec) == (old.metadata, old.schema_json, codec)
    back = rewrite_records(changed, lambda record: record.update(path=record["path"].replace("/elsewhere/", "/a/")))
    found = []
    rewrite_records(back, found.append)
    assert found == RECORDS
    found.clear()
    rewrite_records(changed, found.append)
    assert [record["path"] for record in found[:2]] == ["/elsewhere/0", "/elsewhere/1"]


def test_damaged_files_are_refused():
    data = written("null")
    for damaged in (data[:-20], data[:10], data.replace(b"/a/17", b"/\xff/17")):
        with pytest.raises(FormatError):
            rewrite_records(damaged, lambda record: None)
