"""Shredding and its undoing: random columns, the tables of the specification, and files by Iceberg Java."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from variant_samples import column, comparable, decoded, random_type, random_value

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.variant import assembling, check, decode_variant, encode_variant, parse_json, variant_get
from skerry.variant.assembling import assemble
from skerry.variant.building import build_objects
from skerry.variant.paths import normalized_path
from skerry.variant.shredding import shred, stored_type
from skerry.variant.shredding_choice import choose_shredding
from skerry.variant.stored import stored_get
from torture import examples

CASES = Path(__file__).parents[3] / "shared/cases/small/parquet-variant/shredded_variant"


def through_parquet(array: pa.Array) -> pa.Array:
    file = io.BytesIO()
    pq.write_table(pa.table({"v": array}), file)
    chunks = pq.read_table(file)["v"].chunks
    return chunks[0] if chunks else pa.array([], array.type)


def same(first: pa.Array, second: pa.Array) -> bool:
    return [comparable(value) for value in decoded(first)] == [comparable(value) for value in decoded(second)]


@pytest.mark.parametrize("seed", range(examples(2)))
def test_shredded_columns_come_back(seed: int) -> None:
    rng = random.Random(seed)
    for number in range(15):
        values = [... if rng.random() < 0.1 else random_value(rng) for _ in range(rng.choice([0, 1, 5, 40]))]
        array = column(values).slice(number % 2)
        type_ = random_type(rng) if number % 3 else choose_shredding(array) or pa.int8()
        shredded = shred(array, type_)
        shredded.validate(full=True)
        assert shredded.type == stored_type(type_)
        for stored in (shredded, through_parquet(shredded)):
            back = assemble(stored)
            back.validate(full=True)
            check(back)
            assert same(back, array), type_
            kinds = [pa.int64(), pa.string(), pa.decimal128(20, 3), pa.uuid(), pa.float64(), pa.timestamp("us")]
            for path in (("a",), ("b", "a"), ("é", 0), ("f1",), ()):
                for kind in kinds:
                    ours = stored_get(stored, path, kind)
                    assert ours.equals(variant_get(array, normalized_path(path), kind)), (type_, path, kind)


def test_values_are_shredded_where_they_fit() -> None:
    """The series of the specification, and which of its columns each value goes to."""
    events = [
        {"event_type": "noop", "event_ts": 1},
        {"event_type": "login", "event_ts": 2, "email": "e"},
        {"error_msg": "m"},
        "malformed: not an object",
        {"event_ts": 3, "click": "_button"},
        {"event_type": None, "event_ts": 4},
        {"event_type": "noop", "event_ts": "2024-10-24"},
        {},
        None,
        ...,
    ]
    shredded = shred(column(events), pa.struct([("event_type", pa.string()), ("event_ts", pa.int64())]))
    rows = [None if row is None else (row["value"], row["typed_value"]) for row in shredded.to_pylist()]

    def pair(value: Any = ..., typed: Any = None) -> dict[str, Any]:
        return {"value": None if value is ... else encode_variant(value)[1], "typed_value": typed}

    found = [
        (None if value is None else decode_variant(row["metadata"], value), typed)
        for row, (value, typed) in zip((row for row in shredded.to_pylist() if row), filter(None, rows), strict=True)
    ]
    assert found == [
        (None, {"event_type": pair(typed="noop"), "event_ts": pair(typed=1)}),
        ({"email": "e"}, {"event_type": pair(typed="login"), "event_ts": pair(typed=2)}),
        ({"error_msg": "m"}, {"event_type": pair(), "event_ts": pair()}),
        ("malformed: not an object", None),
        ({"click": "_button"}, {"event_type": pair(), "event_ts": pair(typed=3)}),
        (None, {"event_type": pair(None), "event_ts": pair(typed=4)}),
        (None, {"event_type": pair(typed="noop"), "event_ts": pair("2024-10-24")}),
        (None, {"event_type": pair(), "event_ts": pair()}),
        (None, None),
    ]
    assert rows[7][0] is None
    assert rows[8] == (b"\x00", None)
    assert rows[9] is None
    assert same(assemble(shredded), column(events))


METADATA = encode_variant({"a": 1, "b": 2})[0]
_PAIR = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
_OBJECT = pa.struct([("value", pa.binary()), ("typed_value", pa.struct([("a", _PAIR)]))])


def stored(type_: pa.StructType, **members: Any) -> pa.StructArray:
    fields = [pa.field("metadata", pa.binary()), *type_]
    return pa.array([{"metadata": METADATA, **members}], pa.struct(fields))


def test_missing_values_are_nulls_where_one_is_required() -> None:
    assert decoded(assemble(stored(_PAIR)))[0].value is None
    elements = pa.struct([("value", pa.binary()), ("typed_value", pa.list_(_PAIR))])
    found = decoded(assemble(stored(elements, typed_value=[{"typed_value": 5}, {}])))
    assert [value.value for value in found[0]] == [5, None]


def test_shredded_fields_hide_those_of_the_rest() -> None:
    """Iceberg Java reads such files, which no writer should write."""
    rest = encode_variant({"a": 1, "b": 2})[1]
    for typed in ({"typed_value": 7}, {}):
        array = assemble(stored(_OBJECT, value=rest, typed_value={"a": typed}))
        expected = {"b": 2} if not typed else {"a": 7, "b": 2}
        assert decode_variant(array[0]["metadata"].as_py(), array[0]["value"].as_py()) == expected


def test_objects_that_are_not_shredded_are_read() -> None:
    array = assemble(stored(_OBJECT, value=encode_variant({"a": 1, "b": 2})[1]))
    assert decode_variant(METADATA, array[0]["value"].as_py()) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("array", "error", "problem"),
    [
        (lambda: stored(_PAIR, value=b"\x00", typed_value=1), FormatError, "no object"),
        (lambda: stored(_OBJECT, value=b"\x00", typed_value={"a": {}}), FormatError, "value that is none"),
        (lambda: stored(pa.struct([("typed_value", pa.uint32())])), UnsupportedError, "uint32"),
        (lambda: stored(pa.struct([("typed_value", pa.binary(4))])), UnsupportedError, "fixed_size_binary"),
        (lambda: stored(pa.struct([("typed_value", pa.timestamp("ms"))])), UnsupportedError, "timestamp"),
        (lambda: stored(pa.struct([("typed_value", pa.struct([("a", pa.int8())]))])), FormatError, "int8"),
        (lambda: stored(pa.struct([("x", pa.int8())])), SchemaError, "expected metadata"),
        (lambda: stored(pa.struct([("value", pa.int64())]), value=1), FormatError, "stored as int64"),
        (lambda: stored(pa.struct([("value", pa.list_(pa.int8()))])), FormatError, "stored as list"),
        (lambda: stored(pa.struct([("value", pa.int64()), ("typed_value", pa.int8())])), FormatError, "as int64"),
        (
            lambda: stored(
                pa.struct([("typed_value", pa.struct([("a", pa.struct([("value", pa.int8())]))]))]),
                typed_value={"a": {}},
            ),
            FormatError,
            "as int8",
        ),
        (
            lambda: pa.array([{"metadata": 1}], pa.struct([("metadata", pa.int64()), ("typed_value", pa.int8())])),
            FormatError,
            "metadata of a variant is stored as int64",
        ),
        (
            lambda: stored(
                pa.struct([("typed_value", pa.struct([("c", _PAIR)]))]), typed_value={"c": {"typed_value": 1}}
            ),
            FormatError,
            "name that the metadata does not have",
        ),
        (
            lambda: pa.array([{"value": b"\x00"}], pa.struct([("metadata", pa.binary()), ("value", pa.binary())])),
            FormatError,
            "no metadata",
        ),
        (
            lambda: stored(
                pa.struct([("value", pa.binary()), ("typed_value", pa.struct([("c", _PAIR)]))]),
                value=b"\x02\x02\x00\x01\x00\x00\x01\x00",
                typed_value={"c": {}},
            ),
            FormatError,
            "overlap",
        ),
    ],
)
def test_bad_columns_are_refused(array: Any, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        assemble(array())


def test_paths_of_bad_columns_are_refused() -> None:
    number = stored(pa.struct([("value", pa.int64()), ("typed_value", pa.int8())]), value=1)
    with pytest.raises(FormatError, match="value of a variant is stored as int64"):
        stored_get(number, (), pa.int8())
    with pytest.raises(SchemaError, match="expected metadata"):
        stored_get(pa.array([{"value": b"\x00"}]), ("a",), pa.int8())


@pytest.mark.parametrize("type_", [pa.struct([]), pa.uint8(), pa.map_(pa.string(), pa.int8()), pa.large_string()])
def test_other_types_are_not_shredded(type_: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="cannot be shredded"):
        shred(column([1]), type_)


def test_overlapping_fields_do_not_grow() -> None:
    """An object of many fields that all are one long string is small; its fields together are not."""
    names = [f"{i:04}" for i in range(2000)]
    metadata = encode_variant(dict.fromkeys(names))[0]
    text = b"\x40" + (10**6).to_bytes(4, "little") + b"x" * 10**6
    head = bytes([(1 << 4 | 1 << 2 | 3) << 2 | 2]) + (2000).to_bytes(4, "little")
    ids = b"".join(i.to_bytes(2, "little") for i in range(2000))
    offsets = (0).to_bytes(4, "little") * 2000 + len(text).to_bytes(4, "little")
    row = {"metadata": metadata, "value": head + ids + offsets + text}
    array = pa.array([row], column([1]).type)
    with pytest.raises(FormatError, match="overlap"):
        shred(array, pa.struct([("0001", pa.int8())]))


def test_there_is_room_for_fields_that_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels write without checks: fields whose values share their bytes must not exceed the room for all."""
    names = [f"{i:03}" for i in range(200)]
    value = b"\x02\xc8" + bytes(range(200)) + bytes(200) + b"\x01" + b"\x00"
    array = pa.array([{"metadata": encode_variant(dict.fromkeys(names))[0], "value": value}], column([1]).type)
    rooms = []

    def build(*args: Any) -> Any:
        rooms.append(len(args[7]))
        return build_objects(*args)

    monkeypatch.setattr(assembling, "build_objects", build)
    with pytest.raises(FormatError, match="overlap"):
        shred(array, pa.struct([("x", pa.int8())]))
    assert min(rooms) >= len(names)


# ---- choosing ----


def test_fields_of_one_kind_are_chosen() -> None:
    documents = [
        {
            "id": i,
            "big": 2**40 * i,
            "price": i if i % 3 else i + 0.5,
            "tags": ["a", "b"][: i % 3],
            "geo": {"lat": f"{i}", "maybe": None},
            "mixed": i if i % 2 else "text",
            **({"rare": 1} if i % 20 == 0 else {}),
        }
        for i in range(100)
    ]
    rows = [dict(zip(("metadata", "value"), parse_json(json.dumps(document)), strict=True)) for document in documents]
    assert choose_shredding(pa.array(rows, column([]).type)) == pa.struct(
        [
            ("big", pa.int64()),
            ("geo", pa.struct([("lat", pa.string())])),
            ("id", pa.int8()),
            ("price", pa.decimal128(3, 1)),
            ("tags", pa.list_(pa.string())),
        ]
    )


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1, 300, None], pa.int16()),
        ([1, "a"], None),
        ([None, None], None),
        ([..., "a"], pa.string()),
        ([[1], [70_000]], pa.list_(pa.int32())),
        ([[], []], None),
        ([{}], None),
        ([{"a": {}}], None),
        ([True, False], pa.bool_()),
        ([], None),
    ],
)
def test_kinds_are_recognised(values: list[Any], type_: pa.DataType | None) -> None:
    assert choose_shredding(column(values)) == type_


# ---- files by Iceberg Java ----


def cases() -> list[dict[str, Any]]:
    path = CASES / "cases.json"
    return [case for case in json.loads(path.read_text()) if "parquet_file" in case] if path.exists() else []


def split(data: bytes) -> tuple[bytes, bytes]:
    """Metadata and value that follow each other."""
    width = (data[0] >> 6) + 1
    count = int.from_bytes(data[1 : 1 + width], "little")
    at = 1 + width * (count + 2)
    end = at + int.from_bytes(data[at - width : at], "little")
    return data[:end], data[end:]


@pytest.mark.skipif(not CASES.exists(), reason="files by Apache's parquet-testing are not in this repository")
def test_files_by_java_have_their_values() -> None:
    read = refused = 0
    for case in cases():
        (array,) = pq.read_table(CASES / case["parquet_file"]).column("var").chunks
        if "error_message" in case:
            with pytest.raises((FormatError, UnsupportedError)):
                assemble(array)
            refused += 1
            continue
        found = assemble(array)
        check(found)
        files = case["variant_files"] if "variant_files" in case else [case["variant_file"]]
        expected = [
            ... if file is None else decode_variant(*split((CASES / file).read_bytes()), typed=True) for file in files
        ]
        assert list(map(repr, decoded(found))) == list(map(repr, expected)), case
        read += len(files)
    assert (read, refused) == (138, 6)
