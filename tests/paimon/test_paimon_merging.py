"""Merge engines against a plain model that takes one record at a time, and sorting and merging against Python's own."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.paimon.merging import (
    MergeFunction,
    OrderKeys,
    Records,
    RowKind,
    encode_order_keys,
    lowest_level_only,
    merge_runs,
    sort_records,
)
from skerry.paimon.merging import records as records_module
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.values.arrow_types import to_paimon_fields
from torture import examples

Row = dict[str, Any]
RETRACT = (RowKind.UPDATE_BEFORE, RowKind.DELETE)

# ---- order keys ----

COLUMNS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    pa.bool_(): st.booleans(),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, -2.0]),
    pa.string(): st.text(st.sampled_from("a\0é\uffff😀"), max_size=12),
    pa.binary(): st.binary(max_size=3),
    pa.date32(): st.integers(-5, 5),
    pa.time32("ms"): st.integers(0, 5),
    pa.timestamp("ns"): st.integers(-5, 5),
    pa.decimal128(9, 2): st.integers(-500, 500).map(lambda n: Decimal(n).scaleb(-2)),
    pa.decimal128(30, 2): st.integers(-(10**25), 10**25).map(lambda n: Decimal(n).scaleb(-2)),
}


def rank_of(value: Any, java_floats: bool) -> Any:
    """What Python compares as Paimon compares the value."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        sign = math.copysign(1, value) if java_floats and value == 0 else 0
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value, sign)
    return (1, value.encode() if isinstance(value, str) else value)


@settings(max_examples=60)
@given(data=st.data())
def test_keys_compare_as_their_values(data: Any) -> None:
    types = data.draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3))
    nullable = data.draw(st.lists(st.booleans(), min_size=len(types), max_size=len(types)))
    descending, java_floats = data.draw(st.booleans()), data.draw(st.booleans())
    one = st.tuples(*(st.none() | COLUMNS[t] if may else COLUMNS[t] for t, may in zip(types, nullable, strict=True)))
    rows = data.draw(st.lists(one, max_size=6))
    columns = [pa.array([None, *(row[i] for row in rows)], t)[1:] for i, t in enumerate(types)]
    keys = encode_order_keys(columns, nullable, descending=descending, java_floats=java_floats)

    def turned(value: Any) -> Any:
        rank = rank_of(value, java_floats)
        return _Descending(rank) if descending and value is not None else (_Least() if descending else rank)

    ranks = [tuple(turned(value) for value in row) for row in rows]
    numbers = keys.ranks()
    for i in range(len(rows)):
        for j in range(len(rows)):
            assert (keys.key(i) < keys.key(j)) == (ranks[i] < ranks[j])
            assert (keys.key(i) == keys.key(j)) == (ranks[i] == ranks[j])
            assert (numbers[i] < numbers[j]) == (ranks[i] < ranks[j])


class _Least:  # noqa: PLW1641  compared, never hashed
    def __lt__(self, other: Any) -> bool:
        return not isinstance(other, _Least)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Least)


class _Descending:  # noqa: PLW1641  compared, never hashed
    def __init__(self, rank: Any) -> None:
        self.rank = rank

    def __lt__(self, other: Any) -> bool:
        return not isinstance(other, _Least) and other.rank < self.rank

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.rank == other.rank


def test_lists_have_no_order() -> None:
    with pytest.raises(UnsupportedError, match="have no order"):
        encode_order_keys([pa.array([[1]])], [False])


# ---- sorting and merging ----


def key_columns(kind: str, keys: list[int]) -> OrderKeys:
    if kind == "words":
        return encode_order_keys([pa.array(keys, pa.int64())], [False])
    texts = pa.array([f"a long beginning {key:05}" for key in keys], pa.string())
    return encode_order_keys([texts], [False])


@pytest.mark.parametrize("kind", ["words", "bytes"])
@settings(max_examples=40)
@given(data=st.data())
def test_runs_are_merged_by_key_sequence_and_number(kind: str, data: Any) -> None:
    runs = data.draw(st.lists(st.lists(st.integers(0, 9), max_size=8).map(sorted), min_size=1, max_size=6))
    keys = [key for run in runs for key in run]
    sequence = data.draw(st.none() | st.lists(st.integers(0, 2), min_size=len(keys), max_size=len(keys)))
    numbers = data.draw(st.lists(st.integers(0, 3), min_size=len(keys), max_size=len(keys)))
    starts = np.cumsum([0, *map(len, runs)])
    fields = None if sequence is None else encode_order_keys([pa.array(sequence, pa.int64())], [False])
    encoded = key_columns(kind, keys)
    order = merge_runs(encoded, starts, np.array(numbers, np.int64), fields)
    assert not isinstance(order, int)
    wanted = sorted(range(len(keys)), key=lambda row: (keys[row], sequence[row] if sequence else 0, numbers[row], row))
    assert order.rows.tolist() == wanted
    begins = [i for i, row in enumerate(wanted) if i == 0 or keys[wanted[i - 1]] != keys[row]]
    assert order.starts.tolist() == [*begins, len(keys)]
    shuffled = data.draw(st.permutations(range(len(keys))))
    mixed = [keys[row] for row in shuffled]
    sorted_order = sort_records(key_columns(kind, mixed), np.array([numbers[row] for row in shuffled], np.int64))
    assert [mixed[row] for row in sorted_order.rows] == sorted(keys)
    assert sorted_order.starts.tolist() == order.starts.tolist()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=30))
def test_a_record_of_a_level_hides_those_of_higher_levels(records: list[tuple[int, int]]) -> None:
    keys, levels = [key for key, _ in records], np.array([level for _, level in records], np.int64)
    order = sort_records(key_columns("words", keys), np.arange(len(keys)))
    left = lowest_level_only(order, levels)
    wanted = []
    for key in sorted(set(keys)):
        mine = [row for row in range(len(keys)) if keys[row] == key]
        lowest = min((levels[row] for row in mine if levels[row]), default=0)
        wanted.append([row for row in mine if levels[row] in (0, lowest)])
    assert [left.rows[a:b].tolist() for a, b in itertools.pairwise(left.starts)] == wanted


WHOLE = st.sampled_from([-(2**63), -(2**62), -1, 0, 1, 7, 2**62, 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.integers(-5, 5) | st.integers(2**40, 2**40 + 3), max_size=40) | st.lists(WHOLE, max_size=20))
def test_records_of_any_whole_numbers_are_ordered_by_key_and_number(keys: list[int]) -> None:
    order = sort_records(key_columns("words", keys), np.arange(len(keys)))
    assert order.rows.tolist() == sorted(range(len(keys)), key=lambda row: (keys[row], row))
    assert order.key_count == len(set(keys))


@pytest.mark.parametrize("kind", ["words", "bytes"])
def test_a_run_out_of_order_is_told(kind: str) -> None:
    keys = key_columns(kind, [1, 2, 5, 3, 0, 4])
    assert merge_runs(keys, np.array([0, 4, 6]), np.zeros(6, np.int64)) == 2


def test_the_kernels_are_their_python() -> None:
    keys = key_columns("bytes", [1, 3, 3, 0, 3])
    found = []
    for merge in (records_module._merge, records_module._merge.py_func):
        rows, starts = np.empty(5, np.int64), np.empty(6, np.int64)
        count = merge(keys.words, keys.data, keys.offsets, np.array([0, 3, 5]), np.empty(6, np.int64), rows, starts)
        found.append((count, rows.tolist(), starts[: count + 1].tolist()))
    assert found[0] == found[1] == (3, [3, 0, 1, 2, 4], [0, 1, 2, 5])


def test_keys_are_joined_and_cut() -> None:
    for kind in ("words", "bytes"):
        parts = [key_columns(kind, keys) for keys in ([1, 2, 3], [4], [5, 6])]
        whole = OrderKeys.concat([parts[0].slice(1, 3), parts[1], parts[2]])
        alone = key_columns(kind, [2, 3, 4, 5, 6])
        assert [whole.key(i) for i in range(5)] == [alone.key(i) for i in range(5)]


# ---- a plain model of the engines ----


class Model:
    """Takes the records of a key one by one, as docs/formats/paimon.md § 10 says."""

    def __init__(self, schema: TableSchema) -> None:
        self.options = dict(schema.options)
        self.keys = schema.primary_keys
        self.names = [field.name for field in schema.fields]
        self.types = {field.name: field.type for field in schema.arrow_schema}
        self.engine = self.options["merge-engine"]
        self.groups = []
        for name, value in self.options.items():
            if name.endswith(".sequence-group"):
                fields = name.removeprefix("fields.").removesuffix(".sequence-group").split(",")
                self.groups.append((fields, value.split(",")))

    def flag(self, name: str) -> bool:
        return self.options.get(name) == "true"

    def merge(self, records: list[tuple[RowKind, Row]]) -> tuple[RowKind, Row] | None:
        if len(records) == 1:
            return records[0]
        return {
            "deduplicate": self.deduplicate,
            "first-row": self.first_row,
            "aggregation": self.aggregation,
            "partial-update": self.partial_update,
        }[self.engine](records)

    def deduplicate(self, records: list[tuple[RowKind, Row]]) -> tuple[RowKind, Row] | None:
        kept = [record for record in records if not (self.flag("ignore-delete") and record[0] in RETRACT)]
        return kept[-1] if kept else None

    def first_row(self, records: list[tuple[RowKind, Row]]) -> tuple[RowKind, Row] | None:
        kept = [record for record in records if record[0] not in RETRACT]
        return kept[0] if kept else None

    def function(self, column: str) -> str | None:
        if column in self.keys:
            return "primary_key"
        return self.options.get(f"fields.{column}.aggregate-function")

    def aggregation(self, records: list[tuple[RowKind, Row]]) -> tuple[RowKind, Row]:
        row: Row = dict.fromkeys(self.names)
        begun: set[str] = set()
        kind = RowKind.INSERT
        for kind_, values in records:
            kind = RowKind.INSERT
            if kind_ is RowKind.DELETE and self.flag("aggregation.remove-record-on-delete"):
                row, kind = dict(values), RowKind.DELETE
                continue
            for name in self.names:
                function = self.function(name) or "last_non_null_value"
                if kind_ in RETRACT:
                    if self.options.get(f"fields.{name}.ignore-retract") != "true":
                        row[name] = self.take_back(function, name, row[name], values[name])
                else:
                    row[name] = self.add(function, name, row[name], values[name], begun)
        return kind, row

    def partial_update(self, records: list[tuple[RowKind, Row]]) -> tuple[RowKind, Row]:
        row: Row = dict.fromkeys(self.names)
        begun: set[str] = set()
        filled = inserted = removed = False
        for kind, values in records:
            removed = False
            if kind in RETRACT:
                if not filled:
                    row, filled = dict(values), True
                if self.flag("ignore-delete"):
                    continue
                if self.groups:
                    row, removed = self.retract_groups(kind, row, values)
                elif kind is RowKind.DELETE:
                    row, removed = dict(values), True
                continue
            filled = inserted = True
            self.add_groups(row, values, begun)
        return (RowKind.DELETE if removed or not inserted else RowKind.INSERT), row

    def add_groups(self, row: Row, values: Row, begun: set[str]) -> None:
        grouped = {name for fields, members in self.groups for name in (*fields, *members)}
        for name in self.names:
            if name not in grouped and values[name] is not None:
                row[name] = values[name]
        for fields, members in self.groups:
            if all(values[field] is None for field in fields):
                continue
            newer = self.sequence(values, fields) >= self.sequence(row, fields)
            for name in members:
                function = self.function(name)
                if function is not None:
                    in_turn = newer or function == "collect"  # whose order is undefined
                    pair = (row[name], values[name]) if in_turn else (values[name], row[name])
                    row[name] = self.add(function, name, *pair, begun)
                elif newer:
                    row[name] = values[name]
            if newer:
                row.update({field: values[field] for field in fields})

    def retract_groups(self, kind: RowKind, row: Row, values: Row) -> tuple[Row, bool]:
        row = dict(row)
        removing = self.options.get("partial-update.remove-record-on-sequence-group", "").split(",")
        live = [group for group in self.groups if any(values[field] is not None for field in group[0])]
        for fields, _ in live:
            newer = self.sequence(values, fields) >= self.sequence(row, fields)
            if newer and kind is RowKind.DELETE and set(removing) & set(fields):
                return dict(values), True
        for fields, members in live:
            newer = self.sequence(values, fields) >= self.sequence(row, fields)
            for name in members:
                function = self.function(name)
                if function is not None:
                    if self.options.get(f"fields.{name}.ignore-retract") != "true":
                        row[name] = self.take_back(function, name, row[name], values[name])
                elif newer:
                    row[name] = None
            if newer:
                row.update({field: values[field] for field in fields})
        return row, False

    def sequence(self, row: Row, fields: list[str]) -> list[Any]:
        return [rank_of(row[field], False) for field in fields]

    def wrapped(self, name: str, number: Any) -> Any:
        type_ = self.types[name]
        if pa.types.is_integer(type_):
            half = 1 << (type_.bit_width - 1)
            return (number + half) % (2 * half) - half
        if pa.types.is_float32(type_):
            return float(np.float32(number))
        if pa.types.is_decimal(type_):
            return number.quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP)
        return number

    def add(self, function: str, name: str, held: Any, value: Any, begun: set[str]) -> Any:  # noqa: C901  a case per function
        match function:
            case "primary_key" | "last_value":
                return value
            case "last_non_null_value":
                return held if value is None else value
            case "first_value" | "first_non_null_value":
                if name in begun or (value is None and function == "first_non_null_value"):
                    return held
                begun.add(name)
                return value
        if held is None or value is None:
            if function == "collect" and self.options.get(f"fields.{name}.distinct") == "true":
                return None if held is None and value is None else unique([*(held or []), *(value or [])])
            return value if held is None else held
        match function:
            case "sum":
                return self.wrapped(name, held + value)
            case "product":
                return self.wrapped(name, held * value)
            case "max":
                return value if rank_of(held, True) < rank_of(value, True) else held
            case "min":
                return value if rank_of(held, True) > rank_of(value, True) else held
            case "bool_and":
                return held and value
            case "bool_or":
                return held or value
            case "listagg":
                return (held + ";" + value) if held and value else held or value
            case "collect":
                both = [*held, *value]
                return unique(both) if self.options.get(f"fields.{name}.distinct") == "true" else both
            case "merge_map":
                return list({**dict(held), **dict(value)}.items())
        raise AssertionError(function)

    def take_back(self, function: str, name: str, held: Any, value: Any) -> Any:
        match function:
            case "primary_key":
                return value
            case "last_value":
                return None
            case "last_non_null_value":
                return held if value is None else None
            case "sum":
                return held if value is None else self.wrapped(name, (held or 0) - value)
            case "collect":
                if held is None or not value:
                    return held
                gone = list(value)
                return [element for element in held if element not in gone or gone.remove(element)]
            case "merge_map":
                if held is None or not value:
                    return held
                return [(key, item) for key, item in held if key not in dict(value)]
        raise AssertionError(function)


def unique(elements: list[Any]) -> list[Any]:
    return list(dict.fromkeys(elements))


# ---- the engines ----

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "a": (pa.int8(), st.integers(-128, 127)),
    "b": (pa.bool_(), st.booleans()),
    "d": (pa.decimal128(10, 2), st.integers(-500, 500).map(lambda n: Decimal(n).scaleb(-2))),
    "f": (pa.float32(), st.floats(-100, 100, width=32) | st.sampled_from([0.0, -0.0])),
    "l": (pa.list_(pa.int32()), st.lists(st.integers(0, 3), max_size=3)),
    "m": (
        pa.map_(pa.string(), pa.int32()),
        st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3), max_size=2).map(lambda d: list(d.items())),
    ),
    "n": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)),
    "s": (pa.string(), st.text("ab;", max_size=2)),
    "g": (pa.int32(), st.integers(0, 3)),
    "h": (pa.string(), st.sampled_from("uvw")),
}
SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), *(pa.field(n, t) for n, (t, _) in VALUES.items())])


def table_schema(engine: str, **options: str) -> TableSchema:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return schema_with({"merge-engine": engine, **named})


def schema_with(options: dict[str, str]) -> TableSchema:
    fields = to_paimon_fields(SCHEMA)
    return TableSchema(0, fields, max(field.id for field in fields), primary_keys=("k",), options=options)


def functions(**by_column: str) -> dict[str, str]:
    return {f"fields.{column}.aggregate-function": function for column, function in by_column.items()}


ALL_KINDS = tuple(RowKind)
ADDS = (RowKind.INSERT, RowKind.UPDATE_AFTER)
TWO_GROUPS = {"fields.g,h.sequence-group": "a,b,n", "fields.d.sequence-group": "s,l,f"}
RETRACTABLE = functions(a="sum", d="sum", f="last_value", l="collect", m="merge_map", n="sum")
CASES: dict[str, tuple[dict[str, str], tuple[RowKind, ...]]] = {
    "deduplicate": ({"merge-engine": "deduplicate"}, ALL_KINDS),
    "deduplicate, deletes ignored": ({"merge-engine": "deduplicate", "ignore-delete": "true"}, ALL_KINDS),
    "first-row": ({"merge-engine": "first-row"}, ADDS),
    "first-row, deletes ignored": ({"merge-engine": "first-row", "ignore-delete": "true"}, ALL_KINDS),
    "partial-update": ({"merge-engine": "partial-update"}, ADDS),
    "partial-update, deletes ignored": ({"merge-engine": "partial-update", "ignore-delete": "true"}, ALL_KINDS),
    "partial-update, deletes remove": (
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        ALL_KINDS,
    ),
    "sequence groups": ({"merge-engine": "partial-update", **TWO_GROUPS}, ALL_KINDS),
    "sequence groups, deletes ignored": (
        {"merge-engine": "partial-update", "ignore-delete": "true", **TWO_GROUPS},
        ALL_KINDS,
    ),
    "sequence groups, deletes remove": (
        {
            "merge-engine": "partial-update",
            "partial-update.remove-record-on-sequence-group": "h",
            **TWO_GROUPS,
        },
        ALL_KINDS,
    ),
    "sequence groups, aggregates": (
        {"merge-engine": "partial-update", **TWO_GROUPS, **functions(a="sum", n="max", l="collect", s="listagg")}
        | {"fields.s.list-agg-delimiter": ";"},
        ADDS,
    ),
    "sequence groups, aggregates taken back": (
        {"merge-engine": "partial-update", **TWO_GROUPS, **functions(a="sum", n="min", l="collect", f="last_value")}
        | {"fields.n.ignore-retract": "true"},
        ALL_KINDS,
    ),
    "sequence groups, first values": (
        {"merge-engine": "partial-update", **TWO_GROUPS, **functions(a="first_value", n="first_non_null_value")},
        ADDS,
    ),
    "aggregation": (
        {
            "merge-engine": "aggregation",
            **functions(a="sum", b="bool_and", d="sum", f="max", l="collect", m="merge_map", n="product", s="listagg"),
            "fields.s.list-agg-delimiter": ";",
            "fields.l.distinct": "true",
        },
        ADDS,
    ),
    "aggregation of others": (
        {
            "merge-engine": "aggregation",
            **functions(a="product", b="bool_or", d="min", f="sum", l="first_value", n="max", s="first_non_null_value"),
        },
        ADDS,
    ),
    "aggregation of texts": (
        {"merge-engine": "aggregation", **functions(s="max", h="min", m="last_value", f="min", d="max")},
        ADDS,
    ),
    "aggregation taken back": ({"merge-engine": "aggregation", **RETRACTABLE}, ALL_KINDS),
    "aggregation, deletes remove": (
        {"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true", **RETRACTABLE},
        ALL_KINDS,
    ),
    "aggregation, retraction ignored": (
        {"merge-engine": "aggregation", **functions(a="max"), "fields.a.ignore-retract": "true"},
        ALL_KINDS,
    ),
}


def records_of(rows: list[tuple[RowKind, Row]]) -> Records:
    values = pa.RecordBatch.from_arrays(
        [pa.array([row[field.name] for _, row in rows], field.type) for field in SCHEMA], schema=SCHEMA
    )
    return Records(values, np.array([kind for kind, _ in rows], np.int8), np.arange(len(rows), dtype=np.int64))


def merged(schema: TableSchema, records: Records) -> Records:
    keys = encode_order_keys([records.values.column("k")], [False])
    function = pickle.loads(pickle.dumps(MergeFunction(schema)))
    function.check()
    return function.merge(records, sort_records(keys, records.numbers))


def draw_rows(data: Any, kinds: tuple[RowKind, ...]) -> list[tuple[RowKind, Row]]:
    row = st.fixed_dictionaries(
        {"k": st.integers(0, 1), **{name: st.none() | values for name, (_, values) in VALUES.items()}}
    )
    return data.draw(st.lists(st.tuples(st.sampled_from(kinds), row), max_size=8))


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


@pytest.mark.parametrize("case", list(CASES))
@settings(max_examples=examples(12))
@given(data=st.data())
def test_an_engine_merges_as_its_model(case: str, data: Any) -> None:
    options, kinds = CASES[case]
    schema = schema_with(options)
    rows = draw_rows(data, kinds)
    found = merged(schema, records_of(rows))
    model = Model(schema)
    wanted = []
    for key in sorted({row["k"] for _, row in rows}):
        result = model.merge([(kind, row) for kind, row in rows if row["k"] == key])
        if result is not None:
            wanted.append(result)
    assert found.kinds.tolist() == [kind for kind, _ in wanted]
    for row, (_, expected) in zip(found.values.to_pylist(), wanted, strict=True):
        for name in row:
            assert same(row[name], expected[name]), (name, row[name], expected[name])


def test_the_row_has_the_number_of_its_last_record() -> None:
    rows = [(RowKind.INSERT, {"k": 1}), (RowKind.INSERT, {"k": 0}), (RowKind.INSERT, {"k": 1})]
    full = [(kind, {**dict.fromkeys(SCHEMA.names), **row}) for kind, row in rows]
    for engine in ("deduplicate", "partial-update", "aggregation"):
        assert merged(table_schema(engine), records_of(full)).numbers.tolist() == [1, 2]
    assert merged(table_schema("first-row"), records_of(full)).numbers.tolist() == [1, 0]


# ---- functions on their own ----


def fold(options: dict[str, str], type_: pa.DataType, values: list[Any], kinds: list[RowKind] | None = None) -> Any:
    """What an aggregate function makes of values of one key."""
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", type_)])
    fields = to_paimon_fields(schema)
    named = {"merge-engine": "aggregation", **{f"fields.v.{name}": value for name, value in options.items()}}
    table = TableSchema(0, fields, max(field.id for field in fields) + 9, primary_keys=("k",), options=named)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1] * len(values), pa.int32()), pa.array(values, type_)], schema=schema
    )
    records = Records(
        batch, np.array(kinds or [RowKind.INSERT] * len(values), np.int8), np.arange(len(values), dtype=np.int64)
    )
    return merged(table, records).values.column("v")[0].as_py()


NESTED = pa.list_(pa.struct([("id", pa.int32()), ("at", pa.int32()), ("x", pa.string())]))


def nested(*rows: tuple[Any, ...]) -> list[Any]:
    return [dict(zip(("id", "at", "x"), row, strict=True)) for row in rows]


def test_nested_update() -> None:
    first, second = nested((1, 1, "a"), (2, 1, "b")), nested((1, 0, "c"), (3, 1, None))
    options = {"aggregate-function": "nested_update"}
    assert fold(options, NESTED, [first, second]) == first + second
    assert fold({**options, "count-limit": "3"}, NESTED, [first, second]) == first + second[:1]
    keyed = {**options, "nested-key": "id"}
    assert fold(keyed, NESTED, [first, second]) == nested((1, 0, "c"), (2, 1, "b"), (3, 1, None))
    in_sequence = {**keyed, "nested-sequence-field": "at"}
    assert fold(in_sequence, NESTED, [first, second]) == nested((1, 1, "a"), (2, 1, "b"), (3, 1, None))
    assert fold(keyed, NESTED, [first, None, [None]]) == first
    back = [RowKind.INSERT, RowKind.DELETE]
    assert fold(keyed, NESTED, [first, nested((2, 7, "?"))], back) == first[:1]
    assert fold(options, NESTED, [first, nested((2, 7, "?"), (1, 1, "a"))], back) == first[1:]


def test_rows_without_a_key() -> None:
    rows = nested((None, 1, "a"), (2, 1, "b"))
    options = {"aggregate-function": "nested_update", "nested-key": "id"}
    assert fold(options, NESTED, [rows, rows[:1]]) == rows
    assert fold({**options, "nested-key-null-strategy": "ignore"}, NESTED, [rows, rows]) == rows[1:]
    with pytest.raises(FormatError, match="a null in its key"):
        fold({**options, "nested-key-null-strategy": "error"}, NESTED, [rows, rows])


def test_nested_partial_update() -> None:
    options = {"aggregate-function": "nested_partial_update", "nested-key": "id"}
    parts = [nested((1, 1, None)), nested((1, None, "a"), (2, None, None)), None, [None, *nested((2, 5, None))]]
    assert fold(options, NESTED, parts) == nested((1, 1, "a"), (2, 5, None))
    assert fold(options, NESTED, [None, parts[0]]) == parts[0]


TIMED = pa.map_(pa.string(), pa.struct([("v", pa.int32()), ("at", pa.string())]))


def test_merge_map_with_keytime() -> None:
    options = {"aggregate-function": "merge_map_with_keytime"}
    first = [("x", {"v": 1, "at": "2"}), ("y", {"v": 1, "at": None}), ("z", {"v": 1, "at": "2"})]
    second = [("x", {"v": 2, "at": "1"}), ("y", {"v": 2, "at": "0"}), ("z", None), ("w", {"v": 9, "at": None})]
    assert fold(options, TIMED, [first, second]) == [first[0], second[1]]
    assert fold({**options, "ts-field": "at"}, TIMED, [first, [("x", {"v": 3, "at": "3"})]])[0][1]["v"] == 3


@pytest.mark.parametrize(
    ("options", "values", "wanted"),
    [
        ({}, ["a", "", "b", None], "a,b"),
        ({}, ["", ""], ""),
        ({"list-agg-delimiter": "|"}, ["a", "b"], "a|b"),
        ({"distinct": "true"}, ["a,b", "b,c,,c", "a"], "a,b,c"),
    ],
)
def test_listagg(options: dict[str, str], values: list[Any], wanted: str) -> None:
    assert fold({"aggregate-function": "listagg", **options}, pa.string(), values) == wanted


def test_products_of_decimals_and_what_is_taken_back_from_them() -> None:
    options, type_ = {"aggregate-function": "product"}, pa.decimal128(5, 2)
    assert fold(options, type_, [Decimal("1.25"), Decimal("1.50")]) == Decimal("1.88")
    assert fold(options, type_, [Decimal(999), Decimal(999)]) is None
    back = [RowKind.INSERT, RowKind.DELETE]
    assert fold(options, type_, [Decimal(3), Decimal(4)], back) == Decimal("0.75")
    with pytest.raises(FormatError, match="cannot be retracted from the product"):
        fold(options, type_, [Decimal(1), Decimal(3)], back)
    assert fold(options, pa.int32(), [-7, 2], back) == -3
    assert fold(options, pa.int8(), [-128, -1], back) == -128
    with pytest.raises(FormatError, match="a 0 cannot be retracted"):
        fold(options, pa.int32(), [7, 0], back)


def test_sums_that_do_not_fit() -> None:
    options = {"aggregate-function": "sum"}
    assert fold(options, pa.int8(), [127, 1]) == -128
    assert fold(options, pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1)]) is None
    with pytest.raises(UnsupportedError, match="does not fit decimal128"):
        fold(options, pa.decimal128(5, 2), [Decimal("999.99"), Decimal("0.01")])


def test_bitmaps_and_sketches_are_united() -> None:
    from skerry.bitmaps import positions_from_roaring32, roaring32_from_positions
    from skerry.theta import ThetaSketch

    bitmaps = [roaring32_from_positions(np.array(rows)) for rows in ([1, 3], [2, 3])]
    found = fold({"aggregate-function": "rbm32"}, pa.binary(), bitmaps)
    assert positions_from_roaring32(found).tolist() == [1, 2, 3]
    sketches = [ThetaSketch().update(pa.array(range(*ends))).serialize() for ends in ((0, 10), (5, 20))]
    assert ThetaSketch.deserialize(fold({"aggregate-function": "theta_sketch"}, pa.binary(), sketches)).estimate() == 20


# ---- what is refused ----


@pytest.mark.parametrize(
    ("engine", "options", "message"),
    [
        (
            "aggregation",
            functions(a="median"),
            "aggregate function median of column 'a' is not supported; supported: sum",
        ),
        ("aggregation", functions(a="hll_sketch"), "HyperLogLog"),
        ("aggregation", functions(s="rbm64"), "64-bit bitmaps"),
        ("aggregation", functions(s="sum"), "needs a column of type number; 's' is string"),
        ("aggregation", functions(a="bool_and"), "of type BOOLEAN"),
        ("aggregation", functions(a="listagg"), "of type STRING"),
        ("aggregation", functions(a="collect"), "of type ARRAY"),
        ("aggregation", functions(a="merge_map"), "of type MAP"),
        ("aggregation", functions(m="merge_map_with_keytime"), "of type MAP of ROWs"),
        ("aggregation", functions(l="nested_update"), "of type ARRAY of ROWs"),
        ("aggregation", functions(a="theta_sketch"), "of type VARBINARY"),
        ("partial-update", functions(a="sum"), "needs a sequence group"),
        ("partial-update", {"fields.g.sequence-group": "k"}, "part of the primary key"),
        ("partial-update", {"fields.g.sequence-group": "nope"}, "no column 'nope'"),
        (
            "partial-update",
            {"fields.g.sequence-group": "a", "fields.h.sequence-group": "a"},
            "in another sequence group",
        ),
        (
            "partial-update",
            {"fields.g.sequence-group": "a", "partial-update.remove-record-on-sequence-group": "a"},
            "not a field of a sequence group",
        ),
        (
            "partial-update",
            {"fields.g.sequence-group": "a", "partial-update.remove-record-on-delete": "true"},
            "cannot be combined with sequence groups",
        ),
        (
            "partial-update",
            {"ignore-delete": "true", "partial-update.remove-record-on-delete": "true"},
            "contradict each other",
        ),
    ],
)
def test_what_does_not_fit_is_refused(engine: str, options: dict[str, str], message: str) -> None:
    with pytest.raises((SchemaError, UnsupportedError), match=message):
        MergeFunction(schema_with({"merge-engine": engine, **options})).check()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge-engine": "partial-update"}, "it needs ignore-delete"),
        ({"merge-engine": "first-row"}, "it needs ignore-delete"),
        ({"merge-engine": "aggregation", **functions(a="max")}, "aggregate function max of column 'a' does not"),
    ],
)
def test_records_that_cannot_be_merged_are_refused(options: dict[str, str], message: str) -> None:
    empty = dict.fromkeys(SCHEMA.names)
    rows = [(RowKind.INSERT, {**empty, "k": 1}), (RowKind.DELETE, {**empty, "k": 1})]
    with pytest.raises(UnsupportedError, match=message):
        merged(schema_with(options), records_of(rows))
    single = merged(schema_with(options), records_of(rows[1:]))
    assert single.kinds.tolist() == [RowKind.DELETE]


def test_unknown_kinds_are_refused() -> None:
    records = records_of([(RowKind.INSERT, {**dict.fromkeys(SCHEMA.names), "k": 1})])
    records.kinds[0] = 4
    with pytest.raises(FormatError, match="of kind 4"):
        merged(table_schema("deduplicate"), records)


def test_what_must_be_read_for_a_column() -> None:
    columns: Callable[..., tuple[str, ...]] = MergeFunction(
        schema_with({"merge-engine": "partial-update", "sequence.field": "f", **TWO_GROUPS})
    ).columns_for
    assert columns(["m"]) == ("f", "d", "m") or columns(["m"]) == ("d", "f", "m")
    assert columns(["n"]) == ("d", "f", "n", "g", "h")
    removing = {"fields.g.sequence-group": "a", "partial-update.remove-record-on-sequence-group": "g"}
    assert MergeFunction(schema_with({"merge-engine": "partial-update", **removing})).columns_for(["s"]) == ("s", "g")
    assert MergeFunction(table_schema("deduplicate")).columns_for(["s", "a"]) == ("a", "s")
