"""Schema evolution of Paimon tables: columns at every depth, options that name columns, what is refused, races."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from plain_rows import atomic_types

from skerry.errors import ConflictError, NotFoundError, SchemaError, UnsupportedError
from skerry.paimon.evolution import schema_evolution
from skerry.paimon.evolution.schema_draft import SchemaDraft
from skerry.paimon.evolution.schema_evolution import ChangeOptions, ChangeSchema, commit_schema
from skerry.paimon.evolution.type_widening import is_wider
from skerry.paimon.metadata import authority
from skerry.paimon.metadata.creation import create_table, first_schema
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.schemas import create_schema, schema_ids
from skerry.paimon.metadata.snapshot import CommitKind, Snapshot, encode_snapshot
from skerry.paimon.metadata.state import PaimonState, load_state
from skerry.paimon.metadata.validation import check_readable, check_schema, check_writable
from skerry.paimon.values.types import PaimonType, decode_type
from skerry.storage import Storage
from skerry.table.rows.schema import WRITE_DEFAULT_KEY

STORAGE = Storage()
_folders = itertools.count()

COLUMNS = pa.schema(
    [
        pa.field("dt", pa.string(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        pa.field("l", pa.list_(pa.struct([("x", pa.int32())]))),
        pa.field("m", pa.map_(pa.string(), pa.int32())),
        pa.field("v", pa.int32()),
        pa.field("dot.ted", pa.int32()),
    ]
)
OPTIONS = {
    "bucket": "2",
    "bucket-key": "id",
    "sequence.field": "v",
    "fields.s.stats-mode": "none",
    "file-index.bloom-filter.columns": "v,id",
    "file-index.bloom-filter.v.items": "100",
    "skerry.statistics.columns": "id, v",
}


@pytest.fixture
def state() -> PaimonState:
    schema = first_schema(COLUMNS, partition_by=["dt"], primary_key=["dt", "id"], properties=OPTIONS)
    return create_table(STORAGE, f"memory://evolution/{next(_folders)}", schema, name="made")


Step = Callable[[SchemaDraft], None]


def change(state: PaimonState, *steps: Step, **options: Any) -> PaimonState:
    return commit_schema(state, ChangeSchema(tuple(steps), **options))


def columns(state: PaimonState) -> dict[str, str]:
    return {field.name: f"{field.id} {field.type}" for field in state.schema.fields}


def test_columns_are_added_at_every_depth_with_ids_of_their_own(state: PaimonState) -> None:
    nested = pa.struct([("q", pa.int8()), ("r", pa.struct([("t", pa.int8())]))])
    state = change(
        state,
        lambda draft: draft.add("s.c", nested, "what it is", False, None),
        lambda draft: draft.add("l.y", "DECIMAL(10,2)", None, False, "1.5"),
        lambda draft: draft.add(["n.ew"], decode_type("INT"), None, False, None),
    )
    found = state.schema.fields_by_name
    assert state.schema.id == 1
    assert [field.id for field in state.schema.fields] == [0, 1, 2, 5, 7, 8, 9, 15]
    assert columns(state)["s"] == "2 ROW<a INT, b STRING, c ROW<q TINYINT, r ROW<t TINYINT>>>"
    members = state.arrow_schema.field("s").type
    assert members.field("c").metadata == {b"PARQUET:field_id": b"10", b"doc": b"what it is"}
    assert state.arrow_schema.field("l").type.value_type.field("y").metadata[WRITE_DEFAULT_KEY] == b"\x00\x96"
    assert (found["n.ew"].id, state.schema.highest_field_id) == (15, 15)


def test_a_dropped_name_that_is_added_again_is_another_column(state: PaimonState) -> None:
    state = change(state, lambda draft: draft.delete("m"))
    state = change(state, lambda draft: draft.add("m", pa.int8(), None, False, None))
    assert columns(state)["m"] == "10 TINYINT"


def test_columns_are_renamed_and_options_follow(state: PaimonState) -> None:
    state = change(
        state,
        lambda draft: draft.rename("v", "w"),
        lambda draft: draft.rename("id", "key"),
        lambda draft: draft.rename("s", "t"),
        lambda draft: draft.rename("t.a", "z"),
        lambda draft: draft.rename(["dot.ted"], "plain"),
    )
    assert state.schema.primary_keys == ("dt", "key")
    assert dict(state.schema.options) == {
        "bucket": "2",
        "bucket-key": "key",
        "sequence.field": "w",
        "fields.t.stats-mode": "none",
        "file-index.bloom-filter.columns": "w,key",
        "file-index.bloom-filter.w.items": "100",
        "skerry.statistics.columns": "key,w",
    }
    assert columns(state)["t"] == "2 ROW<z INT, b STRING>"


def test_columns_swap_names_in_one_commit(state: PaimonState) -> None:
    state = change(
        state,
        lambda draft: draft.rename("v", "_"),
        lambda draft: draft.rename("m", "v"),
        lambda draft: draft.rename("_", "m"),
    )
    assert state.schema.options["sequence.field"] == "m"
    assert (state.schema.field("m").id, state.schema.field("v").id) == (8, 7)


def test_columns_are_moved_widened_described_and_made_optional(state: PaimonState) -> None:
    state = change(
        state,
        lambda draft: draft.move("v", lambda others, field: 0),
        lambda draft: draft.move("m", draft.position_of("m", "id")),
        lambda draft: draft.move("l", draft.position_of("l", "s", offset=1)),
        lambda draft: draft.move("s.b", lambda others, field: 0),
        lambda draft: draft.update("v", pa.int64(), None, "a number"),
        lambda draft: draft.update("m.value", "DOUBLE", None, None),
        lambda draft: draft.update("l.element.x", "BIGINT", None, None),
        lambda draft: draft.update("l.element", None, True, None),
        allow_incompatible=True,
    )
    assert state.schema.arrow_schema.names == ["v", "dt", "m", "id", "s", "l", "dot.ted"]
    assert state.schema.field("v").description == "a number"
    assert columns(state)["m"] == "7 MAP<STRING NOT NULL, DOUBLE>"
    assert columns(state)["l"] == "5 ARRAY<ROW<x BIGINT> NOT NULL>"
    assert columns(state)["s"] == "2 ROW<b STRING, a INT>"
    state = change(state, lambda draft: draft.update("l.element", None, False, None))
    assert columns(state)["l"] == "5 ARRAY<ROW<x BIGINT>>"


def test_schemas_are_united(state: PaimonState) -> None:
    other = pa.schema(
        [
            pa.field("id", pa.int32()),
            pa.field("new", pa.float64(), metadata={b"doc": b"fresh"}),
            pa.field("s", pa.struct([("a", pa.int64()), ("c", pa.int8())])),
            pa.field("m", pa.map_(pa.string(), pa.int64())),
        ]
    )
    state = change(state, lambda draft: draft.unite(other))
    assert columns(state)["s"] == "2 ROW<a BIGINT, b STRING, c TINYINT>"
    assert columns(state)["m"] == "7 MAP<STRING NOT NULL, BIGINT>"
    assert state.schema.field("new").description == "fresh"
    assert change(state, lambda draft: draft.unite(other)).schema.id == state.schema.id
    with pytest.raises(SchemaError, match="column 'v' is INT, not struct"):
        change(state, lambda draft: draft.unite(pa.schema([("v", pa.struct([("a", pa.int8())]))])))


BAD: list[tuple[Step, str]] = [
    (lambda draft: draft.add("id", "INT", None, False, None), "column 'id' already exists"),
    (lambda draft: draft.add("", "INT", None, False, None), "a column needs a name"),
    (lambda draft: draft.add("x", "INT", None, True, None), "cannot be NOT NULL: existing rows have no value"),
    (lambda draft: draft.add("x", "INTT", None, False, None), "there is no Paimon type 'INTT'"),
    (lambda draft: draft.add("x", "INT", None, False, "a"), "default value 'a' is not a valid INT"),
    (lambda draft: draft.add("x", pa.list_(pa.int8()), None, False, "a"), "cannot have a default value"),
    (lambda draft: draft.add("v.x", "INT", None, False, None), "column 'v' is not a ROW"),
    (
        lambda draft: draft.add("q.x", "INT", None, False, None),
        r"no ROW 'q' for column 'q.x'; a name that contains a dot is written \['q.x'\]",
    ),
    (lambda draft: draft.add("_KEY_x", "INT", None, False, None), "a name that is reserved by Paimon"),
    (lambda draft: draft.delete("dt"), "part of a key of the table, and cannot be deleted"),
    (lambda draft: draft.delete("id"), "part of a key of the table, and cannot be deleted"),
    (lambda draft: draft.delete("v"), "sequence.field names 'v', which is not a column"),
    (lambda draft: draft.delete("nope"), "no column 'nope'"),
    (lambda draft: draft.delete("l.element.x"), "the last column of ROW 'l.element' cannot be deleted"),
    (lambda draft: draft.delete("l.element"), "is part of its type"),
    (lambda draft: draft.rename("dt", "day"), "part of a key of the table, and cannot be renamed"),
    (lambda draft: draft.rename("v", "id"), "column 'id' already exists"),
    (lambda draft: draft.rename("v", ""), "a column needs a name"),
    (lambda draft: draft.rename("m.value", "x"), "is part of its type"),
    (lambda draft: draft.update("id", "DECIMAL(20, 0)", None, None), "cannot be of another type"),
    (lambda draft: draft.update("v", "SMALLINT", None, None), "cannot change from INT to SMALLINT"),
    (lambda draft: draft.update("m.key", "BYTES", None, None), "keys of map 'm' cannot be changed"),
    (lambda draft: draft.update("id", None, False, None), "cannot be null"),
    (lambda draft: draft.update("v", None, True, None), "existing rows may have nulls"),
    (lambda draft: draft.set_default("v", "x"), "default value 'x' is not a valid INT"),
    (lambda draft: draft.move("v", draft.position_of("v", "s.a")), "in different ROWs"),
    (lambda draft: draft.move("v", draft.position_of("v", "v")), "in different ROWs"),
    (lambda draft: draft.identify(["id"]), "the primary key of a Paimon table cannot change"),
]


@pytest.mark.parametrize(("step", "message"), BAD)
def test_changes_that_do_not_fit_are_refused_and_change_nothing(state: PaimonState, step: Step, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        change(state, step)
    assert schema_ids(STORAGE, state.paths) == [0]


def test_nothing_to_do_makes_no_schema(state: PaimonState) -> None:
    same = change(state, lambda draft: draft.identify(["dt", "id"]), lambda draft: draft.rename("v", "v"))
    assert same.schema.id == 0
    assert commit_schema(state, ChangeOptions({"bucket": "2"})).schema.id == 0
    with pytest.raises(NotFoundError, match="no table property 'buckt'; did you mean 'bucket'"):
        commit_schema(state, ChangeOptions({"bucket": "2"}, ("buckt",)))


def test_a_lost_race_is_run_again_on_what_the_winner_left(state: PaimonState) -> None:
    def add_after_a_rival(draft: SchemaDraft) -> None:
        if not any(field.name == "theirs" for field in draft.fields):
            rival = ChangeSchema((lambda other: other.add("theirs", "INT", None, False, None),))
            commit_schema(state, rival)
        draft.add("ours", "INT", None, False, None)

    found = change(state, add_after_a_rival)
    assert columns(found)["theirs"] == "10 INT"
    assert columns(found)["ours"] == "11 INT"
    assert found.schema.id == 2


def test_a_race_that_is_lost_for_good_is_a_conflict(state: PaimonState, monkeypatch: pytest.MonkeyPatch) -> None:
    def always_late(storage: Storage, paths: Any, schema: TableSchema) -> None:
        create_schema(storage, paths, replace(schema, fields=state.schema.fields, id=schema.id))
        raise ConflictError("another writer was first")

    monkeypatch.setattr(authority, "create_schema", always_late)
    monkeypatch.setattr(schema_evolution, "_MAX_WAIT_S", 0.0)
    with pytest.raises(ConflictError):
        change(state, lambda draft: draft.add("x", "INT", None, False, None))


# Types --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("INT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("INT", "DOUBLE", True),
        ("INT", "FLOAT", False),
        ("SMALLINT", "FLOAT", True),
        ("BIGINT", "DOUBLE", False),
        ("FLOAT", "DOUBLE", True),
        ("INT", "DECIMAL(10, 0)", True),
        ("INT", "DECIMAL(10, 1)", False),
        ("DECIMAL(10, 2)", "DECIMAL(12, 4)", True),
        ("DECIMAL(10, 2)", "DECIMAL(12, 5)", False),
        ("CHAR(5)", "VARCHAR(5)", True),
        ("VARCHAR(5)", "CHAR(9)", False),
        ("VARCHAR(5)", "STRING", True),
        ("STRING", "VARCHAR(5)", False),
        ("BINARY(3)", "BYTES", True),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", True),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", False),
        ("TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", False),
        ("DATE", "TIMESTAMP(3)", False),
        ("INT", "STRING", False),
    ],
)
def test_types_are_widened_where_nothing_is_lost(old: str, new: str, expected: bool) -> None:
    assert is_wider(decode_type(old), decode_type(new)) is expected


@given(atomic_types())
def test_every_type_is_as_wide_as_itself(type_: PaimonType) -> None:
    assert is_wider(type_, replace(type_, nullable=False))


# Options ------------------------------------------------------------------------------------------------------------


def with_snapshot(state: PaimonState) -> PaimonState:
    snapshot = Snapshot(
        id=1,
        schema_id=0,
        base_manifest_list="a",
        delta_manifest_list="b",
        commit_user="u",
        commit_identifier=1,
        commit_kind=CommitKind.APPEND,
        time_millis=0,
    )
    STORAGE.write(state.paths.snapshot(1), encode_snapshot(snapshot))
    return load_state(STORAGE, state.location)


def test_options_change(state: PaimonState) -> None:
    changed = commit_schema(
        with_snapshot(state), ChangeOptions({"bucket": "8", "snapshot.num-retained.max": "20"}, comment="rescaled")
    )
    assert changed.schema.options["bucket"] == "8"
    assert changed.schema.comment == "rescaled"
    assert changed.schema.fields == state.schema.fields
    removed = commit_schema(changed, ChangeOptions(removals=("snapshot.num-retained.max",)))
    assert "snapshot.num-retained.max" not in removed.schema.options
    assert removed.schema.id == 2


@pytest.mark.parametrize(
    ("updates", "removals", "message"),
    [
        ({"merge-engine": "aggregation"}, (), "merge-engine cannot change once there are snapshots"),
        ({}, ("bucket-key",), "bucket-key cannot change"),
        ({"bucket": "-1"}, (), "bucket cannot change from or to -1"),
        ({}, ("bucket",), "bucket cannot change from or to -1"),
        ({"partition.default-name": "none"}, (), "partition.default-name cannot change"),
        ({"deletion-vectors.enabled": "true"}, (), "unless deletion-vectors.modifiable is true"),
        ({"bucket": "0"}, (), "bucket must be 1 or more"),
        ({"sequence.field": "nope"}, (), "sequence.field names 'nope'"),
        ({"skerry.statistics.columns": "nope"}, (), "names 'nope', which is not a primitive column"),
    ],
)
def test_options_that_files_were_written_by_stay(
    state: PaimonState, updates: dict[str, str], removals: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        commit_schema(with_snapshot(state), ChangeOptions(updates, removals))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("skerry.statistics.max-groups", "must be a whole number above 0, found 'few'"),
        ("commit.max-retries", "must be a whole number, found 'few'"),
        ("commit.timeout", "must be a duration such as 1 h, found 'few'"),
        ("target-file-size", "must be a size such as 128 mb, found 'few'"),
        ("write-only", "must be true or false, found 'few'"),
        ("index-file-in-data-file-dir", "must be true or false, found 'few'"),
    ],
)
def test_a_value_that_no_commit_could_obey_is_refused_wherever_it_is_set(
    state: PaimonState, name: str, message: str
) -> None:
    rule = f"{name} {message}"
    with pytest.raises(SchemaError, match=rule):
        commit_schema(state, ChangeOptions({name: "few"}))
    with pytest.raises(SchemaError, match=rule):
        first_schema(pa.schema([("v", pa.int64())]), properties={name: "few"})
    with pytest.raises(UnsupportedError, match=r"file\.format=few is not supported; expected one of"):
        commit_schema(state, ChangeOptions({"file.format": "few"}))


def test_values_that_only_other_engines_obey_are_no_obstacle(state: PaimonState) -> None:
    foreign = replace(state.schema, id=1, options={**state.schema.options, "file.format": "lance"})
    create_schema(STORAGE, state.paths, foreign)
    changed = commit_schema(state, ChangeOptions({"commit.max-retries": "3"}))
    assert changed.schema.options["file.format"] == "lance"
    assert changed.schema.options["commit.max-retries"] == "3"


def test_what_is_ignored_once_stays_ignored(state: PaimonState) -> None:
    ignoring = commit_schema(with_snapshot(state), ChangeOptions({"ignore-delete": "true"}))
    with pytest.raises(SchemaError, match="ignore-delete cannot change from true to false"):
        commit_schema(ignoring, ChangeOptions({}, ("ignore-delete",)))


# Refusals -----------------------------------------------------------------------------------------------------------


def schema_with(options: dict[str, str], *, keys: tuple[str, ...] = ("k",), partitions: tuple[str, ...] = ()) -> Any:
    plain = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string()), ("p", pa.string())])
    made = first_schema(plain)
    return replace(made, primary_keys=keys, partition_keys=partitions, options=options)


IMPOSSIBLE: list[tuple[dict[str, str], dict[str, Any], str]] = [
    ({"bucket-key": "k"}, {}, "bucket-key needs the option bucket"),
    ({"bucket": "0"}, {}, "bucket must be 1 or more"),
    ({"bucket": "-2"}, {"keys": ()}, "bucket must be 1 or more"),
    ({"bucket": "2"}, {"keys": ()}, "needs the option bucket-key"),
    ({"bucket": "2", "bucket-key": "v"}, {}, "must be part of the primary key"),
    ({"bucket": "2", "bucket-key": "v", "bucket-function.type": "mod"}, {"keys": ()}, "bucket-function.type=mod"),
    ({"changelog-producer": "input"}, {"keys": ()}, "changelog-producer needs a primary key"),
    ({"full-compaction.delta-commits": "2"}, {"keys": ()}, "full-compaction.delta-commits needs a primary key"),
    (
        {"changelog-producer": "lookup", "streaming-read-overwrite": "true"},
        {},
        "streaming-read-overwrite cannot be combined with changelog-producer=lookup",
    ),
    ({"changelog.num-retained.min": "5", "changelog.num-retained.max": "3"}, {}, "at least 5 and at most 3"),
    ({"merge-engine": "first-row", "sequence.field": "v"}, {}, "sequence.field cannot be combined"),
    (
        {"merge-engine": "first-row", "deletion-vectors.enabled": "true"},
        {},
        "deletion-vectors.enabled cannot be combined",
    ),
    ({"merge-engine": "first-row", "changelog-producer": "input"}, {}, "needs changelog-producer=none or lookup"),
    ({"sequence.field": "v,v"}, {}, "names a column twice"),
    ({"rowkind.field": "nope"}, {}, "rowkind.field names 'nope'"),
    ({"fields.nope.aggregate-function": "sum"}, {}, "option fields.nope.aggregate-function names 'nope'"),
    ({"fields.v.aggregate-function": "max", "sequence.field": "v"}, {}, "cannot have an aggregate-function"),
    ({"row-tracking.enabled": "true"}, {}, "needs a table without primary key"),
    ({"sequence.field": "v"}, {"partitions": ("p",)}, "needs all partition keys in the primary key"),
    ({}, {"keys": ("v",)}, "must be NOT NULL"),
    ({}, {"keys": ("k", "k")}, "has a column twice"),
    ({}, {"partitions": ("k",)}, "must have a column that is not a partition key"),
    ({"bucket": "two"}, {}, "table option bucket must be a whole number, found 'two'"),
    ({"deletion-vectors.enabled": "yes"}, {}, "deletion-vectors.enabled must be true or false"),
]


@pytest.mark.parametrize(("options", "shape", "message"), IMPOSSIBLE)
def test_tables_that_cannot_be_are_refused(options: dict[str, str], shape: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        check_schema(schema_with(options, **shape))


@pytest.mark.parametrize(
    "options",
    [
        {"type": "format-table"},
        {"manifest.format": "parquet"},
        {"blob-view-field": "b"},
        {"chain-table.enabled": "true"},
        {"pk-clustering-override": "true"},
        {"query-auth.enabled": "true"},
        {"scan.snapshot-id": "3"},
        {"scan.primary-branch": "dev"},
        {"scan.fallback-delta-branch": "dev"},
        {"scan.mode": "from-timestamp"},
        {"merge-engine": "invented"},
        {"changelog-producer": "invented"},
        {"bucket-function.type": "invented"},
    ],
)
def test_tables_whose_rows_cannot_be_told_are_refused_by_option(options: dict[str, str]) -> None:
    [(name, text)] = options.items()
    with pytest.raises(UnsupportedError, match=f"table option {name}={text} is not supported"):
        check_readable(schema_with(options))


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({"data-file.external-paths.strategy": "round-robin", "data-file.external-paths": "/x"}, ()),
        ({"file.format": "lance"}, ()),
        ({"type": "iceberg-table"}, ()),
        ({"type": "materialized-table"}, ()),
    ],
)
def test_tables_that_promise_more_than_is_written_are_refused_by_option(
    options: dict[str, str], keys: tuple[str, ...]
) -> None:
    with pytest.raises(UnsupportedError, match=f"table option {next(iter(options))}"):
        check_writable(schema_with(options, keys=keys))


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, ()),
        ({"bucket": "3", "bucket-key": "v,k"}, ()),
        ({"deletion-vectors.enabled": "true"}, ()),
        ({"deletion-vectors.enabled": "true"}, ("k",)),
        ({"merge-engine": "first-row"}, ("k",)),
        ({"data-file.external-paths": "/x"}, ()),
        ({"file-index.bitmap.columns": "v"}, ()),
        ({"row-tracking.enabled": "true"}, ()),
        ({"file-index.bloom-filter.columns": "v", "changelog-producer": "input"}, ("k",)),
        ({"changelog-producer": "lookup", "lookup-compact": "gentle"}, ("k",)),
        ({"changelog-producer": "full-compaction", "full-compaction.delta-commits": "3"}, ("k",)),
        ({"bucket": "4", "merge-engine": "partial-update", "fields.default-aggregate-function": "max"}, ("k",)),
        ({"scan.mode": "latest", "type": "table", "some.engine.option": "x"}, ("k",)),
    ],
)
def test_usual_tables_are_read_and_written(options: dict[str, str], keys: tuple[str, ...]) -> None:
    check_writable(schema_with(options, keys=keys))
