"""Values inside of variants in frames: `variant_get` in columns and conditions of both formats."""

from __future__ import annotations

import pyarrow as pa
import pytest

import skerry
import skerry.spark
from skerry.errors import UnsupportedError
from skerry.spark.data_source.options import SourceOptions
from skerry.spark.data_source.stream_reader import table_stream
from skerry.variant import VARIANT, from_values

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("v", VARIANT), ("ms", pa.int32()), ("s", pa.struct([("v", VARIANT)]))])
VALUES = [{"kind": "view", "ms": 12}, {"kind": "buy", "ms": 340}, {"kind": "view", "ms": 1}, None]
GET = "variant_get(v, '$.ms', 'long')"
COLUMNS = ["id", f"{GET} AS ms", "try_variant_get(s.v, '$.kind', 'string') AS \"the, kind\""]
EXPECTED = [(1, 12, "view"), (2, 340, "buy")]


@pytest.fixture(params=["iceberg", "paimon"])
def catalog(request, tmp_path):
    catalog = skerry.connect(tmp_path)
    iceberg = {"format_version": 3, "properties": {"write.parquet.shred-variants": "true"}}
    how = iceberg if request.param == "iceberg" else {}
    table = catalog.create_table("w.events", SCHEMA, format=request.param, **how)
    for start in (0, 2):
        values = from_values(VALUES[start : start + 2])
        inside = pa.StructArray.from_arrays([values], fields=list(SCHEMA.field("s").type))
        table.append(pa.table([pa.array([start + 1, start + 2]), values, pa.array([7, 7], pa.int32()), inside], SCHEMA))
    return catalog


@pytest.fixture
def session(spark):
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    skerry.spark.register(spark)
    yield spark
    spark.conf.unset(setting)


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_frames_deliver_and_test_values_inside_of_variants(session, catalog, tmp_path):
    where = f"{GET} > 5 AND variant_get(s.v, '$.kind', 'string') <> 'x'"
    frame = skerry.spark.read(session, catalog.load_table("w.events"), COLUMNS, where)
    assert rows(frame) == EXPECTED
    assert frame.columns == ["id", "ms", "the, kind"]
    reader = session.read.format("skerry").option("catalog", str(tmp_path)).option("columns", ", ".join(COLUMNS))
    for pushes in ("false", "true"):  # the table has a column ms of its own, which filters do not mean
        frame = reader.option("where", where).option("push-filters", pushes).load("w.events")
        assert rows(frame) == EXPECTED
        assert rows(frame.where("ms > 100 AND id < 3").select("the, kind")) == [("buy",)]
    assert rows(reader.option("columns", "s.v, id").load("w.events").selectExpr("id", "s.v IS NULL"))[0] == (1, False)
    options = SourceOptions({"catalog": str(tmp_path), "table": "w.events", "columns": COLUMNS[1]})
    with pytest.raises(UnsupportedError, match="variants whole"):
        table_stream(options)


def test_queries_look_into_variants_as_spark_does(spark, catalog):
    get = "variant_get(e.v, '$.ms', 'long')"
    query = f"SELECT try_variant_get(s.v, '$.kind', 'string') AS kind, sum({get}) FROM w.events e WHERE {get} > 5"
    found = skerry.spark.sql(spark, f"{query} GROUP BY 1", catalog)
    assert rows(found) == [("buy", 340), ("view", 12)]
