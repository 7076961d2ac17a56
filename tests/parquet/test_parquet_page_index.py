"""Places and bounds of pages, against what PyArrow reads of the same files."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from skerry.errors import FormatError, SkerryError
from skerry.parquet import ColumnChunk, decode_pages, read_metadata, read_page_bounds, read_page_places
from skerry.storage import Storage

COUNT = 5000
VALUES: dict[str, pa.Array] = {
    "int64": pa.array([None if n % 7 == 0 else n * 3 for n in range(COUNT)], pa.int64()),
    "int16": pa.array([n % 300 for n in range(COUNT)], pa.int16()),
    "date": pa.array([date.fromordinal(700_000 + n) for n in range(COUNT)]),
    "timestamp": pa.array([datetime(2026, 1, 1 + n % 28, n % 24) for n in range(COUNT)], pa.timestamp("us")),
    "text": pa.array([None if n % 11 == 0 else f"{n:05} text" for n in range(COUNT)]),
    "bytes": pa.array([n.to_bytes(3, "big") for n in range(COUNT)]),
    "decimal": pa.array([Decimal(n) / 4 for n in range(COUNT)], pa.decimal128(20, 2)),
    "double": pa.array([n / 3 for n in range(COUNT)]),
    "flag": pa.array([n % 3 == 0 for n in range(COUNT)]),
}
BOUNDED = ("int64", "int16", "date", "timestamp", "text", "bytes")


def written(path: Path, values: pa.Array, **how: Any) -> tuple[str, list[ColumnChunk]]:
    pq.write_table(
        pa.table({"v": values}), path, row_group_size=3000, max_rows_per_page=500, data_page_size=2000, **how
    )
    metadata = read_metadata(Storage(), str(path))
    return str(path), [group.chunks[0] for group in metadata.row_groups]


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("kind", VALUES)
def test_pages_are_where_they_are_said_to_be(tmp_path: Path, kind: str, dictionary: bool) -> None:
    storage, values = Storage(), VALUES[kind]
    location, chunks = written(tmp_path / "f", values, write_page_index=True, use_dictionary=dictionary)
    first = 0
    for chunk in chunks:
        assert chunk.offset_index is not None
        places = read_page_places(storage, location, chunk)
        walked = read_page_places(storage, location, replace(chunk, offset_index=None))
        for one, other in ((places.first_rows, walked.first_rows), (places.offsets, walked.offsets)):
            assert one.tolist() == other.tolist()
        assert places.sizes.tolist() == walked.sizes.tolist()
        assert places.dictionary == walked.dictionary
        pages = len(places.offsets)
        assert pages > 2
        chosen = np.arange(0, pages, 2)
        edges = (first + places.first_rows).tolist()
        lower, upper = read_page_bounds(storage, location, chunk, pages)
        for page, found in zip(chosen.tolist(), decode_pages(storage, location, chunk, places, chosen), strict=True):
            expected = values.slice(edges[page], edges[page + 1] - edges[page])
            assert found.equals(expected)
            bounds = pc.min_max(expected.cast(pa.binary()) if kind == "text" else expected)
            if kind in BOUNDED:
                assert lower[page].as_py() <= bounds["min"].as_py()
                assert upper[page].as_py() >= bounds["max"].as_py()
            else:
                assert not lower[page].is_valid
        first += chunk.value_count
    assert first == COUNT


def test_files_without_page_index_have_no_bounds(tmp_path: Path) -> None:
    location, (chunk, _) = written(tmp_path / "f", VALUES["int64"])
    assert (chunk.offset_index, chunk.column_index) == (None, None)
    lower, upper = read_page_bounds(Storage(), location, chunk, 3)
    assert lower.null_count == upper.null_count == 3


@pytest.mark.parametrize("kind", ["int64", "text"])
def test_damage_is_found_or_harmless(tmp_path: Path, kind: str) -> None:
    """Places that lead elsewhere are errors of ours, whatever byte of the page index is changed."""
    _, (chunk, _) = written(tmp_path / "f", VALUES[kind], write_page_index=True)
    chance, whole = random.Random(kind), (tmp_path / "f").read_bytes()
    failures = 0
    for _ in range(150):
        place = chance.choice([chunk.offset_index, chunk.column_index])
        assert place is not None
        damaged = bytearray(whole)
        damaged[place[0] + chance.randrange(place[1])] = chance.randrange(256)
        other = tmp_path / f"g{chance.random()}"
        other.write_bytes(damaged)
        try:
            places = read_page_places(Storage(), str(other), chunk)
            read_page_bounds(Storage(), str(other), chunk, len(places.offsets))
            decode_pages(Storage(), str(other), chunk, places, np.arange(len(places.offsets)))
        except SkerryError:
            failures += 1
        other.unlink()
    assert failures > 30


def test_an_index_outside_the_file_is_refused(tmp_path: Path) -> None:
    location, (chunk, _) = written(tmp_path / "f", VALUES["int64"], write_page_index=True)
    assert chunk.offset_index is not None
    with pytest.raises(FormatError):
        read_page_places(Storage(), location, replace(chunk, offset_index=(chunk.offset_index[0], 1 << 30)))
    with pytest.raises(FormatError, match="pages of v"):
        read_page_places(Storage(), location, replace(chunk, size_bytes=10))
    with pytest.raises(FormatError, match="pages of v"):
        read_page_bounds(Storage(), location, chunk, 2)
