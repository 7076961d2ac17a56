"""Columns of type unknown in tables that Spark and we share."""

from __future__ import annotations

import pyarrow as pa
import pytest

import skerry

pytestmark = pytest.mark.spark


def test_both_read_and_write_columns_of_type_unknown(iceberg_spark, tmp_path):
    warehouse = tmp_path / "warehouse"
    catalog = skerry.connect(warehouse)
    catalog.create_namespace("d")
    session = iceberg_spark(warehouse)
    session.sql(
        "CREATE TABLE skerry.d.t (id bigint, nothing void, s struct<a: int, b: void>) USING iceberg "
        "TBLPROPERTIES ('format-version' = '3')"
    )
    session.sql("INSERT INTO skerry.d.t VALUES (1, NULL, named_struct('a', 1, 'b', NULL))")
    table = catalog.load_table("d.t")
    assert table.schema.field("nothing").type == pa.null()
    new = pa.Table.from_pylist([{"id": 2, "nothing": None, "s": {"a": 2, "b": None}}], schema=table.schema)
    table.append(new)
    session.sql("INSERT INTO skerry.d.t VALUES (3, NULL, NULL)")
    table.refresh().delete("id = 1 AND nothing IS NULL")
    expected = [(2, None, {"a": 2, "b": None}), (3, None, None)]
    ours = table.refresh().scan().to_arrow().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in ours] == expected
    theirs = session.sql("SELECT id, nothing, s FROM skerry.d.t ORDER BY id").collect()
    assert [(row.id, row.nothing, row.s and row.s.asDict()) for row in theirs] == expected
