"""Transforms, serialised values and file metrics beside Iceberg Java's."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from java_manifests import JavaIceberg
from schema_samples import schemas

from skerry.iceberg.metadata.arrow_schema import to_arrow_schema, to_iceberg_schema, to_iceberg_type
from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from skerry.iceberg.partitioning.transforms import apply, parse_transform
from skerry.iceberg.writing.metrics import metrics_modes, parquet_data_file
from skerry.table.rows.values import decode_value, encode_value, is_uuid, physical_value

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def java(spark):
    return JavaIceberg(spark)


def java_type(java, type_):
    """Java's type, by way of a schema."""
    schema = to_iceberg_schema(pa.schema([("c", type_)]), format_version=3)
    return java.iceberg.SchemaParser.fromJson(json.dumps(schema.to_json())).findType("c")


DEFAULTS = [
    *((IntegerType(), value) for value in (0, -(2**31))),
    (LongType(), 2**63 - 1),
    *((FloatType(), value) for value in (0.10000000149011612, 1.401298464324817e-45, -0.0)),
    *((DoubleType(), value) for value in (0.1, 5e-324, 1.7976931348623157e308)),
    (BooleanType(), True),
    *((DecimalType(38, 10), Decimal(text)) for text in ("0.0000000000", "-1234567890123456789012345678.0123456789")),
    (DecimalType(9, 0), Decimal(7)),
    *((DateType(), value) for value in (0, -1, -719162, 2932896)),
    *((TimeType(), value) for value in (0, 1, 60_000_000, 86_399_999_999)),
    *((type_, value) for type_ in (TimestampType(), TimestamptzType()) for value in (0, -1, 1, 253402300799999999)),
    *((type_, value) for type_ in (TimestampNanoType(), TimestamptzNanoType()) for value in (0, -1, 2**63 - 1)),
    (StringType(), 'a"ü\U0001f642'),
    (UUIDType(), bytes(range(16))),
    (BinaryType(), b"\x00\xff"),
    (FixedType(2), b"\xab\x01"),
]


@pytest.mark.parametrize(("type_", "value"), DEFAULTS, ids=lambda one: str(one)[:30])
def test_java_reads_and_writes_the_same_defaults(java, type_, value):
    schema = Schema(NestedField(1, "c", type_, initial_default=value, write_default=value))
    theirs = java.iceberg.SchemaParser.fromJson(json.dumps(schema.to_json()))
    again = Schema.from_json(JsonObject(json.loads(java.iceberg.SchemaParser.toJson(theirs))))
    assert again == schema
    assert repr(again.fields[0].initial_default) == repr(value)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(schemas(all_types=True))
def test_java_reads_and_writes_the_same_schemas(java, schema):
    theirs = java.iceberg.SchemaParser.fromJson(json.dumps(schema.to_json()))
    again = Schema.from_json(JsonObject(json.loads(java.iceberg.SchemaParser.toJson(theirs))))
    assert again == schema
    assert again.schema_id == schema.schema_id


class Function:
    """A Java function of a serialised value; the value itself never passes py4j, which makes a long an Integer."""

    def __init__(self, java, type_):
        self.java, self.type = java, java_type(java, type_)
        handles = java.jvm.java.lang.invoke.MethodHandles
        lookup = handles.publicLookup()
        returns = java.class_named("java.lang.Object")
        classes = java.gateway.new_array(java.jvm.java.lang.Class, 2)
        classes[0], classes[1] = (
            java.class_named("org.apache.iceberg.types.Type"),
            java.class_named("java.nio.ByteBuffer"),
        )
        method = java.jvm.java.lang.invoke.MethodType.methodType(returns, classes)
        conversions = java.class_named("org.apache.iceberg.types.Conversions")
        self.decode = lookup.findStatic(conversions, "fromByteBuffer", method)
        one = java.gateway.new_array(java.jvm.java.lang.Class, 1)
        one[0] = returns
        self.apply_type = java.jvm.java.lang.invoke.MethodType.methodType(returns, one)
        self.handles, self.lookup = handles, lookup

    def __call__(self, transform, data):
        function = self.java.iceberg.transforms.Transforms.fromString(self.type, transform).bind(self.type)
        handle = self.lookup.findVirtual(
            self.java.class_named("java.util.function.Function"), "apply", self.apply_type
        ).bindTo(function)
        arguments = self.java.jvm.java.util.ArrayList()
        arguments.add(self.type)
        arguments.add(self.java.jvm.java.nio.ByteBuffer.wrap(data))
        return self.handles.filterReturnValue(self.decode, handle).invokeWithArguments(arguments)


# Java's own arithmetic goes wrong for widths from 2^30 on
NUMBERS = ["truncate(10, c)", "truncate(1000000007, c)", "bucket(16, c)", "bucket(2147483647, c)"]
TEXTS = ["truncate(1, c)", "truncate(3, c)", "bucket(7, c)"]
TIMES = ["year(c)", "month(c)", "day(c)", "hour(c)", "bucket(5, c)"]
MOMENTS = [0, -1, 1, -86_400_000_000, 86_399_999_999, 1512123175038194, -1512123175038194, -62_135_596_800_000_000]
CASES = [
    (pa.int32(), [0, 1, -1, 9, -9, 10, -10, 2**31 - 1, -(2**31)], NUMBERS),
    (pa.int64(), [0, 1, -1, 10, -11, 2**63 - 1, -(2**63), 2**40], NUMBERS),
    (pa.decimal128(9, 2), [Decimal("10.65"), Decimal("-0.01"), Decimal("0.00"), Decimal("14.20")], NUMBERS[::2]),
    (pa.decimal128(38, 4), [Decimal(10**33), Decimal(-(10**33)), Decimal("-0.0001")], NUMBERS[::2]),
    (pa.string(), ["", "iceberg", "aåß𝄞x", "𝄞𝄞𝄞𝄞", "日本語日本語"], TEXTS),
    (pa.binary(), [b"", b"\0\1\2\3", b"\xff" * 9], TEXTS),
    (pa.binary(5), [b"\0\1\2\3\xff", b"abcde"], ["bucket(7, c)"]),
    (pa.uuid(), [bytes(range(16)), b"\xff" * 16], ["bucket(7, c)"]),
    (pa.date32(), [0, -1, 364, 365, -365, -366, 17486, -719162], [*TIMES[:3], TIMES[4]]),
    (pa.time64("us"), [0, 81_068_000_000, 86_399_999_999], ["bucket(7, c)"]),
    (pa.timestamp("us"), MOMENTS, TIMES),
    (pa.timestamp("us", "UTC"), MOMENTS, TIMES),
    (pa.timestamp("ns"), [moment * 1000 + 999 for moment in MOMENTS[:-1]], TIMES),
    (pa.timestamp("ns", "UTC"), [moment * 1000 - 1 for moment in MOMENTS[:-1]], TIMES),
]


def column(type_, values):
    storage = pa.binary(16) if is_uuid(type_) else pa.int32() if pa.types.is_date32(type_) else type_
    storage = pa.int64() if pa.types.is_temporal(type_) and not pa.types.is_date32(type_) else storage
    return pa.array(values, storage).cast(type_)


@pytest.mark.parametrize(("type_", "values", "transforms"), CASES, ids=lambda part: str(part)[:20])
def test_transforms(java, type_, values, transforms):
    function = Function(java, type_)
    for text in transforms:
        transform = parse_transform(text)[1]
        result = apply(transform, column(type_, values))
        expected = [physical_value(result.type, item) for item in result]
        for value, mine in zip(values, expected, strict=True):
            theirs = function(str(transform), encode_value(type_, value))
            theirs = java.bytes(theirs) if isinstance(mine, bytes) else theirs
            theirs = theirs.toString() if hasattr(theirs, "toString") else theirs
            assert theirs == mine, (text, value)


# File metrics --------------------------------------------------------------------------------------------------------

TABLE = pa.table(
    {
        "bool": [True, None, False],
        "int": pa.array([3, None, -5], pa.int32()),
        "long": [2**62, None, -(2**62)],
        "float": pa.array([1.5, -2.5, None], pa.float32()),
        "double": [1e300, -1e300, 5.0],
        "nan": [math.nan, 1.0, None],
        "date": pa.array([0, -1, None], pa.int32()).cast(pa.date32()),
        "time": pa.array([0, 5, None], pa.time64("us")),
        "ts": pa.array([-1, 5, None], pa.timestamp("us")),
        "tz": pa.array([-1, 5, None], pa.timestamp("us", "UTC")),
        "ns": pa.array([-1, 5, None], pa.timestamp("ns")),
        "s": ["aéß𝄞" * 10, "b", None],
        "max": ["\U0010ffff" * 17, "", None],
        "bin": [b"\xfe" + b"\xff" * 20, b"", None],
        "maxbin": [b"\xff" * 20, b"\0" * 20, None],
        "fixed": pa.array([b"\xff" * 20, b"\0" * 20, None], pa.binary(20)),
        "d9": pa.array([Decimal("-1.28"), Decimal("9.99"), None], pa.decimal128(9, 2)),
        "d18": pa.array([Decimal("-1.28"), Decimal("9.99"), None], pa.decimal128(18, 2)),
        "d38": pa.array([Decimal("-1.28"), Decimal("9.99"), None], pa.decimal128(38, 2)),
        "allnull": pa.nulls(3, pa.int32()),
        "st": [{"x": 1, "y": {"z": "q"}}, None, {"x": None, "y": None}],
        "l": [[1, 2], None, []],
        "m": pa.array([[("k", 1.5)], None, []], pa.map_(pa.string(), pa.float64())),
        "ls": [[{"x": 1}], None, []],
    }
)


@pytest.mark.parametrize("options", [{}, {"row_group_size": 1}, {"version": "1.0"}], ids=str)
def test_file_metrics(java, tmp_path, options):
    schema = to_arrow_schema(to_iceberg_schema(TABLE.schema, format_version=3))
    path = tmp_path / "f.parquet"
    if options.get("version") == "1.0":  # which has no nanoseconds
        schema = schema.remove(schema.get_field_index("ns"))
    pq.write_table(TABLE.select(schema.names).cast(schema), path, **options)
    mine = parquet_data_file(str(path), pq.read_metadata(path), path.stat().st_size, schema, metrics_modes(schema, {}))
    default = java.iceberg.MetricsConfig.getDefault()
    theirs = java.iceberg.parquet.ParquetUtil.fileMetrics(java.iceberg.Files.localInput(str(path)), default)
    names = {int(field.metadata[b"PARQUET:field_id"]): field for field in schema}
    names_to_ids = {field.name: key for key, field in names.items()}
    assert theirs.recordCount() == mine.record_count
    assert dict(theirs.columnSizes()) == mine.column_sizes
    assert dict(theirs.valueCounts()) == mine.value_counts
    assert dict(theirs.nullValueCounts()) == mine.null_value_counts
    for bounds, of_java in (
        (mine.lower_bounds, java.byte_map(theirs.lowerBounds())),
        (mine.upper_bounds, java.byte_map(theirs.upperBounds())),
    ):
        if options == {"row_group_size": 1}:
            # one group has nothing but NaN, and so no statistics: Java passes over it, we then know nothing of the file
            del of_java[names_to_ids["nan"]]
        assert {key: shown(names, key, value) for key, value in bounds.items()} == {
            key: shown(names, key, value) for key, value in of_java.items()
        }


def shown(fields, key, data):
    """A bound with the name of its column, for a readable difference."""
    if key not in fields:
        return data
    value = decode_value(fields[key].type, data)
    return fields[key].name, value


def test_types_are_those_of_java(java):
    for type_, _, _ in CASES:
        assert java_type(java, type_).toString() == str(to_iceberg_type(type_, format_version=3))
