"""Files outside of a table's folder: read where the reader allows it, and never touched."""

import json
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skerry
from skerry.errors import SchemaError, SkerryError, UnsupportedError
from skerry.storage import Storage

OUTSIDE = "skerry.read.files-outside-location"
SCHEMA = pa.schema([("id", pa.int64())])


def rows(*ids):
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def elsewhere(tmp_path):
    """A table of a writer who does not mind where files lie, and does not say so in the table."""
    folder = tmp_path / "raw"
    folder.mkdir()
    pq.write_table(rows(1, 2), folder / "a.parquet")
    catalog = skerry.connect(tmp_path / "lake")
    table = catalog.create_table("d.t", SCHEMA, properties={OUTSIDE: "true"})
    table.append(rows(3))
    table.add_files([str(folder / "a.parquet")])
    table.set_properties({OUTSIDE: "false"})
    return folder


def test_the_reader_allows_a_folder(tmp_path, elsewhere):
    with pytest.raises(SkerryError, match=r"outside its folder.* allowed_locations=\[…\]"):
        skerry.connect(tmp_path / "lake").load_table("d.t").scan().to_arrow()
    with pytest.raises(SkerryError, match="outside its folder"):
        skerry.connect(tmp_path / "lake", allowed_locations=[tmp_path / "ra"]).load_table("d.t").scan().to_arrow()
    catalog = skerry.connect(tmp_path / "lake", allowed_locations=[elsewhere])
    table = catalog.load_table("d.t")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert catalog.properties["skerry.allowed-locations"] == json.dumps([str(elsewhere)])
    before = {path: path.stat() for path in elsewhere.iterdir()}
    pq.write_table(rows(4), elsewhere / "b.parquet")
    with pytest.raises(UnsupportedError, match="is outside the table's folder"):
        table.add_files([str(elsewhere / "b.parquet")])
    (elsewhere / "b.parquet").unlink()
    table.delete("id = 1")
    table.compact(full=True)
    table.expire_snapshots(keep_last=1)
    table.remove_orphans(older_than_days=1)
    catalog.drop_table("d.t", purge=True)
    assert {path: path.stat() for path in elsewhere.iterdir()} == before


def test_a_table_cannot_allow_itself_what_a_reader_may(tmp_path, elsewhere):
    skerry.connect(tmp_path / "lake").load_table("d.t").set_properties(
        {"skerry.allowed-locations": json.dumps([str(elsewhere)])}
    )
    with pytest.raises(SkerryError, match="outside its folder"):
        skerry.connect(tmp_path / "lake").load_table("d.t").scan().to_arrow()


def test_external_files_of_paimon_tables(tmp_path):
    lake, raw = tmp_path / "lake", tmp_path / "raw"
    properties = {"write-only": "true"}
    table = skerry.connect(lake).create_table("d.t", SCHEMA, format="paimon", properties=properties)
    table.append(rows(1))
    from skerry.paimon.planning.file_locations import check_location

    for allowed in ([], [str(raw)]):
        state = skerry.connect(lake, allowed_locations=allowed).load_table("d.t").handle.refresh()
        if allowed:
            check_location(state, str(raw / "bucket-0" / "data-1.parquet"))
        else:
            with pytest.raises(SkerryError, match="outside its folder"):
                check_location(state, str(raw / "bucket-0" / "data-1.parquet"))


def test_what_is_no_list_of_locations_is_refused(tmp_path):
    with pytest.raises(SchemaError, match="allowed_locations must be a list of paths, found '/raw'"):
        skerry.connect(tmp_path, allowed_locations="/raw")
    skerry.connect(tmp_path).create_table("d.t", SCHEMA)
    for text in ("/raw", "[1]", '[""]', "{", "[" * 100_000, 7):
        with pytest.raises(SchemaError, match="expected a JSON list of locations"):
            skerry.connect(tmp_path, **{"skerry.allowed-locations": text}).load_table("d.t")


def test_allowed_locations_travel_with_a_storage():
    storage = Storage({"s3.region": "x"}).allowing(["/raw"])
    assert pickle.loads(pickle.dumps(storage)).allowed_locations == ("/raw",)
    assert storage.allowing([]).metrics is storage.metrics


def test_a_table_cannot_choose_the_storage_of_its_readers(tmp_path, elsewhere):
    catalog = skerry.connect(tmp_path / "lake", **{"s3.region": "ours"})
    table = catalog.create_table("d.u", SCHEMA)
    table.append(rows(1))
    path = table.metadata_location.removeprefix("file://")
    with open(path) as file:
        metadata = json.load(file)
    data = metadata["location"] + "/data"
    metadata["properties"] |= {
        "skerry.moved-from": data,
        "skerry.moved-to": str(elsewhere),
        "s3.endpoint": "http://127.0.0.1:1",
        "s3.region": "theirs",
    }
    with open(path, "w") as file:
        json.dump(metadata, file)
    found = catalog.load_table("d.u")
    assert found.scan().to_arrow()["id"].to_pylist() == [1]
    assert found.handle.state.storage.options == {"s3.region": "ours"}
