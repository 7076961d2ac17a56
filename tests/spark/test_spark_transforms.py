"""Partition values computed in Spark's JVM agree with our own transforms and with Iceberg's Java library."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from skerry.errors import UnsupportedError
from skerry.iceberg.partitioning.transforms import apply, parse_transform
from skerry.spark.runtime.jvm import Jvm
from skerry.spark.schema import to_spark_type
from skerry.spark.writing.transforms import partition_key, transform_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

EPOCH = datetime(1970, 1, 1)
INSTANTS = [
    EPOCH,
    EPOCH - timedelta(microseconds=1),
    EPOCH - timedelta(days=1),
    datetime(1969, 12, 31, 22, 59, 59, 999999),
    datetime(1, 1, 1),
    datetime(1582, 10, 5, 4, 3, 2),
    datetime(1883, 11, 18, 12, 3, 58),
    datetime(1972, 2, 29, 23, 59, 59, 999999),
    datetime(2017, 11, 16, 22, 31, 8),
    datetime(2024, 3, 10, 2, 30),  # does not exist on the clocks of New York
    datetime(9999, 12, 31, 23, 59, 59, 999999),
    None,
]
DATES = [*sorted({instant.date() for instant in INSTANTS if instant}), date(1969, 12, 1), None]
TEXTS = ["", "a", "iceberg", "ä€𝄞x", "a" * 300, "𝄞𝄞𝄞𝄞", "null", "0", "1", "x\n", None]

COLUMNS: dict[str, tuple[pa.Array, list[str]]] = {
    "int": (
        pa.array([0, 1, -1, 34, 9, -10, 2**31 - 1, -(2**31), None], pa.int32()),
        ["c", "bucket(16, c)", "bucket(2147483647, c)", "truncate(10, c)", "truncate(7, c)", "void(c)"],
    ),
    "long": (
        pa.array([0, 1, -1, 34, 9, -10, 2**63 - 1, -(2**63), None], pa.int64()),
        ["c", "bucket(16, c)", "bucket(1, c)", "truncate(10, c)", "truncate(2147483647, c)", "void(c)"],
    ),
    "date": (pa.array(DATES, pa.date32()), ["c", "bucket(16, c)", "year(c)", "month(c)", "day(c)"]),
    "timestamp": (
        pa.array(INSTANTS, pa.timestamp("us")),
        ["c", "bucket(16, c)", "year(c)", "month(c)", "day(c)", "hour(c)"],
    ),
    "timestamptz": (
        pa.array(INSTANTS, pa.timestamp("us", "UTC")),
        ["c", "bucket(16, c)", "year(c)", "month(c)", "day(c)", "hour(c)"],
    ),
    "string": (pa.array(TEXTS, pa.string()), ["c", "bucket(16, c)", "truncate(1, c)", "truncate(3, c)"]),
    "binary": (
        pa.array([b"", b"\x00", b"\x00\x01\x02\x03", b"\xff" * 90, None], pa.binary()),
        ["c", "bucket(16, c)", "truncate(1, c)", "truncate(3, c)"],
    ),
    "short decimal": (
        pa.array(
            [Decimal(n).scaleb(-2) for n in (0, 1, -1, 1065, -1065, 99999, -99950, 128, -128)], pa.decimal128(5, 2)
        ),
        ["c", "bucket(16, c)", "truncate(50, c)", "truncate(7, c)"],
    ),
    "decimal": (
        pa.array([Decimal(n).scaleb(-4) for n in (0, 10**17, -(10**17), -1, 2**55)] + [None], pa.decimal128(18, 4)),
        ["bucket(16, c)", "truncate(50, c)"],
    ),
    "long decimal": (
        pa.array([Decimal(n) for n in (0, 1, -1, 10**37, 2**31 - 10**38, 2**64, -(2**64))], pa.decimal128(38, 0)),
        ["c", "bucket(16, c)", "truncate(50, c)", "truncate(2147483647, c)"],
    ),
    "boolean": (pa.array([True, False, None]), ["c", "void(c)"]),
    "float": (pa.array([0.0, 1.5, float("inf"), None], pa.float32()), ["c"]),
    "double": (pa.array([0.0, 1.5, float("-inf"), None], pa.float64()), ["c"]),
}
CASES = [(kind, text) for kind, (_, texts) in COLUMNS.items() for text in texts]


def number(value: Any) -> Any:
    """Times as what their transforms count, so that both sides can be compared."""
    return (value - date(1970, 1, 1)).days if type(value) is date else value


def frame_of(spark: SparkSession, array: pa.Array) -> DataFrame:
    """One column `c`, in one partition, so that the rows keep their order."""
    schema = StructType([StructField("c", to_spark_type(array.type))])
    return spark.createDataFrame(pa.table({"c": array}), schema).coalesce(1)


@pytest.fixture(params=["UTC", "America/New_York"])
def zoned(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", request.param)
    return session


def test_every_type_and_transform(zoned: SparkSession) -> None:
    jvm = Jvm(zoned)
    for kind, (array, texts) in COLUMNS.items():
        frame = frame_of(zoned, array)
        transforms = [parse_transform(text)[1] for text in texts]
        computed = [
            transform_column(jvm, frame["c"], array.type, str(transform)).alias(f"v{i}")
            for i, transform in enumerate(transforms)
        ]
        found = frame.select(*computed).toArrow()
        for i, (text, transform) in enumerate(zip(texts, transforms, strict=True)):
            expected = [number(value) for value in apply(transform, array).to_pylist()]
            assert [number(value) for value in found[f"v{i}"].to_pylist()] == expected, (kind, text)


def as_java(jvm: Any, value: Any) -> Any:
    """What Iceberg's Java library hashes: days, microseconds, big decimals, byte buffers."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return number(value)
    if isinstance(value, Decimal):
        return jvm.java.math.BigDecimal(str(value))
    return jvm.java.nio.ByteBuffer.wrap(value) if isinstance(value, bytes) else value


def test_buckets_agree_with_iceberg_java(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    for kind, (array, texts) in COLUMNS.items():
        if "bucket(16, c)" in texts:
            values = array.drop_null()
            hashes = [jvm.org.apache.iceberg.util.BucketUtil.hash(as_java(jvm, value)) for value in values.to_pylist()]
            frame = frame_of(spark, values)
            rows = frame.select(transform_column(Jvm(spark), frame["c"], array.type, "bucket[16]")).collect()
            assert [row[0] for row in rows] == [(value & 0x7FFFFFFF) % 16 for value in hashes], kind


def test_examples_of_the_specification(spark: SparkSession) -> None:
    """Spec: Iceberg spec, Appendix B: the table of hash values."""
    examples = [
        (pa.array([34], pa.int32()), 2017239379),
        (pa.array([34], pa.int64()), 2017239379),
        (pa.array([Decimal("14.20")], pa.decimal128(9, 2)), -500754589),
        (pa.array([date(2017, 11, 16)]), -653330422),
        (pa.array([datetime(2017, 11, 16, 22, 31, 8)], pa.timestamp("us")), -2047944441),
        (pa.array([datetime(2017, 11, 16, 22, 31, 8, tzinfo=UTC)], pa.timestamp("us", "UTC")), -2047944441),
        (pa.array(["iceberg"]), 1210000089),
        (pa.array([b"\x00\x01\x02\x03"]), -188683207),
    ]
    for array, expected in examples:
        frame = frame_of(spark, array)
        column = transform_column(Jvm(spark), frame["c"], array.type, "bucket[2147483647]")
        assert frame.select(column).first() == ((expected & 0x7FFFFFFF) % 2147483647,), array.type


def test_keys_tell_all_values_apart(spark: SparkSession) -> None:
    texts = [*TEXTS, "2" + "0" * 63, "a,b", "a", "a/b", "..", "%41", "A", "a" * 40, "a" * 41]
    pairs = [(first, second) for first in texts for second in (None, "", "0", "a,1", "x" * 50)]
    frame = spark.createDataFrame(pairs, "a string, b string")
    key = partition_key([(frame["a"], pa.string()), (frame["b"], pa.string()), (sf.length("a"), pa.int64())])
    keys = frame.select("a", "b", key.alias("key")).distinct().collect()
    assert len({row.key for row in keys}) == len(set(pairs))
    assert all(len(row.key) <= 160 for row in keys)


def test_keys_need_no_escaping_in_a_path(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(text,) for text in TEXTS], "a string")
    for row in frame.select(partition_key([(frame["a"], pa.string())]).alias("key")).collect():
        assert row.key.replace(".", "").replace("-", "").isalnum()
        assert row.key.isascii()


def test_readable_keys(spark: SparkSession) -> None:
    frame = spark.sql("select 'EWR' as a, -7 as b, cast(null as string) as c, X'0aff' as d, '' as e")
    types = [pa.string(), pa.int32(), pa.string(), pa.binary(), pa.string()]
    key = partition_key((frame[name], type_) for name, type_ in zip("abcde", types, strict=True))
    assert frame.select(key).first() == ("1EWR,1-7,0,10AFF,1",)


@pytest.mark.parametrize(
    ("type_", "transform"),
    [(pa.time64("us"), "bucket[4]"), (pa.bool_(), "bucket[4]"), (pa.date32(), "truncate[4]"), (pa.date32(), "zorder")],
)
def test_what_spark_does_not_compute(spark: SparkSession, type_: pa.DataType, transform: str) -> None:
    with pytest.raises(UnsupportedError, match=r"Spark|zorder"):
        transform_column(Jvm(spark), sf.lit(1), type_, transform)
