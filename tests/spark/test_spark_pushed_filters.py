"""Filters that Spark hands over: which are taken, that files go by them, and that the rows are the same."""

from __future__ import annotations

import datetime as dt
import functools
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import datasource as sd

import skerry
import skerry.spark
from skerry.spark.data_source.pushed_filters import push_filters
from skerry.spark.data_source.source import SkerryDataSource

MOMENT = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)
INSTANT = MOMENT.replace(tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("t", pa.timestamp("us")),
        ("z", pa.timestamp("us", "UTC")),
        ("x", pa.binary()),
        ("r", pa.struct([("n", pa.int32())])),
    ]
)


def row(number):
    """A row of which every column tells the number; rows 3 and 7 are odd ones."""
    if number == 3:
        return dict.fromkeys(SCHEMA.names)
    return {
        "i": number,
        "f": float("nan") if number == 7 else float(number),
        "g": 0.1 if number == 7 else float(number),
        "s": 'it\'s "7" \\ %_' if number == 7 else f"s{number}",
        "b": number % 2 == 0,
        "d": Decimal(number) / 4,
        "day": MOMENT.date() + dt.timedelta(days=number),
        "t": MOMENT + dt.timedelta(days=number),
        "z": INSTANT + dt.timedelta(days=number),
        "x": bytes([number]),
        "r": {"n": number},
    }


@pytest.fixture(params=["iceberg", "paimon"])
def table(tmp_path, request):
    catalog = skerry.connect(tmp_path / "warehouse")
    made = catalog.create_table("d.t", SCHEMA, format=request.param)
    for number in range(10):
        made.append(pa.Table.from_pylist([row(number)], SCHEMA))
    return made


def plan(tmp_path, *filters, **options):
    """The filters that are left, how many files are read, and the numbers of the rows that come."""
    given = {"catalog": str(tmp_path / "warehouse"), "path": "d.t", "push-filters": "true", **options}
    source = SkerryDataSource(given)
    reader = source.reader(source.schema())
    left = list(reader.pushFilters(list(filters)))
    pieces = reader.partitions()
    planned_pieces = [planned for piece in pieces for planned in pickle.loads(piece.value)[1]]
    files = sum(len(list(planned.files)) if hasattr(planned, "files") else 1 for planned in planned_pieces)
    reader = pickle.loads(pickle.dumps(reader))
    numbers = [n for piece in pieces for batch in reader.read(piece) for n in batch.column("i").to_pylist()]
    return left, files, sorted(numbers, key=lambda n: (n is None, n))


CASES = [
    (sd.EqualTo(("i",), 5), [5]),
    (sd.Not(sd.EqualTo(("i",), 5)), [0, 1, 2, 4, 6, 7, 8, 9]),
    (sd.EqualNullSafe(("i",), 5), [5]),
    (sd.EqualNullSafe(("i",), None), [None]),
    (sd.Not(sd.EqualNullSafe(("i",), 5)), [0, 1, 2, 4, 6, 7, 8, 9, None]),
    (sd.IsNull(("s",)), [None]),
    (sd.IsNotNull(("s",)), [0, 1, 2, 4, 5, 6, 7, 8, 9]),
    (sd.In(("i",), (1, 8, None)), [1, 8]),
    (sd.Not(sd.In(("i",), (1, 8))), [0, 2, 4, 5, 6, 7, 9]),
    (sd.Not(sd.In(("i",), (1, None))), []),
    (sd.GreaterThan(("f",), 8.0), [7, 9]),  # NaN is the greatest
    (sd.EqualTo(("f",), float("nan")), [7]),
    (sd.LessThan(("f",), float("nan")), [0, 1, 2, 4, 5, 6, 8, 9]),
    (sd.EqualTo(("g",), 0.10000000149011612), [7]),
    (sd.EqualTo(("s",), 'it\'s "7" \\ %_'), [7]),
    (sd.StringStartsWith(("s",), "it's \""), [7]),
    (sd.Not(sd.StringStartsWith(("s",), "s")), [7]),
    (sd.EqualTo(("b",), False), [1, 5, 7, 9]),
    (sd.LessThanOrEqual(("d",), Decimal("0.25")), [0, 1]),
    (sd.EqualTo(("d",), Decimal("1.25")), [5]),
    (sd.GreaterThanOrEqual(("day",), MOMENT.date() + dt.timedelta(days=9)), [9]),
    (sd.LessThan(("t",), MOMENT + dt.timedelta(days=1)), [0]),
    (sd.GreaterThan(("t",), MOMENT + dt.timedelta(days=8)), [9]),
    (sd.EqualTo(("z",), (INSTANT + dt.timedelta(days=6)).astimezone(dt.timezone(dt.timedelta(hours=5)))), [6]),
    (sd.EqualTo(("x",), bytearray(b"\x04")), [4]),
    (sd.EqualTo(("r", "n"), 2), [2]),
]


def found_path(found):
    return found_path(found.child) if isinstance(found, sd.Not) else found.attribute


def test_what_is_taken_keeps_exactly_the_rows(table, tmp_path):
    for found, expected in CASES:  # Paimon keeps no bounds of what is in structs
        left, files, numbers = plan(tmp_path, found)
        assert left == [], found
        assert numbers == expected, found
        assert len(expected) <= files < (10 if len(found_path(found)) == 1 else 11), found


MOVED = [
    sd.EqualTo(("wide",), Decimal(1234567890123456789012345678)),  # in Spark it may have had more digits
    sd.LessThan(("wide",), Decimal("-1.000000000000000000000000000E+28")),
    sd.EqualTo(("day",), dt.date(1582, 10, 15)),  # may have been the 10th
    sd.GreaterThan(("z",), dt.datetime(1883, 11, 18, 17, tzinfo=dt.UTC)),
]
EXACT = [
    sd.EqualTo(("wide",), Decimal(123456789012345678901234567)),
    sd.EqualTo(("day",), dt.date(1582, 10, 3)),
    sd.LessThan(("day",), dt.date(1582, 10, 27)),
    sd.GreaterThan(("z",), dt.datetime(1900, 1, 2, tzinfo=dt.UTC)),
    sd.GreaterThan(("t",), dt.datetime(1582, 10, 15)),
]


def test_constants_that_may_have_been_others_are_left_to_spark():
    fields = [SCHEMA.field("day"), SCHEMA.field("t"), SCHEMA.field("z"), pa.field("wide", pa.decimal128(38, 10))]
    schema = pa.schema([field.with_metadata({"PARQUET:field_id": str(n)}) for n, field in enumerate(fields, 1)])
    for found in MOVED:
        assert push_filters([found, sd.Not(found)], schema) == ([], [found, sd.Not(found)])
    for found in EXACT:
        assert push_filters([found], schema)[1] == []
    assert push_filters([sd.In(("wide",), (Decimal(1), MOVED[0].value))], schema)[0] == []


def test_files_go_by_filters(table, tmp_path):
    assert plan(tmp_path)[1] == 10
    assert plan(tmp_path, sd.EqualTo(("i",), 5))[1] == 1
    assert plan(tmp_path, sd.GreaterThan(("t",), MOMENT + dt.timedelta(days=6, hours=1)), sd.IsNotNull(("i",)))[1] == 3
    assert plan(tmp_path, sd.EqualTo(("s",), "s4"), where="i < 3") == ([], 0, [])
    assert plan(tmp_path, sd.LessThan(("i",), 3), where="i > 1")[1:] == (1, [2])


def test_filters_that_are_not_taken_come_back_as_they_were(table, tmp_path):
    ends, contains = sd.StringEndsWith(("s",), "5"), sd.StringContains(("s",), "5")
    odd = sd.EqualTo(("i",), dt.timedelta(days=1))
    left, files, _ = plan(tmp_path, ends, sd.GreaterThan(("i",), 7), contains, odd)
    assert [id(found) for found in left] == [id(ends), id(contains), id(odd)]
    assert files == 2


def test_columns_that_spark_has_in_another_form_are_left_to_it():
    schema = pa.schema(
        [
            pa.field("u", pa.uuid(), metadata={"PARQUET:field_id": "1"}),
            pa.field("n", pa.timestamp("ns"), metadata={"PARQUET:field_id": "2"}),
            pa.field("c", pa.time64("us"), metadata={"PARQUET:field_id": "3"}),
        ]
    )
    filters = [
        sd.EqualTo(("u",), "A1B2C3D4-0000-0000-0000-000000000000"),
        sd.EqualTo(("n",), MOMENT),
        sd.IsNull(("c",)),
        sd.EqualTo(("gone",), 1),
    ]
    assert push_filters(filters, schema) == ([], filters)


@pytest.fixture
def loaded(spark, tmp_path):
    skerry.spark.register(spark)

    def load(**options):
        reader = spark.read.format("skerry").option("catalog", str(tmp_path / "warehouse"))
        return reader.options(**options).load("d.t")

    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    yield load
    spark.conf.unset(setting)


@pytest.mark.spark
def test_spark_hands_filters_to_frames_that_ask_for_it(table, loaded):
    assert loaded(**{"push-filters": "true"}).where("i = 5 and s like 's%'").rdd.getNumPartitions() == 1
    conditions = {
        "not (i <=> 5)": [None, 0, 1, 2, 4, 6, 7, 8, 9],
        "f > 8": [7, 9],
        "s = 'it\\'s \"7\" \\\\ %_'": [7],
        "d <= 0.25 and r.n < 5": [0, 1],
        "t < timestamp_ntz'2024-03-01 12:30:15.123456'": [0],
        "z = timestamp'2024-03-06 12:30:15.123456' and x = X'06'": [6],
        "(i in (1, 8) or r.n = 2) and day > date'2024-03-01'": [2, 8],
    }
    told = [
        loaded(**{"push-filters": "true"}).where(condition).selectExpr(f"{place} as place", "i")
        for place, condition in enumerate(conditions)
    ]
    found = {}
    for row in functools.reduce(DataFrame.unionAll, told).collect():
        found.setdefault(row["place"], set()).add(row["i"])
    assert found == {place: set(numbers) for place, numbers in enumerate(conditions.values())}


@pytest.mark.spark
def test_other_frames_can_be_used_again_and_with_themselves(table, loaded):
    """Spark keeps what a reader makes of filters for all scans of a frame: then these would be wrong."""
    frame = loaded()
    assert [row["i"] for row in frame.where("i = 5").collect()] == [5]
    assert frame.count() == 10
    both = frame.where("i = 1").unionAll(frame.where("i = 2"))
    assert sorted(row["i"] for row in both.collect()) == [1, 2]
