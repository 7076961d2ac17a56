"""Tables that are partitioned by transforms which we do not know, such as those of several columns."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import skerry
from skerry.errors import SchemaError, UnsupportedError

ROWS = pa.table({"k": range(10), "v": range(10), "w": range(10)})
SOURCES = {"one column": {"source-id": 1}, "several columns": {"source-ids": [1, 2]}}


@pytest.fixture(params=SOURCES)
def table(tmp_path, request):
    catalog = skerry.connect(str(tmp_path))
    made = catalog.create_table("d.t", ROWS.schema, partition_by=["bucket(4, k)"], format_version=3)
    made.append(ROWS)
    path = made.metadata_location.removeprefix("file://")
    with open(path) as file:
        metadata = json.load(file)
    field = metadata["partition-specs"][0]["fields"][0]
    del field["source-id"]
    field |= {"transform": "spread[4]", **SOURCES[request.param]}
    with open(path, "w") as file:
        json.dump(metadata, file)
    return skerry.connect(str(tmp_path)).load_table("d.t")


def specs(table):
    with open(table.metadata_location.removeprefix("file://")) as file:
        return json.load(file)["partition-specs"]


def test_they_are_read(table):
    assert table.partition_by in (["spread(4, k)"], ["spread(4, k, v)"])
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == list(range(10))
    assert table.scan(where="k = 3 AND v > 0").to_arrow()["k"].to_pylist() == [3]


def test_they_are_not_written(table):
    before = table.metadata_location
    for write in (lambda: table.append(ROWS), lambda: table.delete("k = 1"), lambda: table.overwrite(ROWS)):
        with pytest.raises(UnsupportedError, match=r"partition transform spread\[4\] is not supported"):
            write()
    assert table.metadata_location == before


def test_columns_that_they_use_stay_and_others_change(table):
    before = specs(table)
    table.update_schema().add_column("z", pa.int32()).delete_column("w").commit()
    assert table.scan().to_arrow().column_names == ["k", "v", "z"]
    assert specs(table) == before
    with pytest.raises(SchemaError, match="column 'k' is used by partition field 'k_bucket'"):
        table.update_schema().delete_column("k").commit()
    uses_v = "source-ids" in before[0]["fields"][0]
    if uses_v:
        with pytest.raises(SchemaError, match="column 'v' is used by partition field 'k_bucket'"):
            table.update_schema().delete_column("v").commit()
    else:
        table.update_schema().delete_column("v").commit()


def test_a_promotion_could_change_their_values(tmp_path):
    catalog = skerry.connect(str(tmp_path))
    made = catalog.create_table("d.t", pa.schema([("k", pa.int32())]), partition_by=["bucket(4, k)"])
    path = made.metadata_location.removeprefix("file://")
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace("bucket[4]", "spread[4]"))
    table = skerry.connect(str(tmp_path)).load_table("d.t")
    with pytest.raises(SchemaError, match="whose values would change with its type"):
        table.update_schema().update_column("k", pa.int64()).commit()


def test_they_may_be_renamed(table):
    before = specs(table)[0]["fields"][0]
    table.update_spec().rename_field("k_bucket", "spot").commit()
    assert specs(table)[1]["fields"] == [{**before, "name": "spot"}]


def test_a_table_sorted_by_several_columns_is_read_and_keeps_its_order(tmp_path):
    made = skerry.connect(str(tmp_path)).create_table("d.t", ROWS.schema, sort_by=["k"], format_version=3)
    made.append(ROWS)
    path = made.metadata_location.removeprefix("file://")
    with open(path) as file:
        metadata = json.load(file)
    order = {"order-id": 1, "fields": [{**metadata["sort-orders"][0]["fields"][0]}]}
    del order["fields"][0]["source-id"]
    order["fields"][0] |= {"transform": "spread[4]", "source-ids": [1, 2]}
    with open(path, "w") as file:
        json.dump({**metadata, "sort-orders": [order]}, file)
    table = skerry.connect(str(tmp_path)).load_table("d.t")
    assert table.sort_by == ["spread(4, k, v) asc nulls first"]
    assert table.scan(where="k > 7").to_arrow()["v"].to_pylist() == [8, 9]
    table.set_properties({"some": "change"})
    with open(table.metadata_location.removeprefix("file://")) as file:
        assert json.load(file)["sort-orders"] == [order]
    for write in (lambda: table.append(ROWS), lambda: table.delete("k = 1")):
        with pytest.raises(UnsupportedError, match=r"transform spread\[4\] is not supported"):
            write()
    with pytest.raises(SchemaError, match="column 'v' is used by the sort order"):
        table.update_schema().delete_column("v").commit()
    table.update_sort_order(["w"])
    table.append(ROWS)
    assert table.scan().count() == 20


def test_they_may_be_dropped(table):
    before = specs(table)
    table.update_spec().remove_field("k_bucket").commit()
    assert specs(table)[0] == before[0]
    table.append(ROWS)
    assert table.scan().count() == 20
