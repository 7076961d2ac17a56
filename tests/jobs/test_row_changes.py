"""Deletes, overwrites, upserts and merges against a list of rows: both modes, versions 1 to 3, partitioned or not."""

from __future__ import annotations

import math
import pickle
import tempfile
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

import skerry
from skerry import Delete, Insert, Update
from skerry.errors import SchemaError, UnsupportedError
from torture import examples

SCHEMA = pa.schema([("k", pa.int64()), ("f", pa.float64()), ("x", pa.int32()), ("s", pa.string())])
CHANGES = pa.schema([*SCHEMA, ("op", pa.string())])
COPY, MARK = "copy-on-write", "merge-on-read"


def table_of(rows, schema=SCHEMA):
    return pa.table([[row[n] for row in rows] for n in range(len(schema))], schema=schema)


def plain(row):
    return tuple("nan" if isinstance(value, float) and value != value else value for value in row)


def counted(rows):
    """Rows without order; -0.0 is 0.0, and all NaNs are one."""
    return Counter(map(plain, rows))


def rows_of(arrow):
    return [tuple(row[name] for name in SCHEMA.names) for row in arrow.to_pylist()]


def make(folder, version, mode, partition_by=(), **properties):
    return skerry.connect(folder).create_table(
        "d.t",
        SCHEMA,
        partition_by=partition_by,
        properties={
            "format-version": version,
            "write.delete.mode": mode,
            "write.merge.mode": mode,
            "write.merge.isolation-level": "serializable",
            **properties,
        },
    )


# The model -----------------------------------------------------------------------------------------------------------

FLOATS = st.sampled_from([0.0, -0.0, 1.5, math.nan])
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(0, 6), st.none() | FLOATS, st.none() | st.integers(0, 3), st.sampled_from(["a", "b"])
    ),
    max_size=8,
)


def less(value, other):
    return value is not None and value < other


CONDITIONS = [
    ("k = 3", lambda row: row[0] == 3),
    ("k in (1, 2, 5)", lambda row: row[0] in (1, 2, 5)),
    ("k is null or x < 1", lambda row: row[0] is None or less(row[2], 1)),
    ("isnan(f)", lambda row: row[1] is not None and row[1] != row[1]),
    ("s = 'a'", lambda row: row[3] == "a"),
    ("k > 100", lambda row: False),
    ("k is null or k is not null", lambda row: True),
]
KEYS = st.sampled_from([("k",), ("f",), ("k", "f"), ("s", "k")])


def key_of(row, on):
    key = plain(row[SCHEMA.names.index(name)] for name in on)
    return None if None in key else key


def distinct(rows, on):
    """Rows without those whose key an earlier one has."""
    seen: set = set()
    return [
        row for row in rows if key_of(row, on) is None or not (key_of(row, on) in seen or seen.add(key_of(row, on)))
    ]


class Upsert:
    def __init__(self, rows, on, blind=False):
        self.rows, self.on, self.blind = distinct(rows, on), on, blind

    def __repr__(self):
        return f"upsert({self.rows}, on={self.on}, blind={self.blind})"

    def do(self, table):
        return table.upsert(table_of(self.rows), list(self.on), blind=self.blind)

    def twin(self, model):
        by_key = {key_of(row, self.on): row for row in self.rows if key_of(row, self.on) is not None}
        keys = [key_of(row, self.on) for row in model]
        if self.blind:
            return [row for row, key in zip(model, keys, strict=True) if key not in by_key] + self.rows
        kept = [by_key.get(key, row) for row, key in zip(model, keys, strict=True)]
        return kept + [row for row in self.rows if key_of(row, self.on) is None or key_of(row, self.on) not in keys]


class Merge:
    """Changes with an operation each, the newer of two values wins, and rows that no one names grow old."""

    def __init__(self, rows, ops, on):
        self.rows, self.on = distinct(rows, on), on
        self.ops = [ops[n % len(ops)] for n in range(len(self.rows))]

    def __repr__(self):
        return f"merge({self.rows}, {self.ops}, on={self.on})"

    def do(self, table):
        changes = table_of([(*row, op) for row, op in zip(self.rows, self.ops, strict=True)], CHANGES)
        return table.merge(
            changes,
            on=list(self.on),
            when_matched=[
                Delete("source.op = 'D'"),
                Update({"x": "source.x", "s": "source.s"}, "source.x > target.x"),
                Update({"x": pc.add(pc.field("target", "x"), pa.scalar(10, pa.int32()))}, "source.op = 'I'"),
            ],
            when_not_matched=[Insert(where="op = 'U'"), Insert({"k": "k", "s": "'new'"}, where="op = 'I'")],
            when_not_matched_by_source=[Update({"s": "'old'"}, "target.x = 2"), Delete("x = 3 and s <> 'old'")],
        )

    def twin(self, model):
        sources = {
            key_of(row, self.on): (row, op)
            for row, op in zip(self.rows, self.ops, strict=True)
            if key_of(row, self.on) is not None
        }
        result = []
        for old in model:
            if key_of(old, self.on) in sources:
                row, op = sources[key_of(old, self.on)]
                if op == "D":
                    continue
                if row[2] is not None and old[2] is not None and row[2] > old[2]:
                    old = (*old[:2], row[2], row[3])
                elif op == "I":
                    old = (*old[:2], None if old[2] is None else old[2] + 10, old[3])
            elif old[2] == 2:
                old = (*old[:3], "old")
            elif old[2] == 3 and old[3] != "old":
                continue
            result.append(old)
        keys = {key_of(old, self.on) for old in model}
        for row, op in zip(self.rows, self.ops, strict=True):
            if key_of(row, self.on) is None or key_of(row, self.on) not in keys:
                result += [row] if op == "U" else [(row[0], None, None, "new")] if op == "I" else []
        return result


class Remove:
    def __init__(self, condition, rows):
        (self.text, self.test), self.rows = condition, rows

    def __repr__(self):
        return f"overwrite({self.rows}, {self.text!r})" if self.rows is not None else f"delete({self.text!r})"

    def do(self, table):
        if self.rows is None:
            return table.delete(self.text)
        return table.overwrite(table_of(self.rows), self.text)

    def twin(self, model):
        return [row for row in model if not self.test(row)] + (self.rows or [])


STEPS = st.one_of(
    st.builds(Upsert, ROWS, KEYS),
    st.builds(Upsert, ROWS, st.sampled_from([("k",), ("s", "k")]), st.just(True)),
    st.builds(Merge, ROWS, st.lists(st.sampled_from("DUI"), min_size=1), KEYS),
    st.builds(Remove, st.sampled_from(CONDITIONS), st.none() | ROWS),
)


@settings(max_examples=examples(12))
@given(
    st.sampled_from(["2", "3"]),
    st.sampled_from([COPY, MARK]),
    st.sampled_from([[], ["bucket(3, k)"], ["s"]]),
    st.lists(ROWS, min_size=1, max_size=2),
    st.lists(STEPS, min_size=1, max_size=4),
)
def test_tables_hold_what_the_model_holds(version, mode, partition_by, appended, steps):
    with tempfile.TemporaryDirectory() as folder:
        table = make(folder, version, mode, partition_by)
        model = []
        for rows in appended:
            table.append(table_of(rows))
            model += rows
        for step in steps:
            if isinstance(step, Upsert) and step.blind and partition_by and partition_by[0] not in step.on:
                step.blind = partition_by == ["bucket(3, k)"]
            expected = step.twin(model)
            done = step.do(table)
            assert counted(rows_of(table.scan().to_arrow())) == counted(expected), step
            if done.deleted_rows is not None:
                assert len(expected) == len(model) + done.inserted_rows - done.deleted_rows, step
            assert table.scan().count() == len(expected)
            model = expected
        if version == "3":
            ids = table.scan(columns=["_row_id"]).to_arrow()["_row_id"].to_pylist()
            assert None not in ids
            assert len(set(ids)) == len(model)


def peer_rows(folder):
    """What PyIceberg reads."""
    catalog = SqlCatalog("skerry", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    return rows_of(catalog.load_table("d.t").scan().to_arrow())


@pytest.mark.parametrize("partition_by", [[], ["bucket(3, k)"]], ids=str)
@pytest.mark.parametrize("mode", [COPY, MARK])
@pytest.mark.parametrize("version", ["2", "3"])
def test_pyiceberg_reads_the_same_rows(tmp_path, version, mode, partition_by):
    table = make(tmp_path, version, mode, partition_by)
    model = [(n, n / 2, n % 4, "ab"[n % 2]) for n in range(40)]
    table.append(table_of(model))
    model += [(n, None, None, "c") for n in range(40, 50)]
    table.append(table_of(model[40:]))
    steps = [
        Remove(("k in (1, 2, 41)", lambda row: row[0] in (1, 2, 41)), None),
        Upsert([(3, 0.0, 9, "n"), (60, math.nan, 1, "n"), (None, 1.0, 1, "n")], ("k",)),
        Merge([(5, 0.0, 9, "m"), (6, 0.0, 0, "m"), (7, 0.0, 0, "m"), (70, 0.0, 1, "m")], ["U", "D", "I"], ("k",)),
        Remove(("k > 45", lambda row: row[0] is not None and row[0] > 45), [(100, 1.0, 1, "o")]),
    ]
    for step in steps:
        step.do(table)
        model = step.twin(model)
    assert counted(rows_of(table.scan().to_arrow())) == counted(model)
    assert counted(peer_rows(tmp_path)) == counted(model)


def test_version_1_is_copied_and_never_marked(tmp_path):
    table = make(tmp_path, "1", COPY)
    table.append(table_of([(1, 1.0, 1, "a"), (2, 2.0, 2, "b")]))
    table.upsert(table_of([(2, 3.0, 3, "c"), (3, 3.0, 3, "c")]), "k")
    table.delete("k = 1")
    assert counted(peer_rows(tmp_path)) == counted([(2, 3.0, 3, "c"), (3, 3.0, 3, "c")])
    with pytest.raises(UnsupportedError, match=r"a blind merge needs delete files.*upgrade"):
        table.upsert(table_of([(2, 3.0, 3, "c")]), "k", blind=True)
    table.set_properties({"write.delete.mode": MARK})
    with pytest.raises(UnsupportedError, match=r"write.delete.mode=merge-on-read needs delete files"):
        table.delete("k = 2")


def test_rows_keep_their_ids_and_say_when_they_changed(tmp_path):
    for mode in (COPY, MARK):
        table = make(tmp_path / mode, "3", mode)
        table.append(table_of([(n, float(n), n, "a") for n in range(6)]))
        table.upsert(pa.table({"k": pa.array([1, 9]), "s": ["u", "i"]}), "k")
        table.upsert(table_of([(2, 0.0, 0, "full")]), "k")
        table.merge(pa.table({"k": pa.array([3])}), "k", when_matched="delete")
        table.delete("k = 4")
        found = table.scan(columns=["k", "s", "_row_id", "_last_updated_sequence_number"]).to_arrow().to_pylist()
        by_key = {row["k"]: (row["s"], row["_row_id"], row["_last_updated_sequence_number"]) for row in found}
        inserted = by_key.pop(9)
        assert by_key == {0: ("a", 0, 1), 1: ("u", 1, 2), 2: ("full", 2, 3), 5: ("a", 5, 1)}
        assert inserted[0] == "i"
        assert inserted[1] >= 6
        assert inserted[2] == 2


# What is said --------------------------------------------------------------------------------------------------------


def test_several_rows_for_one_are_an_error_that_names_the_key(tmp_path):
    table = make(tmp_path, "2", MARK)
    table.append(table_of([(1, 1.0, 1, "a"), (2, math.nan, 2, "b")]))
    before = table.current_snapshot()
    twice = table_of([(7, 0.0, 0, "z"), (2, math.nan, 0, "y"), (2, math.nan, 0, "z")])
    with pytest.raises(SchemaError, match="several rows of the source have one key: k=2, f=nan"):
        table.upsert(twice, ["k", "f"])
    with pytest.raises(SchemaError, match="several rows of the source match one row of the table: those of f=nan"):
        table.merge(twice, "f", when_matched="update")
    assert table.refresh().current_snapshot() == before
    done = table.merge(twice, "k", when_matched="delete", when_not_matched="insert")
    assert (done.deleted_rows, done.inserted_rows) == (1, 1)
    again = table_of([(8, 0.0, 0, "z"), (8, 1.0, 0, "z"), (None, 1.0, 0, "n"), (None, 1.0, 0, "n")])
    assert table.merge(again, "k", when_matched="update", when_not_matched="insert").inserted_rows == 4


@pytest.mark.parametrize(
    ("rows", "on", "message"),
    [
        (table_of([]), [], "on= must be a list of distinct names"),
        (table_of([]), ["k", "k"], "on= must be a list of distinct names"),
        (table_of([]), "kk", "the table has no column 'kk'"),
        (pa.table({"x": [1]}), "k", "the source has no column 'k'"),
        (pa.table({"k": ["a"]}), "k", "column 'k' is string in the data, but int64 in the table"),
        (pa.table({"k": [1], "y": [1]}), "k", "column 'y' of the source is not a column of the table"),
        (pa.table([[1], [1]], ["k", "k"]), "k", "column 'k' is in the source twice"),
        (7, "k", "data of type int cannot be read"),
    ],
    ids=str,
)
def test_upserts_that_do_not_fit(tmp_path, rows, on, message):
    table = make(tmp_path, "2", COPY)
    with pytest.raises(SchemaError, match=message):
        table.upsert(rows, on)


def test_what_a_table_or_a_merge_cannot_do(tmp_path):
    table = make(tmp_path / "a", "2", COPY)
    with pytest.raises(SchemaError, match="a merge needs at least one clause"):
        table.merge(table_of([]), "k")
    with pytest.raises(UnsupportedError, match="floating-point column 'f'"):
        table.upsert(table_of([]), "f", blind=True)
    with pytest.raises(UnsupportedError, match="a blind merge must leave every row of the source the same way"):
        table.merge(table_of([(1, 1.0, 1, "a")]), "k", when_matched="update", blind=True)
    with pytest.raises(SchemaError, match=r"write\.merge\.isolation-level is 'lax'; there are: serializable, snapshot"):
        make(tmp_path / "c", "2", COPY, **{"write.merge.isolation-level": "lax"}).upsert(table_of([]), "k")
    with table.catalog.iceberg_catalog.load_table(table.name).transaction() as transaction:
        transaction.set_properties({"write.merge.mode": "sometimes"})
    with pytest.raises(SchemaError, match=r"mode must be copy-on-write or merge-on-read, found 'sometimes'"):
        table.upsert(table_of([(1, 1.0, 1, "a")]), "k")
    by_s = make(tmp_path / "b", "2", MARK, ["s"])
    with pytest.raises(UnsupportedError, match="partitioned by 's', which is not among them"):
        by_s.upsert(table_of([(1, 1.0, 1, "a")]), "k", blind=True)


def test_nothing_to_change_makes_no_snapshot(tmp_path):
    table = make(tmp_path, "2", MARK)
    assert table.delete("k = 1").snapshot_id is None
    assert table.upsert(table_of([]), "k").snapshot_id is None
    table.append(table_of([(1, 1.0, 1, "a")]))
    before = table.current_snapshot()
    assert table.delete("k = 2").snapshot_id == before.snapshot_id
    assert table.merge(table_of([(2, 1.0, 1, "a")]), "k", when_matched="update").updated_rows == 0
    assert table.refresh().current_snapshot() == before


class PicklingExecutor:
    """What an executor elsewhere does to functions, tasks and results."""

    def map(self, function, tasks):
        sent = pickle.dumps(function)
        for task in tasks:
            yield pickle.loads(pickle.dumps(pickle.loads(sent)(pickle.loads(pickle.dumps(task)))))


@pytest.mark.parametrize("mode", [COPY, MARK])
def test_the_work_can_be_sent_elsewhere(tmp_path, mode):
    table = make(tmp_path, "3", mode)
    table.append(table_of([(n, n / 2, n, "a") for n in range(20)]))
    told = []
    executor = {"executor": PicklingExecutor(), "progress": told.append}
    table.delete("k in (1, 2)", **executor)
    table.upsert(table_of([(3, 0.0, 0, "u"), (30, 0.0, 0, "i")]), "k", **executor)
    add = pc.add(pc.field("target", "x"), pc.field("source", "x"))
    table.merge(table_of([(4, 0.0, 100, "m")]), "k", when_matched=Update({"x": add}, "source.x > 1"), **executor)
    found = {row[0]: row for row in rows_of(table.scan().to_arrow())}
    assert len(found) == 19
    assert (found[3], found[30], found[4]) == ((3, 0.0, 0, "u"), (30, 0.0, 0, "i"), (4, 2.0, 104, "a"))
    steps = {"find", "match"} | ({"rewrite"} if mode == COPY else {"update"})
    assert {progress.step for progress in told} == steps


def test_changes_are_staged_and_published(tmp_path):
    table = make(tmp_path, "2", MARK)
    table.append(table_of([(1, 1.0, 1, "a"), (2, 1.0, 1, "a")]))
    tip = table.current_snapshot().snapshot_id
    staged = table.delete("k = 1", staged=True)
    assert staged.snapshot_id != tip
    assert table.refresh().current_snapshot().snapshot_id == tip
    assert table.scan(snapshot=staged.snapshot_id).count() == 1
    table.set_properties({"write.wap.enabled": "true"})
    named = table.upsert(table_of([(2, 2.0, 2, "b")]), "k", snapshot_properties={"wap.id": "w"})
    assert rows_of(table.scan(snapshot=named.snapshot_id, where="k = 2").to_arrow()) == [(2, 2.0, 2, "b")]
    blind = table.upsert(table_of([(2, 3.0, 3, "c")]), "k", blind=True, staged=True)
    assert len({tip, staged.snapshot_id, named.snapshot_id, blind.snapshot_id}) == 4
    assert table.refresh().current_snapshot().snapshot_id == tip


def test_branches_are_changed_alone(tmp_path):
    table = make(tmp_path, "2", MARK)
    table.append(table_of([(1, 1.0, 1, "a"), (2, 1.0, 1, "a")]))
    table.create_branch("dev")
    table.delete("k = 1", ref="dev", snapshot_properties={"why": "test"})
    table.upsert(table_of([(2, 1.0, 1, "b")]), "k", ref="dev")
    assert rows_of(table.scan(ref="dev").to_arrow()) == [(2, 1.0, 1, "b")]
    assert len(rows_of(table.scan().to_arrow())) == 2
    assert any(snapshot.summary.get("why") == "test" for snapshot in table.snapshots())
