"""Arguments that slipped: the error says what is taken, and is one of ours."""

import datetime
import pickle

import pyarrow as pa
import pytest

import skerry
from skerry.catalog.pickling import Opening
from skerry.errors import FormatError, NotFoundError, SchemaError, SkerryError, UnsupportedError

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


ROWS = pa.table({"id": [1]})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return skerry.connect(tmp_path_factory.mktemp("slips")).create_table("d.t", SCHEMA)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda table, _: table.scan(as_of="noon"), r"as_of takes a time such as '2024-05-01 12:00:00', found 'noon'"),
        (lambda table, _: table.scan(as_of=5), r"as_of takes a datetime, found int: 5"),
        (lambda table, _: table.scan(as_of=datetime.timedelta(-1)), r"as_of must not be negative"),
        (lambda table, _: table.scan(snapshot="12"), r"snapshot takes the number of a snapshot, found str"),
        (lambda table, _: table.scan(columns="id"), r"columns must be a list of strings, found 'id'"),
        (lambda table, _: table.analyze(columns="id"), r"columns must be a list of strings, found 'id'"),
        (lambda table, _: table.scan(columns=["id", 3]), r"columns must be a list of strings, found 3 in it"),
        (lambda table, _: table.scan(columns=3), r"columns must be a list of strings, found int: 3"),
        (lambda table, _: table.compact(sort_by="id"), r"sort_by=\['id'\]"),
        (lambda table, _: table.compact(z_order="id"), r"z_order=\['id'\]"),
        (lambda table, _: table.add_files("/a.parquet"), r"locations=\['/a.parquet'\]"),
        (lambda table, _: table.upsert(ROWS, on=3), r"on must be a list of strings, found int: 3"),
        (lambda table, _: table.changes(columns="id"), r"columns=\['id'\]"),
        (lambda table, _: table.append_files(["a"]), r"append_files takes what jobs have written, found 'a'"),
        (lambda table, _: table.scan(ref=5), r"ref must be the name of a branch or tag, found int: 5"),
        (lambda table, _: table.scan().to_duckdb("x"), r"connection must be a connection of DuckDB, found str: 'x'"),
        (lambda table, _: table.inspect.files(ref=5), r"ref must be the name of a branch or tag, found int: 5"),
        (lambda table, _: table.inspect.read(5), r"name must be the name of a metadata table, found int: 5"),
        (lambda table, _: table.inspect.schema(["a"]), r"name must be the name of a metadata table, found list"),
        (lambda table, _: table.set_properties("id"), r"properties must be a mapping of names to values, found str"),
        (
            lambda table, _: table.append(ROWS, snapshot_properties={"a": 1}),
            r"properties must be strings.*'a': 1",
        ),
        (lambda table, _: table.append(ROWS, progress="yes"), r"progress takes True, None or a callable, found str"),
        (lambda table, _: table.create_branch("b", max_ref_age=5), r"max_ref_age takes a timedelta, found int: 5"),
        (lambda _, catalog: catalog.joinable("d.t", "id", limit=0), r"limit must be a whole number above 0, found 0"),
        (lambda _, catalog: catalog.joinable("d.t", "id", min_containment=5), r"a number from 0 to 1, found 5"),
        (lambda _, catalog: catalog.plan_joins(["d.t"], ["id=id"]), r"on= must be a list of pairs of columns"),
        (lambda _, catalog: catalog.create_table("d.u", SCHEMA, properties=["a"]), r"properties must be a mapping"),
        (lambda _, catalog: catalog.create_table("d.u", SCHEMA, properties={"a": 1}), r"of properties must be strings"),
        (
            lambda table, _: table.expire_snapshots(older_than="7d"),
            r"older_than takes a time such as '2024-05-01 12:00:00', found '7d'",
        ),
        (lambda table, _: table.scan(where='name = "ab"'), r"no column 'ab'.*single quotes enclose text"),
        (lambda _, catalog: catalog.create_table(("d", 5), SCHEMA), r"a name in parts is one of texts without dots"),
        (lambda _, catalog: catalog.create_table("d.u", SCHEMA, partition_by="id"), r"partition_by=\['id'\]"),
        (lambda _, catalog: catalog.create_table("d.u", SCHEMA, sort_by="id"), r"sort_by=\['id'\]"),
        (
            lambda _, catalog: catalog.create_table("d.u", SCHEMA, location=5),
            r"location must be a string, found int: 5",
        ),
        (lambda _, catalog: catalog.create_table("d.u", SCHEMA, properties={"a": "\ud800"}), r"surrogate.*in 'a'"),
        (lambda _, catalog: catalog.create_namespace("p", {"a": "\0"}), r"properties cannot contain null characters"),
        (
            lambda _, catalog: catalog.register_table("d.u", None),
            r"metadata_path must be a path or URL, found NoneType",
        ),
        (lambda _, catalog: catalog.list_tables(5), r"namespace must be a string, found int: 5"),
        (lambda _, catalog: catalog.load_table("d.\ud800"), r"a name cannot contain '\\ud800'"),
        (lambda _, catalog: catalog.table_exists("d.a\0b"), r"a name cannot contain '\\x00'"),
    ],
)
def test_the_error_says_what_is_taken(table, act, message):
    with pytest.raises(SchemaError, match=message):
        act(table, table._catalog)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda _: skerry.amudai.read_table(None), "a location must be a path or URL, found NoneType: None"),
        (lambda _: skerry.amudai.write_table(ROWS, 5), "a location must be a path or URL, found int: 5"),
        (lambda _: skerry.puffin.read(None), "path must be a path or URL, found NoneType: None"),
        (lambda _: skerry.puffin.PuffinWriter().write(None), "path must be a path or URL, found NoneType: None"),
        (lambda file: skerry.puffin.read(file).read_blob(0), "blob must be one of the file's blobs, found int: 0"),
        (lambda file: skerry.puffin.read(file).read_blobs(0), "blobs must be some of the file's blobs, found int: 0"),
        (lambda _: skerry.theta.union(skerry.theta.ThetaSketch()), r"must be a list of sketches.*; write \[sketch\]"),
        (lambda _: skerry.theta.intersection([b"a"]), "a sketch must be a ThetaSketch, found bytes: b'a'"),
        (lambda _: skerry.theta.difference(skerry.theta.ThetaSketch(), 1), "must be a ThetaSketch, found int: 1"),
        (lambda _: skerry.theta.jaccard(None, skerry.theta.ThetaSketch()), "must be a ThetaSketch, found NoneType"),
        (lambda _: skerry.amudai.FieldOptions("tiny"), "no profile 'tiny', expected one of plain"),
        (lambda _: skerry.amudai.FieldOptions(plan="ALP"), "plan must be a Plan, found str: 'ALP'"),
        (lambda _: skerry.amudai.FieldOptions(block_values=0), "block_values must be a whole number above 0"),
        (lambda _: skerry.amudai.FieldOptions(with_index=None), "with_index must be true or false, found NoneType"),
        (lambda _: skerry.amudai.FieldOptions(with_dictionary=1), "with_dictionary must be true or false, found int"),
        (
            lambda file: skerry.amudai.write_table(ROWS, f"{file}.shard", field_options={"id": "small"}),
            r"field_options\['id'\] must be FieldOptions, found str: 'small'",
        ),
    ],
)
def test_files_and_sketches_name_the_slip(tmp_path, act, message):
    file = tmp_path / "a.puffin"
    skerry.puffin.PuffinWriter().write(file)
    with pytest.raises(SchemaError, match=message):
        act(file)


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (None, {}, "target must be a path or URL, found NoneType: None"),
        (5, {}, "target must be a path or URL, found int: 5"),
        (b"lake", {}, "target must be a path or URL, found bytes"),
        ("la\0ke", {}, "target cannot contain"),
        ("la\ud800ke", {}, "target cannot contain"),
        ("sqlite:///%00.db", {"warehouse": "/w"}, "the name of the database cannot contain"),
        ("sqlite:///c.db", {"warehouse": 5}, "warehouse must be a path or URL, found int: 5"),
        ("postgresql://me:hu@sh/hu@host/db", {"warehouse": "/w"}, "%40, and / as %2F"),
        ("postgresql://me:hush@host:99999999999999999999/db", {"warehouse": "/w"}, "not the address of a SQL database"),
    ],
)
def test_where_to_connect_is_checked(tmp_path, monkeypatch, target, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SchemaError, match=message) as caught:
        skerry.connect(target, **options)
    assert "hu" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_home_folder_of_nobody():
    with pytest.raises(NotFoundError, match="no folder '~nobody-has-this-name/lake'"):
        skerry.connect("~nobody-has-this-name/lake")


def test_nothing_is_written_that_no_reader_takes(tmp_path):
    catalog = skerry.connect(tmp_path)
    with pytest.raises(SchemaError, match="names and values of properties must be strings, found 'a': 1"):
        catalog.create_table("d.u", SCHEMA, format="paimon", properties={"a": 1})
    table = catalog.create_table("d.u", SCHEMA, format="paimon")
    with pytest.raises(SchemaError, match="names and values of snapshot_properties must be strings, found 'a': 1"):
        table.append(ROWS, snapshot_properties={"a": 1})
    table.append(ROWS, snapshot_properties={"a": "1"})
    assert table.refresh().scan().count() == 1


@pytest.mark.parametrize("format", ["iceberg", "paimon"])
def test_both_formats_name_the_slip(tmp_path, format):
    table = skerry.connect(tmp_path).create_table("d.t", SCHEMA, format=format)
    table.append(ROWS)
    for to in ("1", True, None):
        with pytest.raises(SchemaError, match=f"expected a snapshot id or a datetime, found {to!r}"):
            table.rollback(to)
    with pytest.raises(SchemaError, match="'' is not a valid branch name"):
        table.create_branch("")
    with pytest.raises(SchemaError, match="no primitive column 'idd'; did you mean 'id'"):
        table.analyze(["idd"])
    with pytest.raises(NotFoundError, match="no snapshot 99; it may have expired"):
        table.changes(99)
    with pytest.raises(NotFoundError, match="no table property 'ownr'"):
        table.remove_properties("ownr")


def test_messages_about_queries_have_no_escape_sequences(tmp_path):
    with pytest.raises(FormatError, match="not a valid SQL query") as caught:
        skerry.connect(tmp_path).explain("selct 1")
    assert str(caught.value).replace("\n", "").isprintable()


def test_an_unknown_column_of_statistics_is_named(table):
    with pytest.raises(KeyError, match=r"no column 'idd'; did you mean 'id'\?"):
        table.statistics()["idd"]
    assert pickle.loads(pickle.dumps(table.statistics())).keys() == {"id", "name"}


def test_catalogs_and_tables_are_pickled_without_secrets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    catalog = skerry.connect("lake", **{"s3.region": "eu-north-1"})
    catalog.create_table("a.p", pa.schema([("id", pa.int64())]), format="paimon")
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64())]))
    sent = pickle.dumps([catalog, table, catalog["a.p"], skerry.open_table(table.location)])
    table.append([{"id": 1}])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again, loaded, paimon, opened = pickle.loads(sent)
    assert again.properties == catalog.properties
    assert (loaded.count(), opened.count(), paimon.name) == (1, 1, "a.p")
    paimon.append([{"id": 2}])
    assert loaded.catalog["a.p"].count() == 1
    with pytest.raises(UnsupportedError, match="opened by its location"):
        opened.append([{"id": 2}])
    assert list((tmp_path / "elsewhere").iterdir()) == []
    with catalog.transaction() as changes, pytest.raises(UnsupportedError, match="in a transaction"):
        pickle.dumps(changes.load_table("a.t"))


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("lake", {"s3.secret-access-key": "hush"}),
        ("lake", {"header.X-Auth": "hush"}),
        ("s3://bucket/lake?token=hush", {}),
        ("s3://bucket/lake", {"s3.session-token": "hush"}),
        ("memory://hush", {}),
    ],
)
def test_secrets_are_not_pickled(tmp_path, monkeypatch, target, options):
    monkeypatch.chdir(tmp_path)
    try:
        catalog = skerry.connect(target, **options)
    except SkerryError:
        return  # refused already
    with pytest.raises(UnsupportedError, match="not pickled") as caught:
        pickle.dumps(catalog)
    assert "hush" not in str(caught.value)


def test_addresses_with_passwords_are_not_pickled():
    for target in ("postgresql://me:hush@host/db", "rest+https://host/?token=hush", "https://hush:x@host"):
        with pytest.raises(UnsupportedError, match="may hold a password") as caught:
            pickle.dumps(Opening(skerry.connect, target, {}))
        assert "hush" not in str(caught.value)
    for target in ("postgresql://me@host/db", "sqlite:////a.db?timeout=5", "rest+https://host/v1", "/a folder"):
        opening = Opening(skerry.connect, target, {"warehouse": "s3://b"})
        assert pickle.loads(pickle.dumps(opening)) == opening


@pytest.mark.parametrize("format", ["iceberg", "paimon"])
def test_a_table_has_columns(tmp_path, format) -> None:
    catalog = skerry.connect(tmp_path)
    with pytest.raises(SchemaError, match="a table needs a column"):
        catalog.create_table("d.t", pa.schema([]), format=format)
    assert not catalog.table_exists("d.t")
