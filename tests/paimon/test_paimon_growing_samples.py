"""Commits to Paimon tables write what they change in samples; counts stay exact, and continued files are kept."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skerry.paimon.statistics import samples
from skerry.paimon.table import PaimonTable
from skerry.puffin import PuffinReader
from skerry.storage import Storage
from skerry.table.statistics.pieces import known_sample
from skerry.table.statistics.pieces.chain import chain_of
from skerry.theta import Sample
from skerry.theta.setops import below

COLUMNS = 12


def rows(start: int, stop: int) -> pa.Table:
    """Rows of distinct values in every column; the first one counts."""
    keys = np.arange(start, stop, dtype=np.uint64)
    scattered = {
        f"c{k}": (keys * np.uint64(0x9E3779B97F4A7C15 + 2 * k) >> np.uint64(2)).astype(np.int64)
        for k in range(1, COLUMNS)
    }
    return pa.table({"c0": keys.astype(np.int64), **scattered})


def forget() -> None:
    """As another process would find it."""
    known_sample._REMEMBERED.clear()
    samples._KNOWN.clear()


def make(path: Path, **how: Any) -> PaimonTable:
    table = PaimonTable.create(Storage(), str(path), rows(0, 1).schema, **how)
    for start in range(0, 20_000, 5_000):
        table.append(rows(start, start + 5_000))
    table.analyze(full=True)
    return table


def newest_file(table: PaimonTable) -> PuffinReader:
    state = table.refresh().handle.state
    assert state.snapshot is not None
    return PuffinReader(samples.statistics_locations(state, state.snapshot)[0], storage=Storage())


def files_of(table: PaimonTable) -> set[str]:
    """The names of the statistics file of the newest snapshot, and of those that it continues."""
    file = newest_file(table)
    return {file.location.rsplit("/", 1)[-1], *(link.name for link in chain_of(file))}


def check(table: PaimonTable, columns: int = COLUMNS) -> None:
    """All counts are fresh, and those of one sketch of all rows."""
    content = table.refresh().scan().to_arrow()
    for name, found in itertools.islice(table.statistics().items(), columns):
        assert str(found.freshness) == "fresh", (name, str(found.freshness))
        sample = Sample().update(content[name].combine_chunks())
        assert found.sketch is not None
        assert np.array_equal(below(sample.hashes, found.sketch.theta), found.sketch.hashes), name


def test_changes_of_a_row_write_little_and_count_exactly(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    whole = newest_file(table).file_size
    assert whole > 900_000
    for number in range(6):
        if number % 2:
            forget()
        table.append(rows(30_000 + number, 30_001 + number))
        assert newest_file(table).file_size < 5_000
        assert not newest_file(table).blobs
        table.delete(f"c0 = {17 + 5_000 * (number % 4) + number}")  # rewrites a file, and samples its rows again
        assert newest_file(table).file_size < whole / 8
        assert 1 <= len(chain_of(newest_file(table))) <= 6
    check(table)
    forget()
    check(table)


def test_upserts_write_little_and_keys_stay_fresh(tmp_path: Path) -> None:
    table = make(tmp_path / "k", primary_key=["c0"], properties={"bucket": "2", "write-only": "true"})
    for number in range(4):
        table.append(rows(19_990 + 20 * number, 20_010 + 20 * number))
        assert newest_file(table).file_size < 80_000
        assert [blob.fields for blob in newest_file(table).blobs] == [(0,)], "samples do not know which keys are left"
    forget()
    check(table, 1)
    states = {str(found.freshness) for found in itertools.islice(table.statistics().values(), 1, None)}
    assert all(state == "fresh" or state.startswith("upper bound") for state in states)


@pytest.mark.parametrize("cold", [False, True])
def test_files_that_others_continue_stay(tmp_path: Path, cold: bool) -> None:
    table = make(tmp_path / "t")
    for number in range(5):
        table.append(rows(30_000 + number, 30_001 + number))
    table.create_tag("here")
    tagged = files_of(table)
    table.append(rows(40_000, 40_001))
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)
    table.expire_snapshots(keep_last=1, older_than=soon)
    table.remove_orphans(older_than=soon)
    if cold:
        forget()
    check(table)
    assert chain_of(newest_file(table))
    lying = {path.name for path in (tmp_path / "t" / samples.FOLDER).iterdir()}
    assert lying == tagged | files_of(table)


def test_a_lost_piece_costs_counts_until_analyze(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.append(rows(30_000, 30_001))
    (link,) = chain_of(newest_file(table))
    (tmp_path / "t" / samples.FOLDER / link.name).unlink()
    forget()
    assert not {str(found.freshness) for found in table.refresh().statistics().values()} & {"fresh"}
    table.append(rows(30_001, 30_002))
    assert not {str(found.freshness) for found in table.statistics().values()} & {"fresh"}
    table.analyze()
    check(table)
