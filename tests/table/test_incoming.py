"""What happens to data on its way in: every kept value, every refusal by name."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from skerry.errors import SchemaError
from skerry.table.rows import incoming
from skerry.table.rows.incoming import conform, open_batches
from skerry.table.rows.schema import WRITE_DEFAULT_KEY
from skerry.table.rows.values import encode_value

DECIMAL = decimal.Decimal


def one(array, type_, **options):
    """Pass one column through."""
    field = pa.field("c", type_, **options)
    result = conform(pa.table({"c": array}), pa.schema([field])).read_all()
    result.validate(full=True)
    assert result.schema.field("c").type == type_
    return result["c"].to_pylist()


KEPT = [
    (pa.array([1, None, -128], pa.int8()), pa.int32(), [1, None, -128]),
    (pa.array([255], pa.uint8()), pa.int32(), [255]),
    (pa.array([2**32 - 1], pa.uint32()), pa.int64(), [2**32 - 1]),
    (pa.array([2**63 - 1], pa.uint64()), pa.int64(), [2**63 - 1]),
    (pa.array([5], pa.int64()), pa.int32(), [5]),
    (pa.array([2**53], pa.int64()), pa.float64(), [2.0**53]),
    (pa.array([2**63 - 1], pa.int64()), pa.decimal128(21, 2), [DECIMAL(2**63 - 1)]),
    (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(38, 10), [DECIMAL(2**64 - 1)]),
    (pa.array([np.float16(1.5)]), pa.float32(), [1.5]),
    (pa.array([0.1], pa.float32()), pa.float64(), [np.float32(0.1).item()]),
    (pa.array([DECIMAL("1.50")], pa.decimal128(5, 2)), pa.decimal128(9, 4), [DECIMAL("1.5000")]),
    (pa.array([DECIMAL("1.50")], pa.decimal128(5, 2)), pa.decimal128(2, 1), [DECIMAL("1.5")]),
    (pa.array([DECIMAL("1.50")], pa.decimal256(50, 2)), pa.decimal128(9, 2), [DECIMAL("1.50")]),
    (pa.array([DECIMAL("1.50")], pa.decimal64(9, 2)), pa.decimal128(9, 2), [DECIMAL("1.50")]),
    (pa.array([dt.date(1900, 1, 1)], pa.date64()), pa.date32(), [dt.date(1900, 1, 1)]),
    (pa.array([1], pa.time32("s")), pa.time64("us"), [dt.time(0, 0, 1)]),
    (pa.array([3000], pa.time64("ns")), pa.time64("us"), [dt.time(0, 0, 0, 3)]),
    (pa.array([-1], pa.timestamp("s")), pa.timestamp("us"), [dt.datetime(1969, 12, 31, 23, 59, 59)]),
    (pa.array([1000], pa.timestamp("ns")), pa.timestamp("us"), [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
    (
        pa.array([0], pa.timestamp("ms", "Asia/Tokyo")),
        pa.timestamp("us", "UTC"),
        [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
    ),
    (pa.array(["a", None, ""], pa.large_string()), pa.string(), ["a", None, ""]),
    (pa.array(["a"], pa.string_view()), pa.string(), ["a"]),
    (pa.array([b"a"], pa.binary_view()), pa.binary(), [b"a"]),
    (pa.array([b"abcd"], pa.large_binary()), pa.binary(4), [b"abcd"]),
    (pa.array(["a", "b", None, "a"]).dictionary_encode(), pa.string(), ["a", "b", None, "a"]),
    (pa.array([7, 7, 8], pa.int8()).dictionary_encode(), pa.int64(), [7, 7, 8]),
    (pa.RunEndEncodedArray.from_arrays([2, 3], ["x", None]), pa.string(), ["x", "x", None]),
    (pa.nulls(2), pa.decimal128(5, 2), [None, None]),
    (pa.nulls(1), pa.struct([pa.field("a", pa.int32(), nullable=False)]), [None]),
    (pa.array([True, None]), pa.bool_(), [True, None]),
]


@pytest.mark.parametrize(("array", "type_", "values"), KEPT, ids=lambda part: str(getattr(part, "type", part))[:40])
def test_every_value_is_kept(array, type_, values):
    assert one(array, type_) == values
    padded = pa.concat_arrays([array.slice(0, 1), array]) if array.type.id != pa.null().id else pa.nulls(len(array) + 1)
    if not isinstance(array, pa.RunEndEncodedArray):
        assert one(padded.slice(1), type_) == values


def test_uuids_arrive_as_uuid_or_as_sixteen_bytes():
    data = bytes(range(16))
    for array in (
        pa.array([data], pa.binary(16)).cast(pa.uuid()),
        pa.array([data], pa.binary(16)),
        pa.array([data], pa.large_binary()),
    ):
        assert [value.bytes for value in one(array, pa.uuid())] == [data]


REFUSED_VALUES = [
    (pa.array([1, 2**31], pa.int64()), pa.int32(), "row 1: value 2147483648"),
    (pa.array([2**63], pa.uint64()), pa.int64(), "row 0: value 9223372036854775808"),
    (pa.array([0, 2**53 + 1], pa.int64()), pa.float64(), "row 1: value 9007199254740993"),
    (pa.array([100], pa.int64()), pa.decimal128(3, 1), "row 0: value 100"),
    (pa.array([DECIMAL("1.55")]), pa.decimal128(5, 1), "row 0: value 1.55"),
    (pa.array([DECIMAL("1"), DECIMAL("1000")], pa.decimal128(9, 2)), pa.decimal128(4, 2), "row 1: value 1000.00"),
    (pa.array([0, 1500], pa.timestamp("ns")), pa.timestamp("us"), "row 1: value 1970-01-01"),
    (pa.array([2**62], pa.timestamp("s")), pa.timestamp("us"), "row 0"),
    (pa.array([1], pa.time64("ns")), pa.time64("us"), "row 0"),
    (pa.array([86_400_000, 5], pa.int64()).cast(pa.date64()), pa.date32(), "row 1"),
    (pa.array([b"abcd", b"abc"]), pa.binary(4), "row 1"),
    (pa.array([b"abc"]), pa.uuid(), "row 0"),
]


@pytest.mark.parametrize(("array", "type_", "message"), REFUSED_VALUES, ids=lambda part: str(part)[:40])
def test_a_value_that_would_change_is_refused_with_its_row(array, type_, message):
    with pytest.raises(SchemaError, match=f"column 'c', {message}"):
        one(array, type_)


REFUSED_TYPES = [
    (pa.array([1.0]), pa.int64(), "is double in the data, but int64 in the table; cast it first"),
    (pa.array([1.0]), pa.float32(), "values would be rounded"),
    (pa.array(["1"]), pa.int32(), "is string in the data, but int32"),
    (pa.array([1]), pa.string(), "is int64 in the data, but string"),
    (pa.array([b"a"]), pa.string(), "is binary in the data, but string"),
    (pa.array([0], pa.timestamp("us")), pa.timestamp("us", "UTC"), "give it a time zone first"),
    (pa.array([0], pa.timestamp("us", "UTC")), pa.timestamp("us"), "take its time zone off first"),
    (pa.array([0], pa.date32()), pa.timestamp("us"), "is date32"),
    (pa.array([[1]]), pa.int64(), "is list"),
    (pa.array([1]), pa.list_(pa.int64()), "is int64"),
    (pa.array([dt.timedelta(1)]), pa.int64(), "is duration"),
    (pa.array([b"a" * 8], pa.binary(8)), pa.uuid(), "is fixed_size_binary"),
    (pa.array([True]), pa.int32(), "is bool"),
    (pa.array([DECIMAL(1)]), pa.float64(), "is decimal128"),
]


@pytest.mark.parametrize(("array", "type_", "message"), REFUSED_TYPES, ids=lambda part: str(part)[:40])
def test_a_type_that_would_need_guessing_is_refused_before_any_row_is_read(array, type_, message):
    def batches():
        raise AssertionError("a row was read")
        yield

    data = pa.RecordBatchReader.from_batches(pa.schema([("c", array.type)]), batches())
    with pytest.raises(SchemaError, match=message):
        conform(data, pa.schema([("c", type_)]))


SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"}),
        pa.field("carrier", pa.string(), metadata={"PARQUET:field_id": "2"}),
        pa.field("delay", pa.int32(), metadata={"PARQUET:field_id": "3"}),
    ],
    metadata={"a": "b"},
)


def test_columns_match_by_name_and_missing_ones_become_null():
    result = conform(pa.table({"delay": pa.array([1, 2], pa.int8()), "id": [7, 8]}), SCHEMA).read_all()
    assert result.schema.equals(SCHEMA, check_metadata=True)
    assert result.to_pylist() == [{"id": 7, "carrier": None, "delay": 1}, {"id": 8, "carrier": None, "delay": 2}]


def test_a_missing_column_takes_its_write_default():
    fields = [
        pa.field("n", pa.int32(), nullable=False, metadata={WRITE_DEFAULT_KEY: encode_value(pa.int32(), 7)}),
        pa.field("u", pa.uuid(), metadata={WRITE_DEFAULT_KEY: bytes(16)}),
        pa.field("d", pa.decimal128(4, 2), metadata={WRITE_DEFAULT_KEY: encode_value(pa.decimal128(4, 2), 1)}),
        pa.field("x", pa.int32()),
    ]
    result = conform(pa.table({"x": [1, 2]}), pa.schema(fields)).read_all()
    assert result["n"].to_pylist() == [7, 7]
    assert [value.bytes for value in result["u"].to_pylist()] == [bytes(16)] * 2
    assert result["d"].to_pylist() == [DECIMAL("1.00")] * 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"id": [1], "delays": [1]}, "the table has no column 'delays'; did you mean 'delay'"),
        ({"id": [1], "ID": [1]}, "the table has no column 'ID'; did you mean 'id'"),
        ({"delay": [1]}, "required column 'id' is missing from the data"),
        ({"id": [1, None]}, "column 'id' is required, but null in row 1"),
        ({"id": pa.nulls(1)}, "column 'id' is required, but null in row 0"),
        ({"id": pa.array([1, None]).dictionary_encode()}, "column 'id' is required, but null in row 1"),
        ({"id": pa.DictionaryArray.from_arrays([0, 1], pa.array([1, None]))}, "column 'id' is required.* in row 1"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_wrong_columns_are_named(data, message):
    with pytest.raises(SchemaError, match=message):
        conform(pa.table(data), SCHEMA).read_all()


def test_a_doubled_column_is_named():
    data = pa.Table.from_arrays([pa.array([1]), pa.array([1])], names=["id", "id"])
    with pytest.raises(SchemaError, match="column 'id' is in the data twice"):
        conform(data, SCHEMA)


def test_rows_are_counted_over_batches_and_slices(monkeypatch):
    monkeypatch.setattr(incoming, "_MAX_ROWS", 3)
    batches = [pa.record_batch({"id": list(range(start, start + 10))}) for start in (0, 10)]
    result = conform(pa.Table.from_batches(batches), SCHEMA)
    sizes = [batch.num_rows for batch in result]
    assert sum(sizes) == 20
    assert max(sizes) <= 3
    broken = pa.record_batch({"id": [*range(8), None, 9]})
    with pytest.raises(SchemaError, match="null in row 18"):
        conform(pa.Table.from_batches([batches[0], broken]), SCHEMA).read_all()


def test_a_batch_of_very_many_bytes_is_split(monkeypatch):
    monkeypatch.setattr(incoming, "_MAX_BYTES", 1000)
    data = pa.table({"id": range(100), "carrier": pa.array(["x" * 100] * 100, pa.large_string())})
    sizes = [batch.num_rows for batch in conform(data, SCHEMA)]
    assert sum(sizes) == 100
    assert max(sizes) <= 10


NESTED = pa.schema(
    [
        pa.field(
            "s",
            pa.struct(
                [
                    pa.field("a", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2"}),
                    pa.field("b", pa.string(), metadata={"PARQUET:field_id": "3"}),
                ]
            ),
        ),
        pa.field("l", pa.list_(pa.field("element", pa.int64(), nullable=False))),
        pa.field("m", pa.map_(pa.string(), pa.field("value", pa.float64(), nullable=False))),
    ]
)
LISTS = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view]


def test_structs_match_by_name_at_every_depth():
    data = pa.table({"s": [{"b": "x", "a": 1}, None, {"a": 2}]})
    result = conform(data, NESTED).read_all()
    result.validate(full=True)
    assert result.schema.equals(NESTED, check_metadata=True)
    assert result["s"].to_pylist() == [{"a": 1, "b": "x"}, None, {"a": 2, "b": None}]
    assert conform(data.slice(1), NESTED).read_all()["s"].to_pylist() == [None, {"a": 2, "b": None}]


REQUIRED_MEMBERS = [
    (pa.int64(), 1),
    (pa.bool_(), True),
    (pa.string(), "x"),
    (pa.binary(3), b"abc"),
    (pa.decimal128(5, 2), DECIMAL("1.25")),
    (pa.list_(pa.int32()), [1, 2]),
    (pa.map_(pa.string(), pa.int32()), [("a", 1)]),
    (pa.struct([pa.field("x", pa.int32(), nullable=False)]), {"x": 1}),
]


@pytest.mark.parametrize(("type_", "value"), REQUIRED_MEMBERS, ids=lambda part: str(part)[:20])
@pytest.mark.parametrize("start", [0, 1])
def test_required_members_of_null_structs_can_be_written(tmp_path, type_, value, start):
    rows = [None, {"x": value}, None]
    data = pa.table({"s": pa.array(rows, pa.struct([("x", type_)]))}).slice(start)
    schema = pa.schema([pa.field("s", pa.struct([pa.field("x", type_, nullable=False)]))])
    result = conform(data, schema).read_all()
    result.validate(full=True)
    assert result["s"].to_pylist() == rows[start:]
    pq.write_table(result, tmp_path / "f.parquet")
    assert pq.read_table(tmp_path / "f.parquet")["s"].to_pylist() == rows[start:]


@pytest.mark.parametrize("kind", LISTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("start", [0, 1, 2, 4])
def test_every_list_layout_keeps_every_element(kind, start):
    values = [[1], None, [2, 3], [], [4]]
    data = pa.table({"l": pa.array(values, kind(pa.int32())).slice(start)})
    assert conform(data, NESTED).read_all()["l"].to_pylist() == values[start:]


def test_fixed_size_lists_and_maps_keep_every_entry():
    lists = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int16(), 2))
    assert conform(pa.table({"l": lists}), NESTED).read_all()["l"].to_pylist() == [[1, 2], None, [3, 4]]
    assert conform(pa.table({"l": lists.slice(1)}), NESTED).read_all()["l"].to_pylist() == [None, [3, 4]]
    entries = [[("a", 1)], None, [], [("b", 2), ("c", 3)]]
    maps = pa.array(entries, pa.map_(pa.large_string(), pa.int32()))
    assert conform(pa.table({"m": maps}), NESTED).read_all()["m"].to_pylist() == entries
    assert conform(pa.table({"m": maps.slice(2)}), NESTED).read_all()["m"].to_pylist() == entries[2:]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"s": [{"a": 1}, {"a": None}]}, "column 's.a' is required, but null in row 1"),
        ({"s": [{"b": "x"}]}, "required column 's.a' is missing"),
        ({"s": [{"a": 1, "c": 1}]}, "the table has no column 's.c'"),
        ({"s": [{"a": "x"}]}, "column 's.a' is string in the data"),
        ({"l": [[1], [2, None]]}, "column 'l.element' is required, but null in row 1"),
        ({"m": pa.array([[("a", None)]], pa.map_(pa.string(), pa.int32()))}, "column 'm.value' is required, but null"),
        ({"l": pa.array([[1], [2**63]], pa.list_(pa.uint64()))}, "column 'l', row 1"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_nested_columns_are_named_in_full(data, message):
    with pytest.raises(SchemaError, match=message):
        conform(pa.table(data), NESTED).read_all()


def test_dictionaries_are_kept_on_request():
    data = pa.table({"id": [1, 2, 3], "carrier": pa.array(["UA", None, "UA"]).dictionary_encode()})
    result = conform(data, SCHEMA, keep_dictionaries=True)
    assert result.schema.field("carrier").type == pa.dictionary(pa.int32(), pa.string())
    assert result.schema.field("carrier").metadata == SCHEMA.field("carrier").metadata
    (batch,) = list(result)
    assert len(batch["carrier"].dictionary) == 1
    assert batch["carrier"].to_pylist() == ["UA", None, "UA"]


def test_a_value_in_the_dictionary_that_no_row_has_does_not_matter():
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 1]), pa.array([2**40, 5]))
    data = pa.table({"id": [1, 2, 3], "delay": column})
    for keep in (False, True):
        result = conform(data, SCHEMA, keep_dictionaries=keep).read_all()
        result.validate(full=True)
        assert result["delay"].to_pylist() == [5, None, 5]
    used = pa.table({"id": [1], "delay": pa.DictionaryArray.from_arrays(pa.array([0]), column.dictionary)})
    with pytest.raises(SchemaError, match="column 'delay', row 0: value 1099511627776"):
        conform(used, SCHEMA).read_all()


def test_anything_with_an_arrow_interface_is_read(tmp_path):
    duckdb, pandas, polars = (pytest.importorskip(name) for name in ("duckdb", "pandas", "polars"))
    table = pa.table({"id": [1, 2], "carrier": ["UA", None]})
    ds.write_dataset(table, tmp_path, format="parquet")
    dataset = ds.dataset(tmp_path)
    frames = [
        table,
        table.to_batches()[0],
        table.to_reader(),
        dataset,
        dataset.scanner(columns=["id", "carrier"]),
        polars.from_arrow(table),
        polars.from_arrow(table).with_columns(polars.col("carrier").cast(polars.Categorical)),
        pandas.DataFrame({"id": [1, 2], "carrier": ["UA", None]}),
        duckdb.from_arrow(table),
    ]
    for frame in frames:
        result = conform(frame, SCHEMA).read_all()
        assert result.select(["id", "carrier"]).to_pylist() == table.to_pylist(), type(frame)
    with pytest.raises(SchemaError, match="data of type list cannot be read"):
        conform([1], SCHEMA)
    with pytest.raises(SchemaError, match="data of type int"):
        conform(1, SCHEMA)


def test_no_rows_are_no_batches():
    assert conform(pa.table({"id": pa.array([], pa.int64())}), SCHEMA).read_all().num_rows == 0


def test_batches_become_a_stream_that_reads_them_one_by_one():
    assert open_batches([]) is None
    asked = []

    def batches():
        for number in range(2):
            asked.append(number)
            yield pa.record_batch({"id": [number]})
        raise SchemaError("the third is wrong")

    reader = open_batches(batches())
    assert asked == [0]
    assert reader.schema == pa.schema({"id": pa.int64()})
    assert [reader.read_next_batch()["id"].to_pylist() for _ in range(2)] == [[0], [1]]
    with pytest.raises(SchemaError, match="the third is wrong"):
        reader.read_next_batch()
