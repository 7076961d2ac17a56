"""Data files in Parquet, ORC and Avro: the same rows, the same metrics, the same samples, and what readers go by."""

from __future__ import annotations

import datetime as dt
import gc
import io
import math
import random
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

import skerry
from skerry.errors import SchemaError, StorageError, UnsupportedError
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema, to_iceberg_schema
from skerry.iceberg.writing.avro_files import avro_schema
from skerry.iceberg.writing.file_writers import FileEncoding, FileWriter
from skerry.iceberg.writing.metrics import MetricsKind, MetricsMode
from skerry.iceberg.writing.orc_files import orc_schema
from skerry.iceberg.writing.row_metrics import RowMetrics
from skerry.storage import Storage
from skerry.storage.local import LocalSink

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("i", pa.int32()),
        pa.field("b", pa.bool_()),
        pa.field("f", pa.float32()),
        pa.field("d", pa.float64()),
        pa.field("day", pa.date32()),
        pa.field("time", pa.time64("us")),
        pa.field("at", pa.timestamp("us")),
        pa.field("utc", pa.timestamp("us", "UTC")),
        pa.field("s", pa.string()),
        pa.field("bytes", pa.binary()),
        pa.field("fixed", pa.binary(4)),
        pa.field("id", pa.uuid()),
        pa.field("amount", pa.decimal128(20, 3)),
        pa.field("moments", pa.list_(pa.timestamp("us"))),
        pa.field("by name", pa.map_(pa.string(), pa.date32())),
        pa.field("by number", pa.map_(pa.int32(), pa.string())),
        pa.field("nested", pa.struct([("code", pa.binary(4)), ("odd name", pa.int64()), ("at", pa.time64("us"))])),
    ]
)
UTC = dt.UTC
ROWS: list[dict[str, Any]] = [
    {
        "k": 1,
        "i": -(2**31),
        "b": True,
        "f": math.inf,
        "d": -0.0,
        "day": dt.date(1066, 10, 14),
        "time": dt.time(1, 2, 3, 4),
        "at": dt.datetime(1969, 12, 31, 23, 59, 59),
        "utc": dt.datetime(2020, 1, 1, tzinfo=UTC),
        "s": "a string that is longer than bounds are kept",
        "bytes": b"\xff" * 20,
        "fixed": b"abcd",
        "id": UUID(int=5).bytes,
        "amount": Decimal("-1.234"),
        "moments": [dt.datetime(2020, 1, 1), None],
        "by name": [("a", dt.date(2020, 1, 1)), ("b", None)],
        "by number": [(3, "x"), (4, None)],
        "nested": {"code": b"wxyz", "odd name": 5, "at": dt.time(9)},
    },
    {name: 2 if name == "k" else None for name in SCHEMA.names},
    {
        "k": -3,
        "i": 7,
        "b": False,
        "f": 1.5,
        "d": 2.5,
        "day": dt.date(2020, 2, 29),
        "time": dt.time(0),
        "at": dt.datetime(2020, 1, 1, 1, 1, 1, 1),
        "utc": dt.datetime(1919, 1, 1, tzinfo=UTC),
        "s": "",
        "bytes": b"",
        "fixed": b"\0\0\0\1",
        "id": UUID(int=2**127).bytes,
        "amount": Decimal("99999999999999999.999"),
        "moments": [],
        "by name": [],
        "by number": [],
        "nested": {"code": None, "odd name": None, "at": None},
    },
]
DATA = pa.table([pa.array([row[field.name] for row in ROWS], field.type) for field in SCHEMA], schema=SCHEMA)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A table of each format with the same rows."""
    catalog = skerry.connect(tmp_path_factory.mktemp("warehouse"))
    tables = {}
    for name in ("parquet", "orc", "avro"):
        tables[name] = catalog.create_table(f"d.{name}", SCHEMA, file_format=name, sort_by=["k"])
        tables[name].append(DATA)
    return tables


def path(table: Any) -> Path:
    return Path(table.files()[0].location.removeprefix("file://"))


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_rows_come_back(written, name):
    assert path(written[name]).suffix == f".{name}"
    read = written[name].scan().to_arrow()
    expected = DATA.take(pa.array([2, 0, 1]))  # sorted
    assert [field.type for field in read.schema] == [field.type for field in written["parquet"].schema]
    assert read.to_pylist() == expected.to_pylist()
    assert written[name].scan(["k"], "s = '' AND nested.code IS NULL").to_arrow()["k"].to_pylist() == [-3]


EARLY = pa.array([-1_000_000, None, -1_500_000], pa.timestamp("us"))


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_nested_values_of_a_slice(tmp_path, name):
    """The arrays of a slice begin somewhere in their buffers, and a struct without nulls may hold ones with them."""
    place = pa.struct([("x", pa.int64()), ("name", pa.string())])
    schema = pa.schema([("place", place), ("trip", pa.struct([("from", place)])), ("stops", pa.list_(place))])
    places = [None if i % 3 == 0 else {"x": i, "name": None if i % 5 == 0 else f"p{i}"} for i in range(40)]
    rows = [{"place": at, "trip": {"from": at}, "stops": places[i : i + i % 4]} for i, at in enumerate(places)]
    data = pa.Table.from_pylist(rows, schema)
    table = skerry.connect(tmp_path).create_table("d.t", schema, file_format=name)
    table.append(pa.concat_tables([data.slice(7, 11), data.slice(1)]))
    assert table.scan().to_arrow().to_pylist() == rows[7:18] + rows[1:]


@pytest.mark.parametrize(
    "column",
    [
        EARLY,
        EARLY.cast(pa.timestamp("us", "UTC")),
        pa.ListArray.from_arrays([0, 1, 2, 3], EARLY),
        pa.StructArray.from_arrays([EARLY], ["at"]),
        pa.MapArray.from_arrays([0, 1, 2, 3], ["a", "b", "c"], EARLY),
    ],
    ids=["plain", "UTC", "in lists", "in structs", "in maps"],
)
def test_times_that_orc_files_would_tell_wrongly_are_refused(tmp_path, column):
    """PyArrow writes them so that Java finds them a second earlier."""
    data = pa.table({"t": column})
    table = skerry.connect(tmp_path).create_table("d.t", data.schema, file_format="orc")
    table.append(data.slice(0, 2))
    with pytest.raises(UnsupportedError, match=r"column 't' has 1969-12-31 23:59:58\.5: times before 1970"):
        table.append(data)
    assert table.scan().to_arrow().num_rows == 2


@pytest.mark.parametrize("name", ["orc", "avro"])
def test_metrics_and_sketches_are_those_of_parquet(written, name):
    (expected,), (file,) = written["parquet"].files(), written[name].files()
    assert file.file_size_bytes == path(written[name]).stat().st_size
    for metric in (
        "record_count",
        "value_counts",
        "null_value_counts",
        "nan_value_counts",
        "lower_bounds",
        "upper_bounds",
        "sort_order_id",
    ):
        assert getattr(file, metric) == getattr(expected, metric), metric
    sketches = {column: (found.ndv, str(found.freshness)) for column, found in written[name].statistics().items()}
    assert sketches == {column: (found.ndv, "fresh") for column, found in written["parquet"].statistics().items()}


def test_orc_types_carry_what_iceberg_readers_go_by(written):
    schema = orc.ORCFile(str(path(written["orc"]))).schema
    attributes = {
        field.name: {key.decode(): value.decode() for key, value in field.metadata.items()} for field in schema
    }
    assert attributes["k"] == {"iceberg.id": "1", "iceberg.required": "true", "iceberg.long-type": "LONG"}
    assert attributes["time"] == {"iceberg.id": "7", "iceberg.required": "false", "iceberg.long-type": "TIME"}
    assert attributes["at"]["iceberg.timestamp-unit"] == "MICROS"
    assert attributes["fixed"] | {"iceberg.id": ""} == {
        "iceberg.id": "",
        "iceberg.required": "false",
        "iceberg.binary-type": "FIXED",
        "iceberg.length": "4",
    }
    assert attributes["id"]["iceberg.binary-type"] == "UUID"
    assert attributes["bytes"]["iceberg.binary-type"] == "BINARY"
    element = schema.field("moments").type.value_field
    assert element.metadata[b"iceberg.id"] == b"19"
    assert [str(schema.field(name).type) for name in ("at", "utc")] == ["timestamp[ns]", "timestamp[ns, tz=UTC]"]


def test_avro_is_read_by_another_reader(written):
    with path(written["avro"]).open("rb") as file:
        reader = fastavro.reader(file)
        read = list(reader)
        schema = reader.writer_schema
    assert [row["k"] for row in read] == [-3, 1, 2]
    first = read[1]
    assert first["day"] == dt.date(1066, 10, 14)
    assert first["time"] == dt.time(1, 2, 3, 4)
    assert first["utc"] == dt.datetime(2020, 1, 1, tzinfo=UTC)
    assert first["amount"] == Decimal("-1.234")
    assert first["by_x20name"] == {"a": dt.date(2020, 1, 1), "b": None}
    assert first["by_x20number"] == [{"key": 3, "value": "x"}, {"key": 4, "value": None}]
    assert first["nested"]["odd_x20name"] == 5
    fields = {field["name"]: field for field in schema["fields"]}
    assert fields["k"] == {"name": "k", "type": "long", "field-id": 1}
    assert fields["s"] == {"name": "s", "type": ["null", "string"], "default": None, "field-id": 10}
    assert fields["by_x20name"]["iceberg-field-name"] == "by name"
    assert {key: fields["by_x20name"]["type"][1][key] for key in ("type", "key-id", "value-id")} == {
        "type": "map",
        "key-id": 20,
        "value-id": 21,
    }
    pairs = fields["by_x20number"]["type"][1]
    assert (pairs["logicalType"], pairs["items"]["name"]) == ("map", "k22_v23")
    assert fields["at"]["type"][1]["adjust-to-utc"] is False
    assert fields["utc"]["type"][1]["adjust-to-utc"] is True


def test_columns_of_type_unknown(tmp_path):
    schema = pa.schema([("k", pa.int64()), ("nothing", pa.null())])
    data = pa.table({"k": [1, 2], "nothing": [None, None]})
    catalog = skerry.connect(tmp_path)
    for name in ("orc", "avro"):
        table = catalog.create_table(f"d.{name}", schema, file_format=name, format_version=3)
        table.append(data)
        assert table.scan().to_arrow().to_pydict() == data.to_pydict()
    nested = to_arrow_schema(to_iceberg_schema(pa.schema([("s", pa.struct([("n", pa.null())]))]), format_version=3))
    with pytest.raises(UnsupportedError, match="ORC files cannot hold field 'n' of type unknown"):
        orc_schema(nested)
    assert avro_schema(nested)["fields"][0]["type"][1]["fields"][0]["type"] == "null"


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_partitions_and_several_files(tmp_path, name):
    table = skerry.connect(tmp_path).create_table(
        "d.t",
        pa.schema([("k", pa.int64()), ("p", pa.string())]),
        partition_by=["p"],
        file_format=name,
        properties={"write.target-file-size-bytes": "300", "write.parquet.row-group-size-bytes": "200"},
    )
    data = pa.table({"k": range(600), "p": ["a", "b"] * 300})
    table.append(data.to_reader(max_chunksize=100))
    assert {file.partition for file in table.files()} == {("a",), ("b",)}
    assert len(table.files()) > 2 or name == "orc"  # whose writer keeps a stripe in memory
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == list(range(600))
    assert table.scan(where="p = 'a' AND k < 10").to_arrow().num_rows == 5


CODECS = {
    "parquet": ["zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed"],
    "orc": ["zlib", "zstd", "snappy", "lz4", "none"],
    "avro": ["gzip", "zstd", "snappy", "uncompressed"],
}


@pytest.mark.parametrize(("name", "codec"), [(name, codec) for name, codecs in CODECS.items() for codec in codecs])
def test_codecs(name, codec):
    properties = {"write.format.default": name, f"write.{name}.compression-codec": codec}
    encoding = FileEncoding.from_properties(properties)
    schema = to_arrow_schema(to_iceberg_schema(pa.schema([("k", pa.int64())])))
    storage = Storage()
    location = f"memory://codecs/{name}/{codec}"
    writer = FileWriter(encoding, storage, location, schema)
    writer.write(pa.table({"k": [1, 2, 3]}, schema=schema))
    file = writer.close({})
    assert (file.file_format, file.record_count, file.value_counts) == (name, 3, {})
    assert file.file_size_bytes == storage.size(location)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"write.format.default": "parket"}, "write.format.default is 'parket'; did you mean 'parquet'"),
        ({"write.delete.format.default": "csv"}, "write.delete.format.default is 'csv'"),
        ({"write.parquet.compression-codec": "zip"}, "write.parquet.compression-codec must be one of zstd, .*'zip'"),
        (
            {"write.format.default": "orc", "write.orc.compression-codec": "brotli"},
            "write.orc.compression-codec must be one of zlib, .*'brotli'",
        ),
        ({"write.parquet.compression-level": "-1"}, "write.parquet.compression-level must be a whole number above 0"),
    ],
)
def test_wrong_properties_are_named(properties, message):
    with pytest.raises(SchemaError, match=message):
        FileEncoding.from_properties(properties, deletes="delete" in message)


def test_deletes_are_written_like_data_unless_told_otherwise():
    properties = {"write.format.default": "avro", "write.avro.compression-codec": "zstd"}
    assert FileEncoding.from_properties(properties, deletes=True) == FileEncoding("avro", "zstandard")
    properties |= {"write.delete.format.default": "orc", "write.delete.orc.compression-codec": "snappy"}
    assert FileEncoding.from_properties(properties, deletes=True) == FileEncoding("orc", "snappy")
    assert FileEncoding.from_properties(properties) == FileEncoding("avro", "zstandard")


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_a_file_given_up_leaves_nothing(tmp_path, name):
    schema = to_arrow_schema(to_iceberg_schema(pa.schema([("k", pa.int64())])))
    location = str(tmp_path / "file")
    writer = FileWriter(FileEncoding(name, {"avro": "null"}.get(name, "zstd")), Storage(), location, schema)
    writer.write(pa.table({"k": range(100)}, schema=schema))
    writer.abort()
    del writer
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("room", [0, 10, 500])
def test_a_full_disk(tmp_path, monkeypatch, name, room):
    """ORC ends the process if its stream fails; here it must not."""
    schema = to_arrow_schema(to_iceberg_schema(pa.schema([("k", pa.int64())])))
    sent = 0

    def send(self: LocalSink, data: memoryview) -> None:
        nonlocal sent
        sent += len(data)
        if sent > room:
            raise StorageError("no space left", location=self.location)

    monkeypatch.setattr(LocalSink, "_send", send)
    encoding = FileEncoding(name, {"avro": "null"}.get(name, "zstd"))

    def fill() -> None:
        writer = FileWriter(encoding, Storage(), str(tmp_path / "file"), schema)
        try:
            for _ in range(3):
                writer.write(pa.table({"k": [random.getrandbits(63) for _ in range(1000)]}, schema=schema))
            writer.close({})
        finally:
            writer.abort()

    with pytest.raises((StorageError, OSError)):
        fill()
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["orc", "avro"])
def test_a_file_without_rows(tmp_path, name):
    schema = to_arrow_schema(to_iceberg_schema(SCHEMA))
    location = str(tmp_path / "file")
    file = FileWriter(FileEncoding(name, {"avro": "null"}.get(name, "zstd")), Storage(), location, schema).close({})
    assert (file.record_count, file.lower_bounds) == (0, {})
    data = Path(location).read_bytes()
    columns = orc.ORCFile(io.BytesIO(data)).schema.names if name == "orc" else fastavro.reader(io.BytesIO(data))
    assert len(list(columns)) == (len(SCHEMA) if name == "orc" else 0)


FLOATS = st.lists(st.one_of(st.none(), st.floats(width=32)), max_size=20)


@given(parts=st.lists(FLOATS, max_size=4))
@settings(max_examples=60)
def test_bounds_hold_whatever_is_written(parts):
    """Over chunks and updates, with nulls, NaNs and both zeros, beside the plain definition."""
    schema = to_arrow_schema(to_iceberg_schema(pa.schema([("s", pa.struct([("x", pa.float32())]))])))
    metrics = RowMetrics(schema)
    for part in parts:
        rows = [None if value is None else {"x": value} for value in part]
        metrics.update(pa.table([pa.array(rows, schema.field(0).type)], schema=schema))
    file = metrics.data_file(
        "x", "avro", 1, {2: MetricsMode(MetricsKind.FULL)}, spec_id=0, partition=(), sort_order_id=None
    )
    values = [value for part in parts for value in part]
    numbers = [value for value in values if value is not None and not math.isnan(value)]
    assert file.value_counts == {2: len(values)}
    assert file.null_value_counts == {2: values.count(None)}
    assert file.nan_value_counts == {2: len(values) - values.count(None) - len(numbers)}
    assert bool(file.lower_bounds) == bool(file.upper_bounds) == bool(numbers)
    if numbers:
        (low,), (high,) = (struct.unpack("<f", bounds[2]) for bounds in (file.lower_bounds, file.upper_bounds))
        assert (low, high) == (min(numbers), max(numbers))
        assert low != 0 or math.copysign(1, low) < 0
        assert high != 0 or math.copysign(1, high) > 0
