"""Rows that delete files take away: beside a plain reader, by what is read for it, and what is refused."""

from __future__ import annotations

import dataclasses
import math
import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_rows import (
    FORMATS,
    POSITIONS,
    data_task,
    deletion_vector,
    field,
    key_deletes,
    plain_read,
    position_deletes,
    reader,
    rows_of,
    write_rows,
)

from skerry.errors import FormatError, NotFoundError, SchemaError, UnsupportedError
from skerry.storage import Storage
from skerry.table.files.data_file import DataFile, DeleteFile, DeleteKind
from skerry.table.files.row_deletes import RowDeletes, deleted_positions
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.predicate import parse

SCHEMA = pa.schema([field("n", pa.int64(), 1), field("word", pa.string(), 2), field("x", pa.float64(), 3)])
IDS = {"n": 1, "word": 2, "x": 3}


def table_of(count):
    return pa.table(
        [range(count), [f"w{n % 7}" for n in range(count)], [n / 2 for n in range(count)]],
        schema=SCHEMA,
    )


def numbers(found, tasks, **options):
    return [row["n"] for row in rows_of(found, tasks, **options)]


# ---- beside the plain reader ----

rows_strategy = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.one_of(st.none(), st.integers(0, 5)),
            "word": st.one_of(st.none(), st.sampled_from(["", "a", "b", "a\0"])),
            "x": st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf])),
        }
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=40)
@given(data=st.data())
def test_what_is_left_is_what_a_plain_reader_leaves(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    rows = data.draw(rows_strategy)
    file_format = data.draw(st.sampled_from(FORMATS))
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    path = folder / "data"
    task = data_task(
        path, table, file_format, group_rows=data.draw(st.integers(1, 15)) if file_format == "parquet" else None
    )
    deletes, gone, keys = [], set(), []
    for number in range(data.draw(st.integers(0, 2))):
        mine = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=12))
        others = data.draw(st.lists(st.integers(0, 1000), max_size=3))
        pairs = data.draw(st.permutations([(path, n) for n in mine] + [(folder / "other", n) for n in others]))
        deletes.append(
            position_deletes(folder / f"p{number}", pairs, data.draw(st.sampled_from(FORMATS)), group_rows=None)
        )
        gone.update(mine)
    if data.draw(st.booleans()):
        mine = data.draw(st.sets(st.integers(0, len(rows) - 1)))
        deletes.append(deletion_vector(folder / "v", path, mine))
        gone |= mine
    for number in range(data.draw(st.integers(0, 2))):
        names = data.draw(st.lists(st.sampled_from(["n", "word", "x"]), min_size=1, unique=True))
        deleted = data.draw(rows_strategy)
        key_table = pa.Table.from_pylist(deleted, schema=SCHEMA).select(names)
        chosen = data.draw(st.sampled_from(FORMATS))
        deletes.append(key_deletes(folder / f"k{number}", key_table, [IDS[name] for name in names], chosen))
        keys.append((names, deleted))
    task = FileScanTask(task.data_file, deletes=tuple(deletes), matches_all=True)
    expected = plain_read(rows, positions=gone, keys=keys)
    columns = data.draw(st.sampled_from([None, ["n"], ["_pos"], ["x", "_pos", "_file"]]))
    found = reader(SCHEMA, columns=columns)
    names = columns or SCHEMA.names
    wanted = [{**row, "_pos": n, "_file": str(path)} for n, row in expected]
    assert repr(rows_of(found, [task])) == repr([{name: row[name] for name in names} for row in wanted])
    assert found.count([task]) == len(expected)
    assert deleted_positions(Storage(), task).tolist() == sorted(gone)
    tested = FileScanTask(task.data_file, deletes=tuple(deletes))
    where = reader(SCHEMA, columns=["_pos"], predicate=parse("n > 2", SCHEMA), read=["_pos", "n"])
    assert [row["_pos"] for row in rows_of(where, [tested])] == [n for n, row in expected if (row["n"] or 0) > 2]
    assert where.count([tested]) == len([n for n, row in expected if (row["n"] or 0) > 2])
    marked = rows_of(reader(SCHEMA, columns=["_pos", "_deleted"]), [task])
    alive = {n for n, _ in expected}
    assert marked == [{"_pos": n, "_deleted": n not in alive} for n in range(len(rows))]


# ---- positions ----


@pytest.mark.parametrize("file_format", FORMATS)
def test_positions_of_one_file_are_found_among_those_of_many(tmp_path, file_format):
    pairs = [(tmp_path / f"{n}.parquet", p) for n in range(5) for p in (n, n + 10, n + 20)]
    delete = position_deletes(tmp_path / "d", pairs, file_format)
    tasks = [data_task(tmp_path / f"{n}.parquet", table_of(50), deletes=(delete,)) for n in range(5)]
    for n, task in enumerate(tasks):
        assert deleted_positions(Storage(), task).tolist() == [n, n + 10, n + 20]
    assert reader(SCHEMA).count(tasks) == 5 * 47


def test_a_delete_file_of_many_data_files_is_read_once(tmp_path):
    tasks = [data_task(tmp_path / f"{n}.parquet", table_of(20)) for n in range(6)]
    delete = position_deletes(tmp_path / "d", [(task.data_file.location, 3) for task in tasks])
    tasks = [FileScanTask(task.data_file, True, deletes=(delete,)) for task in tasks]
    found = reader(SCHEMA, threads=3)
    assert numbers(found, tasks) == [n for n in range(20) if n != 3] * 6
    assert found.storage.metrics.files_opened == 7
    assert numbers(found, tasks[:1]) == [n for n in range(20) if n != 3]
    assert found.storage.metrics.files_opened == 8  # nor is it read again when the reader is used again
    assert numbers(pickle.loads(pickle.dumps(found)), tasks[:1]) == [n for n in range(20) if n != 3]


def test_row_groups_of_other_data_files_are_not_read(tmp_path):
    pairs = [(tmp_path / f"{n}.parquet", p) for n in range(10) for p in range(20)]
    delete = position_deletes(tmp_path / "d", pairs, group_rows=20)
    metadata = pq.read_metadata(delete.location)
    damaged = bytearray((tmp_path / "d").read_bytes())
    for group in [*range(4), *range(5, 10)]:
        for column in range(2):
            chunk = metadata.row_group(group).column(column)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            damaged[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    (tmp_path / "d").write_bytes(damaged)
    task = data_task(tmp_path / "4.parquet", table_of(30), deletes=(delete,))
    assert numbers(reader(SCHEMA), [task]) == list(range(20, 30))
    task = data_task(tmp_path / "5.parquet", table_of(30), deletes=(delete,))
    with pytest.raises(FormatError, match="not Parquet, or corrupt") as caught:
        rows_of(reader(SCHEMA), [task])
    assert caught.value.location == delete.location


def test_what_does_not_fit_the_cache_is_read_again(tmp_path):
    pairs = [(tmp_path / f"{n}.parquet", p) for n in range(4) for p in range(1000)]
    delete = position_deletes(tmp_path / "d", pairs, group_rows=1000)
    tasks = [
        FileScanTask(DataFile(str(tmp_path / f"{n}.parquet"), "parquet", 1000, 0), deletes=(delete,)) for n in range(4)
    ]
    small = RowDeletes(Storage(), cache_bytes=10_000)
    for task in tasks * 2:
        assert small.positions(task).tolist() == list(range(1000))


def test_of_many_delete_files_few_are_open_at_a_time(tmp_path):
    deletes = RowDeletes(Storage())
    before = len(os.listdir("/proc/self/fd"))
    for number in range(150):
        path = str(tmp_path / f"{number}.parquet")
        delete = position_deletes(tmp_path / f"d{number}", [(path, number)], referenced_data_file=path)
        task = FileScanTask(DataFile(path, "parquet", 1000, 0), deletes=(delete,))
        assert deletes.positions(task).tolist() == [number]
    assert len(os.listdir("/proc/self/fd")) < before + 100


def test_whole_row_groups_that_are_deleted_are_not_read(tmp_path):
    path = tmp_path / "a.parquet"
    task = data_task(path, table_of(100), group_rows=10)
    metadata = pq.read_metadata(path)
    damaged = bytearray(path.read_bytes())
    chunk = metadata.row_group(3).column(0)
    damaged[chunk.data_page_offset : chunk.data_page_offset + 20] = b"\xff" * 20
    path.write_bytes(damaged)
    delete = position_deletes(tmp_path / "d", [(path, n) for n in range(30, 40)])
    task = FileScanTask(task.data_file, True, deletes=(delete,))
    assert numbers(reader(SCHEMA), [task]) == [*range(30), *range(40, 100)]


# ---- counting ----


def test_rows_with_deleted_positions_are_counted_without_their_data_file(tmp_path):
    location = tmp_path / "not there.parquet"
    file = DataFile(str(location), "parquet", 100, 1000)
    delete = position_deletes(tmp_path / "d", [(location, 1), (location, 1), (location, 7)])
    assert reader(SCHEMA).count([FileScanTask(file, True, deletes=(delete,))]) == 98
    vector = deletion_vector(tmp_path / "v", location, {1, 2, 3})
    assert reader(SCHEMA).count([FileScanTask(file, True, deletes=(vector,))]) == 97
    assert reader(SCHEMA).count([FileScanTask(file, True, deletes=(vector, delete))]) == 96
    (tmp_path / "v").unlink()
    assert reader(SCHEMA).count([FileScanTask(file, True, deletes=(vector,))]) == 97
    with pytest.raises(NotFoundError):
        reader(SCHEMA).count([FileScanTask(file, False, deletes=(vector,))])


def test_a_limit_reads_on_where_rows_are_deleted(tmp_path):
    path = tmp_path / "a.parquet"
    delete = position_deletes(tmp_path / "d", [(path, n) for n in range(25)])
    task = data_task(path, table_of(100), group_rows=10, deletes=(delete,))
    for limit in (1, 5, 6, 40, 75, 100):
        assert numbers(reader(SCHEMA), [task], limit=limit) == list(range(25, min(25 + limit, 100)))


# ---- parts of files ----


@pytest.mark.parametrize("file_format", FORMATS)
def test_cut_anywhere_a_file_gives_every_row_once(tmp_path, file_format):
    path = tmp_path / "a"
    rows = pa.table([range(1000), ["w"] * 1000, np.random.default_rng(0).random(1000)], schema=SCHEMA)
    whole = data_task(path, rows, file_format, group_rows=100)
    delete = position_deletes(tmp_path / "d", [(path, n) for n in range(0, 1000, 7)])
    expected = [n for n in range(1000) if n % 7]
    size = whole.data_file.file_size_bytes
    found = reader(SCHEMA)
    for cuts in ([size // 2], [1, size // 3, size // 2, size - 1], list(range(0, size, 997))):
        tasks = [
            FileScanTask(whole.data_file, True, deletes=(delete,), start_byte=start, end_byte=end)
            for start, end in zip([0, *cuts], [*cuts, None], strict=True)
        ]
        assert [n for task in tasks for n in numbers(found, [task])] == expected
        assert sum(found.count([task]) for task in tasks) == len(expected)
    if file_format != "avro":
        assert len({len(numbers(found, [task])) for task in tasks}) > 1


# ---- keys ----


@pytest.mark.parametrize("file_format", FORMATS)
def test_keys_are_compared_in_the_types_of_today(tmp_path, file_format):
    old = pa.schema([field("number", pa.int32(), 1), field("w", pa.string(), 2)])
    task = data_task(tmp_path / "a", pa.table([[1, 2, None, 4], list("abcd")], schema=old), file_format)
    now = pa.table([[2, None, 9]], schema=pa.schema([SCHEMA.field("n")]))
    early = pa.table([[4]], schema=pa.schema([old.field("number")]))
    deletes = (
        key_deletes(tmp_path / "now", now, [1], file_format),
        key_deletes(tmp_path / "early", early, [1], file_format),
    )
    task = FileScanTask(task.data_file, True, deletes=deletes)
    assert rows_of(reader(SCHEMA, columns=["word"]), [task]) == [{"word": "a"}]


def test_keys_of_a_column_that_a_file_lacks_meet_its_default_or_null(tmp_path):
    old = pa.schema([field("n", pa.int64(), 1)])
    task = data_task(tmp_path / "a", pa.table([[1, 2]], schema=old))
    nulls = key_deletes(tmp_path / "k", pa.table([[None]], schema=pa.schema([SCHEMA.field("word")])), [2])
    assert rows_of(reader(SCHEMA, columns=["n"]), [FileScanTask(task.data_file, True, deletes=(nulls,))]) == []
    constants = {2: "default"}
    kept = FileScanTask(task.data_file, True, constants, deletes=(nulls,))
    assert numbers(reader(SCHEMA, columns=["n"]), [kept]) == [1, 2]


def test_columns_that_the_table_has_dropped_still_delete(tmp_path):
    task = data_task(tmp_path / "a", table_of(10))
    keys = key_deletes(tmp_path / "k", pa.table([["w3"]], schema=pa.schema([SCHEMA.field("word")])), [2])
    task = FileScanTask(task.data_file, deletes=(keys,))
    renamed = pa.schema([field("word", pa.int64(), 1)])  # another column has taken the name since
    found = RowReader(
        Storage(), renamed, renamed, parse("word > 1", renamed), columns=pa.schema([*renamed, SCHEMA.field("word")])
    )
    assert [row["word"] for row in rows_of(found, [task])] == [2, 4, 5, 6, 7, 8, 9]
    with pytest.raises(SchemaError, match=r"compare columns \[2\], but the table never had \[2\]"):
        rows_of(RowReader(Storage(), renamed, renamed), [task])


def test_keys_within_structs(tmp_path):
    inner = pa.struct([field("a", pa.int32(), 11), field("b", pa.string(), 12)])
    schema = pa.schema([field("s", inner, 10), field("n", pa.int64(), 1)])
    rows = [
        {"s": {"a": 1, "b": "x"}, "n": 0},
        {"s": None, "n": 1},
        {"s": {"a": None, "b": "y"}, "n": 2},
        {"s": {"a": 2, "b": "z"}, "n": 3},
    ]
    task = data_task(tmp_path / "a", pa.Table.from_pylist(rows, schema=schema))
    only_a = pa.schema([field("s", pa.struct([field("a", pa.int32(), 11)]), 10)])
    for deleted, left in (([1], [1, 2, 3]), ([None], [0, 3]), ([2, None], [0])):
        path = tmp_path / f"k{left}"
        keys = key_deletes(path, pa.Table.from_pylist([{"s": {"a": a}} for a in deleted], schema=only_a), [11])
        assert numbers(reader(schema, columns=["n"]), [FileScanTask(task.data_file, True, deletes=(keys,))]) == left


VALUES = {
    "bool": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [-1, 0, 20000]),
    "time": (pa.time64("us"), [0, 1]),
    "moment": (pa.timestamp("us", "UTC"), [-1_000_000, 0]),
    "decimal": (pa.decimal128(38, 2), [10**30, -(10**30)]),
    "bytes": (pa.binary(), [b"", b"\0"]),
    "fixed": (pa.binary(3), [b"abc", b"abd"]),
    "uuid": (pa.uuid(), [b"a" * 16, b"b" * 16]),
}


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("name", VALUES)
def test_keys_of_every_type(tmp_path, name, file_format):
    type_, values = VALUES[name]
    schema = pa.schema([field("k", type_, 1), field("n", pa.int64(), 2)])
    plain = (
        pa.int32()
        if name == "date"
        else pa.int64()
        if name in ("time", "moment")
        else getattr(type_, "storage_type", type_)
    )
    column = pa.array([*values, None], plain).cast(type_)
    task = data_task(tmp_path / "a", pa.table([column, range(len(column))], schema=schema), file_format)
    keys = key_deletes(tmp_path / "k", pa.table([column[:1]], schema=pa.schema([schema.field("k")])), [1], file_format)
    task = FileScanTask(task.data_file, True, deletes=(keys,))
    assert numbers(reader(schema, columns=["n"]), [task]) == list(range(1, len(column)))


def test_many_key_files_of_one_set_of_columns_are_one_index(tmp_path):
    task = data_task(tmp_path / "a.parquet", table_of(100), group_rows=9)
    deletes = [
        key_deletes(tmp_path / f"k{n}", pa.table([[n, n + 50]], schema=pa.schema([SCHEMA.field("n")])), [1])
        for n in range(0, 20, 5)
    ]
    tasks = [FileScanTask(task.data_file, True, deletes=tuple(deletes[:n])) for n in (4, 4, 2)]
    found = reader(SCHEMA, columns=["word"])
    assert [len(rows_of(found, [one])) for one in tasks] == [92, 92, 96]
    assert found.storage.metrics.files_opened == 4 + 3
    (index,) = found._deletes.keys(tasks[0])
    assert index is found._deletes.keys(tasks[1])[0]


# ---- what is refused ----


def one_task(tmp_path, *deletes):
    (tmp_path / "a.parquet").unlink(missing_ok=True)
    return data_task(tmp_path / "a.parquet", table_of(10), deletes=deletes)


def raw_positions(tmp_path, table, **fields):
    pq.write_table(table, tmp_path / "d")
    rows = fields.pop("record_count", table.num_rows)
    return DeleteFile(
        DeleteKind.POSITIONS, str(tmp_path / "d"), fields.pop("file_format", "parquet"), rows, 10_000, **fields
    )


BARE = pa.schema([field.with_nullable(True) for field in POSITIONS])
BAD_FILES = {
    "a row behind the end": (
        lambda path: pa.table([[path], [10]], schema=POSITIONS),
        {},
        FormatError,
        "row 10 is deleted, the file has 10 rows",
    ),
    "a negative row": (
        lambda path: pa.table([[path], [-1]], schema=POSITIONS),
        {},
        FormatError,
        "row -1 is deleted, the file has 10 rows",
    ),
    "paths that are no texts": (
        lambda path: pa.table([[True], [1]], schema=pa.schema([BARE.field(0).with_type(pa.bool_()), BARE.field(1)])),
        {},
        FormatError,
        "a position delete file has paths of type bool",
    ),
    "no position": (
        lambda path: pa.table([[path], [None]], schema=BARE),
        {},
        FormatError,
        "a position delete file has a null in pos",
    ),
    "another column": (
        lambda path: pa.table([[path], [1]], names=["file_path", "position"]),
        {},
        FormatError,
        "lacks file_path or pos",
    ),
    "text for rows": (
        lambda path: pa.table([[path], ["1"]], names=["file_path", "pos"]),
        {},
        FormatError,
        "rows of type string",
    ),
    "of another file": (
        lambda path: pa.table([[path], [1]], schema=POSITIONS),
        {"referenced_data_file": "b.parquet"},
        FormatError,
        "the delete file belongs to b.parquet, not to .*a.parquet",
    ),
    "another format": (
        lambda path: pa.table([[path], [1]], schema=POSITIONS),
        {"file_format": "lance"},
        UnsupportedError,
        "reading lance files is not supported",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_of_positions(tmp_path, name):
    make, fields, error, message = BAD_FILES[name]
    delete = raw_positions(tmp_path, make(str(tmp_path / "a.parquet")), **fields)
    with pytest.raises(error, match=message) as caught:
        rows_of(reader(SCHEMA), [one_task(tmp_path, delete)])
    assert caught.value.location in (delete.location, str(tmp_path / "a.parquet"))


def test_files_of_positions_are_found_by_name_where_they_have_no_ids(tmp_path):
    table = pa.table([[str(tmp_path / "a.parquet")] * 2, pa.array([3, 4], pa.int32())], names=["file_path", "pos"])
    task = one_task(tmp_path, raw_positions(tmp_path, table))
    assert numbers(reader(SCHEMA), [task]) == [0, 1, 2, 5, 6, 7, 8, 9]


def changed(delete, **fields):
    return dataclasses.replace(delete, **fields)


BAD_VECTORS = {
    "of another file": (
        {"referenced_data_file": "b.parquet"},
        FormatError,
        "the deletion vector belongs to b.parquet, not to .*a.parquet",
    ),
    "of no file": ({"referenced_data_file": None}, FormatError, "the deletion vector belongs to None, not to"),
    "nowhere": ({"content_offset": None}, FormatError, "a deletion vector of .* bytes at None in a file of"),
    "of no size": ({"content_size_bytes": None}, FormatError, "a deletion vector of None bytes at"),
    "behind the end": ({"content_offset": 1 << 40}, FormatError, "bytes at 1099511627776 in a file of"),
    "before the start": ({"content_offset": -4}, FormatError, "bytes at -4 in a file of"),
    "too long": ({"content_size_bytes": 1 << 40}, FormatError, "a deletion vector of 1099511627776 bytes"),
    "longer than the file is": (
        {"content_size_bytes": 1 << 40, "file_size_bytes": 1 << 41},
        FormatError,
        "1099511627776 bytes",
    ),
    "elsewhere": ({"content_offset": 5}, FormatError, "deletion vector: length .* in a blob of"),
    "of more rows": ({"record_count": 3}, FormatError, "2 rows, the metadata says 3"),
    "of fewer rows": ({"record_count": 1}, FormatError, "2 positions, expected at most 1"),
}


@pytest.mark.parametrize("name", BAD_VECTORS)
def test_bad_deletion_vectors(tmp_path, name):
    fields, error, message = BAD_VECTORS[name]
    delete = changed(deletion_vector(tmp_path / "v", tmp_path / "a.parquet", {1, 2}), **fields)
    with pytest.raises(error, match=message) as caught:
        rows_of(reader(SCHEMA), [one_task(tmp_path, delete)])
    assert caught.value.location == delete.location


def test_vectors_of_rows_behind_the_end(tmp_path):
    delete = deletion_vector(tmp_path / "v", tmp_path / "a.parquet", {1, 10})
    with pytest.raises(FormatError, match="row 10 is deleted, the file has 10 rows"):
        rows_of(reader(SCHEMA), [one_task(tmp_path, delete)])


def test_bad_files_of_keys(tmp_path):
    word = pa.table([["a"]], schema=pa.schema([SCHEMA.field("word")]))
    delete = key_deletes(tmp_path / "k", word, [2])
    for bad, error, message in (
        (changed(delete, equality_ids=(1,)), SchemaError, r"the delete file lacks the columns \[1\] that it compares"),
        (
            changed(delete, equality_ids=(99,)),
            SchemaError,
            r"compare columns \[99\], but the table never had \[99\]",
        ),
        (changed(delete, equality_ids=()), SchemaError, r"compare columns \[\]"),
        (changed(delete, location=str(tmp_path / "none")), NotFoundError, ""),
    ):
        with pytest.raises(error, match=message or None) as caught:
            rows_of(reader(SCHEMA), [one_task(tmp_path, bad)])
        assert caught.value.location == bad.location


def test_keys_of_columns_that_cannot_be_compared(tmp_path):
    schema = pa.schema([field("n", pa.int64(), 1), field("l", pa.list_(field("element", pa.int64(), 3)), 2)])
    task = data_task(tmp_path / "a", pa.table([[1], [[1]]], schema=schema))
    delete = key_deletes(tmp_path / "k", pa.table([[[1]]], schema=pa.schema([schema.field("l")])), [2])
    with pytest.raises(SchemaError) as caught:
        rows_of(reader(schema), [FileScanTask(task.data_file, deletes=(delete,))])
    assert caught.value.location == delete.location


def test_an_empty_file_of_keys_deletes_nothing(tmp_path):
    empty = pa.table([pa.array([], pa.string())], schema=pa.schema([SCHEMA.field("word")]))
    for file_format in FORMATS:
        write_rows(tmp_path / file_format, empty, file_format)
        delete = DeleteFile(DeleteKind.KEYS, str(tmp_path / file_format), file_format, 0, 1, equality_ids=(2,))
        assert numbers(reader(SCHEMA), [one_task(tmp_path, delete)]) == list(range(10))
