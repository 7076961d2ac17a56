"""JSON files of a table: types, schemas, snapshots with their hints, tags, branches, consumers, statistics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from plain_rows import types

from skerry.errors import AlreadyExistsError, ConflictError, FormatError, NotFoundError, SchemaError, UnsupportedError
from skerry.paimon.metadata.branches import branch_names, create_branch, delete_branch, fast_forward, on_branch
from skerry.paimon.metadata.changelogs import changelog_ids, read_changelog
from skerry.paimon.metadata.consumers import (
    find_consumer,
    least_next_snapshot,
    read_consumers,
    write_consumer,
)
from skerry.paimon.metadata.paths import TablePaths, escape_path_name
from skerry.paimon.metadata.schema import decode_schema, encode_schema
from skerry.paimon.metadata.schemas import create_schema, latest_schema, read_schema
from skerry.paimon.metadata.snapshot import CommitKind, Snapshot, decode_snapshot, encode_snapshot
from skerry.paimon.metadata.snapshots import (
    earliest_snapshot,
    latest_snapshot,
    read_snapshot,
    snapshot_at_time,
    write_hint,
)
from skerry.paimon.metadata.state import load_state
from skerry.paimon.metadata.tags import create_tag, decode_tag, delete_tag, encode_tag, read_tag, tag_names
from skerry.paimon.metadata.time_travel import (
    state_as_of,
    state_at_ref,
    state_at_snapshot,
    state_at_tag,
)
from skerry.paimon.statistics.statistics_file import ColStats, StatisticsFile, encode_statistics
from skerry.paimon.values.arrow_types import arrow_type, to_arrow_schema, to_paimon_fields
from skerry.paimon.values.types import PaimonType, decode_type, encode_type
from skerry.storage import Storage, join
from skerry.table.owned_files import owned_files

STORAGE = Storage()

# Types --------------------------------------------------------------------------------------------------------------

TEXTS = [
    ("INT", "INT", pa.int32()),
    ("integer not null", "INT NOT NULL", pa.int32()),
    ("DECIMAL(10,2)", "DECIMAL(10, 2)", pa.decimal128(10, 2)),
    ("DECIMAL", "DECIMAL(10, 0)", pa.decimal128(10, 0)),
    ("NUMERIC(5)", "DECIMAL(5, 0)", pa.decimal128(5, 0)),
    ("TIMESTAMP", "TIMESTAMP(6)", pa.timestamp("us")),
    ("TIMESTAMP(0)", "TIMESTAMP(0)", pa.timestamp("s")),
    ("TIMESTAMP(2)", "TIMESTAMP(2)", pa.timestamp("ms")),
    ("TIMESTAMP(4) WITHOUT TIME ZONE", "TIMESTAMP(4)", pa.timestamp("us")),
    ("TIMESTAMP(9) WITH LOCAL TIME ZONE", "TIMESTAMP(9) WITH LOCAL TIME ZONE", pa.timestamp("ns", "UTC")),
    ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", pa.timestamp("ms", "UTC")),
    ("TIME", "TIME(0)", pa.time32("ms")),
    ("CHAR", "CHAR(1)", pa.string()),
    ("VARCHAR(20)", "VARCHAR(20)", pa.string()),
    ("VARCHAR(2147483647)", "STRING", pa.string()),
    ("BYTES", "BYTES", pa.binary()),
    ("BINARY(4)", "BINARY(4)", pa.binary()),
    ("BOOLEAN", "BOOLEAN", pa.bool_()),
]


@pytest.mark.parametrize(("text", "written", "arrow"), TEXTS)
def test_types_are_read_from_text(text: str, written: str, arrow: pa.DataType) -> None:
    type_ = decode_type(text)
    assert encode_type(type_) == written
    assert decode_type(written) == type_
    found = to_arrow_schema(to_paimon_fields(pa.schema([("a", arrow)])))
    assert found.field("a").type == arrow


@given(types())
def test_types_come_back_from_their_json(type_: PaimonType) -> None:
    assert decode_type(json.loads(json.dumps(encode_type(type_)))) == type_


def _documented() -> list[tuple[str, str]]:
    """Paimon's types of `docs/types.md` that are written out, with their Arrow types."""
    text = (Path(__file__).parents[2] / "docs" / "types.md").read_text().partition("## What a Paimon table stores")[2]
    rows = [line.strip("| ").split(" | ") for line in text.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return [(paimon, arrow.strip("`")) for paimon, arrow, _ in rows[1:] if paimon not in _NESTED]


_NESTED = ("ARRAY", "MAP", "MULTISET", "ROW", "VARIANT", "BLOB", "VECTOR")


@pytest.mark.parametrize(("paimon", "arrow"), _documented())
def test_types_are_those_of_the_document(paimon: str, arrow: str) -> None:
    assert str(arrow_type(decode_type(paimon))) == arrow
    if paimon != "BINARY(4)":
        assert encode_type(to_paimon_fields(pa.schema([("a", arrow_type(decode_type(paimon)))]))[0].type) == paimon


BAD_TYPES: list[tuple[Any, type[Exception], str]] = [
    ("INTT", FormatError, "'INTT' is not a valid data type"),
    ("INT(4)", FormatError, "is not a valid data type"),
    ("DECIMAL(39, 2)", FormatError, "is not a valid data type"),
    ("DECIMAL(5, 6)", FormatError, "is not a valid data type"),
    ("TIMESTAMP(10)", FormatError, "is not a valid data type"),
    ("CHAR(0)", FormatError, "is not a valid data type"),
    ("STRING(5)", FormatError, "is not a valid data type"),
    ("DATE WITH LOCAL TIME ZONE", FormatError, "is not a valid data type"),
    ("", FormatError, "is not a valid data type"),
    ("ARRAY<INT>", FormatError, "is not a valid data type"),
    ("VARIANT(3)", FormatError, "is not a valid data type"),
    ("BLOB_REF", UnsupportedError, "Paimon type 'BLOB_REF' is not supported"),
    ("VECTOR", FormatError, "is not a valid data type"),
    ({"type": "VECTOR", "element": "STRING", "length": 3}, FormatError, "numbers as elements, found STRING"),
    ({"type": "VECTOR", "element": "FLOAT", "length": 0}, FormatError, "a length from 1 on, found 0"),
    ({"type": "VECTOR", "element": "FLOAT"}, FormatError, "a length from 1 on, found None"),
    ({"type": "ARRAY"}, FormatError, "a type must be text or an object"),
    ({"type": "ROW", "fields": {}}, FormatError, "a ROW must have a list of fields"),
    ({"element": "INT"}, FormatError, "a type must be text or an object"),
    (5, FormatError, "a type must be text or an object"),
]


@pytest.mark.parametrize(("value", "error", "message"), BAD_TYPES)
def test_what_is_no_type_is_refused(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        decode_type(value)


def test_types_nested_without_end_are_refused() -> None:
    value: Any = "INT"
    for _ in range(200):
        value = {"type": "ARRAY", "element": value}
    with pytest.raises(UnsupportedError, match="nested more than 100 deep"):
        decode_type(value)


def test_ids_go_to_columns_before_their_members_and_to_elements_by_rule() -> None:
    inner = pa.struct([("x", pa.list_(pa.int32())), ("y", pa.int8())])
    schema = pa.schema([("a", inner), ("b", pa.map_(pa.string(), pa.list_(inner))), ("c", pa.int32())])
    fields = to_paimon_fields(schema)
    assert [field.id for field in fields] == [0, 3, 6]
    arrow = to_arrow_schema(fields)
    number = lambda field: int(field.metadata[b"PARQUET:field_id"])  # noqa: E731
    assert [number(member) for member in arrow.field("a").type] == [1, 2]
    assert number(arrow.field("a").type.field("x").type.value_field) == 536870911 + 1024 * 1 + 1
    by_key = arrow.field("b").type
    assert number(by_key.key_field) == 536870911 - 1024 * 3 - 1
    assert number(by_key.item_field) == 536870911 + 1024 * 3 + 1
    assert number(by_key.item_type.value_field) == 536870911 + 1024 * 3 + 2


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        (pa.uint64(), "cast to int64 or decimal"),
        (pa.duration("s"), "no durations"),
        (pa.null(), "no type for columns without values"),
        (pa.decimal256(50, 2), "at most 38 digits"),
        (pa.uuid(), "Paimon has no such type"),
        (pa.struct([("b", pa.uint64())]), r"column 'a\.b'"),
        (pa.struct([("b", pa.int8()), ("b", pa.int8())]), "the name is used twice"),
    ],
)
def test_arrow_types_without_counterpart_are_refused(type_: pa.DataType, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        to_paimon_fields(pa.schema([("a", type_)]))


# Schemas ------------------------------------------------------------------------------------------------------------

SCHEMA: dict[str, Any] = {
    "version": 3,
    "id": 0,
    "fields": [
        {"id": 0, "name": "dt", "type": "STRING NOT NULL", "description": "day"},
        {"id": 1, "name": "k", "type": "BIGINT NOT NULL"},
        {"id": 2, "name": "v", "type": {"type": "ROW", "fields": [{"id": 3, "name": "x", "type": "INT"}]}},
    ],
    "highestFieldId": 3,
    "partitionKeys": ["dt"],
    "primaryKeys": ["dt", "k"],
    "options": {"bucket": "2"},
    "comment": "a table",
    "timeMillis": 1795263765479,
}


def changed(document: Mapping[str, Any], **keys: Any) -> bytes:
    """A document with other values; None takes a key away."""
    return json.dumps({key: value for key, value in {**document, **keys}.items() if value is not None}).encode()


def test_schemas_are_written_as_they_are_read() -> None:
    schema = decode_schema(json.dumps(SCHEMA))
    assert json.loads(encode_schema(schema)) == SCHEMA
    assert schema.trimmed_primary_keys == schema.bucket_keys == ("k",)
    assert schema.file_schema().names == ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "dt", "k", "v"]
    assert schema.file_schema(thin=True).names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "dt", "k", "v"]
    numbers = [int(field.metadata[b"PARQUET:field_id"]) for field in schema.file_schema()]
    assert numbers == [1073741824, 2147483646, 2147483645, 0, 1, 2]


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [
        (None, {}, {"bucket": "1", "file.format": "orc"}),
        (1, {"bucket": "4"}, {"bucket": "4", "file.format": "orc"}),
        (2, {}, {"file.format": "orc"}),
        (2, {"file.format": "avro"}, {"file.format": "avro"}),
        (3, {}, {}),
    ],
)
def test_old_schemas_have_what_was_usual_then(
    version: int | None, options: dict[str, str], expected: dict[str, str]
) -> None:
    assert decode_schema(changed(SCHEMA, version=version, options=options)).options == expected


BAD_SCHEMAS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"version": 4}, UnsupportedError, "schema version 4 is not supported"),
    ({"fields": {}}, FormatError, "must have a list of fields"),
    ({"fields": [{"id": 0, "name": "a", "type": "NOPE"}]}, FormatError, "column 'a': 'NOPE' is not a valid data type"),
    ({"fields": [{"id": 0, "name": "a", "type": "BLOB_VIEW"}]}, UnsupportedError, "'a': Paimon type 'BLOB_VIEW'"),
    ({"fields": [{"id": "0", "name": "a", "type": "INT"}]}, FormatError, "id must be a 32-bit integer"),
    ({"fields": [{"id": 0, "type": "INT"}]}, FormatError, "field 0 must have a name"),
    ({"fields": ["a"]}, FormatError, "a field must be an object"),
    ({"highestFieldId": 2}, FormatError, "field id 3 is greater than highestFieldId 2"),
    ({"primaryKeys": ["nope"]}, FormatError, "the primary key names 'nope'"),
    ({"partitionKeys": "dt"}, FormatError, "'partitionKeys' must be a list of names"),
    ({"options": {"bucket": 2}}, FormatError, "options must be texts"),
    ({"id": "zero"}, FormatError, "'id' must be a number"),
    ({"fields": [{"id": 1, "name": n, "type": "INT"} for n in ("dt", "k")]}, FormatError, "two columns have the id 1"),
    (
        {"fields": [{"id": i, "name": "dt", "type": "INT"} for i in (1, 2)], "primaryKeys": []},
        FormatError,
        "two columns have the name 'dt'",
    ),
]


@pytest.mark.parametrize(("keys", "error", "message"), BAD_SCHEMAS)
def test_bad_schemas_are_refused(keys: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as found:
        decode_schema(changed(SCHEMA, **keys), location="schema-0")
    assert "in schema-0" in str(found.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, rb'{"a": "\ud800"}'])
def test_files_that_are_no_json_objects_are_refused(data: bytes) -> None:
    for decode in (decode_schema, decode_snapshot, lambda data: decode_tag("t", data)):
        with pytest.raises(FormatError, match=r"must be JSON|must hold a JSON object"):
            decode(data)


# Snapshots ----------------------------------------------------------------------------------------------------------

SNAPSHOT: dict[str, Any] = {
    "version": 3,
    "id": 5,
    "schemaId": 0,
    "baseManifestList": "manifest-list-a-0",
    "baseManifestListSize": 1113,
    "deltaManifestList": "manifest-list-a-1",
    "deltaManifestListSize": 1108,
    "commitUser": "someone",
    "commitIdentifier": 9223372036854775807,
    "commitKind": "APPEND",
    "timeMillis": 1795263860209,
    "totalRecordCount": 27,
    "deltaRecordCount": -3,
    "watermark": -9223372036854775808,
    "properties": {"a": "b"},
    "nextRowId": 0,
}


def snapshot_of(number: int, **keys: Any) -> Snapshot:
    return decode_snapshot(changed(SNAPSHOT, **{"id": number, "timeMillis": number * 1000, "watermark": None, **keys}))


def test_snapshots_are_written_as_they_are_read() -> None:
    with_unknown = {**SNAPSHOT, "uuid": "x", "writerVersion": {"nested": [1]}}
    snapshot = decode_snapshot(json.dumps(with_unknown))
    assert list(json.loads(encode_snapshot(snapshot)).items()) == list(with_unknown.items())
    assert snapshot.commit_kind is CommitKind.APPEND
    assert snapshot.unknown == {"uuid": "x", "writerVersion": {"nested": [1]}}


def test_old_snapshots_need_not_have_counts_and_sizes() -> None:
    optional = ("version", "baseManifestListSize", "deltaManifestListSize", "totalRecordCount", "deltaRecordCount")
    snapshot = decode_snapshot(changed(SNAPSHOT, **dict.fromkeys(optional)))
    assert (snapshot.version, snapshot.base_manifest_list_size, snapshot.total_record_count) == (1, None, None)


BAD_SNAPSHOTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"version": 4}, UnsupportedError, "snapshot version 4 is not supported"),
    ({"version": "3"}, UnsupportedError, "snapshot version '3'"),
    ({"commitKind": "DESTROY"}, UnsupportedError, "commit kind 'DESTROY'"),
    ({"id": None}, FormatError, "must have 'id'"),
    ({"commitUser": None}, FormatError, "must have 'commitUser'"),
    ({"deltaManifestList": None}, FormatError, "must have 'deltaManifestList'"),
    ({"deltaManifestList": 7}, FormatError, "'deltaManifestList' must be text"),
    ({"schemaId": -1}, FormatError, "'schemaId' must not be negative"),
    ({"baseManifestListSize": -1}, FormatError, "'baseManifestListSize' must not be negative"),
    ({"timeMillis": 1.5}, FormatError, "'timeMillis' must be a 64-bit integer"),
    ({"totalRecordCount": 2**63}, FormatError, "'totalRecordCount' must be a 64-bit integer"),
    ({"id": True}, FormatError, "'id' must be a 64-bit integer"),
    ({"properties": {"a": 1}}, FormatError, "properties must be texts"),
]


@pytest.mark.parametrize(("keys", "error", "message"), BAD_SNAPSHOTS)
def test_bad_snapshots_are_refused(keys: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as found:
        decode_snapshot(changed(SNAPSHOT, **keys), location="snapshot-5")
    assert "in snapshot-5" in str(found.value)


@pytest.fixture
def paths(tmp_path: Path) -> TablePaths:
    """A table of snapshots 3 to 6, without hints."""
    paths = TablePaths(str(tmp_path))
    STORAGE.write(paths.schema(0), json.dumps(SCHEMA).encode())
    for number in range(3, 7):
        watermark = {3: None, 4: 400, 5: None, 6: 600}[number]
        STORAGE.write(paths.snapshot(number), encode_snapshot(snapshot_of(number, watermark=watermark)))
    return paths


@pytest.mark.parametrize("hint", [None, "6", "5", "3", "2", "7", "99", "0", "-1", "", "six", "\xff", "6\n", "1" * 40])
def test_hints_are_believed_only_where_they_are_right(paths: TablePaths, hint: str | None) -> None:
    if hint is not None:
        for name in ("LATEST", "EARLIEST"):
            STORAGE.write(join(paths.snapshots, name), hint.encode("latin-1"))
    latest, earliest = latest_snapshot(STORAGE, paths), earliest_snapshot(STORAGE, paths)
    assert latest is not None
    assert earliest is not None
    assert (earliest.id, latest.id) == (3, 6)


def test_a_right_hint_spares_the_listing(paths: TablePaths) -> None:
    write_hint(STORAGE, paths, 6)
    storage = Storage()
    storage.list_folder = None  # type: ignore[method-assign,assignment]
    latest = latest_snapshot(storage, paths)
    assert latest is not None
    assert latest.id == 6


def test_files_of_others_among_the_snapshots_are_skipped(paths: TablePaths) -> None:
    for name in (".snapshot-9.x.tmp", "snapshot-", "snapshot-9x", "snapshot-²", "snapshot--7", "other-9"):
        STORAGE.write(join(paths.snapshots, name), b"")
    latest = latest_snapshot(STORAGE, paths)
    assert latest is not None
    assert latest.id == 6


def test_a_table_without_snapshots_has_none(tmp_path: Path) -> None:
    nowhere = TablePaths(str(tmp_path))
    assert latest_snapshot(STORAGE, nowhere) is None
    assert earliest_snapshot(STORAGE, nowhere) is None
    with pytest.raises(NotFoundError, match="has no schema file"):
        latest_schema(STORAGE, nowhere)


def test_a_snapshot_under_the_name_of_another_is_refused(paths: TablePaths) -> None:
    STORAGE.write(paths.snapshot(7), encode_snapshot(snapshot_of(6)))
    with pytest.raises(FormatError, match="the snapshot's id is 6, expected 7 by its file name"):
        latest_snapshot(STORAGE, paths)
    with pytest.raises(NotFoundError, match="no snapshot 2; it may have expired"):
        read_snapshot(STORAGE, paths, 2)


@pytest.mark.parametrize(("millis", "expected"), [(2999, None), (3000, 3), (4500, 4), (6000, 6), (10**15, 6)])
def test_a_moment_is_that_of_the_newest_snapshot_until_then(
    paths: TablePaths, millis: int, expected: int | None
) -> None:
    found = snapshot_at_time(STORAGE, paths, millis)
    assert (found.id if found is not None else None) == expected


def test_states_are_found_by_whatever_names_them(paths: TablePaths) -> None:
    state = load_state(STORAGE, paths.root)
    create_tag(STORAGE, paths, "4", snapshot_of(3))
    create_tag(STORAGE, paths, "gone", snapshot_of(1))
    found = [
        state_at_snapshot(state, 5),
        state_at_snapshot(state, 1),
        state_at_tag(state, "gone"),
        state_at_ref(state, "main"),
        state_at_ref(state, "4"),
        state_as_of(state, datetime(1970, 1, 1, 0, 0, 4)),
        state_as_of(state, datetime.fromtimestamp(5, UTC)),
    ]
    assert [one.snapshot.id for one in found if one.snapshot is not None] == [5, 1, 1, 6, 3, 4, 5]
    for missing in (
        lambda: state_at_snapshot(state, 2),
        lambda: state_at_ref(state, "gon"),
        lambda: state_as_of(state, datetime(1970, 1, 1)),
    ):
        with pytest.raises(NotFoundError):
            missing()


def test_two_writers_cannot_make_the_same_schema(paths: TablePaths) -> None:
    schema = read_schema(STORAGE, paths, 0)
    with pytest.raises(ConflictError, match="schema 0 was created by another writer"):
        create_schema(STORAGE, paths, schema)
    STORAGE.write(paths.schema(1), encode_schema(schema))
    with pytest.raises(FormatError, match="the schema's id is 0, expected 1 by its file name"):
        latest_schema(STORAGE, paths)


# Tags, branches, consumers ------------------------------------------------------------------------------------------


def test_tags_keep_snapshots(paths: TablePaths) -> None:
    create_tag(STORAGE, paths, "v1", snapshot_of(4, uuid="kept"))
    made = create_tag(STORAGE, paths, "für immer", snapshot_of(5), time_retained=timedelta(days=1))
    assert tag_names(STORAGE, paths) == ["für immer", "v1"]
    assert read_tag(STORAGE, paths, "für immer") == made
    assert read_tag(STORAGE, paths, "v1").snapshot.unknown == {"uuid": "kept"}
    assert "tagCreateTime" not in json.loads(STORAGE.read(paths.tag("v1")))
    with pytest.raises(AlreadyExistsError, match="tag 'v1' already exists"):
        create_tag(STORAGE, paths, "v1", snapshot_of(5))
    with pytest.raises(NotFoundError, match="no tag 'v2'; there are: für immer, v1"):
        read_tag(STORAGE, paths, "v2")
    delete_tag(STORAGE, paths, "v1")
    assert tag_names(STORAGE, paths) == ["für immer"]
    with pytest.raises(NotFoundError):
        delete_tag(STORAGE, paths, "v1")


def new_branch(paths: TablePaths, name: str, *, tag: str | None = None) -> TablePaths:
    with owned_files(STORAGE) as files:
        return create_branch(STORAGE, paths, name, files, tag=tag)


@pytest.mark.parametrize("name", ["", " ", "a/b", "..", ".hidden", "a\\b", "a\0"])
def test_names_that_lead_elsewhere_are_refused(paths: TablePaths, name: str) -> None:
    with pytest.raises(SchemaError, match="is not a valid "):
        create_tag(STORAGE, paths, name, snapshot_of(4))
    with pytest.raises(SchemaError, match="is not a valid "):
        new_branch(paths, name)
    with pytest.raises(SchemaError, match="is not a valid "):
        write_consumer(STORAGE, paths, name, 1)


@pytest.mark.parametrize("parts", [[2026, 11, 21, 12, 24], [2026, 11, 21, 12, 24, 20], [2026, 11, 21, 12, 24, 20, 999]])
def test_times_of_tags_are_read_however_short(parts: list[int]) -> None:
    tag = decode_tag("t", changed(SNAPSHOT, tagCreateTime=parts, tagTimeRetained=3600.5))
    assert tag.create_time == datetime(*parts[:6])  # type: ignore[arg-type]
    assert tag.time_retained == timedelta(seconds=3600.5)
    assert decode_tag("t", encode_tag(tag)) == tag


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"tagCreateTime": [2026, 13, 1, 0, 0]}, "must be a time"),
        ({"tagCreateTime": "now"}, "must be a time"),
        ({"tagTimeRetained": "P1D"}, "must be a number of seconds"),
        ({"id": None}, "must have 'id'"),
    ],
)
def test_bad_tags_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        decode_tag("t", changed(SNAPSHOT, **keys))


def test_branches_have_schemas_and_snapshots_of_their_own(paths: TablePaths) -> None:
    create_tag(STORAGE, paths, "v1", snapshot_of(4))
    empty = new_branch(paths, "empty")
    dev = new_branch(paths, "dev", tag="v1")
    assert branch_names(STORAGE, paths) == ["dev", "empty"]
    assert load_state(STORAGE, paths.root, branch="empty").snapshot is None
    state = state_at_ref(load_state(STORAGE, paths.root), "dev")
    assert state.snapshot is not None
    assert (state.snapshot.id, state.branch, tag_names(STORAGE, dev)) == (4, "dev", ["v1"])
    assert empty.manifest("m") == paths.manifest("m")
    with pytest.raises(AlreadyExistsError):
        new_branch(paths, "dev")
    with pytest.raises(NotFoundError):
        new_branch(paths, "other", tag="v2")
    for name in ("main", "123"):
        with pytest.raises(SchemaError):
            new_branch(paths, name)
    with pytest.raises(SchemaError, match="branch 'main' cannot be dropped"):
        delete_branch(STORAGE, paths, "main")
    delete_branch(STORAGE, paths, "dev")
    assert branch_names(STORAGE, paths) == ["empty"]
    with pytest.raises(NotFoundError, match="no branch 'dev'"):
        delete_branch(STORAGE, paths, "dev")


def test_a_branch_from_the_tag_of_an_expired_snapshot_has_it_back(paths: TablePaths) -> None:
    create_tag(STORAGE, paths, "old", snapshot_of(1))
    dev = new_branch(paths, "dev", tag="old")
    assert read_snapshot(STORAGE, dev, 1) == snapshot_of(1)


def test_main_moves_on_to_a_branch_that_was_made_from_its_newest_snapshot(paths: TablePaths) -> None:
    create_tag(STORAGE, paths, "v6", read_snapshot(STORAGE, paths, 6))
    dev = new_branch(paths, "dev", tag="v6")
    for number in (7, 8):
        STORAGE.write(dev.snapshot(number), encode_snapshot(snapshot_of(number)))
    create_tag(STORAGE, dev, "v8", snapshot_of(8))
    fast_forward(STORAGE, paths, "dev")
    latest = latest_snapshot(STORAGE, paths)
    assert latest == snapshot_of(8)
    assert tag_names(STORAGE, paths) == ["v6", "v8"]
    fast_forward(STORAGE, paths, "dev")  # again, and nothing changes


def test_main_never_moves_away_from_its_own_snapshots(paths: TablePaths) -> None:
    create_tag(STORAGE, paths, "v4", read_snapshot(STORAGE, paths, 4))
    dev = new_branch(paths, "dev", tag="v4")
    with pytest.raises(ConflictError, match="has snapshot 6, which 'dev' does not have"):
        fast_forward(STORAGE, paths, "dev")
    for number in (5, 6, 7):
        STORAGE.write(dev.snapshot(number), encode_snapshot(snapshot_of(number, commitUser="another")))
    with pytest.raises(ConflictError, match="have diverged"):
        fast_forward(STORAGE, paths, "dev")
    assert latest_snapshot(STORAGE, paths) == read_snapshot(STORAGE, paths, 6)
    new_branch(paths, "empty")
    with pytest.raises(NotFoundError):
        fast_forward(STORAGE, paths, "empty")
    far = on_branch(paths, "far")
    STORAGE.write(far.schema(0), json.dumps(SCHEMA).encode())
    STORAGE.write(far.snapshot(9), encode_snapshot(snapshot_of(9)))
    with pytest.raises(ConflictError, match="starts after the newest snapshot 6"):
        fast_forward(STORAGE, paths, "far")


def test_consumers_say_what_they_want_next(paths: TablePaths) -> None:
    assert least_next_snapshot(STORAGE, paths) is None
    write_consumer(STORAGE, paths, "job1", 5)
    write_consumer(STORAGE, paths, "job2", 4)
    write_consumer(STORAGE, paths, "job1", 6)
    assert read_consumers(STORAGE, paths) == {"job1": 6, "job2": 4}
    assert least_next_snapshot(STORAGE, paths) == 4
    assert find_consumer(STORAGE, paths, "job3") is None
    STORAGE.write(paths.consumer("bad"), b'{"nextSnapshot": "4"}')
    with pytest.raises(FormatError, match="a consumer must have 'nextSnapshot'"):
        read_consumers(STORAGE, paths)


def test_changelogs_outlive_snapshots(paths: TablePaths) -> None:
    assert changelog_ids(STORAGE, paths) == []
    for number in (1, 2):
        STORAGE.write(paths.changelog(number), encode_snapshot(snapshot_of(number, changelogManifestList="m")))
    assert changelog_ids(STORAGE, paths) == [1, 2]
    assert read_changelog(STORAGE, paths, 2).changelog_manifest_list == "m"
    with pytest.raises(NotFoundError, match="snapshot 3 has no changelog"):
        read_changelog(STORAGE, paths, 3)
    STORAGE.write(paths.changelog(4), encode_snapshot(snapshot_of(5)))
    with pytest.raises(FormatError, match="the changelog is of 5"):
        read_changelog(STORAGE, paths, 4)


# Statistics and paths -----------------------------------------------------------------------------------------------


def test_statistics_name_what_is_known() -> None:
    columns = {"ä": ColStats(col_id=3, distinct_count=5)}
    numbers = {"snapshot_id": 2, "schema_id": 0, "merged_record_count": 80, "merged_record_size": 900}
    assert json.loads(encode_statistics(StatisticsFile(**numbers, col_stats=columns))) == {
        "snapshotId": 2,
        "schemaId": 0,
        "mergedRecordCount": 80,
        "mergedRecordSize": 900,
        "colStats": {"ä": {"colId": 3, "distinctCount": 5}},
    }
    assert json.loads(encode_statistics(StatisticsFile(**numbers)))["colStats"] == {}


def test_paths_are_escaped_like_those_of_hive() -> None:
    assert escape_path_name("a b/ü=c%\n") == "a b%2Fü%3Dc%25%0A"
    paths = TablePaths("/t", data_folder="data")
    assert paths.bucket([("d:t", "x/y"), ("k", None)], 3) == "/t/data/d%3At=x%2Fy/k=__DEFAULT_PARTITION__/bucket-3"
    assert paths.bucket([("k", "  ")], -2) == "/t/data/k=__DEFAULT_PARTITION__/bucket-postpone"


@pytest.mark.parametrize("name", ["../x", "a/b", "", "..", "."])
def test_names_of_files_never_lead_out_of_their_folder(name: str) -> None:
    paths = TablePaths("/t")
    for place in (
        paths.manifest,
        paths.statistics,
        lambda name: paths.index_file(name, "/t/bucket-0"),
        lambda name: paths.data_file("/t/bucket-0", name),
    ):
        with pytest.raises(FormatError, match="is not a valid file name"):
            place(name)
