"""Folders of Parquet files become tables in place, or stay as they were."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from rivals import Elsewhere

import skerry
from skerry.errors import AlreadyExistsError, FormatError, NotFoundError, SchemaError, SkerryError, UnsupportedError


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "raw data"
    made.mkdir()
    return made


def rows(start, stop):
    return pa.table({"k": range(start, stop), "s": [f"s{k % 7}" for k in range(start, stop)]})


def write(folder, path, table):
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, target)
    return target


def content(table, *columns):
    return table.refresh().scan(list(columns)).to_arrow().sort_by("k").to_pylist()


def test_a_plain_folder(catalog, folder):
    for number in range(3):
        write(folder, f"part-{number}.snappy.parquet", rows(number * 10, number * 10 + 10))
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.crc").touch()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    told = catalog.migrate("d.t", str(folder), dry_run=True)
    assert (told.files, told.dry_run, told.partition_by, told.schema.names) == (3, True, (), ["k", "s"])
    assert not catalog.table_exists("d.t")
    done = catalog.migrate("d.t", str(folder), properties={"a": "b"})
    assert (done.files, done.size_bytes, done.dry_run) == (told.files, told.size_bytes, False)
    table = catalog.load_table("d.t")
    assert table.location == f"file://{folder}"
    assert table.properties["a"] == "b"
    assert content(table, "k", "s") == rows(0, 30).to_pylist()
    assert {str(found.freshness) for found in table.statistics().values()} == {"fresh"}
    assert table.statistics()["k"].ndv == 30
    assert {path: path.read_bytes() for path in before} == before
    assert StaticTable.from_metadata(table.metadata_location).scan().to_arrow().num_rows == 30
    table.append(rows(30, 40))
    table.delete("k < 5")
    assert [row["k"] for row in content(table, "k")] == [*range(5, 40)]


def test_partitions_are_what_folders_name(catalog, folder):
    for day in (1, 2, 3):
        for kind in ("a b", "ü/%", None):
            name = "__HIVE_DEFAULT_PARTITION__" if kind is None else kind.replace("%", "%25").replace("/", "%2F")
            write(folder, f"day=2024-01-0{day}/kind={name}/n={day * 1000}/x.parquet", rows(day * 10, day * 10 + 10))
    done = catalog.migrate("d.t", f"file://{folder}/", executor=Elsewhere())
    assert done.partition_by == ("day", "kind", "n")
    table = catalog.load_table("d.t")
    assert [table.schema.field(name).type for name in done.partition_by] == [pa.date32(), pa.string(), pa.int32()]
    assert table.partition_by == ["day", "kind", "n"]
    assert table.scan().count() == 90
    assert table.scan(where="kind = 'ü/%'").count() == 30
    assert table.scan(where="kind is null and day = DATE '2024-01-02'").to_arrow()["n"].to_pylist() == [2000] * 10
    plan = table.scan(where="day = DATE '2024-01-02'").plan()
    assert len(plan) == 3
    statistics = table.statistics()
    assert {name: (found.ndv, str(found.freshness)) for name, found in statistics.items()} == {
        "k": (30.0, "fresh"),
        "s": (7.0, "fresh"),
        "day": (3.0, "fresh"),
        "kind": (2.0, "fresh"),
        "n": (3.0, "fresh"),
    }
    assert (statistics["day"].min, statistics["day"].max) == (dt.date(2024, 1, 1), dt.date(2024, 1, 3))
    assert statistics["kind"].null_count == 30
    with_pyiceberg = StaticTable.from_metadata(table.metadata_location).scan("day = '2024-01-02'").to_arrow()
    assert with_pyiceberg.num_rows == 30
    table.upsert(
        pa.table({"k": [10], "day": [dt.date(2024, 1, 1)], "kind": ["a b"], "n": [1000], "s": ["new"]}),
        on=["k", "day", "kind", "n"],
    )
    assert table.scan(where="s = 'new'").count() == 1
    table.compact(full=True)
    assert table.scan(where="kind = 'ü/%' and n = 3000").count() == 10
    assert table.scan().count() == 90


def test_what_arrow_writes_as_hive_does(catalog, folder):
    whole = pa.table({"k": range(20), "p": [k % 3 for k in range(20)], "q": [f"{k % 2:02d}" for k in range(20)]})
    ds.write_dataset(whole, folder, format="parquet", partitioning=["p", "q"], partitioning_flavor="hive")
    assert catalog.migrate("d.t", str(folder)).partition_by == ("p", "q")
    table = catalog.load_table("d.t")
    assert table.schema.field("q").type == pa.string(), "leading zeros make no numbers"
    assert content(table, "k", "p", "q") == whole.to_pylist()


def test_columns_that_are_in_the_files_as_well(catalog, folder):
    for p in (1, 2):
        write(folder, f"p={p}/x.parquet", rows(p, p + 5).append_column("p", pa.array([p] * 5, pa.int64())))
    assert catalog.migrate("d.t", str(folder)).partition_by == ("p",)
    table = catalog.load_table("d.t")
    assert table.schema.field("p").type == pa.int64()
    assert table.scan(where="p = 2").count() == 5


def test_files_whose_columns_have_changed(catalog, folder):
    write(folder, "1.parquet", pa.table({"k": pa.array([1], pa.int32())}))
    write(folder, "2.parquet", pa.table({"k": pa.array([2], pa.int64()), "new": ["x"]}))
    write(folder, "3.parquet", pa.table({"k": pa.array([3], pa.int64()), "f": pa.array([1.5], pa.float32())}))
    catalog.migrate("d.t", str(folder))
    table = catalog.load_table("d.t")
    assert [str(column.type) for column in table.schema] == ["int64", "string", "float"]
    assert content(table, "k", "new") == [{"k": 1, "new": None}, {"k": 2, "new": "x"}, {"k": 3, "new": None}]


def with_field_ids(table, *ids):
    fields = zip(table.schema, ids, strict=True)
    return table.cast(pa.schema([field.with_metadata({"PARQUET:field_id": str(number)}) for field, number in fields]))


def test_field_ids_that_a_new_table_has_as_well(catalog, folder):
    write(folder, "p=x/1.parquet", with_field_ids(rows(0, 3), 1, 2))
    write(folder, "p=y/2.parquet", with_field_ids(rows(3, 6), 1, 2))
    catalog.migrate("d.t", str(folder))
    table = catalog.load_table("d.t")
    assert content(table, "k", "s", "p")[3] == {"k": 3, "s": "s3", "p": "y"}


def test_files_without_rows_are_left_out(catalog, folder):
    write(folder, "p=1/1.parquet", rows(0, 3))
    write(folder, "p=1/2.parquet", rows(0, 3).slice(0, 0))
    assert catalog.migrate("d.t", str(folder)).files == 1
    assert catalog.load_table("d.t").scan().count() == 3


CASES = {
    "nothing": ({}, NotFoundError, "no Parquet files"),
    "only hidden": ({"_x/1.parquet": rows(0, 1), ".y/1.parquet": rows(0, 1)}, NotFoundError, "no Parquet files"),
    "another format": ({"1.parquet": rows(0, 1), "2.csv": b"a,b"}, UnsupportedError, "not Parquet by its name"),
    "a table": ({"metadata/v1.metadata.json": b"{}"}, UnsupportedError, "a table of format Iceberg"),
    "a Delta table": (
        {"_delta_log/0.json": b"{}", "1.parquet": rows(0, 1)},
        UnsupportedError,
        "a table of format Delta Lake",
    ),
    "no Parquet": ({"1.parquet": b"PAR1 this is none PAR1"}, FormatError, "1.parquet"),
    "other folders": (
        {"p=1/1.parquet": rows(0, 1), "q=1/1.parquet": rows(0, 1)},
        SchemaError,
        "folders name",
    ),
    "another order": ({"p=1/q=1/1.parquet": rows(0, 1), "q=1/p=1/1.parquet": rows(0, 1)}, SchemaError, "folders name"),
    "one level only": ({"p=1/1.parquet": rows(0, 1), "1.parquet": rows(0, 1)}, SchemaError, "folders name"),
    "twice": ({"p=1/p=2/1.parquet": rows(0, 1)}, SchemaError, "name column 'p' twice"),
    "types": (
        {"1.parquet": pa.table({"k": [1]}), "2.parquet": pa.table({"k": ["x"]})},
        SchemaError,
        "incompatible",
    ),
    "only some": (
        {"p=1/1.parquet": pa.table({"k": [1], "p": [1]}), "p=2/1.parquet": pa.table({"k": [1]})},
        SchemaError,
        "is in some of the files but not in others",
    ),
    "no rows": ({"1.parquet": rows(0, 3).slice(0, 0)}, NotFoundError, "have no rows"),
    "ids of its own": (
        {"1.parquet": with_field_ids(rows(0, 3), 2, 1)},
        SchemaError,
        "assigns the field ids of new tables itself",
    ),
    "ids in part": (
        {"1.parquet": with_field_ids(rows(0, 3), 1, 2), "2.parquet": rows(0, 3)},
        SchemaError,
        "the file has no field ids",
    ),
    "several partitions": ({"p=1/1.parquet": pa.table({"k": [1, 2], "p": [1, 2]})}, SchemaError, "2 partitions"),
}


@pytest.mark.parametrize(("files", "error", "message"), CASES.values(), ids=CASES)
def test_folders_that_cannot_become_tables_stay_as_they_were(catalog, folder, files, error, message):
    for path, content in files.items():
        if isinstance(content, bytes):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        else:
            write(folder, path, content)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(error, match=message):
        catalog.migrate("d.t", str(folder))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert not catalog.table_exists("d.t")


def test_a_name_that_is_taken(catalog, folder):
    write(folder, "1.parquet", rows(0, 3))
    catalog.create_table("d.t", rows(0, 1).schema)
    with pytest.raises(AlreadyExistsError):
        catalog.migrate("d.t", str(folder))
    assert [path.name for path in folder.iterdir()] == ["1.parquet"]
    with pytest.raises(SkerryError):
        catalog.migrate("d.u", str(folder / "none"))
