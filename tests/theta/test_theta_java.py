"""Theta sketches beside Java: Apache DataSketches and Iceberg in Spark's JVM."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from java_forms import FORMS, NOTHING_IN_COMMON, path_of
from java_sketches import JavaSketches, int_values
from test_theta_layout import old_version

from skerry.theta import Sample, ThetaSketch, difference, intersection, jaccard, union

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def java(spark: SparkSession) -> JavaSketches:
    return JavaSketches(spark._jvm)


def numbers_of(count: int, seed: int = 0, distinct: int = 1 << 60) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, distinct, count)


@pytest.mark.parametrize("name", [*FORMS, "nothing_in_common"])
def test_shipped_files_are_what_java_writes(java: JavaSketches, name: str):
    form = FORMS.get(name, NOTHING_IN_COMMON)
    assert form.java_bytes(java) == path_of(name).read_bytes()


@pytest.mark.parametrize("lg_k", range(9, 15))
@pytest.mark.parametrize("seed", [9001, 1, (1 << 63) - 25])
def test_same_bytes_as_the_alpha_sketch(java: JavaSketches, lg_k: int, seed: int):
    numbers = numbers_of(3 << lg_k, lg_k, 2 << lg_k)
    theirs = java.sketch_of(int_values(numbers), lg_k, seed)
    ours = ThetaSketch(lg_k, seed).update(numbers)
    assert ours.serialize() == java.bytes_of(theirs)
    assert ours.serialize(compressed=True) == bytes(theirs.compact(True, None).toByteArrayCompressed())


@pytest.mark.parametrize("count", [0, 1, 2, 511, 512, 513, 514, 1024, 100_000])
def test_same_bytes_at_every_stage(java: JavaSketches, count: int):
    numbers = numbers_of(count)
    assert ThetaSketch(9).update(numbers).serialize() == java.bytes_of(java.sketch_of(int_values(numbers), 9))


@pytest.mark.parametrize("count", [1, 2, 100, 1000, 30_000])
def test_same_estimate_and_bounds(java: JavaSketches, count: int):
    ours = ThetaSketch(9).update(numbers_of(count))
    theirs = java.read(ours.serialize())
    assert ours.estimate() == theirs.getEstimate()
    for std_devs in (1, 2, 3):
        assert ours.bounds(std_devs) == (theirs.getLowerBound(std_devs), theirs.getUpperBound(std_devs))


@pytest.mark.parametrize("lg_k", range(4, 15))
def test_same_union_for_every_size(java: JavaSketches, lg_k: int):
    parts = [numbers_of(count, 1, distinct) for count, distinct in ((10, 9), (6000, 3000), (20_000, 1 << 40))]
    theirs = java.union([java.sketch_of(int_values(part)) for part in parts], lg_k)
    ours = union([ThetaSketch().update(part) for part in parts], lg_k)
    assert ours.serialize() == bytes(theirs.toByteArray())
    sample = Sample()
    for part in parts:
        sample.merge(Sample().update(part))
    quick = [java.sketch_of(int_values(part), 13, family="QUICKSELECT") for part in parts]
    published = min(lg_k, 13)
    assert sample.to_sketch(published).serialize() == bytes(java.union(quick, published).toByteArray())


def test_same_set_operations(java: JavaSketches):
    limits = (0, 0), (0, 50), (20, 90), (0, 20_000), (10_000, 60_000), (1 << 40, (1 << 40) + 5000)
    ranges = [np.arange(*pair) for pair in limits]
    ours = [ThetaSketch().update(numbers) for numbers in ranges]
    theirs = [java.read(sketch.serialize()) for sketch in ours]
    for a, left in zip(ours, theirs, strict=True):
        for b, right in zip(ours, theirs, strict=True):
            common = java.theta.SetOperation.builder().buildIntersection().intersect(left, right)
            assert intersection([a, b]).serialize() == bytes(common.toByteArray())
            rest = java.theta.SetOperation.builder().buildANotB().aNotB(left, right)
            assert difference(a, b).serialize() == bytes(rest.toByteArray())
            similar = java.theta.JaccardSimilarity.jaccard(left, right)
            assert jaccard(a, b) == pytest.approx(tuple(similar), rel=1e-9, abs=1e-12)


OLD_VERSIONS = old_version(1, 3, [5, 9], 1000), old_version(2, 2, [5, 9]), old_version(2, 3, [5, 9], 1000)


@pytest.mark.parametrize("data", OLD_VERSIONS, ids=["1", "2 exact", "2 estimating"])
def test_java_reads_our_old_versions_the_same(java: JavaSketches, data: bytes):
    assert ThetaSketch.deserialize(data).serialize() == bytes(java.read(data).toByteArray())


LONGS, INTEGERS = [0, 1, -1, 1 << 40, -(1 << 63), (1 << 63) - 1], [0, 1, -1, 1 << 30, -(1 << 31)]
REALS = ["0.0", "-0.0", "1.5", "-Infinity", "NaN"]
STRINGS = ["a", "", "sixteen bytes ok", "grüße, 世界 🐧", "x" * 100]
BLOBS = [b"", b"\x00", b"\xff" * 17]
UUIDS = [uuid.UUID(int=1), uuid.UUID(bytes=bytes(range(16)))]
DECIMALS = ["0.00", "-1.28", "1.27", "1.28", "-327.69", "99999999.99"]
WIDE = [f"-{'9' * 36}.99", "92233720368547758.08", "-184467440737095516.17"]
MOMENTS = pa.array(LONGS[:4])

# Every primitive type of Iceberg: how to get it in Java, what parses its values there, the values as text, and for us.
ICEBERG_TYPES: list[tuple[str, str, list[Any], pa.Array]] = [
    ("BooleanType.get", "Boolean", ["true", "false"], pa.array([True, False])),
    ("IntegerType.get", "Integer", INTEGERS, pa.array(INTEGERS, pa.int32())),
    ("LongType.get", "Long", LONGS, pa.array(LONGS)),
    ("FloatType.get", "Float", REALS, pa.array(map(float, REALS), pa.float32())),
    ("DoubleType.get", "Double", REALS, pa.array(map(float, REALS))),
    ("DateType.get", "Integer", INTEGERS, pa.array(INTEGERS, pa.int32()).cast(pa.date32())),
    ("TimeType.get", "Long", LONGS[:2], pa.array(LONGS[:2]).cast(pa.time64("us"))),
    ("TimestampType.withoutZone", "Long", LONGS[:4], MOMENTS.cast(pa.timestamp("us"))),
    ("TimestampType.withZone", "Long", LONGS[:4], MOMENTS.cast(pa.timestamp("us", "UTC"))),
    ("TimestampNanoType.withoutZone", "Long", LONGS[:4], MOMENTS.cast(pa.timestamp("ns"))),
    ("StringType.get", "String", STRINGS, pa.array(STRINGS)),
    ("BinaryType.get", "hex", [blob.hex() for blob in BLOBS], pa.array(BLOBS)),
    ("FixedType.ofLength 3", "hex", ["616263", "000000"], pa.array([b"abc", bytes(3)], pa.binary(3))),
    ("UUIDType.get", "UUID", list(map(str, UUIDS)), pa.array([value.bytes for value in UUIDS], pa.binary(16))),
    ("DecimalType.of 10 2", "BigDecimal", DECIMALS, pa.array(map(Decimal, DECIMALS), pa.decimal128(10, 2))),
    ("DecimalType.of 38 2", "BigDecimal", WIDE, pa.array(map(Decimal, WIDE), pa.decimal128(38, 2))),
]


def parsers(java: JavaSketches, kind: str) -> list[Any]:
    """Functions in Java from a line of text to a value of a class."""
    text = "java.lang.String"
    if kind == "String":
        return []
    if kind == "hex":
        return [java.parse_hex, java.wrap]
    if kind == "UUID":
        return [java.function(java.static("java.util.UUID", "fromString", "java.util.UUID", text))]
    if kind == "BigDecimal":
        constructor = java.lookup.findConstructor(java.load("java.math.BigDecimal"), java.method_type("void", text))
        return [java.function(constructor)]
    return [java.function(java.static(f"java.lang.{kind}", "valueOf", f"java.lang.{kind}", text))]


@pytest.mark.parametrize(
    ("iceberg_type", "kind", "values", "column"), ICEBERG_TYPES, ids=[case[0] for case in ICEBERG_TYPES]
)
def test_every_iceberg_type_is_hashed_as_iceberg_does(
    java: JavaSketches, iceberg_type: str, kind: str, values: list[Any], column: pa.Array
):
    """What `compute_table_stats` does with a value: `Conversions.toByteBuffer`, then `UpdateSketch.update`."""
    name, *arguments = iceberg_type.split()
    class_name, method = name.split(".")
    of_type = getattr(getattr(java.jvm.org.apache.iceberg.types.Types, class_name), method)(*map(int, arguments))
    convert = java.static(
        "org.apache.iceberg.types.Conversions",
        "toByteBuffer",
        "java.nio.ByteBuffer",
        "org.apache.iceberg.types.Type",
        "java.lang.Object",
    )
    theirs = java.feed(java.fresh(), map(str, values), *parsers(java, kind), java.function(convert.bindTo(of_type)))
    assert ThetaSketch().update(column).serialize() == java.bytes_of(theirs)
