"""`skerry.open_table`: tables by their location, without a catalog, to read them."""

from __future__ import annotations

import json
import pickle
import shutil
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import skerry
from skerry import amudai
from skerry.avro import rewrite_records
from skerry.errors import FormatError, NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.storage import Storage
from skerry.table.files.locations import OUTSIDE_PROPERTY

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "name": [f"n{number % 7}" for number in range(100)]})
FORMATS = ("iceberg", "paimon")


def make(folder, table_format="iceberg", **options):
    return skerry.connect(folder).create_table("ns.t", ROWS, format=table_format, **options)


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("file_format", ["parquet", "amudai"])
def test_a_folder_opens_with_rows_history_and_statistics(tmp_path, table_format, file_format):
    table = make(tmp_path, table_format, file_format=file_format)
    table.append(ROWS)
    table.delete("id < 10")
    opened = skerry.open_table(table.location)
    assert (opened.format, opened.name, opened.version) == (table_format, "t", table.version)
    assert opened.scan(where="name = 'n3'").to_arrow().sort_by("id") == table.scan(
        where="name = 'n3'"
    ).to_arrow().sort_by("id")
    assert [snapshot.snapshot_id for snapshot in opened.snapshots()] == [one.snapshot_id for one in table.snapshots()]
    counts = {name: found.ndv for name, found in opened.statistics().items()}
    assert counts == {"id": 90, "name": 7}
    assert all(found.freshness.state is skerry.FreshnessState.FRESH for found in opened.statistics().values())
    assert opened.inspect.files().num_rows == table.inspect.files().num_rows


@pytest.mark.parametrize("table_format", FORMATS)
def test_what_others_commit_is_seen_after_a_refresh(tmp_path, table_format):
    table = make(tmp_path, table_format)
    opened = skerry.open_table(table.location)
    table.append(ROWS)
    assert opened.scan().count() == 0
    assert opened.refresh().scan().count() == 100


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_copied_folder_is_read_where_it_is(tmp_path, table_format):
    table = make(tmp_path / "lake", table_format)
    table.append(ROWS)
    table.delete("id = 5")
    copy = tmp_path / "elsewhere" / "t"
    shutil.copytree(table.location.removeprefix("file://"), copy)
    table.append(ROWS)  # the original goes on
    assert skerry.open_table(copy).scan().count() == 99
    shutil.rmtree(tmp_path / "lake")
    opened = skerry.open_table(copy)
    assert opened.scan().to_arrow().num_rows == 99
    assert opened.statistics()["id"].ndv == 99


def test_a_metadata_file_stays_the_state_that_it_is(tmp_path):
    table = make(tmp_path)
    table.append(ROWS)
    first = table.metadata_location
    table.append(ROWS)
    opened = skerry.open_table(first)
    assert opened.refresh().scan().count() == 100
    assert opened.metadata_location == first


def test_a_metadata_file_outside_of_its_table(tmp_path):
    table = make(tmp_path / "lake")
    table.append(ROWS)
    shutil.copy(table.metadata_location.removeprefix("file://"), tmp_path / "copy.metadata.json")
    assert skerry.open_table(tmp_path / "copy.metadata.json").scan().count() == 100


def test_links_relative_paths_and_slashes_lead_to_the_same_table(tmp_path, monkeypatch):
    table = make(tmp_path / "lake")
    table.append(ROWS)
    folder = table.location.removeprefix("file://")
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(tmp_path / "lake")
    monkeypatch.setenv("HOME", str(tmp_path / "lake"))
    for spelled in (
        tmp_path / "link",
        "ns/t",
        "./ns/t/",
        "../lake/ns/t",
        "~/ns/t",
        f"file:{folder}",
        f"file://{folder}/",
    ):
        assert skerry.open_table(spelled).scan().count() == 100, spelled


CHANGES = {
    "append": lambda table: table.append(ROWS),
    "overwrite": lambda table: table.overwrite(ROWS),
    "delete": lambda table: table.delete("id = 1"),
    "upsert": lambda table: table.upsert(ROWS, on=["id"]),
    "merge": lambda table: table.merge(ROWS, on=["id"], when_matched=skerry.Update()),
    "analyze": lambda table: table.analyze(full=True),
    "compact": lambda table: table.compact(full=True),
    "expire": lambda table: table.expire_snapshots(older_than=timedelta(0), keep_last=1),
    "orphans": lambda table: table.remove_orphans(),
    "properties": lambda table: table.set_properties({"a": "b"}),
    "branch": lambda table: table.create_branch("b"),
    "tag": lambda table: table.create_tag("b"),
    "columns": lambda table: table.update_schema().add_column("x", pa.int32()).commit(),
}


@pytest.mark.parametrize("table_format", FORMATS)
def test_nothing_can_be_changed(tmp_path, table_format):
    table = make(tmp_path, table_format)
    table.append(ROWS)
    table.append(ROWS)
    opened = skerry.open_table(table.location)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for name, change in CHANGES.items():
        with pytest.raises(UnsupportedError, match="opened by its location, to be read") as caught:
            change(opened)
        assert not getattr(caught.value, "__notes__", None), name
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before, name
    with pytest.raises(UnsupportedError, match="opened without a catalog"):
        _ = opened.catalog


def test_copies_in_other_processes_cannot_write_either(tmp_path):
    storage = pickle.loads(pickle.dumps(skerry.open_table(make(tmp_path).location).storage))
    with pytest.raises(UnsupportedError, match="to be read"):
        storage.write(str(tmp_path / "x"), b"")
    with pytest.raises(UnsupportedError, match="to be read"):
        storage.delete([str(tmp_path / "catalog.db")])
    assert "to be read" in repr(storage)


def as_file_system_table(tmp_path):
    """A table whose metadata files are named as Iceberg's Hadoop tables name them: v9, v10, v11, each 100 rows more."""
    table, storage = make(tmp_path), Storage()
    states = [table.metadata_location]
    for _ in range(2):
        table.append(ROWS)
        states.append(table.metadata_location)
    for number, state in enumerate(states, 9):
        storage.write(f"{table.location}/metadata/v{number}.metadata.json", storage.read(state))
    storage.delete(states)
    return table.location, storage


def test_versions_of_a_file_system_table_count_as_numbers(tmp_path):
    location, storage = as_file_system_table(tmp_path)
    assert skerry.open_table(location).scan().count() == 200
    storage.write(f"{location}/metadata/version-hint.text", b"10\n")  # written after the file, so that it may be behind
    assert skerry.open_table(location).scan().count() == 200
    storage.write(f"{location}/metadata/version-hint.text", b"v10", overwrite=True)
    assert skerry.open_table(location).scan().count() == 100
    storage.write(f"{location}/metadata/version-hint.text", b"\xff\xfe?", overwrite=True)
    assert skerry.open_table(location).scan().count() == 200


def test_a_hint_that_leads_nowhere_is_ignored(tmp_path):
    table = make(tmp_path)
    table.append(ROWS)
    for hint in (b"", b"77", b"\xff", b"../../x"):
        Storage().write(f"{table.location}/metadata/version-hint.text", hint, overwrite=True)
        assert skerry.open_table(table.location).metadata_location == table.metadata_location


def test_of_two_files_that_may_be_the_newest_none_is_chosen(tmp_path):
    table = make(tmp_path)
    table.append(ROWS)
    storage, newest = Storage(), table.metadata_location
    beginning, end = newest[: -len("0.metadata.json")], ".metadata.json"
    rivals = [beginning + digit + end for digit in "01234" if beginning + digit + end != newest]
    storage.write(rivals[0], storage.read(newest))
    with pytest.raises(FormatError, match="may each be the newest metadata file: only the table's catalog knows which"):
        skerry.open_table(table.location)
    for rival in rivals[1:4]:
        storage.write(rival, storage.read(newest))
    with pytest.raises(FormatError, match=" and 2 others may each be the newest metadata file"):
        skerry.open_table(table.location)
    assert skerry.open_table(newest).scan().count() == 100


@pytest.mark.parametrize(
    ("location", "error", "message"),
    [
        ("nothing", NotFoundError, "no table is here: expected a folder with metadata/….metadata.json"),
        ("nothing/metadata/v1.metadata.json", NotFoundError, "the table's metadata file is missing"),
        ("", SchemaError, "location must be a folder or a metadata file, found ''"),
        (7, SchemaError, "location must be a folder or a metadata file, found 7"),
        (None, SchemaError, "location must be a folder or a metadata file, found None"),
        (b"t", SchemaError, "location must be a folder or a metadata file, found b't'"),
        ("ftp://host/t", UnsupportedError, "ftp"),
        ("s3:///t", SkerryError, "names no bucket"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, monkeypatch, location, error, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        skerry.open_table(location)


def test_a_file_outside_of_the_table_must_be_allowed(tmp_path):
    pq.write_table(ROWS, tmp_path / "raw.parquet")
    table = make(tmp_path / "lake", properties={OUTSIDE_PROPERTY: "true"})
    table.add_files([str(tmp_path / "raw.parquet")])
    table.set_properties({OUTSIDE_PROPERTY: "false"})
    with pytest.raises(SkerryError, match=r"outside its folder; .* open it with allowed_locations="):
        skerry.open_table(table.location).scan().to_arrow()
    assert skerry.open_table(table.location, allowed_locations=[str(tmp_path)]).scan().to_arrow().num_rows == 100
    with pytest.raises(SchemaError, match="allowed_locations must be a list of paths"):
        skerry.open_table(table.location, allowed_locations=str(tmp_path))


def make_relative(table, prefix="", root=None):
    """Name the files of a table relative to its folder, as version 4 of Iceberg is going to, or to another one."""
    storage, own = Storage(), root is None
    root = root or f"{table.location}/"

    def relative(value):
        if isinstance(value, dict):
            for key, item in value.items():
                if key != "location" or not own:
                    value[key] = relative(item)
        elif isinstance(value, list):
            return [relative(item) for item in value]
        return prefix + value[len(root) :] if isinstance(value, str) and value.startswith(root) else value

    for file in list(storage.list(table.location)):
        if file.location.endswith(".avro"):
            data = rewrite_records(storage.read(file.location), relative)
        elif file.location.endswith(".json"):
            data = json.dumps(relative(json.loads(storage.read(file.location)))).encode()
        else:
            continue
        storage.write(file.location, data, overwrite=True)


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_relative_locations_are_those_of_the_table_s_folder(tmp_path, monkeypatch, version, moved):
    properties = {"write.delete.mode": "merge-on-read"} if version == 3 else {}
    table = make(tmp_path / "lake", format_version=version, properties=properties)
    table.append(ROWS)
    table.delete("id < 5")
    table.create_tag("then")
    table.append(ROWS)
    expected, then = table.scan().to_arrow().sort_by("id"), table.scan(ref="then").count()
    make_relative(table)
    folder = tmp_path / "lake" / "ns" / "t"
    if moved:
        folder = folder.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    opened = skerry.open_table(folder)
    assert opened.scan().to_arrow().sort_by("id") == expected
    assert opened.scan(ref="then").to_arrow().num_rows == then == 95
    assert len(opened.files()) == opened.inspect.files().filter(pc.field("content") == 0).num_rows
    assert {finding.check for finding in opened.health()} > {"orphans"}
    # a copy has absolute locations, and is any engine's
    done = opened.copy_to(tmp_path / "copy")
    assert skerry.open_table(tmp_path / "copy").scan().to_arrow().sort_by("id") == expected
    if version < 3:
        found = StaticTable.from_metadata(done.metadata_location).scan().to_arrow()
        assert sorted(found["id"].to_pylist()) == sorted(expected["id"].to_pylist())
    with pytest.raises(UnsupportedError, match="data files with relative locations cannot stay"):
        opened.copy_to(tmp_path / "kept", data="keep")


def test_relative_locations_that_may_mean_another_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = make(tmp_path / "lake")
    table.append(ROWS)
    make_relative(table, "./")
    with pytest.raises(FormatError, match=r"a relative location must not have segments '\.' or '\.\.'"):
        skerry.open_table(table.location).scan().to_arrow()
    deleted = make(tmp_path / "other", format_version=2, properties={"write.delete.mode": "merge-on-read"})
    deleted.append(ROWS)
    deleted.delete("id = 1")
    make_relative(deleted)
    with pytest.raises(UnsupportedError, match="which are absolute before version 4"):
        skerry.open_table(deleted.location).scan().to_arrow()
    with pytest.raises(SkerryError):  # the catalog's table is not read from the working directory
        skerry.connect(tmp_path / "other").load_table("ns.t").scan().to_arrow()


def test_a_table_whose_own_location_is_relative(tmp_path, monkeypatch):
    """As of a program that was given a relative warehouse: the names mean files of the table's folder."""
    table = make(tmp_path / "lake", format_version=2, properties={"write.delete.mode": "merge-on-read"})
    table.append(ROWS)
    table.append(ROWS)
    location = table.location
    make_relative(table, root=f"file://{tmp_path}/")
    for folder in (tmp_path, tmp_path.parent):
        monkeypatch.chdir(folder)
        assert skerry.open_table(location).scan().to_arrow().num_rows == 200
    (tmp_path / "lake").rename(tmp_path / "moved")
    opened = skerry.open_table(tmp_path / "moved" / "ns" / "t")
    assert opened.scan().to_arrow().num_rows == 200
    opened.copy_to(tmp_path / "copy")
    assert skerry.open_table(tmp_path / "copy").scan().to_arrow().num_rows == 200


# Files that are in no table -------------------------------------------------------------------------------------------

VALUES = pa.table(
    {
        "id": pa.array([5, 1, None, 9], pa.int32()),
        "ms": pa.array([1_500, -1, None, 0], pa.timestamp("ms")),
        "ns": pa.array([100, 200, 300, None], pa.timestamp("ns", "UTC")),
        "name": ["b", "a", None, "ü"],
        "price": pa.array([None, 1, 2, 3], pa.decimal128(9, 2)),
        "nan": [1.5, float("nan"), None, -0.0],
        "items": [[1, 2], [], None, [None]],
        "point": [{"x": 1}, None, {"x": 2}, {"x": None}],
    }
)


def a_parquet_file(path, rows, **options):
    pq.write_table(rows, path, **options)


def a_shard(path, rows):
    amudai.write_table(rows, path)


@pytest.mark.parametrize("write", [a_parquet_file, a_shard])
def test_a_file_is_a_table_of_its_rows(tmp_path, write):
    path = tmp_path / "values.data"
    write(path, VALUES)
    table = skerry.open_table(path)
    assert (table.name, table.format) == ("values.data", "iceberg")
    assert str(table.scan().to_arrow().to_pylist()) == str(VALUES.to_pylist())
    for where, found in [
        ("id > 1", [0, 3]),
        ("ms < timestamp '1970-01-01 00:00:01'", [1, 3]),
        ("ms = timestamp '1970-01-01 00:00:01.5'", [0]),
        ("name >= 'b'", [0, 3]),
        ("price IS NULL", [0]),
        ("nan = 0", [3]),
        ("point.x = 2", [2]),
        ("id > 9", []),
    ]:
        expected = VALUES.take(pa.array(found, pa.int64()))
        assert str(table.scan(where=where).to_arrow().to_pylist()) == str(expected.to_pylist()), where
    assert table.refresh().scan().count() == 4
    assert table.statistics()["id"].freshness.state is skerry.FreshnessState.ABSENT
    for change in (lambda: table.append(VALUES), lambda: table.delete("id = 1"), table.analyze):
        with pytest.raises(UnsupportedError, match="a file was opened as a table, to be read; it cannot be changed"):
            change()
    assert list(tmp_path.iterdir()) == [path]


def test_a_parquet_file_is_dropped_by_its_bounds(tmp_path):
    a_parquet_file(tmp_path / "f.parquet", VALUES)
    table = skerry.open_table(tmp_path / "f.parquet")
    for where, files in [("ms > timestamp '1970-01-01 00:00:01.5'", 0), ("ms >= timestamp '1970-01-01 00:00:01.5'", 1)]:
        assert f"to read                        {files} files" in str(table.scan(where=where).explain())
    found = table.statistics()["ms"]
    assert (found.min, found.max, found.null_count) == (pc.min(VALUES["ms"]).as_py(), pc.max(VALUES["ms"]).as_py(), 1)


@pytest.mark.parametrize("file_format", ["parquet", "amudai"])
def test_a_data_file_keeps_its_field_ids(tmp_path, file_format):
    table = make(tmp_path, file_format=file_format)
    with table.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("id")
        change.add_column("more", pa.int64())
    table.append(pa.table({"name": ["a"], "more": [7]}))
    [path] = table.inspect.files()["file_path"].to_pylist()
    opened = skerry.open_table(path)
    assert opened.scan(where="more = 7").to_arrow().to_pylist() == [{"name": "a", "more": 7}]
    assert [column.metadata for column in opened.schema] == [column.metadata for column in table.schema]


def test_files_without_rows(tmp_path):
    a_parquet_file(tmp_path / "f.parquet", VALUES.slice(0, 0))
    a_shard(tmp_path / "f.shard", VALUES.slice(0, 0))
    for name in ("f.parquet", "f.shard"):
        assert skerry.open_table(tmp_path / name).scan(where="id = 1").to_arrow().num_rows == 0


def test_files_that_are_no_tables(tmp_path):
    (tmp_path / "notes.txt").write_text("PAR2, not Parquet")
    with pytest.raises(NotFoundError, match="no table is here"):
        skerry.open_table(tmp_path / "notes.txt")
    a_parquet_file(tmp_path / "f.parquet", VALUES)
    data = (tmp_path / "f.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(data[:-9])
    with pytest.raises(FormatError):
        skerry.open_table(tmp_path / "cut.parquet")
    a_parquet_file(tmp_path / "u.parquet", pa.table({"u": pa.array([1], pa.uint64())}))
    with pytest.raises(SchemaError, match=r"column 'u'.*do not fit any Iceberg integer"):
        skerry.open_table(tmp_path / "u.parquet")
