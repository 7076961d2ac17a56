"""Indexes of fields of structs, in tables of both formats."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import skerry
from skerry.errors import NotFoundError, SchemaError, UnsupportedError

INNER = pa.struct([("trace", pa.string()), ("number", pa.int32()), ("line", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("span", pa.struct([pa.field("head", INNER), pa.field("tags", pa.list_(pa.string()))])),
        pa.field("trace", pa.string()),
    ]
)
KINDS = [("iceberg", "parquet"), ("paimon", "parquet"), ("iceberg", "orc"), ("paimon", "avro"), ("iceberg", "amudai")]


def row(number: int) -> dict[str, object]:
    head = None
    if number % 9:
        line = None if number % 4 == 0 else f"request {number} took {number % 3} ms"
        head = {"trace": f"t{number}", "number": number % 5 or None, "line": line}
    span = None if number % 13 == 0 else {"head": head, "tags": ["a", f"b{number}"]}
    return {"id": number, "span": span, "trace": f"outer{number}"}


def rows(first: int, count: int = 40) -> pa.Table:
    return pa.Table.from_pylist([row(number) for number in range(first, first + count)], SCHEMA)


def value(found: dict[str, object], name: str) -> object:
    span = found["span"]
    head = span["head"] if span else None
    return head[name] if head else None


CONDITIONS = {
    "span.head.trace = 't61'": lambda row: value(row, "trace") == "t61",
    "span.head.trace IN ('t3', 't100') OR id = 4": lambda row: value(row, "trace") in ("t3", "t100") or row["id"] == 4,
    "span.head.number = 3 AND trace <> 'outer3'": lambda row: value(row, "number") == 3 and row["trace"] != "outer3",
    "span.head.line LIKE 'request 4%took 1 ms'": lambda row: (
        str(value(row, "line")).startswith("request 4") and str(value(row, "line")).endswith("took 1 ms")
    ),
}


def check(table: skerry.Table, outer: str = "span") -> None:
    everything = [{**each, "span": each[outer]} for each in table.scan().to_arrow().to_pylist()]
    for where, matches in CONDITIONS.items():
        expected = sorted(each["id"] for each in everything if matches(each))
        found = table.scan(["id"], where=where.replace("span", outer))
        assert sorted(found.to_arrow()["id"].to_pylist()) == expected, where
        assert found.count() == len(expected)
    expected = sorted(each["id"] for each in everything if " took 2 " in str(value(each, "line")))
    for columns in (["id"], ["id", f"{outer}.head.number"], None):
        for query in ("took AND 2", '"took 2"'):
            found = table.search(f"{outer}.head.line", query, columns=columns)
            assert sorted(found["id"].to_pylist()) == expected
            assert found.schema == table.scan(columns).to_arrow().schema


def left(table: skerry.Table, where: str) -> list[tuple[int, int | None]]:
    steps = table.scan(where=where).explain().plan.steps
    return [(step.kept, step.kept_rows) for step in steps if step.name.endswith("by index")]


@pytest.mark.parametrize(("kind", "file_format"), KINDS)
def test_fields_of_structs_are_found(tmp_path: Path, kind: str, file_format: str) -> None:
    table = skerry.connect(tmp_path).create_table("a.b", SCHEMA, format=kind, file_format=file_format)
    for first in (0, 40):
        table.append(rows(first))
    check(table)
    table.create_index(["span.head.trace", "span.head.number", "trace"])
    table.create_index(["span.head.line"], kind="text")
    table.append(rows(80))
    assert {(each.files, each.indexed_files) for each in table.indexes()} == {(3, 3)}
    check(table)
    assert left(table, "span.head.trace = 't61'") == [(1, 1)]
    assert left(table, "span.head.line LIKE '%took 2 %' AND span.head.trace = 't71'") == [(1, 1)]
    assert table.delete("span.head.trace = 't61'").deleted_rows == 1
    check(table)
    table.compact(full=True)
    check(table)
    assert {each.files - each.indexed_files for each in table.indexes()} == {0}


@pytest.mark.parametrize("kind", ["iceberg", "paimon"])
def test_indexes_follow_fields_that_are_renamed(tmp_path: Path, kind: str) -> None:
    table = skerry.connect(tmp_path).create_table("a.b", SCHEMA, format=kind)
    table.append(rows(0, 80))
    table.create_index(["span.head.trace", "span.head.number"])
    with table.update_schema() as update:
        update.rename_column("span", "outer")
    assert [each.column for each in table.indexes()] == ["outer.head.number", "outer.head.trace"]
    assert left(table, "outer.head.trace = 't61'") in ([(1, 1)], [])  # Paimon finds columns of files by their names
    check(table, "outer")
    with table.update_schema() as update:
        update.rename_column("outer.head.trace", "other")
        update.delete_column("outer.head.number")
    assert [each.column for each in table.indexes()] == ["outer.head.other"]
    assert table.scan(where="outer.head.other = 't61'").count() == 1
    with table.update_schema() as update:
        update.add_column("outer.head.trace", pa.string())
    table.create_index(["outer.head.trace"])
    assert table.scan(where="outer.head.trace = 't61'").count() == 0
    table.append(pa.Table.from_pylist([{"id": 1, "outer": {"head": {"trace": "t61"}}}], table.schema))
    assert table.scan(["id"], where="outer.head.trace = 't61'").to_arrow()["id"].to_pylist() == [1]


def test_what_has_no_index(tmp_path: Path) -> None:
    table = skerry.connect(tmp_path).create_table("a.b", SCHEMA)
    for column in ("span.tags", "span.head", "span.tags.element"):
        with pytest.raises((UnsupportedError, NotFoundError), match=column):
            table.create_index([column])
    with pytest.raises(NotFoundError, match=r"did you mean 'span\.head\.trace'"):
        table.create_index(["span.head.tracer"])
    with pytest.raises(SchemaError, match="'span' is struct"):
        table.search("span", "a")
    with pytest.raises(NotFoundError, match=r"no column 'span\.heads\.line' to search"):
        table.search("span.heads.line", "a")
