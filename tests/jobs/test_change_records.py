"""Change records: what they come to per key, against a plain dictionary; in tables of both formats, once each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skerry
from skerry.catalog import Table
from skerry.errors import SchemaError, StreamNameError, UnsupportedError
from skerry.jobs.change_records import DELETE, RecordColumns, latest_rows, net_changes

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("shop", pa.string(), nullable=False),
        pa.field("amount", pa.int32(), nullable=False),
        pa.field("note", pa.string()),
    ]
)
KEY = pa.struct([pa.field("id", pa.int64()), pa.field("shop", pa.string())])
RECORDS = pa.schema(
    [
        ("op", pa.string()),
        ("id", pa.int64()),
        ("shop", pa.string()),
        ("amount", pa.int32()),
        ("note", pa.string()),
        ("lsn", pa.int64()),
        ("before", KEY),
    ]
)
COLUMNS = RecordColumns(("id", "shop"), order_by=("lsn",))
Record = dict[str, Any]


def records(*rows: Record) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in RECORDS.names} for row in rows], schema=RECORDS)


def apply_plainly(model: dict[Any, Record], rows: list[Record]) -> None:
    """The plain twin: records one after the other."""
    for row in rows:
        key = (row["id"], row["shop"])
        before = row.get("before")
        if before is not None and row["op"] in ("u", "+U"):
            model.pop((before["id"], before["shop"]), None)
        if row["op"] in ("d", "D", "-D", "-U"):
            model.pop(key, None)
        else:
            model[key] = {name: row[name] for name in SCHEMA.names}


keys = st.fixed_dictionaries({"id": st.integers(0, 4), "shop": st.sampled_from(["north", "south"])})


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    """Records of one source, in order."""
    history = []
    for lsn in range(draw(st.integers(1, 24))):
        op = draw(st.sampled_from(["c", "u", "d", "r", "+I", "+U", "-D"]))
        row = {"op": op, **draw(keys), "lsn": lsn}
        if op not in ("d", "-D"):
            row |= {"amount": draw(st.integers(-9, 9)), "note": draw(st.sampled_from([None, "", "long " * 9]))}
        if op in ("u", "+U") and draw(st.booleans()):
            row["before"] = draw(keys)
        history.append(row)
    return history


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[list[Record], list[list[Record]]]:
    """A history, and batches in which it came: cut anywhere, some stretches again, shuffled within a batch."""
    history = draw(histories())
    batches, place = [], 0
    while place < len(history):
        again = draw(st.integers(0, place))
        end = draw(st.integers(place + 1, len(history)))
        start = again if draw(st.booleans()) else place
        stretch = history[start:end] + (history[start:end] if draw(st.booleans()) else [])
        batches.append(draw(st.permutations(stretch)))
        place = end
    return history, batches


def as_rows(table: pa.Table) -> list[Record]:
    return sorted(table.select(SCHEMA.names).to_pylist(), key=lambda row: (row["id"], row["shop"]))


def expected(model: dict[Any, Record]) -> list[Record]:
    return [model[key] for key in sorted(model)]


@settings(max_examples=40)
@given(deliveries())
def test_batches_come_to_what_their_records_do_one_by_one(delivery: tuple[list[Record], list[list[Record]]]) -> None:
    history, batches = delivery
    model: dict[Any, Record] = {}
    apply_plainly(model, history)
    found: dict[Any, Record] = {}
    for batch in batches:
        net = net_changes(records(*batch), COLUMNS, SCHEMA)
        assert net.records == len(batch)
        assert net.upserts + net.deletes == net.rows.num_rows
        for row, kind in zip(net.rows.to_pylist(), net.kinds.tolist(), strict=True):
            key = (row["id"], row["shop"])
            assert not (key in found and found[key] is row)
            if kind == DELETE:
                found.pop(key, None)
            else:
                found[key] = row
    assert expected(found) == expected(model)


@settings(max_examples=25)
@given(histories(), st.booleans())
def test_without_an_order_records_count_as_they_stand(history: list[Record], is_chunked: bool) -> None:
    table = records(*history).drop_columns(["lsn"])
    if is_chunked:
        table = pa.concat_tables([table.slice(0, 3), table.slice(3)])
    net = net_changes(table, RecordColumns(("id", "shop")), SCHEMA)
    model: dict[Any, Record] = {}
    apply_plainly(model, history)
    rows = net.rows.filter(pa.array(~net.is_gone))
    assert as_rows(rows) == expected(model)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30))
def test_the_kernel_chooses_as_plain_python_does(rows: list[tuple[int, int, int]]) -> None:
    keys, order = [key for key, *_ in rows], [words for _, *words in rows]
    first = np.array([keys.index(key) for key in keys], np.int64)
    latest = np.full(len(keys), -1, np.int64)
    latest_rows(first, np.array(order, np.int64), latest)
    for row, key in enumerate(keys):
        of_key = [other for other in range(len(keys)) if keys[other] == key]
        last = max(of_key, key=lambda other: (order[other], other))
        assert latest[row] == (last if row == of_key[0] else -1)


def test_an_update_that_moves_a_row_takes_its_old_key_away() -> None:
    net = net_changes(
        records(
            {"op": "u", "id": 2, "shop": "a", "amount": 1, "lsn": 5, "before": {"id": 1, "shop": "a"}},
            {"op": "c", "id": 1, "shop": "a", "amount": 7, "lsn": 6},
            {"op": "u", "id": 3, "shop": "a", "amount": 2, "lsn": 7, "before": {"id": 3, "shop": "a"}},
            {"op": "u", "id": 5, "shop": "a", "amount": 2, "lsn": 8, "before": {"id": 4, "shop": "a"}},
        ),
        COLUMNS,
        SCHEMA,
    )
    assert [(row["id"], row["amount"]) for row in net.rows.to_pylist()] == [(2, 1), (1, 7), (3, 2), (5, 2), (4, None)]
    assert net.is_gone.tolist() == [False, False, False, False, True]


def test_of_an_update_s_two_records_the_new_row_counts_whichever_comes_last() -> None:
    pair = [
        {"op": "+U", "id": 1, "shop": "a", "amount": 2, "lsn": 5},
        {"op": "-U", "id": 1, "shop": "a", "amount": 1, "lsn": 5},
    ]
    for rows in (pair, pair[::-1]):
        assert net_changes(records(*rows), COLUMNS, SCHEMA).rows.to_pylist()[0]["amount"] == 2


def test_a_delete_may_tell_its_key_before_only() -> None:
    net = net_changes(records({"op": "d", "lsn": 1, "before": {"id": 1, "shop": "a"}}), COLUMNS, SCHEMA)
    assert net.rows.to_pylist() == [{"id": 1, "shop": "a", "amount": None, "note": None}]
    assert net.deletes == 1


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (pa.array(["0/9", "0/A", "0/A"]), [2]),
        (pa.array([b"\x02", b"\x01", b"\x00"]), [0]),
        (pa.array([3, 2, 1], pa.decimal128(20, 0)), [0]),
        (pa.array([1, 3, 2], pa.timestamp("us", "UTC")), [1]),
        (pa.array([1, 3, 2], pa.date32()), [1]),
        (pa.array([2**64 - 1, 1, 2], pa.uint64()), [0]),
        (pa.array([1.5, -0.5, float("-inf")]), [0]),
    ],
)
def test_records_are_ordered_by_what_has_an_order(values: pa.Array, order: list[int]) -> None:
    table = pa.table({"op": ["u"] * 3, "id": [1] * 3, "shop": ["a"] * 3, "amount": [0, 1, 2], "at": values})
    net = net_changes(table, RecordColumns(("id", "shop"), order_by=("at",)), SCHEMA)
    assert net.rows.column("amount").to_pylist() == order


def test_of_several_order_columns_the_first_that_differs_decides() -> None:
    table = pa.table(
        {
            "op": ["u"] * 3,
            "id": [1] * 3,
            "shop": ["a"] * 3,
            "amount": [0, 1, 2],
            "file": ["log.2", "log.2", "log.1"],
            "pos": [5, 4, 9],
        }
    )
    net = net_changes(table, RecordColumns(("id", "shop"), order_by=("file", "pos")), SCHEMA)
    assert net.rows.column("amount").to_pylist() == [0]


BAD = [
    ({"op": "x"}, "record 1: column 'op' is 'x', which is not an op code; expected one of c, r, u"),
    ({"op": None}, "record 1: column 'op' is None, which is not an op code"),
    ({"id": None}, "record 1: column 'id' of the key is null"),
    ({"lsn": None}, "record 1: column 'lsn', by which records are ordered, is null"),
]


@pytest.mark.parametrize(("wrong", "message"), BAD)
def test_a_record_that_cannot_be_applied_is_named(wrong: Record, message: str) -> None:
    good = {"op": "c", "id": 1, "shop": "a", "amount": 1, "lsn": 1}
    with pytest.raises(SchemaError, match=message):
        net_changes(records(good, {**good, **wrong}), COLUMNS, SCHEMA)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop_columns(["op"]), "the records have no op column 'op'"),
        (lambda table: table.drop_columns(["lsn"]), "the records have no order column 'lsn'"),
        (lambda table: table.drop_columns(["shop"]), "the records have no key column 'shop'"),
        (lambda table: table.append_column("more", table.column("id")), "the table has no column 'more'"),
        (lambda table: table.append_column("id", table.column("id")), "column 'id' is in the records twice"),
    ],
)
def test_columns_that_do_not_fit_are_named(change: Any, message: str) -> None:
    table = records({"op": "c", "id": 1, "shop": "a", "amount": 1, "lsn": 1})
    with pytest.raises(SchemaError, match=message):
        net_changes(change(table), COLUMNS, SCHEMA)


# Tables --------------------------------------------------------------------------------------------------------------

TABLES = {
    "iceberg v2 copies": ("iceberg", {"format-version": "2"}),
    "iceberg v2 marks": ("iceberg", {"format-version": "2", "write.merge.mode": "merge-on-read"}),
    "iceberg v3 copies": ("iceberg", {"format-version": "3"}),
    "iceberg v3 marks": ("iceberg", {"format-version": "3", "write.merge.mode": "merge-on-read"}),
    "paimon fixed": ("paimon", {}),
    "paimon dynamic": ("paimon", {"bucket": "-1"}),
}


def make_table(folder: Path, kind: str, name: str, **more: str) -> Table:
    format, properties = TABLES[kind]
    catalog = skerry.connect(folder)
    partition_by = ["bucket(2, id)"] if kind == "paimon fixed" else []
    return catalog.create_table(
        f"t.{name}",
        SCHEMA,
        format=format,
        primary_key=["id", "shop"],
        partition_by=partition_by,
        properties=properties | more,
    )


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_becomes_what_the_records_say(kind: str, tmp_path: Path) -> None:
    number = iter(range(1000))

    @settings(max_examples=3)
    @given(deliveries())
    def check(delivery: tuple[list[Record], list[list[Record]]]) -> None:
        history, batches = delivery
        table = make_table(tmp_path, kind, f"n{next(number)}")
        model: dict[Any, Record] = {}
        apply_plainly(model, history)
        for batch, rows in enumerate(batches):
            done = table.apply_changes(records(*rows), order_by="lsn", stream="s", batch=batch)
            assert done.applied
            assert done.records == len(rows)
            again = table.apply_changes(records(*rows), order_by="lsn", stream="s", batch=batch)
            assert again.snapshot_id == done.snapshot_id
        assert as_rows(table.scan().to_arrow()) == expected(model)

    check()


@pytest.mark.parametrize("kind", TABLES)
def test_a_batch_is_applied_once(kind: str, tmp_path: Path) -> None:
    table = make_table(tmp_path, kind, "once")
    first = records({"op": "c", "id": 1, "shop": "a", "amount": 1, "lsn": 1})
    second = records(
        {"op": "u", "id": 1, "shop": "a", "amount": 2, "lsn": 2}, {"op": "d", "id": 2, "shop": "a", "lsn": 3}
    )
    assert table.apply_changes(first, order_by="lsn", stream="s", batch=0, query="q").applied
    done = table.apply_changes(second, order_by="lsn", stream="s", batch=1, query="q")
    assert (done.upserts, done.deletes, done.records) == (1, 1, 2)
    for batch in (0, 1):
        again = table.apply_changes(first, order_by="lsn", stream="s", batch=batch, query="q")
        assert not again.applied
        assert again.snapshot_id == done.snapshot_id
    with pytest.raises(StreamNameError, match="batch 1 of query q under this name"):
        table.apply_changes(first, order_by="lsn", stream="s", batch=1, query="another")
    assert table.refresh().scan().to_arrow().column("amount").to_pylist() == [2]
    assert table.apply_changes(first, order_by="lsn", stream="another", batch=0).applied


@pytest.mark.parametrize("kind", TABLES)
def test_rows_of_a_stream_s_batch_are_appended_once(kind: str, tmp_path: Path) -> None:
    table = make_table(tmp_path, kind, "appended")
    rows = pa.table({"id": [1], "shop": ["a"], "amount": [1], "note": [None]}, schema=SCHEMA)
    for batch, applied in (0, True), (0, False), (1, True), (1, False):
        snapshot = table.append(rows, stream="s", batch=batch)
        assert snapshot.applied == applied
    with pytest.raises(StreamNameError, match="batch 0 of stream 's' is refused: the table has batch 1 under this"):
        table.append(rows, stream="s", batch=0)
    assert len(table.snapshots()) == 2
    with pytest.raises(SchemaError, match="stream= and batch= must be given together"):
        table.append(rows, stream="s")
    with pytest.raises(SchemaError, match="query= and take_over= need stream= and batch="):
        table.append(rows, query="q")


def test_iceberg_tells_what_became_of_the_rows(tmp_path: Path) -> None:
    table = make_table(tmp_path, "iceberg v3 marks", "told")
    one = {"op": "c", "shop": "a", "amount": 1, "lsn": 1}
    done = table.apply_changes(records({**one, "id": 1}, {**one, "id": 2}, {**one, "id": 3}), order_by="lsn")
    assert (done.inserted_rows, done.updated_rows, done.deleted_rows) == (3, 0, 0)
    done = table.apply_changes(
        records(
            {**one, "id": 1, "op": "u"}, {**one, "id": 2, "op": "d"}, {**one, "id": 4}, {**one, "id": 9, "op": "d"}
        ),
        order_by="lsn",
    )
    assert (done.inserted_rows, done.updated_rows, done.deleted_rows) == (1, 1, 1)
    assert all(found.freshness.is_fresh for found in table.statistics().values())


def test_records_older_than_their_row_do_nothing_where_the_table_tells(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("a", pa.int64()), pa.field("b", pa.int64())])
    catalog = skerry.connect(tmp_path)
    iceberg = catalog.create_table("t.i", schema, primary_key=["id"])
    paimon = catalog.create_table(
        "t.p",
        schema,
        format="paimon",
        primary_key=["id"],
        partition_by=["bucket(1, id)"],
        properties={"sequence.field": "a,b"},
    )
    for table in (iceberg, paimon):
        for op, a, b in (("c", 2, 2), ("u", 2, 1), ("u", 1, 9), ("d", 2, 1), ("u", 2, 2), ("u", 3, 0), ("d", 2, 9)):
            table.apply_changes(pa.table({"op": [op], "id": [1], "a": [a], "b": [b]}), order_by=("a", "b"))
        assert table.scan().to_arrow().to_pylist() == [{"id": 1, "a": 3, "b": 0}]


def test_blind_changes_do_not_look_at_the_table(tmp_path: Path) -> None:
    table = make_table(tmp_path, "iceberg v2 marks", "blind")
    one = {"op": "c", "shop": "a", "amount": 1, "lsn": 1}
    table.apply_changes(records({**one, "id": 1}, {**one, "id": 2}, {**one, "id": 3}), order_by="lsn")
    done = table.apply_changes(
        records({**one, "id": 1, "op": "u", "amount": 5}, {**one, "id": 2, "op": "d"}), order_by="lsn", blind=True
    )
    assert (done.inserted_rows, done.updated_rows, done.deleted_rows) == (None, None, None)
    assert [(row["id"], row["amount"]) for row in as_rows(table.scan().to_arrow())] == [(1, 5), (3, 1)]


def test_tables_that_cannot_follow_say_why(tmp_path: Path) -> None:
    catalog = skerry.connect(tmp_path)
    change = records({"op": "c", "id": 1, "shop": "a", "amount": 1, "lsn": 1})
    with pytest.raises(SchemaError, match="no identifier columns: apply_changes needs on="):
        catalog.create_table("t.i", SCHEMA).apply_changes(change, order_by="lsn")
    with pytest.raises(UnsupportedError, match="no primary key"):
        catalog.create_table("t.p", SCHEMA, format="paimon").apply_changes(change, order_by="lsn")
    with pytest.raises(UnsupportedError, match="no primary key"):
        catalog.load_table("t.p").apply_changes(change, on="id", order_by="lsn")
    summed = make_table(
        tmp_path, "paimon fixed", "summed", **{"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"}
    )
    with pytest.raises(UnsupportedError, match="merge-engine=aggregation: change records hold whole rows"):
        summed.apply_changes(change, order_by="lsn")
    table = make_table(tmp_path, "paimon fixed", "plain")
    with pytest.raises(UnsupportedError, match="with primary key id, shop are applied by that key only"):
        table.apply_changes(change, on="id", order_by="lsn")
    with pytest.raises(SchemaError, match="no column 'note': rows of a Paimon table are written whole"):
        table.apply_changes(change.drop_columns(["note"]), order_by="lsn")
    with pytest.raises(SchemaError, match="stream= and batch= must be given together"):
        table.apply_changes(change, order_by="lsn", batch=1)
