"""Tables with row-level deletes, read through the front door and by PyIceberg."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

import skerry
from skerry.errors import UnsupportedError
from skerry.iceberg.catalogs.pyiceberg_catalogs import as_pyiceberg
from skerry.iceberg.operations import RowDelta
from skerry.iceberg.writing.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes

SCHEMA = pa.schema([("n", pa.int64()), ("word", pa.string()), ("x", pa.float64())])


def rows_of(start, stop):
    numbers = range(start, stop)
    return pa.table([list(numbers), [f"w{n % 5}" for n in numbers], [n / 2 for n in numbers]], schema=SCHEMA)


def open_table(folder, version, *, files=3, **options):
    table = skerry.connect(str(folder)).create_table(
        "db.t", SCHEMA, properties={"format-version": str(version), **options.pop("properties", {})}, **options
    )
    for number in range(files):
        table.append(rows_of(100 * number, 100 * number + 100))
    return table


def commit_deletes(table, write, chosen):
    """Delete rows by their numbers, in one commit."""
    inner = table.handle
    deletes = []
    for task in table.scan().plan():
        numbers = [
            row["n"]
            for row in table.scan(["n", "_pos", "_file"]).to_arrow().to_pylist()
            if row["_file"] == task.data_file.location
        ]
        positions = np.flatnonzero(np.isin(numbers, list(chosen)))
        if len(positions):
            deletes.append((task.data_file, positions))
    added = tuple(write(inner.layout(), deletes))
    references = tuple(file.location for file, _ in deletes)
    inner.commit(
        RowDelta(
            added_deletes=added,
            starting_snapshot_id=inner.state.snapshot().snapshot_id,
            referenced_files=references,
        )
    )


def by_pyiceberg(table, **options):
    inner = table.handle
    found = as_pyiceberg(inner.catalog).load_table(inner.identifier).scan(**options).to_arrow()
    return sorted(found["n"].to_pylist())


def numbers(scan):
    return sorted(scan.to_arrow()["n"].to_pylist())


GONE = {0, 1, 50, 99, 150, 151, 152, 299}


@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("version", [2, 3])
def test_what_is_deleted_by_position_is_gone_for_us_and_pyiceberg(tmp_path, version, granularity):
    table = open_table(tmp_path, version, properties={"write.delete.granularity": granularity})
    before = table.handle.state.snapshot().snapshot_id
    commit_deletes(table, write_position_deletes if version == 2 else write_deletion_vectors, GONE)
    left = [n for n in range(300) if n not in GONE]
    assert numbers(table.scan()) == left == by_pyiceberg(table)
    assert table.scan().count() == len(left)
    assert numbers(table.scan(where="n >= 140 AND n < 160")) == [n for n in left if 140 <= n < 160]
    assert table.scan(where="n >= 140 AND n < 160").count() == 17
    some = numbers(table.scan(limit=60))
    assert len(some) == 60
    assert set(some) <= set(left)
    assert numbers(table.scan(snapshot=before)) == list(range(300))
    assert table.scan(snapshot=before).count() == 300


def test_equality_deletes_take_older_rows_only(tmp_path):
    table = open_table(tmp_path, 2)
    inner = table.handle
    word = inner.state.metadata.schema().find_field("word").field_id
    keys = [pa.record_batch({"word": ["w1", "w4"]})]
    added = tuple(write_equality_deletes(inner.layout(), keys, [word]))
    inner.commit(RowDelta(added_deletes=added, starting_snapshot_id=inner.state.snapshot().snapshot_id))
    left = [n for n in range(300) if n % 5 not in (1, 4)]
    assert numbers(table.scan()) == left
    assert numbers(table.scan(["n"])) == left
    assert table.scan().count() == len(left)
    table.append(rows_of(1000, 1005))  # rows of a deleted key are alive when they come later
    assert numbers(table.scan(["n"])) == left + list(range(1000, 1005))
    assert table.scan(["x"], where="word = 'w1'").to_arrow()["x"].to_pylist() == [500.5]


@pytest.mark.parametrize("version", [2, 3])
def test_metadata_columns_are_asked_for_by_name(tmp_path, version):
    table = open_table(tmp_path, version, files=2)
    commit_deletes(table, write_position_deletes if version == 2 else write_deletion_vectors, {0, 150})
    columns = ["n", "_pos", "_file", "_spec_id", "_row_id", "_last_updated_sequence_number"]
    rows = table.scan(columns).to_arrow().sort_by("n").to_pylist()
    assert [row["_pos"] for row in rows] == [n % 100 for n in range(200) if n not in (0, 150)]
    assert {row["_file"] for row in rows} == {task.data_file.location for task in table.scan().plan()}
    assert {row["_spec_id"] for row in rows} == {0}
    if version == 3:
        assert [row["_row_id"] for row in rows] == [row["n"] for row in rows]
        assert [row["_last_updated_sequence_number"] for row in rows] == [1 + row["n"] // 100 for row in rows]
    else:
        assert {row["_row_id"] for row in rows} == {None}
    assert numbers(table.scan(["n"], where="_pos = 7")) == [7, 107]
    assert table.scan(where="_pos = 7").count() == 2
    assert table.scan(where="_row_id = 107").count() == (1 if version == 3 else 0)
    assert table.scan().schema.names == ["n", "word", "x"]
    marked = table.scan(["n", "_deleted"])
    assert {row["n"] for row in marked.to_arrow().to_pylist() if row["_deleted"]} == {0, 150}
    assert marked.count() == marked.to_arrow().num_rows == 200


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_data_and_deletes_in_other_formats(tmp_path, file_format):
    table = open_table(tmp_path, 2, properties={"write.format.default": file_format})
    commit_deletes(table, write_position_deletes, GONE)
    left = [n for n in range(300) if n not in GONE]
    assert numbers(table.scan()) == left
    assert table.scan(where="word = 'w0' AND n > 100").count() == len([n for n in left if n > 100 and n % 5 == 0])
    assert {task.data_file.file_format for task in table.scan().plan()} == {file_format}


def test_deletes_outlive_partitioning_and_names(tmp_path):
    table = open_table(tmp_path, 2, files=2)
    commit_deletes(table, write_position_deletes, {3, 103})
    inner = table.handle
    word = inner.state.metadata.schema().find_field("word").field_id
    added = tuple(write_equality_deletes(inner.layout(), [pa.record_batch({"word": ["w2"]})], [word]))
    inner.commit(RowDelta(added_deletes=added, starting_snapshot_id=inner.state.snapshot().snapshot_id))
    left = [n for n in range(200) if n not in (3, 103) and n % 5 != 2]
    outside = as_pyiceberg(inner.catalog).load_table(inner.identifier)
    with outside.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("word")
        update.rename_column("n", "number")
    table.refresh()
    found = table.scan().to_arrow()
    assert found.schema.names == ["number", "x"]
    assert sorted(found["number"].to_pylist()) == left
    assert table.scan().count() == len(left)


def test_encrypted_delete_files_are_refused_by_name(tmp_path):
    table = open_table(tmp_path, 2, files=1)

    def write(layout, deletes):
        return [dataclasses.replace(entry, key_metadata=b"key") for entry in write_position_deletes(layout, deletes)]

    commit_deletes(table, write, {1})
    with pytest.raises(UnsupportedError, match="encrypted"):
        table.scan().to_arrow()


def test_rows_from_before_a_column_have_its_default_however_deep_it_lies(tmp_path):
    nested = pa.schema([("n", pa.int64()), ("s", pa.struct([("a", pa.int64())]))])
    table = skerry.connect(str(tmp_path)).create_table("db.t", nested, properties={"format-version": "3"})
    table.append(pa.table({"n": [1, 2], "s": [{"a": 1}, None]}, schema=nested))
    with table.update_schema() as update:
        update.add_column("x", "int", default_value=7)
        update.add_column(("s", "b"), "string", default_value="deep")
    assert table.scan().to_arrow().to_pylist() == [
        {"n": 1, "s": {"a": 1, "b": "deep"}, "x": 7},
        {"n": 2, "s": None, "x": 7},
    ]
    assert table.scan(["n"], where="x = 7 AND s.b = 'deep'").to_arrow().to_pylist() == [{"n": 1}]
    assert table.scan(where="x IS NULL").count() == 0
