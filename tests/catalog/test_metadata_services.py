"""Branches, evolution, added files and expiry through catalogs and stores that are real servers."""

from __future__ import annotations

import datetime as dt
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skerry
from skerry.errors import AlreadyExistsError, NotFoundError, SchemaError, UnsupportedError

SCHEMA = pa.schema([("k", pa.int32()), ("s", pa.string())])


def rows(start, stop):
    return pa.table({"k": list(range(start, stop)), "s": [f"s{k % 9}" for k in range(start, stop)]}, schema=SCHEMA)


def change_everything(catalog):
    """A table's life: evolved, branched, added to, expired; the files that are left are those that it reaches."""
    table = catalog.create_table("life.birds", SCHEMA)
    table.append(rows(0, 10))
    table.append(rows(10, 20))
    with table.update_schema() as update:
        update.rename_column("s", "word").update_column("k", pa.int64()).add_column("n", pa.int32())
    table.update_spec().add_field("bucket(4, k)").commit()
    table.update_sort_order(["k desc"])
    table.set_properties({"history.expire.min-snapshots-to-keep": "1"})
    table.append(pa.table({"k": [20], "word": ["w"], "n": [1]}))
    storage = table.handle.state.storage
    sink = io.BytesIO()
    pq.write_table(pa.table({"k": [21], "word": ["x"], "n": pa.array([2], pa.int32())}), sink)
    storage.write(f"{table.location}/incoming/a.parquet", sink.getvalue())
    table.add_files([f"{table.location}/incoming/a.parquet"])
    assert sorted(table.scan(columns=["k"]).to_arrow()["k"].to_pylist()) == [*range(22)]
    done = table.expire_snapshots(older_than=dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1))
    assert len(done.snapshot_ids) == 3
    assert len(table.snapshots()) == 1
    for file in done.files:
        assert not storage.exists(file.location)
    assert sorted(catalog.load_table("life.birds").scan(columns=["k"]).to_arrow()["k"].to_pylist()) == [*range(22)]
    assert str(table.statistics()["word"].freshness) == "fresh"
    return table


@pytest.mark.service
def test_postgresql_and_s3(postgres_url, s3_server):
    bucket = s3_server.new_bucket()
    catalog = skerry.connect(postgres_url, warehouse=f"s3://{bucket}/lake", **s3_server.options)
    table = change_everything(catalog)
    table.create_branch("b").upgrade(3)
    table.append(pa.table({"k": [30], "word": ["w"], "n": [1]}), ref="b")
    assert (table.scan().count(), table.scan(ref="b").count()) == (22, 23)
    storage, location = table.handle.state.storage, table.location
    catalog.drop_table("life.birds", purge=True)
    assert [file.location for file in storage.list(location)] == []


@pytest.mark.service
def test_a_rest_catalog(rest_catalog):
    """Nessie's: it keeps one snapshot of a table and no branches, and has tables keep their files."""
    catalog = skerry.connect(f"rest+{rest_catalog.uri}", warehouse=rest_catalog.warehouse)
    table = catalog.create_table("life.birds", SCHEMA)
    table.append(rows(0, 10))
    with pytest.raises(UnsupportedError, match="the catalog accepted the commit but did not set branch 'work'"):
        table.create_branch("work")
    with pytest.raises(UnsupportedError, match="the catalog does not support staged snapshots"):
        table.append(rows(10, 20), staged=True)
    table.append(rows(20, 40))
    table.update_spec().add_field("bucket(4, k)").commit()
    table.update_sort_order(["k desc"])
    table.set_properties({"a": "b", "c": "d"}).remove_properties("a")
    table.append(rows(40, 50))
    assert (table.statistics()["k"].ndv, str(table.statistics()["k"].freshness)) == (50, "fresh")
    assert sorted(catalog.load_table("life.birds").scan(columns=["k"]).to_arrow()["k"].to_pylist()) == [*range(50)]
    with pytest.raises(SchemaError, match=r"gc\.enabled is false"):
        table.expire_snapshots(older_than=dt.datetime.now(dt.UTC))


def there_and_back(catalog):
    table = catalog.create_table("galapagos.finches", SCHEMA)
    table.append(rows(0, 10))
    table.append(rows(10, 20))
    table.delete("k = 3")
    left = [k for k in range(20) if k != 3]
    table.migrate("paimon")
    paimon = catalog.load_table("galapagos.finches")
    assert (paimon.format, sorted(paimon.scan(columns=["k"]).to_arrow()["k"].to_pylist())) == ("paimon", left)
    paimon.append(rows(20, 30))
    paimon.migrate("iceberg")
    iceberg = catalog.load_table("galapagos.finches")
    assert (iceberg.format, iceberg.location) == ("iceberg", paimon.location)
    assert sorted(iceberg.scan(columns=["k"]).to_arrow()["k"].to_pylist()) == [*left, *range(20, 30)]
    assert catalog.list_tables("galapagos") == ["galapagos.finches"]


@pytest.mark.service
def test_tables_change_their_format_on_s3(postgres_url, s3_server):
    warehouse = f"s3://{s3_server.new_bucket()}/lake"
    there_and_back(skerry.connect(postgres_url, warehouse=warehouse, **s3_server.options))


@pytest.mark.service
def test_tables_of_a_rest_catalog_change_their_format(rest_catalog, s3_server):
    options = {**s3_server.options, "paimon.warehouse": f"s3://{rest_catalog.bucket}/lake/paimon"}
    there_and_back(skerry.connect(f"rest+{rest_catalog.uri}", warehouse=rest_catalog.warehouse, **options))


def keep_views(catalog, versions=2):
    """Views are created, read, replaced, renamed and dropped."""
    catalog.create_table("aviary.birds", SCHEMA).append(rows(0, 20))
    view = catalog.create_view(
        "aviary.words", "SELECT s AS word, count(*) AS n FROM birds GROUP BY s", properties={"a": "b"}
    )
    assert (view.schema.names, view.properties["a"], catalog.list_views()) == (["word", "n"], "b", ["aviary.words"])
    assert catalog.sql("SELECT sum(n)::BIGINT AS n FROM aviary.words").to_pylist() == [{"n": 20}]
    with pytest.raises(AlreadyExistsError, match="already exists"):
        catalog.create_view("aviary.words", "SELECT 1 AS one")
    with pytest.raises(AlreadyExistsError, match="already exists"):
        catalog.create_view("aviary.birds", "SELECT 1 AS one")
    again = catalog.create_view(
        "aviary.words", {"spark": "SELECT 1L AS one", "duckdb": "SELECT 1::BIGINT AS one"}, replace=True
    )
    assert again.queries.keys() == {"spark", "duckdb"}
    assert [version.queries.keys() for version in again.history] == [{"duckdb"}, {"spark", "duckdb"}][-versions:]
    assert catalog.sql("FROM aviary.words").to_pylist() == [{"one": 1}]
    assert catalog.rename_view("aviary.words", "aviary.one").queries == again.queries
    assert (catalog.list_views("aviary"), catalog.list_tables("aviary")) == (["aviary.one"], ["aviary.birds"])
    catalog.drop_view("aviary.one")
    assert catalog.list_views() == []
    with pytest.raises(NotFoundError, match=r"no view 'aviary\.one'"):
        catalog.drop_view("aviary.one")


@pytest.mark.service
def test_views_of_a_rest_catalog(rest_catalog):
    """Nessie's: it keeps one version of a view."""
    uri, warehouse = f"rest+{rest_catalog.uri}", rest_catalog.warehouse
    with pytest.raises(UnsupportedError, match=r"does not offer 'POST .*/views'"):  # it does not list what it offers
        skerry.connect(uri, warehouse=warehouse).create_view("aviary.words", "SELECT 1 AS one")
    assert skerry.connect(uri, warehouse=warehouse).list_views() == []
    keep_views(skerry.connect(uri, warehouse=warehouse, **{"view-endpoints-supported": "true"}), versions=1)


@pytest.mark.service
def test_views_of_the_reference_server(reference_server):
    keep_views(skerry.connect(f"rest+{reference_server}"))


@pytest.mark.service
def test_views_in_postgresql(postgres_url, s3_server):
    bucket = s3_server.new_bucket()
    keep_views(skerry.connect(postgres_url, warehouse=f"s3://{bucket}/lake", **s3_server.options))
