"""The index of keys against a plain dict, and its kernels against plain Python."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import pickle
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import SchemaError, UnsupportedError
from skerry.table.rows import keys
from skerry.table.rows.keys import KeyIndex, find_words, hash_values, index_words

NANS = [float("nan"), -float("nan"), np.uint64(0x7FF8000000000123).view(np.float64).item()]
VALUES = {
    "bool": (pa.bool_(), st.booleans()),
    "int": (pa.int32(), st.integers(-3, 3) | st.sampled_from([-(2**31), 2**31 - 1])),
    "long": (pa.int64(), st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1, 2**32])),
    "float": (pa.float32(), st.sampled_from([0.0, -0.0, 1.5, math.inf, *NANS])),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, -math.inf, *NANS])),
    "decimal": (
        pa.decimal128(38, 2),
        st.sampled_from(list(map(decimal.Decimal, ("0.01", "-0.01", "1e30", "-1e30")))),
    ),
    "date": (pa.date32(), st.sampled_from([dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)])),
    "time": (pa.time64("us"), st.sampled_from([dt.time(0), dt.time(23, 59, 59, 999999)])),
    "timestamp": (pa.timestamp("us"), st.sampled_from([dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23)])),
    "timestamptz": (pa.timestamp("us", "UTC"), st.sampled_from([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)])),
    "nanoseconds": (pa.timestamp("ns"), st.sampled_from([1, 2, 10**18])),
    "string": (pa.string(), st.sampled_from(["", "a", "ab", "abcdefgh", "abcdefghi", "abcdefgh\0", "é" * 20])),
    "binary": (pa.binary(), st.sampled_from([b"", b"\0", b"\0\0", b"12345678", b"123456789"])),
    "fixed": (pa.binary(3), st.sampled_from([b"abc", b"abd"])),
    "uuid": (pa.uuid(), st.sampled_from([uuid.UUID(int=n).bytes for n in (0, 1, 2**127)])),
}


def array(type_, values):
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, pa.array(values, type_.storage_type))
    return pa.array(values, type_)


def plain(value):
    """A value such that equal ones are equal as Python sees it."""
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    return value


@st.composite
def tables(draw):
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    types = [VALUES[name][0] for name in names]
    row = st.tuples(*(st.none() | VALUES[name][1] for name in names))
    sides = [draw(st.lists(row, max_size=12)) for _ in range(2)]
    return types, *sides


@given(tables())
def test_finds_what_a_dict_finds(case):
    types, indexed, asked = case
    first: dict[tuple, int] = {}
    for number, row in enumerate(indexed):
        if None not in row:
            first.setdefault(tuple(map(plain, row)), number)
    index = KeyIndex.of([array(type_, [row[n] for row in indexed]) for n, type_ in enumerate(types)])
    padded = [array(type_, [None, *(row[n] for row in asked)])[1:] for n, type_ in enumerate(types)]  # sliced
    found = index.find(padded)
    assert found.tolist() == [-1 if None in row else first.get(tuple(map(plain, row)), -1) for row in asked]
    owners = [-1 if None in row else first[tuple(map(plain, row))] for row in indexed]
    assert index.first.tolist() == owners
    assert index.repeated.tolist() == [owners.count(number) > 1 for number in range(len(indexed))]


def test_kernels_do_what_plain_python_does():
    random = np.random.default_rng(5)
    words = random.integers(0, 4, (500, 2)).astype(np.uint64)
    asked = random.integers(0, 5, (500, 2)).astype(np.uint64)
    valid = random.integers(0, 4, 500).astype(np.uint8).clip(0, 1)
    results = []
    for index, find in ((index_words, find_words), (index_words.py_func, find_words.py_func)):
        slots, first, found = np.zeros(1024, np.uint64), np.empty(500, np.int64), np.empty(500, np.int64)
        with np.errstate(over="ignore"):
            index(words, valid, slots, first)
            find(asked, valid, words, slots, found)
        results.append((slots.tolist(), first.tolist(), found.tolist()))
    assert results[0] == results[1]
    data = random.integers(0, 256, 100).astype(np.uint8)
    offsets = np.sort(random.integers(0, 101, 30))
    hashes = []
    for kernel in (hash_values, hash_values.py_func):
        out = np.zeros((29, 2), np.uint64)
        with np.errstate(over="ignore"):
            kernel(data, offsets, np.uint64(7) if kernel is not hash_values else 7, 1, out)
        hashes.append(out.tolist())
    assert hashes[0] == hashes[1]


def test_different_keys_of_one_hash_are_told_apart(monkeypatch):
    real = keys.hash_values
    tried = []

    def collide_at_first(data, offsets, seed, place, words):
        tried.append(seed)
        if seed == keys._SEEDS[0]:
            words[:, place] = 1
        else:
            real(data, offsets, seed, place, words)

    monkeypatch.setattr(keys, "hash_values", collide_at_first)
    index = KeyIndex.of([pa.array(["a", "b", "a"])])
    assert index.first.tolist() == [0, 1, 0]
    assert tried == list(keys._SEEDS[:2])

    monkeypatch.setattr(keys, "hash_values", lambda data, offsets, seed, place, words: words.fill(1))
    index = KeyIndex.of([pa.array(["a", "a"])])
    assert index.find([pa.array(["b", "a", None])]).tolist() == [-1, 0, -1]
    with pytest.raises(UnsupportedError, match="built to collide"):
        KeyIndex.of([pa.array(["a", "b"])])


def test_chunked_columns_and_pickled_indexes():
    index = KeyIndex.of([pa.chunked_array([["a"], ["b", "c"]]), pa.chunked_array([[1, 2], [3]])])
    again = pickle.loads(pickle.dumps(index))
    assert again.find([pa.array(["c", "c"]), pa.array([3, 2])]).tolist() == [2, -1]
    assert len(KeyIndex.of([pa.chunked_array([], pa.string())])) == 0


@pytest.mark.parametrize("type_", [pa.list_(pa.int64()), pa.struct([("x", pa.int64())])], ids=str)
def test_nested_columns_are_no_keys(type_):
    with pytest.raises(SchemaError, match="cannot be a key"):
        KeyIndex.of([pa.array([None], type_)])
