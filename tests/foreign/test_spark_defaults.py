"""Defaults of fields inside of structs, lists and maps, read by Spark and by us; what Iceberg Java does with others."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors.exceptions.captured import IllegalArgumentException

import skerry

sys.path.insert(0, str(Path(__file__).parents[1] / "iceberg"))
from java_manifests import JavaIceberg

pytestmark = pytest.mark.spark

INNER = pa.struct([("a", pa.int64())])
SCHEMA = pa.schema([("id", pa.int64()), ("s", INNER), ("l", pa.list_(INNER)), ("m", pa.map_(pa.string(), INNER))])


def test_both_read_defaults_of_nested_fields(iceberg_spark, tmp_path):
    warehouse = tmp_path / "warehouse"
    table = skerry.connect(warehouse).create_table("d.t", SCHEMA, format_version=3)
    rows = [{"id": 1, "s": {"a": 1}, "l": [{"a": 1}], "m": [("x", {"a": 1})]}, {"id": 2, "s": None, "l": [], "m": None}]
    table.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    update = table.update_schema()
    update.add_column("s.b", "int", default_value=7).add_column("l.element.b", "string", default_value="q")
    update.add_column("m.value.b", "double", default_value=1.5).commit()
    session = iceberg_spark(warehouse)
    found = [row.asDict(recursive=True) for row in session.sql("SELECT * FROM skerry.d.t ORDER BY id").collect()]
    ours = sorted(table.refresh().scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert found == [{**row, "m": row["m"] and dict(row["m"])} for row in ours]
    assert ours[0] == {"id": 1, "s": {"a": 1, "b": 7}, "l": [{"a": 1, "b": "q"}], "m": [("x", {"a": 1, "b": 1.5})]}


NESTED = [
    ({"type": "list", "element-id": 2, "element-required": False, "element": "long"}, [1, 2]),
    ({"type": "struct", "fields": [{"id": 2, "name": "x", "required": False, "type": "int"}]}, {}),
    (
        {"type": "map", "key-id": 2, "key": "int", "value-id": 3, "value-required": False, "value": "int"},
        {"keys": [1], "values": [2]},
    ),
]


@pytest.mark.parametrize(("type_", "default"), NESTED, ids=["list", "struct", "map"])
def test_java_fails_on_defaults_of_nested_types(spark, type_, default):
    """Which is why `update_schema` refuses them; when this fails, it need not any more."""
    field = {"id": 1, "name": "n", "required": False, "type": type_, "initial-default": default}
    schema = json.dumps({"type": "struct", "schema-id": 0, "fields": [field]})
    with pytest.raises(IllegalArgumentException, match="Cannot create expression literal"):
        JavaIceberg(spark).iceberg.SchemaParser.fromJson(schema)
