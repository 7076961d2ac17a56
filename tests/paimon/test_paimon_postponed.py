"""Tables with postponed buckets (`bucket=-2`): rows that are written to buckets, or wait, with Paimon Java in turns."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_tables import SHIPPED
from paimon_peers import JavaPaimon, java_rows

from skerry.avro.container import decode_header
from skerry.errors import UnsupportedError
from skerry.paimon.jobs import waiting_rows
from skerry.paimon.jobs.publish import ShareLayout, publish, write_share
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage
from skerry.table.connector.publication import Publication, WriteMode

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False), ("x", pa.int64())]
)
WAITS = {"postpone.batch-write-fixed-bucket": "false"}


def make(path: Path, **options: str) -> PaimonTable:
    return PaimonTable.create(
        Storage(),
        str(path),
        SCHEMA,
        primary_key=["id", "day"],
        partition_by=["day"],
        properties={"bucket": "-2", "postpone.default-bucket-num": "2", **options},
    )


def random_rows(chance: random.Random) -> pa.Table:
    rows = [
        {"id": chance.randrange(30), "day": chance.choice("ab"), "x": chance.choice([None, 1, 2, 3])}
        for _ in range(chance.randrange(5, 20))
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def by_key(rows: pa.Table) -> dict[tuple[Any, ...], Any]:
    return {(row["id"], row["day"]): row["x"] for row in rows.to_pylist()}


def columns(path: Path) -> Any:
    return json.loads(decode_header(memoryview(path.read_bytes())).schema_json)["fields"]


def buckets(table: PaimonTable) -> set[int]:
    return {entry.bucket for entry in live_entries(table.handle.state)}


def seen(table: PaimonTable) -> dict[tuple[Any, ...], Any]:
    found = table.refresh().scan().to_arrow()
    assert len(by_key(found)) == found.num_rows
    return by_key(found)


@pytest.mark.spark
@pytest.mark.parametrize(
    "options",
    [{}, {"changelog-producer": "lookup"}, {"merge-engine": "aggregation", "fields.x.aggregate-function": "sum"}],
    ids=str,
)
def test_what_java_leaves_waiting_is_placed_as_java_would_have_merged_it(
    options: dict[str, str], java_paimon: JavaPaimon, tmp_path: Path
) -> None:
    chance = random.Random(3)
    table = make(tmp_path / "ours", **options)
    make(tmp_path / "twin", **{**options, "bucket": "2"})
    for step in range(4):
        rows = random_rows(chance)
        values = [list(row.values()) for row in rows.to_pylist()]
        kinds = ["+I" if step == 1 or options else chance.choice(["+I", "+I", "-D"]) for _ in values]
        java_paimon.write(tmp_path / "twin", values, kinds=kinds, compaction="full")
        if step == 1:
            table.refresh()
            assert -2 in buckets(table)
            table.append(rows)  # places what waits first, which is older
            assert -2 not in buckets(table)
        else:
            java_paimon.write(tmp_path / "ours", values, kinds=kinds)
    table.compact(full=True)
    assert buckets(table) == {0, 1}
    twin = sorted(java_paimon.read(tmp_path / "twin"), key=repr)
    assert sorted(java_rows(table.scan().to_arrow()), key=repr) == twin
    assert sorted(java_paimon.read(tmp_path / "ours"), key=repr) == twin


def test_waiting_files_are_those_of_java(tmp_path: Path) -> None:
    golden = PaimonTable.open(Storage(), str(SHIPPED / "postpone_bucket_a" / "table"))
    ours = PaimonTable.create(
        Storage(), str(tmp_path / "t"), golden.schema, primary_key=["k"], properties={**golden.properties, **WAITS}
    )
    ours.append(golden.changes(None).to_arrow().select(["k", "v"]))
    (want,), (found,) = live_entries(golden.handle.state), live_entries(ours.handle.state)
    names = {"file_name": "", "file_size": 0, "creation_time": 0}
    assert replace(found, file=replace(found.file, **names)) == replace(want, file=replace(want.file, **names))
    assert re.fullmatch(r"data--u-[0-9a-f-]+-s-\d+-w-[0-9a-f-]{36}-0\.avro", found.file.file_name)
    schemas = [
        columns(Path(table.location) / "bucket-postpone" / entry.file.file_name)
        for table, entry in ((golden, want), (ours, found))
    ]
    assert schemas[0] == schemas[1]


def test_rows_that_wait_get_buckets_by_compaction(tmp_path: Path) -> None:
    chance = random.Random(1)
    table = make(tmp_path / "t", **WAITS)
    want: dict[tuple[Any, ...], Any] = {}
    for _ in range(3):
        rows = random_rows(chance)
        table.append(rows)
        want |= by_key(rows)
    assert (seen(table), buckets(table)) == ({}, {-2})
    assert table.changes(None).to_arrow().num_rows >= len(want)
    assert table.compact("day = 'a'", dry_run=True).groups == 0
    table.compact("day = 'a'")
    assert seen(table) == {key: x for key, x in want.items() if key[1] == "a"}
    table.apply_changes(pa.table({"id": [1, 2], "day": ["b", "b"], "op": ["d", "d"]}), on=["id", "day"])
    table.upsert(pa.table({"id": [3], "day": ["b"], "x": [99]}))
    want = {key: x for key, x in want.items() if key not in {(1, "b"), (2, "b")}} | {(3, "b"): 99}
    assert (3, "b") not in seen(table)
    table.delete("x = 2")  # of all rows, also of those that have waited
    want = {key: x for key, x in want.items() if x != 2}
    assert seen(table) == want
    table.append(random_rows(chance))
    table.overwrite(pa.table({"id": [7], "day": ["a"], "x": [7]}))
    table.compact(full=True)
    assert seen(table) == {(7, "a"): 7}
    assert table.lookup([(7, "a")]).to_pylist() == [{"id": 7, "day": "a", "x": 7}]


@pytest.mark.parametrize("options", [{}, WAITS], ids=str)
@pytest.mark.parametrize("owns", [False, True])
def test_batches_of_engines_go_to_buckets_or_wait(options: dict[str, str], owns: bool, tmp_path: Path) -> None:
    table = make(tmp_path / "t", **options)
    publication = Publication(WriteMode.APPEND)
    for x in (1, 2):
        layout = ShareLayout.of(table.handle, publication, owns_buckets=owns)
        rows = pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"], "x": [x, x, x]})
        assert publish(table.handle, layout, [write_share(layout, publication.mode, rows.to_batches())], publication)
    table.refresh()
    assert (-2 in buckets(table)) == bool(options)
    table.compact(full=True)
    assert seen(table) == {(1, "a"): 2, (2, "a"): 2, (3, "b"): 2}


def test_numbers_of_buckets_stay_and_statistics_count_placed_rows(tmp_path: Path) -> None:
    table = make(tmp_path / "t", **WAITS)
    rows = pa.table({"id": list(range(40)), "day": ["a"] * 40, "x": [1] * 40})
    table.append(rows)
    assert table.statistics()["id"].ndv in (None, 0)
    table.compact()
    table.set_properties({"postpone.default-bucket-num": "5"})
    table.append(rows)
    table.append(rows.set_column(1, "day", pa.array(["b"] * 40)))
    table.compact()
    totals = {(entry.partition[-8:-7], entry.total_buckets) for entry in live_entries(table.refresh().handle.state)}
    assert totals == {(b"a", 2), (b"b", 5)}
    assert table.statistics()["id"].ndv == 40
    assert len(seen(table)) == 80


def test_a_rival_that_places_the_same_rows_costs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", **WAITS)
    table.append(pa.table({"id": [1, 2], "day": ["a", "a"], "x": [1, 1]}))
    rival = PaimonTable.open(Storage(), table.location)
    commit = waiting_rows.commit_rows

    def late(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(waiting_rows, "commit_rows", commit)
        rival.compact()
        rival.append(pa.table({"id": [2], "day": ["a"], "x": [5]}))
        return commit(*arguments, **options)

    monkeypatch.setattr(waiting_rows, "commit_rows", late)
    table.compact()
    assert seen(table) == {(1, "a"): 1, (2, "a"): 5}
    names = {Path(entry.file.file_name).name for entry in live_entries(table.handle.state)}
    assert {path.name for path in tmp_path.rglob("data-*")} >= names
    table.expire_snapshots(keep_last=1, older_than=datetime(2100, 1, 1, tzinfo=UTC))
    assert {path.name for path in tmp_path.rglob("data-*")} == names  # nothing is left of the attempt that lost


def test_columns_that_avro_lacks_do_not_wait(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("v", pa.list_(pa.float32(), 3)))
    table = PaimonTable.create(
        Storage(),
        str(tmp_path / "t"),
        schema,
        primary_key=["id"],
        properties={"bucket": "-2", "vector-field": "v", **WAITS},
    )
    with pytest.raises(UnsupportedError, match="let no rows wait for buckets in Avro files"):
        table.append(
            pa.table({"id": [1], "day": ["a"], "x": [1], "v": pa.array([[1.0, 2.0, 3.0]], schema.field("v").type)})
        )
