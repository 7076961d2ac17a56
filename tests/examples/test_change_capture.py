"""The example's capture: what the log tells becomes records, each once, whoever is killed when."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "change_data"))

import capture
from capture import Capture
from pgoutput import UnsupportedChangeError
from workload import TABLE, Shop

pytestmark = pytest.mark.service


@pytest.fixture
def url(postgres_url):
    plain = postgres_url.replace("+psycopg", "")
    yield plain
    with psycopg.connect(plain, autocommit=True) as connection:  # the server has only so many of them
        connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")


@pytest.fixture
def database(url):
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def start(url, folder):
    """Start a capture of a table into the folder, or into another."""
    with ExitStack() as captures:

        def begin(table, into=folder):
            return captures.enter_context(closing(Capture(url, table, into)))

        yield begin


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "records"


def files(folder):
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def records(folder):
    """Operation, key, and what is before and after, of all records."""
    told = []
    for path in files(folder):
        for row in pq.read_table(path).to_pylist():
            value = json.loads(row["value"])
            assert value["source"]["lsn"] == row["offset"]
            assert value["ts_ms"] == row["timestamp"].timestamp() * 1000 // 1
            told.append((value["op"], json.loads(row["key"]), value["before"], value["after"]))
    return told


def replayed(folder):
    """Rows by id, as the records leave them."""
    rows = {}
    for op, key, _, after in records(folder):
        if op == "d":
            rows.pop(key["id"], None)
        else:
            rows[key["id"]] = after
    return rows


def ids(database):
    return {id_ for (id_,) in database.execute(f"SELECT id FROM {TABLE}")}


def test_values_of_all_kinds(start, database, folder):
    database.execute(
        "CREATE TABLE public.kinds (b int, a text, flag bool, small int2, big int8, exact numeric(40, 3), real float4, "
        'double float8, day date, at timestamp, "at Zone" timestamptz, id uuid, doc jsonb, raw bytea, "100%" text[], '
        "PRIMARY KEY (a, b))"
    )
    row = (
        "(1, 'k\"\\é', true, -3, 9007199254740993, 12345678901234567890123456789012345.678, 0.1, 1e300, '2024-02-29', "
        "'2024-02-29 12:30:00.000001', '2024-02-29 12:30:00+02', '0b5e3f8e-9d4b-4a57-a5b0-0c4c4b8f9e11', "
        "'{\"x\": [1]}', '\\x00ff', '{a,NULL}')"
    )
    database.execute(f"INSERT INTO public.kinds VALUES {row}".replace("%", "%%"))
    taken = start("public.kinds")
    database.execute(f"INSERT INTO public.kinds VALUES {row.replace('(1,', '(2,')}")
    database.execute("INSERT INTO public.kinds (a, b, exact, real, double) VALUES ('n', 3, 'NaN', 'NaN', '-Infinity')")
    assert taken.take() == 2
    (op, key, before, first), (other_op, _, _, second), (_, _, _, odd) = records(folder)
    assert (op, key, before) == ("r", {"a": 'k"\\é', "b": 1}, None)
    assert (other_op, {**second, "b": 1}) == ("c", first), "rows that were there and rows that come look the same"
    assert first == {
        "b": 1,
        "a": 'k"\\é',
        "flag": True,
        "small": -3,
        "big": 9007199254740993,
        "exact": pytest.approx(12345678901234567890123456789012345.678),
        "real": 0.1,
        "double": 1e300,
        "day": "2024-02-29",
        "at": "2024-02-29T12:30:00.000001",
        "at Zone": "2024-02-29T10:30:00Z",
        "id": "0b5e3f8e-9d4b-4a57-a5b0-0c4c4b8f9e11",
        "doc": '{"x": [1]}',
        "raw": "AP8=",
        "100%": "{a,NULL}",
    }
    assert b"12345678901234567890123456789012345.678" in pq.read_table(files(folder)[0])["value"][0].as_py()
    assert [odd[name] for name in ("exact", "real", "double", "flag")] == ["NaN", "NaN", "-Infinity", None]


def test_operations(start, database, folder):
    database.execute("CREATE TABLE public.t (id int PRIMARY KEY, s text, long text)")
    database.execute("ALTER TABLE public.t ALTER long SET STORAGE EXTERNAL")
    taken = start("public.t")
    run = database.execute
    run("INSERT INTO t VALUES (1, 'a', NULL)")
    run("UPDATE t SET s = 'b'")
    with database.transaction(force_rollback=True):
        run("DELETE FROM t")
    run("UPDATE t SET id = 2")
    run("DELETE FROM t")
    assert taken.take() == 5
    assert records(folder) == [
        ("c", {"id": 1}, None, {"id": 1, "s": "a", "long": None}),
        ("u", {"id": 1}, None, {"id": 1, "s": "b", "long": None}),
        ("d", {"id": 1}, {"id": 1}, None),
        ("c", {"id": 2}, None, {"id": 2, "s": "b", "long": None}),
        ("d", {"id": 2}, {"id": 2}, None),
    ]
    run("INSERT INTO t VALUES (3, 'a', repeat('x', 9000))")
    run("UPDATE t SET s = 'b'")
    with pytest.raises(UnsupportedChangeError, match=r"leaves out long.*REPLICA IDENTITY FULL"):
        taken.take()
    assert len(files(folder)) == 2, "a file that was begun is none"
    run("SELECT pg_replication_slot_advance('skerry_public_t', pg_current_wal_lsn())")
    taken.close()
    with pytest.raises(LookupError, match="has let go of changes after"):
        start("public.t")


def test_whole_rows_before_changes(start, database, folder):
    database.execute("CREATE TABLE public.t (id int PRIMARY KEY, s text, long text)")
    database.execute("ALTER TABLE public.t REPLICA IDENTITY FULL")
    database.execute("ALTER TABLE public.t ALTER long SET STORAGE EXTERNAL")
    taken = start("public.t")
    database.execute("INSERT INTO t VALUES (3, 'a', repeat('x', 9000))")
    database.execute("UPDATE t SET s = 'b'")
    database.execute("DELETE FROM t")
    assert taken.take() == 3
    old, new = ({"id": 3, "s": s, "long": "x" * 9000} for s in "ab")
    assert records(folder)[1:] == [("u", {"id": 3}, old, new), ("d", {"id": 3}, new, None)]


def test_what_no_record_can_tell(start, database, folder, tmp_path):
    database.execute("CREATE TABLE public.t (id int PRIMARY KEY); CREATE TABLE public.keyless (id int)")
    taken = start("public.t")
    database.execute("TRUNCATE t")
    with pytest.raises(UnsupportedChangeError, match=r"public\.t: TRUNCATE names no rows"):
        taken.take()
    with pytest.raises(UnsupportedChangeError, match=r"public\.keyless has no primary key"):
        start("public.keyless", tmp_path / "other")
    assert len(files(folder)) == 1


def test_nothing_is_lost_or_doubled_between_a_file_and_the_slot(start, database, folder, monkeypatch):
    shop = Shop(database, 1)
    shop.fill(300)
    taken = start(TABLE)
    shop.run(10)
    with monkeypatch.context() as killed:
        killed.setattr(Capture, "_let_go", lambda self: None)  # the file is there, and the server does not know
        assert taken.take()
    taken.close()
    (folder / ".unfinished").write_bytes(b"PAR1")  # and another was begun
    before = records(folder)
    taken = start(TABLE)
    assert taken.take() == 0
    assert records(folder) == before
    shop.run(10)
    assert taken.take()
    keys = [(row["offset"], row["key"]) for path in files(folder)[1:] for row in pq.read_table(path).to_pylist()]
    assert len(keys) == len(set(keys)), "nothing twice"
    assert set(replayed(folder)) == ids(database) == set(shop.ids)
    times = [path.stat().st_mtime_ns // 1_000_000 for path in files(folder)]
    assert times == sorted(set(times)), "Spark takes files in the order of their times"


def test_rows_that_change_while_they_are_taken(start, database, folder, monkeypatch):
    """What changes between the slot and the look at the table comes again, and ends as it should."""
    shop = Shop(database, 2)
    shop.fill(300)
    take_rows = Capture._take_rows

    def late(self, position):
        shop.run(20)
        take_rows(self, position)

    monkeypatch.setattr(Capture, "_take_rows", late)
    taken = start(TABLE)
    shop.run(5)
    taken.take()
    rows = replayed(folder)
    assert set(rows) == ids(database)
    for id_, status, amount in database.execute(f"SELECT id, status, amount FROM {TABLE}"):
        assert rows[id_]["status"] == status
        assert rows[id_]["amount"] == pytest.approx(float(amount))


def test_transactions_are_never_cut(start, database, folder, monkeypatch):
    monkeypatch.setattr(capture, "FILE_CHANGES", 10)
    monkeypatch.setattr(capture, "FETCHED_ROWS", 7)
    database.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
    taken = start("public.t")
    for first in range(0, 100, 25):
        database.execute("INSERT INTO t SELECT generate_series(%s::int, %s::int)", [first, first + 24])
    counts = []
    while count := taken.take():
        counts.append(count)
    assert counts == [25, 25, 25, 25]
    assert [key["id"] for _, key, _, _ in records(folder)] == list(range(100))


def test_a_log_without_changes_of_the_table_is_let_go(start, database, folder, monkeypatch):
    monkeypatch.setattr(capture, "EMPTY_BYTES", 10_000)
    database.execute("CREATE TABLE public.t (id int PRIMARY KEY); CREATE TABLE public.other (id int PRIMARY KEY)")
    taken = start("public.t")
    assert taken.take() == 0
    assert len(files(folder)) == 1
    database.execute("INSERT INTO other SELECT generate_series(1, 1000)")
    assert taken.take() == 0
    assert len(files(folder)) == 2
    database.execute("INSERT INTO t VALUES (7)")
    taken.close()
    assert start("public.t").take() == 1
    assert records(folder) == [("c", {"id": 7}, None, {"id": 7})]


def test_one_capture_at_a_time(start, database):
    database.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
    first, seconds = start("public.t"), []
    waiting = threading.Thread(target=lambda: seconds.append(start("public.t")))
    waiting.start()
    while not database.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone()[
        0
    ]:
        pass
    database.execute("INSERT INTO t VALUES (1)")
    assert first.take() == 1
    first.close()
    waiting.join(60)
    assert seconds[0].take() == 0


def test_a_gap_between_files_is_named(start, database, folder):
    database.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
    taken = start("public.t")
    for id_ in range(2):
        database.execute("INSERT INTO t VALUES (%s)", [id_])
        taken.take()
    taken.close()
    files(folder)[1].unlink()
    with pytest.raises(ValueError, match="no file goes from"):
        start("public.t")
