"""Which batches a table has: numbers say it only among those that one query has counted."""

from __future__ import annotations

import pytest

from skerry.errors import SchemaError, StreamNameError
from skerry.table.stream_batch import LastBatch, StreamBatch, has_batch

HAS, NEW, REFUSED = "has it", "is new", "refused"


@pytest.mark.parametrize(
    ("last", "number", "query", "found", "taken_over"),
    [
        (None, 0, None, NEW, NEW),
        (None, 3, "a", NEW, NEW),
        (LastBatch(5, "a"), 6, "a", NEW, NEW),
        (LastBatch(5, "a"), 5, "a", HAS, HAS),
        (LastBatch(5, "a"), 0, "a", HAS, HAS),  # on from an older copy of the checkpoint
        (LastBatch(5, "a"), 6, "b", NEW, NEW),
        (LastBatch(5, "a"), 5, "b", REFUSED, NEW),
        (LastBatch(5, "a"), 0, "b", REFUSED, NEW),
        (LastBatch(5, "a"), 6, None, NEW, NEW),
        (LastBatch(5, "a"), 5, None, REFUSED, NEW),
        (LastBatch(5, "a"), 0, None, REFUSED, NEW),
        # nobody has said who counts
        (LastBatch(5), 6, None, NEW, NEW),
        (LastBatch(5), 5, None, HAS, HAS),
        (LastBatch(5), 4, None, REFUSED, NEW),
        # marks of versions that noted no query
        (LastBatch(5), 6, "a", NEW, NEW),
        (LastBatch(5), 5, "a", HAS, NEW),
        (LastBatch(5), 4, "a", REFUSED, NEW),
    ],
)
def test_which_batches_a_table_has(last, number, query, found, taken_over):
    for takes_over, expected in (False, found), (True, taken_over):
        batch = StreamBatch("s", number, query, takes_over)
        if expected is REFUSED:
            with pytest.raises(StreamNameError) as raised:
                has_batch(last, batch, "d.t")
            for words in (
                f"batch {number} of stream 's'",
                "has batch 5",
                "old checkpoint",
                "rename the stream",
                "take-over",
            ):
                assert words in str(raised.value)
        else:
            assert has_batch(last, batch, "d.t") == (expected is HAS)


def test_a_query_has_an_id():
    with pytest.raises(SchemaError, match="a query needs an id"):
        StreamBatch("s", 0, "")
