"""Row changes of indexed tables: they read the pages that can hold the rows, and change what they would without."""

from __future__ import annotations

import functools
import hashlib
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import skerry
from skerry.storage.local import LocalFiles
from skerry.table.indexes import finding, registry
from torture import few_of

ROWS, FILES = 20_000, 4
SCHEMA = pa.schema([("trace", pa.string()), ("user", pa.int64()), ("line", pa.string())])
COPY, MARK = "copy-on-write", "merge-on-read"
INDEXED = {"skerry.index.trace": "hash", "skerry.index.user": "hash"}


def trace(number):
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


@functools.cache
def file_rows(number, line):
    return rows(range(number * ROWS, (number + 1) * ROWS), line)


def rows(numbers, line="line of {}"):
    numbers = list(numbers)
    columns = [[trace(n) for n in numbers], [n * 7919 % 4000 for n in numbers], [line.format(n) for n in numbers]]
    return pa.table(columns, schema=SCHEMA)


def make(folder, indexed=True, mode=MARK, version=3, line="line of {}", **more):
    modes = {f"write.{change}.mode": mode for change in ("delete", "update", "merge")}
    properties = {**modes, "write.parquet.page-row-limit": "1000", **(INDEXED if indexed else {}), **more}
    table = skerry.connect(folder).create_table("d.t", SCHEMA, properties=properties, format_version=version)
    for number in range(FILES):
        table.append(file_rows(number, line))
    return table


@pytest.fixture
def reading(monkeypatch):
    """Counts what is read of data files: the bytes, and the files."""
    opened: dict[str, int] = {}

    def note(location, count):
        if "/data/" in location and location.endswith(".parquet"):
            opened[location.rpartition("/")[2]] = opened.get(location.rpartition("/")[2], 0) + count

    class Counting(io.FileIO):
        def readinto(self, buffer):
            count = super().readinto(buffer)
            note(self.name, count)
            return count

        def read(self, size=-1):
            data = super().read(size)
            note(self.name, len(data))
            return data

    def ranges(self, location, ranges, _real=LocalFiles.read_ranges):
        note(location.path, sum(length for _, length in ranges))
        return _real(self, location, ranges)

    def tail(self, location, length, _real=LocalFiles.read_tail):
        note(location.path, length)
        return _real(self, location, length)

    monkeypatch.setattr(LocalFiles, "arrow_file", lambda _, location: pa.PythonFile(Counting(location.path), "r"))
    monkeypatch.setattr(LocalFiles, "read_ranges", ranges)
    monkeypatch.setattr(LocalFiles, "read_tail", tail)
    return opened


def content(table):
    return sorted(map(str, table.scan().to_arrow().to_pylist()))


def test_changes_open_the_files_and_read_the_pages_of_their_rows(tmp_path, reading):
    only_finding = {"skerry.statistics.row-deletes": "upper-bound"}
    tables = [make(tmp_path / str(indexed), indexed, **only_finding) for indexed in (True, False)]
    where = f"trace IN ('{trace(3)}', '{trace(17_001)}')"  # both in the first file
    read = []
    for table in tables:
        table.upsert(rows([1]), on="trace")
        reading.clear()
        assert table.delete(where).deleted_rows == 2
        read.append(dict(reading))
    assert (len(read[0]), len(read[1])) == (1, 4)
    assert sum(read[1].values()) > 5 * sum(read[0].values())
    reading.clear()
    assert tables[0].update({"user": "user + 1"}, f"trace = '{trace(45_000)}'").updated_rows == 1
    assert len(reading) <= 2  # and the new file, which is indexed
    before = {file.location.rpartition("/")[2] for file in tables[0].files()}
    reading.clear()
    done = tables[0].upsert(rows([100, 101, 25_000], "new {}"), on="trace")
    assert (done.updated_rows, done.inserted_rows) == (3, 0)
    assert len(before & reading.keys()) == 2
    assert sum(reading[name] for name in before & reading.keys()) < sum(read[1].values()) / 2


def test_statistics_follow_deletes_without_a_look_at_other_files(tmp_path, reading):
    tables = [make(tmp_path / str(indexed), indexed, line="same") for indexed in (True, False)]
    for table in tables:
        reading.clear()
        assert table.delete(f"trace IN ('{trace(3)}', '{trace(17_001)}')").deleted_rows == 2
        assert len(reading) == (1 if table is tables[0] else FILES)
    assert_same_statistics(*tables)


@pytest.mark.parametrize("how", few_of([(COPY, 3), (MARK, 2), (MARK, 3)], (COPY, 3), (MARK, 3)))
def test_every_change_is_what_it_would_be_without_indexes(tmp_path, how):
    tables = [make(tmp_path / str(indexed), indexed, *how) for indexed in (True, False)]
    numbers = [5, 20_005, 70_000, 79_999, 500_000]
    clauses = {
        "when_matched": [skerry.Delete("source.user < 1000"), "update"],
        "when_not_matched_by_source": skerry.Delete(f"trace = '{trace(11)}'"),
    }
    for table in tables:
        summary = table.delete("user = 7 AND trace <> 'x'")
        assert summary.deleted_rows == sum(n * 7919 % 4000 == 7 for n in range(ROWS * FILES))
        summary = table.upsert(rows(numbers, "new line {}"), on="trace")
        assert (summary.updated_rows, summary.inserted_rows) == (4, 1)
        part = rows([21, 60_021, 600_000], "part {}").select(["trace", "line"])
        assert table.upsert(part, on=["trace"]).updated_rows == 2
        assert table.upsert(rows([22], "both {}"), on=["user", "trace"]).updated_rows == 1
        assert table.merge(rows([23, 24]), on="trace", **clauses).deleted_rows >= 1
        assert table.update({"line": "'set'"}, f"trace = '{trace(40_000)}'").updated_rows == 1
        nulls = pa.table({"trace": pa.nulls(1, pa.string()), "user": [1], "line": ["null"]}, schema=SCHEMA)
        assert table.upsert(nulls, on="trace").inserted_rows == 1
        assert table.upsert(nulls, on="trace").inserted_rows == 1  # null equals nothing
    assert content(tables[0]) == content(tables[1])
    assert_same_statistics(*tables)


def test_more_keys_than_an_index_is_worth(tmp_path):
    table = make(tmp_path)
    count = 5_000
    done = table.upsert(rows(range(0, 2 * count, 2), "new {}"), on="trace")
    assert (done.updated_rows, done.inserted_rows) == (count, 0)
    assert table.scan(where="line LIKE 'new %'").count() == count


def test_pieces_and_bounds_follow_the_indexes(tmp_path):
    table = make(tmp_path)
    scan = table.scan(where=f"trace = '{trace(45_000)}'")
    assert scan.file_count == 1
    assert scan.row_bounds() == (0, 1)
    (piece,) = scan.plan(split=True, indexed=True)
    assert np.array_equal(piece.rows, [5_000])
    assert table.catalog.sql(f"SELECT line FROM d.t WHERE trace = '{trace(45_000)}'").to_pylist() == [
        {"line": "line of 45000"}
    ]


def test_changes_without_the_indexes_that_were_there(tmp_path):
    table = make(tmp_path)
    for file in Path(table.location.removeprefix("file://"), "_skerry").iterdir():
        file.unlink()
    registry._pieces.clear()
    registry._registries.clear()
    finding._open.clear()
    assert table.delete(f"trace = '{trace(5)}'").deleted_rows == 1
    assert table.upsert(rows([5, 6]), on="trace").inserted_rows == 1


def assert_same_statistics(table, other):
    mine, its = table.statistics(), other.statistics()
    assert mine.keys() == its.keys()
    for name, column in mine.items():
        assert column.freshness.state == its[name].freshness.state
        assert column.ndv == its[name].ndv, name
