"""File indexes against plain Python: every kind of index, laid out here by hand, and every condition on its column."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_indexes import (
    ARROW,
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    MICROS,
    MILLIS,
    NANOS,
    SECONDS,
    SMALLINT,
    STRING,
    TINYINT,
    bitmap_index,
    bsi_index,
    i32,
    range_bitmap_index,
)

from skerry.bitmaps import positions_from_roaring32
from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.paimon.file_index import FileIndex, IndexedColumn, bloom, decode_container, encode_container
from skerry.paimon.file_index.bloom import BloomFilterBuilder
from skerry.paimon.file_index.builders import index_builders
from skerry.paimon.file_index.grouped_bitmaps import encode_bitmaps
from skerry.paimon.file_index.keys import as_key
from skerry.paimon.metadata.index_settings import index_settings
from skerry.paimon.values.types import AtomicType, DataField
from skerry.table.predicate import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    Column,
    Comparison,
    In,
    IsNaN,
    IsNull,
    Operator,
    Predicate,
    StartsWith,
    conjunction,
    disjunction,
)
from torture import examples

FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, math.nan, math.inf, 1.5])
VALUES = {
    STRING: st.text(max_size=3),
    INT: st.integers(-5, 5) | st.integers(-(2**31), 2**31 - 1),
    BIGINT: st.integers(-5, 5) | st.integers(-(2**63) + 1, 2**63 - 1),
    TINYINT: st.integers(-128, 127),
    SMALLINT: st.integers(-300, 300),
    BOOLEAN: st.booleans(),
    DATE: st.integers(-10, 10),
    FLOAT: FLOATS,
    DOUBLE: FLOATS,
    DECIMAL: st.integers(-500, 500).map(lambda unscaled: Decimal(unscaled).scaleb(-2)),
    SECONDS: st.integers(-3, 3),
    MILLIS: st.integers(-3, 3),
    MICROS: st.integers(-3, 3),
    NANOS: st.integers(-3000, 3000),
}


# ---- conditions, by hand ----


def holds(leaf: Predicate, value: Any) -> bool:
    if isinstance(leaf, IsNull):
        return (value is None) != leaf.negated
    if value is None:
        return False
    nan = isinstance(value, float) and math.isnan(value)
    match leaf:
        case Comparison(_, operator, other):
            return {
                Operator.EQ: value == other,
                Operator.NE: value != other,
                Operator.LT: not nan and value < other,
                Operator.LE: not nan and value <= other,
                Operator.GT: nan or value > other,
                Operator.GE: nan or value >= other,
            }[operator]
        case In(_, values, negated):
            return (value in values) != negated
        case StartsWith(_, prefix, negated):
            return value.startswith(prefix) != negated
        case IsNaN(_, negated):
            return nan != negated
    raise AssertionError(leaf)


def leaves(type_: AtomicType, value: Any, others: tuple[Any, ...]) -> list[Predicate]:
    column = Column(7, ("c",), ARROW[type_])
    found: list[Predicate] = [IsNull(column), IsNull(column, negated=True)]
    if not (isinstance(value, float) and math.isnan(value)):
        found += [Comparison(column, operator, value) for operator in Operator]
    wanted = tuple(other for other in {value, *others} if other == other)
    if wanted:
        found += [In(column, wanted), In(column, wanted, negated=True)]
    if type_ == STRING and value:
        found += [StartsWith(column, value[:1]), StartsWith(column, value[:1], negated=True)]
    if type_ in (FLOAT, DOUBLE):
        found += [IsNaN(column), IsNaN(column, negated=True)]
    return found


def select(type_: AtomicType, kind: str, index: bytes | None, leaf: Predicate, row_count: int) -> list[int] | None:
    container = encode_container({"was": {kind: index}})
    rows = FileIndex.decode(container, row_count).select(leaf, {7: IndexedColumn("was", type_)})
    return None if rows is None else rows.tolist()


EXACT = {
    "bitmap": (lambda t, v: bitmap_index(t, v, 2), [t for t in VALUES if t != DECIMAL]),
    "bsi": (bsi_index, [t for t in VALUES if t not in (STRING, BOOLEAN, FLOAT, DOUBLE)]),
    "range-bitmap": (range_bitmap_index, [t for t in VALUES if t != NANOS]),
}
KINDS = [(kind, type_) for kind, (_, types) in EXACT.items() for type_ in types]


@pytest.mark.parametrize(("kind", "type_"), KINDS, ids=str)
@settings(max_examples=examples(8))
@given(data=st.data())
def test_an_index_leaves_exactly_the_rows_that_a_condition_wants(kind: str, type_: AtomicType, data: Any) -> None:
    values = data.draw(st.lists(st.none() | VALUES[type_], min_size=1, max_size=12))
    index = EXACT[kind][0](type_, values)
    present = [value for value in values if value is not None]
    literal = VALUES[type_] | st.sampled_from(present) if present else VALUES[type_]
    for leaf in leaves(type_, data.draw(literal), tuple(data.draw(st.lists(literal, max_size=2)))):
        found = select(type_, kind, index, leaf, len(values))
        wanted = [row for row, value in enumerate(values) if holds(leaf, value)]
        assert found is not None
        if type_ == NANOS:  # an index has microseconds
            assert set(wanted) <= set(found), leaf
        else:
            assert found == wanted, leaf


WRITTEN = {
    "bitmap": {"index-block-size": "40 b"},
    "bsi": {},
    "range-bitmap": {"chunk-size": "24 b"},
}


def written(kind: str, type_: AtomicType, batches: list[pa.Array], **options: str) -> bytes:
    texts = {f"file-index.{kind}.was.{name}": text for name, text in options.items()}
    settings = index_settings({f"file-index.{kind}.columns": "was", **texts})
    (builder,) = index_builders(settings, {"was": DataField(0, "was", type_)})["was"]
    for batch in batches:
        builder.update(pa.chunked_array([batch]))
    index = builder.finish()
    assert index is not None
    return index


@pytest.mark.parametrize(("kind", "type_"), KINDS, ids=str)
@settings(max_examples=examples(8))
@given(data=st.data())
def test_a_written_index_leaves_exactly_the_rows_that_a_condition_wants(
    kind: str, type_: AtomicType, data: Any
) -> None:
    values = data.draw(st.lists(st.none() | VALUES[type_], min_size=1, max_size=12))
    middle = data.draw(st.integers(0, len(values)))
    batches = [pa.array(part, ARROW[type_]) for part in (values[:middle], values[middle:])]
    index = written(kind, type_, batches, **WRITTEN[kind])
    for leaf in leaves(type_, data.draw(VALUES[type_]), tuple(value for value in values[:2] if value is not None)):
        found = select(type_, kind, index, leaf, len(values))
        wanted = [row for row, value in enumerate(values) if holds(leaf, value)]
        assert found is not None
        assert set(wanted) <= set(found) if type_ == NANOS else found == wanted, leaf
    if kind == "bitmap":
        first = written(kind, type_, batches, version="1")
        nothing = IsNull(Column(7, ("c",), ARROW[type_]))
        assert select(type_, kind, first, nothing, len(values)) == [
            row for row, value in enumerate(values) if value is None
        ]


@given(
    data=st.lists(
        st.lists(st.integers(0, 1 << 18), unique=True, max_size=8)
        | st.tuples(st.integers(0, 1 << 17), st.integers(0, 9000)).map(lambda run: list(range(run[0], sum(run))))
        | st.tuples(st.integers(0, 70000), st.integers(0, 9000)).map(lambda run: list(range(run[0], sum(run), 2))),
        max_size=4,
    )
)
@settings(max_examples=30)
def test_bitmaps_encoded_side_by_side_are_those_of_croaring(data: list[list[int]]) -> None:
    groups = [np.array(sorted(group), np.int64) for group in data]
    starts = np.cumsum([0, *map(len, groups)]).astype(np.int64)
    encoded, ends = encode_bitmaps(np.concatenate([np.zeros(0, np.int64), *groups]), starts)
    for group, start, end in zip(groups, ends, ends[1:], strict=False):
        assert positions_from_roaring32(encoded[start:end].tobytes()).tolist() == group.tolist()
    assert ends[-1] == len(encoded)


@given(values=st.lists(st.none() | VALUES[STRING], min_size=1, max_size=12), literal=VALUES[STRING])
def test_the_first_version_of_bitmaps_is_read(values: list[Any], literal: str) -> None:
    index = bitmap_index(STRING, values, 1)
    for leaf in leaves(STRING, literal, ()):
        assert select(STRING, "bitmap", index, leaf, len(values)) == [
            row for row, value in enumerate(values) if holds(leaf, value)
        ]


# ---- Bloom filters ----


@pytest.mark.parametrize("type_", [t for t in [*VALUES, BYTES] if bloom.can_index(t)], ids=str)
@settings(max_examples=examples(8))
@given(data=st.data())
def test_a_bloom_filter_never_misses_a_value(type_: AtomicType, data: Any) -> None:
    strategy = st.binary(max_size=80) if type_ == BYTES else VALUES[type_]
    values = data.draw(st.lists(st.none() | strategy, max_size=12))
    builder = BloomFilterBuilder(type_, items=10, fpp=0.01)
    builder.update(pa.chunked_array([pa.array(values, ARROW[type_])]))
    index = builder.finish()
    present = [value for value in values if value is not None]
    assert (index is None) == (not present)
    column = Column(7, ("c",), ARROW[type_])
    for value in present:
        if value == value:
            for leaf in (Comparison(column, Operator.EQ, value), In(column, (value,))):
                assert select(type_, "bloom-filter", index, leaf, len(values)) is None
    other = Comparison(column, Operator.NE, data.draw(strategy))
    assert select(type_, "bloom-filter", index, other, len(values)) == (None if present else [])


def test_a_bloom_filter_skips_most_of_what_is_not_there() -> None:
    builder = BloomFilterBuilder(INT, items=1000, fpp=0.01)
    builder.update(pa.array(range(1000), pa.int32()))
    index, column = builder.finish(), Column(7, ("c",), pa.int32())
    hits = [
        select(INT, "bloom-filter", index, Comparison(column, Operator.EQ, value), 1000) for value in range(1000, 3000)
    ]
    assert hits.count([]) > 1940


def test_the_size_of_a_bloom_filter_follows_paimon() -> None:
    builder = BloomFilterBuilder(INT)
    builder.update(pa.array([1], pa.int32()))
    index = builder.finish()
    assert index is not None
    assert len(index) == 4 + 599_067  # int(-1e6 ln 0.1 / ln² 2) bits, and on to a multiple of 8
    assert index[:4] == i32(3)


@given(data=st.lists(st.binary(max_size=100), min_size=1, max_size=5), offset=st.integers(0, 3))
def test_bytes_hash_as_xxhash_has_it(data: list[bytes], offset: int) -> None:
    values = pa.array([b"x"] * offset + data, pa.binary())[offset:]
    assert bloom.hash_column(BYTES, values).tolist() == [bloom.hash_key(BYTES, value) for value in data]
    assert bloom.hash_key(BYTES, data[0]) % 2**64 == xxhash.xxh64_intdigest(data[0], seed=0)


@pytest.mark.parametrize("type_", [INT, BIGINT, FLOAT, DOUBLE, SECONDS, MILLIS, NANOS], ids=str)
@settings(max_examples=examples(8))
@given(data=st.data())
def test_the_kernel_hashes_numbers_as_its_twin(type_: AtomicType, data: Any) -> None:
    values = data.draw(st.lists(VALUES[type_], min_size=1))
    column = pa.array(values, ARROW[type_])
    kept = column.to_pylist() if type_ in (FLOAT, DOUBLE) else values
    kept = [math.nan if value != value else value for value in kept]
    assert bloom.hash_column(type_, column).tolist() == [bloom.hash_key(type_, as_key(type_, v)) for v in kept]


@given(hashed=st.integers(-(2**63), 2**63 - 1), count=st.integers(1, 8))
def test_the_kernel_sets_the_bits_of_its_twin(hashed: int, count: int) -> None:
    bits = np.zeros(13, np.uint8)
    bloom._set_bits(np.array([hashed]), count, bits)
    wanted = np.zeros(104, np.uint8)
    wanted[bloom.bit_positions(hashed, count, 104)] = 1
    assert np.unpackbits(bits, bitorder="little").tolist() == wanted.tolist()


def test_types_without_bloom_filters_are_refused() -> None:
    with pytest.raises(SchemaError, match="cannot have Bloom filters"):
        BloomFilterBuilder(DECIMAL)
    with pytest.raises(SchemaError, match="0 items"):
        BloomFilterBuilder(INT, items=0)


# ---- the container ----


def test_the_container_as_java_lays_it_out() -> None:
    data = encode_container({"é\0😀": {"bitmap": b"abc", "bsi": None}})
    assert data[:16] == struct.pack(">qii", 1493475289347502, 1, len(data) - 3)
    assert data[20:22] == struct.pack(">H", 10)  # é, 0 in two bytes, two surrogates of three
    found = decode_container(data)
    index = found["é\0😀"]["bitmap"]
    assert index is not None
    assert bytes(index.data) == b"abc"
    assert found["é\0😀"]["bsi"] is None


def test_conditions_are_joined() -> None:
    column, unknown = Column(7, ("c",), pa.int32()), Column(8, ("d",), pa.int32())
    index = bitmap_index(INT, [1, 2, 3], 2)
    parts = [Comparison(column, Operator.EQ, number) for number in (1, 2)]
    other = Comparison(unknown, Operator.EQ, 1)
    assert select(INT, "bitmap", index, disjunction(parts), 3) == [0, 1]
    assert select(INT, "bitmap", index, conjunction(parts), 3) == []
    assert select(INT, "bitmap", index, disjunction([parts[0], other]), 3) is None
    assert select(INT, "bitmap", index, conjunction([parts[0], other]), 3) == [0]
    assert select(INT, "bitmap", index, ALWAYS_TRUE, 3) is None
    assert select(INT, "bitmap", index, ALWAYS_FALSE, 3) == []


def test_unknown_indexes_leave_everything() -> None:
    leaf = Comparison(Column(7, ("c",), pa.int32()), Operator.EQ, 1)
    assert select(INT, "zone-map", b"?", leaf, 3) is None
    assert select(DECIMAL, "bitmap", b"?", leaf, 3) is None


def test_a_column_without_values_has_nulls_only() -> None:
    column = Column(7, ("c",), pa.int32())
    assert select(INT, "bitmap", None, Comparison(column, Operator.NE, 1), 3) == []
    assert select(INT, "bitmap", None, IsNull(column, negated=True), 3) == []
    assert select(INT, "bitmap", None, IsNull(column), 3) is None


# ---- bad input ----


def test_other_versions_are_refused() -> None:
    container = bytearray(encode_container({"c": {}}))
    container[11] = 2
    with pytest.raises(UnsupportedError, match="file index of version 2"):
        decode_container(container)
    leaf = Comparison(Column(7, ("c",), pa.int32()), Operator.EQ, 1)
    for kind, index in (
        ("bitmap", b"\x03"),
        ("bsi", b"\x02"),
        ("range-bitmap", i32(1) + b"\x02"),
    ):
        with pytest.raises(UnsupportedError, match=r"version [23]"):
            select(INT, kind, index, leaf, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "magic needs 8 bytes, 0 are left"),
        (lambda data: b"\1" + data[1:], "expected magic 1493475289347502"),
        (lambda data: data[:12] + i32(1 << 30) + data[16:], "the head of 1073741824 bytes"),
        (lambda data: data[:16] + i32(1 << 30) + data[20:], "number of columns is 1073741824"),
        (lambda data: data[:16] + i32(-1) + data[20:], "number of columns is -1"),
        (lambda data: data[:-1], "index 'bitmap' of 'c'"),
    ],
)
def test_damaged_containers_are_refused(change: Any, message: str) -> None:
    data = encode_container({"c": {"bitmap": bitmap_index(INT, [1, 2, 1], 2)}})
    with pytest.raises(FormatError, match=message):
        decode_container(change(data), location="f.index")


def test_an_index_is_of_its_file() -> None:
    leaf = Comparison(Column(7, ("c",), pa.int32()), Operator.EQ, 1)
    for kind, (encode, _) in EXACT.items():
        with pytest.raises(FormatError, match="an index of 3 rows for a file of 4"):
            select(INT, kind, encode(INT, [1, 2, 1]), leaf, 4)


@pytest.mark.parametrize("kind", [*EXACT, "bloom-filter"])
@given(data=st.data())
def test_damage_is_told_or_makes_another_sound_index(kind: str, data: Any) -> None:
    values = [3, -1, None, 3, 200, 7, -1]
    if kind == "bloom-filter":
        builder = BloomFilterBuilder(INT, items=3)
        builder.update(pa.array(values, pa.int32()))
        index = bytearray(builder.finish() or b"")
    else:
        index = bytearray(EXACT[kind][0](INT, values))
    place = data.draw(st.integers(0, len(index) - 1))
    if data.draw(st.booleans()):
        index[place] ^= data.draw(st.integers(1, 255))
    else:
        del index[place:]
    column = Column(7, ("c",), pa.int32())
    for leaf in (Comparison(column, Operator.LE, 3), IsNull(column)):
        try:
            found = select(INT, kind, bytes(index), leaf, len(values))
        except (FormatError, UnsupportedError):
            continue
        assert found is None or set(found) <= set(range(len(values)))


@pytest.mark.parametrize("kind", EXACT)
def test_the_number_of_rows_is_checked_before_room_is_made_for_them(kind: str) -> None:
    index = bytearray(EXACT[kind][0](INT, [1, 2, 1]))
    at = 5 if kind == "range-bitmap" else 1
    index[at : at + 4] = i32((1 << 31) - 1)
    with pytest.raises(FormatError, match="an index of 2147483647 rows for a file of 3"):
        select(INT, kind, bytes(index), IsNull(Column(7, ("c",), pa.int32())), 3)
