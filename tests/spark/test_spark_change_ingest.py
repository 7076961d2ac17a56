"""Following a source of changes on Spark: streams that restart, refused records, sources that change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skerry
from skerry.catalog import Table
from skerry.errors import SchemaError, SkerryError, UnsupportedError
from skerry.spark.runtime.failures import original_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("amount", pa.decimal128(8, 2)),
        pa.field("count", pa.int32(), nullable=False),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("day", pa.date32()),
    ]
)
ROW = {"id": 1, "name": "n", "amount": "1.50", "count": 1, "at": "2024-01-02T03:04:05.5Z", "day": 19000}
KAFKA = "value string, topic string, partition int, offset long"


def record(op: str, row: dict[str, Any] | None, lsn: int, before: dict[str, Any] | None = None) -> str:
    return json.dumps({"op": op, "before": before, "after": row, "source": {"lsn": lsn, "table": "t"}, "ts_ms": 1})


def upsert(lsn: int, **values: Any) -> str:
    return record("u", {**ROW, **values}, lsn)


def delete(lsn: int, id: int) -> str:
    return record("d", None, lsn, {"id": id})


@pytest.fixture
def tables(tmp_path: Path) -> list[Table]:
    """An Iceberg table with deletion vectors and a Paimon table, with a key."""
    catalog = skerry.connect(tmp_path / "warehouse")
    vectors = {"format-version": "3", "write.merge.mode": "merge-on-read"}
    return [
        catalog.create_table("t.iceberg", SCHEMA, primary_key=["id"], properties=vectors),
        catalog.create_table("t.paimon", SCHEMA, format="paimon", primary_key=["id"], partition_by=["bucket(2, id)"]),
    ]


def frame(spark: SparkSession, *records: str | None) -> DataFrame:
    rows = [(text, "topic", 0, offset) for offset, text in enumerate(records)]
    return spark.createDataFrame(rows, KAFKA)


def counts(table: Table) -> dict[int, int]:
    rows = table.refresh().scan(columns=["id", "count"]).to_arrow()
    return dict(zip(rows.column("id").to_pylist(), rows.column("count").to_pylist(), strict=True))


def test_a_batch_goes_to_both_tables_once(spark: SparkSession, tables: list[Table]) -> None:
    records = frame(
        spark,
        upsert(1, id=1, count=1),
        None,  # a tombstone
        upsert(4, id=2, count=9),
        upsert(2, id=1, count=2),
        upsert(3, id=2, count=3),
        delete(5, 1),
        json.dumps({"schema": {}, "payload": json.loads(upsert(6, id=3, at=1704164645500000, day="2022-01-08"))}),
        record("u", {**ROW, "id": 5}, 7, {**ROW, "id": 4}),
    )
    done = skerry.spark.ingest_changes(spark, records, tables, stream="s", batch=3)
    assert (done.records, done.refused) == (7, 0)
    assert [told.applied for told in done.tables] == [True, True]
    for table in tables:
        rows = table.scan().to_arrow().sort_by("id").to_pylist()
        assert [row["id"] for row in rows] == [2, 3, 5]
        assert rows[0]["count"] == 9
        assert rows[1] == {**rows[2], "id": 3}  # however its times were written
    again = skerry.spark.ingest_changes(spark, frame(spark, delete(9, 2)), tables, stream="s", batch=3)
    assert [told.applied for told in again.tables] == [False, False]
    assert counts(tables[0]) == counts(tables[1]) == {2: 9, 3: 1, 5: 1}


def start(spark: SparkSession, folder: Path, tables: list[Table], **options: Any) -> StreamingQuery:
    source = spark.readStream.schema(KAFKA).option("maxFilesPerTrigger", 1).parquet(str(folder / "records"))
    return skerry.spark.ingest_change_stream(
        spark, source, tables, checkpoint=str(folder / "checkpoint"), stream="s", available_now=True, **options
    )


def run(spark: SparkSession, folder: Path, tables: list[Table]) -> None:
    with original_errors():
        start(spark, folder, tables).awaitTermination()


def deliver(folder: Path, number: int, *records: str) -> None:
    (folder / "records").mkdir(exist_ok=True)
    columns = [list(records), ["topic"] * len(records), [0] * len(records), list(range(len(records)))]
    types = [pa.string(), pa.string(), pa.int32(), pa.int64()]
    arrays = [pa.array(values, type_) for values, type_ in zip(columns, types, strict=True)]
    table = pa.table(dict(zip(["value", "topic", "partition", "offset"], arrays, strict=True)))
    pq.write_table(table, folder / "records" / f"{number}.parquet")


def test_a_stream_goes_on_after_a_restart_and_a_batch_that_died_between_its_tables(
    spark: SparkSession,
    tables: list[Table],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    deliver(tmp_path, 0, upsert(1, id=1, count=1), upsert(2, id=2, count=1))
    told: list[Any] = []
    start(spark, tmp_path, tables, progress=told.append).awaitTermination()
    assert [(done.batch, done.records) for done in told] == [(0, 2)]

    deliver(tmp_path, 1, upsert(3, id=1, count=2), delete(4, 2))
    apply_changes = Table.apply_changes

    def dies(table: Table, *args: Any, **options: Any) -> Any:
        if table.format == "paimon":
            raise SkerryError("the machine went away")
        return apply_changes(table, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Table, "apply_changes", dies)
        with pytest.raises(SkerryError, match="the machine went away"):
            run(spark, tmp_path, tables)
    assert counts(tables[0]) == {1: 2}
    assert counts(tables[1]) == {1: 1, 2: 1}
    deliver(tmp_path, 2, upsert(5, id=2, count=3))
    told.clear()
    start(spark, tmp_path, tables, progress=told.append).awaitTermination()
    assert [[table.applied for table in done.tables] for done in told] == [[False, True], [True, True]]
    assert counts(tables[0]) == counts(tables[1]) == {1: 2, 2: 3}
    assert len(tables[0].snapshots()) == 3

    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(SkerryError, match=r"batch 0 of stream 's' of query .* is refused: the table has batch 2 of"):
        run(spark, tmp_path, tables)
    capsys.readouterr()
    start(spark, tmp_path, tables, take_over=True, progress=True).awaitTermination()
    assert capsys.readouterr().err.splitlines() == [
        "batch 0: 2 records",
        "batch 1: 2 records",
        "batch 2: 1 records",
    ]
    assert counts(tables[0]) == counts(tables[1]) == {1: 2, 2: 3}  # what was applied again changes nothing


REFUSED = [
    ("nonsense", "not a JSON object", None, None),
    ("[1]", "not a JSON object", None, None),
    (record("x", ROW, 1), "op 'x' is not an op code", None, "x"),
    (record("u", None, 1), "the row in 'after' is null", None, None),
    (record("d", ROW, 1), "a delete without a row in 'before'", None, None),
    (upsert(1, count="many"), "column 'count': value 'many' does not fit int32", "count", "many"),
    (upsert(1, count=1.5), "column 'count': value '1.5' does not fit int32", "count", "1.5"),
    (upsert(1, count=None), "column 'count' is required, but null", "count", None),
    (upsert(1, id=None), "column 'id' of the key is null", "id", None),
    (upsert(1, at="soon"), "column 'at': value 'soon' does not fit timestamp[us, tz=UTC]", "at", "soon"),
    (upsert(1, day="2024-02-30"), "column 'day': value '2024-02-30' does not fit date32[day]", "day", "2024-02-30"),
    (
        upsert(1, name="__debezium_unavailable_value"),
        "column 'name': the source has left out its value (REPLICA IDENTITY FULL includes it)",
        "name",
        None,
    ),
    (record("u", ROW, None), "source.lsn, by which records are ordered, is null", None, None),  # type: ignore[arg-type]
]


def test_a_refused_record_ends_the_job(spark: SparkSession, tables: list[Table]) -> None:
    records = frame(spark, upsert(1, id=1), REFUSED[5][0])
    with pytest.raises(SchemaError) as caught:
        skerry.spark.ingest_changes(spark, records, tables, stream="s", batch=0)
    assert str(caught.value) == (
        "record at topic topic, partition 0, offset 1: column 'count': value 'many' does not fit int32; "
        "on_bad_record= can name a table for such records"
    )
    assert [table.refresh().snapshots() for table in tables] == [[], []]


@pytest.mark.parametrize("which", [0, 1], ids=["iceberg", "paimon"])
def test_refused_records_go_to_a_table_of_their_own_before_the_others_do(
    which: int, spark: SparkSession, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tables[which]
    records = frame(spark, upsert(1, id=7, count=7), *(text for text, *_ in REFUSED), delete(2, 8))

    def dies(*args: Any, **options: Any) -> Any:
        raise SkerryError("the machine went away")

    with monkeypatch.context() as patched:
        patched.setattr(Table, "apply_changes", dies)
        with pytest.raises(SkerryError, match="the machine went away"):
            skerry.spark.ingest_changes(spark, records, table, stream="s", batch=0, on_bad_record="t.refused")
    assert table.refresh().snapshots() == []
    for applied in (True, False):  # and again
        done = skerry.spark.ingest_changes(spark, records, table, stream="s", batch=0, on_bad_record="t.refused")
        assert (done.records, done.refused, done.tables[0].applied) == (2, len(REFUSED), applied)
    assert counts(table) == {7: 7}
    refused = table.catalog.load_table("t.refused")
    assert refused.format == table.format
    rows = {row["position"]: row for row in refused.scan().to_arrow().to_pylist()}
    assert len(rows) == refused.scan().count() == len(REFUSED)
    for offset, (text, reason, column, value) in enumerate(REFUSED, 1):
        row = rows[f"topic topic, partition 0, offset {offset}"]
        assert (row["reason"], row["column"], row["value"], row["record"]) == (reason, column, value, text)
        assert (row["stream"], row["batch"]) == ("s", 0)


def test_a_source_that_has_changed_is_refused_with_the_difference(spark: SparkSession, tables: list[Table]) -> None:
    without = {name: value for name, value in ROW.items() if name != "name"}
    for changed, difference in (
        (upsert(2, more=5), "the table has no column 'more', found int64"),
        (record("c", without, 2), "column 'name': expected string, found no field"),
        (upsert(2, count=3_000_000_000), "column 'count': expected int32, found int64"),
        (upsert(2, amount="12345678.50"), "column 'amount': expected decimal128(8, 2), found decimal128(10, 2)"),
    ):
        records = frame(spark, upsert(1), changed)
        with pytest.raises(SchemaError) as caught:
            skerry.spark.ingest_changes(spark, records, tables, on_bad_record="t.refused")
        assert str(caught.value) == f"the source has changed: {difference} (in t.iceberg)"
    assert [table.refresh().snapshots() for table in tables] == [[], []]


def test_tables_follow_a_source_that_has_changed_also_when_killed_meanwhile(
    spark: SparkSession, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    without = {name: value for name, value in ROW.items() if name != "name"}
    records = frame(
        spark,
        upsert(1, id=1),
        upsert(2, id=2, more=None, count=3_000_000_000),
        upsert(3, id=3, more="new", amount="12345678.50"),
        record("c", {**without, "id": 4}, 4),
    )

    def dies(*args: Any, **options: Any) -> Any:
        raise SkerryError("the machine went away")

    with monkeypatch.context() as patched:
        patched.setattr(Table, "apply_changes", dies)
        with pytest.raises(SkerryError, match="the machine went away"):
            skerry.spark.ingest_changes(spark, records, tables, stream="s", batch=0, drift="evolve")
    for applied in (True, False):
        done = skerry.spark.ingest_changes(spark, records, tables, stream="s", batch=0, drift="evolve")
        assert [told.applied for told in done.tables] == [applied, applied]
    for table in tables:
        assert [str(field.type) for field in table.refresh().schema if field.name in ("amount", "count", "more")] == [
            "decimal128(10, 2)",
            "int64",
            "string",
        ]
        rows = table.scan(columns=["id", "name", "count", "more"]).to_arrow().sort_by("id")
        assert rows.column("more").to_pylist() == [None, None, "new", None]
        assert rows.column("name").to_pylist() == ["n", "n", "n", None]
        assert rows.column("count").to_pylist() == [1, 3_000_000_000, 1, 1]


def test_records_with_types_of_their_own(spark: SparkSession, tables: list[Table]) -> None:
    rows = spark.sql(
        "select * from values ('c', 1L, 'a', 1.5BD, 1L, 1L), ('u', 1L, 'b', 2BD, 5L, 2L), "
        "('d', 2L, null, null, null, 3L), ('u', 3L, 'c', 3BD, 3000000000L, 4L), ('x', 4L, 'd', 4BD, 4L, 5L) "
        "as (op, id, name, amount, count, lsn)"
    ).selectExpr("*", "timestamp'2024-01-01 00:00:00' as at", "date'2024-01-01' as day")
    how = skerry.spark.ChangeFormat(order_by=("lsn",))
    with pytest.raises(SchemaError, match="column 'count': expected int32, found int64"):
        skerry.spark.ingest_changes(spark, rows, tables, format=how, on_bad_record="t.refused")
    done = skerry.spark.ingest_changes(spark, rows, tables, format=how, on_bad_record="t.refused", drift="evolve")
    assert (done.records, done.refused) == (4, 1)
    assert counts(tables[0]) == counts(tables[1]) == {1: 5, 3: 3_000_000_000}
    refused = tables[0].catalog.load_table("t.refused").scan().to_arrow().to_pylist()
    assert [row["reason"] for row in refused] == ["op 'x' is not an op code"]


def test_what_cannot_be_followed_is_said_first(spark: SparkSession, tables: list[Table], tmp_path: Path) -> None:
    records = frame(spark, upsert(1))
    with pytest.raises(UnsupportedError, match="format='debezum' is not supported; did you mean 'debezium'"):
        skerry.spark.ingest_changes(spark, records, tables, format="debezum")
    with pytest.raises(SchemaError, match="drift must be refuse or evolve, found 'ignore'"):
        skerry.spark.ingest_changes(spark, records, tables, drift="ignore")
    with pytest.raises(SchemaError, match="no column 'id2'"):
        skerry.spark.ingest_changes(spark, records, tables, on="id2")
    with pytest.raises(SchemaError, match="the frame has no column 'value'"):
        skerry.spark.ingest_changes(spark, records.withColumnRenamed("value", "text"), tables)
    how = skerry.spark.ChangeFormat(value="value", order_by=("sorce.lsn",))
    with pytest.raises(SchemaError, match="records cannot be ordered by 'sorce"):
        skerry.spark.ingest_changes(spark, records, tables, format=how)
    plain = tables[0].catalog.create_table("t.plain", SCHEMA)
    with pytest.raises(SchemaError, match="the table has no key: change records need on="):
        skerry.spark.ingest_changes(spark, records, plain)
    with pytest.raises(SchemaError, match="a table of refused records has the columns reason"):
        skerry.spark.ingest_changes(spark, records, tables, on_bad_record=plain)
    stream = spark.readStream.schema(KAFKA).parquet(str(tmp_path))
    with pytest.raises(SchemaError, match="found a streaming frame; use ingest_change_stream"):
        skerry.spark.ingest_changes(spark, stream, tables)
    with pytest.raises(SchemaError, match="found a frame; use ingest_changes"):
        skerry.spark.ingest_change_stream(spark, records, tables, checkpoint=str(tmp_path / "checkpoint"))
