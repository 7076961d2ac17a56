"""Iceberg's reference server: scans that it plans, transactions, views and names."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest

import skerry
from skerry.errors import AlreadyExistsError, ConflictError, NotFoundError, SchemaError
from skerry.iceberg.catalogs.rest_planning import RestScanServer
from skerry.iceberg.operations import RowDelta
from skerry.iceberg.writing.delete_files import write_equality_deletes
from torture import examples

pytestmark = pytest.mark.service

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("b", pa.bool_()),
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("m", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("t", pa.time64("us")),
        ("ts", pa.timestamp("us")),
        ("tz", pa.timestamp("us", "UTC")),
        ("s", pa.string()),
        ("x", pa.binary()),
        ("u", pa.uuid()),
        ("p", pa.struct([("q", pa.int32()), ("r", pa.string())])),
    ]
)
SPECS = [
    [],
    ["bucket(3, id)"],
    ["i"],
    ["day(ts)"],
    ["truncate(1, s)"],
    ["month(day)", "b"],
    ["m"],
    ["year(tz)", "truncate(10, i)"],
    ["hour(ts)"],
    ["u"],
    ["s", "bucket(2, u)"],
    ["day"],
]
FLOATS = (0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf"), 3.4028234663852886e38)
WORDS = ("", "a", "ab", "b'c", "é", "zz", "0061", "7a", "\U0001f426")
START = dt.datetime(2024, 2, 28, 22, 30)


def connect(address, mode):
    return skerry.connect(f"rest+{address}", **{"scan-planning-mode": mode})


def value_of(dice, name, number):
    """A value of a column, one in six null; few different ones, so that conditions find some."""
    if name != "id" and dice.random() < 1 / 6:
        return None
    step = dice.randrange(-3, 4)
    moment = START + step * dt.timedelta(hours=17, microseconds=1)
    return {
        "id": number,
        "b": step > 0,
        "i": 7 * step,
        "f": dice.choice(FLOATS),
        "d": dice.choice(FLOATS),
        "m": Decimal(step) / 4,
        "day": moment.date(),
        "t": moment.time(),
        "ts": moment,
        "tz": moment.replace(tzinfo=dt.UTC),
        "s": dice.choice(WORDS),
        "x": bytes([step % 5]),
        "u": uuid.UUID(int=step % 5),
        "p": {"q": None if step == 0 else step, "r": dice.choice(WORDS)},
    }[name]


def rows_of(dice, count, first):
    return pa.Table.from_pylist(
        [{name: value_of(dice, name, first + row) for name in SCHEMA.names} for row in range(count)], SCHEMA
    )


def literal(dice, name):
    value = None
    while value is None:
        value = value_of(dice, name, dice.randrange(60))
    if isinstance(value, float):
        return f"'{value}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return str(value) if isinstance(value, int | Decimal) else "'" + str(value).replace("'", "''") + "'"


def condition(dice, names, depth=2):
    if depth and dice.random() < 0.5:
        parts = [condition(dice, names, depth - 1) for _ in range(dice.randrange(2, 4))]
        whole = f" {dice.choice(('AND', 'OR'))} ".join(parts)
        return f"NOT ({whole})" if dice.random() < 0.2 else f"({whole})"
    name = dice.choice(names)
    if name == "p":
        name, kind = dice.choice((("p.q", "i"), ("p.r", "s")))
    else:
        kind = "s" if name == "word" else name
    kinds = ["compare", "compare", "in", "null"]
    kinds += ["like"] if kind == "s" else ["nan"] if kind in "fd" else []
    match dice.choice(kinds):
        case "compare":
            return f"{name} {dice.choice(('=', '<>', '<', '<=', '>', '>='))} {literal(dice, kind)}"
        case "in":
            values = ", ".join(literal(dice, kind) for _ in range(dice.randrange(1, 4)))
            return f"{name} {dice.choice(('', 'NOT '))}IN ({values})"
        case "null":
            return f"{name} IS {dice.choice(('', 'NOT '))}NULL"
        case "like":
            return f"{name} {dice.choice(('', 'NOT '))}LIKE '{dice.choice('abz0é')}%'"
        case _:
            return f"{dice.choice(('', 'NOT '))}isnan({name})"


def content(scan):
    return Counter(map(repr, scan.to_arrow().to_pylist()))


def delete_equal(dice, table, name):
    """Delete the rows of some values of a column, by an equality delete file."""
    handle = table.handle
    values = rows_of(dice, 1, dice.randrange(15)).select([name]).to_batches()
    field = handle.state.schema.field(name)
    number = handle.state.metadata.schema().find_field(name).field_id
    batches = [pa.record_batch([batch.column(0)], schema=pa.schema([field])) for batch in values]
    added = tuple(write_equality_deletes(handle.layout(), batches, [number]))
    handle.commit(RowDelta(added_deletes=added, starting_snapshot_id=handle.state.snapshot().snapshot_id))


def random_table(dice, catalog, name):
    """A table with a history: several specs, deletes of all kinds, a branch, a tag, a renamed column."""
    version = dice.choice((2, 3))
    table = catalog.create_table(
        name,
        SCHEMA,
        partition_by=dice.choice([[]] * 4 + SPECS),
        properties={
            "format-version": str(version),
            "write.delete.mode": "merge-on-read",
            "write.merge.mode": "merge-on-read",
        },
    )
    number = 0
    for step in range(dice.randrange(3, 7)):
        table.append(rows_of(dice, dice.randrange(1, 12), number))
        number += 12
        kind = dice.randrange(6)
        if kind == 0:
            # several vectors in one file: the server (1.11) refers to delete files by their paths alone
            table.delete(
                condition(dice, ["id", "i", "s", "b"], 1) if version == 2 else f"id = {dice.randrange(number)}"
            )
        elif kind == 1 and not any(spec.fields for spec in table.handle.state.metadata.partition_specs):
            delete_equal(dice, table, dice.choice(("id", "i", "s")))
        elif kind == 2:
            spec = table.update_spec()
            for field in table.handle.state.spec.fields:
                spec = spec.remove_field(field.name)
            for field in dice.choice(SPECS):
                spec = spec.add_field(field)
            spec.commit()
        elif kind == 3 and step == 0:
            table.create_tag("then")
    table.create_branch("side")
    if "s" not in " ".join(table.partition_by) and dice.random() < 0.5:
        with table.update_schema() as update:
            update.rename_column("s", "word")
    table.append(rows_of(dice, 3, 100).rename_columns(table.schema.names), ref="side")
    return table


def test_deletes_of_all_kinds_are_assigned_by_the_server(reference_server):
    ours, theirs = (connect(reference_server, mode) for mode in ("client", "server"))
    for version, kind in (("2", "parquet"), ("3", "puffin")):
        properties = {"format-version": version, "write.delete.mode": "merge-on-read"}
        table = ours.create_table(f"scans.deletes{version}", SCHEMA, properties=properties)
        for first in (0, 12):
            table.append(rows_of(random.Random(first), 12, first))
        delete_equal(random.Random(1), table, "id")
        delete_equal(random.Random(2), table, "s")
        table.append(rows_of(random.Random(3), 12, 24))
        table.delete("id = 25")
        scan = theirs.load_table(f"scans.deletes{version}").scan()
        formats = {(delete.kind.name, delete.file_format) for task in scan.plan() for delete in task.deletes}
        assert formats == {("KEYS", "parquet"), ("VECTOR" if kind == "puffin" else "POSITIONS", kind)}
        assert content(scan) == content(table.scan())
        assert scan.count() == table.scan().count() < 35


@pytest.mark.parametrize("seed", range(examples(4)))
def test_scans_that_the_server_plans_have_the_rows_of_scans_planned_here(reference_server, seed):
    dice = random.Random(seed)
    name = f"scans.t{seed}"
    ours = random_table(dice, connect(reference_server, "client"), name)
    theirs = connect(reference_server, "server").load_table(name)
    snapshots = [{"snapshot": snapshot.snapshot_id} for snapshot in ours.snapshots()]
    when = [{}, {}, {}, {"ref": "side"}, *snapshots, *([{"ref": "then"}] if "then" in ours.refs() else [])]
    for _ in range(15):
        asked = dice.choice(when)
        names = ours.scan(**asked).schema.names
        where = condition(dice, names) if dice.random() < 0.9 else None
        columns = dice.choice((None, dice.sample(names, 3), ["id", "_file", "_pos"], ["p.r", "id"]))
        here, there = (table.scan(columns, where, **asked) for table in (ours, theirs))
        assert content(there) == content(here), where
        assert there.count() == here.count(), where
        low, high = there.row_bounds()
        assert low <= here.count() <= high, where
        assert there.schema == here.schema
        assert there.is_planned_by_server
        assert not here.is_planned_by_server


@pytest.mark.parametrize("seed", range(examples(2)))
def test_changes_that_the_server_plans_are_those_planned_here(reference_server, monkeypatch, seed):
    dice = random.Random(seed)
    name = f"scans.c{seed}"
    ours = random_table(dice, connect(reference_server, "client"), name)
    theirs = connect(reference_server, "server").load_table(name)
    asked = []
    plan = RestScanServer.plan

    def noted(self, request, *rest):
        asked.append(request)
        return plan(self, request, *rest)

    monkeypatch.setattr(RestScanServer, "plan", noted)
    kept = [snapshot.snapshot_id for snapshot in ours.snapshots()]
    for _ in range(6):
        start, to = dice.choice((None, *kept[:-1])), dice.choice(("main", "side", None))
        where = condition(dice, ours.schema.names) if dice.random() < 0.7 else None
        columns = dice.choice((None, ["id", "i"], ["p.r"]))
        try:
            here = ours.changes(start, to, columns=columns, where=where)
        except SchemaError:  # not an ancestor
            continue
        assert content(theirs.changes(start, to, columns=columns, where=where)) == content(here), where
    spans = {"snapshot-id" in request for request in asked}
    assert spans == {True, False} or "start-snapshot-id" in asked[0]


def test_a_plan_in_many_parts(reference_server):
    catalog = connect(reference_server, "server")
    table = catalog.create_table("scans.many", pa.schema([("n", pa.int64())]), partition_by=["n"])
    table.append(pa.table({"n": list(range(230))}))
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == list(range(230))
    assert len(table.scan(where="n < 150").plan()) == 150
    assert table.scan(where="n IN (3, 4, 500)").count() == 2
    said = str(table.scan(where="n IN (3, 4, 500)").explain())
    assert "planned  by the catalog's server" in said
    assert "to read                        2 files" in said


def two_tables(catalog, namespace):
    for name in ("a", "b"):
        catalog.create_table(f"{namespace}.{name}", pa.schema([("n", pa.int64())]))
    return [f"{namespace}.{name}" for name in ("a", "b")]


def numbers(catalog, name):
    return sorted(catalog.load_table(name).scan().to_arrow()["n"].to_pylist())


def test_a_transaction_over_two_tables(reference_server):
    catalog = connect(reference_server, "server")
    names = two_tables(catalog, "both")
    with catalog.transaction() as tx:
        for name in names:
            tx.load_table(name).append(pa.table({"n": [1, 2]}))
    assert [numbers(catalog, name) for name in names] == [[1, 2]] * 2
    assert [str(catalog.load_table(name).statistics()["n"].freshness) for name in names] == ["fresh"] * 2


def test_a_transaction_that_the_server_refuses(reference_server):
    """Its status 409: another writer has changed a table in the meantime, and the change cannot be repeated."""
    catalog = connect(reference_server, "client")
    names = two_tables(catalog, "refused")
    for name in names:
        catalog.load_table(name).set_properties({"commit.retry.num-retries": "0"})

    def append_to_both():
        with catalog.transaction() as tx:
            for name in names:
                tx.load_table(name).append(pa.table({"n": [1]}))
            catalog.load_table(names[0]).append(pa.table({"n": [7]}))

    with pytest.raises(ConflictError):
        append_to_both()
    assert [numbers(catalog, name) for name in names] == [[7], []]


def test_names(reference_server):
    catalog = connect(reference_server, "server")
    first, second = two_tables(catalog, "names")
    catalog.load_table(first).append(pa.table({"n": [3]}))
    with pytest.raises(AlreadyExistsError, match=r"names\.b"):
        catalog.rename_table(first, second)
    catalog.rename_table(first, "names.c")
    assert catalog.list_tables("names") == ["names.b", "names.c"]
    assert numbers(catalog, "names.c") == [3]
    with pytest.raises(NotFoundError):
        catalog.load_table(first)
    catalog.drop_table("names.c")
    assert catalog.list_tables("names") == ["names.b"]
