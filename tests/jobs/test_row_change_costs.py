"""What row-level changes read and write: it follows the rows that change, not the table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import skerry
from skerry import Delete, Update
from skerry.storage import Storage
from skerry.table.files.row_reader import RowReader

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
ROWS = 20_000
COPY, MARK = "copy-on-write", "merge-on-read"


def rows(start, stop):
    ks = range(start, stop)
    columns = {"k": list(ks), "x": [k * 0.37 % 1 for k in ks], "s": [f"{k * 7919 % 10007:x}" for k in ks]}
    return pa.table(columns, schema=SCHEMA)


def make(folder, version="2", mode=MARK, files=4, partition_by=()):
    table = skerry.connect(folder).create_table(
        "d.t",
        SCHEMA,
        partition_by=list(partition_by),
        properties={
            "format-version": version,
            "write.delete.mode": mode,
            "write.merge.mode": mode,
            "skerry.statistics.row-deletes": "upper-bound",  # what sketching again reads is tested with the statistics
        },
    )
    for number in range(files):
        table.append(rows(number * ROWS, (number + 1) * ROWS))
    return table


@pytest.fixture
def written(tmp_path):
    """Bytes that an action adds below the data folder."""

    def measure(action):
        before = all_data(tmp_path)
        action()
        after = all_data(tmp_path)
        assert before.items() <= after.items()
        return sum(after.values()) - sum(before.values())

    return measure


def all_data(folder):
    return {
        str(path): path.stat().st_size
        for path in Path(folder).rglob("*")
        if path.is_file() and "data" in path.relative_to(folder).parts
    }


@pytest.fixture
def opened(monkeypatch):
    """Locations of the data files that are opened to be read."""
    locations: list[str] = []
    real = Storage.arrow_file

    def recording(self, location):
        locations.append(location)
        return real(self, location)

    monkeypatch.setattr(Storage, "arrow_file", recording)
    return locations


@pytest.fixture
def columns_read(monkeypatch):
    """Names of the columns that each reader reads."""
    found: set[tuple[str, ...]] = set()
    real = RowReader.batches

    def recording(self, tasks, **options):
        found.add(tuple(self.schema.names))
        return real(self, tasks, **options)

    monkeypatch.setattr(RowReader, "batches", recording)
    return found


@pytest.mark.parametrize("version", ["2", "3"])
def test_merge_on_read_writes_what_changes(tmp_path, written, version):
    table = make(tmp_path, version)
    one_file = min(all_data(tmp_path).values())
    few = written(lambda: table.upsert(rows(10, 20), "k"))
    many = written(lambda: table.upsert(rows(1000, 1000 + ROWS // 4), "k"))
    assert few < 6_000
    assert few * 10 < many < one_file * 0.6
    assert written(lambda: table.delete("k in (50, 20050, 40050)")) < 3 * 2_500
    assert table.scan().count() == 4 * ROWS - 3


def test_copy_on_write_rewrites_touched_files_alone(tmp_path, written, opened):
    table = make(tmp_path, mode=COPY)
    files = {file.location: file.file_size_bytes for file in table.files()}
    size = max(files.values())
    assert written(lambda: table.delete("k = 5")) < size * 1.1
    assert len(opened) == 2  # to find the row, and to copy the others
    assert len(files.keys() & {file.location for file in table.files()}) == 3
    done = []
    assert written(lambda: done.append(table.upsert(rows(ROWS - 5, ROWS + 5), "k"))) < 2.2 * size
    assert (done[0].removed_files, done[0].updated_rows, done[0].inserted_rows) == (2, 10, 0)


@pytest.mark.parametrize("mode", [COPY, MARK])
@pytest.mark.parametrize("version", ["2", "3"])
def test_files_all_of_whose_rows_go_are_dropped_unread(tmp_path, written, opened, version, mode):
    table = make(tmp_path, version, mode)
    done = []
    assert written(lambda: done.append(table.delete(f"k < {ROWS}"))) == 0
    assert (done[0].removed_files, done[0].deleted_rows, done[0].added_delete_files) == (1, ROWS, 0)
    assert opened == []
    assert written(lambda: done.append(table.overwrite(rows(0, 10)))) < 4_000
    assert (done[1].removed_files, done[1].deleted_rows, done[1].inserted_rows) == (3, 3 * ROWS, 10)
    assert opened == []


@pytest.mark.parametrize("mode", [COPY, MARK])
@pytest.mark.parametrize("version", ["2", "3"])
def test_files_whose_last_rows_go_are_dropped(tmp_path, written, version, mode):
    table = make(tmp_path, version, mode, files=2)
    table.delete("k >= 100")
    done = []
    assert written(lambda: done.append(table.delete("k in (" + ", ".join(map(str, range(100))) + ")"))) == 0
    assert (done[0].removed_files, done[0].deleted_rows, done[0].added_delete_files) == (1, 100, 0)
    assert table.files() == []


@pytest.mark.parametrize("version", ["2", "3"])
def test_rows_deleted_before_are_not_counted_again(tmp_path, opened, version):
    table = make(tmp_path, version, files=2)
    table.delete("k in (3, 20003, 20004)")
    opened.clear()
    assert table.delete(f"k < {ROWS}").deleted_rows == ROWS - 1
    assert not {file.location for file in table.files()} & set(opened)
    table.upsert(rows(20_010, 20_020), "k", blind=True)
    assert table.overwrite(rows(0, 1)).deleted_rows == ROWS - 2


def test_only_files_that_can_hold_a_key_are_read(tmp_path, opened):
    table = make(tmp_path)
    locations = [file.location for file in sorted(table.files(), key=lambda file: file.lower_bounds[1])]
    table.delete("k = 45000")
    assert len(opened) == 1
    opened.clear()
    table.upsert(pa.concat_tables([rows(7, 9), rows(3 * ROWS, 3 * ROWS + 2)]), "k")
    assert len(set(opened) & set(locations)) == 2
    opened.clear()
    many = pa.concat_tables([rows(0, 1500), rows(3 * ROWS, 3 * ROWS + 1500)])  # too many to be listed
    table.upsert(many, "k")
    assert len(set(opened) & set(locations)) == 2
    opened.clear()
    table.upsert(rows(10 * ROWS, 10 * ROWS + 5), "k")
    assert opened == []


def test_only_partitions_that_can_hold_a_key_are_read(tmp_path, opened):
    table = make(tmp_path, files=1, partition_by=["bucket(8, k)"])
    assert len(table.files()) == 8
    table.upsert(rows(7, 8), "k")
    assert len(opened) == 1


def test_only_keys_are_read_to_find_matches(tmp_path, columns_read):
    table = make(tmp_path, files=1)
    table.upsert(rows(7, 9), ["k", "s"])
    assert columns_read == {("k", "s", "_pos")}
    columns_read.clear()
    table.merge(rows(7, 9), "k", when_matched=[Delete("target.x > 2"), "update"])
    assert columns_read == {("k", "x", "_pos")}
    columns_read.clear()
    table.merge(rows(7, 9).select(["k"]), "k", when_matched=Update({"s": "'seen'"}))
    assert columns_read == {("k", "_pos"), ("k", "x", "_pos")}
    columns_read.clear()
    table.delete("x > 0.5")
    assert columns_read == {("_pos",)}


@pytest.mark.parametrize("version", ["2", "3"])
def test_blind_upserts_read_nothing_and_write_keys_and_rows(tmp_path, written, opened, version):
    table = make(tmp_path, version)
    done = []
    assert written(lambda: done.append(table.upsert(rows(15, 25), "k", blind=True))) < 4_500
    assert opened == []
    assert (done[0].inserted_rows, done[0].updated_rows, done[0].added_delete_files) == (10, None, 1)
    assert table.scan().count() == 4 * ROWS
    changes = rows(20, 30).append_column("op", pa.array(["D"] * 5 + ["U"] * 5))
    table.merge(
        changes,
        "k",
        when_matched=[Delete("source.op = 'D'"), "update"],
        when_not_matched=skerry.Insert(where="op <> 'D'"),
        blind=True,
    )
    assert table.scan(where="k >= 20 and k < 30").count() == 5


def test_a_deletion_vector_takes_the_place_of_the_one_before(tmp_path):
    table = make(tmp_path, "3", files=1)
    for k in (5, 7, 9):
        table.delete(f"k = {k}")
    (task,) = table.scan().plan()
    (vector,) = task.deletes
    assert vector.record_count == 3
    snapshot = table.current_snapshot()
    assert snapshot.summary["total-delete-files"] == "1"
    assert snapshot.summary["total-position-deletes"] == "3"


def test_a_table_upgraded_to_version_3_merges_files_of_positions_into_its_vectors(tmp_path):
    table = make(tmp_path, "2", files=1)
    table.delete("k = 5")
    table.upgrade(3)
    table.delete("k = 6")
    (task,) = table.scan().plan()
    (vector,) = task.deletes
    assert (vector.kind.value, vector.record_count) == ("vector", 2)
    assert table.scan().count() == ROWS - 2
    table.upsert(rows(7, 8), "k")
    assert table.scan().count() == ROWS - 2
