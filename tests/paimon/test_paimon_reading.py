"""Scans of tables that this project wrote: choice of columns and rows, memory, places of rows, and what is refused."""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from golden_tables import SHIPPED, sorted_rows

from skerry.errors import FormatError, NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.paimon.merging import MergeFunction, Records
from skerry.paimon.metadata.state import load_state
from skerry.paimon.reading.changes import changes
from skerry.paimon.reading.fallback_scan import scan
from skerry.paimon.reading.merging import KeyedRecords, RunReader, merge_sorted_runs, merged_records
from skerry.paimon.reading.rows import SplitReader
from skerry.paimon.reading.scan import PaimonScan
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

KEYED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("inner", pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])),
    ]
)


def rows(ids: Any, tag: str) -> pa.Table:
    numbers = [int(number) for number in ids]
    return pa.table(
        {
            "id": numbers,
            "name": [f"{tag} {number}" for number in numbers],
            "inner": [{"a": number % 7, "b": tag} for number in numbers],
        },
        schema=KEYED,
    )


def keyed(folder: Path, **properties: str) -> PaimonTable:
    options = {"bucket": "2", "write-only": "true", **properties}
    return PaimonTable.create(Storage(), str(folder / "t"), KEYED, primary_key=["id"], properties=options)


def plain(folder: Path, **properties: str) -> PaimonTable:
    return PaimonTable.create(Storage(), str(folder / "t"), KEYED, properties=properties)


def three_commits(folder: Path, **properties: str) -> tuple[PaimonTable, dict[int, str]]:
    """A table of overlapping commits, and the name that each id must have."""
    table, names = keyed(folder, **properties), {}
    random = np.random.default_rng(5)
    for commit in "abc":
        ids = random.choice(3000, 1200, replace=False)
        table.append(rows(ids, commit))
        names.update({int(number): f"{commit} {number}" for number in ids})
    return table, names


def data_files(table: PaimonTable) -> list[Path]:
    return sorted(Path(table.location).glob("bucket-*/data-*"))


# ---- columns and rows ----


def test_the_newest_record_of_a_key_is_read(tmp_path: Path) -> None:
    table, names = three_commits(tmp_path)
    found = scan(table.handle.state).to_arrow()
    assert dict(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True)) == names
    assert scan(table.handle.state).count() == len(names)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("memory_bytes", [1, 200_000, 1 << 28])
def test_memory_and_threads_change_nothing(tmp_path: Path, threads: int, memory_bytes: int) -> None:
    table, _ = three_commits(tmp_path)
    usual = scan(table.handle.state).to_arrow()
    found = scan(table.handle.state, threads=threads, memory_bytes=memory_bytes).to_arrow()
    assert found.equals(usual)


def test_columns_members_and_conditions(tmp_path: Path) -> None:
    table, names = three_commits(tmp_path)
    found = scan(table.handle.state, ["inner.b", "id"], "inner.a = 3 and name like 'a%'").to_arrow()
    assert found.column_names == ["inner", "id"]
    assert found.schema.field("inner").type.num_fields == 1
    wanted = sorted(number for number, name in names.items() if number % 7 == 3 and name.startswith("a"))
    assert sorted(found["id"].to_pylist()) == wanted
    assert set(pc.struct_field(found["inner"], "b").to_pylist()) == {"a"}


def test_a_condition_is_put_to_rows_not_to_records(tmp_path: Path) -> None:
    """An older record for which a condition holds is not the row."""
    table = keyed(tmp_path)
    table.append(rows([1], "old"))
    table.append(rows([1], "new"))
    assert scan(table.handle.state, where="name = 'old 1'").to_arrow().num_rows == 0
    assert scan(table.handle.state, where="name = 'new 1'").count() == 1


def test_a_condition_on_the_key_spares_row_groups(tmp_path: Path) -> None:
    table = keyed(tmp_path, bucket="1")
    for commit in "ab":
        table.append(rows(range(50_000), commit))
    whole, one = (_bytes_read(table, where) for where in (None, "id = 77"))
    assert scan(table.handle.state, where="id = 77").to_arrow()["name"].to_pylist() == ["b 77"]
    assert one <= whole


def _bytes_read(table: PaimonTable, where: str | None) -> int:
    state = load_state(Storage(), table.location)
    scan(state, ["name"], where).to_arrow()
    return int(state.storage.metrics.bytes_read)


@pytest.mark.parametrize("limit", [0, 1, 100, 5000])
def test_a_limit_cuts(tmp_path: Path, limit: int) -> None:
    table, names = three_commits(tmp_path)
    found = scan(table.handle.state, limit=limit)
    assert found.to_arrow().num_rows == min(limit, len(names)) == found.count()


def test_a_limit_opens_no_more_files_than_fill_it(tmp_path: Path) -> None:
    table = plain(tmp_path)
    for commit in "abcdef":
        table.append(rows(range(10), commit))
    state = load_state(Storage(), table.location)
    assert scan(state, limit=5, threads=1).to_arrow().num_rows == 5
    few = state.storage.metrics.files_opened
    scan(state, threads=1).to_arrow()
    assert few < state.storage.metrics.files_opened - few


def test_counts_open_no_data_file_of_append_tables(tmp_path: Path) -> None:
    table = plain(tmp_path)
    table.append(rows(range(10), "a"))
    for file in data_files(table):
        file.unlink()
    assert scan(table.handle.state).count() == 10
    assert scan(table.handle.state, limit=3).count() == 3


def test_a_reader_can_be_sent_elsewhere(tmp_path: Path) -> None:
    table, _ = three_commits(tmp_path)
    description = scan(table.handle.state, ["id"], "id > 100")
    sent = pickle.loads(pickle.dumps((description.row_reader(), list(description.plan()))))
    reader, splits = sent
    parts = [pa.Table.from_batches(reader.batches([split]), reader.columns) for split in splits]
    assert sorted_rows(pa.concat_tables(parts)) == sorted_rows(description.to_arrow())


def test_a_scan_is_a_stream(tmp_path: Path) -> None:
    table, names = three_commits(tmp_path)
    description = scan(table.handle.state)
    assert pa.RecordBatchReader.from_stream(description).read_all().num_rows == len(names)
    assert description.to_polars().height == len(names)
    assert "bucket" not in repr(description)
    assert "id" in str(description.explain())


def test_an_empty_table(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    assert scan(table.handle.state).to_arrow().schema.names == KEYED.names
    assert scan(table.handle.state).count() == 0
    assert scan(table.handle.state).snapshot_id is None
    assert changes(table.handle.state).to_arrow().num_rows == 0


def test_one_version_at_a_time(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    with pytest.raises(SchemaError, match="not several"):
        scan(table.handle.state, snapshot=1, ref="main")


# ---- places of rows ----


def test_rows_of_append_tables_know_where_they_lie(tmp_path: Path) -> None:
    table = plain(tmp_path)
    table.append(rows(range(5), "a"))
    table.append(rows(range(5, 9), "b"))
    found = scan(table.handle.state, ["id", "_pos", "_file"], "_pos >= 3").to_arrow().to_pylist()
    assert sorted((row["id"], row["_pos"]) for row in found) == [(3, 3), (4, 4), (8, 3)]
    assert {row["_file"] for row in found} == {str(file) for file in data_files(table)}


def test_rows_that_may_be_merged_do_not(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="_pos"):
        scan(keyed(tmp_path).handle.state, ["_pos"])


# ---- records ----


def test_records_have_kinds_and_numbers(tmp_path: Path) -> None:
    table = keyed(tmp_path, bucket="1")
    table.append(rows([1, 2], "a"))
    table.append(rows([2, 3], "b"))
    table.delete("id = 3")
    splits = scan(table.handle.state).plan()
    reader = SplitReader(table.handle.state, table.handle.state.arrow_schema)
    found = {
        number: (int(kind), name)
        for records in reader.records(splits)
        for kind, name, number in zip(
            records.kinds, records.values["name"].to_pylist(), records.values["id"].to_pylist(), strict=True
        )
    }
    assert found == {1: (0, "a 1"), 2: (0, "b 2"), 3: (3, "b 3")}


def as_run(ids: list[int], first: int, cuts: int, ahead_rows: int = 1) -> RunReader:
    schema = pa.schema([pa.field("id", pa.int64())])
    batches = []
    for start in range(0, len(ids), cuts):
        part = ids[start : start + cuts]
        values = pa.record_batch([pa.array(part, pa.int64())], schema=schema)
        numbers = np.arange(first + start, first + start + len(part), dtype=np.int64)
        batches.append(KeyedRecords.of(Records(values, np.zeros(len(part), np.int8), numbers), ["id"]))
    return RunReader(iter(batches), "data-x.parquet", ahead_rows=ahead_rows)


@pytest.mark.parametrize("cuts", [1, 2, 3, 100])
@pytest.mark.parametrize("ahead", [1, 3])
def test_windows_are_merged_like_the_whole(tmp_path: Path, cuts: int, ahead: int) -> None:
    function = MergeFunction(keyed(tmp_path).handle.state.schema)
    keys = [[1, 3, 5, 7], [3, 4], [], [0, 3, 9, 10]]
    runs = [as_run(ids, 100 * number, cuts, ahead) for number, ids in enumerate(keys)]
    found = [
        (number, int(sequence))
        for window in merge_sorted_runs(runs, functools.partial(merged_records, function))
        for number, sequence in zip(window.values["id"].to_pylist(), window.numbers, strict=True)
    ]
    assert found == [(0, 300), (1, 0), (3, 301), (4, 101), (5, 2), (7, 3), (9, 302), (10, 303)]


@pytest.mark.parametrize("cuts", [1, 2, 100])
@pytest.mark.parametrize("is_read_first", [True, False])
def test_rows_out_of_order_are_told(tmp_path: Path, cuts: int, is_read_first: bool) -> None:
    function = MergeFunction(keyed(tmp_path).handle.state.schema)
    runs = [as_run([1, 2, 5, 4, 6], 0, cuts), as_run([9], 100, cuts)]

    def merge() -> None:
        for run in runs if is_read_first else ():
            run.read_all()
        list(merge_sorted_runs(runs, functools.partial(merged_records, function)))

    with pytest.raises(FormatError, match=r"not in the order of their keys.*data-x"):
        merge()


# ---- what happened ----


def told(found: pa.Table) -> list[tuple[Any, ...]]:
    columns = ("_commit_snapshot_id", "_change_ordinal", "_change_type", "id", "name")
    return [tuple(row[name] for name in columns) for row in found.to_pylist()]


def test_commits_of_a_table_with_keys_tell_their_records(tmp_path: Path) -> None:
    table = keyed(tmp_path, bucket="1")
    table.append(rows([1, 2], "a"))
    table.append(rows([2], "b"))
    table.delete("id = 1")
    assert told(changes(table.handle.state).to_arrow()) == [
        (1, 0, "INSERT", 1, "a 1"),
        (1, 0, "INSERT", 2, "a 2"),
        (2, 1, "INSERT", 2, "b 2"),
        (3, 2, "DELETE", 1, "a 1"),
    ]
    found = changes(table.handle.state, 1, 2, columns=["name"], where="id = 2").to_arrow()
    assert found.column_names[0] == "name"
    assert found["name"].to_pylist() == ["b 2"]


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_an_overwrite_is_compared_with_what_was(tmp_path: Path, vectors: str) -> None:
    table = plain(tmp_path, **{"deletion-vectors.enabled": vectors})
    table.append(rows(range(4), "a"))
    table.delete("id = 2")
    table.overwrite(rows([0, 7], "c"), where="id <= 1")
    assert sorted(told(changes(table.handle.state).to_arrow())) == [
        *((1, 0, "INSERT", number, f"a {number}") for number in range(4)),
        (2, 1, "DELETE", 2, "a 2"),
        (3, 2, "DELETE", 0, "a 0"),
        (3, 2, "DELETE", 1, "a 1"),
        (3, 2, "INSERT", 0, "c 0"),
        (3, 2, "INSERT", 7, "c 7"),
    ]
    updates = told(changes(table.handle.state, 2, on=["id"], where="name in ('a 0', 'c 0')").to_arrow())
    assert updates == [(3, 0, "UPDATE_BEFORE", 0, "a 0"), (3, 0, "UPDATE_AFTER", 0, "c 0")]
    moved = changes(table.handle.state, 1, 2, carried_over=True).to_arrow()
    assert moved.num_rows == 7
    assert scan(table.handle.state).count() == 3


def test_an_overwrite_of_keys_is_told_as_updates(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    table.append(rows([1, 2, 3], "a"))
    table.append(rows([3], "b"))
    table.overwrite(rows([2, 3, 4], "c"))
    assert sorted(told(changes(table.handle.state, 2).to_arrow())) == [
        (3, 0, "DELETE", 1, "a 1"),
        (3, 0, "INSERT", 4, "c 4"),
        (3, 0, "UPDATE_AFTER", 2, "c 2"),
        (3, 0, "UPDATE_AFTER", 3, "c 3"),
        (3, 0, "UPDATE_BEFORE", 2, "a 2"),
        (3, 0, "UPDATE_BEFORE", 3, "b 3"),
    ]


def test_changes_are_read_from_old_to_new(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    for commit in "ab":
        table.append(rows([1], commit))
    with pytest.raises(SchemaError, match="snapshot 2 is newer than 1"):
        changes(table.handle.state, 2, 1)
    with pytest.raises(NotFoundError):
        changes(table.handle.state, None, 9)
    os.remove(Path(table.location) / "snapshot" / "snapshot-1")
    with pytest.raises(NotFoundError, match=r"snapshot 1 has expired.*the oldest one is 2"):
        changes(table.handle.state)
    assert changes(table.handle.state, 1).snapshot_ids == [2]


# ---- bad input ----


def test_a_missing_data_file_is_named_with_its_snapshot(tmp_path: Path) -> None:
    for table in (keyed(tmp_path / "k"), plain(tmp_path / "p")):
        table.append(rows(range(10), "a"))
        table.append(rows(range(10), "b"))
        file = data_files(table)[0]
        file.unlink()
        with pytest.raises(NotFoundError, match="snapshot 2 of the table needs it") as caught:
            scan(table.handle.state).to_arrow()
        assert caught.value.location == str(file)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_cut_data_files_are_refused(tmp_path: Path, file_format: str) -> None:
    table = keyed(tmp_path, **{"bucket": "1", "file.format": file_format})
    table.append(rows(range(100), "a"))
    table.append(rows(range(100), "b"))
    (file, _) = data_files(table)
    content = file.read_bytes()
    for size in {0, 1, 10, len(content) // 2, len(content) - 1}:
        file.write_bytes(content[:size])
        with pytest.raises(FormatError) as caught:
            scan(table.handle.state).to_arrow()
        assert caught.value.location == str(file)


def test_a_file_with_other_rows_than_the_metadata_says_is_refused(tmp_path: Path) -> None:
    table = plain(tmp_path)
    table.append(rows(range(10), "a"))
    (file,) = data_files(table)
    pq.write_table(rows(range(9), "a"), file)
    with pytest.raises(FormatError, match="the file has 9 rows, the table's metadata says 10"):
        scan(table.handle.state).to_arrow()


def keyed_file(table: PaimonTable) -> tuple[Path, pa.Table]:
    table.append(rows(range(4), "a"))
    table.append(rows(range(4), "b"))
    file = data_files(table)[0]
    return file, pq.read_table(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.take([1, 0, 2, 3]), "not in the order of their keys"),
        (lambda t: put(t, "_VALUE_KIND", [0, 9, 0, 0]), "of kind 9"),
        (lambda t: put(t, "_VALUE_KIND", [0, None, 0, 0]), "no kind|no kernel|null"),
        (lambda t: t.drop_columns(["_VALUE_KIND"]), "'_VALUE_KIND' .* is missing from the file"),
        (lambda t: t.drop_columns(["name"]), "'name' .* is missing from the file"),
        (lambda t: put(t, "name", [1, 2, 3, 4]), "'name' is int64 in the file, expected STRING by its schema"),
    ],
)
def test_files_that_are_not_what_their_schema_says_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    table = keyed(tmp_path, bucket="1")
    file, content = keyed_file(table)
    pq.write_table(change(content), file)
    with pytest.raises((FormatError, SchemaError), match=message) as caught:
        scan(table.handle.state).to_arrow()
    assert caught.value.location == str(file)


def put(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    index = table.column_names.index(name)
    type_ = table.schema.field(name).type if not isinstance(values[0], int) or name != "name" else pa.int64()
    return table.set_column(index, pa.field(name, type_), pa.array(values, type_))


def test_field_ids_in_files_do_not_count(tmp_path: Path) -> None:
    """Files of other writers have none, or other ones; columns go by the names of the file's schema."""
    table = plain(tmp_path)
    table.append(rows(range(3), "a"))
    (file,) = data_files(table)
    content = pq.read_table(file)
    fields = [field.with_metadata({b"PARQUET:field_id": b"7"}) for field in content.schema.remove_metadata()]
    pq.write_table(content.cast(pa.schema(fields)).select([2, 0, 1]), file)
    assert scan(table.handle.state).to_arrow()["name"].to_pylist() == ["a 0", "a 1", "a 2"]


def test_damaged_deletion_vectors_are_refused(tmp_path: Path) -> None:
    table = plain(tmp_path, **{"deletion-vectors.enabled": "true"})
    table.append(rows(range(10), "a"))
    table.delete("id = 3")
    (file,) = sorted((Path(table.location) / "index").iterdir())
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(FormatError, match="CRC-32") as caught:
        scan(table.handle.state).to_arrow()
    assert caught.value.location == str(file)
    file.unlink()
    with pytest.raises(NotFoundError):
        scan(table.handle.state).to_arrow()


def test_unknown_formats_are_refused(tmp_path: Path) -> None:
    table = plain(tmp_path)
    table.append(rows(range(3), "a"))
    splits = list(scan(table.handle.state).plan())
    import dataclasses

    file = dataclasses.replace(next(splits[0].files), file_format="lance")
    section = dataclasses.replace(splits[0].sections[0], runs=((file,),))
    with pytest.raises(UnsupportedError, match="lance"):
        list(
            SplitReader(table.handle.state, table.schema).batches([dataclasses.replace(splits[0], sections=(section,))])
        )


@pytest.mark.parametrize("name", ["partial_update_b", "schema_evolution_b", "append_deletion_vectors_b"])
def test_flipped_bytes_give_an_error_of_ours_or_the_same_rows(tmp_path: Path, name: str) -> None:
    """No byte of a data file or deletion vector may turn rows into other rows without a word.

    Parquet's and ORC's values have no checksums of their own; their compression and structure tell most damage. What is
    demanded here is that nothing else than our errors comes out.
    """
    import shutil

    location = tmp_path / "table"
    shutil.copytree(SHIPPED / name / "table", location)
    files = sorted(path for path in location.rglob("*") if path.parent.name.startswith("bucket-") and path.is_file())
    random = np.random.default_rng(3)
    for file in files[:3]:
        content = file.read_bytes()
        for place in random.integers(0, len(content), 12):
            flipped = bytearray(content)
            flipped[place] ^= 1 << int(random.integers(0, 8))
            file.write_bytes(flipped)
            with contextlib.suppress(SkerryError):
                PaimonScan(load_state(Storage(), str(location))).to_arrow()
        file.write_bytes(content)
