"""PyIceberg on skerry's storage: its FileIO protocol, and whole tables through its catalogs."""

from __future__ import annotations

import gzip
import pickle
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.io import InputStream, OutputStream, load_file_io
from pyiceberg.table import Table

import skerry
from skerry.errors import FormatError
from skerry.iceberg.catalogs.pyiceberg_files import FILE_IO, SkerryFileIO
from skerry.storage import Counts

ROWS = pa.table({"k": pa.array(range(1000), pa.int64()), "s": [f"v{i % 7}" for i in range(1000)]})


@pytest.fixture(params=["local", "file url", "memory", pytest.param("s3", marks=pytest.mark.service)])
def io_and_base(request: pytest.FixtureRequest) -> tuple[SkerryFileIO, str]:
    match request.param:
        case "local":
            return SkerryFileIO(), str(request.getfixturevalue("tmp_path") / "a lake %20#ü")
        case "file url":
            return SkerryFileIO(), f"file://{request.getfixturevalue('tmp_path')}/lake"
        case "memory":
            return SkerryFileIO(), f"memory://{uuid.uuid4().hex}/lake"
        case _:
            server = request.getfixturevalue("s3_server")
            return SkerryFileIO(server.options), f"s3://{server.new_bucket()}/lake"


def test_files_behave_as_pyiceberg_expects(io_and_base):
    io, base = io_and_base
    location = f"{base}/metadata/v1.json"
    output = io.new_output(location)
    assert output.location == location
    assert not output.exists()
    with output.create() as stream:
        assert isinstance(stream, OutputStream)
        assert stream.write(b"hello ") == 6
        assert stream.write(b"world") == 5
        assert stream.tell() == 11
        assert not output.exists()
    assert output.exists()
    assert len(output) == 11
    source = output.to_input_file()
    assert source.location == location
    assert source.exists()
    assert len(source) == 11
    for seekable in (True, False):
        with source.open(seekable=seekable) as stream:
            assert isinstance(stream, InputStream)
            assert stream.read() == b"hello world"
    with io.new_input(location).open() as stream:
        assert stream.seek(6) == 6
        assert stream.read(3) == b"wor"
        assert stream.tell() == 9
        assert stream.seek(-2, 2) == 9
        assert stream.read() == b"ld"


def test_an_existing_file_is_kept_unless_overwriting_is_asked_for(io_and_base):
    io, base = io_and_base
    output = io.new_output(f"{base}/x")
    with output.create() as stream:
        stream.write(b"first")
    with pytest.raises(FileExistsError) as caught:
        output.create(overwrite=False)
    assert caught.value.filename == f"{base}/x"
    with output.create(overwrite=True) as stream:
        stream.write(b"second")
    assert output.to_input_file().open().read() == b"second"


def test_a_failed_write_leaves_nothing(io_and_base):
    io, base = io_and_base
    with pytest.raises(KeyError), io.new_output(f"{base}/x").create() as stream:  # noqa: PT012
        stream.write(b"half")
        raise KeyError
    assert not io.new_input(f"{base}/x").exists()


def test_missing_files_raise_file_not_found(io_and_base):
    io, base = io_and_base
    missing = io.new_input(f"{base}/missing")
    assert not missing.exists()
    for action in (missing.open, missing.__len__, lambda: io.delete(f"{base}/missing"), lambda: io.delete(missing)):
        with pytest.raises(FileNotFoundError) as caught:
            action()
        assert caught.value.filename == f"{base}/missing"


def test_delete_takes_locations_and_files(io_and_base):
    io, base = io_and_base
    for name in "abc":
        io.new_output(f"{base}/{name}").create().close()
    io.delete(f"{base}/a")
    io.delete(io.new_input(f"{base}/b"))
    io.delete(io.new_output(f"{base}/c"))
    assert not list(io.storage.list(base))


def test_what_the_store_forbids_is_a_permission_error(tmp_path, monkeypatch):
    def forbid(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.stat", forbid)
    with pytest.raises(PermissionError) as caught:
        len(SkerryFileIO().new_input(str(tmp_path / "x")))
    assert caught.value.filename == str(tmp_path / "x")


def test_it_is_found_by_its_name_and_survives_pickling():
    io = load_file_io({**FILE_IO, "s3.region": "eu-west-1", "uri": "postgresql://me:pw@host/db"}, "s3://bucket/t")
    assert isinstance(io, SkerryFileIO)
    again = pickle.loads(pickle.dumps(io))
    assert again.properties == io.properties
    assert again.storage.options == {"s3.region": "eu-west-1"}


def test_a_metadata_file_is_read_by_one_request(io_and_base):
    io, base = io_and_base
    with io.new_output(f"{base}/v1.json").create() as stream:
        stream.write(b"{}" * 5000)
    before = io.storage.metrics.counts()
    with io.new_input(f"{base}/v1.json").open() as stream:
        assert len(stream.read()) == 10_000
    assert io.storage.metrics.counts() - before == Counts(requests=1, bytes_read=10_000, files_opened=1)


# -- tables through PyIceberg's catalogs -------------------------------------------------------------------------------


def use_table(catalog: Catalog) -> Table:
    """Create, append, read, filter, delete from and load a table again."""
    catalog.create_namespace("lake")
    table = catalog.create_table("lake.birds", ROWS.schema)
    assert isinstance(table.io, SkerryFileIO)
    table.append(ROWS)
    table.append(ROWS.slice(0, 10))
    again = catalog.load_table("lake.birds")
    assert isinstance(again.io, SkerryFileIO)
    assert again.scan().to_arrow().num_rows == 1010
    assert again.scan(EqualTo("k", 7)).to_arrow()["s"].to_pylist() == ["v0", "v0"]
    again.delete(EqualTo("s", "v3"))
    rows = catalog.load_table("lake.birds").scan().to_arrow()
    assert rows.num_rows == 1010 - ROWS.filter(pa.compute.equal(ROWS["s"], "v3")).num_rows - 1
    assert list(again.io.storage.list(again.location()))
    return again


def test_a_table_in_a_folder_with_an_odd_name(tmp_path):
    folder = tmp_path / "a lake 50%20"
    folder.mkdir()
    catalog = load_catalog(
        "local", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(folder), **FILE_IO
    )
    table = use_table(catalog)
    catalog.purge_table("lake.birds")
    assert not list(table.io.storage.list(str(folder)))


def test_a_table_in_memory():
    use_table(InMemoryCatalog("memory", warehouse=f"memory://{uuid.uuid4().hex}/lake", **FILE_IO))


@pytest.fixture(params=["s3", "folder"])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], dict[str, str]]:
    """Properties of a warehouse."""
    if request.param == "folder":
        return lambda: {"warehouse": f"file://{tmp_path}/lake"}
    server = request.getfixturevalue("s3_server")
    return lambda: {**server.options, "warehouse": f"s3://{server.new_bucket()}/lake"}


@pytest.mark.service
def test_a_table_in_an_sql_catalog_on_postgresql(postgres_url, warehouse):
    use_table(load_catalog("postgres", type="sql", uri=postgres_url, **warehouse(), **FILE_IO))


@pytest.mark.service
def test_a_table_in_an_sqlite_catalog_on_s3(tmp_path, s3_server):
    place = {**s3_server.options, "warehouse": f"s3://{s3_server.new_bucket()}/lake"}
    use_table(load_catalog("s3", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", **place, **FILE_IO))


@pytest.mark.service
def test_a_table_in_a_rest_catalog_that_vends_credentials(rest_catalog, s3_server):
    """The client is given no keys at all: those that it uses came with the table."""
    catalog = load_catalog("rest", **rest_catalog.properties, **FILE_IO)
    assert not SkerryFileIO(catalog.properties).storage.options.get("s3.access-key-id")
    table = use_table(catalog)
    assert table.location().startswith(f"s3://{rest_catalog.bucket}/lake/")
    options = table.io.storage.options
    assert options["s3.endpoint"].rstrip("/") == s3_server.endpoint
    assert options["s3.session-token"]
    assert options["s3.access-key-id"]
    assert options["s3.access-key-id"] not in repr(table.io.storage)


@pytest.mark.parametrize(
    "payload",
    [b"[" * 100_000, b" " * (64 << 20), b'{"format-version": 2'],
    ids=["nested", "blank", "cut"],
)
def test_compressed_metadata_that_cannot_be_is_refused_with_its_name(tmp_path, payload):
    catalog = skerry.connect(tmp_path)
    path = tmp_path / "v1.gz.metadata.json"
    path.write_bytes(gzip.compress(payload, 1))
    with pytest.raises(FormatError, match=r"v1\.gz\.metadata\.json"):
        catalog.register_table("d.t", str(path))
