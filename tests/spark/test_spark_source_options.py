"""Options of `format("skerry")` that would be ignored are refused."""

from __future__ import annotations

import pytest

from skerry.errors import SchemaError
from skerry.spark.data_source.options import SourceOptions, Use
from skerry.table.stream_batch import StreamBatch


@pytest.mark.parametrize(
    ("option", "use", "words"),
    [
        ("where", Use.WRITE, "option where is only for reads and streaming reads"),
        ("snapshot", Use.STREAM_READ, "option snapshot is only for reads"),
        ("changes", Use.READ, "option changes is only for streaming reads"),
        ("stream", Use.READ, "option stream is only for batch writes and streaming writes"),
        ("Batch", Use.STREAM_WRITE, "option batch is only for batch writes"),
        ("query", Use.STREAM_WRITE, "option query is only for batch writes"),
        ("operation", Use.READ, "option operation is only for"),
    ],
)
def test_options_of_other_uses_are_refused(option, use, words):
    options = SourceOptions({"catalog": "c", "table": "d.t", "checkpointLocation": "x", option: "1"})
    with pytest.raises(SchemaError, match=words):
        options.check(use)


def test_columns_are_separated_by_commas_outside_of_calls():
    value = "try_variant_get(\"a, (b\", '$[''x, y'']', 'decimal(9, 2)') AS \"n, \"\"m\""
    texts = ["id", value, "s.v", "", "tail"]
    assert SourceOptions({"columns": " , ".join(texts)}).columns == texts
    assert SourceOptions({}).columns is None


def test_a_frame_is_a_batch_of_a_stream_or_none():
    assert SourceOptions({}).batch is None
    named = {"stream": "s", "batch": "17"}
    assert SourceOptions(named).batch == StreamBatch("s", 17)
    assert SourceOptions({**named, "query": "q", "take-over": "true"}).batch == StreamBatch("s", 17, "q", True)
    for options in {"stream": "s"}, {"batch": "1"}, {"query": "q"}, {"take-over": "true"}:
        with pytest.raises(SchemaError, match=f"option {next(iter(options))} is for a batch of a stream"):
            _ = SourceOptions(options).batch
    with pytest.raises(SchemaError, match="option batch must be the number of a batch, found '-1'"):
        _ = SourceOptions({"stream": "s", "batch": "-1"}).batch
