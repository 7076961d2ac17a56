"""Deleting, replacing and upserting rows of Paimon tables, as the peers see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, PyPaimon, java_rows

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.manifests.live_files import index_entries, live_entries
from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int32()), ("text", pa.string())])
Rows = dict[int, tuple[Any, ...]]

TABLES = {
    "append": {},
    "append, vectors": {"properties": {"deletion-vectors.enabled": "true"}},
    "append, wide vectors": {
        "properties": {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"},
    },
    "append in buckets, vectors": {
        "properties": {"bucket": "2", "bucket-key": "id", "deletion-vectors.enabled": "true"},
    },
    "append, partitioned": {"partition_by": ["part"]},
    "append, ORC": {"properties": {"file.format": "orc"}},
    "key": {"primary_key": ["id"], "properties": {"bucket": "2"}},
    "key, partitioned": {"primary_key": ["part", "id"], "partition_by": ["part"], "properties": {"bucket": "1"}},
    "key, dynamic": {"primary_key": ["id"], "properties": {"dynamic-bucket.target-row-num": "20"}},
}


def make(path: Path, **how: Any) -> PaimonTable:
    return PaimonTable.create(Storage(), str(path), SCHEMA, **how)


def data(ids: range, text: str) -> pa.Table:
    return pa.table({"id": ids, "part": [i % 3 for i in ids], "text": [f"{text}{i}" for i in ids]}, schema=SCHEMA)


def by_id(rows: pa.Table) -> Rows:
    found = {row["id"]: tuple(row.values()) for row in rows.to_pylist()}
    assert len(found) == rows.num_rows
    return found


@pytest.mark.spark
@pytest.mark.parametrize("how", TABLES.values(), ids=TABLES)
def test_rows_are_changed(tmp_path: Path, pypaimon: PyPaimon, java_paimon: JavaPaimon, how: dict[str, Any]) -> None:
    table = make(tmp_path / "t", **how)
    expected: Rows = {}

    def check() -> None:
        assert by_id(PaimonTable.open(Storage(), table.location).scan().to_arrow()) == expected
        rows = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in expected.values()], SCHEMA)
        assert sorted(java_paimon.read(tmp_path / "t")) == sorted(java_rows(rows))
        if "bitmap64" not in str(how):  # which pypaimon refuses
            assert by_id(pypaimon.read(tmp_path / "t")) == expected

    for start in (0, 30):
        table.append(data(range(start, start + 30), "a"))
        expected |= by_id(data(range(start, start + 30), "a"))
    counts = table.delete("id in (3, 4, 31) or text = 'a59'")
    for gone in (3, 4, 31, 59):
        del expected[gone]
    assert counts.deleted_rows == 4
    check()
    table.delete("id < 10 and part = 1")
    expected = {number: row for number, row in expected.items() if not (number < 10 and row[1] == 1)}
    check()
    new = data(range(50, 70), "b")
    counts = table.upsert(new, on=table.primary_key or ["id"])
    if not table.primary_key:
        assert (counts.updated_rows, counts.inserted_rows) == (9, 11)
    expected |= by_id(new)
    check()
    table.overwrite(data(range(100, 103), "c"), "id >= 60")
    expected = {number: row for number, row in expected.items() if number < 60} | by_id(data(range(100, 103), "c"))
    check()
    table.delete("true")
    expected = {}
    check()


def test_files_that_hold_no_such_row_stay(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for start in (0, 10, 20):
        table.append(data(range(start, start + 10), "a"))
    before = {entry.file.file_name for entry in live_entries(table.handle.state)}
    counts = table.delete("id between 12 and 14")
    after = {entry.file.file_name for entry in live_entries(table.handle.state)}
    assert (counts.added_files, counts.removed_files, len(before & after)) == (1, 1, 2)
    counts = table.delete("id >= 20")
    assert (counts.added_files, counts.removed_files) == (0, 1)
    assert table.handle.state.snapshot.commit_kind is CommitKind.OVERWRITE
    assert table.handle.state.snapshot.total_record_count == 17


def test_vectors_leave_files_alone(tmp_path: Path) -> None:
    table = make(tmp_path / "t", properties={"deletion-vectors.enabled": "true"})
    for start in (0, 10):
        table.append(data(range(start, start + 10), "a"))
    before = live_entries(table.handle.state)
    assert table.delete("id = 5").added_delete_files == 1
    table.delete("id = 15")
    table.delete("id = 6")
    assert live_entries(table.handle.state) == before
    assert table.handle.state.snapshot.total_record_count == 20
    vectors = [vector for entry in index_entries(table.handle.state) for vector in entry.deletion_vectors_ranges or ()]
    assert sorted(vector.cardinality or 0 for vector in vectors) == [1, 2]
    table.delete("id < 10")
    assert len(live_entries(table.handle.state)) == 1
    assert len(index_entries(table.handle.state)) == 1


def test_nothing_to_delete_makes_no_snapshot(tmp_path: Path) -> None:
    for name, how in TABLES.items():
        table = make(tmp_path / name, **how)
        table.append(data(range(5), "a"))
        counts = table.delete("id = 99")
        assert (counts.snapshot_id, counts.deleted_rows) == (1, 0), name


def test_whole_partitions_go_by_metadata(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=["part"])
    table.append(data(range(9), "a"))
    for path in (tmp_path / "t").glob("part=1/bucket-0/*"):
        path.unlink()
    assert table.delete("part = 1").removed_files == 1
    assert sorted(by_id(table.scan().to_arrow())) == [0, 2, 3, 5, 6, 8]


@pytest.mark.parametrize("how", [TABLES["append"], TABLES["append, vectors"], TABLES["append in buckets, vectors"]])
@pytest.mark.parametrize("rival", ["same key", "another key", "compaction"])
def test_a_key_that_a_rival_inserts_is_not_inserted_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any], rival: str
) -> None:
    """Neither of two upserts finds a row; the second is done again, and updates the first one's."""
    from skerry.paimon.commit import PaimonTarget

    table = make(tmp_path / "t", **how)
    for start in (0, 5):
        table.append(data(range(start, start + 5), "a"))
    publish, attempts = PaimonTarget.publish, []

    def late(target: PaimonTarget, staged: Any) -> Any:
        attempts.append(staged)
        if len(attempts) == 1:
            other = PaimonTable.open(Storage(), table.location)
            if rival == "compaction":
                other.compact(full=True)
            else:
                other.upsert(data(range(20, 21) if rival == "same key" else range(900, 901), "b"), on=["id"])
        return publish(target, staged)

    monkeypatch.setattr(PaimonTarget, "publish", late)
    done = table.upsert(data(range(20, 21), "c"), on=["id"])
    found = table.scan(where="id >= 20").to_arrow()
    assert found.sort_by("id")["text"].to_pylist()[0] == "c20"
    assert sorted(found["id"].to_pylist()) == ([20, 900] if rival == "another key" else [20])
    assert done.updated_rows == (1 if rival == "same key" else 0)


@pytest.mark.parametrize("how", [TABLES["append"], TABLES["append, vectors"], TABLES["key"]])
def test_rivals_rows_are_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]) -> None:
    """A delete that loses the race against another one, or against an upsert, is done again."""
    from skerry.paimon.commit import PaimonTarget

    table = make(tmp_path / "t", **how)
    table.append(data(range(10), "a"))
    publish, waiting = PaimonTarget.publish, ["rival"]

    def late(target: PaimonTarget, staged: Any) -> Any:
        if waiting:
            waiting.clear()
            rival = PaimonTable.open(Storage(), table.location)
            rival.upsert(data(range(4, 8), "b"), on=["id"])
        return publish(target, staged)

    monkeypatch.setattr(PaimonTarget, "publish", late)
    table.delete("text like 'a%' and id between 3 and 6")
    expected = {**by_id(data(range(10), "a")), **by_id(data(range(4, 8), "b"))}
    del expected[3]
    assert by_id(table.scan().to_arrow()) == expected


def test_what_cannot_be_upserted(tmp_path: Path) -> None:
    table = make(tmp_path / "t", primary_key=["id"], properties={"bucket": "1"})
    with pytest.raises(SchemaError, match="several rows of the source have one key: id=2"):
        table.upsert(pa.concat_tables([data(range(3), "a"), data(range(2, 4), "b")]))
    with pytest.raises(UnsupportedError, match="by that key only"):
        table.upsert(data(range(3), "a"), on="text")
    with pytest.raises(SchemaError, match="key columns"):
        make(tmp_path / "u").upsert(data(range(3), "a"))


def test_rows_of_which_files_have_some_columns_are_not_sorted(tmp_path: Path) -> None:
    table = make(tmp_path / "t", properties={"row-tracking.enabled": "true", "data-evolution.enabled": "true"})
    table.append(data(range(3), "a"))
    with pytest.raises(UnsupportedError, match=r"data-evolution\.enabled=true: rows of such tables are not sorted"):
        table.compact(full=True, sort_by=["id"])


def test_engines_without_deletes(tmp_path: Path) -> None:
    for number, options in enumerate(
        ({"merge-engine": "partial-update"}, {"merge-engine": "aggregation"}, {"ignore-delete": "true"})
    ):
        table = make(tmp_path / str(number), primary_key=["id"], properties={"bucket": "1", **options})
        table.append(data(range(3), "a"))
        with pytest.raises(UnsupportedError, match=next(iter(options))):
            table.delete("id = 1")
