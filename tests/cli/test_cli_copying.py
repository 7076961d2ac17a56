"""`skerry copy` and `skerry relocate` of a table: what they do and what they say."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

import skerry
from skerry.cli.app import app


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("SKERRY_WAREHOUSE", str(tmp_path / "warehouse"))
    table = skerry.connect(tmp_path / "warehouse").create_table("d.t", pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": [1, 2]}))
    return table


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def test_a_dry_run_lists_files_and_a_copy_says_what_is_new(table, tmp_path):
    planned = run("copy", "d.t", tmp_path / "c", "--dry-run").splitlines()
    assert planned[0].split("\t") == ["source", "target", "kind", "size_bytes", "is_rewritten"]
    assert [line.split("\t")[2] for line in planned[1:-1]].count("data") == 1
    assert "would be copied to" in planned[-1]
    assert not (tmp_path / "c").exists()
    done = run("copy", "d.t", tmp_path / "c").splitlines()
    assert done[0].startswith(f"d.t was copied to file://{tmp_path}/c: {len(planned) - 2} new files (")
    assert done[1] == f"metadata file: file://{skerry.open_table(tmp_path / 'c').metadata_location}"
    assert "0 new files (0 B), 6 files were there already" in run("copy", "d.t", tmp_path / "c")
    copied = table.current_snapshot().snapshot_id
    table.append(pa.table({"k": [3]}))
    found = json.loads(run("copy", "d.t", tmp_path / "c", "--from-snapshot", copied, "--json"))
    assert found["snapshot_id"] == table.current_snapshot().snapshot_id
    assert [file["kind"] for file in found["files"] if file["is_new"] and not file["is_rewritten"]] == ["data"]
    assert skerry.open_table(tmp_path / "c").scan().count() == 3


def test_a_copy_gets_a_name_in_another_catalog(table, tmp_path):
    run("copy", "d.t", "--to", tmp_path / "other", "--name", "e.t")
    assert skerry.connect(tmp_path / "other").load_table("e.t").scan().count() == 2
    table.append(pa.table({"k": [3]}))
    run("copy", "d.t", "--to", tmp_path / "other", "--name", "e.t")
    assert skerry.connect(tmp_path / "other").load_table("e.t").scan().count() == 3
    assert "--to needs --name" in run("copy", "d.t", "--to", tmp_path / "other", code=2)
    assert "location= is missing" in run("copy", "d.t", code=1)
    skerry.connect(tmp_path / "other").load_table("e.t").append(pa.table({"k": [4]}))
    table.append(pa.table({"k": [5]}))
    assert "was changed since it was copied" in run("copy", "d.t", "--to", tmp_path / "other", "--name", "e.t", code=3)


def test_metadata_alone_and_prefixes(table, tmp_path):
    run("copy", "d.t", tmp_path / "kept", "--data", "keep", "--name", "d.kept")
    kept = skerry.connect(tmp_path / "warehouse").load_table("d.kept")
    assert [file.location for file in kept.files()] == [file.location for file in table.files()]
    assert "not of the form KEY=VALUE" in run("copy", "d.t", tmp_path / "c", "--prefix", "x", code=2)


def test_a_table_is_relocated(table, tmp_path):
    old = table.location
    planned = run("relocate", "d.t", "--to", tmp_path / "new", "--dry-run").splitlines()
    assert planned[-1].startswith(f"d.t would be relocated to file://{tmp_path}/new: ")
    done = run("relocate", "d.t", "--to", tmp_path / "new").splitlines()
    assert done[0].endswith(f"{len(planned) - 2} files deleted at the old place")
    moved = skerry.connect(tmp_path / "warehouse").load_table("d.t")
    assert (moved.location, moved.scan().count()) == (f"file://{tmp_path}/new", 2)
    found = json.loads(run("relocate", "d.t", "--to", old, "--data", "copy", "--json"))
    assert (found["deleted_files"], found["location"]) == (0, old)
    assert (tmp_path / "new" / "data").exists()
    assert "give --to LOCATION" in run("relocate", tmp_path / "warehouse", "--data", "copy", code=2)
    assert "nothing to relocate" in run("relocate", tmp_path / "warehouse")
