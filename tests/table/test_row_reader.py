"""Reading rows of Parquet files: order, limits, row groups skipped, damage named."""

from __future__ import annotations

import datetime
import decimal
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skerry.errors import FormatError, NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.storage import Storage
from skerry.table.files.data_file import DataFile
from skerry.table.files.evolution import prune
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.predicate import columns_of, parse
from skerry.table.work.read_ahead import WorkPool, read_ahead


def field(name, type_, field_id):
    return pa.field(name, type_, metadata={b"PARQUET:field_id": str(field_id).encode()})


SCHEMA = pa.schema([field("n", pa.int64(), 1), field("word", pa.string(), 2), field("x", pa.float64(), 3)])


def rows_of(start, count):
    numbers = range(start, start + count)
    return pa.table([list(numbers), [f"w{n % 7}" for n in numbers], [n / 2 for n in numbers]], schema=SCHEMA)


def write(path, table, **options):
    pq.write_table(table, path, **options)
    return task(path, table.num_rows)


def task(path, rows, **fields):
    return FileScanTask(DataFile(str(path), fields.pop("file_format", "parquet"), rows, 0), **fields)


def reader(where=None, columns=None, *, schema=SCHEMA, storage=None, **options):
    predicate = parse(where, schema)
    out = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    ids = {int(f.metadata[b"PARQUET:field_id"]) for f in out} | {column.field_id for column in columns_of(predicate)}
    return RowReader(storage or Storage(), out, prune(schema, ids), predicate, **options)


def read(tasks, where=None, columns=None, *, limit=None, **options):
    found = reader(where, columns, **options)
    return pa.Table.from_batches(found.batches(tasks, limit=limit), schema=found.schema)


@pytest.fixture
def tasks(tmp_path):
    """Three files of 1,000 rows, ten row groups each."""
    return [
        write(tmp_path / f"{number}.parquet", rows_of(number * 1000, 1000), row_group_size=100) for number in range(3)
    ]


@pytest.mark.parametrize("threads", [1, 4])
def test_rows_come_in_the_order_of_files_and_rows(tasks, threads):
    assert read(tasks, threads=threads) == rows_of(0, 3000)
    assert read(tasks[::-1], threads=threads)["n"].to_pylist()[:2] == [2000, 2001]


def test_only_wanted_rows_and_columns_come(tasks):
    found = read(tasks, "n >= 1950 AND word = 'w1'", ["x", "word"])
    assert found.schema == pa.schema([SCHEMA.field("x"), SCHEMA.field("word")])
    assert found.to_pylist() == [{"x": n / 2, "word": "w1"} for n in range(1950, 3000) if n % 7 == 1]


@pytest.mark.parametrize("limit", [0, 1, 99, 100, 101, 1500, 5000])
def test_a_limit_ends_the_scan(tasks, limit):
    assert read(tasks, limit=limit)["n"].to_pylist() == list(range(min(limit, 3000)))
    assert read(tasks, "n > 10", limit=limit)["n"].to_pylist() == list(range(11, min(11 + limit, 3000)))


def test_a_limit_opens_no_more_files_than_it_needs(tasks):
    storage = Storage()
    read(tasks, limit=5, storage=storage, threads=1)
    assert storage.metrics.files_opened <= 2  # one of them ahead


def test_row_groups_are_skipped_by_their_statistics(tmp_path):
    path = tmp_path / "a.parquet"
    work = write(path, rows_of(0, 1000), row_group_size=100, compression="none", use_dictionary=False)
    chunk = pq.read_metadata(path).row_group(5).column(0)
    damaged = bytearray(path.read_bytes())
    start = chunk.data_page_offset
    damaged[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(damaged)
    assert read([work], "n < 500 OR n >= 600")["n"].to_pylist() == [*range(500), *range(600, 1000)]
    assert read([work], limit=450).num_rows == 450
    for where in (None, "n = 555", "word = 'w1'"):
        with pytest.raises(FormatError) as caught:
            read([work], where)
        assert caught.value.location == str(path)


def test_row_groups_whose_rows_all_match_are_counted_unread(tmp_path):
    path = tmp_path / "a.parquet"
    work = write(path, rows_of(0, 1000), row_group_size=100, compression="none", use_dictionary=False)
    metadata = pq.read_metadata(path)
    damaged = bytearray(path.read_bytes())
    for group in (0, 1, 2, 6, 7, 8, 9):
        chunk = metadata.row_group(group).column(0)
        damaged[chunk.data_page_offset : chunk.data_page_offset + chunk.total_compressed_size] = bytes(
            chunk.total_compressed_size
        )
    path.write_bytes(damaged)
    assert reader("n >= 350", []).count([work]) == 650
    assert reader("n < 550 AND n >= 300", []).count([work]) == 250


VALUES = {
    "bool": (pa.bool_(), [False, True]),
    "int": (pa.int32(), [-5, 7]),
    "date": (pa.date32(), [datetime.date(1969, 1, 1), datetime.date(2020, 1, 1)]),
    "time": (pa.time64("us"), [datetime.time(1), datetime.time(2)]),
    "moment": (pa.timestamp("us"), [datetime.datetime(1969, 1, 1), datetime.datetime(2020, 1, 1)]),
    "instant": (pa.timestamp("us", "UTC"), [datetime.datetime(1969, 1, 1, tzinfo=datetime.UTC), None]),
    "small": (pa.decimal128(9, 2), [decimal.Decimal("-1.25"), decimal.Decimal("3.50")]),
    "large": (pa.decimal128(38, 2), [decimal.Decimal("-1.25"), decimal.Decimal("3.50")]),
    "text": (pa.string(), ["a", "ü"]),
    "bytes": (pa.binary(), [b"", b"\xff"]),
    "fixed": (pa.binary(2), [b"ab", b"cd"]),
    "uuid": (pa.uuid(), [b"\x01" * 16, b"\xfe" * 16]),
    "float": (pa.float32(), [-0.5, float("nan")]),
}


@pytest.mark.parametrize("name", VALUES)
def test_statistics_of_every_type_lose_no_row(tmp_path, name):
    type_, values = VALUES[name]
    schema = pa.schema([field("c", type_, 1)])
    storage_type = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
    column = pa.array([value for value in values for _ in range(3)], storage_type).cast(type_)
    work = write(tmp_path / "a.parquet", pa.table([column], schema=schema), row_group_size=2)
    for value in values:
        if value is None or value != value:
            continue
        literal = f"X'{value.hex()}'" if isinstance(value, bytes) else f"'{value}'"
        if name in ("int", "small", "large", "float"):
            literal = str(value)
        assert read([work], f"c = {literal}", schema=schema).num_rows == 3
        assert read([work], f"c <> {literal} OR c IS NULL", schema=schema).num_rows == 3
        assert read([work], f"c >= {literal}", schema=schema).num_rows >= 3


def test_old_files_are_read_with_the_schema_of_today(tmp_path):
    old = pa.schema([field("number", pa.int32(), 1), field("gone", pa.string(), 9)])
    work = write(tmp_path / "a.parquet", pa.table([[1, 2, 3], ["a", "b", "c"]], schema=old))
    work = FileScanTask(work.data_file, constants={3: 0.5})
    expected = [{"n": 2, "word": None, "x": 0.5}, {"n": 3, "word": None, "x": 0.5}]
    assert read([work], "n > 1").to_pylist() == expected
    assert read([work], "n > 1 AND x = 0.5 AND word IS NULL").to_pylist() == expected
    assert read([work], "word = 'a'").num_rows == 0
    assert read([work], None, ["word"]).to_pylist() == [{"word": None}] * 3
    assert reader("x > 0", []).count([work]) == 3


def test_files_of_spark_with_int96_times(tmp_path):
    schema = pa.schema([field("t", pa.timestamp("us", "UTC"), 1)])
    moments = [datetime.datetime(1960, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2500, 1, 1, tzinfo=datetime.UTC)]
    table = pa.table([pa.array(moments, pa.timestamp("us", "UTC"))], schema=schema)
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert (
        read([task(tmp_path / "a.parquet", 2)], "t > '2000-01-01T00:00:00Z'", schema=schema)["t"].to_pylist()
        == moments[1:]
    )


def test_files_without_ids_need_a_name_mapping(tmp_path):
    bare = pa.table({"n": [1, 2], "w": ["a", "b"]})
    work = write(tmp_path / "a.parquet", bare)
    with pytest.raises(SchemaError, match=r"no field ids, and the table has no schema\.name-mapping\.default"):
        read([work])
    assert read([work], "word = 'b'", names={("n",): 1, ("w",): 2}).to_pylist() == [{"n": 2, "word": "b", "x": None}]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(NotFoundError) as caught:
        read([task(tmp_path / "none.parquet", 1)])
    assert caught.value.location == str(tmp_path / "none.parquet")


def test_damaged_files_are_named(tmp_path, tasks):
    path = tmp_path / "damaged.parquet"
    whole = (tmp_path / "0.parquet").read_bytes()
    for bytes_ in (
        b"",
        b"PAR1",
        whole[:-100],
        whole[: len(whole) // 2],
        bytes(len(whole)),
        whole[:-8] + b"\xff\xff\xff\x7fPAR1",
    ):
        path.write_bytes(bytes_)
        with pytest.raises(FormatError, match="Parquet") as caught:
            read([tasks[1], task(path, 1000)])
        assert caught.value.location == str(path)


def test_bits_flipped_anywhere_never_raise_anything_unforeseen(tmp_path):
    path = tmp_path / "a.parquet"
    work = write(path, rows_of(0, 50), compression="snappy", write_page_checksum=True)
    whole = path.read_bytes()
    for position in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        error = None
        try:
            read([work], "n >= 0")
        except SkerryError as caught:
            error = caught
        assert error is None or error.location == str(path)


def test_a_file_with_other_than_its_rows_is_refused(tasks):
    wrong = FileScanTask(DataFile(tasks[0].data_file.location, "parquet", 999, 0))
    with pytest.raises(FormatError, match="the file has 1000 rows, the table's metadata says 999"):
        read([wrong])


def test_formats_without_a_reader_are_refused_by_name(tmp_path):
    with pytest.raises(UnsupportedError, match="reading lance files is not supported"):
        read([task(tmp_path / "a.lance", 1, file_format="lance")])


def test_a_column_of_another_type_is_refused_with_the_file(tmp_path):
    work = write(tmp_path / "a.parquet", pa.table([["x"]], schema=pa.schema([field("n", pa.string(), 1)])))
    with pytest.raises(SchemaError, match="column 'n' is string in the file, but int64 in the table") as caught:
        read([work])
    assert caught.value.location == str(tmp_path / "a.parquet")


def test_a_scan_given_up_stops_its_threads(tasks):
    batches = reader(None, threads=2).batches(tasks)
    next(batches)
    batches.close()
    for thread in [thread for thread in threading.enumerate() if thread.name.startswith("skerry-scan")]:
        thread.join(60)
        assert not thread.is_alive()


def test_files_in_memory_are_read_like_others():
    storage = Storage()
    sink = pa.BufferOutputStream()
    pq.write_table(rows_of(0, 1000), sink, row_group_size=100)
    storage.write("memory://bucket/rows.parquet", sink.getvalue())
    work = task("memory://bucket/rows.parquet", 1000)
    assert read([work], "n >= 990", storage=storage)["n"].to_pylist() == list(range(990, 1000))
    assert read([work], storage=storage, threads=3) == rows_of(0, 1000)


def test_reading_ahead_keeps_the_order_and_the_budget():
    running, most, lock = 0, 0, threading.Lock()

    def work(item):
        nonlocal running, most
        with lock:
            running += item
            most = max(most, running)
        time.sleep(0.001 * (item % 3))
        with lock:
            running -= item
        return item

    items = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5] * 5
    with WorkPool(4, "test", is_local=False) as pool:
        assert list(read_ahead(pool, work, items, lambda item: item, 10)) == items
    assert most < 10 + max(items)
