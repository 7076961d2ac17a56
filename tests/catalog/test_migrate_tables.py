"""Iceberg tables become Paimon tables of the same name, or stay as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from rivals import Elsewhere

import skerry
from skerry.catalog import table_migrating
from skerry.catalog.iceberg_tables import IcebergTables
from skerry.cli.app import app
from skerry.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    NotFoundError,
    UnsupportedError,
)


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


def rows(start, count=10):
    numbers = range(start, start + count)
    return pa.table({"k": numbers, "s": [f"s{k % 3}" for k in numbers]})


def made(catalog, **options):
    table = catalog.create_table("d.t", rows(0).schema, **options)
    table.append(rows(0))
    table.append(rows(10))
    return table


def keys(table):
    return sorted(table.scan(["k"]).to_arrow()["k"].to_pylist())


@pytest.mark.parametrize("version", [1, 2, 3])
def test_there_and_back(catalog, version):
    table = made(catalog, partition_by=["s"], format_version=version)
    table.delete("k = 3 or k = 17")
    told = table.migrate("paimon", dry_run=True)
    assert (told.partition_by, told.dry_run, catalog.load_table("d.t").format) == (("s",), True, "iceberg")
    assert table.migrate("paimon", executor=Elsewhere()).files == told.files
    paimon = catalog.load_table("d.t")
    left = [k for k in range(20) if k not in (3, 17)]
    assert (paimon.format, paimon.partition_by, keys(paimon)) == ("paimon", ["s"], left)
    assert catalog.list_tables() == ["d.t"]
    assert paimon.statistics()["k"].ndv == 18
    assert str(paimon.statistics()["k"].freshness) == "fresh"
    assert paimon.scan(where="s = 's1'").count() == sum(k % 3 == 1 for k in left)
    paimon.append(rows(20))
    paimon.delete("k = 20")
    again = paimon.migrate("iceberg", format_version=max(version, 2))
    iceberg = catalog.load_table("d.t")
    assert (iceberg.format, iceberg.partition_by, again.partition_by) == ("iceberg", ["s"], ("s",))
    assert keys(iceberg) == [*left, *range(21, 30)]
    assert iceberg.scan(where="k >= 25").count() == 5


def test_partitions_that_paimon_does_not_have(catalog):
    table = made(catalog, partition_by=["bucket(4, k)"])
    with pytest.raises(UnsupportedError, match=r"partition_by=\[\]"):
        table.migrate("paimon")
    assert catalog.load_table("d.t").format == "iceberg"
    table.migrate("paimon", partition_by=[])
    paimon = catalog.load_table("d.t")
    assert (paimon.partition_by, keys(paimon)) == ([], list(range(20)))


def test_other_branches_and_tags(catalog):
    table = made(catalog)
    table.create_branch("audit")
    with pytest.raises(UnsupportedError, match="1 other branches or tags, such as the branch 'audit'"):
        table.migrate("paimon")


def test_an_empty_table(catalog):
    catalog.create_table("d.t", rows(0).schema).migrate("paimon")
    table = catalog.load_table("d.t")
    table.append(rows(0))
    assert (table.format, table.scan().count()) == ("paimon", 10)
    catalog.create_table("d.u", rows(0).schema, format="paimon").migrate("iceberg")
    other = catalog.load_table("d.u")
    other.append(rows(0))
    assert (other.format, other.scan().count()) == ("iceberg", 10)


def test_the_format_version_is_icebergs(catalog):
    made(catalog)
    with pytest.raises(UnsupportedError, match="format_version= is only for Iceberg tables"):
        catalog.migrate("d.t", format="paimon", format_version=2)
    with pytest.raises(NotFoundError, match=r"no table 'd\.u'"):
        catalog.migrate("d.u", format="paimon")
    with pytest.raises(AlreadyExistsError, match=r"table 'd\.t' is an Iceberg table already"):
        catalog.migrate("d.t")


def test_writers_find_no_table_while_it_is_made(catalog, monkeypatch):
    made(catalog)
    rival = catalog.load_table("d.t")
    publish = table_migrating.publish_paimon
    seen = []

    def commit_late(*arguments):
        with pytest.raises(NotFoundError):
            rival.append(rows(50))
        seen.append(catalog.list_tables())
        return publish(*arguments)

    monkeypatch.setattr(table_migrating, "publish_paimon", commit_late)
    catalog.migrate("d.t", format="paimon")
    assert seen == [["d.t__migrating"]]
    assert keys(catalog.load_table("d.t")) == list(range(20))


def test_a_commit_before_the_name_is_taken_goes_over(catalog, monkeypatch):
    made(catalog)
    rival = catalog.load_table("d.t")
    temporary = table_migrating.TableMigration._temporary

    def commit_first(self, name):
        rival.append(rows(20))
        return temporary(self, name)

    monkeypatch.setattr(table_migrating.TableMigration, "_temporary", commit_first)
    assert catalog.migrate("d.t", format="paimon").files == 3
    assert keys(catalog.load_table("d.t")) == list(range(30))


@pytest.mark.parametrize("error", [OSError("no luck"), KeyboardInterrupt()])
def test_a_failure_gives_the_name_back(catalog, monkeypatch, error):
    table = made(catalog)

    def fail(*_):
        raise error

    monkeypatch.setattr(table_migrating, "publish_paimon", fail)
    with pytest.raises(type(error)):
        catalog.migrate("d.t", format="paimon")
    assert catalog.list_tables() == ["d.t"]
    table.refresh().append(rows(20))
    assert keys(table) == list(range(30))


def test_an_unknown_outcome_is_left_as_it_is(catalog, monkeypatch):
    made(catalog)

    def fail(*_):
        raise CommitUnknownError("who knows")

    monkeypatch.setattr(table_migrating, "publish_paimon", fail)
    with pytest.raises(CommitUnknownError, match=r"drop 'd\.t__migrating' without purge, otherwise rename it back"):
        catalog.migrate("d.t", format="paimon")
    monkeypatch.undo()
    assert catalog.list_tables() == ["d.t__migrating"]
    catalog.rename_table("d.t__migrating", "d.t")
    catalog.migrate("d.t", format="paimon")
    assert keys(catalog.load_table("d.t")) == list(range(20))


@pytest.mark.parametrize("drops", [False, True])
def test_the_old_name_is_dropped_although_the_catalog_fails_once(catalog, monkeypatch, caplog, drops):
    made(catalog)
    drop, failed = IcebergTables.drop, []

    def fail_once(self, name, **how):
        if not failed:
            failed.append(name)
            if drops:
                drop(self, name, **how)
            raise CommitUnknownError("no luck")
        drop(self, name, **how)

    monkeypatch.setattr(IcebergTables, "drop", fail_once)
    catalog.migrate("d.t", format="paimon")
    assert failed == ["d.t__migrating"]
    assert catalog.list_tables() == ["d.t"]
    assert not caplog.records


def test_a_place_that_is_taken(catalog, tmp_path):
    made(catalog)
    snapshots = Path(tmp_path / "warehouse" / "d.db" / "t" / "snapshot")
    snapshots.mkdir(parents=True)
    (snapshots / "snapshot-1").write_text("{}")
    with pytest.raises(AlreadyExistsError):
        catalog.migrate("d.t", format="paimon")
    assert catalog.load_table("d.t").scan().count() == 20


def test_on_the_command_line(catalog, tmp_path):
    made(catalog)
    warehouse = ["--warehouse", str(tmp_path / "warehouse")]

    def call(*arguments):
        return CliRunner().invoke(app, ["migrate", *arguments, *warehouse])

    told = call("d.t", "--to", "paimon", "--dry-run", "--json")
    assert json.loads(told.stdout)["files"] == 2
    done = call("d.t", "--to", "paimon")
    assert (done.exit_code, done.stdout.startswith("d.t: 2 files (")) == (0, True)
    assert catalog.load_table("d.t").format == "paimon"
    again = call("d.t", "--to", "paimon")
    assert again.exit_code == 1
    assert "table 'd.t' is a Paimon table already" in again.output
    for wrong in (["d.t"], ["d.t", "d.u", "--to", "paimon"]):
        found = call(*wrong)
        assert found.exit_code == 2
        assert "give either the new table of a folder, or --to FORMAT for a table" in " ".join(found.output.split())
