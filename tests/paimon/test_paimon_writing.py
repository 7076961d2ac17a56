"""Rows that are written to Paimon tables, as pypaimon and Paimon Java read them back."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paimon_peers import JavaPaimon, PyPaimon, java_rows

from skerry.errors import AlreadyExistsError, ConflictError, SchemaError, UnsupportedError
from skerry.paimon.jobs.append import append, overwrite_partitions
from skerry.paimon.manifests.live_files import delta_entries, index_entries, live_entries
from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.operations import CommitId
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("number", pa.float64())])


def make(path: Path, schema: pa.Schema = SCHEMA, **how: Any) -> PaimonTable:
    return PaimonTable.create(Storage(), str(path), schema, **how)


def rows(first: int, count: int, text: str = "x") -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": ids, "text": [f"{text}{i}" for i in ids], "number": [i / 2 for i in ids]}, schema=SCHEMA)


def plain(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


WRITTEN = {
    "append": {},
    "append in buckets": {"properties": {"bucket": "3", "bucket-key": "text"}},
    "key": {"primary_key": ["id"], "properties": {"bucket": "2"}},
    "key, dynamic buckets": {"primary_key": ["id"], "properties": {"dynamic-bucket.target-row-num": "7"}},
    "key, thin": {"primary_key": ["id"], "properties": {"bucket": "1", "data-file.thin-mode": "true"}},
    "key, ORC": {"primary_key": ["id"], "properties": {"bucket": "1", "file.format": "orc"}},
    "key, Avro": {"primary_key": ["id"], "properties": {"bucket": "1", "file.format": "avro"}},
    "ORC": {"properties": {"file.format": "orc"}},
    "Avro": {"properties": {"file.format": "avro"}},
    "no statistics": {"properties": {"metadata.stats-mode": "none"}},
    "bloom": {
        "properties": {
            "file-index.bloom-filter.columns": "id,text",
            "file-index.bloom-filter.id.items": "100",
            "file-index.bloom-filter.text.items": "20000",
        }
    },
}


@pytest.mark.spark
@pytest.mark.parametrize("how", WRITTEN.values(), ids=WRITTEN)
def test_peers_read_what_is_written(
    tmp_path: Path, pypaimon: PyPaimon, java_paimon: JavaPaimon, how: dict[str, Any]
) -> None:
    table = make(tmp_path / "t", **how)
    expected: dict[int, tuple[Any, ...]] = {}
    for number in range(3):
        data = rows(number * 10, 20, f"{number}-")
        table.append(data)
        expected |= {row["id"]: tuple(row.values()) for row in data.to_pylist()}
    if how.get("primary_key"):
        wanted = sorted(expected.values(), key=repr)
    else:
        wanted = plain(pa.concat_tables([rows(number * 10, 20, f"{number}-") for number in range(3)]))
    assert plain(pypaimon.read(tmp_path / "t")) == wanted
    table_rows = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in wanted], SCHEMA)
    assert sorted(java_paimon.read(tmp_path / "t"), key=repr) == sorted(java_rows(table_rows), key=repr)


MOMENT = datetime.datetime(2026, 2, 28, 12, 30, 15, 123456)
EVERY_TYPE = pa.schema(
    [
        pa.field("pk", pa.int32(), nullable=False),
        ("b", pa.bool_()),
        ("t1", pa.int8()),
        ("t2", pa.int16()),
        ("t8", pa.int64()),
        ("f4", pa.float32()),
        ("f8", pa.float64()),
        ("d9", pa.decimal128(9, 2)),
        ("d18", pa.decimal128(18, 6)),
        ("d38", pa.decimal128(38, 10)),
        ("st", pa.string()),
        ("by", pa.binary()),
        ("bi", pa.binary(3)),
        ("da", pa.date32()),
        ("ti", pa.time32("ms")),
        ("s0", pa.timestamp("s")),
        ("s3", pa.timestamp("ms")),
        ("s6", pa.timestamp("us")),
        ("z3", pa.timestamp("ms", "UTC")),
        ("z6", pa.timestamp("us", "UTC")),
        ("ar", pa.list_(pa.int32())),
        ("aar", pa.list_(pa.list_(pa.string()))),
        ("mp", pa.map_(pa.string(), pa.int32())),
        ("mi", pa.map_(pa.int32(), pa.decimal128(10, 2))),
        ("rw", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ]
)


def every_type() -> pa.Table:
    full = {
        "pk": 1,
        "b": True,
        "t1": -128,
        "t2": 32767,
        "t8": -(2**63),
        "f4": 1.5,
        "f8": float("inf"),
        "d9": decimal.Decimal("1234567.89"),
        "d18": decimal.Decimal("-123456789012.345678"),
        "d38": decimal.Decimal("9999999999999999999999999999.0123456789"),
        "st": "a😀é" * 12,
        "by": b"\x00\xff" * 9,
        "bi": b"abc",
        "da": datetime.date(1969, 12, 31),
        "ti": datetime.time(23, 59, 59, 999000),
        "s0": MOMENT.replace(microsecond=0),
        "s3": MOMENT.replace(microsecond=123000),
        "s6": MOMENT,
        "z3": MOMENT.replace(microsecond=123000, tzinfo=datetime.UTC),
        "z6": MOMENT.replace(tzinfo=datetime.UTC),
        "ar": [1, None, 3],
        "aar": [["x", None], None, []],
        "mp": [("k", 1), ("l", None)],
        "mi": [(5, decimal.Decimal("1.25")), (6, None)],
        "rw": {"a": 7, "b": None},
    }
    return pa.Table.from_pylist([full, {"pk": 2}, {**full, "pk": 3, "f8": float("nan"), "rw": None}], EVERY_TYPE)


@pytest.mark.spark
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("key", [[], ["pk"]], ids=["append", "key"])
def test_every_type(tmp_path: Path, java_paimon: JavaPaimon, file_format: str, key: list[str]) -> None:
    properties = {"file.format": file_format, **({"bucket": "1"} if key else {})}
    table = make(tmp_path / "t", EVERY_TYPE, primary_key=key, properties=properties)
    table.append(every_type())
    expected, found = java_rows(every_type()), java_paimon.read(tmp_path / "t")
    # Java takes maps out of Avro files in the order of a hash table.
    for row in expected + found:
        for place in (EVERY_TYPE.get_field_index("mp"), EVERY_TYPE.get_field_index("mi")):
            row[place] = None if row[place] is None else sorted(row[place])
    assert sorted(found, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_nested_values_of_a_slice(tmp_path: Path, file_format: str) -> None:
    """The arrays of a slice begin somewhere in their buffers, and a struct without nulls may hold ones with them."""
    place = pa.struct([("x", pa.int64()), ("name", pa.string())])
    trip, stops, by_number = pa.struct([("from", place)]), pa.list_(place), pa.map_(pa.int32(), place)
    schema = pa.schema([("place", place), ("trip", trip), ("stops", stops), ("by number", by_number)])
    places = [None if i % 3 == 0 else {"x": i, "name": None if i % 5 == 0 else f"p{i}"} for i in range(40)]
    values = [
        {"place": at, "trip": {"from": at}, "stops": places[i : i + i % 4] or None, "by number": [(i, at)]}
        for i, at in enumerate(places)
    ]
    data = pa.Table.from_pylist(values, schema)
    table = make(tmp_path / "t", schema, properties={"file.format": file_format})
    table.append(pa.concat_tables([data.slice(7, 11), data.slice(1)]))
    assert PaimonTable.open(Storage(), str(tmp_path / "t")).scan().to_arrow().to_pylist() == values[7:18] + values[1:]


@pytest.mark.spark
def test_only_values_that_repeat_have_a_dictionary(tmp_path: Path, java_paimon: JavaPaimon, pypaimon: PyPaimon) -> None:
    schema = pa.schema([("id", pa.int64()), ("few", pa.string()), ("many", pa.float64()), ("rare", pa.int32())])
    count, random = 3_000, np.random.default_rng(1)
    rare = [int(number) if number % 5 == 0 else None for number in range(count)]
    data = pa.table(
        {
            "id": np.arange(count),
            "few": [f"text {n % 40}" for n in range(count)],
            "many": random.permutation(count) / 2,
            "rare": rare,
        },
        schema=schema,
    )
    table = make(tmp_path / "t", schema, primary_key=["id"], properties={"bucket": "1"})
    table.append(data.take(pa.array(random.permutation(count))))
    (file,) = (tmp_path / "t").rglob("bucket-*/data-*")
    group = pq.read_metadata(file).row_group(0)
    chunks = {chunk.path_in_schema: chunk.has_dictionary_page for chunk in map(group.column, range(group.num_columns))}
    assert chunks == {
        "_KEY_id": False,
        "_SEQUENCE_NUMBER": False,
        "_VALUE_KIND": True,
        "id": False,
        "few": True,
        "many": False,
        "rare": False,
    }
    expected = plain(data)
    assert plain(table.scan().to_arrow()) == plain(pypaimon.read(tmp_path / "t")) == expected
    assert sorted(java_paimon.read(tmp_path / "t"), key=repr) == sorted(java_rows(data), key=repr)


@pytest.mark.spark
def test_keys_are_stored_as_differences_and_noise_as_it_is(
    tmp_path: Path, java_paimon: JavaPaimon, pypaimon: PyPaimon
) -> None:
    key = {"long": pa.int64(), "day": pa.date32(), "number": pa.int32(), "word": pa.string()}
    schema = pa.schema([*key.items(), ("noise", pa.float64()), ("steps", pa.int64()), ("at", pa.timestamp("us"))])
    count, random = 5_000, np.random.default_rng(2)
    data = pa.table(
        {
            "long": random.permutation(count) * 2**46 - 2**61,
            "day": random.integers(-1000, 1000, count).astype("datetime64[D]"),
            "number": random.integers(-(2**31), 2**31, count),
            "word": [f"w{n % 11}" for n in range(count)],
            "noise": 1 + random.random(count),
            "steps": np.arange(count) * 1000,
            "at": random.integers(0, 2**57, count),
        }
    ).cast(schema)
    for version, encoding in ((None, "PLAIN"), ("v2", "DELTA_BINARY_PACKED")):
        options = {"bucket": "1", **({} if version is None else {"parquet.writer.version": version})}
        table = make(tmp_path / f"t{version}", schema, primary_key=list(key), properties=options)
        table.append(data)
        (file,) = Path(table.location).rglob("bucket-*/data-*")
        group = pq.read_metadata(file).row_group(0)
        columns = {chunk.path_in_schema: chunk for chunk in map(group.column, range(group.num_columns))}
        for name in ("long", "day", "number", "_KEY_long", "_KEY_day", "_KEY_number", "_SEQUENCE_NUMBER"):
            assert encoding in columns[name].encodings, name
        assert {name: columns[name].compression for name in ("noise", "at", "steps", "word")} == {
            "noise": "UNCOMPRESSED",
            "at": "UNCOMPRESSED",
            "steps": "ZSTD",
            "word": "ZSTD",
        }
    table = PaimonTable.open(Storage(), str(tmp_path / "tv2"))
    expected = sorted(java_rows(data), key=repr)
    assert sorted(java_paimon.read(table.location), key=repr) == expected
    assert plain(table.scan().to_arrow()) == plain(pypaimon.read(table.location)) == plain(data)
    wanted = [number * 1_201 for number in range(3)]
    for row in data.take(wanted).to_pylist():
        found = java_paimon.read(table.location, equal={name: row[name] for name in ("long", "day", "number")})
        assert len(found) == 1
        (same,) = table.lookup([{name: row[name] for name in key}]).to_pylist()
        assert same == row


@pytest.mark.spark
def test_nanoseconds_are_int96(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    schema = pa.schema([("ns", pa.timestamp("ns")), ("ms", pa.timestamp("ms")), ("us", pa.timestamp("us", "UTC"))])
    values = pa.table(
        {"ns": [1_700_000_000_123_456_789, -1], "ms": [1_700_000_000_123, -1], "us": [1_700_000_000_123_456, -1]}
    ).cast(schema)
    make(tmp_path / "t", schema).append(values)
    found = sorted(java_paimon.read(tmp_path / "t"), key=repr)
    assert found == [
        [[-1, 999_999], [-1, 0], [-1, 999_000]],
        [[1_700_000_000_123, 456_789], [1_700_000_000_123, 0], [1_700_000_000_123, 456_000]],
    ]


@pytest.mark.spark
def test_partitions(tmp_path: Path, pypaimon: PyPaimon, java_paimon: JavaPaimon) -> None:
    schema = pa.schema([("day", pa.date32()), ("place", pa.string()), ("id", pa.int32())])
    table = make(tmp_path / "t", schema, partition_by=["day", "place"])
    days = [datetime.date(2026, 2, 28), datetime.date(1969, 12, 31), None]
    places = ["a/b", "x=y z", "ü%", "", None]
    data = pa.table(
        {"day": days * 5, "place": [place for place in places for _ in range(3)], "id": range(15)}, schema=schema
    )
    table.append(data)
    table.append(data.slice(0, 4))
    expected = pa.concat_tables([data, data.slice(0, 4)])
    assert sorted(java_paimon.read(tmp_path / "t"), key=repr) == sorted(java_rows(expected), key=repr)
    assert plain(pypaimon.read(tmp_path / "t")) == plain(expected)
    assert len({entry.partition for entry in live_entries(table.handle.state)}) == 15


def test_records_of_one_key(tmp_path: Path) -> None:
    table = make(tmp_path / "t", primary_key=["id"], properties={"bucket": "1"})
    table.append(pa.concat_tables([rows(0, 3, "old"), rows(1, 3, "new")]))
    (entry,) = live_entries(table.handle.state)
    assert (entry.file.row_count, entry.file.delete_row_count) == (4, 0)
    assert (entry.file.min_sequence_number, entry.file.max_sequence_number) == (0, 5)
    table.append(rows(2, 1))
    assert sorted(entry.file.min_sequence_number for entry in live_entries(table.handle.state)) == [0, 6]


def test_not_a_number_is_no_key(tmp_path: Path) -> None:
    table = make(tmp_path / "t", primary_key=["number"], properties={"bucket": "1"})
    data = pa.table({"id": [1], "text": ["x"], "number": [float("nan")]}, schema=SCHEMA)
    with pytest.raises(SchemaError, match="'number' is NaN"):
        table.append(data)
    assert table.handle.refresh().snapshot is None


@pytest.mark.parametrize("properties", [{}, {"bucket": "2", "bucket-key": "id"}], ids=["no buckets", "buckets"])
def test_sequence_numbers_of_append_tables(tmp_path: Path, properties: dict[str, str]) -> None:
    """Without buckets they begin at 0 in every file, else they go on in every bucket (as Java's do)."""
    table = make(tmp_path / "t", properties=properties)
    for _ in range(2):
        table.append(rows(0, 10))
    found: dict[int, list[tuple[int, int]]] = {}
    for entry in live_entries(table.handle.state):
        found.setdefault(entry.bucket, []).append((entry.file.min_sequence_number, entry.file.max_sequence_number))
    if properties:
        assert all(second[0] == first[1] + 1 for first, second in found.values())
    else:
        assert found == {0: [(0, 9), (0, 9)]}


class Rival:
    """Commits something of its own between our writing and our commit."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, table: PaimonTable, *acts: pa.Table | Callable[[PaimonTable], Any]
    ) -> None:
        from skerry.paimon.commit import PaimonTarget

        publish, waiting = PaimonTarget.publish, list(acts)

        def late(target: PaimonTarget, staged: Any) -> Any:
            if waiting:
                act, rival = waiting.pop(), PaimonTable.open(Storage(), table.location)
                if isinstance(act, pa.Table):
                    rival.append(act)
                else:
                    acts_left, waiting[:] = list(waiting), []  # what it commits itself is not delayed
                    act(rival)
                    waiting[:] = acts_left
            return publish(target, staged)

        monkeypatch.setattr(PaimonTarget, "publish", late)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_rival_in_the_same_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pypaimon: PyPaimon, file_format: str
) -> None:
    """Whoever commits last has the last word, although both have begun at the same time."""
    table = make(tmp_path / "t", primary_key=["id"], properties={"bucket": "1", "file.format": file_format})
    table.append(rows(0, 2, "first"))
    Rival(monkeypatch, table, rows(0, 9, "rival"))
    table.append(rows(0, 3, "ours"))
    assert plain(pypaimon.read(tmp_path / "t")) == plain(pa.concat_tables([rows(0, 3, "ours"), rows(3, 6, "rival")]))
    entries = live_entries(table.handle.state)
    assert [(entry.file.min_sequence_number, entry.file.max_sequence_number) for entry in entries] == [
        (0, 1),
        (2, 10),
        (11, 13),
    ]
    assert len(list((tmp_path / "t" / "bucket-0").iterdir())) == 3


def test_a_rival_in_dynamic_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pypaimon: PyPaimon) -> None:
    table = make(tmp_path / "t", primary_key=["id"], properties={"dynamic-bucket.target-row-num": "5"})
    Rival(monkeypatch, table, rows(0, 4, "rival"))
    table.append(rows(2, 6, "ours"))
    assert plain(pypaimon.read(tmp_path / "t")) == plain(pa.concat_tables([rows(0, 2, "rival"), rows(2, 6, "ours")]))
    assert sum(entry.row_count for entry in index_entries(table.handle.state)) == 8
    assert len(list((tmp_path / "t" / "index").iterdir())) == len(index_entries(table.handle.state)) + 1


def test_a_commit_is_made_once(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for number in (1, 2, 1, 2, 3):
        append(replace(table.handle.request(), commit_id=CommitId("stream", number)), rows(number, 1))
    assert table.handle.refresh().snapshot.total_record_count == 3
    assert [snapshot.commit_identifier for snapshot in table.handle.snapshots()] == [1, 2, 3]
    assert len(list((tmp_path / "t" / "bucket-0").iterdir())) == 3


def test_an_unknown_outcome_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from skerry.errors import CommitUnknownError, StorageError

    table = make(tmp_path / "t")
    write = Storage.write

    def lost_answer(self: Storage, location: str, data: Any, *, overwrite: bool = False) -> None:
        write(self, location, data, overwrite=overwrite)
        if "/snapshot/snapshot-" in location:
            raise StorageError("the answer was lost", location=location)

    monkeypatch.setattr(Storage, "write", lost_answer)
    table.append(rows(0, 3))
    assert table.handle.state.snapshot.total_record_count == 3

    def never_sent(self: Storage, location: str, data: Any, *, overwrite: bool = False) -> None:
        if "/snapshot/snapshot-" in location:
            raise StorageError("timed out", location=location)
        write(self, location, data, overwrite=overwrite)

    monkeypatch.setattr(Storage, "write", never_sent)
    before = {path for path in (tmp_path / "t").rglob("*") if path.is_file()}
    with pytest.raises(CommitUnknownError):
        table.append(rows(3, 3))
    after = {path for path in (tmp_path / "t").rglob("*") if path.is_file()}
    assert len(after - before) == 6  # data, a manifest, two lists, two files of statistics: it may still be published


def test_a_failed_commit_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", primary_key=["id"], properties={"bucket": "2", "commit.max-retries": "0"})
    table.append(rows(0, 3))
    Rival(monkeypatch, table, rows(0, 3))
    with pytest.raises(ConflictError, match="gave up after 1 attempt"):
        table.append(rows(5, 20))
    monkeypatch.undo()
    known = {entry.file.file_name for entry in live_entries(table.handle.refresh())}
    on_disk = {path.name for folder in (tmp_path / "t").glob("bucket-*") for path in folder.iterdir()}
    assert on_disk == known


def test_the_number_of_an_expired_snapshot_is_not_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow writer finds no snapshot after its base: others have made it, and let it expire."""
    table = make(tmp_path / "t")
    table.append(rows(0, 2, "base"))

    def overtake(rival: PaimonTable) -> None:
        for number in range(3):
            rival.append(rows(10 * number, 1, "rival"))
        assert rival.expire_snapshots(keep_last=1, older_than=datetime.datetime(2999, 1, 1)).snapshot_ids == (1, 2, 3)

    Rival(monkeypatch, table, overtake)
    table.append(rows(5, 1, "ours"))
    found = plain(PaimonTable.open(Storage(), table.location).scan().to_arrow())
    assert found == plain(
        pa.concat_tables([rows(0, 2, "base"), *(rows(10 * n, 1, "rival") for n in range(3)), rows(5, 1, "ours")])
    )
    assert [snapshot.id for snapshot in table.handle.snapshots()] == [4, 5]


def test_a_snapshot_whose_base_was_rolled_back_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t")
    for number in range(3):
        table.append(rows(number, 1))
    Rival(monkeypatch, table, lambda rival: rival.rollback(1))
    table.append(rows(5, 1, "ours"))
    assert plain(table.scan().to_arrow()) == plain(pa.concat_tables([rows(0, 1), rows(5, 1, "ours")]))
    assert [snapshot.id for snapshot in table.handle.snapshots()] == [1, 2]


def test_a_commit_whose_base_expires_at_once_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t")
    table.append(rows(0, 1))
    write = Storage.write

    def then_expire(self: Storage, location: str, data: Any, *, overwrite: bool = False) -> None:
        write(self, location, data, overwrite=overwrite)
        if location.endswith("/snapshot-2"):
            PaimonTable.open(Storage(), table.location).expire_snapshots(
                keep_last=1, older_than=datetime.datetime(2999, 1, 1)
            )

    monkeypatch.setattr(Storage, "write", then_expire)
    table.append(rows(1, 1))
    assert [snapshot.id for snapshot in table.handle.snapshots()] == [2]
    assert table.scan().to_arrow().num_rows == 2


# Overwriting ---------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_overwrite(tmp_path: Path, pypaimon: PyPaimon, java_paimon: JavaPaimon) -> None:
    schema = pa.schema([("part", pa.int32()), ("id", pa.int64())])

    def data(part: int, *ids: int) -> pa.Table:
        return pa.table({"part": [part] * len(ids), "id": ids}, schema=schema)

    table = make(tmp_path / "t", schema, partition_by=["part"])
    table.append(pa.concat_tables([data(1, 1, 2), data(2, 3, 4), data(3, 5)]))
    counts = table.overwrite(data(2, 30), "part = 2")
    assert (counts.inserted_rows, counts.deleted_rows, counts.added_files, counts.removed_files) == (1, 2, 1, 1)
    assert table.handle.state.snapshot.commit_kind is CommitKind.OVERWRITE
    overwrite_partitions(table.handle.request(), data(1, 10), None, dynamic=True)
    expected = plain(pa.concat_tables([data(1, 10), data(2, 30), data(3, 5)]))
    assert plain(pypaimon.read(tmp_path / "t")) == expected
    assert sorted(map(tuple, java_paimon.read(tmp_path / "t"))) == expected
    table.overwrite(data(7, 70))
    assert plain(pypaimon.read(tmp_path / "t")) == [(7, 70)]
    table.delete("true")
    assert pypaimon.read(tmp_path / "t").num_rows == 0
    assert table.handle.state.snapshot.total_record_count == 0
    assert java_paimon.read(tmp_path / "t") == []


def test_overwrite_takes_rivals_rows_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pypaimon: PyPaimon) -> None:
    table = make(tmp_path / "t")
    table.append(rows(0, 3))
    Rival(monkeypatch, table, rows(3, 3))
    table.overwrite(rows(100, 2))
    assert plain(pypaimon.read(tmp_path / "t")) == plain(rows(100, 2))
    assert [snapshot.commit_kind.value for snapshot in table.handle.snapshots()] == ["APPEND", "APPEND", "OVERWRITE"]


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"bucket": "1", "file-index.bsi.columns": "text"}, "file-index.bsi.columns"),
        ({"bucket": "1", "file-index.zone-map.columns": "text"}, "file-index.zone-map.columns"),
    ],
)
def test_options_that_are_not_done(tmp_path: Path, properties: dict[str, str], message: str) -> None:
    table = make(tmp_path / "t", primary_key=["id"], properties=properties)
    with pytest.raises(UnsupportedError, match=message):
        table.append(rows(0, 1))


def test_a_table_is_made_once(tmp_path: Path) -> None:
    make(tmp_path / "t")
    with pytest.raises(AlreadyExistsError):
        make(tmp_path / "t")


def test_times_that_orc_cannot_hold(tmp_path: Path) -> None:
    schema = pa.schema([("at", pa.timestamp("us"))])
    table = make(tmp_path / "t", schema, properties={"file.format": "orc"})
    for micros in (-1, -500_000, -1_000_001):
        with pytest.raises(UnsupportedError, match="before 1970"):
            table.append(pa.table({"at": pa.array([micros], pa.timestamp("us"))}))
    table.append(pa.table({"at": pa.array([-2_000_000, -1_001_000, 0, None], pa.timestamp("us"))}))
    assert table.handle.refresh().snapshot.total_record_count == 4


# Files ---------------------------------------------------------------------------------------------------------------


def test_one_file_per_partition_however_few_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skerry.paimon.writing.table_writers._MAX_OPEN_FILES", 4)
    monkeypatch.setattr("skerry.paimon.writing.table_writers._MAX_BUFFERED_BYTES", 20_000)
    spools = tmp_path / "temporary"
    spools.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spools))
    schema = pa.schema([("id", pa.int64()), ("p", pa.int64())])
    table = make(tmp_path / "t", schema, partition_by=["p"])
    mixed = pa.table({"id": range(20_000), "p": [number % 100 for number in range(20_000)]}, schema)
    table.append(mixed.to_reader(200))
    assert len(live_entries(table.handle.refresh())) == 100
    assert list(spools.iterdir()) == []
    found = table.scan().to_arrow()
    for number in range(100):
        rows_of = found.filter(pa.compute.field("p") == number)["id"].to_pylist()
        assert rows_of == list(range(number, 20_000, 100))


def test_large_buckets_become_several_files(tmp_path: Path, pypaimon: PyPaimon) -> None:
    options = {"bucket": "1", "target-file-size": "200 kb"}
    table = make(tmp_path / "t", primary_key=["id"], properties=options)
    chance = np.random.default_rng(3)
    ids = chance.permutation(40_000)
    text = [f"{number * 2_654_435_761 % 2**32:08x}" for number in range(40_000)]
    table.append(pa.table({"id": ids, "text": text, "number": chance.random(40_000)}, schema=SCHEMA))
    entries = delta_entries(table.handle.state, table.handle.state.snapshot)
    assert len(entries) > 2
    assert sum(entry.file.row_count for entry in entries) == 40_000
    assert pypaimon.read(tmp_path / "t").num_rows == 40_000


def test_a_snapshot_under_one_of_others_is_not_taken_for_its_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number that was free is the one before the rival's newest snapshot, which does not build on it."""
    table = make(tmp_path / "t")
    table.append(rows(0, 2, "base"))

    def overtake(rival: PaimonTable) -> None:
        for number in range(2):
            rival.append(rows(10 * number, 1, "rival"))
        assert rival.expire_snapshots(keep_last=1, older_than=datetime.datetime(2999, 1, 1)).snapshot_ids == (1, 2)

    Rival(monkeypatch, table, overtake)
    table.append(rows(5, 1, "ours"))
    found = plain(PaimonTable.open(Storage(), table.location).scan().to_arrow())
    assert found == plain(
        pa.concat_tables([rows(0, 2, "base"), *(rows(10 * n, 1, "rival") for n in range(2)), rows(5, 1, "ours")])
    )
    assert [snapshot.id for snapshot in table.handle.snapshots()] == [3, 4]


@pytest.mark.parametrize("merging", ["30", "1"])
def test_a_commit_on_which_others_have_built_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merging: str
) -> None:
    """Its base expires, while the next commit inherits its manifests, or merges them."""
    table = make(tmp_path / "t", properties={"manifest.merge-min-count": merging})
    table.append(rows(0, 1))
    write = Storage.write

    def then_build(self: Storage, location: str, data: Any, *, overwrite: bool = False) -> None:
        write(self, location, data, overwrite=overwrite)
        if location.endswith("/snapshot-2"):
            rival = PaimonTable.open(Storage(), table.location)
            rival.append(rows(2, 1))
            rival.expire_snapshots(keep_last=2, older_than=datetime.datetime(2999, 1, 1))

    monkeypatch.setattr(Storage, "write", then_build)
    table.append(rows(1, 1))
    assert [snapshot.id for snapshot in table.refresh().handle.snapshots()] == [2, 3]
    assert table.scan().to_arrow().num_rows == 3
