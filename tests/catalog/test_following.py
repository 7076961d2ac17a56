"""Searches that go on with the rows of later commits, and counts of rows, in tables of both formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import skerry
from skerry.amudai.indexes.text_queries import found_spans, parse_query
from skerry.amudai.indexes.tokenizers import Tokenizer
from skerry.errors import NotFoundError, SchemaError
from skerry.table.indexes import following

SCHEMA = pa.schema(
    [pa.field("k", pa.int64()), pa.field("line", pa.string()), pa.field("log", pa.struct([("text", pa.string())]))]
)


def rows(*numbers: int, line: str = "timeout {}") -> pa.Table:
    lines = [line.format(number) for number in numbers]
    return pa.table([[*numbers], lines, [{"text": text} for text in lines]], schema=SCHEMA)


@pytest.mark.parametrize("kind", ["iceberg", "paimon", "paimon-keyed"])
def test_rows_are_found_as_commits_add_them(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"primary_key": ["k"], "properties": {"bucket": "1"}} if kind == "paimon-keyed" else {}
    table = skerry.connect(tmp_path).create_table("d.t", SCHEMA, format=kind.partition("-")[0], **options)
    other = skerry.connect(tmp_path).load_table("d.t")
    steps: list[Callable[[], object]] = [
        lambda: other.append(rows(1, 2)),
        lambda: other.append(rows(3, line="nothing {}")),
        lambda: other.compact(full=True),
        lambda: other.delete("k = 1"),
        lambda: other.upsert(rows(2, 3, line="new timeout {}"), on=["k"]),
    ]
    monkeypatch.setattr(following.time, "sleep", lambda _seconds: steps.pop(0)())
    found = table.follow("line", "timeout", columns=["k"])
    assert next(found).to_pylist() == [{"k": 1}, {"k": 2}]
    again = sorted(row["k"] for row in next(found).to_pylist())
    assert again == [2, 3]
    with pytest.raises(IndexError):
        next(found)
    first = table.snapshots()[0].snapshot_id
    steps += [lambda: other.append(rows(8))]
    since = table.follow("log.text", "timeout", columns=["k", "log"], where="k > 2", after=first)
    assert next(since).to_pylist() == [{"k": 3, "log": {"text": "new timeout 3"}}]
    assert next(since).to_pylist() == [{"k": 8, "log": {"text": "timeout 8"}}]
    with pytest.raises(NotFoundError, match="no column 'lines'"):
        table.follow("lines", "timeout")
    with pytest.raises(SchemaError, match="lacks a word"):
        table.follow("line", "a OR")


@pytest.mark.parametrize("kind", ["iceberg", "paimon"])
def test_rows_are_counted(tmp_path: Path, kind: str) -> None:
    table = skerry.connect(tmp_path).create_table("d.t", SCHEMA, format=kind)
    for first in (0, 50):
        table.append(rows(*range(first, first + 50), line="a timeout of {} s"))
    queries = ["timeout", '"timeout of"', "timeout AND 7", "7 OR 8*", "timeout NOT 7", "none"]
    for is_indexed in (False, True):
        if is_indexed:
            table.create_index(["line"], kind="text")
            table.delete("k IN (7, 80)")
        for query in queries:
            assert table.search_count("line", query) == table.search("line", query).num_rows, query
            expected = table.search("line", query, where="k < 60").num_rows
            assert table.search_count("line", query, where="k < 60") == expected
            assert table.search_count("log.text", query) == table.search("log.text", query).num_rows
    old = table.snapshots()[0].snapshot_id
    assert table.search_count("line", "timeout", snapshot=old) == 50


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("time*", "A timeout, TIME out", [(2, 9), (11, 15)]),
        ('"time out"', "Time  out and time", [(0, 9)]),
        ("a b NOT c", "a c ü b", [(0, 1), (6, 7)]),
        ('a OR ("a b" AND b)', "a b", [(0, 3)]),
        ("x", "", []),
    ],
)
def test_where_words_are(query: str, text: str, found: list[tuple[int, int]]) -> None:
    assert found_spans(parse_query(query), text, Tokenizer.UNICODE_WORD, matches_case=False) == found
