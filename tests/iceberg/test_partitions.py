"""Partition specs from text, partition tuples of rows, partition folders."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import peer_schema, peer_spec
from pyiceberg.typedef import Record

from skerry.errors import SchemaError, UnsupportedError
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema
from skerry.iceberg.metadata.partition_spec import PartitionField, PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    parse_transform,
)
from skerry.iceberg.metadata.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from skerry.iceberg.partitioning.partitions import (
    partition_columns,
    partition_path,
    partition_spec,
    partition_type,
    split_by_partition,
)
from skerry.table.rows.schema import field_id

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "ts", TimestamptzType()),
    NestedField(3, "s", StringType()),
    NestedField(4, "x", DoubleType()),
    NestedField(
        5, "place", StructType(NestedField(6, "country", StringType()), NestedField(7, "zip.code", IntegerType()))
    ),
    NestedField(8, "tags", ListType(9, StringType())),
    NestedField(10, "u", UUIDType()),
    NestedField(11, "d", DecimalType(9, 2)),
    NestedField(12, "ts_day", DateType()),
    NestedField(13, "day", DateType()),
)


def test_specs_have_icebergs_names_and_ids():
    spec = partition_spec(SCHEMA, ["month(ts)", "bucket(16, id)", "truncate(2, s)", "x", "void(u)"], spec_id=3)
    assert spec == PartitionSpec(
        PartitionField(2, 1000, MonthTransform(), "ts_month"),
        PartitionField(1, 1001, BucketTransform(16), "id_bucket"),
        PartitionField(3, 1002, TruncateTransform(2), "s_trunc"),
        PartitionField(4, 1003, IdentityTransform(), "x"),
        PartitionField(10, 1004, VoidTransform(), "u_null"),
        spec_id=3,
    )
    assert partition_spec(SCHEMA, []) == PartitionSpec(spec_id=0)


def test_names_may_be_given_and_columns_may_lie_in_structs():
    spec = partition_spec(
        SCHEMA, ["day(ts) as d1", 'place.country AS "the country"', 'bucket(3, "place.zip.code")', "day"]
    )
    assert [(field.source_id, field.name) for field in spec.fields] == [
        (2, "d1"),
        (6, "the country"),
        (7, "place.zip.code_bucket"),
        (13, "day"),
    ]
    assert spec.fields[0].transform == DayTransform()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["day(tsday)"], "no column 'tsday' to partition or sort by; did you mean 'ts_day'"),
        (["tags"], "no column 'tags'"),
        (["place"], "no column 'place'"),
        (["hour(ts_day)"], "hour does not apply to a column of type date32"),
        (["bucket(4, x)"], "does not apply to a column of type double"),
        (["day(ts)"], "the name 'ts_day' is taken; give it another"),
        (["id", "id"], "column 'id' is partitioned in this way already"),
        (["month(ts)", "hour(ts)"], "column 'ts' is partitioned in this way already"),
        (["id", "bucket(4, s) as id"], "the name 'id' is taken"),
        (["bucket(4, id) as s"], "the name 's' is taken"),
    ],
    ids=str,
)
def test_specs_that_mean_nothing_are_refused(fields, message):
    with pytest.raises(SchemaError, match=message):
        partition_spec(SCHEMA, fields)


def test_partitions_that_iceberg_java_cannot_read_are_refused():
    schema = Schema(NestedField(1, "f", FixedType(3)))
    with pytest.raises(UnsupportedError, match=r"Iceberg Java cannot read partitions by fixed_size_binary\[3\]"):
        partition_spec(schema, ["f"])
    assert partition_type(schema, partition_spec(schema, ["bucket(4, f)", "void(f)"])).names == ["f_bucket", "f_null"]


def test_the_type_of_a_partition_tuple():
    spec = partition_spec(SCHEMA, ["hour(ts)", "day(ts_day) as of_day", "u", "truncate(3, d)"])
    type_ = partition_type(SCHEMA, spec)
    assert type_.types == [pa.int32(), pa.date32(), pa.uuid(), pa.decimal128(9, 2)]
    assert [field_id(field) for field in type_] == [1000, 1001, 1002, 1003]
    assert all(field.nullable for field in type_)


def test_a_dropped_column_only_matters_where_its_type_does():
    spec = partition_spec(SCHEMA, ["bucket(4, id)", "day(ts) as of_day"])
    assert partition_type(Schema(), spec).types == [pa.int32(), pa.date32()]
    with pytest.raises(SchemaError, match="partition field 's': the schema has no column 3"):
        partition_type(Schema(), partition_spec(SCHEMA, ["s"]))


def batch(**columns):
    return pa.RecordBatch.from_pydict(columns)


def test_rows_are_split_in_the_order_of_their_first_rows_and_keep_their_order():
    schema = Schema(NestedField(1, "k", StringType()), NestedField(2, "n", LongType()))
    rows = batch(k=["b", "a", "b", None, "a", ""], n=[0, 1, 2, 3, 4, 5])
    split = split_by_partition(schema, partition_spec(schema, ["k"]), rows)
    assert [(values, part["n"].to_pylist()) for values, part in split] == [
        (("b",), [0, 2]),
        (("a",), [1, 4]),
        ((None,), [3]),
        (("",), [5]),
    ]
    assert all(part.schema.equals(rows.schema, check_metadata=True) for _, part in split)


def test_one_partition_is_the_batch_itself_and_no_rows_are_none():
    schema = Schema(NestedField(1, "k", StringType()))
    rows = batch(k=["a", "a"])
    ((values, part),) = split_by_partition(schema, partition_spec(schema, ["k"]), rows)
    assert values == ("a",)
    assert part is rows
    assert split_by_partition(schema, partition_spec(schema, []), rows) == [((), rows)]
    assert split_by_partition(schema, partition_spec(schema, ["k"]), rows.slice(0, 0)) == []


def test_nan_is_one_partition_and_the_zeros_are_two():
    schema = Schema(NestedField(1, "x", DoubleType()), NestedField(2, "f", FloatType()))
    values = pa.array([math.nan, 0.0, -0.0, -math.nan, None])
    rows = batch(x=values, f=values.cast(pa.float32()))
    for column in ("x", "f"):
        split = split_by_partition(schema, partition_spec(schema, [column]), rows)
        assert [str(values[0]) for values, _ in split] == ["nan", "0.0", "-0.0", "None"]
        assert split[0][1].num_rows == 2


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.sampled_from(["", "a", "b"])),
            st.one_of(st.none(), st.integers(-5, 5)),
            st.one_of(st.none(), st.binary(min_size=16, max_size=16)),
        ),
        max_size=30,
    )
)
def test_every_row_lands_in_its_own_partition(rows):
    schema = Schema(NestedField(1, "k", StringType()), NestedField(2, "n", LongType()), NestedField(3, "u", UUIDType()))
    spec = partition_spec(schema, ["k", "truncate(3, n)", "bucket(2, u)"])
    arrow = to_arrow_schema(schema)
    arrays = [
        pa.array([row[0] for row in rows], pa.string()),
        pa.array([row[1] for row in rows], pa.int64()),
        pa.array([row[2] for row in rows], pa.binary(16)).cast(pa.uuid()),
    ]
    split = split_by_partition(schema, spec, pa.RecordBatch.from_arrays(arrays, schema=arrow))
    assert sum(part.num_rows for _, part in split) == len(rows)
    assert len({values for values, _ in split}) == len(split)
    for values, part in split:
        for column, value in zip(partition_columns(schema, spec, part), values, strict=True):
            assert column.to_pylist() == [value] * part.num_rows


def test_nested_columns_are_found_and_are_null_where_their_struct_is():
    spec = partition_spec(SCHEMA, ["place.country", 'truncate(10, "place.zip.code")'])
    places = [{"country": "NL", "zip.code": 1012}, None, {"country": None, "zip.code": 7}]
    arrow = to_arrow_schema(SCHEMA).field("place")
    rows = pa.RecordBatch.from_arrays([pa.array(places, arrow.type)], schema=pa.schema([arrow]))
    columns = partition_columns(SCHEMA, spec, rows)
    assert [column.to_pylist() for column in columns] == [["NL", None, None], [1010, None, 0]]
    table = pa.Table.from_batches([rows, rows])
    assert partition_columns(SCHEMA, spec, table)[0].to_pylist() == ["NL", None, None] * 2


# the same folders as Iceberg Java makes (tests/iceberg/test_java_partitions.py compares live)
PATHS = [
    (IntegerType(), "identity", -5, "c=-5"),
    (BooleanType(), "identity", True, "c=true"),
    (StringType(), "identity", "a b/ü=%~*", "c=a+b%2F%C3%BC%3D%25%7E*"),
    (StringType(), "identity", "", "c="),
    (StringType(), "identity", None, "c=null"),
    (DateType(), "identity", -1, "c=1969-12-31"),
    (TimeType(), "identity", 36_775_038_194, "c=10%3A12%3A55.038194"),
    (TimeType(), "identity", 0, "c=00%3A00"),
    (TimeType(), "identity", 60_000_000, "c=00%3A01"),
    (TimeType(), "identity", 1_000_000, "c=00%3A00%3A01"),
    (TimeType(), "identity", 500_000, "c=00%3A00%3A00.500"),
    (TimeType(), "identity", 1, "c=00%3A00%3A00.000001"),
    (TimestampType(), "identity", 1512123175038194, "c=2017-12-01T10%3A12%3A55.038194"),
    (TimestamptzType(), "identity", 1512123175000000, "c=2017-12-01T10%3A12%3A55%2B00%3A00"),
    (TimestampNanoType(), "identity", -1, "c=1969-12-31T23%3A59%3A59.999999999"),
    (DecimalType(9, 2), "identity", Decimal("-1.50"), "c=-1.50"),
    (BinaryType(), "identity", b"\0\xff", "c=AP8%3D"),
    (FixedType(2), "identity", b"\0\xff", "c=AP8%3D"),
    (UUIDType(), "identity", uuid.UUID(int=5).bytes, "c=00000000-0000-0000-0000-000000000005"),
    (TimestampType(), "year", -1, "c_year=1969"),
    (TimestampType(), "month", -1, "c_month=1969-12"),
    (DateType(), "day", 17501, "c_day=2017-12-01"),
    (TimestampType(), "hour", -1, "c_hour=1969-12-31-23"),
    (LongType(), "bucket[7]", 3, "c_bucket=3"),
    (StringType(), "truncate[3]", "abc", "c_trunc=abc"),
    (LongType(), "void", None, "c_null=null"),
]


@pytest.mark.parametrize(("type_", "transform", "value", "path"), PATHS, ids=str)
def test_folders_are_readable(type_, transform, value, path):
    schema = Schema(NestedField(1, "c", type_))
    spec = PartitionSpec(PartitionField(1, 1000, parse_transform(transform), path.split("=")[0]))
    assert partition_path(schema, spec, (value,)) == path
    # PyIceberg writes some otherwise than Java
    if not isinstance(type_, TimestampNanoType | TimeType | FixedType | BooleanType | UUIDType):
        theirs = peer_spec(spec).partition_to_path(Record(value), peer_schema(schema))
        assert theirs.replace("%2A", "*").replace("~", "%7E") == path


def test_folders_of_several_fields_and_of_long_values():
    spec = partition_spec(SCHEMA, ["s", "bucket(4, id)"])
    assert partition_path(SCHEMA, spec, ("x", 3)) == "s=x/id_bucket=3"
    assert partition_path(SCHEMA, partition_spec(SCHEMA, []), ()) == ""
    paths = [partition_path(SCHEMA, spec, (letter * 300 + "!", 3)).split("/")[0] for letter in "ab"]
    paths.append(partition_path(SCHEMA, spec, ("a" * 300 + "?", 3)).split("/")[0])
    assert len(set(paths)) == 3
    assert {len(path) for path in paths} == {200}


def test_days_beyond_the_years_of_python():
    schema = Schema(NestedField(1, "c", DateType()))
    spec = partition_spec(schema, ["c"])
    assert partition_path(schema, spec, (2_932_896,)) == "c=9999-12-31"
    assert partition_path(schema, spec, (-719_162,)) == "c=0001-01-01"
    for day in (2_932_897, -719_163, 2**31 - 1, -(2**31)):
        assert partition_path(schema, spec, (day,)).startswith("c=")
    assert dt.date.fromordinal(dt.date(1970, 1, 1).toordinal() - 719_162) == dt.date.min
