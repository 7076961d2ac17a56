"""Indexes of several shards become one, which answers as they do."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry import amudai
from skerry.amudai.index_merging import IndexedRows, merge_row_indexes
from skerry.amudai.reading.shard_indexes import SoughtValues
from skerry.amudai.writing.row_indexes import write_row_indexes
from skerry.errors import UnsupportedError
from skerry.storage import Storage
from torture import examples

SCHEMA = pa.schema([("key", pa.string()), ("number", pa.int32()), ("text", pa.string()), ("note", pa.string())])
WORDS = ["one", "Two", "TWO", "tWo", "three", "straße", "STRASSE", "été", "10.0.0.7"]
TEXT = st.none() | st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
ROW = st.tuples(st.none() | st.sampled_from("abc"), st.none() | st.integers(0, 3), TEXT, TEXT)


def indexes(collation: str) -> list[amudai.HashIndex | amudai.TextIndex]:
    texts = {"text": "unicode-word", "note": "unicode-log"}
    return [amudai.HashIndex(["key", "number"]), amudai.TextIndex(texts, collation=collation)]


def table(rows: list[tuple[object, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def answers(shard: amudai.ShardFile) -> list[list[int]]:
    found = [shard.rows_of_values("key", SoughtValues([key])) for key in "abcd"]
    found += [shard.rows_of_values("number", SoughtValues([number, 3])) for number in range(3)]
    for column in ("text", "note"):
        found += [shard.search_candidates(column, f'"{word}"') for word in [*WORDS, "none"]]
        found += [shard.search_candidates(column, query) for query in ("t*", "one AND (two OR three)")]
    return [rows.tolist() for rows in found]


@settings(max_examples=examples(6), deadline=None)
@given(
    st.lists(st.lists(st.lists(ROW, min_size=1, max_size=12), min_size=1, max_size=3), min_size=1, max_size=4),
    st.sampled_from(["unicode-case-insensitive", "unicode-case-preserving"]),
    st.data(),
)
def test_it_answers_as_the_index_of_all_rows(
    tmp_path_factory: pytest.TempPathFactory,
    shards: list[list[list[tuple[object, ...]]]],
    collation: str,
    data: st.DataObject,
) -> None:
    folder, storage = tmp_path_factory.mktemp("merged"), Storage()
    sources, left = [], []
    for number, stripes in enumerate(shards):
        location = f"{folder}/{number}.amudai.shard"
        write_row_indexes(map(table, stripes), SCHEMA, location, indexes(collation), storage=storage)
        rows = [row for stripe in stripes for row in stripe]
        cuts = sorted({0, len(rows), *data.draw(st.lists(st.integers(0, len(rows)), max_size=3))})
        ranges = [(start, stop - start) for start, stop in itertools.pairwise(cuts) if data.draw(st.booleans())]
        sources.append(IndexedRows(amudai.ShardFile(location), tuple(ranges) or ((0, len(rows)),)))
        left += [row for first, count in sources[-1].ranges for row in rows[first : first + count]]
    write_row_indexes([table(left)], SCHEMA, f"{folder}/whole.amudai.shard", indexes(collation), storage=storage)
    merged = merge_row_indexes(sources, f"{folder}/merged.amudai.shard", storage=storage)
    assert merged.record_count == len(left)
    assert answers(amudai.ShardFile(merged.location)) == answers(amudai.ShardFile(f"{folder}/whole.amudai.shard"))
    again = IndexedRows(amudai.ShardFile(merged.location), ((0, len(left)),))
    twice = merge_row_indexes([again], f"{folder}/twice.amudai.shard", storage=storage)
    assert answers(amudai.ShardFile(twice.location)) == answers(amudai.ShardFile(merged.location))


def test_what_is_not_certain_stays_so(tmp_path: Path) -> None:
    """Long lists are ranges that may hold other rows, whose merged lists may, too."""
    texts = ["often" if number % 5 else "seldom" for number in range(900)]
    texts += ["often" if number % 2 else "never" for number in range(900)]
    rows = pa.table({"text": texts})
    storage, index = Storage(), [amudai.TextIndex(["text"])]
    for number in range(2):
        part = rows.slice(900 * number, 900)
        write_row_indexes([part], rows.schema, f"{tmp_path}/{number}.amudai.shard", index, storage=storage)
    sources = [IndexedRows(amudai.ShardFile(f"{tmp_path}/{number}.amudai.shard"), ((0, 900),)) for number in range(2)]
    merge_row_indexes(sources, f"{tmp_path}/merged.amudai.shard", storage=storage)
    merged = amudai.ShardFile(f"{tmp_path}/merged.amudai.shard")
    for word in ("often", "seldom", "never"):
        having = {row for row, text in enumerate(texts) if text == word}
        assert having <= set(merged.search_candidates("text", word).tolist())
        search = merged._indexes.text_search(merged.shard_schema.fields[0].data_type)
        assert search is not None
        assert set(search.reader.find(word, 0).exact.tolist()) <= having


def test_indexes_of_other_columns_are_refused(tmp_path: Path) -> None:
    storage, sources = Storage(), []
    for kind in (pa.int32(), pa.int64()):
        rows = pa.table({"number": pa.array([1], kind)})
        location = f"{tmp_path}/{kind}.amudai.shard"
        write_row_indexes([rows], rows.schema, location, [amudai.HashIndex(["number"])], storage=storage)
        sources.append(IndexedRows(amudai.ShardFile(location), ((0, 1),)))
    with pytest.raises(UnsupportedError, match="other columns"):
        merge_row_indexes(sources, f"{tmp_path}/merged.amudai.shard", storage=storage)
    assert len(list(tmp_path.glob("merged*"))) == 0
