"""A state machine that does to a table what users do, in any order, and compares it with plain dictionaries.

It knows no table format: `FormatUnderTest` creates the table and says what the format can do. After every step the
rows, their number and the statistics of every column must be right; now and then another engine reads the table too.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import event
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from table_model import KEY, ModelColumn, Named, TableModel, Version, content_of

import skerry
from skerry.table.statistics.column_statistics import FreshnessState

BASE_COLUMNS = (
    ModelColumn(0, KEY, pa.int64()),
    ModelColumn(1, "grp", pa.int32()),
    ModelColumn(2, "word", pa.string()),
    ModelColumn(3, "x", pa.float64()),
)
_KEYS = 40
_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int32(): st.none() | st.integers(0, 3),
    pa.int64(): st.none() | st.sampled_from([0, 1, -5, 1 << 40]),
    pa.string(): st.none() | st.sampled_from(["", "a", "ab", "word", "ключ"]),
    pa.float64(): st.none() | st.sampled_from([0.5, 1.5, float("nan"), float("inf")]),
}


@dataclass(frozen=True)
class FormatUnderTest:
    """A table format as the machine sees it.

    Args:
        create: Makes an empty table of `BASE_COLUMNS` in a catalog, from drawn choices.
        choices: Draws how the table is made.
        can: The operations that the format has.
        read_with_peer: Reads all rows with another engine; None where it cannot.
        change_layout: Draws and makes a change of how files are written, and says which.
        is_in_layout: Whether files are laid out by a column, so that it cannot be dropped.
        row_numbers: Lasting numbers of the rows of a branch by key; empty where the format has none.
        takes_defaults: Whether columns can have defaults.
        takes_key_deletes: Whether keys can be deleted without looking for them.
    """

    create: Callable[[skerry.catalog.Catalog, pa.Schema, Any], Any]
    choices: st.SearchStrategy[Any]
    can: frozenset[str]
    read_with_peer: Callable[[Any], pa.Table | None]
    change_layout: Callable[[Any, st.DataObject], str]
    is_in_layout: Callable[[Any, str], bool]
    row_numbers: Callable[[Any, str], Mapping[int, int]]
    takes_defaults: Callable[[Any], bool]
    takes_key_deletes: Callable[[Any], bool]


@dataclass(frozen=True)
class Condition:
    """The same condition twice: as the table takes it, and as Python."""

    sql: str
    holds: Callable[[Named], bool] = field(repr=False)


class Interference:
    """Runs tasks, and lets another writer act once they are done for the first time.

    Args:
        act: What the other writer does.
    """

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act
        self.is_done = False

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        results = [function(task) for task in tasks]
        if not self.is_done:
            self.is_done = True
            self._act()
        yield from results


def conditions() -> st.SearchStrategy[Condition]:
    """Conditions over columns that no step takes away."""
    keys = st.integers(0, _KEYS - 1)
    return st.one_of(
        keys.map(lambda k: Condition(f"id = {k}", lambda row: row["id"] == k)),
        keys.map(lambda k: Condition(f"id < {k}", lambda row: row["id"] < k)),
        st.lists(keys, min_size=1, max_size=4).map(
            lambda ks: Condition(f"id IN ({', '.join(map(str, ks))})", lambda row: row["id"] in ks)
        ),
        st.integers(0, 3).map(lambda g: Condition(f"grp = {g}", lambda row: row["grp"] == g)),
        st.just(Condition("grp IS NULL", lambda row: row["grp"] is None)),
        st.just(
            Condition("grp > 1 AND id >= 10", lambda row: row["grp"] is not None and row["grp"] > 1 and row["id"] >= 10)
        ),
        st.integers(0, 3).map(
            lambda g: Condition(f"grp <> {g} OR id < 5", lambda row: row["grp"] not in (None, g) or row["id"] < 5)
        ),
    )


class TableMachine(RuleBasedStateMachine):
    """See the module. A test sets `format` on a subclass of its own."""

    format: ClassVar[FormatUnderTest]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="skerry-machine-")
        self.columns_made = len(BASE_COLUMNS)
        self.names_made = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self) -> skerry.catalog.Catalog:
        """The catalog in which the table is made."""
        return skerry.connect(self.folder)

    def can(self, operation: str) -> bool:
        return operation in self.format.can

    @initialize(data=st.data())
    def create(self, data: st.DataObject) -> None:
        choices = data.draw(self.format.choices, "table")
        schema = pa.schema([pa.field(column.name, column.type) for column in BASE_COLUMNS])
        self.catalog = self.connect()
        self.table = self.format.create(self.catalog, schema, choices)
        self.model = TableModel({"main": Version(BASE_COLUMNS)})

    # ---- drawing ----

    def branch(self, data: st.DataObject) -> str:
        """Mostly the main branch."""
        others = sorted(set(self.model.version) - {"main"})
        return data.draw(st.just("main") | st.sampled_from(["main", *others]), "branch")

    def row(self, data: st.DataObject, key: int, version: Version) -> Named:
        values = {c.name: data.draw(_VALUES[c.type], c.name) for c in version.columns if c.name != KEY}
        return {KEY: key, **values}

    def rows(self, data: st.DataObject, version: Version, keys: Iterable[int], *, most: int = 5) -> list[Named]:
        choice = sorted(keys)
        if not choice:
            return []
        chosen = data.draw(st.lists(st.sampled_from(choice), min_size=1, max_size=most, unique=True), "keys")
        return [self.row(data, key, version) for key in chosen]

    def new_name(self, prefix: str) -> str:
        self.names_made += 1
        return f"{prefix}{self.names_made}"

    def change(
        self,
        branch: str,
        version: Version,
        act: Callable[[], Any],
        *,
        same_rows: Iterable[int] = (),
        between: Version | None = None,
    ) -> None:
        """Do something to a branch of the table, and the same to the model.

        Args:
            branch: The branch.
            version: What it must hold then.
            act: Does it.
            same_rows: Keys of rows that must still be the same rows then, where the format numbers its rows.
            between: What further snapshots on the way hold.
        """
        numbers = self.format.row_numbers(self.table, branch)
        act()
        self.table.refresh()
        made = self.made(branch)
        assert len(made) < 2 or between is not None, "one commit"
        for snapshot in made[:-1]:
            self.model.commit(branch, snapshot, between)
        self.model.commit(branch, tip_of(self.table, branch), version)
        if numbers:
            after = self.format.row_numbers(self.table, branch)
            for key in set(same_rows) & set(numbers):
                assert after[key] == numbers[key], f"row {key} was number {numbers[key]}, is {after[key]}"

    def made(self, branch: str) -> list[int]:
        """The snapshots of a branch that the model does not know, oldest first."""
        parents = {snapshot.snapshot_id: snapshot.parent_id for snapshot in self.table.snapshots()}
        tip, found = tip_of(self.table, branch), []
        while tip is not None and tip != self.model.tips[branch]:
            found.append(tip)
            tip = parents[tip]
        return found[::-1]

    # ---- rows ----

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        version = self.model.version[branch]
        rows = self.rows(data, version, set(range(_KEYS)) - set(version.rows), most=8)
        after = version.with_rows(rows)
        self.change(
            branch, after, lambda: self.table.append(version.arrow(rows), ref=branch), same_rows=set(version.rows)
        )

    @precondition(lambda self: self.can("delete"))
    @rule(condition=conditions(), data=st.data())
    def delete(self, condition: Condition, data: st.DataObject) -> None:
        branch = self.branch(data)
        after = self.model.version[branch].without(condition.holds)
        self.change(branch, after, lambda: self.table.delete(condition.sql, ref=branch), same_rows=set(after.rows))

    @precondition(lambda self: self.can("overwrite"))
    @rule(condition=st.none() | conditions(), data=st.data())
    def overwrite(self, condition: Condition | None, data: st.DataObject) -> None:
        branch = self.branch(data)
        version = self.model.version[branch]
        rest = version.without(condition.holds if condition is not None else lambda row: True)
        rows = self.rows(data, version, set(range(_KEYS)) - set(rest.rows))
        where = condition.sql if condition is not None else None
        self.change(
            branch,
            rest.with_rows(rows),
            lambda: self.table.overwrite(version.arrow(rows), where, ref=branch),
            same_rows=set(rest.rows),
        )

    @precondition(lambda self: self.can("upsert"))
    @rule(data=st.data())
    def upsert(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        version = self.model.version[branch]
        rows = self.rows(data, version, range(_KEYS), most=8)
        self.change(
            branch,
            version.with_rows(rows),
            lambda: self.table.upsert(version.arrow(rows), KEY, ref=branch),
            same_rows=set(version.rows),
        )

    @precondition(lambda self: self.can("upsert") and self.model.version["main"].rows)
    @rule(data=st.data())
    def update_one_column(self, data: st.DataObject) -> None:
        version = self.model.version["main"]
        column = data.draw(st.sampled_from([c for c in version.columns if c.name != KEY]), "column")
        new = [
            {**version.named(version.rows[row[KEY]]), column.name: row[column.name]}
            for row in self.rows(data, version, version.rows)
        ]
        source = version.arrow(new).select([KEY, column.name])
        self.change("main", version.with_rows(new), lambda: self.table.upsert(source, KEY), same_rows=set(version.rows))

    @precondition(lambda self: self.can("blind upsert") and self.format.takes_key_deletes(self.table))
    @rule(data=st.data())
    def upsert_blindly(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        version = self.model.version[branch]
        rows = self.rows(data, version, range(_KEYS))
        self.change(
            branch,
            version.with_rows(rows),
            lambda: self.table.upsert(version.arrow(rows), KEY, blind=True, ref=branch),
            same_rows=set(version.rows) - {row[KEY] for row in rows},
        )

    @precondition(lambda self: self.can("merge"))
    @rule(data=st.data(), bound=st.integers(0, _KEYS), prune=st.booleans())
    def merge(self, data: st.DataObject, bound: int, prune: bool) -> None:
        branch = self.branch(data)
        version = self.model.version[branch]
        source = {row[KEY]: row for row in self.rows(data, version, range(_KEYS), most=8)}
        after = dict(version.rows)
        for key, row in source.items():
            if key not in after:
                if row["grp"] is not None:
                    after[key] = version.numbered(row)
            elif key < bound:
                del after[key]
            else:
                after[key] = version.numbered(row)
        if prune:
            after = {key: row for key, row in after.items() if key in source or key >= 5}
        self.change(
            branch,
            dataclasses.replace(version, rows=after),
            lambda: self.table.merge(
                version.arrow(source.values()),
                KEY,
                when_matched=[skerry.Delete(f"target.id < {bound}"), "update"],
                when_not_matched=skerry.Insert(where="source.grp IS NOT NULL"),
                when_not_matched_by_source=skerry.Delete("target.id < 5") if prune else None,
                ref=branch,
            ),
            same_rows=set(version.rows) & set(after),
        )

    # ---- against another writer ----

    def rival(self, data: st.DataObject, version: Version) -> tuple[Callable[[Any], Any], Callable[[Version], Version]]:
        """What another writer does to the main branch while a job is under way: on the table, and on the model."""
        if data.draw(st.booleans(), "rival appends"):
            rows = self.rows(data, version, set(range(_KEYS)) - set(version.rows))
            return lambda table: table.append(version.arrow(rows)), lambda before: before.with_rows(rows)
        condition = data.draw(conditions(), "rival deletes")
        return lambda table: table.delete(condition.sql), lambda before: before.without(condition.holds)

    @precondition(lambda self: self.can("meet rivals"))
    @rule(data=st.data(), condition=conditions(), job=st.sampled_from(["compact", "delete", "upsert"]))
    def meet_a_rival(self, data: st.DataObject, condition: Condition, job: str) -> None:
        """The outcome is as if one of the two had begun after the other was done."""
        version = self.model.version["main"]
        act, rival = self.rival(data, version)
        rows = self.rows(data, version, range(_KEYS))
        other = self.catalog.load_table(self.table.name)
        executor = Interference(lambda: act(other))
        doing: dict[str, tuple[Callable[[], Any], Callable[[Version], Version]]] = {
            "compact": (lambda: self.table.compact(full=True, executor=executor), lambda before: before),
            "delete": (
                lambda: self.table.delete(condition.sql, executor=executor),
                lambda before: before.without(condition.holds),
            ),
            "upsert": (
                lambda: self.table.upsert(version.arrow(rows), KEY, executor=executor),
                lambda before: before.with_rows(rows),
            ),
        }
        do, done = doing[job]
        do()
        event(f"{job} {'met a rival' if executor.is_done else 'was alone'}")
        found = self.table.refresh().scan().to_arrow()
        outcomes = [done(version)]
        if executor.is_done:
            outcomes = [done(rival(version)), rival(done(version))]
        names = [column.name for column in version.columns]
        matching = [outcome for outcome in outcomes if outcome.content() == content_of(found.to_pylist(), names)]
        assert matching, "not what either order gives"
        between = rival(version) if executor.is_done else version
        self.change("main", matching[0], lambda: None, between=between)

    # ---- columns and layout ----

    @precondition(lambda self: self.can("evolve") and len(self.model.version["main"].columns) < 8)
    @rule(data=st.data())
    def add_column(self, data: st.DataObject) -> None:
        type_ = data.draw(st.sampled_from(list(_VALUES)), "type")
        default = data.draw(_VALUES[type_], "default") if self.format.takes_defaults(self.table) else None
        if isinstance(default, float) and not math.isfinite(default):
            default = None
        column = ModelColumn(self.columns_made, self.new_name("c"), type_, default)
        self.columns_made += 1
        self.table.update_schema().add_column(column.name, column.type, default_value=default).commit()
        self.table.refresh()
        self.model.alter(lambda version: version.with_columns([*version.columns, column]))

    def optional_columns(self) -> list[ModelColumn]:
        """Columns that no condition names."""
        return [column for column in self.model.version["main"].columns if column.name not in (KEY, "grp")]

    @precondition(lambda self: self.can("evolve") and len(self.optional_columns()) > 1)
    @rule(data=st.data())
    def drop_column(self, data: st.DataObject) -> None:
        names = [column.name for column in self.optional_columns()]
        free = [name for name in names if not self.format.is_in_layout(self.table, name)]
        if free:
            name = data.draw(st.sampled_from(free), "column")
            self.table.update_schema().delete_column(name).commit()
            self.table.refresh()
            self.model.alter(lambda version: version.with_columns(c for c in version.columns if c.name != name))

    @precondition(lambda self: self.can("evolve") and self.optional_columns())
    @rule(data=st.data())
    def rename_column(self, data: st.DataObject) -> None:
        old = data.draw(st.sampled_from(self.optional_columns()), "column")
        new = dataclasses.replace(old, name=self.new_name("r"))
        self.table.update_schema().rename_column(old.name, new.name).commit()
        self.table.refresh()
        self.model.alter(lambda version: version.with_columns(new if c == old else c for c in version.columns))

    @precondition(lambda self: self.can("evolve"))
    @rule(data=st.data())
    def promote_column(self, data: st.DataObject) -> None:
        small = [column for column in self.model.version["main"].columns if column.type == pa.int32()]
        if small:
            old = data.draw(st.sampled_from(small), "column")
            new = dataclasses.replace(old, type=pa.int64())
            self.table.update_schema().update_column(old.name, pa.int64()).commit()
            self.table.refresh()
            self.model.alter(lambda version: version.with_columns(new if c == old else c for c in version.columns))

    @precondition(lambda self: self.can("change layout"))
    @rule(data=st.data())
    def change_layout(self, data: st.DataObject) -> None:
        event(f"layout: {self.format.change_layout(self.table, data)}")
        self.table.refresh()

    # ---- branches and the past ----

    @precondition(lambda self: self.can("branch") and self.model.snapshots and len(self.model.version) < 3)
    @rule(data=st.data())
    def create_branch(self, data: st.DataObject) -> None:
        snapshot = data.draw(st.sampled_from(list(self.model.snapshots)), "snapshot")
        name = self.new_name("branch")
        self.table.create_branch(name, snapshot)
        self.table.refresh()
        columns = self.model.version["main"].columns
        self.model.version[name] = self.model.snapshots[snapshot].with_columns(columns)
        self.model.tips[name] = snapshot

    @precondition(lambda self: self.can("tag") and self.model.snapshots and len(self.model.tags) < 3)
    @rule(data=st.data())
    def create_tag(self, data: st.DataObject) -> None:
        snapshot = data.draw(st.sampled_from(list(self.model.snapshots)), "snapshot")
        name = self.new_name("tag")
        self.table.create_tag(name, snapshot)
        self.table.refresh()
        self.model.tags[name] = snapshot

    @precondition(lambda self: self.can("branch") and len(self.model.version) + len(self.model.tags) > 1)
    @rule(data=st.data())
    def drop_ref(self, data: st.DataObject) -> None:
        names = sorted({*self.model.version, *self.model.tags} - {"main"})
        name = data.draw(st.sampled_from(names), "ref")
        self.table.drop_ref(name)
        self.table.refresh()
        self.model.tags.pop(name, None)
        self.model.version.pop(name, None)
        self.model.tips.pop(name, None)

    @precondition(lambda self: self.can("branch") and len(self.model.version) > 1)
    @rule(data=st.data())
    def fast_forward(self, data: st.DataObject) -> None:
        behind = sorted(
            branch
            for branch, tip in self.model.tips.items()
            if branch != "main" and tip in self.model.ancestors(self.model.tips["main"])
        )
        if behind:
            branch = data.draw(st.sampled_from(behind), "branch")
            self.table.fast_forward(branch, "main")
            self.table.refresh()
            self.model.version[branch] = self.model.version["main"]
            self.model.tips[branch] = self.model.tips["main"]

    @precondition(lambda self: self.can("rollback") and self.model.tips["main"] is not None)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        snapshot = data.draw(st.sampled_from(self.model.ancestors(self.model.tips["main"])), "snapshot")
        self.table.rollback(snapshot)
        self.table.refresh()
        self.model.tips["main"] = snapshot
        columns = self.model.version["main"].columns
        self.model.version["main"] = self.model.snapshots[snapshot].with_columns(columns)

    # ---- maintenance ----

    @precondition(lambda self: self.can("compact"))
    @rule(data=st.data(), everything=st.booleans(), condition=st.none() | conditions())
    def compact(self, data: st.DataObject, everything: bool, condition: Condition | None) -> None:
        branch = self.branch(data)
        version, before = self.model.version[branch], self.model.tips[branch]
        where = condition.sql if condition is not None else None
        sort_by = data.draw(st.sampled_from([None, None, ["grp desc", KEY]]), "sort by")
        self.change(
            branch,
            version,
            lambda: self.table.compact(where, sort_by=sort_by, min_input_files=2, full=everything, ref=branch),
            same_rows=set(version.rows),
            between=version,
        )
        if before is not None and self.can("changes"):
            assert self.table.changes(before, branch).to_arrow().num_rows == 0

    @precondition(lambda self: self.can("analyze"))
    @rule()
    def analyze(self) -> None:
        self.table.analyze()
        if self.model.tips["main"] is not None:
            assert all(freshness.is_fresh for freshness in self.table.refresh().freshness().values())

    @precondition(lambda self: self.can("expire") and self.model.snapshots)
    @rule(keep=st.integers(1, 4))
    def expire(self, keep: int) -> None:
        soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
        self.table.expire_snapshots(keep_last=keep, older_than=soon)
        left = {snapshot.snapshot_id for snapshot in self.table.refresh().snapshots()}
        wanted = set(self.model.tags.values())
        for tip in self.model.tips.values():
            wanted.update(self.model.ancestors(tip)[:keep])
        assert left == wanted
        self.model.snapshots = {key: version for key, version in self.model.snapshots.items() if key in left}

    # ---- reading ----

    @rule(condition=conditions(), data=st.data())
    def read_some(self, condition: Condition, data: st.DataObject) -> None:
        version = self.model.version["main"]
        names = data.draw(st.permutations([column.name for column in version.columns]), "columns")[:2]
        wanted = [row for row in version.named_rows() if condition.holds(row)]
        found = self.table.scan(names, condition.sql)
        assert content_of(found.to_arrow().to_pylist(), names) == content_of(wanted, names)
        assert found.count() == len(wanted)

    @precondition(lambda self: self.model.snapshots)
    @rule(data=st.data())
    def travel_in_time(self, data: st.DataObject) -> None:
        snapshot = data.draw(st.sampled_from(list(self.model.snapshots)), "snapshot")
        check_rows(self.table.scan(snapshot=snapshot).to_arrow(), self.model.snapshots[snapshot])

    @precondition(lambda self: self.model.tags)
    @rule(data=st.data())
    def read_tag(self, data: st.DataObject) -> None:
        tag = data.draw(st.sampled_from(sorted(self.model.tags)), "tag")
        check_rows(self.table.scan(ref=tag).to_arrow(), self.model.snapshots[self.model.tags[tag]])

    @precondition(lambda self: self.can("changes") and self.model.tips["main"] is not None)
    @rule(data=st.data(), by_key=st.booleans())
    def read_changes(self, data: st.DataObject, by_key: bool) -> None:
        line = self.model.ancestors(self.model.tips["main"])
        first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(line) - 1)] * 2), "snapshots"), reverse=True)
        before, after = self.model.snapshots[line[first]], self.model.snapshots[line[last]]
        if last == 0:
            after = self.model.version["main"]
        before = before.with_columns(after.columns)
        on = [KEY] if by_key else None
        found = self.table.changes(line[first], line[last], on=on).to_arrow()
        check_changes(found, before, after, by_key)
        condition = data.draw(conditions(), "where")
        some = self.table.changes(line[first], line[last], on=on, where=condition.sql).to_arrow().to_pylist()
        wanted = [row for row in found.to_pylist() if condition.holds(row)]
        assert content_of(some, found.column_names) == content_of(wanted, found.column_names)

    @precondition(lambda self: self.can("index"))
    @rule(data=st.data(), kind=st.sampled_from(["create", "create", "drop", "index"]))
    def change_indexes(self, data: st.DataObject, kind: str) -> None:
        if kind == "create":
            names = [column.name for column in self.model.version["main"].columns if column.type != pa.float64()]
            self.table.create_index(data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True), "columns"))
        elif kind == "index":
            self.table.index()
        else:
            self.table.drop_index([index.column for index in self.table.indexes()][:1])

    @rule(condition=conditions(), data=st.data())
    def read_some_rows(self, condition: Condition, data: st.DataObject) -> None:
        """By indexes, where there are any."""
        branch = data.draw(st.sampled_from(sorted(self.model.version)), "branch")
        version = self.model.version[branch]
        scan = self.table.scan(where=condition.sql, ref=branch)
        check_rows(scan.to_arrow(), version.without(lambda row: not condition.holds(row)))

    @precondition(lambda self: self.can("index"))
    @rule(word=st.sampled_from(["a", "word", "ключ"]))
    def search(self, word: str) -> None:
        version = self.model.version["main"]
        texts = {column.name for column in version.columns if column.type == pa.string()}
        for name in sorted(texts):
            found = self.table.search(name, word)
            check_rows(found, version.without(lambda row, name=name: row[name] != word))

    @rule()
    def read_with_peer(self) -> None:
        found = self.format.read_with_peer(self.table)
        event(f"peer {'does not read' if found is None else 'reads'}")
        if found is not None:
            check_rows(found, self.model.version["main"])

    @rule()
    def copy(self) -> None:
        """To the same place every time, so that only what is new is written."""
        done = self.table.copy_to(f"{self.folder}/copies/t")
        found = skerry.open_table(done.metadata_location)
        check_rows(found.scan().to_arrow(), self.model.version["main"])
        for tag, snapshot in self.model.tags.items():
            check_rows(found.scan(ref=tag).to_arrow(), self.model.snapshots[snapshot])
        told = {name: (known.ndv, known.freshness.state) for name, known in self.table.statistics().items()}
        assert {name: (known.ndv, known.freshness.state) for name, known in found.statistics().items()} == told

    @rule()
    def move(self) -> None:
        self.table.relocate(f"{self.folder}/places/{self.new_name('place')}")

    # ---- what always holds ----

    @invariant()
    def rows_are_right(self) -> None:
        for branch, version in self.model.version.items():
            check_rows(self.table.scan(ref=branch).to_arrow(), version)

    @invariant()
    def count_is_right(self) -> None:
        assert self.table.scan().count() == len(self.model.version["main"].rows)

    @invariant()
    def statistics_are_right_or_say_why_not(self) -> None:
        version = self.model.version["main"]
        statistics = self.table.statistics()
        assert set(statistics) == {column.name for column in version.columns}
        for name, found in statistics.items():
            check_statistics(found, version.distinct(name))
            assert found.freshness.state is not FreshnessState.STALE, "nobody else has written"

    @rule(condition=conditions())
    def ask_about_some_rows(self, condition: Condition) -> None:
        version = self.model.version["main"]
        some = version.without(lambda row: not condition.holds(row))
        for name, found in self.table.statistics(condition.sql).items():
            check_statistics(found, some.distinct(name))

    @invariant()
    def row_numbers_are_different(self) -> None:
        numbers = self.format.row_numbers(self.table, "main")
        assert len(set(numbers.values())) == len(numbers)


def tip_of(table: Any, branch: str) -> int | None:
    """The snapshot that a branch of a table is at."""
    ref = table.refs().get(branch)
    return None if ref is None else ref.snapshot_id


def check_rows(found: pa.Table, version: Version) -> None:
    names = [column.name for column in version.columns]
    assert found.column_names == names
    assert content_of(found.to_pylist(), names) == version.content()


def check_changes(found: pa.Table, before: Version, after: Version, by_key: bool) -> None:
    """Applied to the rows of the first snapshot they give those of the second, and none is told in vain."""
    names = [column.name for column in after.columns]
    rows = before.content()
    commits: dict[int, list[Named]] = {}
    for row in found.to_pylist():
        commits.setdefault(row["_change_ordinal"], []).append(row)
    for changes in commits.values():
        gone, come = (
            content_of([row for row in changes if row["_change_type"] in types], names)
            for types in (("DELETE", "UPDATE_BEFORE"), ("INSERT", "UPDATE_AFTER"))
        )
        assert not gone - rows, "rows went that were not there"
        assert not gone & come, "rows went and came again"
        rows = rows - gone + come
        keys = [{row[KEY] for row in changes if row["_change_type"] == type_} for type_ in ("DELETE", "INSERT")]
        assert not (by_key and keys[0] & keys[1]), "an update was not told as such"
    assert rows == after.content()
    types = found.column("_change_type").to_pylist()
    keys = found.column(KEY).to_pylist()
    for place, type_ in enumerate(types):
        if type_ == "UPDATE_BEFORE":
            assert types[place + 1] == "UPDATE_AFTER"
            assert keys[place + 1] == keys[place]


def check_statistics(found: skerry.table.statistics.column_statistics.ColumnStatistics, distinct: int) -> None:
    """Either the truth within the bounds that are stated, or the reason why it may not be it."""
    state = found.freshness.state
    if state is FreshnessState.FRESH:
        assert found.lower <= distinct <= found.upper, found
        assert not found.freshness.reason
    else:
        assert found.freshness.reason, found
    if state is FreshnessState.UPPER_BOUND:
        assert found.lower <= distinct <= found.upper, found
        assert found.ndv >= distinct, found
