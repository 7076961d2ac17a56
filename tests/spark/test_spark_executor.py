"""Tasks on Spark: results in order, errors as they were, on classic sessions and on Spark Connect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import skerry
from skerry.errors import FormatError, NotFoundError, SchemaError, SkerryError
from skerry.spark import ingest
from skerry.spark.runtime import executor
from skerry.spark.runtime.executor import SparkExecutor
from skerry.spark.runtime.failures import RefusedRecordError, TaskError, error_of, original_errors
from skerry.spark.writing import spark_writer as writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=["classic", "as on Connect"])
def tasks(spark: SparkSession, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SparkExecutor:
    if request.param != "classic":
        monkeypatch.setattr(executor, "is_classic", lambda spark: False)
    return SparkExecutor(spark)


@pytest.mark.spark
def test_results_come_in_the_order_of_the_tasks(tasks: SparkExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkExecutor, "_wave_size", lambda self: 3)
    assert list(tasks.map(lambda number: number * number, range(7))) == [0, 1, 4, 9, 16, 25, 36]
    assert list(tasks.map(lambda number: number, [])) == []


@pytest.mark.spark
def test_errors_survive(tasks: SparkExecutor) -> None:
    def fail(number: int) -> int:
        from skerry.errors import FormatError

        if number == 2:
            raise FormatError("too short", location="s3://b/ä", offset=7, rule="Puffin spec, Footer structure")
        return number

    with pytest.raises(FormatError) as caught:
        list(tasks.map(fail, range(4)))
    error = caught.value
    assert (error.message, error.location, error.offset, error.rule) == (
        "too short",
        "s3://b/ä",
        7,
        "Puffin spec, Footer structure",
    )


@pytest.mark.spark
def test_other_errors_are_sparks(tasks: SparkExecutor) -> None:
    def fail(number: int) -> int:
        raise ValueError("not ours")

    with pytest.raises(Exception, match="not ours") as caught:
        list(tasks.map(fail, [1]))
    assert not isinstance(caught.value, SkerryError)


def test_an_error_is_found_in_the_text_around_it() -> None:
    marked = str(TaskError(NotFoundError("no file", location="f")))
    found = error_of(RuntimeError(f"Job aborted: {marked}\n\tat org.apache.spark"))
    assert isinstance(found, NotFoundError)
    assert (found.message, found.location) == ("no file", "f")
    assert error_of(RuntimeError("Job aborted")) is None
    with pytest.raises(NotFoundError), original_errors():
        raise RuntimeError(marked)
    with pytest.raises(RuntimeError), original_errors():
        raise RuntimeError("other")


def test_what_a_row_says_is_no_class_of_ours() -> None:
    import base64
    import json

    text = base64.b64encode(json.dumps({"type": "Any", "message": "x"}).encode()).decode()
    found = error_of(RuntimeError(f"<skerry-error {text}>"))
    assert type(found) is SkerryError
    text = base64.b64encode(json.dumps({"record": "1,2", "location": "f"}).encode()).decode()
    found = error_of(RuntimeError(f"<skerry-error {text}>"))
    assert isinstance(found, RefusedRecordError)
    assert (found.record, found.location) == ("1,2", "f")


@pytest.mark.spark
def test_landing_as_on_connect(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "is_classic", lambda spark: False)
    monkeypatch.setattr(executor, "is_classic", lambda spark: False)
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string())])
    table = skerry.connect(tmp_path).create_table("d.t", schema, partition_by=["bucket(4, k)"])
    ingest(spark, spark.range(40).selectExpr("id as k", "concat('a', id % 3) as s"), table)
    assert len(table.files()) == 4
    assert table.scan().count() == 40
    assert table.statistics()["s"].ndv == 3
    (tmp_path / "a.csv").write_text("k,s\n1,a\nx,b\n")
    with pytest.raises(SchemaError, match="line 3, column 'k': value 'x' does not fit int64"):
        ingest(spark, tmp_path / "a.csv", table)
