"""Urls, property values, ticks and selections of rows."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.amudai.fields.selection import Selection
from skerry.amudai.messages import AnyValue, DataRef, NameValuePair
from skerry.amudai.shard.framing import encode_message
from skerry.amudai.shard.references import UrlRules, encode_data_ref, encode_url
from skerry.amudai.values.any_value import (
    Annotated,
    DateTime,
    Property,
    TimeSpan,
    decode_properties,
    encode_any_value,
    encode_properties,
)
from skerry.amudai.values.datetimes import EPOCH_TICKS, decode_ticks, encode_ticks
from skerry.errors import FormatError, SchemaError, UnsupportedError

# Urls ---------------------------------------------------------------------------------------------------------------

ROOT = "/data/shards/one.amudai.shard"


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("", ROOT),
        ("stripe", "/data/shards/stripe"),
        ("deep/er/stripe", "/data/shards/deep/er/stripe"),
        ("a%20b", "/data/shards/a b"),
        ("a..b/.c", "/data/shards/a..b/.c"),
    ],
)
def test_urls_below_the_root_are_followed(url: str, location: str) -> None:
    rules = UrlRules(ROOT)
    assert rules.resolve(url) == location
    assert rules.resolve(encode_url(ROOT, location)) == location


def test_an_empty_url_is_the_file_that_it_is_in() -> None:
    assert UrlRules(ROOT).resolve("", "/data/shards/other") == "/data/shards/other"


@pytest.mark.parametrize(
    "url",
    [
        "..",
        "../x",
        "a/../../x",
        ".",
        "a/./b",
        "%2e%2e/x",
        "%2E./x",
        "a%2f..%2f..%2fx",
        "a//b",
        "a/",
        "a\\b",
        "a?b",
        "a#b",
        "a\nb",
        "%00",
    ],
)
def test_urls_that_leave_or_confuse_are_refused(url: str) -> None:
    with pytest.raises(FormatError, match="is not allowed, expected a path below the folder of the shard"):
        UrlRules(ROOT).resolve(url)


@pytest.mark.parametrize("url", ["/etc/passwd", "file:///etc/passwd", "s3://bucket/key", "https://host/x", "x:y"])
def test_absolute_urls_need_leave(url: str) -> None:
    with pytest.raises(UnsupportedError, match="absolute urls are followed only into folders that the caller allows"):
        UrlRules(ROOT, ["/data/other", "s3://bucket/other"]).resolve(url)


def test_absolute_urls_with_leave() -> None:
    rules = UrlRules(ROOT, ["/data/other", "s3://bucket/deep"])
    assert rules.resolve("s3://bucket/deep/key") == "s3://bucket/deep/key"
    elsewhere = "/data/other/with space"
    assert encode_url(ROOT, elsewhere) == "file:///data/other/with%20space"
    assert rules.resolve(encode_url(ROOT, elsewhere)) == f"file://{elsewhere}"
    with pytest.raises(UnsupportedError):
        rules.resolve("file:///data/other/../secret")


@pytest.mark.parametrize(("start", "end"), [(2, 1), (0, 1 << 63), ((1 << 64) - 1, 0)])
def test_ranges_must_be_some(start: int, end: int) -> None:
    with pytest.raises(FormatError, match="are not a range of a file"):
        UrlRules(ROOT).reference(encode_data_ref(start, end))


# Values -------------------------------------------------------------------------------------------------------------

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8"), max_size=5),
    st.binary(max_size=5),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9),
    st.builds(DateTime, st.integers(0, (1 << 64) - 1)),
    st.builds(TimeSpan, st.integers(-(1 << 63), (1 << 63) - 1)),
)
_values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(st.builds(Property, st.text(st.characters(codec="utf-8"), max_size=3), inner), max_size=3).map(tuple),
    ),
    max_leaves=8,
)


def decode_any_value(message: AnyValue, *follow: Any) -> Any:
    (found,) = decode_properties([NameValuePair(name="x", value=message)], *follow)
    return found.value


@given(_values, st.none() | st.text(st.characters(codec="utf-8"), max_size=4))
def test_values_come_back(value: Any, annotation: str | None) -> None:
    value = value if annotation is None else Annotated(value, annotation)
    found = decode_any_value(AnyValue.FromString(encode_any_value(value).SerializeToString()))
    assert repr(found) == repr(value)


@given(st.lists(st.builds(Property, st.sampled_from("ab"), _scalars), max_size=4))
def test_bags_keep_order_and_repeated_names(properties: list[Property]) -> None:
    assert decode_properties(encode_properties(properties)) == tuple(properties)


@pytest.mark.parametrize(
    "value",
    [1 << 64, -(1 << 63) - 1, {}, datetime.date(2020, 1, 1), "\ud800", DateTime(-1), Decimal("1" + "0" * 38 + "1")],
)
def test_values_that_cannot_be_stored_are_refused(value: Any) -> None:
    with pytest.raises(SchemaError):
        encode_any_value(value)


def test_deep_values_are_refused() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    with pytest.raises(SchemaError, match="nest deeper than 32 levels"):
        encode_any_value(deep)


def test_a_decimal_has_16_bytes() -> None:
    with pytest.raises(FormatError, match="decimal128 of 3 bytes, expected 16"):
        decode_any_value(AnyValue(decimal_value=b"abc"))


class _Store:
    """Values stored elsewhere, by where they start."""

    def __init__(self, values: dict[int, AnyValue]) -> None:
        self._frames = {place: encode_message(value) for place, value in values.items()}
        self.followed = 0

    def follow(self, data_ref: DataRef, within: str | None) -> tuple[memoryview, str]:
        self.followed += 1
        return memoryview(self._frames[data_ref.range.start]), "file"


def _reference(place: int) -> AnyValue:
    return AnyValue(data_ref=encode_data_ref(place, place + 1))


def test_values_stored_elsewhere() -> None:
    listed = AnyValue()
    listed.list_value.elements.extend([AnyValue(i64_value=1), _reference(2)])
    store = _Store({1: listed, 2: AnyValue(string_value="x")})
    assert decode_any_value(_reference(1), store.follow) == [1, "x"]
    with pytest.raises(FormatError, match="stored elsewhere, where no reference is expected"):
        decode_any_value(_reference(1))


def test_references_in_a_circle_end() -> None:
    store = _Store({1: _reference(1)})
    with pytest.raises(FormatError, match="a value refers on and on"):
        decode_any_value(_reference(1), store.follow)
    assert store.followed < 10


def test_references_that_multiply_end() -> None:
    many = AnyValue()
    many.list_value.elements.extend([_reference(1)] * 50)
    store = _Store({1: many})
    with pytest.raises(FormatError, match="a value refers on and on"):
        decode_any_value(many, store.follow)
    assert store.followed < 1000


# Ticks --------------------------------------------------------------------------------------------------------------

_MOMENTS: list[tuple[pa.DataType, int, int]] = [
    (pa.timestamp("s"), 0, EPOCH_TICKS),
    (pa.timestamp("ms", "UTC"), -1, EPOCH_TICKS - 10_000),
    (pa.timestamp("us"), -62_135_596_800_000_000, 0),
    (pa.timestamp("ns"), -100, EPOCH_TICKS - 1),
    (pa.date32(), 19_000, EPOCH_TICKS + 19_000 * 864_000_000_000),
    (pa.date64(), 86_400_000, EPOCH_TICKS + 864_000_000_000),
    (pa.duration("us"), -7, -70),
    (pa.duration("ns"), 700, 7),
]


@pytest.mark.parametrize(("type_", "value", "ticks"), _MOMENTS, ids=str)
def test_ticks(type_: pa.DataType, value: int, ticks: int) -> None:
    stored = pa.int32() if pa.types.is_date32(type_) else pa.int64()
    column = pa.array([None, value, value], stored).view(type_)[1:]
    found = encode_ticks(column)
    assert found.to_pylist() == [ticks, ticks]
    assert encode_ticks(pa.array([None, value], stored).view(type_)).to_pylist() == [None, ticks]
    assert decode_ticks(found.to_numpy(), type_).tolist() == [value, value]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.timestamp("ns"), 150),
        (pa.duration("ns"), -1),
        (pa.timestamp("us"), -62_135_596_800_000_001),
        (pa.timestamp("s"), 1 << 60),
        (pa.duration("s"), 1 << 62),
        (pa.date32(), -(1 << 31)),
    ],
    ids=str,
)
def test_moments_without_ticks_are_refused(type_: pa.DataType, value: int) -> None:
    stored = pa.int32() if pa.types.is_date32(type_) else pa.int64()
    with pytest.raises(SchemaError, match="row 1 has the"):
        encode_ticks(pa.array([None, value], stored).view(type_))


@pytest.mark.parametrize(
    ("type_", "ticks"),
    [
        (pa.timestamp("us"), EPOCH_TICKS + 1),
        (pa.timestamp("ns"), 0),
        (pa.date32(), EPOCH_TICKS + 5),
        (pa.timestamp("us"), -10),
        (pa.duration("ns"), 1 << 62),
        (pa.duration("ms"), 3),
    ],
    ids=str,
)
def test_ticks_that_do_not_fit_are_refused_where_there_is_a_value(type_: pa.DataType, ticks: int) -> None:
    whole = 10_000_000 if pa.types.is_duration(type_) else EPOCH_TICKS
    numbers = np.array([whole, ticks], np.int64)
    with pytest.raises(SchemaError, match="row 1 has the tick"):
        decode_ticks(numbers, type_)
    assert len(decode_ticks(numbers, type_, lambda: np.array([True, False]))) == 2


# Selections ---------------------------------------------------------------------------------------------------------

_flags = st.lists(st.booleans(), max_size=40).map(lambda flags: np.array(flags, np.bool_))


@given(_flags)
def test_selections_are_positions(flags: np.ndarray) -> None:
    expected = np.flatnonzero(flags)
    for selection in (Selection.of_flags(flags), Selection.of_positions(expected)):
        assert selection.positions().tolist() == expected.tolist()
        assert selection.count == len(expected)
        assert (selection.stops > selection.starts).all()
        assert (selection.starts[1:] > selection.stops[:-1]).all()
        first, second = selection.halves()
        assert [*first.positions(), *second.positions()] == expected.tolist()
        scaled = [3 * place + k for place in expected for k in range(3)]
        assert selection.scaled(3).positions().tolist() == scaled


@given(_flags, st.data())
def test_selections_are_narrowed_and_picked(flags: np.ndarray, data: st.DataObject) -> None:
    selection = Selection.of_flags(flags)
    others = np.array(data.draw(st.lists(st.booleans(), min_size=len(flags), max_size=len(flags))), np.bool_)
    other = Selection.of_flags(others)
    assert selection.narrowed(other.starts, other.stops).positions().tolist() == np.flatnonzero(flags & others).tolist()
    kept = others[flags]
    assert selection.pick(kept).positions().tolist() == selection.positions()[kept].tolist()


@given(_flags.filter(len), st.data())
def test_selections_are_placed_among_blocks(flags: np.ndarray, data: st.DataObject) -> None:
    cuts = data.draw(st.sets(st.integers(1, len(flags)), max_size=6))
    edges = np.array(sorted({0, len(flags), *cuts}))
    selection = Selection.of_flags(flags)
    blocks = np.unique(np.searchsorted(edges, selection.positions(), "right") - 1)
    values = [place for block in blocks for place in range(edges[block], edges[block + 1])]
    found = selection.placed(blocks, edges).take_from(pa.array(values, pa.int64()))
    assert found.to_pylist() == selection.positions().tolist()
