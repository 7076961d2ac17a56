"""Writing data files: partitions, row groups, target sizes, memory, and what a failure leaves behind."""

from __future__ import annotations

import dataclasses
import datetime as dt
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skerry
from skerry.errors import FormatError, SchemaError
from skerry.iceberg.writing import table_writers as write
from skerry.iceberg.writing.describe import DescribeTask, describe_file
from skerry.iceberg.writing.table_writers import PartitionedWriter, write_batches
from skerry.table.rows.incoming import conform
from skerry.theta import Sample

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("x", pa.float64()), ("day", pa.date32())])


def rows(count, *, days=3):
    first = dt.date(2024, 1, 1)
    return pa.table(
        {
            "k": list(range(count)),
            "s": [f"s{n % 7}" for n in range(count)],
            "x": [float("nan") if n % 10 == 0 else n for n in range(count)],
            "day": [first + dt.timedelta(days=n % days) for n in range(count)],
        },
        schema=SCHEMA,
    )


@pytest.fixture
def layout_of(tmp_path):
    catalog = skerry.connect(tmp_path / "warehouse")

    def make(schema=SCHEMA, **options):
        return catalog.create_table(f"d.t{len(catalog.list_tables())}", schema, **options).handle.layout()

    return make


def local(location):
    return Path(location.removeprefix("file://"))


def serialized(file):
    return {field_id: sample.serialize() for field_id, sample in file.samples.items()}


def batches(layout, data, size=None):
    return conform(data.to_reader(size), layout.schema)


def test_one_file_per_partition_with_its_values_and_metrics(layout_of):
    layout = layout_of(partition_by=["day"])
    files = write_batches(layout, batches(layout, rows(90)))
    assert sorted(file.data_file.partition for file in files) == [(19723,), (19724,), (19725,)]
    for file in files:
        stored = pq.read_table(local(file.data_file.location))
        assert set(stored["day"].cast(pa.int32()).to_pylist()) == {file.data_file.partition[0]}
        assert file.data_file.record_count == 30
        assert file.data_file.file_size_bytes == local(file.data_file.location).stat().st_size
        assert file.data_file.nan_value_counts == {3: 3}
        assert len(file.data_file.split_offsets) == 1
        assert "day=2024-01-0" in file.data_file.location


def test_files_of_one_write_share_a_folder_of_their_own(layout_of):
    layout = layout_of(partition_by=["day"])
    files = write_batches(layout, batches(layout, rows(9)))
    assert all(file.data_file.location.startswith(layout.folder + "/") for file in files)
    assert local(layout.folder).parent.name == "data"


def test_samples_are_those_of_the_files_rows(layout_of):
    layout = layout_of(partition_by=["day"])
    for file in write_batches(layout, batches(layout, rows(90), 7)):
        stored = pq.read_table(local(file.data_file.location))
        for field_id, name in ((1, "k"), (2, "s"), (3, "x"), (4, "day")):
            expected = Sample().update(stored[name].combine_chunks())
            assert file.samples[field_id].serialize() == expected.serialize(), name


def test_a_file_is_closed_at_the_target_size(layout_of):
    layout = layout_of(
        properties={"write.target-file-size-bytes": "20000", "write.parquet.row-group-size-bytes": "10000"}
    )
    files = write_batches(layout, batches(layout, rows(20_000), 500))
    assert len(files) > 3
    assert sum(file.data_file.record_count for file in files) == 20_000
    for file in files[:-1]:
        assert 20_000 <= file.data_file.file_size_bytes < 40_000
        assert len(file.data_file.split_offsets) > 1


def test_sorted_files_are_sorted_and_no_larger_than_the_target_in_memory(layout_of):
    layout = layout_of(sort_by=["s", "k desc"], properties={"write.target-file-size-bytes": "100000"})
    files = write_batches(layout, batches(layout, rows(20_000), 500))
    assert len(files) > 2
    for file in files:
        stored = pq.read_table(local(file.data_file.location), columns=["s", "k"])
        assert stored == stored.sort_by([("s", "ascending"), ("k", "descending")])
        assert file.data_file.sort_order_id == layout.sort_order.order_id


def test_buffers_are_written_out_when_they_outgrow_the_memory_limit(layout_of, monkeypatch):
    monkeypatch.setattr(write, "MAX_BUFFERED_BYTES", 5_000)
    layout = layout_of(partition_by=["day"])
    writer = PartitionedWriter(layout)
    for batch in batches(layout, rows(9_000), 300):
        writer.write(batch)
        assert writer.buffered_bytes <= 5_000
    files = writer.close()
    assert len(files) == 3
    assert sum(file.data_file.record_count for file in files) == 9_000
    assert all(len(file.data_file.split_offsets) > 5 for file in files)


@pytest.fixture
def spools(monkeypatch, tmp_path):
    """A folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_one_file_per_partition_however_few_may_be_open(layout_of, monkeypatch, spools):
    monkeypatch.setattr(write, "MAX_OPEN_FILES", 4)
    monkeypatch.setattr(write, "MAX_BUFFERED_BYTES", 20_000)
    layout = layout_of(partition_by=["day"])
    writer = PartitionedWriter(layout)
    for batch in batches(layout, rows(4_000, days=200), 50):
        writer.write(batch)
        assert writer.open_files <= 4
        assert writer.buffered_bytes <= 20_000
    assert len(list(spools.rglob("rows"))) == 1
    files = writer.close()
    assert list(spools.iterdir()) == []
    assert {file.data_file.partition for file in files} == {(19723 + n,) for n in range(200)}
    assert len(files) == 200
    for file in files:
        stored = pq.read_table(local(file.data_file.location))
        first = file.data_file.partition[0] - 19723
        assert stored["k"].to_pylist() == list(range(first, 4_000, 200))
        assert file.samples[1].serialize() == Sample().update(stored["k"].combine_chunks()).serialize()


def test_sorted_rows_of_many_partitions_wait_on_disk(layout_of, monkeypatch, spools):
    monkeypatch.setattr(write, "MAX_BUFFERED_BYTES", 20_000)
    layout = layout_of(partition_by=["day"], sort_by=["k desc"])
    files = write_batches(layout, batches(layout, rows(4_000, days=40), 100))
    assert len(files) == 40
    for file in files:
        assert pq.read_table(local(file.data_file.location))["k"].to_pylist() == list(
            range(3_960 + file.data_file.partition[0] - 19723, -1, -40)
        )


def test_rows_that_come_by_partition_are_written_once(layout_of, monkeypatch):
    monkeypatch.setattr(write, "MAX_OPEN_FILES", 3)
    monkeypatch.setattr(write, "MAX_BUFFERED_BYTES", 3_000)
    monkeypatch.setattr(write, "SpillFile", None)  # nothing waits on disk
    layout = layout_of(partition_by=["day"], properties={"write.parquet.row-group-size-bytes": "1000"})
    files = write_batches(layout, batches(layout, rows(3_000, days=10).sort_by("day"), 50))
    assert len(files) == 10
    assert sum(file.data_file.record_count for file in files) == 3_000


@pytest.mark.parametrize("sort_by", [[], ["k"]])
def test_a_writer_that_is_given_up_leaves_nothing_on_disk(layout_of, monkeypatch, spools, sort_by):
    monkeypatch.setattr(write, "MAX_OPEN_FILES", 2)
    monkeypatch.setattr(write, "MAX_BUFFERED_BYTES", 5_000)
    layout = layout_of(partition_by=["day"], sort_by=sort_by)

    def interrupted():
        yield from batches(layout, rows(2_000, days=20), 100)
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        write_batches(layout, interrupted())
    assert list(spools.iterdir()) == []
    assert [path for path in local(layout.folder).rglob("*") if path.is_file()] == []


WIDE = pa.schema([("k", pa.int64()), ("s", pa.string())])


@pytest.mark.parametrize("sort_by", [[], ["k"]])
@pytest.mark.parametrize("partition_by", [[], ["truncate(10, k)"]])
def test_memory_is_bounded_whatever_the_width_of_rows(layout_of, monkeypatch, partition_by, sort_by):
    limit = 16 << 20
    monkeypatch.setattr(write, "MAX_BUFFERED_BYTES", limit)
    properties = {"write.parquet.row-group-size-bytes": str(limit // 4)}
    layout = layout_of(WIDE, partition_by=partition_by, sort_by=sort_by, properties=properties)
    peak = 0

    def wide():
        nonlocal peak
        for start in range(0, 96, 8):  # one partition has nine rows of ten, others one in ten batches
            peak = max(peak, pa.total_allocated_bytes())
            keys = [n if n % 10 == 9 else 0 for n in range(start, start + 8)]
            texts = [str(n).rjust(1 << 20, "x") for n in range(start, start + 8)]
            yield pa.record_batch([pa.array(keys), pa.array(texts)], schema=layout.schema)

    before = pa.total_allocated_bytes()
    files = write_batches(layout, wide())
    assert sum(file.data_file.record_count for file in files) == 96
    assert peak - before < 3 * limit  # of 96 MiB
    assert all(len(file.data_file.split_offsets) == 1 or not sort_by for file in files)
    if not sort_by:
        groups = [pq.read_metadata(local(file.data_file.location)) for file in files]
        assert max(group.num_rows / group.num_row_groups for group in groups) <= 8


def test_an_aborted_writer_leaves_no_file(layout_of):
    layout = layout_of(partition_by=["day"], properties={"write.target-file-size-bytes": "1"})
    writer = PartitionedWriter(layout)
    for batch in batches(layout, rows(30), 10):
        writer.write(batch)
    writer.abort()
    assert [path for path in local(layout.folder).rglob("*") if path.is_file()] == []


def test_a_layout_survives_pickling_and_does_not_print_credentials(layout_of):
    layout = dataclasses.replace(layout_of(), storage_options={"s3.secret-access-key": "hush"})
    assert layout.schema.field("k").type == pa.int64()
    again = pickle.loads(pickle.dumps(layout))
    assert again == layout
    assert again.schema.equals(layout.schema, check_metadata=True)
    assert "hush" not in repr(layout)


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed"])
def test_every_codec_that_iceberg_names(layout_of, codec):
    layout = layout_of(properties={"write.parquet.compression-codec": codec})
    (file,) = write_batches(layout, batches(layout, rows(10)))
    found = pq.read_metadata(local(file.data_file.location)).row_group(0).column(0).compression.lower()
    assert found == codec


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("write.parquet.compression-codec", "zip"),
        ("write.target-file-size-bytes", "0"),
        ("write.parquet.row-group-size-bytes", "big"),
    ],
)
def test_a_property_without_a_legal_value_is_named(layout_of, name, value):
    with pytest.raises(SchemaError, match=name):
        layout_of(properties={name: value})


@pytest.mark.parametrize(
    "partition_by", [[], ["day"], ["month(day)", "s"], ["bucket(4, k)"], ["truncate(100, k)"], ["x"], ["void(k)"]]
)
def test_describing_a_file_finds_what_its_writer_knew(layout_of, partition_by):
    layout = layout_of(partition_by=partition_by)
    for written in write_batches(layout, batches(layout, rows(60))):
        described = describe_file(DescribeTask(written.data_file.location, layout))
        assert serialized(described) == serialized(written)
        assert repr(described.data_file) == repr(written.data_file)  # NaN partitions are equal as text only


@pytest.mark.parametrize("partition_by", [["day"], ["bucket(4, k)"], ["s"], ["x"]])
def test_a_file_with_rows_of_several_partitions_is_refused(layout_of, partition_by):
    (mixed,) = write_batches(plain := layout_of(), batches(plain, rows(60)))
    with pytest.raises(SchemaError, match="a data file contains rows of") as caught:
        describe_file(DescribeTask(mixed.data_file.location, layout_of(partition_by=partition_by)))
    assert caught.value.location == mixed.data_file.location


def test_null_partitions_are_found_from_the_footer_and_from_rows(layout_of):
    nothing = pa.table({name: pa.nulls(5, SCHEMA.field(name).type) for name in SCHEMA.names}, schema=SCHEMA)
    (file,) = write_batches(plain := layout_of(), batches(plain, nothing))
    for partition_by in (["day"], ["s"], ["bucket(3, k)"], ["x"]):
        described = describe_file(DescribeTask(file.data_file.location, layout_of(partition_by=partition_by)))
        assert described.data_file.partition == (None,)


def test_a_truncated_file_is_named(layout_of):
    layout = layout_of()
    (file,) = write_batches(layout, batches(layout, rows(60)))
    path = local(file.data_file.location)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(FormatError, match="Parquet") as caught:
        describe_file(DescribeTask(file.data_file.location, layout))
    assert caught.value.location == file.data_file.location


LARGE = """
import resource, sys
import pyarrow as pa
import skerry
from skerry.table.connector.publication import WriteMode
from skerry.iceberg.jobs.publish import write_share

schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
table = skerry.connect(sys.argv[1]).create_table("d.t", schema, partition_by=["truncate(4, k)"])
layout = table.handle.layout()
write_share(layout, WriteMode.APPEND, [pa.record_batch([pa.array([0]), pa.array(["a"])], schema)])
text = "x" * (1 << 20)

def batches(count):
    for _ in range(count):  # as Spark cuts them: 64 MiB
        yield pa.record_batch([pa.array(range(64)), pa.array([text] * 64)], schema)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

before = peak()
share = write_share(layout, WriteMode.APPEND, batches(24))
print(sum(file.data_file.record_count for file in share.files), peak() - before)
"""


def test_a_task_that_writes_a_gigabyte_of_wide_rows_takes_less_than_half_of_it(tmp_path):
    done = subprocess.run([sys.executable, "-c", LARGE, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count, peak_mib = map(int, done.stdout.split())
    assert count == 24 * 64
    assert peak_mib < 24 * 64 // 2
