"""Warehouse folders that were copied or moved: the original stays as it is, the copy becomes a warehouse of its own."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.catalog.sql import SqlCatalog

import skerry
from skerry.catalog import relocating
from skerry.cli.app import app
from skerry.errors import ConflictError, FormatError, NotFoundError, SkerryError, UnsupportedError
from skerry.iceberg.relocation.names import NewNames
from skerry.iceberg.relocation.samples import relocate_statistics
from skerry.iceberg.writing.file_writers import FileEncoding
from skerry.storage import Move, Storage

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("d", pa.int32())])
ON_READ = {"write.delete.mode": "merge-on-read"}
KINDS = {
    "v1": {"format_version": 1},
    "v2": {"format_version": 2, "properties": ON_READ},
    "v2_orc": {"format_version": 2, "properties": {**ON_READ, "write.delete.format.default": "orc"}},
    "v2_avro": {
        "format_version": 2,
        "properties": {**ON_READ, "write.delete.granularity": "partition"},
        "file_format": "avro",
    },
    "v3": {"format_version": 3, "properties": ON_READ},
}


def rows(start, stop):
    ids = range(start, stop)
    return pa.table([list(ids), [f"w{i % 7}" for i in ids], [i % 2 for i in ids]], schema=SCHEMA)


def make(folder, kinds=("v2",)):
    """A warehouse with tables that have deletes, a tag, statistics and some history."""
    catalog = skerry.connect(folder)
    for kind in kinds:
        table = catalog.create_table(f"n.{kind}", SCHEMA, partition_by=["d"], **KINDS[kind])
        table.append(rows(0, 20))
        table.append(rows(20, 40))
        table.delete("id = 5 or id = 25")
        table.delete("id < 3")
        table.create_tag("then")
        table.append(rows(40, 50))
    return catalog


def ids(table, **scan):
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())


def content(table):
    """All that a table has to say."""
    statistics = table.statistics().items()
    return {
        "rows": table.scan().to_arrow().sort_by("id").to_pylist(),
        "snapshots": [(found.snapshot_id, ids(table, snapshot=found.snapshot_id)) for found in table.snapshots()],
        "then": ids(table, ref="then"),
        "statistics": {name: (c.ndv, c.null_count, c.min, c.max, str(c.freshness)) for name, c in statistics},
    }


def counted(table):
    return [(column.ndv, str(column.freshness)) for column in table.statistics().values()]


def files_of(folder):
    found = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A warehouse that no test changes, and a copy that was relocated, with a table of each kind."""
    folder = tmp_path_factory.mktemp("place")
    make(folder / "original", KINDS)
    before = files_of(folder / "original")
    relocated = Path(shutil.copytree(folder / "original", folder / "relocated"))
    summary = skerry.connect(relocated).relocate()
    assert files_of(folder / "original") == before
    return folder / "original", relocated, summary


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A warehouse that no test changes."""
    folder = tmp_path_factory.mktemp("place") / "original"
    make(folder, ("v2", "v3"))
    return folder


@pytest.fixture
def copy(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "copy"))


@pytest.fixture
def home(original, tmp_path):
    """A warehouse for a test to change, and to copy."""
    shutil.copytree(original, tmp_path / "home")
    skerry.connect(tmp_path / "home").drop_table("n.v3")
    skerry.connect(tmp_path / "home").relocate()
    return tmp_path / "home"


WRITES = {
    "append": lambda catalog, table: table.append(rows(0, 1)),
    "delete": lambda catalog, table: table.delete("id = 9"),
    "delete_all": lambda catalog, table: table.delete("true"),
    "upsert": lambda catalog, table: table.upsert(rows(9, 10), on=["id"]),
    "overwrite": lambda catalog, table: table.overwrite(rows(9, 10)),
    "compact": lambda catalog, table: table.compact(full=True),
    "expire": lambda catalog, table: table.expire_snapshots(keep_last=1, older_than=table.snapshots()[-1].timestamp),
    "orphans": lambda catalog, table: table.remove_orphans(older_than_days=0),
    "manifests": lambda catalog, table: table.rewrite_manifests(full=True),
    "deletes": lambda catalog, table: table.rewrite_deletes(),
    "analyze": lambda catalog, table: table.analyze(full=True),
    "schema": lambda catalog, table: table.update_schema().add_column("q", pa.int32()).commit(),
    "properties": lambda catalog, table: table.set_properties({"a": "b"}),
    "drop_ref": lambda catalog, table: table.drop_ref("then"),
    "purge": lambda catalog, table: catalog.drop_table("n.v2", purge=True),
}


@pytest.mark.parametrize("write", WRITES)
def test_nothing_is_written_or_deleted_from_a_copy(original, copy, write):
    before = files_of(original)
    catalog = skerry.connect(copy)
    table = catalog.load_table("n.v2")
    with pytest.raises(UnsupportedError, match=r"was copied or moved.*catalog\.relocate\(\) or `skerry relocate`"):
        WRITES[write](catalog, table)
    assert files_of(original) == before
    assert files_of(copy).keys() == {copy / path.relative_to(original) for path in before}
    assert catalog.list_tables() == ["n.v2", "n.v3"]


def test_a_copy_is_read_from_its_own_files(home, tmp_path):
    expected = content(skerry.connect(home).load_table("n.v2"))
    shutil.move(home, tmp_path / "away")
    catalog = skerry.connect(tmp_path / "away")
    assert catalog.moved_from == f"file://{home}"
    assert content(catalog.load_table("n.v2")) == expected
    assert catalog.sql("select count(*) as n from n.v2")["n"].to_pylist() == [45]


def test_a_warehouse_is_relocated_as_a_whole(everything):
    original, relocated, summary = everything
    assert (summary.source, summary.target, summary.dry_run) == (f"file://{original}", f"file://{relocated}", False)
    assert {table.table: table.problem for table in summary.tables} == {f"n.{kind}": "" for kind in KINDS}
    assert all(table.location.startswith(f"file://{relocated}/n/") for table in summary.tables)
    assert [table.table for table in summary.tables if table.delete_files] == ["n.v2", "n.v2_avro", "n.v2_orc"]
    assert skerry.connect(relocated).moved_from is None
    assert skerry.connect(relocated).relocate().source == "", "there is nothing left to do"


@pytest.mark.parametrize("kind", KINDS)
def test_a_relocated_table_is_what_it_was(everything, kind):
    original, copy, _ = everything
    before = files_of(original)
    expected = content(skerry.connect(original).load_table(f"n.{kind}"))
    table = skerry.connect(copy).load_table(f"n.{kind}")
    assert content(table) == expected
    named = [table.metadata_location, *(file.location for file in table.files())]
    for metadata in Path(copy, "n", kind, "metadata").glob("*.metadata.json"):
        for file in json.loads(metadata.read_text()).get("statistics", []):
            if file["statistics-path"].startswith(f"file://{copy}/"):
                path = Path(file["statistics-path"].removeprefix("file://"))
                assert path.stat().st_size == file["file-size-in-bytes"]
    assert all(location.startswith(f"file://{copy}/n/{kind}/") for location in named)
    # everything works, statistics are true, and what names the old place is nobody's
    table.delete("id = 7")
    table.append(rows(60, 63))
    assert counted(table) == [(47, "fresh"), (7, "fresh"), (2, "fresh")]
    table.compact(full=True)
    assert counted(table) == [(47, "fresh"), (7, "fresh"), (2, "fresh")]
    table.expire_snapshots(keep_last=1, older_than=table.snapshots()[-1].timestamp)
    table.remove_orphans(older_than_days=0)
    assert table.scan(where="id < 10").count() == 5
    old = f"{original}/".encode()
    left = [path for path in Path(copy, "n", kind).rglob("*") if path.is_file() and old in path.read_bytes()]
    assert not [path for path in left if path.suffix != ".puffin"], "only the footers of vectors name the old place"
    assert files_of(original) == before


def test_pyiceberg_reads_a_relocated_table(copy):
    skerry.connect(copy).relocate()
    catalog = SqlCatalog("skerry", uri=f"sqlite:///{copy}/catalog.db", warehouse=f"file://{copy}")
    table = catalog.load_table("n.v2")
    assert table.metadata_location.startswith(f"file://{copy}/")
    assert table.scan().to_arrow().num_rows == 45
    for entry in table.metadata.metadata_log:
        earlier = Path(entry.metadata_file.removeprefix("file://"))
        assert earlier.is_relative_to(copy)
        assert json.loads(earlier.read_text())["location"] == table.location()


def test_spark_reads_a_relocated_table(iceberg_spark, copy):
    skerry.connect(copy).relocate()
    spark = iceberg_spark(copy)
    for kind in ("v2", "v3"):
        assert spark.sql(f"select count(*), sum(id) from skerry.n.{kind}").collect()[0][0] == 45
        assert spark.sql(f"select count(*) from skerry.n.{kind} version as of 'then'").collect()[0][0] == 35


def test_a_dry_run_tells_the_same_and_changes_nothing(copy):
    before = files_of(copy)
    planned = skerry.connect(copy).relocate(dry_run=True)
    assert files_of(copy) == before
    done = skerry.connect(copy).relocate()
    assert [(t.table, t.metadata_files, t.manifests, t.delete_files, t.statistics_files) for t in planned.tables] == [
        (t.table, t.metadata_files, t.manifests, t.delete_files, t.statistics_files) for t in done.tables
    ]


def test_a_relocation_that_fails_is_done_again(copy, monkeypatch):
    catalog = skerry.connect(copy)
    expected = content(catalog.load_table("n.v2"))
    with monkeypatch.context() as patched:
        patched.setattr(relocating, "record_folder", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            catalog.relocate()
    again = skerry.connect(copy)
    assert again.moved_from is not None
    assert content(again.load_table("n.v2")) == expected
    again.relocate()
    assert content(again.load_table("n.v2")) == expected


def test_a_rival_that_commits_meanwhile_wins(copy, monkeypatch):
    catalog = skerry.connect(copy)
    relocate_table = relocating.relocate_table

    def then_change(*args, **options):
        found = relocate_table(*args, **options)
        with sqlite3.connect(copy / "catalog.db") as rival:
            rival.execute(
                "UPDATE iceberg_tables SET metadata_location = metadata_location || 'x' WHERE table_name = 'v2'"
            )
        rival.close()
        return found

    monkeypatch.setattr(relocating, "relocate_table", then_change)
    with pytest.raises(ConflictError, match=r"table 'n\.v2' was changed in the meantime"):
        catalog.relocate()
    assert skerry.connect(copy).moved_from is not None


def test_how_a_folder_is_named_does_not_make_it_another(home, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(home)
    monkeypatch.chdir(tmp_path)
    for name in (
        "home",
        "./home/",
        f"file://{home}",
        f"file://{home}/",
        f"{tmp_path}/link",
        "x/../home",
        f"sqlite:///{home}/catalog.db",
    ):
        catalog = skerry.connect(name, **({"warehouse": f"file://{home}"} if "sqlite" in name else {}))
        assert catalog.moved_from is None
        catalog.load_table("n.v2").set_properties({"name": name})
    # made by a link, opened without it
    make("link/inner")
    assert skerry.connect(home / "inner").moved_from is None
    skerry.connect(home / "inner").load_table("n.v2").append(rows(0, 1))
    # moved, with a link left behind
    shutil.move(home / "inner", tmp_path / "moved")
    (home / "inner").symlink_to(tmp_path / "moved")
    assert skerry.connect(tmp_path / "moved").moved_from is None


def forget(folder):
    """As a warehouse was before the place was recorded."""
    with sqlite3.connect(folder / "catalog.db") as connection:
        connection.execute("DROP TABLE skerry_warehouse")
    connection.close()


def test_a_catalog_without_a_record_is_judged_by_its_tables(home, tmp_path):
    forget(home)
    copy = shutil.copytree(home, tmp_path / "copy")
    incomplete = shutil.copytree(home, tmp_path / "incomplete", ignore=shutil.ignore_patterns("n"))
    assert skerry.connect(copy).moved_from == f"file://{home}"
    assert skerry.connect(incomplete).moved_from == f"file://{home}"
    assert skerry.connect(home).moved_from is None
    forget(home)  # it was written down
    # new tables in the copy do not make it the original
    skerry.connect(copy).create_table("n.new", SCHEMA).append(rows(0, 3))
    assert skerry.connect(copy).moved_from == f"file://{home}"
    skerry.connect(copy).relocate()
    assert skerry.connect(copy).load_table("n.new").scan().count() == 3
    skerry.connect(copy).load_table("n.v2").append(rows(0, 3))


def test_a_table_that_is_registered_from_elsewhere_is_no_sign_of_a_copy(home, tmp_path):
    outside = skerry.connect(tmp_path / "w").create_table("n.far", SCHEMA, location=f"file://{tmp_path}/far/away")
    for other in ("other", "later"):
        catalog = skerry.connect(tmp_path / other)
        catalog.register_table("n.far", outside.metadata_location)
        if other == "later":
            forget(tmp_path / other)
        assert skerry.connect(tmp_path / other).moved_from is None
    assert skerry.connect(tmp_path / "later").load_table("n.far").append(rows(0, 1))


def test_an_empty_copy_is_simply_a_new_warehouse(tmp_path):
    skerry.connect(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert skerry.connect(tmp_path / "two").moved_from is None
    skerry.connect(tmp_path / "two").create_table("n.t", SCHEMA)
    assert skerry.connect(tmp_path / "two").moved_from is None


def test_a_copy_that_shares_files_with_the_original_is_refused(home, tmp_path):
    catalog = skerry.connect(home)
    catalog.create_table("n.far", SCHEMA, location=f"file://{tmp_path}/far/away").append(rows(0, 1))
    copy = shutil.copytree(home, tmp_path / "copy")
    other = skerry.connect(copy)
    with pytest.raises(SkerryError, match="was copied or moved"):
        other.load_table("n.far").append(rows(0, 1))
    with pytest.raises(UnsupportedError, match=r"also has table 'n\.far', which is outside its folder"):
        other.relocate()
    other.drop_table("n.far")
    shutil.move(copy / "n", tmp_path / "n")
    (copy / "n").symlink_to(tmp_path / "n")
    with pytest.raises(UnsupportedError, match="a link to a folder outside the copy"):
        skerry.connect(copy).relocate()
    (copy / "catalog.db").unlink()
    os.link(home / "catalog.db", copy / "catalog.db")
    with pytest.raises(UnsupportedError, match="a link to the original's file"):
        skerry.connect(copy).relocate()
    assert skerry.connect(home).load_table("n.far").scan().count() == 1


def test_paimon_tables_of_a_copy_are_its_own(home, tmp_path):
    catalog = skerry.connect(home)
    catalog.create_table("p.t", SCHEMA, format="paimon").append(rows(0, 3))
    copy = shutil.copytree(home, tmp_path / "copy")
    (copy / "linked.db").symlink_to(home / "p.db")
    other = skerry.connect(copy)
    other.load_table("p.t").append(rows(3, 5))
    with pytest.raises(UnsupportedError, match="was copied or moved"):
        other.load_table("linked.t").append(rows(3, 5))
    (copy / "linked.db").unlink()
    other.relocate()
    other.load_table("p.t").append(rows(5, 6))
    assert (other.load_table("p.t").scan().count(), catalog.load_table("p.t").scan().count()) == (6, 3)


def test_paimon_tables_that_were_iceberg_tables_find_their_files(tmp_path):
    """Their manifests name files by absolute paths."""
    catalog = skerry.connect(tmp_path / "home")
    table = catalog.create_table("n.t", SCHEMA, properties=ON_READ)
    table.append(rows(0, 20))
    table.delete("id = 5")
    catalog.migrate("n.t", format="paimon")
    table = catalog.load_table("n.t")
    table.create_tag("then")
    table.create_branch("side")
    table.append(rows(20, 30))
    expected = content(table)
    before = files_of(tmp_path / "home")
    copy = Path(shutil.copytree(tmp_path / "home", tmp_path / "copy"))
    other = skerry.connect(copy)
    assert other.moved_from == f"file://{tmp_path}/home"
    assert content(other.load_table("n.t")) == expected
    planned = other.relocate(dry_run=True).tables
    assert planned == other.relocate().tables
    assert [(table.table, table.format, table.manifests > 0) for table in planned] == [("n.t", "paimon", True)]
    assert files_of(tmp_path / "home") == before
    shutil.rmtree(tmp_path / "home")

    table = skerry.connect(copy).load_table("n.t")
    assert content(table) == expected
    assert ids(table, ref="side") == expected["then"]
    assert all(file.location.startswith(f"file://{copy}/") for file in table.files())
    table.delete("id = 7")
    table.append(rows(30, 33))
    table.compact(full=True)
    table.expire_snapshots(keep_last=1, older_than=table.snapshots()[-1].timestamp)
    assert table.scan().count() == 31


def test_a_broken_table_does_not_hold_up_the_others(copy):
    for path in copy.glob("n/v3/metadata/*.metadata.json"):
        path.unlink()
    (summary,) = [t for t in skerry.connect(copy).relocate().tables if t.problem]
    assert (summary.table, summary.problem) == ("n.v3", "the metadata file is missing")
    with pytest.raises(NotFoundError, match=f"metadata file is missing .in file://{copy}"):
        skerry.connect(copy).load_table("n.v3")
    skerry.connect(copy).load_table("n.v2").append(rows(0, 1))


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_a_table_whose_files_cannot_be_read_is_named_and_nothing_is_switched(copy, damage):
    manifest = next(copy.glob("n/v3/metadata/*-m0.avro"))
    error = NotFoundError if damage == "missing" else FormatError
    if damage == "missing":
        manifest.unlink()
    else:
        manifest.write_bytes(manifest.read_bytes()[:-40])
    catalog = skerry.connect(copy)
    with pytest.raises(error, match=r"table 'n\.v3' cannot be relocated, nothing was changed.*drop the table here"):
        catalog.relocate()
    assert skerry.connect(copy).moved_from is not None
    catalog.drop_table("n.v3")
    catalog.relocate()
    catalog.load_table("n.v2").append(rows(0, 1))


def test_a_folder_moved_into_itself_or_out_of_itself(home, tmp_path):
    inner = home / "backup"
    shutil.copytree(home, tmp_path / "copy")
    shutil.move(tmp_path / "copy", inner)
    before = content(skerry.connect(home).load_table("n.v2"))
    catalog = skerry.connect(inner)
    catalog.relocate()
    catalog.load_table("n.v2").append(rows(60, 62))
    assert content(skerry.connect(home).load_table("n.v2")) == before
    outer = tmp_path / "outer" / "deep"
    make(outer)
    for path in list(outer.iterdir()):
        shutil.move(path, outer.parent / path.name)
    catalog = skerry.connect(outer.parent)
    assert catalog.load_table("n.v2").scan().count() == 45
    catalog.relocate()
    catalog.load_table("n.v2").append(rows(60, 62))


def test_locations_of_properties_move_too(tmp_path):
    catalog = skerry.connect(tmp_path / "home")
    catalog.create_namespace("n", {"location": f"file://{tmp_path}/home/n"})
    properties = {"write.data.path": f"file:{tmp_path}/home/elsewhere", "write.metadata.path": f"{tmp_path}/home/meta"}
    catalog.create_table("n.t", SCHEMA, properties=properties | {"comment": "a/b"}).append(rows(0, 3))
    shutil.move(tmp_path / "home", tmp_path / "away")
    catalog = skerry.connect(tmp_path / "away")
    catalog.relocate()
    table = catalog.load_table("n.t")
    assert table.properties["write.data.path"] == f"file:{tmp_path}/away/elsewhere"
    assert table.properties["write.metadata.path"] == f"{tmp_path}/away/meta"
    assert table.properties["comment"] == "a/b"
    assert catalog.iceberg_catalog.load_namespace_properties("n")["location"] == f"file://{tmp_path}/away/n"
    table.append(rows(3, 5))
    assert table.scan().count() == 5
    assert not (tmp_path / "home").exists()


def test_only_a_folder_can_be_relocated(tmp_path):
    with pytest.raises(UnsupportedError, match="only the warehouse of a folder"):
        skerry.connect("memory://bucket/lake").relocate()


def test_the_command(copy):
    run = CliRunner().invoke
    listed = run(app, ["ls", "-w", str(copy)])
    assert listed.exit_code == 0
    planned = run(app, ["relocate", str(copy), "--dry-run"])
    assert "tables would be relocated from" in planned.output
    refused = run(app, ["delete", "n.v2", "--where", "id = 9", "-w", str(copy)])
    assert refused.exit_code == 1
    assert "skerry relocate" in refused.output
    done = json.loads(run(app, ["relocate", str(copy), "--json"]).output)
    assert [table["table"] for table in done["tables"]] == ["n.v2", "n.v3"]
    assert "nothing to relocate" in run(app, ["relocate", str(copy)]).output
    absent = run(app, ["relocate", str(copy / "absent")])
    assert absent.exit_code == 1
    assert "name one with the argument or SKERRY_WAREHOUSE" in absent.output
    assert run(app, ["delete", "n.v2", "--where", "id = 9", "-w", str(copy)]).exit_code == 0


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("file:///a/b/c", "file:///x/y/c"),
        ("file:/a/b/c/", "file:/x/y/c/"),
        ("/a/b", "/x/y"),
        ("/a//b/c", "/x/y/c"),
        ("file://localhost/a/b/c", "file://localhost/x/y/c"),
        ("/a/bc", "/a/bc"),
        ("/a/b/../c", "/a/b/../c"),
        ("s3://a/b/c", "s3://a/b/c"),
        ("file:///a/b/%2e%2e/c", "file:///x/y/%2e%2e/c"),
        ("a text with / in it", "a text with / in it"),
    ],
)
def test_a_location_keeps_its_spelling(location, expected):
    assert Move(("file:///a/b",), "file:///x/y")(location) == expected


def test_a_statistics_file_of_several_metadata_files_has_one_description(tmp_path):
    table = make(tmp_path / "wh").load_table("n.v2")
    storage, location = Storage(), table.location
    metadata = json.loads(storage.read(table.metadata_location))
    move = Move(location, f"file://{tmp_path}/new")
    names = NewNames(
        storage, storage, move, f"file://{tmp_path}/new/metadata", FileEncoding.from_properties({}), dry_run=False
    )
    first, again = dict(metadata["statistics"][-1]), dict(metadata["statistics"][-1])
    again["file-size-in-bytes"] += 1  # as if the new file were of another size
    for entry in (first, again):
        relocate_statistics(names, entry, {entry["snapshot-id"]: entry["statistics-path"]})
    assert again == first
    assert names.written.statistics_files == 1
    assert len(storage.read(first["statistics-path"])) == first["file-size-in-bytes"]
