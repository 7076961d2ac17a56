"""`Table.copy_to` and `Table.relocate`: copies of tables at other places, equal in all that they say."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from copied_tables import ICEBERG, KINDS, SCHEMA, content, files_of, go_on, ids, make, naming, rows
from pyiceberg.table import StaticTable

import skerry
from skerry.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    NotFoundError,
    SchemaError,
    StorageError,
    UnsupportedError,
)
from skerry.iceberg.catalogs.sql import SqlCatalog
from skerry.iceberg.commit import IcebergTarget
from skerry.iceberg.jobs import relocate as relocating
from skerry.storage import Storage
from skerry.storage.local import LocalFiles, LocalSink
from skerry.table.files.locations import OUTSIDE_PROPERTY
from skerry.table.table_files import FileKind
from torture import examples


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A warehouse that no test changes, with a table of each kind."""
    folder = tmp_path_factory.mktemp("home")
    catalog = skerry.connect(folder)
    for kind in KINDS:
        make(catalog, kind)
    return folder


@pytest.fixture
def lake(tmp_path):
    return skerry.connect(tmp_path / "lake")


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_what_the_table_is(home, tmp_path, kind):
    before = files_of(home)
    table = skerry.connect(home).load_table(f"n.{kind}")
    other = skerry.connect(tmp_path / "other")
    planned = table.copy_to(catalog=other, name=f"m.{kind}", dry_run=True)
    assert not other.list_tables()
    assert not [path for path in files_of(tmp_path) if path.name != "catalog.db"]
    done = table.copy_to(catalog=other, name=f"m.{kind}")
    assert files_of(home) == before
    assert [(file.source, file.target, file.kind) for file in planned.files] == [
        (file.source, file.target, file.kind) for file in done.files
    ]
    copy = other.load_table(f"m.{kind}")
    assert content(copy) == content(table)
    assert (done.location, done.snapshot_id) == (
        f"file://{copy.location.removeprefix('file://')}",
        table.current_snapshot().snapshot_id,
    )
    assert naming(tmp_path, f"{home}/") == [], "nothing names the old place"
    written = {
        path for path in files_of(done.location.removeprefix("file://")) if path.name not in ("LATEST", "EARLIEST")
    }
    assert written == {Path(file.target.removeprefix("file://")) for file in done.files}
    assert all(Path(file.target.removeprefix("file://")).stat().st_size == file.size_bytes for file in done.files)
    assert done.new_bytes == sum(file.size_bytes for file in done.files)
    assert {file.kind for file in done.files} >= {FileKind.DATA, FileKind.MANIFEST, FileKind.METADATA}
    # it is a table of its own
    copy.append(rows(100, 103))
    copy.delete("id = 7")
    copy.compact(full=True)
    copy.expire_snapshots(keep_last=1, older_than=copy.snapshots()[-1].timestamp)
    copy.remove_orphans(older_than_days=0)
    assert copy.scan().count() == 47
    assert str(copy.statistics()["id"].freshness) == "fresh"
    assert files_of(home) == before


@pytest.mark.parametrize("kind", ["v1", "v2", "v3", "plain", "keyed"])
def test_a_copy_made_again_writes_what_is_new(lake, tmp_path, kind):
    table = make(lake, kind)
    other = skerry.connect(tmp_path / "other")
    first = table.copy_to(catalog=other, name=f"m.{kind}")
    again = table.copy_to(catalog=other, name=f"m.{kind}")
    assert not again.new_files
    assert {file.target for file in again.files} == {file.target for file in first.files}
    for _ in range(2):
        copied = table.current_snapshot().snapshot_id
        go_on(table)
        known = files_of(tmp_path / "other")
        if kind in ICEBERG:
            planned = table.copy_to(first.location, from_snapshot=copied, dry_run=True)
            later = table.copy_to(first.location, catalog=other, name=f"m.{kind}", from_snapshot=copied)
            assert {file.target for file in planned.new_files} >= {file.target for file in later.new_files}
            data = (FileKind.DATA, FileKind.DELETES, FileKind.MANIFEST, FileKind.MANIFEST_LIST)
            assert [file.target for file in planned.new_files if file.kind in data] == [
                file.target for file in later.new_files if file.kind in data
            ]
        else:
            later = table.copy_to(catalog=other, name=f"m.{kind}")
        assert content(other.load_table(f"m.{kind}")) == content(table)
        changed = {path for path, found in files_of(tmp_path / "other").items() if known.get(path) != found}
        new = {Path(file.target.removeprefix("file://")) for file in later.new_files}
        assert {path for path in changed if path.name not in ("LATEST", "catalog.db")} == new


def test_only_iceberg_copies_are_counted_from_a_snapshot(home, tmp_path):
    catalog = skerry.connect(home)
    with pytest.raises(UnsupportedError, match="copied from the newest snapshot that its copy has"):
        catalog.load_table("n.plain").copy_to(tmp_path / "c", from_snapshot=1)
    table = catalog.load_table("n.v2")
    with pytest.raises(NotFoundError, match="no snapshot 17 any more"):
        table.copy_to(tmp_path / "c", from_snapshot=17)
    with pytest.raises(NotFoundError, match=r"was not copied to .* like this.*Leave from_snapshot= out"):
        table.copy_to(tmp_path / "c", from_snapshot=table.snapshots()[0].snapshot_id)
    assert not [path for path in files_of(tmp_path) if path.name.endswith("metadata.json")]


@pytest.mark.parametrize("kind", ["v2", "v3", "keyed"])
@pytest.mark.parametrize("kill", [StorageError("the store failed"), KeyboardInterrupt()])
def test_a_copy_that_failed_is_made_again(home, tmp_path, monkeypatch, kind, kill):
    """At every file that is written: the name stays free, the original as it was, and the next copy is complete."""
    table = skerry.connect(home).load_table(f"n.{kind}")
    before, expected = files_of(home), content(table)
    written = 0
    total = len(table.copy_to(tmp_path / "all").files)
    real_write, real_publish = LocalFiles.write, LocalSink._publish
    draw = random.Random(3)
    for fail_at in sorted(draw.sample(range(1, total), 4)):
        catalog = skerry.connect(tmp_path / f"w{fail_at}")
        written = 0

        def count():
            nonlocal written
            written += 1
            if written == fail_at:  # noqa: B023  used at once
                raise kill

        def write(self, location, data, *, overwrite):
            count()
            real_write(self, location, data, overwrite=overwrite)

        def publish(self):
            try:
                count()
            except BaseException:
                self._discard()
                raise
            real_publish(self)

        with monkeypatch.context() as patched:
            patched.setattr(LocalFiles, "write", write)
            patched.setattr(LocalSink, "_publish", publish)
            with pytest.raises((StorageError, KeyboardInterrupt, CommitUnknownError)):
                table.copy_to(tmp_path / f"c{fail_at}", **registered(catalog, kind))
        if kind in ICEBERG:
            assert catalog.list_tables() == []
        assert files_of(home) == before
        done = table.copy_to(tmp_path / f"c{fail_at}", **registered(catalog, kind))
        assert len(done.new_files) < total
        assert content(skerry.open_table(tmp_path / f"c{fail_at}")) == expected


def registered(catalog, kind):
    """A name for a copy; Paimon tables are found by their folders."""
    return {"catalog": catalog, "name": "m.t"} if kind in ICEBERG else {}


def test_places_that_cannot_be_those_of_copies(home, lake, tmp_path):
    table, paimon = make(lake, "v2"), make(lake, "plain")
    for place in (table.location, f"{table.location}/data", tmp_path / "lake", f"{table.location}//"):
        with pytest.raises(SchemaError, match="a copy needs a folder of its own"):
            table.copy_to(place)
    (tmp_path / "link").symlink_to(tmp_path / "lake" / "n")
    with pytest.raises(SchemaError, match="overlaps the table's"):
        table.copy_to(tmp_path / "link" / "v2" / "x")
    skerry.connect(home).load_table("n.v2").copy_to(tmp_path / "taken")
    with pytest.raises(AlreadyExistsError, match="another table is in the folder"):
        table.copy_to(tmp_path / "taken")
    with pytest.raises(AlreadyExistsError, match="a table of Iceberg is in the folder"):
        paimon.copy_to(tmp_path / "taken")
    paimon.copy_to(tmp_path / "paimon")
    with pytest.raises(AlreadyExistsError, match="a table of Paimon is in the folder"):
        table.copy_to(tmp_path / "paimon")
    with pytest.raises(AlreadyExistsError, match="taken by another table"):
        skerry.connect(home).load_table("n.keyed").copy_to(tmp_path / "paimon")
    with pytest.raises(AlreadyExistsError, match="already exists, and is one of paimon"):
        table.copy_to(tmp_path / "x", name="n.plain")
    with pytest.raises(SchemaError, match="the name of a Paimon table determines its folder"):
        paimon.copy_to(tmp_path / "x", name="n.other")


def test_a_file_that_is_no_copy_is_not_taken_for_one(home, tmp_path):
    for kind in ("v2", "plain"):
        table = skerry.connect(home).load_table(f"n.{kind}")
        done = table.copy_to(tmp_path / kind, dry_run=True)
        place = Path(next(file.target for file in done.files if file.kind is FileKind.DATA).removeprefix("file://"))
        place.parent.mkdir(parents=True)
        place.write_bytes(b"something else")
        with pytest.raises(AlreadyExistsError, match="the place of a copy is taken: a file of 14 bytes is there"):
            table.copy_to(tmp_path / kind)
        assert place.read_bytes() == b"something else"


@pytest.mark.parametrize("kind", ["v2", "keyed"])
def test_a_copy_that_has_changed_is_not_replaced(lake, tmp_path, kind):
    table = make(lake, kind)
    other = skerry.connect(tmp_path / "other")
    table.copy_to(catalog=other, name="m.t")
    other.load_table("m.t").append(rows(70, 71))
    expected = content(other.load_table("m.t"))
    table.append(rows(60, 61))
    with pytest.raises(ConflictError, match=r"was changed since it was|has expired here, or is the copy's own"):
        table.copy_to(catalog=other, name="m.t")
    assert content(other.load_table("m.t")) == expected


def test_arguments_of_copies(home, tmp_path):
    table = skerry.connect(home).load_table("n.v2")
    for arguments, message in (
        ({}, "location= is missing"),
        ({"location": ""}, "the location of the copy is empty"),
        ({"location": tmp_path / "c", "catalog": skerry.connect(home)}, "name= is missing"),
        ({"location": tmp_path / "c", "data": "move"}, "data must be one of copy, keep, found 'move'"),
        ({"location": 7}, "location must be a path or URL"),
        ({"location": tmp_path / "c", "from_snapshot": "x"}, "from_snapshot must be a whole number"),
        ({"location": tmp_path / "c", "prefixes": "x"}, "prefixes must be a mapping"),
        ({"location": tmp_path / "c", "prefixes": {"": "x"}}, "prefixes must name folders"),
        ({"location": tmp_path / "c", "options": 3}, "options must be a mapping"),
    ):
        with pytest.raises(SchemaError, match=message):
            table.copy_to(**arguments)
    with pytest.raises(UnsupportedError, match="they cannot stay"):
        skerry.connect(home).load_table("n.plain").copy_to(tmp_path / "c", data="keep")
    assert not list(tmp_path.iterdir())


def test_files_outside_of_the_table_go_where_prefixes_say(lake, tmp_path):
    pq.write_table(rows(0, 10), tmp_path / "raw.parquet")
    table = lake.create_table("n.t", SCHEMA, properties={OUTSIDE_PROPERTY: "true"})
    table.add_files([str(tmp_path / "raw.parquet")])
    with pytest.raises(UnsupportedError, match=r"a file of the table is outside its folder; say where .*prefixes="):
        table.copy_to(tmp_path / "refused")
    assert not (tmp_path / "refused" / "metadata" / "v1.metadata.json").exists()
    table.copy_to(tmp_path / "one", prefixes={str(tmp_path): str(tmp_path / "one" / "more")})
    one = skerry.open_table(tmp_path / "one")
    assert [file.location for file in one.files()] == [f"{tmp_path}/one/more/raw.parquet"]
    assert one.scan().count() == 10
    table.copy_to(tmp_path / "other", prefixes={str(tmp_path): str(tmp_path)})
    other = skerry.open_table(tmp_path / "other")
    assert [file.location for file in other.files()] == [f"{tmp_path}/raw.parquet"]
    assert other.scan().to_arrow().num_rows == 10
    table.set_properties({"write.data.path": f"file://{tmp_path}/far"})
    with pytest.raises(UnsupportedError, match=r"write\.data\.path names a folder outside the table's"):
        table.copy_to(tmp_path / "two", prefixes={str(tmp_path / "raw.parquet"): str(tmp_path / "raw.parquet")})


def test_external_files_of_a_paimon_table(lake, tmp_path):
    make(lake, "v1", "n.t").drop_ref("then")
    table = lake.migrate("n.t", format="paimon") and lake.load_table("n.t")
    table.append(rows(60, 70))
    expected = sorted(table.scan().to_arrow()["id"].to_pylist())
    other = skerry.connect(tmp_path / "other")
    with pytest.raises(UnsupportedError, match="outside its folder"):
        table.copy_to(catalog=other, name="m.t")
    prefixes = {f"file://{tmp_path}/lake/n/t": f"file://{tmp_path}/external"}
    done = table.copy_to(catalog=other, name="m.t", prefixes=prefixes)
    assert not table.copy_to(catalog=other, name="m.t", prefixes=prefixes).new_files
    assert naming(tmp_path / "other", f"{tmp_path}/lake") == []
    assert [file for file in done.files if file.is_rewritten]
    shutil.rmtree(tmp_path / "lake")
    copy = other.load_table("m.t")
    assert ids(copy) == expected
    assert str(copy.statistics()["id"].freshness) == "fresh"
    copy.compact(full=True)
    assert ids(copy) == expected


@pytest.mark.parametrize("kind", ["v1", "v2", "v3"])
def test_metadata_alone(lake, tmp_path, kind):
    table = make(lake, kind)
    done = table.copy_to(tmp_path / "c", name="n.kept", data="keep")
    assert {file.kind for file in done.files} == {
        FileKind.MANIFEST,
        FileKind.MANIFEST_LIST,
        FileKind.METADATA,
        FileKind.STATISTICS,
    }
    kept, before = lake.load_table("n.kept"), files_of(tmp_path / "lake" / "n")
    expected = content(table)
    expected["properties"] = {**expected["properties"], OUTSIDE_PROPERTY: "true", "gc.enabled": "false"}
    assert content(kept) == expected
    kept.delete("id = 8")
    kept.append(rows(60, 63))
    assert ids(kept) == sorted({*ids(table), 60, 61, 62} - {8})
    with pytest.raises(SchemaError, match=r"gc\.enabled"):
        kept.expire_snapshots(keep_last=1)
    with pytest.raises(SchemaError, match=r"gc\.enabled"):
        lake.drop_table("n.kept", purge=True)
    assert files_of(tmp_path / "lake" / "n") == before


@pytest.mark.parametrize("kind", ["v1", "v2", "v3"])
def test_a_relocated_table_is_at_its_new_place_alone(lake, tmp_path, kind):
    table = make(lake, kind)
    expected = content(table)
    planned = table.relocate(tmp_path / "new", dry_run=True)
    assert content(lake.load_table(f"n.{kind}")) == expected
    done = table.relocate(tmp_path / "new")
    assert [file.target for file in planned.files] == [file.target for file in done.files]
    assert table.location == f"file://{tmp_path}/new"
    assert not files_of(tmp_path / "lake" / "n")
    assert done.deleted_files == len(done.files)
    for found in (table, lake.load_table(f"n.{kind}"), skerry.open_table(tmp_path / "new")):
        assert content(found) == expected
    go_on(table)
    assert str(table.statistics()["id"].freshness) == "fresh"
    assert ids(lake.load_table(f"n.{kind}")) == ids(table)


def test_a_relocation_may_leave_files(lake, tmp_path):
    table = make(lake, "v2")
    expected, before = content(table), files_of(tmp_path / "lake" / "n")
    assert table.relocate(tmp_path / "copied", data="copy").deleted_files == 0
    assert files_of(tmp_path / "lake" / "n") == before
    assert content(lake.load_table("n.v2")) == expected
    before = files_of(tmp_path / "copied")
    table.relocate(tmp_path / "kept", data="keep")
    assert files_of(tmp_path / "copied") == before
    expected["properties"] = {**expected["properties"], OUTSIDE_PROPERTY: "true"}
    assert content(lake.load_table("n.v2")) == expected
    with pytest.raises(SchemaError, match="data must be one of move, copy, keep"):
        table.relocate(tmp_path / "x", data="leave")


def test_files_that_stay_are_not_deleted(lake, tmp_path):
    table = make(lake, "v2")
    expected = content(table)
    data = f"{table.location}/data"
    table.relocate(tmp_path / "new", prefixes={data: data})
    assert {path.parts[len(tmp_path.parts) + 3] for path in files_of(tmp_path / "lake" / "n")} == {"data"}
    table.set_properties({OUTSIDE_PROPERTY: "true"})
    assert content(table)["rows"] == expected["rows"]


def test_a_commit_during_a_relocation_is_in_the_relocated_table(lake, tmp_path, monkeypatch):
    table = make(lake, "v2")
    copy_table, rivals = relocating.copy_table, iter(range(200, 203))

    def then_commit(state, request):
        done = copy_table(state, request)
        if (row := next(rivals, None)) is not None:
            lake.load_table("n.v2").append(rows(row, row + 1))
        return done

    monkeypatch.setattr(relocating, "copy_table", then_commit)
    table.relocate(tmp_path / "new")
    assert ids(table, where="id >= 200") == [200, 201, 202]
    assert ids(lake.load_table("n.v2")) == ids(table)
    # and one that loses every race leaves everything as it is
    table.set_properties({"commit.retry.num-retries": "1"})
    rivals = iter(range(300, 303))
    with pytest.raises(ConflictError):
        table.relocate(tmp_path / "newer")
    assert lake.load_table("n.v2").location == f"file://{tmp_path}/new"
    assert ids(lake.load_table("n.v2"), where="id >= 300") == [300, 301]


@pytest.mark.parametrize("kind", ICEBERG)
def test_a_writer_that_began_before_a_relocation_is_refused(lake, tmp_path, monkeypatch, kind):
    """Its files are in the former folder: as files of the relocated table they could not be read."""
    table = make(lake, kind)
    expected, publish = content(table), IcebergTarget.publish
    moves = iter([tmp_path / "new"])

    def after_a_move(target, staged):
        if (place := next(moves, None)) is not None:
            lake.load_table(f"n.{kind}").relocate(place)
        return publish(target, staged)

    monkeypatch.setattr(IcebergTarget, "publish", after_a_move)
    with pytest.raises(ConflictError, match=r"the table was moved to .*/new while a file was written into its former"):
        table.append(rows(300, 310))
    assert content(lake.load_table(f"n.{kind}")) == expected
    assert not files_of(tmp_path / "lake" / "n" / kind), "what was written is removed"
    table.refresh().append(rows(300, 310))
    assert len(ids(table, where="id >= 300")) == 10
    # what is decided again from the newest state is done there
    before, others = ids(table), (lambda: table.delete("id = 300"), lambda: table.set_properties({"owner": "me"}))
    for number, change in enumerate(others):
        moves = iter([tmp_path / f"{number}"])
        change()
        assert table.location == f"file://{tmp_path}/{number}"
        assert ids(lake.load_table(f"n.{kind}")) == [key for key in before if key != 300]
    assert table.properties["owner"] == "me"


@pytest.mark.parametrize("happened", [False, True])
def test_a_relocation_whose_outcome_is_unknown_is_looked_up(lake, tmp_path, monkeypatch, happened):
    table = make(lake, "v2")
    expected, before = content(table), files_of(tmp_path / "lake" / "n")
    replace_metadata = SqlCatalog.replace_metadata

    def unknown(self, *arguments):
        if happened:
            replace_metadata(self, *arguments)
        raise CommitUnknownError("no answer")

    monkeypatch.setattr(SqlCatalog, "replace_metadata", unknown)
    if happened:
        assert table.relocate(tmp_path / "new").deleted_files
        assert not files_of(tmp_path / "lake" / "n")
    else:
        with pytest.raises(CommitUnknownError):
            table.relocate(tmp_path / "new")
        assert files_of(tmp_path / "lake" / "n") == before
    assert content(lake.load_table("n.v2")) == expected


def test_what_cannot_be_relocated(lake, tmp_path):
    table = make(lake, "v2")
    with pytest.raises(UnsupportedError, match="cannot exchange the metadata file"):
        skerry.open_table(table.location).relocate(tmp_path / "new")
    with pytest.raises(UnsupportedError, match="a Paimon table is its folder"):
        make(lake, "plain").relocate(tmp_path / "new")
    table.set_properties({"gc.enabled": "false"})
    with pytest.raises(SchemaError, match=r"gc\.enabled"):
        table.relocate(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_table_that_was_opened_by_its_folder_is_copied(home, tmp_path):
    """As one does with another writer's table, or with one whose folder was copied before."""
    for kind in ("v2", "v3", "keyed"):
        table = skerry.connect(home).load_table(f"n.{kind}")
        moved = tmp_path / "moved" / kind
        shutil.copytree(table.location.removeprefix("file://"), moved)
        other = skerry.connect(tmp_path / "other")
        skerry.open_table(moved).copy_to(catalog=other, name=f"m.{kind}")
        assert content(other.load_table(f"m.{kind}")) == content(table)
        assert naming(tmp_path / "other", f"{home}/") == []


def test_metadata_is_registered_with_other_prefixes(home, tmp_path):
    """The files were copied by another program: only metadata is written, in the new folder."""
    before = files_of(home)
    catalog = skerry.connect(tmp_path / "lake")
    for kind in ICEBERG:
        table = skerry.connect(home).load_table(f"n.{kind}")
        folder = tmp_path / "far" / kind
        shutil.copytree(table.location.removeprefix("file://"), folder)
        copied = files_of(folder)
        metadata = f"{folder}/metadata/{Path(table.metadata_location).name}"
        with pytest.raises(SchemaError, match="is in none of the prefixes"):
            catalog.register_table(f"n.{kind}", metadata, prefixes={"/nowhere": str(folder)})
        found = catalog.register_table(f"n.{kind}", metadata, prefixes={table.location: f"file://{folder}"})
        assert found.location == f"file://{folder}"
        assert content(found) == content(table)
        after = files_of(folder)
        assert {path: after[path] for path in copied} == copied
        found.append(rows(70, 72))
        found.remove_orphans(older_than_days=0)
        assert found.scan().count() == table.scan().count() + 2
        with pytest.raises(AlreadyExistsError):
            catalog.register_table(f"n.{kind}", metadata, prefixes={table.location: f"file://{folder}"})
    assert files_of(home) == before


def test_a_registered_table_is_replaced_only_at_the_state_that_is_named(home, lake, tmp_path):
    table = skerry.connect(home).load_table("n.v2")
    done = table.copy_to(tmp_path / "c")
    copy = lake.register_table("n.t", done.metadata_location)
    first = copy.metadata_location
    copy.append(rows(70, 71))
    with pytest.raises(ConflictError):
        lake.register_table("n.t", done.metadata_location, replaces=first)
    back = lake.register_table("n.t", done.metadata_location, replaces=copy.metadata_location)
    assert back.scan().count() == 45
    with pytest.raises(AlreadyExistsError):
        lake.register_table("n.t", done.metadata_location)
    with pytest.raises(NotFoundError):
        lake.register_table("n.t", f"{done.location}/metadata/no.metadata.json", replaces=back.metadata_location)


def test_a_damaged_table_is_not_copied(lake, tmp_path):
    table = make(lake, "v2")
    manifest = next((tmp_path / "lake").glob("n/v2/metadata/*-m0.avro"))
    data = manifest.read_bytes()
    manifest.write_bytes(data[:-40])
    with pytest.raises(FormatError):
        table.copy_to(tmp_path / "c", name="n.copy")
    manifest.unlink()
    with pytest.raises(NotFoundError):
        table.copy_to(tmp_path / "c", name="n.copy")
    manifest.write_bytes(data)
    next((tmp_path / "lake").glob("n/v2/data/**/*.parquet")).unlink()
    with pytest.raises(NotFoundError):
        table.copy_to(tmp_path / "c", name="n.copy")
    assert lake.list_tables() == ["n.v2"]
    assert not list(tmp_path.glob("c/metadata/*.metadata.json"))


def test_pyiceberg_reads_copies(home, tmp_path):
    for kind in ("v1", "v2"):
        table = skerry.connect(home).load_table(f"n.{kind}")
        done = table.copy_to(tmp_path / kind)
        found = StaticTable.from_metadata(done.metadata_location)
        assert sorted(found.scan().to_arrow()["id"].to_pylist()) == ids(table)
        for snapshot in table.snapshots():
            old = found.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
            assert sorted(old["id"].to_pylist()) == ids(table, snapshot=snapshot.snapshot_id)
        assert found.location() == done.location


@pytest.mark.spark
def test_spark_reads_and_writes_copies(iceberg_spark, home, tmp_path):
    catalog = skerry.connect(tmp_path / "lake")
    tables = skerry.connect(home)
    for kind in ("v1", "v2", "v3"):
        tables.load_table(f"n.{kind}").copy_to(catalog=catalog, name=f"n.{kind}")
    spark = iceberg_spark(tmp_path / "lake")
    for kind in ("v1", "v2", "v3"):
        table = tables.load_table(f"n.{kind}")
        assert sorted(row[0] for row in spark.sql(f"select id from skerry.n.{kind}").collect()) == ids(table)
        then = spark.sql(f"select id from skerry.n.{kind} version as of 'then'").collect()
        assert sorted(row[0] for row in then) == ids(table, ref="then")
    spark.sql("delete from skerry.n.v3 where id = 49")
    assert ids(catalog.load_table("n.v3")) == ids(tables.load_table("n.v3"))[:-1]


def equality_deletes(table):
    """Delete rows by an equality delete file, as Flink does."""
    table.upsert(rows(33, 36), on="id", blind=True)


@pytest.mark.parametrize("seed", range(examples(2)))
def test_random_histories(tmp_path, seed):
    """Copies at random moments of tables of every kind are what the table was; earlier ones do not change."""
    draw = random.Random(seed)
    kind = draw.choice(list(KINDS))
    lake, other = skerry.connect(tmp_path / "lake"), skerry.connect(tmp_path / "other")
    table = make(lake, kind)
    next_id, kept = 100, []
    for step in range(12):
        action = draw.choice(
            ["append", "append", "delete", "upsert", "compact", "branch", "expire", "copy", "copy", "move"]
        )
        if action == "append":
            table.append(rows(next_id, next_id + 5))
            next_id += 5
        elif action == "delete":
            table.delete(f"id = {draw.choice(ids(table))}")
        elif action == "upsert":
            (equality_deletes if kind in ("v2", "v3") and draw.random() < 0.5 else _upsert)(table)
        elif action == "compact":
            table.compact(full=draw.random() < 0.3)
        elif action == "branch":
            table.create_tag(f"t{step}")
        elif action == "expire":
            table.expire_snapshots(keep_last=4, older_than=table.snapshots()[-1].timestamp)
        elif action == "move" and kind in ICEBERG:
            table.relocate(tmp_path / f"moved{step}")
            kept.append((table.copy_to(tmp_path / f"after{step}").location, content(table)))
        else:
            kept.append((table.copy_to(tmp_path / f"copy{step}").location, content(table)))
            _replicate(table, other)
    _replicate(table, other)
    for location, expected in kept:
        assert content(skerry.open_table(location)) == expected


def _upsert(table):
    table.upsert(rows(30, 33), on="id")


def _replicate(table, other):
    """A replica that is brought up to date again and again; where its past is forgotten, it is made again."""
    try:
        table.copy_to(catalog=other, name="m.t")
    except ConflictError:
        other.drop_table("m.t", purge=True)
        table.copy_to(catalog=other, name="m.t")
    found, expected = content(other.load_table("m.t")), content(table)
    if table.format == "paimon":  # whose copies do not forget what expires in the original
        found["snapshots"] = [one for one in found["snapshots"] if one in expected["snapshots"]]
    assert found == expected


@pytest.mark.service
@pytest.mark.parametrize("kind", ["v2", "v3", "keyed"])
def test_from_local_files_to_s3_and_back(home, tmp_path, s3_server, kind):
    table = skerry.connect(home).load_table(f"n.{kind}")
    bucket = s3_server.new_bucket()
    target = f"s3://{bucket}/copies/{kind}"
    done = table.copy_to(target, options=s3_server.options)
    assert not table.copy_to(target, options=s3_server.options).new_files
    found = skerry.open_table(target, **s3_server.options)
    assert content(found) == content(table)
    assert {file.location.split("/")[2] for file in found.files()} == {bucket}
    back = found.copy_to(tmp_path / "back", options={})
    assert len(back.files) == len(done.files)
    assert content(skerry.open_table(tmp_path / "back")) == content(table)
    assert naming(tmp_path / "back", "s3://") == []
    assert naming(tmp_path / "back", f"{home}/") == []


@pytest.mark.service
def test_a_table_is_relocated_to_s3(tmp_path, s3_server):
    bucket = s3_server.new_bucket()
    catalog = skerry.connect(f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/lake", **s3_server.options)
    table = make(catalog, "v2")
    expected = content(table)
    table.relocate(f"s3://{bucket}/t")
    assert content(catalog.load_table("n.v2")) == expected
    assert not files_of(tmp_path / "lake")
    table.append(rows(80, 81))
    assert catalog.load_table("n.v2").scan().count() == 46


def test_the_vectors_of_a_copy_name_its_files(home, tmp_path):
    from skerry.puffin import PuffinReader

    done = skerry.connect(home).load_table("n.v3").copy_to(tmp_path / "c")
    vectors = [file for file in done.files if file.target.endswith(".puffin")]
    assert vectors
    for file in vectors:
        blobs = PuffinReader(file.target, storage=Storage()).blobs
        assert all(blob.properties["referenced-data-file"].startswith(f"file://{tmp_path}/c/") for blob in blobs)


def test_earlier_metadata_files_are_copied(home, tmp_path):
    done = skerry.connect(home).load_table("n.v2").copy_to(tmp_path / "c")
    metadata = json.loads(Storage().read(done.metadata_location))
    assert len(metadata["metadata-log"]) > 3
    for entry in metadata["metadata-log"]:
        assert json.loads(Storage().read(entry["metadata-file"]))["location"] == f"file://{tmp_path}/c"
