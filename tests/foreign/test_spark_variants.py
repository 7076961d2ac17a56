"""Variants in tables that Spark and we share: each reads what the other writes, whole and shredded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skerry
from skerry.variant import VARIANT, as_json, from_json

pytestmark = pytest.mark.spark

DOCUMENTS: list[str | None] = [
    *(
        json.dumps(
            {
                "id": number,
                "name": f"n{number}",
                "price": number + 0.25,
                "tags": ["a", None, str(number)][: number % 4],
                "place": {"x": (number + 1) * 1.5e300, "ok": number % 2 == 0, "none": None},
                **({"extra": [{"k": number}]} if number % 3 == 0 else {}),
            }
        )
        for number in range(30)
    ),
    None,
    "null",
    "7",
    '"text"',
    "[]",
    "{}",
    '{"id": "other", "place": 5}',
]
OBJECTS = DOCUMENTS[:31]
SCHEMA = pa.schema([("id", pa.int64()), ("v", VARIANT), ("s", pa.struct([("in", VARIANT)])), ("l", pa.list_(VARIANT))])


def parsed(texts: list[str | None]) -> list[Any]:
    return [None if text is None else json.loads(text) for text in texts]


def rows(documents: list[str | None], start: int = 0) -> pa.Table:
    variants = from_json(documents)
    count = len(documents)
    inside = pa.StructArray.from_arrays([variants], fields=[pa.field("in", VARIANT)])
    lists = pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), variants, type=pa.list_(VARIANT))
    return pa.table([pa.array(range(start, start + count)), variants, inside, lists], schema=SCHEMA)


def ours(table: Any, **options: Any) -> dict[int, Any]:
    found = table.refresh().scan(**options).to_arrow()
    return dict(zip(found["id"].to_pylist(), parsed(as_json(found["v"]).to_pylist()), strict=True))


def theirs(session: Any, query: str = "SELECT id, to_json(v) AS v FROM skerry.d.t") -> dict[int, Any]:
    return {row["id"]: None if row["v"] is None else json.loads(row["v"]) for row in session.sql(query).collect()}


@pytest.mark.parametrize("documents", [DOCUMENTS, OBJECTS], ids=["mixed", "objects"])
@pytest.mark.parametrize("shredded", ["false", "true"])
def test_both_read_what_the_other_writes(iceberg_spark, tmp_path, documents, shredded):
    warehouse = tmp_path / "warehouse"
    catalog = skerry.connect(warehouse)
    properties = {
        "write.parquet.shred-variants": shredded,
        "write.delete.mode": "merge-on-read",
        "read.parquet.vectorization.enabled": "false",  # the connector's reader of columns fails on lists of variants
    }
    table = catalog.create_table("d.t", SCHEMA, format_version=3, properties=properties)
    table.append(rows(documents))
    session = iceberg_spark(warehouse)
    expected = dict(enumerate(parsed(documents)))
    assert ours(table) == expected
    assert theirs(session) == expected
    assert theirs(session, "SELECT id, to_json(s.in) AS v FROM skerry.d.t") == expected
    assert theirs(session, "SELECT id, to_json(l[0]) AS v FROM skerry.d.t") == expected
    session.createDataFrame(list(enumerate(documents, 100)), "id long, j string").createOrReplaceTempView("incoming")
    session.sql(
        "INSERT INTO skerry.d.t SELECT /*+ COALESCE(1) */ id, parse_json(j), named_struct('in', parse_json(j)), "
        "array(parse_json(j)) FROM incoming"
    )
    expected |= dict(enumerate(parsed(documents), 100))
    assert ours(table) == expected
    footers = [pq.read_metadata(path) for path in Path(warehouse).rglob("data/**/*.parquet")]
    columns = [{footer.schema.column(i).path for i in range(footer.num_columns)} for footer in footers]
    assert len(columns) >= 2
    for names in columns:
        is_shredded = shredded == "true" and documents is OBJECTS
        assert ("v.typed_value.place.typed_value.x.typed_value" in names) == is_shredded
    table.refresh().delete("variant_get(v, '$.id', 'long') = 3")
    session.sql("DELETE FROM skerry.d.t WHERE try_variant_get(v, '$.id', 'int') = 4")
    expected = {key: value for key, value in expected.items() if key % 100 not in (3, 4)}
    assert ours(table) == expected == theirs(session)
    table.refresh().compact()
    assert ours(table) == expected == theirs(session)
    query = "variant_get(v, '$.place.x', 'double') > 3e301 AND variant_get(v, '$.name', 'string') < 'n25'"
    if documents is OBJECTS:
        found = ours(table, where=query)
        assert found == theirs(session, f"SELECT id, to_json(v) AS v FROM skerry.d.t WHERE {query}")
        assert len(found) == 2 * 5


def test_bounds_of_spark_prune_files(iceberg_spark, tmp_path):
    """Spark's bounds drop files for us, and ours do not drop rows for Spark."""
    warehouse = tmp_path / "warehouse"
    catalog = skerry.connect(warehouse)
    schema = pa.schema([("id", pa.int64()), ("v", VARIANT)])
    properties = {"write.parquet.shred-variants": "true"}
    table = catalog.create_table("d.t", schema, format_version=3, properties=properties)
    session = iceberg_spark(warehouse)
    for start in (0, 1000):
        session.sql(
            f"INSERT INTO skerry.d.t SELECT /*+ COALESCE(1) */ id, parse_json(concat('{{\"a\": ', {start} + 300 + id, "
            '\', "b": {"c": "name \', id, \'"}}\')) FROM range(50)'
        )
    table.refresh().append(
        pa.table({"id": range(50), "v": from_json([f'{{"a": {5000 + i}, "b": {{"c": "x{i}"}}}}' for i in range(50)])})
    )
    for where, files, count in (
        ("variant_get(v, '$.a', 'int') = 1310", 1, 1),
        ("variant_get(v, '$.a', 'long') < 1000", 1, 50),
        ("variant_get(v, '$.b.c', 'string') = 'name 7'", 2, 2),
        ("variant_get(v, '$.b.c', 'string') LIKE 'x1%'", 1, 11),
    ):
        scan = table.refresh().scan(where=where)
        assert len(list(scan.plan())) == files, where
        assert scan.count() == count
        assert session.sql(f"SELECT count(*) FROM skerry.d.t WHERE {where}").collect()[0][0] == count


def test_our_data_source_reads_and_writes_variants(iceberg_spark, tmp_path):
    warehouse = tmp_path / "warehouse"
    catalog = skerry.connect(warehouse)
    table = catalog.create_table("d.t", pa.schema([("id", pa.int64()), ("v", VARIANT)]), format_version=3)
    table.append(rows(DOCUMENTS).select(["id", "v"]))
    session = iceberg_spark(warehouse)
    skerry.spark.register(session)
    frame = session.read.format("skerry").option("catalog", str(warehouse)).load("d.t")
    assert frame.schema["v"].dataType.simpleString() == "variant"
    found = {row["id"]: row["v"] for row in frame.selectExpr("id", "to_json(v) AS v").collect()}
    assert parsed(list(found.values())) == [parsed(DOCUMENTS)[key] for key in found]
    assert len(found) == len(DOCUMENTS)
