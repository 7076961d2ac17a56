"""Texts that folders, URLs and patterns misread: as partition values and as names they work for ever or are refused."""

import os

import pyarrow as pa
import pytest

import skerry
from skerry.errors import NotFoundError, SchemaError
from skerry.iceberg.metadata.arrow_schema import to_iceberg_schema
from skerry.iceberg.partitioning.partitions import partition_path, partition_spec

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
ODD = [
    "a/../b", "..", "/", "%00", "\0", "..%2F..", "a\\..\\b", " ", "a\n.", "#?*[a]{b}", "__DEFAULT_PARTITION__",
    "\U0001f600\u00a0",
]  # fmt: skip
TOO_LONG = ["x" * 300, "\U0001f600" * 100]


def rows(*values):
    return pa.table({"id": pa.array(range(len(values)), pa.int64()), "p": pa.array(values, pa.string())})


@pytest.mark.parametrize("format", ["iceberg", "paimon"])
def test_partition_values_are_read_compacted_and_purged(tmp_path, format):
    values = [*ODD, *TOO_LONG] if format == "iceberg" else ODD
    catalog = skerry.connect(tmp_path)
    table = catalog.create_table("d.t", SCHEMA, format=format, partition_by=["p"])
    for _ in range(2):
        table.append(rows(*values))
    table.delete("id = 0")
    table.compact(full=True)
    table.expire_snapshots(keep_last=1)
    table.remove_orphans(older_than_days=1)
    found = catalog.load_table("d.t")
    assert sorted(found.scan().to_arrow()["p"].to_pylist()) == sorted(values[1:] * 2)
    texts = ", ".join("'" + value.replace("'", "''") + "'" for value in values[3:6])
    assert found.scan(where=f"p in ({texts})").count() == 6
    catalog.drop_table("d.t", purge=True)
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if name.endswith(".parquet")]


@pytest.mark.parametrize("value", TOO_LONG)
def test_a_value_that_cannot_name_a_folder_of_paimon_is_refused(tmp_path, value):
    table = skerry.connect(tmp_path).create_table("d.t", SCHEMA, format="paimon", partition_by=["p"])
    with pytest.raises(SchemaError, match=r"partition key 'p' is too long for a folder name, as .* at most 255"):
        table.append(rows("ok", value))
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if name.startswith("data-")]


def test_the_folders_of_many_long_values_fit_into_a_key_of_s3():
    schema = to_iceberg_schema(pa.schema([(f"c{number}", pa.string()) for number in range(20)]))
    spec = partition_spec(schema, [f"c{number}" for number in range(20)])
    paths = {partition_path(schema, spec, ("/" * 300,) * 19 + (last,)) for last in "ab"}
    assert len(paths) == 2, "a digest tells them apart"
    for path in paths:
        assert len(path) <= 650
        assert max(map(len, path.split("/"))) <= 200
    assert partition_path(schema, spec, ("a",) * 20).count("/") == 19


@pytest.mark.parametrize("format", ["iceberg", "paimon"])
@pytest.mark.parametrize("name", ["a/b", "a\0", "a\nb", "\x7f", "\ud800", "x" * 201, "é" * 101, " ", "a "])
def test_names_that_folders_and_urls_do_not_take_are_refused(tmp_path, format, name):
    catalog = skerry.connect(tmp_path)
    catalog.create_table("n.t", SCHEMA, format=format)
    before = sorted(os.walk(tmp_path))
    for act in (
        lambda: catalog.create_table(f"n.{name}", SCHEMA, format=format),
        lambda: catalog.create_table(f"{name}.t", SCHEMA, format=format),
        lambda: catalog.create_namespace(name),
        lambda: catalog.rename_table("n.t", f"n.{name}"),
    ):
        with pytest.raises(SchemaError, match=r"cannot name a|has at most 200 bytes"):
            act()
    assert sorted(os.walk(tmp_path)) == before
    with pytest.raises(NotFoundError):
        catalog.load_table(f"n.{'x' * 300}")


@pytest.mark.parametrize("format", ["iceberg", "paimon"])
def test_other_names_work(tmp_path, format):
    catalog = skerry.connect(tmp_path)
    names = ["%00", "a#b?c=1", "*[a]{b}", "a:b\\c d", "\U0001f600" * 50, "'\"`", "#" * 190]
    for name in (f"{name}.{name}" for name in names):
        table = catalog.create_table(name, SCHEMA, format=format)
        table.append(rows("a"))
        table.append(rows("b"))
        table.expire_snapshots(keep_last=1)
        assert catalog.load_table(name).remove_orphans(older_than_days=1).files == ()
        assert catalog.load_table(name).scan().count() == 2
    assert catalog.list_tables() == sorted(f"{name}.{name}" for name in names)
    catalog.drop_table("%00.%00", purge=True)


def test_a_nested_namespace_does_not_take_the_folder_of_paimon_tables(tmp_path):
    catalog = skerry.connect(tmp_path)
    catalog.create_table("a.t", SCHEMA, format="paimon")
    catalog.create_table("a.db.t", SCHEMA).append(rows("kept"))
    catalog.create_table("catalog.db.t", SCHEMA).append(rows("kept"))
    catalog.drop_table("a.t", purge=True)
    assert catalog.load_table("a.db.t").scan().count() == catalog.load_table("catalog.db.t").scan().count() == 1
