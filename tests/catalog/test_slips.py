"""Arguments that slipped: the error says what is taken, and is one of ours."""

import datetime
import pickle

import pyarrow as pa
import pytest

import skerry
from skerry.errors import SchemaError, UnsupportedError

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return skerry.connect(tmp_path_factory.mktemp("slips")).create_table("d.t", SCHEMA)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda table, _: table.scan(as_of="2026-11-22"), r"as_of takes a datetime, found str"),
        (lambda table, _: table.scan(as_of=datetime.date(2026, 11, 22)), r"as_of takes a datetime, found date"),
        (lambda table, _: table.scan(snapshot="12"), r"snapshot takes the number of a snapshot, found str"),
        (lambda table, _: table.scan(columns="id"), r"columns must be a list of strings, found 'id'"),
        (lambda table, _: table.analyze(columns="id"), r"columns must be a list of strings, found 'id'"),
        (lambda table, _: table.scan(columns=["id", 3]), r"columns must be a list of strings, found 3 in it"),
        (lambda table, _: table.scan(columns=3), r"columns must be a list of strings, found int: 3"),
        (lambda table, _: table.compact(sort_by="id"), r"sort_by=\['id'\]"),
        (lambda table, _: table.compact(z_order="id"), r"z_order=\['id'\]"),
        (lambda table, _: table.add_files("/a.parquet"), r"locations=\['/a.parquet'\]"),
        (
            lambda table, _: table.expire_snapshots(older_than="7d"),
            r"older_than takes a datetime or a timedelta, found str",
        ),
        (lambda table, _: table.scan(where='name = "ab"'), r"no column 'ab'.*single quotes enclose text"),
        (lambda _, catalog: catalog.create_table(("d", "u"), SCHEMA), r"a name must be a string .*found tuple"),
        (lambda _, catalog: catalog.create_table("d.u", SCHEMA, partition_by="id"), r"partition_by=\['id'\]"),
        (lambda _, catalog: catalog.create_table("d.u", SCHEMA, sort_by="id"), r"sort_by=\['id'\]"),
    ],
)
def test_the_error_says_what_is_taken(table, act, message):
    with pytest.raises(SchemaError, match=message):
        act(table, table._catalog)


def test_an_unknown_column_of_statistics_is_named(table):
    with pytest.raises(KeyError, match=r"no column 'idd'; did you mean 'id'\?"):
        table.statistics()["idd"]
    assert pickle.loads(pickle.dumps(table.statistics())).keys() == {"id", "name"}


def test_a_table_says_why_it_is_not_pickled(table):
    with pytest.raises(UnsupportedError, match="send its name"):
        pickle.dumps(table)
