"""Looking up keys in the files of a bucket, against the rows that a scan of the same files gives."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.merging import encode_order_keys, search_keys
from skerry.paimon.planning.file_splits import FileSplits
from skerry.paimon.reading.key_lookup import BucketFiles, KeyLookup, wanted_keys
from skerry.paimon.table import PaimonTable
from skerry.paimon.writing.layout import WriteLayout
from skerry.storage import Storage
from skerry.table.work.read_ahead import SharedCache


def bucket_of(table: PaimonTable) -> BucketFiles:
    state = table.handle.refresh()
    return BucketFiles.of(state.schema, FileSplits(state, WriteLayout.of(state)), live_entries(state))


def table_of(path: Path, key: pa.Schema, **options: str) -> PaimonTable:
    schema = pa.schema([*key, ("text", pa.string()), ("inside", pa.struct([("n", pa.int32())]))])
    properties = {"bucket": "1", "num-sorted-run.compaction-trigger": "100"} | options
    return PaimonTable.create(Storage(), str(path), schema, primary_key=key.names, properties=properties)


def test_search_finds_places_of_equal_and_absent_keys() -> None:
    chance = random.Random(3)
    for texts in (False, True):
        for _ in range(200):
            stored = sorted(chance.choices(range(12), k=chance.randrange(12)))
            wanted = [chance.randrange(14) for _ in range(chance.randrange(14))]
            arrays = [pa.array(values, pa.int64()) for values in (stored, wanted)]
            if texts:  # as long as the text itself has no other order than the number
                arrays = [
                    pa.array([f"a rather long prefix {value:02}" for value in values], pa.string())
                    for values in (stored, wanted)
                ]
            keys, others = (encode_order_keys([array], [False]) for array in arrays)
            for after in (False, True):
                places, equal = search_keys(keys, others, after=after)
                expected = np.searchsorted(stored, wanted, side="right" if after else "left")
                assert places.tolist() == expected.tolist()
                assert equal.tolist() == [
                    place < len(stored) and stored[place] == value
                    for place, value in zip(expected, wanted, strict=True)
                ]


KEYS: dict[str, Any] = {
    "int": (pa.schema([("k", pa.int64())]), lambda n: (3 * n,)),
    "text": (pa.schema([("k", pa.string())]), lambda n: (f"key number {n:05}",)),
    "two": (pa.schema([("k", pa.string()), ("l", pa.int32())]), lambda n: (f"k{n // 7:03}", n % 7)),
    "decimal": (pa.schema([("k", pa.decimal128(20, 2))]), lambda n: (Decimal(n - 500) / 4,)),
}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("kind", KEYS)
def test_records_of_keys_in_every_file_and_in_the_lowest_level(tmp_path: Path, kind: str, file_format: str) -> None:
    key, made = KEYS[kind]
    chance = random.Random(f"{kind} {file_format}")
    table = table_of(tmp_path / "t", key, **{"file.format": file_format})
    held: dict[int, str] = {}
    for step in range(4):
        numbers = chance.sample(range(1000), 300)
        rows = [dict(zip(key.names, made(number), strict=True)) for number in numbers]
        table.append(
            pa.Table.from_pylist(
                [
                    row | {"text": f"{step} {number}", "inside": {"n": number}}
                    for row, number in zip(rows, numbers, strict=True)
                ],
                table.schema,
            )
        )
        held |= {number: f"{step} {number}" for number in numbers}
        if step == 1:
            table.compact(full=True)
            compacted = dict(held)
    table.delete(" or ".join(f"text = '{held[number]}'" for number in sorted(held)[:3]))
    bucket = bucket_of(table)
    state = table.handle.state
    lookup = KeyLookup.of(state)
    asked = [chance.randrange(1100) for _ in range(200)] + sorted(held)[:3]
    columns = [
        pa.array(values, field.type) for values, field in zip(zip(*map(made, asked), strict=True), key, strict=True)
    ]
    wanted, of_row = wanted_keys(state.schema, pa.record_batch(columns, names=key.names))
    number_of = dict(zip(of_row.tolist(), asked, strict=True))
    assert len(wanted) == len(set(asked)) == len(number_of)

    found = lookup.find_older(bucket, wanted)
    older = lookup.records(bucket, found)
    texts = dict(
        zip([number_of[row] for row in found.keys.tolist()], older.values.column("text").to_pylist(), strict=True)
    )
    assert texts == {number: compacted[number] for number in number_of.values() if number in compacted}
    assert older.values.column("inside").to_pylist() == [{"n": number_of[row]} for row in found.keys.tolist()]
    keeping = KeyLookup(state, state.arrow_schema, SharedCache(1 << 20))
    for step in (1, 25):  # of few rows, the pages are not decoded as a whole
        some = found.only(np.arange(len(found)) % step == 0)
        assert keeping.records(bucket, some).values.equals(lookup.records(bucket, some).values)

    everywhere = lookup.find(bucket, wanted)
    records = lookup.records(bucket, everywhere)
    newest: dict[int, tuple[int, int, str]] = {}
    for row, number, kind_, text in zip(
        everywhere.keys.tolist(),
        records.numbers.tolist(),
        records.kinds.tolist(),
        records.values.column("text").to_pylist(),
        strict=True,
    ):
        newest[number_of[row]] = max(newest.get(number_of[row], (-1, 0, "")), (number, kind_, text))
    gone = sorted(held)[:3]
    assert {number: text for number, (_, kind_, text) in newest.items() if kind_ in (0, 2)} == {
        number: text for number, text in held.items() if number in number_of.values() and number not in gone
    }
    assert all(newest[number][1] == 3 for number in gone)


def test_what_was_read_once_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path / "t", pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": range(1000), "text": map(str, range(1000)), "inside": [None] * 1000}, table.schema))
    table.compact(full=True)
    bucket, state = bucket_of(table), table.handle.state
    lookup = KeyLookup(state, state.arrow_schema, SharedCache(1 << 20))
    wanted, _ = wanted_keys(state.schema, pa.record_batch({"k": [5, 999, 1000]}))
    for _ in itertools.repeat(None, 2):
        found = lookup.find(bucket, wanted)
        assert found.positions.tolist() == [5, 999]
        assert lookup.records(bucket, found).values.column("text").to_pylist() == ["5", "999"]
        monkeypatch.setattr(Storage, "arrow_file", None)
        monkeypatch.setattr(Storage, "read_range", None)
