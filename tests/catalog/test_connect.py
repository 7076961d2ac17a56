"""`connect`: folders, configured names and URIs, and what is said when none of them fits."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback

import pyarrow as pa
import pytest

import skerry
from skerry.errors import (
    AlreadyExistsError,
    FormatError,
    MissingDependencyError,
    NotFoundError,
    SchemaError,
    SkerryError,
    UnsupportedError,
)

SCHEMA = pa.schema([("k", pa.int64())])


def test_a_folder_is_created_and_opened_again(tmp_path):
    folder = tmp_path / "new" / "warehouse"
    skerry.connect(folder).create_table("a.b", SCHEMA)
    assert (folder / "catalog.db").is_file()
    for target in (folder, str(folder), f"{folder}/", f"file://{folder}"):
        assert skerry.connect(target).list_tables() == ["a.b"]


def test_a_relative_folder_and_a_home_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    skerry.connect("lake").create_table("a.b", SCHEMA)
    for target in ("lake", "./lake", "~/lake", "lake/"):
        assert skerry.connect(target).list_tables() == ["a.b"]


def test_a_folder_must_exist_when_it_shall_not_be_created(tmp_path):
    with pytest.raises(NotFoundError, match=r"no warehouse at .*: it has no catalog\.db"):
        skerry.connect(tmp_path / "typo", create=False)
    assert not (tmp_path / "typo").exists()


def test_names_of_pyicebergs_configuration(tmp_path):
    """In a process of its own, because PyIceberg reads its configuration when it is imported."""
    program = (
        "import pyarrow as pa, skerry\n"
        "catalog = skerry.connect('lake')\n"
        "catalog.create_table('a.b', pa.schema([('k', pa.int64())])).append(pa.table({'k': [1, 2]}))\n"
        "print(catalog.name, skerry.connect('lake').load_table('a.b').statistics()['k'].ndv)\n"
        "try:\n    skerry.connect('lakke', create=False)\n"
        "except skerry.errors.NotFoundError as error:\n    print(error)\n"
    )
    environment = {
        **os.environ,
        "PYICEBERG_CATALOG__LAKE__TYPE": "sql",
        "PYICEBERG_CATALOG__LAKE__URI": f"sqlite:///{tmp_path}/c.db",
        "PYICEBERG_CATALOG__LAKE__WAREHOUSE": f"file://{tmp_path}/w",
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "lake 2.0",
        "'lakke' is neither a folder nor a catalog in PyIceberg's configuration; did you mean 'lake'?",
    ]


def test_a_configuration_that_cannot_be_read_is_not_shown(tmp_path, monkeypatch):
    (tmp_path / ".pyiceberg.yaml").write_text("catalog:\n  lake:\n    uri: http://host\n    token: [hush-hush]\n")
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with pytest.raises(SkerryError, match=r"configuration cannot be read: \w+ in line 4") as caught:
        skerry.connect("lake", create=False)
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_a_sql_catalog_by_uri(tmp_path):
    catalog = skerry.connect(f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_table("a.b", SCHEMA).append(pa.table({"k": [1]}))
    assert catalog.load_table("a.b").location.startswith(f"file://{tmp_path}/w/")
    with pytest.raises(SkerryError, match="a SQL catalog needs a warehouse folder"):
        skerry.connect(f"sqlite:///{tmp_path}/c.db")


@pytest.mark.parametrize("target", ["s3://bucket/lake", "gs://bucket/lake", "abfss://c@a.dfs.core.windows.net/lake"])
def test_an_object_store_alone_orders_no_commits_of_iceberg_tables(target):
    catalog = skerry.connect(target)
    with pytest.raises(UnsupportedError, match="need a catalog to coordinate commits"):
        catalog.create_table("a.b", pa.schema([("x", pa.int64())]))


def test_an_unknown_scheme_is_named_and_credentials_are_not_printed():
    with pytest.raises(UnsupportedError, match="expected a folder, a configured name, or a URI") as caught:
        skerry.connect("ftp://user:hush@host/lake")
    assert "hush" not in str(caught.value)


def test_a_catalog_that_cannot_be_reached_says_so_without_the_password():
    with pytest.raises(SkerryError, match="cannot open catalog") as caught:
        skerry.connect("postgresql+psycopg://user:hush@127.0.0.1:1/lake", warehouse="/nowhere")
    assert "hush" not in str(caught.value)


def test_processes_that_open_a_new_warehouse_at_once(tmp_path):
    program = f"import skerry; print(skerry.connect({str(tmp_path / 'w')!r}).list_tables())"
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert (out, err, process.returncode) == ("[]\n", "", 0)


def test_namespaces_and_tables(tmp_path):
    catalog = skerry.connect(tmp_path)
    catalog.create_namespace("empty")
    catalog.create_table("a.t", SCHEMA)
    catalog.create_table("a.u", SCHEMA)
    assert catalog.list_namespaces() == ["a", "empty"]
    assert catalog.list_tables() == ["a.t", "a.u"]
    assert catalog.list_tables("empty") == []
    assert catalog.rename_table("a.t", "empty.v").name == "empty.v"
    assert catalog.list_tables() == ["a.u", "empty.v"]
    catalog.drop_table("a.u")
    assert not catalog.table_exists("a.u")


def test_a_table_whose_metadata_is_gone_or_damaged_hides_no_other(tmp_path):
    catalog = skerry.connect(tmp_path)
    for name in ("good", "gone", "damaged"):
        catalog.create_table(f"a.{name}", SCHEMA)
    for path in tmp_path.glob("a/gone/metadata/*"):
        path.unlink()
    for path in tmp_path.glob("a/damaged/metadata/*"):
        path.write_bytes(b"{")
    assert catalog.list_tables() == ["a.damaged", "a.gone", "a.good"]
    for name, error in (("gone", NotFoundError), ("damaged", FormatError)):
        with pytest.raises(error, match=f"{tmp_path}/a/{name}/metadata"):
            catalog.load_table(f"a.{name}")
        with pytest.raises(AlreadyExistsError):
            catalog.create_table(f"a.{name}", SCHEMA)
        with pytest.raises(error):
            catalog.drop_table(f"a.{name}", purge=True)
        catalog.drop_table(f"a.{name}")
    assert catalog.list_tables() == ["a.good"]


@pytest.mark.parametrize("format", ["iceberg", "paimon"])
def test_none_is_no_columns(tmp_path, format):
    table = skerry.connect(tmp_path).create_table(
        "a.b", SCHEMA, format=format, partition_by=None, sort_by=None, primary_key=None
    )
    assert (table.partition_by, table.sort_by, table.primary_key) == ([], [], [])


def test_wrong_names_are_answered_with_the_nearest(tmp_path):
    catalog = skerry.connect(tmp_path)
    catalog.create_table("nyc.flights", SCHEMA)
    with pytest.raises(NotFoundError, match=r"no table 'nyc\.flihgts'; did you mean 'nyc\.flights'\?"):
        catalog.load_table("nyc.flihgts")
    with pytest.raises(NotFoundError, match="no namespace 'nyv'; did you mean 'nyc'"):
        catalog.list_tables("nyv")
    with pytest.raises(SchemaError, match=r"a table name must have the form namespace\.table, found 'flights'"):
        catalog.load_table("flights")
    with pytest.raises(NotFoundError):
        catalog.drop_table("nyc.none")
    with pytest.raises(AlreadyExistsError, match=r"table 'nyc\.flights' already exists"):
        catalog.create_table("nyc.flights", SCHEMA)
    with pytest.raises(AlreadyExistsError):
        catalog.create_namespace("nyc")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"format": "icberg"}, UnsupportedError, "format='icberg' is not supported; did you mean 'iceberg'"),
        ({"file_format": "ocr"}, UnsupportedError, "file_format='ocr' is not supported; did you mean 'orc'"),
        ({"format_version": 4}, SchemaError, "format_version must be 1, 2 or 3, found 4"),
        ({"partition_by": ["dya"]}, SchemaError, "did you mean 'day'"),
        ({"partition_by": ["bukcet(4, k)"]}, SchemaError, "bukcet"),
        ({"sort_by": ["kk"]}, SchemaError, "kk"),
        ({"primary_key": ["day", "z"]}, SchemaError, "primary_key: no column 'z'"),
        ({"properties": {"skerry.statistics.enabled": "perhaps"}}, SchemaError, "must be true or false"),
    ],
)
def test_wrong_options_are_named_and_create_nothing(tmp_path, options, error, message):
    catalog = skerry.connect(tmp_path)
    with pytest.raises(error, match=message.replace("(", r"\(").replace(")", r"\)")):
        catalog.create_table("a.b", pa.schema([("k", pa.int64()), ("day", pa.date32())]), **options)
    assert not catalog.list_tables()


def test_a_primary_key_is_recorded_as_identifier_fields(tmp_path):
    table = skerry.connect(tmp_path).create_table(
        "a.b", pa.schema([("v", pa.string()), ("k", pa.int64())]), primary_key=["k"]
    )
    schema = table.handle.state.metadata.schema()
    assert schema.identifier_field_names() == ["k"]
    assert [field.nullable for field in table.schema] == [True, False]
    with pytest.raises(SchemaError, match="'k'"):
        table.append(pa.table({"v": ["a"], "k": pa.array([None], pa.int64())}))


def test_a_schema_may_come_from_data(tmp_path):
    import polars

    catalog = skerry.connect(tmp_path)
    for number, data in enumerate((pa.table({"k": [1]}), polars.DataFrame({"k": [1]}), SCHEMA)):
        assert catalog.create_table(f"a.t{number}", data).schema.names == ["k"]


def test_register_a_table_that_exists_as_files(tmp_path):
    table = skerry.connect(tmp_path / "one").create_table("a.b", SCHEMA)
    table.append(pa.table({"k": [1, 2, 3]}))
    other = skerry.connect(tmp_path / "two")
    registered = other.register_table("c.d", table.metadata_location)
    assert registered.statistics()["k"].ndv == 3
    assert registered.statistics()["k"].freshness.is_fresh
    with pytest.raises(AlreadyExistsError):
        other.register_table("c.d", table.metadata_location)


@pytest.mark.parametrize("scheme", ["mysql", "mysql+pymysql"])
def test_mysql_without_its_driver_says_what_to_install(tmp_path, scheme):
    with pytest.raises(MissingDependencyError, match=r"pip install mysqlclient for mysql://, or pip install pymysql"):
        skerry.connect(f"{scheme}://u:secret@127.0.0.1:1/d", warehouse=f"file://{tmp_path}")
