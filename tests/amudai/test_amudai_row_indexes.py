"""Shards that have the indexes of rows and not the rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from skerry import amudai
from skerry.amudai.reading.shard_indexes import SoughtValues
from skerry.amudai.writing.row_indexes import write_row_indexes
from skerry.errors import NotFoundError
from skerry.storage import Storage

SCHEMA = pa.schema([("key", pa.string()), ("number", pa.int32()), ("text", pa.string())])
STRIPES = [
    pa.table([["a", None, "b"], [1, 2, None], ["one two", None, "two"]], schema=SCHEMA),
    pa.table([["c", "a"], [1, 3], ["TWO three", ""]], schema=SCHEMA),
]
INDEXES = [amudai.HashIndex(["key", "number"]), amudai.TextIndex(["text"])]


def test_it_answers_as_a_shard_of_the_rows(tmp_path: Path) -> None:
    written = write_row_indexes(STRIPES, SCHEMA, f"{tmp_path}/root.amudai.shard", INDEXES, storage=Storage())
    shard = amudai.ShardFile(written.location)
    amudai.write_table(pa.concat_tables(STRIPES), f"{tmp_path}/rows.amudai.shard", indexes=INDEXES)
    whole = amudai.ShardFile(f"{tmp_path}/rows.amudai.shard")
    for column, values in (("key", ["a"]), ("key", ["b", "c"]), ("number", [1, 3]), ("key", ["none"])):
        found = [each.rows_of_values(column, SoughtValues(values)).tolist() for each in (shard, whole)]
        assert found[0] == found[1], values
    assert shard.rows_of_values("key", SoughtValues(["a"])).tolist() == [0, 4]
    for query in ("two", "TH*", "one NOT two", "none"):
        candidates = [each.search_candidates("text", query).tolist() for each in (shard, whole)]
        assert candidates[0] == candidates[1], query
    for query in ("(one OR three) AND NOT two", "NOT two AND (one OR three)", "(one OR three) AND (NOT two)"):
        assert shard.search_candidates("text", query).tolist() == [0, 3], query
    assert shard.num_rows == 5
    assert shard.schema == SCHEMA
    assert shard.read().to_pylist() == [dict.fromkeys(SCHEMA.names)] * 5  # no values


def test_nothing_is_left_if_a_column_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no values at 'other'"):
        write_row_indexes(
            STRIPES, SCHEMA, f"{tmp_path}/root.amudai.shard", [amudai.HashIndex(["other"])], storage=Storage()
        )
    assert not list(tmp_path.iterdir())
