"""Delete files as they lie on disk: sorted, by partition, with the fields that readers find them by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from changed_tables import changed_table, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

import skerry
from skerry import puffin
from skerry.avro import read_columns
from skerry.errors import SchemaError, StorageError
from skerry.iceberg.manifests.manifest import FileContent
from skerry.iceberg.manifests.manifest_list import ManifestContent
from skerry.iceberg.metadata.partition_spec import UNPARTITIONED_PARTITION_SPEC
from skerry.iceberg.operations import RowDelta
from skerry.iceberg.writing.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from skerry.storage import Storage

FILE_PATH, POS = 2147483546, 2147483545


def path(location: str) -> str:
    return location.removeprefix("file://")


def test_positions_one_file_for_each_data_file(tmp_path):
    t = changed_table(tmp_path)
    written = write_position_deletes(t.table.layout(), [(t.b, np.array([4, 0, 4])), (t.a, np.array([2]))])
    assert [entry.referenced_data_file for entry in written] == [t.b.location, t.a.location]
    of_b = written[0]
    table = pq.read_table(path(of_b.data_file.location), partitioning=None)
    assert table.to_pydict() == {"file_path": [t.b.location] * 2, "pos": [0, 4]}
    assert [field.metadata[b"PARQUET:field_id"] for field in table.schema] == [b"2147483546", b"2147483545"]
    assert not any(field.nullable for field in table.schema)
    assert (of_b.content, of_b.data_file.partition, of_b.data_file.record_count) == (
        FileContent.POSITION_DELETES,
        (1,),
        2,
    )
    # whole paths: a reader knows by them which data file it is of
    assert of_b.data_file.lower_bounds[FILE_PATH] == of_b.data_file.upper_bounds[FILE_PATH] == t.b.location.encode()
    assert of_b.data_file.upper_bounds[POS] == (4).to_bytes(8, "little")


def test_positions_one_file_for_each_partition(tmp_path):
    t = changed_table(tmp_path, write__delete__granularity="partition")
    c = t.add(rows(range(5, 9), 0))
    deletes = [(t.b, np.array([0])), (c, np.array([3, 1])), (t.a, np.array([2])), (t.b, np.array([], np.int64))]
    written = write_position_deletes(t.table.layout(), deletes)
    assert [entry.data_file.partition for entry in written] == [(1,), (0,)]
    assert [entry.referenced_data_file for entry in written] == [t.b.location, None]
    table = pq.read_table(path(written[1].data_file.location), partitioning=None)
    assert table.to_pydict() == {
        "file_path": sorted([t.a.location, c.location, c.location]),
        "pos": [2, 1, 3] if t.a.location < c.location else [1, 3, 2],
    }


def test_many_positions_take_several_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr("skerry.iceberg.writing.delete_files._ROW_GROUP_ROWS", 4)
    t = changed_table(tmp_path, write__delete__granularity="partition")
    c = t.add(rows(range(5, 12), 0))
    (entry,) = write_position_deletes(t.table.layout(), [(t.a, np.arange(5)), (c, np.arange(7))])
    file = pq.ParquetFile(path(entry.data_file.location))
    assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [4, 4, 4]
    found = set(zip(*file.read().to_pydict().values(), strict=True))
    assert found == {(t.a.location, row) for row in range(5)} | {(c.location, row) for row in range(7)}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("position", [-1, 5])
def test_rows_that_a_file_does_not_have(tmp_path, version, position):
    t = changed_table(tmp_path, version)
    before = list((tmp_path / "d").rglob("*"))
    with pytest.raises(SchemaError, match=f"row {position} cannot be deleted from 5 rows"):
        t.delete_rows((t.a, [0]), (t.b, [1, position]))
    assert list((tmp_path / "d").rglob("*")) == before


def test_vectors_share_a_puffin_file(tmp_path):
    t = changed_table(tmp_path, 3)
    deletes = [(t.a, np.array([3, 1])), (t.b, np.array([], np.int64)), (t.add(rows([7], 0)), np.array([0]))]
    written = write_deletion_vectors(t.table.layout(), deletes)
    assert [entry.referenced_data_file for entry in written] == [t.a.location, deletes[2][0].location]
    (location,) = {entry.data_file.location for entry in written}
    assert all(entry.is_deletion_vector for entry in written)
    reader = puffin.read(path(location))
    for entry, blob in zip(written, reader.blobs, strict=True):
        assert (blob.type, blob.compression_codec, blob.fields) == ("deletion-vector-v1", None, (2147483645,))
        assert (blob.snapshot_id, blob.sequence_number) == (-1, -1)
        assert (entry.content_offset, entry.content_size_bytes) == (blob.offset, blob.length)
        assert blob.properties == {
            "referenced-data-file": entry.referenced_data_file,
            "cardinality": str(entry.data_file.record_count),
        }


def test_a_data_file_has_one_vector(tmp_path):
    t = changed_table(tmp_path, 3)
    with pytest.raises(SchemaError, match="a data file can have only one deletion vector, found two"):
        t.delete_rows((t.a, [0]), (t.a, [1]))
    assert t.delete_rows((t.a, [])) == []


def test_keys_by_partition(tmp_path):
    t = changed_table(tmp_path)
    batches = pa.concat_tables([rows([1, 2], 0), rows([10], 1)]).to_batches()
    of_zero, of_one = write_equality_deletes(t.table.layout(), batches, [1])
    assert [entry.data_file.partition for entry in (of_zero, of_one)] == [(0,), (1,)]
    assert (of_zero.content, of_zero.equality_ids) == (FileContent.EQUALITY_DELETES, (1,))
    assert pq.read_table(path(of_zero.data_file.location), partitioning=None).to_pydict() == {"k": [1, 2]}
    assert of_zero.data_file.lower_bounds == {1: (1).to_bytes(8, "little")}


def test_keys_of_all_partitions(tmp_path):
    t = changed_table(tmp_path)
    keys = rows([1, 10], 0).select(["k", "v"])
    (entry,) = write_equality_deletes(t.table.layout(), keys.to_batches(), [3, 1], spec=UNPARTITIONED_PARTITION_SPEC)
    assert entry.data_file.partition == ()
    assert pq.read_table(path(entry.data_file.location)).column_names == ["k", "v"]


@pytest.mark.parametrize(
    ("field_ids", "message"),
    [
        ([], "equality deletes compare at least one column"),
        ([9], r"top-level primitive columns, found field ids \[9\]"),
        ([1], "the keys lack column 'k'"),
    ],
)
def test_keys_that_cannot_be_compared(tmp_path, field_ids, message):
    t = changed_table(tmp_path)
    with pytest.raises(SchemaError, match=message):
        write_equality_deletes(t.table.layout(), rows([1], 0).select(["p"]).to_batches(), field_ids)


READERS = {"orc": orc.read_table, "avro": lambda file: read_columns(Path(file).read_bytes())}


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_deletes_in_other_formats(tmp_path, file_format):
    t = changed_table(tmp_path, write__delete__format__default=file_format)
    (positions,) = t.delete_rows((t.a, [0, 3]))
    (keys,) = t.delete_keys([12], 1)
    for entry, expected in (
        (positions, {"file_path": [t.a.location] * 2, "pos": [0, 3]}),
        (keys, {"k": [12]}),
    ):
        assert entry.data_file.file_format == file_format
        assert entry.data_file.location.endswith(f".{file_format}")
        assert READERS[file_format](path(entry.data_file.location)).to_pydict() == expected
    assert positions.data_file.lower_bounds[FILE_PATH] == t.a.location.encode()
    started = t.snapshot_id
    t.table.commit(RowDelta((), (positions, keys), starting_snapshot_id=started))
    read = skerry.connect(tmp_path).load_table("d.t").scan(["k"]).to_arrow()["k"].to_pylist()
    assert sorted(read) == [1, 2, 4, 10, 11, 13, 14]


def test_what_was_written_goes_when_the_next_file_fails(tmp_path, monkeypatch):
    t = changed_table(tmp_path)
    before = {file for file in (tmp_path / "d").rglob("*") if file.is_file()}
    opened = Storage.open_output
    count = iter(range(9))

    def failing(self: Storage, location: str, **options: bool) -> object:
        if next(count) == 1:
            raise StorageError("no space left", location=location)
        return opened(self, location, **options)

    monkeypatch.setattr(Storage, "open_output", failing)
    with pytest.raises(StorageError):
        t.delete_rows((t.a, [0]), (t.b, [1]))
    assert {file for file in (tmp_path / "d").rglob("*") if file.is_file()} == before


@settings(max_examples=15)
@given(deleted=st.lists(st.integers(0, 199), max_size=60))
def test_pyiceberg_reads_every_vector(tmp_path_factory, deleted):
    t = changed_table(tmp_path_factory.mktemp("t"), 3)
    file = t.add(rows(range(200), 2))
    entries = t.delete_rows((file, deleted))
    t.table.commit(RowDelta((), tuple(entries), starting_snapshot_id=t.snapshot_id))
    expected = sorted([*range(5), *range(10, 15), *(key for key in range(200) if key not in deleted)])
    assert t.by_pyiceberg() == expected
    assert sum(entry.data_file.record_count for entry in t.entries(ManifestContent.DELETES).values()) == len(
        set(deleted)
    )
