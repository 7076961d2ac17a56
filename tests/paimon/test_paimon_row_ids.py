"""Row ids through deletes, updates, upserts and compaction, with rewritten files and with deletion vectors.

Spec: docs/formats/paimon.md § 8.8.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import skerry
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.table import PaimonTable

if TYPE_CHECKING:
    from pathlib import Path

    from paimon_peers import JavaPaimon

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
LINEAGE = ["_row_id", "_last_updated_sequence_number"]


def make(folder: Path, **options: str) -> PaimonTable:
    properties = {"row-tracking.enabled": "true", **{name.replace("_", "-"): text for name, text in options.items()}}
    table = skerry.connect(folder).create_table("db.t", SCHEMA, format="paimon", properties=properties)
    assert isinstance(table, PaimonTable)
    return table


def data(rows: dict[int, str]) -> pa.Table:
    return pa.table({"id": list(rows), "text": list(rows.values())}, schema=SCHEMA)


def state_of(table: PaimonTable) -> dict[int, tuple[str, int, int]]:
    """Text, row id and snapshot of each row, by id."""
    rows = table.scan(columns=["id", "text", *LINEAGE]).to_arrow().to_pylist()
    assert len({row["_row_id"] for row in rows}) == len(rows)
    return {row["id"]: tuple(row.values())[1:] for row in rows}


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_rows_keep_their_ids(tmp_path: Path, vectors: str) -> None:
    table = make(tmp_path, **{"deletion-vectors.enabled": vectors})
    table.append(data({1: "a", 2: "b", 3: "c"}))
    table.append(data({4: "d"}))
    table.delete("id = 2")
    assert state_of(table) == {1: ("a", 0, 1), 3: ("c", 2, 1), 4: ("d", 3, 2)}
    table.upsert(data({3: "C", 5: "e"}), on=["id"])
    assert state_of(table) == {1: ("a", 0, 1), 3: ("C", 2, 4), 4: ("d", 3, 2), 5: ("e", 4, 4)}
    table.merge(data({4: "D", 6: "f"}), on="id", when_matched=skerry.Update(), when_not_matched=skerry.Insert())
    expected = {1: ("a", 0, 1), 3: ("C", 2, 4), 4: ("D", 3, 5), 5: ("e", 4, 4), 6: ("f", 5, 5)}
    assert state_of(table) == expected
    counts = {name: found.ndv for name, found in table.statistics().items()}
    assert counts == ({"id": 5, "text": 5} if vectors == "false" else {"id": 6, "text": 7})  # vectors: an upper bound
    assert ("upper bound" in str(table.statistics()["text"].freshness)) == (vectors == "true")
    table.compact(full=True)
    assert state_of(table) == expected
    (entry,) = live_entries(table.handle.state)
    assert (entry.file.first_row_id, entry.file.write_cols) == (None, ("id", "text", "_ROW_ID", "_SEQUENCE_NUMBER"))
    assert table.handle.state.snapshot is not None
    assert table.handle.state.snapshot.next_row_id == 6
    assert str(table.statistics()["text"].freshness) == "fresh"
    table.append(data({7: "g"}))
    table.upsert(data({1: "A"}), on=["id"])
    assert state_of(table) == {**expected, 1: ("A", 0, 8), 7: ("g", 6, 7)}
    assert table.scan(where="_row_id = 5", columns=["text"]).to_arrow().to_pylist() == [{"text": "f"}]
    explained = table.scan(where="text = 'zz'").explain()
    assert "to read                        0 files" in str(explained)


def test_the_least_id_stays_of_several_rows_with_a_key(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(data({1: "a"}))
    table.append(data({1: "b"}))
    table.upsert(data({1: "c"}), on=["id"])
    assert state_of(table) == {1: ("c", 0, 3)}
    table.upsert(data({2: "x"}), on=["id"])
    assert state_of(table) == {1: ("c", 0, 3), 2: ("x", 2, 4)}


@pytest.mark.spark
def test_java_sees_the_same_ids(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    table = make(tmp_path)
    rng = random.Random(17)
    expected: dict[int, tuple[str, int]] = {}
    following, fresh = 0, iter(range(1000))
    for step in range(12):
        rows = {next(fresh): f"new-{step}" for _ in range(rng.randrange(1, 4))}
        match rng.choice(["append", "java", "delete", "upsert", "compact", "join"]) if step > 2 else "append":
            case "append":
                table.append(data(rows))
                new = rows
            case "java":
                java_paimon.write(table.location, [[number, text] for number, text in rows.items()])
                new = rows
            case "delete":
                gone = rng.choice(sorted(expected))
                table.refresh().delete(f"id = {gone}")
                del expected[gone]
                new = {}
            case "upsert":
                changed = dict.fromkeys(rng.sample(sorted(expected), min(2, len(expected))), f"changed-{step}")
                table.refresh().upsert(data({**changed, **rows}), on=["id"])
                expected |= {number: (text, expected[number][1]) for number, text in changed.items()}
                new = rows
            case "compact":
                table.refresh().compact(full=True)
                new = {}
            case _:
                java_paimon.join(table.location)
                new = {}
        for number, text in new.items():
            expected[number] = (text, following)
            following += 1
        table.refresh()
        assert {number: found[:2] for number, found in state_of(table).items()} == expected
    seen = java_paimon.system(table.location, "row_tracking")
    ours = state_of(table)
    assert {row["id"]: (row["text"], row["_ROW_ID"], row["_SEQUENCE_NUMBER"]) for row in seen} == ours
    assert sorted(row[0] for row in java_paimon.read(table.location)) == sorted(expected)
