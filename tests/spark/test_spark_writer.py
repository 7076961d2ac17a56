"""Files written by Spark's own Parquet writer are what the table wants: types, ids, partitions, order."""

from __future__ import annotations

import threading
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sf

from skerry.errors import SchemaError
from skerry.iceberg.metadata.arrow_schema import to_iceberg_schema
from skerry.iceberg.partitioning.partitions import partition_spec
from skerry.iceberg.partitioning.sorting import sort_order
from skerry.iceberg.writing.layout import FileLayout
from skerry.spark.schema import to_spark_schema, written_by_spark
from skerry.spark.writing.arrow_writer import write_frame_as_arrow
from skerry.spark.writing.spark_writer import spark_can_write, write_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def layout_of(
    folder: Path, schema: pa.Schema, *, by: list[str] | None = None, sort: list[str] | None = None, **options: Any
) -> FileLayout:
    iceberg = to_iceberg_schema(schema, format_version=3)
    return FileLayout(
        table="d.t",
        folder=str(folder / "data" / "one write"),
        iceberg_schema=iceberg,
        spec=partition_spec(iceberg, by or []),
        sort_order=sort_order(iceberg, sort or []),
        modes={},
        sketched=(),
        **options,
    )


def frame_of(spark: SparkSession, layout: FileLayout, rows: list[dict[str, Any]]) -> DataFrame:
    table = pa.Table.from_pylist(rows, schema=layout.schema)
    return spark.createDataFrame(table, to_spark_schema(layout.schema))


def read(files: list[str]) -> list[dict[str, Any]]:
    return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]


ALL_TYPES = pa.schema(
    [
        pa.field("flag", pa.bool_()),
        pa.field("small", pa.int32(), nullable=False),
        pa.field("large", pa.int64()),
        pa.field("single", pa.float32()),
        pa.field("double", pa.float64()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("sum", pa.decimal128(38, 4)),
        pa.field("day", pa.date32()),
        pa.field("local", pa.timestamp("us")),
        pa.field("instant", pa.timestamp("us", "UTC")),
        pa.field("text", pa.string()),
        pa.field("bytes", pa.binary()),
        pa.field(
            "place",
            pa.struct(
                [pa.field("lat", pa.float64(), nullable=False), pa.field("deep", pa.struct([("x", pa.int32())]))]
            ),
        ),
    ]
)
ROWS = [
    {
        "flag": True,
        "small": -(2**31),
        "large": 2**63 - 1,
        "single": 1.5,
        "double": -0.0,
        "price": Decimal("-1234567.89"),
        "sum": Decimal("12345678901234567890.1234"),
        "day": date(1582, 10, 4),
        "local": datetime(1, 1, 1, 0, 0, 0, 1),
        "instant": datetime(2024, 3, 10, 7, 30, tzinfo=UTC),
        "text": "ä€𝄞",
        "bytes": b"\x00\xff",
        "place": {"lat": 0.5, "deep": {"x": 1}},
    },
    {name: 7 if name == "small" else None for name in ALL_TYPES.names},
    {
        name: 8 if name == "small" else {"lat": 2.0, "deep": None} if name == "place" else None
        for name in ALL_TYPES.names
    },
]


def test_every_type_as_the_table_has_it(spark: SparkSession, tmp_path: Path) -> None:
    layout = layout_of(tmp_path, ALL_TYPES)
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    files = write_frame(frame_of(session, layout, ROWS), layout)
    assert all(Path(file).is_relative_to(layout.folder) for file in files)
    assert sorted(read(files), key=lambda row: row["small"]) == ROWS
    assert pq.read_schema(files[0]).remove_metadata().equals(layout.schema, check_metadata=True)
    columns = {column.path: column for column in pq.ParquetFile(files[0]).schema}
    assert columns["instant"].physical_type == "INT64"
    assert columns["small"].max_definition_level == 0  # required
    assert columns["place.lat"].max_definition_level == 1
    assert pq.read_metadata(files[0]).row_group(0).column(0).compression == "ZSTD"


def test_the_same_frame_through_our_writer(spark: SparkSession, tmp_path: Path) -> None:
    layout = layout_of(tmp_path, ALL_TYPES, by=["day(instant)", "text"])
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    files = write_frame_as_arrow(frame_of(session, layout, ROWS), layout)
    assert sorted(read([file.data_file.location for file in files]), key=lambda row: row["small"]) == ROWS
    assert {file.data_file.partition for file in files} == {(19792, "ä€𝄞"), (None, None)}


PARTITIONED = pa.schema([("text", pa.string()), ("number", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


@pytest.mark.parametrize("through", ["spark", "arrow"])
def test_one_partition_per_file(spark: SparkSession, tmp_path: Path, through: str) -> None:
    layout = layout_of(tmp_path, PARTITIONED, by=["text", "bucket(3, number)", "month(at)"])
    texts = [None, "", "a/b", "ä" * 300, "EWR", "__HIVE_DEFAULT_PARTITION__"]
    rows = [
        {"text": texts[i % 6], "number": i % 5, "at": datetime(2013, 1 + i % 2, 28, tzinfo=UTC)} for i in range(600)
    ]
    frame = frame_of(spark, layout, rows).repartition(4)
    if through == "spark":
        files = write_frame(frame, layout)
    else:
        files = [file.data_file.location for file in write_frame_as_arrow(frame, layout)]
    partitions = []
    for file in files:
        content = pq.ParquetFile(file)
        assert content.schema_arrow.names == PARTITIONED.names
        partitions.append(layout.partition_of(content.metadata, content.read))
    assert len(set(partitions)) == len(partitions), "a partition has more than one file"
    assert {partition[0] for partition in partitions} == set(texts)
    key = lambda row: (str(row["text"]), row["number"], row["at"])  # noqa: E731
    assert sorted(read(files), key=key) == sorted(rows, key=key)


def test_rows_are_sorted_in_every_file(spark: SparkSession, tmp_path: Path) -> None:
    layout = layout_of(
        tmp_path, PARTITIONED, by=["month(at)"], sort=["text desc nulls last", "bucket(7, number)", "number"]
    )
    rows = [
        {"text": [None, "b", "a"][i % 3], "number": i * 37 % 100, "at": datetime(2013, 1 + i % 2, 3, tzinfo=UTC)}
        for i in range(300)
    ]
    files = write_frame(frame_of(spark, layout, rows).repartition(3), layout)
    assert len(files) == 2
    for file in files:
        table = pq.ParquetFile(file).read().cast(layout.schema)
        assert layout.sort(table).equals(table)


def test_missing_optional_columns_are_null_and_order_does_not_matter(spark: SparkSession, tmp_path: Path) -> None:
    layout = layout_of(tmp_path, pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())]))
    frame = spark.sql("select 'x' as b, cast(1 as int) as a")
    assert read(write_frame(frame, layout)) == [{"a": 1, "b": "x", "c": None}]


def test_odd_column_names(spark: SparkSession, tmp_path: Path) -> None:
    names = ["a.b", "a b", "`", "ä,;{}()=", "partition", "PARTITION_"]
    layout = layout_of(tmp_path, pa.schema([(name, pa.int64()) for name in names]), by=['"a b"', '"`"'])
    row = {name: i for i, name in enumerate(names)}
    files = write_frame(frame_of(spark, layout, [row]), layout)
    assert read(files) == [row]


LOSSLESS = [
    ("cast(7 as tinyint)", pa.int32(), 7),
    ("cast(7 as int)", pa.int64(), 7),
    ("7L", pa.int32(), 7),
    ("cast(7 as int)", pa.float64(), 7.0),
    ("9007199254740992L", pa.float64(), 2.0**53),
    ("cast(7 as smallint)", pa.float32(), 7.0),
    ("cast(1.5 as float)", pa.float64(), 1.5),
    ("7L", pa.decimal128(5, 2), Decimal("7.00")),
    ("cast(1.5 as decimal(3, 1))", pa.decimal128(10, 4), Decimal("1.5000")),
    ("cast(1.50 as decimal(10, 2))", pa.decimal128(2, 1), Decimal("1.5")),
    ("cast('x' as varchar(3))", pa.string(), "x"),
    ("null", pa.int64(), None),
    ("named_struct('b', 1L, 'a', 'x')", pa.struct([("a", pa.string()), ("b", pa.int32()), ("c", pa.bool_())]),
     {"a": "x", "b": 1, "c": None}),
]  # fmt: skip


def test_conversions_that_keep_every_value(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([(f"c{i}", type_) for i, (_, type_, _) in enumerate(LOSSLESS)])
    layout = layout_of(tmp_path, schema)
    frame = spark.range(1).select(*(sf.expr(f"{text} as c{i}") for i, (text, _, _) in enumerate(LOSSLESS)))
    assert read(write_frame(frame, layout)) == [{f"c{i}": value for i, (_, _, value) in enumerate(LOSSLESS)}]


@pytest.mark.parametrize(
    ("text", "type_", "message"),
    [
        ("3000000000L", pa.int32(), "column 'c': value 3000000000 does not fit int32"),
        ("1000L", pa.decimal128(5, 2), "column 'c': value 1000 does not fit decimal128(5, 2)"),
        ("9007199254740993L", pa.float64(), "column 'c': value 9007199254740993 does not fit double"),
        ("16777217", pa.float32(), "column 'c': value 16777217 does not fit float"),
        ("cast(1.25 as decimal(3, 2))", pa.decimal128(3, 1), "column 'c': value 1.25 does not fit decimal128(3, 1)"),
        ("named_struct('x', 3000000000L)", pa.struct([("x", pa.int32())]), "column 'c.x': value 3000000000 does not"),
    ],
)
def test_values_that_would_change_are_refused(
    spark: SparkSession, tmp_path: Path, text: str, type_: pa.DataType, message: str
) -> None:
    layout = layout_of(tmp_path, pa.schema([("c", type_)]))
    frame = spark.range(3).select(sf.expr(f"case when id = 1 then {text} end as c"))
    with pytest.raises(SchemaError) as caught:
        write_frame(frame, layout)
    assert message in str(caught.value)
    deadline = time.monotonic() + 30  # the other task of a job that has failed may be at work for a moment
    while (left := list(Path(layout.folder).rglob("*.parquet"))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("1L as id, 'x' as nmae", "the table has no column 'nmae'; did you mean 'name'?"),
        ("'x' as name", "required column 'id' is missing"),
        ("'1' as id, 'x' as name", "column 'id' is string in the data, but int64 in the table"),
        ("1L as id, current_timestamp() as at", "take its time zone off first"),
        ("1L as id, 1L as id", "column 'id' is in the data twice"),
        ("1L as id, make_ym_interval(1) as name", "column 'name': Spark type interval year to month cannot be stored"),
    ],
)
@pytest.mark.parametrize("write", [write_frame, write_frame_as_arrow])
def test_columns_that_do_not_fit_are_refused_before_any_row_is_read(
    spark: SparkSession, tmp_path: Path, write: Any, select: str, message: str
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("at", pa.timestamp("us"))])
    layout = layout_of(tmp_path, schema)
    with pytest.raises(SchemaError) as caught:
        write(spark.sql(f"select {select}"), layout)
    assert message in str(caught.value)
    assert not Path(layout.folder).exists()


@pytest.mark.parametrize("write", [write_frame, write_frame_as_arrow])
def test_null_in_a_required_column(spark: SparkSession, tmp_path: Path, write: Any) -> None:
    layout = layout_of(tmp_path, pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    with pytest.raises(SchemaError, match="column 'id' is required, but null in "):
        write(spark.range(5).selectExpr("case when id <> 3 then id end as id"), layout)


def test_settings_are_the_sessions_own_again(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    before = session.conf.getAll
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("k", pa.int64())])
    layouts = [layout_of(tmp_path / str(i), schema, by=["k"] if i else []) for i in range(3)]
    frame = session.sql("select timestamp'2013-01-01 00:00:00' as at, 1L as k")
    threads = [threading.Thread(target=write_frame, args=(frame, layout)) for layout in layouts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for layout in layouts:
        (file,) = Path(layout.folder).rglob("*.parquet")
        assert pq.read_schema(file).field("at").type == pa.timestamp("us", "UTC")
        assert pq.ParquetFile(file).schema.column(0).physical_type == "INT64"
    assert session.conf.getAll == before


def test_layout_decides_codec_and_row_groups(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64())])
    layout = layout_of(tmp_path, schema, codec="lz4", row_group_size_bytes=1 << 16)
    (file,) = write_frame(spark.range(200_000).selectExpr("id as k").coalesce(1), layout)
    metadata = pq.read_metadata(file)
    assert metadata.row_group(0).column(0).compression == "LZ4"
    assert metadata.num_row_groups > 1
    assert list(Path(layout.folder).iterdir()) == [Path(file)]


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (pa.int64(), True),
        (pa.struct([("x", pa.decimal128(4, 2))]), True),
        (pa.list_(pa.int64()), False),
        (pa.map_(pa.string(), pa.int64()), False),
        (pa.struct([("x", pa.list_(pa.int64()))]), False),
        (pa.uuid(), False),
        (pa.binary(16), False),
        (pa.time64("us"), False),
        (pa.timestamp("ns"), False),
        (pa.null(), False),
    ],
)
def test_which_types_spark_writes(type_: pa.DataType, expected: bool) -> None:
    assert written_by_spark(pa.schema([("c", type_)])) is expected


def test_where_spark_writes(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64())])
    assert spark_can_write(spark, layout_of(tmp_path, schema))
    layout = layout_of(tmp_path, schema)
    for folder, options, expected in [
        (f"file://{tmp_path}", {}, True),
        ("s3://bucket/t", {}, False),  # PySpark brings no client for S3
        ("hdfs://host/t", {}, True),
        ("hdfs://host/t", {"s3.session-token": "x"}, False),
    ]:
        object.__setattr__(layout, "folder", folder)
        object.__setattr__(layout, "storage_options", options)
        assert spark_can_write(spark, layout) is expected, folder
