"""Single rows of column chunks, against what PyArrow reads of the same files."""

from __future__ import annotations

import random
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.errors import FormatError, SkerryError
from skerry.parquet import PagedChunk, page_rows, read_metadata, read_page_places, take_rows
from skerry.storage import Storage

COUNT = 3000
CHANCE = random.Random(7)


def some(kind: pa.DataType, make: Any, nulls: float) -> pa.Array:
    return pa.array([None if CHANCE.random() < nulls else make(n) for n in range(COUNT)], kind)


def values_of(nulls: float) -> dict[str, pa.Array]:
    return {
        "int8": some(pa.int8(), lambda n: n % 200 - 100, nulls),
        "uint16": some(pa.uint16(), lambda n: 65_535 - n, nulls),
        "uint32": some(pa.uint32(), lambda n: 2**32 - 1 - n, nulls),
        "int64": some(pa.int64(), lambda n: n * 3 - 2**62, nulls),
        "date": some(pa.date32(), lambda n: date.fromordinal(700_000 + n), nulls),
        "timestamp": some(pa.timestamp("us", "UTC"), lambda n: datetime(2026, 1, 1 + n % 28, n % 24), nulls),
        "millis": some(pa.timestamp("ms"), lambda n: datetime(2026, 1, 1 + n % 28, n % 24), nulls),
        "text": some(pa.string(), lambda n: f"{n % 70} é" * (n % 5), nulls),
        "bytes": some(pa.binary(), lambda n: n.to_bytes(3, "big"), nulls),
        "fixed": some(pa.binary(5), lambda n: n.to_bytes(5, "big"), nulls),
        "decimal": some(pa.decimal128(20, 2), lambda n: Decimal(n) / 4, nulls),
        "float": some(pa.float32(), lambda n: n / 3, nulls),
        "double": some(pa.float64(), lambda n: n / 3, nulls),
        "flag": some(pa.bool_(), lambda n: n % 3 == 0, nulls),
    }


TABLES = [pa.table(values_of(nulls)) for nulls in (0, 0.3, 0.98, 1)]
FEW = pa.table({"few": [f"word {n % 3}" for n in range(COUNT)], "one": ["same"] * COUNT})
REQUIRED = FEW.cast(pa.schema([pa.field(field.name, field.type, nullable=False) for field in FEW.schema]))
TABLES += [FEW, REQUIRED]


def opened(path: Path, table: pa.Table, **how: Any) -> list[list[PagedChunk]]:
    pq.write_table(table, path, row_group_size=1700, max_rows_per_page=400, write_batch_size=100, **how)
    metadata = read_metadata(Storage(), str(path))
    return [
        [PagedChunk(chunk, read_page_places(Storage(), str(path), chunk)) for chunk in group.chunks]
        for group in metadata.row_groups
    ]


WAYS: list[dict[str, Any]] = [
    {},
    {"use_dictionary": False, "compression": "zstd", "write_page_checksum": True},
    {"compression": "none", "dictionary_pagesize_limit": 400, "write_page_index": True},
    {"data_page_version": "2.0"},
    {"use_dictionary": False, "use_byte_stream_split": ["double"]},
]


@pytest.mark.parametrize("table", range(len(TABLES)))
@pytest.mark.parametrize("way", range(len(WAYS)))
def test_rows_are_those_of_pyarrow(tmp_path: Path, table: int, way: int) -> None:
    rows, how = TABLES[table], WAYS[way]
    if "use_byte_stream_split" in how and "double" not in rows.schema.names:
        how = {"use_dictionary": False}
    groups = opened(tmp_path / "f", rows, **how)
    expected = pq.read_table(tmp_path / "f")
    first = 0
    for group in groups:
        count = group[0].chunk.value_count
        for wanted in ([0], [count - 1], sorted(CHANCE.sample(range(count), 60)), range(count)):
            places = np.array(wanted, np.int64)
            found = take_rows(Storage(), str(tmp_path / "f"), group, places)
            for column, values in zip(expected.columns, found, strict=True):
                values = values if values.type == column.type else values.cast(column.type)
                values.validate(full=True)
                assert values.equals(column.slice(first, count).take(pa.array(places)).combine_chunks())
        first += count


@settings(max_examples=60)
@given(st.data())
def test_runs_of_levels_and_codes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Runs of any length, of nulls and of values that repeat."""
    runs = data.draw(st.lists(st.tuples(st.integers(1, 90), st.none() | st.integers(0, 40)), min_size=1, max_size=25))
    values = [value for length, value in runs for value in [value] * length]
    table = pa.table(
        {"v": pa.array(values, pa.int32()), "t": pa.array([None if v is None else f"{v}" for v in values], pa.string())}
    )
    path = tmp_path_factory.getbasetemp() / "runs"
    (group,) = opened(path, table, use_dictionary=data.draw(st.booleans()))
    wanted = data.draw(st.sets(st.integers(0, len(values) - 1), min_size=1))
    places = np.array(sorted(wanted), np.int64)
    for column, found in zip(table.columns, take_rows(Storage(), str(path), group, places), strict=True):
        assert found.equals(column.take(pa.array(places)).combine_chunks())


def test_only_the_pages_of_rows_are_read(tmp_path: Path) -> None:
    (group, _) = opened(tmp_path / "f", TABLES[0].select(["int64", "bytes"]), use_dictionary=False, compression="none")
    storage = Storage()
    before = storage.metrics.counts()
    take_rows(storage, str(tmp_path / "f"), group, np.array([700]))
    read = storage.metrics.counts() - before
    pages = sum(int(each.places.sizes[1]) for each in group)
    assert read.bytes_read <= pages + group[1].chunk.offset - group[0].chunk.offset  # close ranges share a request


def test_many_bytes_are_read_in_parts_and_no_page_for_each_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ["int64", "bytes", "double"]
    (group, _) = opened(tmp_path / "f", TABLES[0].select(wanted), use_dictionary=False, compression="none")
    rows = np.arange(0, 800, 2)  # of two pages
    expected = take_rows(Storage(), str(tmp_path / "f"), group, rows)
    monkeypatch.setattr(page_rows, "_AT_ONCE_BYTES", 1)
    storage = Storage()
    assert take_rows(storage, str(tmp_path / "f"), group, rows) == expected
    pages = sum(int(each.places.sizes[:2].sum()) for each in group)
    read = storage.metrics.counts()
    assert (read.bytes_read, read.requests) == (pages, 2 * len(wanted))


@pytest.mark.parametrize("way", range(3))
def test_damage_is_found_or_harmless(tmp_path: Path, way: int) -> None:
    """Whatever byte of the pages is changed, there are values or an error of ours."""
    rows = TABLES[1].select(["int64", "text", "flag", "date"])
    (group, _) = opened(tmp_path / "f", rows, **WAYS[way])
    whole = (tmp_path / "f").read_bytes()
    end = max(each.chunk.offset + each.chunk.size_bytes for each in group)
    failures = 0
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[CHANCE.randrange(4, end)] = CHANCE.randrange(256)
        (tmp_path / "g").write_bytes(damaged)
        fresh = [PagedChunk(each.chunk, each.places) for each in group]
        try:
            for values in take_rows(Storage(), str(tmp_path / "g"), fresh, np.arange(0, 1700, 7)):
                values.validate(full=True)
        except SkerryError:
            failures += 1
    assert failures > 20


def test_a_checksum_is_compared(tmp_path: Path) -> None:
    (group, _) = opened(tmp_path / "f", TABLES[0].select(["int64"]), **WAYS[1] | {"compression": "none"})
    damaged = bytearray((tmp_path / "f").read_bytes())
    damaged[int(group[0].places.offsets[1]) - 1] ^= 1
    (tmp_path / "f").write_bytes(damaged)
    with pytest.raises(FormatError, match="checksum"):
        take_rows(Storage(), str(tmp_path / "f"), group, np.array([3]))
