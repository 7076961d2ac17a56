"""`skerry rewrite-manifests`, `-deletes`, `-file-indexes` and `skerry migrate`: what they do and what they say."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import skerry
from skerry.cli.app import app


@pytest.fixture
def catalog(tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_WAREHOUSE", str(tmp_path / "warehouse"))
    return skerry.connect(tmp_path / "warehouse")


def run(*arguments, code=0):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def test_manifests(catalog):
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]))
    for k in range(5):
        table.append(pa.table({"k": [k]}))
    told = run("rewrite-manifests", "d.t", "--dry-run")
    assert told.startswith("d.t: 5 manifests (")
    assert told.endswith(") would be rewritten; 0 kept\n")
    done = run("rewrite-manifests", "d.t")
    assert ") rewritten into 1 (" in done
    assert run("rewrite-manifests", "d.t") == "d.t: nothing to do\n"
    again = json.loads(run("rewrite-manifests", "d.t", "--all", "--json"))
    assert (again["table"], again["rewritten_manifests"], again["added_manifests"]) == ("d.t", 1, 1)
    assert table.refresh().scan().count() == 5
    assert "no branch" in run("rewrite-manifests", "d.t", "--ref", "absent", code=1)


def test_file_indexes(catalog):
    catalog.create_namespace("d")
    schema = pa.schema([("k", pa.int64()), ("p", pa.int32())])
    table = catalog.create_table("d.t", schema, format="paimon", partition_by=["p"])
    table.append(pa.table({"k": [1, 2], "p": [0, 1]}, schema=schema))
    assert run("rewrite-file-indexes", "d.t") == "d.t: nothing to do\n"
    table.set_properties({"file-index.bitmap.columns": "k", "file-index.in-manifest-threshold": "0 b"})
    told = run("rewrite-file-indexes", "d.t", "--dry-run")
    assert told.startswith("d.t: 2 data files (")
    assert told.endswith(") would be indexed\n")
    done = run("rewrite-file-indexes", "d.t", "--where", "p = 1")
    assert done.endswith("indexed, 1 of them by files of their own\n")
    assert json.loads(run("rewrite-file-indexes", "d.t", "--json"))["data_files"] == 1
    assert json.loads(run("rewrite-file-indexes", "d.t", "--all", "--json"))["index_files"] == 2
    assert "partition keys" in run("rewrite-file-indexes", "d.t", "--where", "k = 1", code=1)


def test_deletes(catalog):
    table = catalog.create_table(
        "d.t", pa.schema([("k", pa.int64())]), properties={"write.delete.mode": "merge-on-read"}
    )
    table.append(pa.table({"k": range(10)}))
    assert run("rewrite-deletes", "d.t") == "d.t: nothing to do\n"
    for k in range(3):
        table.delete(f"k = {k}")
    told = run("rewrite-deletes", "d.t", "--dry-run")
    assert told == "d.t: 3 delete files of 1 data files would be rewritten; 0 would be dropped\n"
    assert run("rewrite-deletes", "d.t", "--min-files", "4") == "d.t: nothing to do\n"
    assert "Invalid value for '--min-files'" in run("rewrite-deletes", "d.t", "--min-files", "1", code=2)
    assert run("rewrite-deletes", "d.t") == "d.t: 3 delete files of 1 data files rewritten into 1; 0 dropped\n"
    assert json.loads(run("rewrite-deletes", "d.t", "--json"))["rewritten_delete_files"] == 0
    assert table.refresh().scan().count() == 7


def test_migrating_a_folder(catalog, tmp_path, monkeypatch):
    for day in (1, 2):
        (tmp_path / "raw" / f"day=2024-01-0{day}").mkdir(parents=True)
        pq.write_table(pa.table({"k": [day, day + 10]}), tmp_path / "raw" / f"day=2024-01-0{day}" / "a.parquet")
    monkeypatch.chdir(tmp_path)
    *columns, last = run("migrate", "raw", "d.t", "--dry-run").splitlines()
    assert columns == ["k\tint64", "day\tdate32[day]"]
    assert last.startswith("d.t: 2 files (")
    assert last.endswith(") would be the table's, partitioned by day")
    assert catalog.list_tables() == []
    told = json.loads(run("migrate", "raw", "d.t", "--table-property", "owner=me", "--json"))
    assert (told["files"], told["partition_by"], told["dry_run"]) == (2, ["day"], False)
    table = catalog.load_table("d.t")
    assert table.scan(where="day = DATE '2024-01-02'").to_arrow()["k"].to_pylist() == [2, 12]
    assert table.properties["owner"] == "me"
    assert str(table.statistics()["k"].freshness) == "fresh"
    assert "already" in run("migrate", "raw", "d.u", code=1)
    assert "there are no Parquet files" in run("migrate", str(tmp_path / "absent"), "d.v", code=1)
