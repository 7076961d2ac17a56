from __future__ import annotations

import datetime
import decimal
import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from skerry.errors import FormatError, SchemaError, SkerryError
from skerry.parquet import FileMetadata, read_metadata
from skerry.storage import Storage
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.statistics.sketching import BatchSketcher, FileSketch, sketch_parquet
from skerry.theta import Sample

SPARK_FILES = sorted((Path(__file__).parents[1] / "parquet" / "data").glob("*.parquet"))
MR = "parquet-mr version 1.16.0 (build 0)"


def with_ids(schema: pa.Schema) -> pa.Schema:
    """The schema with field ids in the order of a depth-first walk, from 1."""
    count = 0

    def walk(field: pa.Field) -> pa.Field:
        nonlocal count
        count += 1
        field = field.with_metadata({"PARQUET:field_id": str(count)})
        if pa.types.is_struct(field.type):
            return field.with_type(pa.struct([walk(child) for child in field.type]))
        return field

    return pa.schema([walk(field) for field in schema])


def ids_of(schema: pa.Schema) -> list[int]:
    return [leaf.field_id for leaf in leaves(schema)]


def write(path: Path, table: pa.Table, **options: Any) -> str:
    pq.write_table(table.cast(with_ids(table.schema)), path, **{"store_decimal_as_integer": True, **options})
    return str(path)


def column_of(table: pa.Table, path: Iterable[str]) -> pa.ChunkedArray:
    first, *rest = path
    column = table.column(first)
    for name in rest:
        column = pc.struct_field(column, name)
    return column


def twin(location: str, schema: pa.Schema, found: Leaf) -> tuple[Sample, int, int]:
    """A column's sample, nulls and NaNs by the plainest way: read all, cast, hash."""
    table = pq.ParquetFile(location, coerce_int96_timestamp_unit="us").read()
    column = column_of(table, found.path)
    values = column.cast(found.type)
    nans = pc.sum(pc.is_nan(values)).as_py() or 0 if pa.types.is_floating(found.type) else 0
    return Sample().update(values), values.null_count, nans


def same(left: Sample, right: Sample) -> bool:
    return left.theta == right.theta and left.hashes.tolist() == right.hashes.tolist()


def assert_like_twin(sketch: FileSketch, location: str, schema: pa.Schema) -> None:
    for found in leaves(schema):
        sample, nulls, nans = twin(location, schema, found)
        assert same(sketch.samples[found.field_id], sample), found.name
        assert sketch.null_value_counts[found.field_id] == nulls, found.name
        assert sketch.nan_value_counts.get(found.field_id, 0) == nans, found.name
        assert (found.field_id in sketch.nan_value_counts) == pa.types.is_floating(found.type)


def without_lists(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if not pa.types.is_list(field.type)])


# Files of every writer, against the plain way -------------------------------------------------------------------------


def table_schema(location: str | Path) -> pa.Schema:
    """The schema of the Spark files as a table has it."""
    fields = []
    for field in without_lists(pq.read_schema(location)):
        if field.name == "moment":
            field = field.with_type(pa.timestamp("us", "UTC"))
        fields.append(field)
    return pa.schema(fields)


@pytest.mark.parametrize("path", SPARK_FILES, ids=lambda path: path.stem)
def test_files_by_spark(path: Path) -> None:
    schema = table_schema(path)
    sketch = sketch_parquet(Storage(), str(path), schema, ids_of(schema))
    if path.stem == "snappy-int96":
        schema = pa.schema([f.with_type(pa.timestamp("us")) if f.name == "moment" else f for f in schema])
    assert_like_twin(sketch, str(path), schema)


@pytest.mark.spark
def test_files_that_spark_writes_now(spark: Any, tmp_path: Path) -> None:
    sys.path.insert(0, str(SPARK_FILES[0].parents[1]))
    from spark_files import write_spark_files

    for path in write_spark_files(spark, tmp_path).values():
        test_files_by_spark(path)


NOW = datetime.datetime(2024, 5, 1, 12, 30, 45, 123456)
ROWS = 3000
NAN = float("nan")
TABLE = pa.table(
    {
        "i8": pa.array([i % 100 - 50 for i in range(ROWS)], pa.int8()),
        "i16": pa.array([None if i % 3 == 0 else i - 1500 for i in range(ROWS)], pa.int16()),
        "i32": pa.array([i % 40 for i in range(ROWS)], pa.int32()),
        "i64": pa.array([i * 3 - 2000 for i in range(ROWS)], pa.int64()),
        "f32": pa.array(
            [float("nan") if i % 7 == 0 else -0.0 if i % 5 == 0 else i % 90 / 4 for i in range(ROWS)], pa.float32()
        ),
        "f64": pa.array([None if i % 4 == 0 else NAN if i % 7 == 0 else i / 3 for i in range(ROWS)]),
        "flag": pa.array([None if i % 3 == 0 else i % 2 == 0 for i in range(ROWS)]),
        "d9": pa.array([decimal.Decimal(i - 1500) / 100 for i in range(ROWS)], pa.decimal128(9, 2)),
        "d18": pa.array([decimal.Decimal(i % 50 - 25) * 10**14 for i in range(ROWS)], pa.decimal128(18, 2)),
        "d38": pa.array([decimal.Decimal(i - 1500) * 10**20 for i in range(ROWS)], pa.decimal128(38, 4)),
        "day": pa.array([i % 400 - 200 for i in range(ROWS)], pa.int32()).cast(pa.date32()),
        "time": pa.array([datetime.time(i % 24, i % 60, i % 60, i) for i in range(ROWS)], pa.time64("us")),
        "ts": pa.array([NOW + datetime.timedelta(seconds=i % 1000) for i in range(ROWS)], pa.timestamp("us")),
        "text": pa.array([None if i % 9 == 0 else f"text {i}" * (i % 4) for i in range(ROWS)]),
        "few": pa.array([f"value {i % 12}" for i in range(ROWS)]),
        "bytes": pa.array([(i % 700).to_bytes(2, "big") for i in range(ROWS)]),
    }
)


def by_pyarrow(path: Path) -> None:
    write(path, TABLE, row_group_size=1100, data_page_size=2048, dictionary_pagesize_limit=4096)


def by_pyarrow_plain(path: Path) -> None:
    write(path, TABLE, use_dictionary=False, compression="zstd", data_page_version="2.0")


def by_pyarrow_delta(path: Path) -> None:
    encodings = {
        "i32": "DELTA_BINARY_PACKED",
        "i64": "DELTA_BINARY_PACKED",
        "text": "DELTA_BYTE_ARRAY",
        "few": "DELTA_LENGTH_BYTE_ARRAY",
        "f64": "BYTE_STREAM_SPLIT",
        "flag": "RLE",
    }
    write(path, TABLE, use_dictionary=False, column_encoding=encodings, compression="brotli")


def by_duckdb(path: Path) -> None:
    duckdb.from_arrow(TABLE).query("t", f"copy t to '{path}' (format parquet, row_group_size 2048)")


def by_duckdb_v2(path: Path) -> None:
    duckdb.from_arrow(TABLE).query("t", f"copy t to '{path}' (format parquet, parquet_version v2, codec zstd)")


def by_polars(path: Path) -> None:
    polars.from_arrow(TABLE).write_parquet(path, compression="lz4", row_group_size=1000)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "writer",
    [by_pyarrow, by_pyarrow_plain, by_pyarrow_delta, by_duckdb, by_duckdb_v2, by_polars],
    ids=lambda w: w.__name__,
)
def test_files_by_other_writers(writer: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    writer(path)
    schema = with_ids(TABLE.schema)
    sketch = sketch_parquet(Storage(), str(path), schema, ids_of(schema))
    assert_like_twin(sketch, str(path), schema)


# Dictionaries ---------------------------------------------------------------------------------------------------------


def unused_values(path: Path) -> str:
    """A file by PyArrow whose dictionary holds values that no row has."""
    values = pa.array([f"value {i}" for i in range(100)])
    column = pa.DictionaryArray.from_arrays(pa.array([i % 10 for i in range(1000)], pa.int32()), values)
    schema = pa.schema([pa.field("a", column.type, metadata={"PARQUET:field_id": "1"})])
    pq.write_table(pa.table([column], schema=schema), path)
    return str(path)


TEXT = pa.schema([pa.field("a", pa.string(), metadata={"PARQUET:field_id": "1"})])


def test_dictionary_values_without_a_row_are_not_counted(tmp_path: Path) -> None:
    location = unused_values(tmp_path / "a.parquet")
    sketch = sketch_parquet(Storage(), location, TEXT, [1])
    assert sketch.samples[1].estimate() == 10
    # The trap is real: by its dictionary alone the file would have 100 values.
    trusted = replace(read_metadata(Storage(), location), created_by=MR)
    assert sketch_parquet(Storage(), location, TEXT, [1], metadata=trusted).samples[1].estimate() == 100


@pytest.mark.parametrize(
    ("created_by", "key_values", "reads_dictionary_only"),
    [
        (MR, {}, True),
        ("parquet-mr version 1.8.1", {"original.created.by": MR}, True),
        (MR, {"original.created.by": f"{MR}\nparquet-cpp-arrow version 20.0.0"}, False),
        ("parquet-mr-trino version 470 (build n/a)", {}, False),
        ("parquet-mr compatible Photon version 0.2 (build 16.4)", {}, False),
        ("parquet-cpp-arrow version 20.0.0", {}, False),
        ("", {}, False),
    ],
)
def test_whose_dictionaries_are_trusted(
    created_by: str, key_values: dict[str, str], reads_dictionary_only: bool, tmp_path: Path
) -> None:
    table = pa.table({"a": [f"value {i * 7919 % 1000}" for i in range(200_000)]})
    location = write(tmp_path / "a.parquet", table, compression="none")
    storage = Storage()
    metadata = replace(read_metadata(storage, location), created_by=created_by, key_values=key_values)
    before = storage.metrics.counts()
    sketch = sketch_parquet(storage, location, TEXT, [1], metadata=metadata)
    spent = storage.metrics.counts() - before
    chunk = metadata.row_groups[0].chunks[0]
    assert sketch.samples[1].estimate() == 1000
    assert sketch.null_value_counts == {1: 0}
    assert spent.requests == 1
    assert spent.bytes_read == chunk.data_offset - chunk.offset if reads_dictionary_only else chunk.size_bytes
    assert chunk.size_bytes > 15 * (chunk.data_offset - chunk.offset)


def test_of_a_column_that_spark_wrote_by_dictionary_only_the_dictionary_is_read() -> None:
    path = next(path for path in SPARK_FILES if path.stem == "snappy")
    storage, schema = Storage(), table_schema(path)
    metadata = read_metadata(storage, str(path))
    chunk = next(chunk for chunk in metadata.row_groups[0].chunks if chunk.column.name == "few")
    before = storage.metrics.counts()
    assert chunk.column.field_id is not None
    ids = [chunk.column.field_id]
    sketch = sketch_parquet(storage, str(path), schema, ids, metadata=metadata, count_nans=False)
    spent = storage.metrics.counts() - before
    assert sketch.samples[ids[0]].estimate() == 9
    assert (spent.requests, spent.bytes_read) == (1, chunk.data_offset - chunk.offset)


def test_dictionaries_of_one_file_are_fetched_together(tmp_path: Path) -> None:
    table = pa.table({f"c{i}": [(i + j) % 50 for j in range(50_000)] for i in range(20)})
    location = write(tmp_path / "a.parquet", table, row_group_size=25_000, compression="none")
    storage = Storage()
    metadata = replace(read_metadata(storage, location), created_by=MR)
    before = storage.metrics.counts()
    schema = with_ids(table.schema)
    sketch = sketch_parquet(storage, location, schema, ids_of(schema), metadata=metadata)
    spent = storage.metrics.counts() - before
    assert {sample.estimate() for sample in sketch.samples.values()} == {50}
    dictionaries = sum(chunk.data_offset - chunk.offset for group in metadata.row_groups for chunk in group.chunks)
    # Ranges close together share a request: their gaps are read in vain.
    assert spent.requests <= 2
    assert dictionaries <= spent.bytes_read < metadata.file_size_bytes


def test_nans_in_a_dictionary_are_counted_by_their_indices(tmp_path: Path) -> None:
    values = [float("nan") if i % 10 == 3 else None if i % 10 == 4 else float(i % 10) for i in range(1000)]
    location = write(tmp_path / "a.parquet", pa.table({"a": values, "b": [1.5] * 1000}))
    schema = pa.schema(
        [pa.field(n, pa.float64(), metadata={"PARQUET:field_id": i}) for n, i in (("a", "1"), ("b", "2"))]
    )
    metadata = replace(read_metadata(Storage(), location), created_by=MR)
    sketch = sketch_parquet(Storage(), location, schema, [1], metadata=metadata)
    assert sketch.nan_value_counts == {1: 100, 2: 0}
    assert sketch.null_value_counts == {1: 100, 2: 0}
    assert sketch.samples.keys() == {1}
    assert sketch.samples[1].estimate() == 9
    uncounted = sketch_parquet(Storage(), location, schema, [1], metadata=metadata, count_nans=False)
    assert uncounted.nan_value_counts == {}
    assert same(uncounted.samples[1], sketch.samples[1])


# The table's types ----------------------------------------------------------------------------------------------------

SECONDS = [datetime.datetime(1969, 12, 31, 23, 59, 58) + datetime.timedelta(seconds=i * 77) for i in range(200)]
DECIMALS = [decimal.Decimal(i) for i in range(-100, 100)]
PROMOTIONS: dict[str, tuple[pa.Array, pa.DataType]] = {
    "int to long": (pa.array(range(-100, 100), pa.int32()), pa.int64()),
    "tinyint to int": (pa.array(range(-100, 100), pa.int8()), pa.int32()),
    "smallint to long": (pa.array(range(-100, 100), pa.int16()), pa.int64()),
    "unsigned byte to int": (pa.array(range(56, 256), pa.uint8()), pa.int32()),
    "unsigned int to long": (pa.array([2**32 - 1 - i for i in range(200)], pa.uint32()), pa.int64()),
    "float to double": (pa.array([float("nan"), *[i / 7 for i in range(199)]], pa.float32()), pa.float64()),
    "half float to float": (pa.array([NAN, *[i / 4 for i in range(199)]], pa.float16()), pa.float32()),
    "narrow decimal": (
        pa.array([decimal.Decimal(i) for i in range(-100, 100)], pa.decimal128(5, 1)),
        pa.decimal128(20, 1),
    ),
    "wide decimal": (
        pa.array([decimal.Decimal(i) for i in range(-100, 100)], pa.decimal128(25, 1)),
        pa.decimal128(38, 1),
    ),
    "date to timestamp": (pa.array(range(-100, 100), pa.int32()).cast(pa.date32()), pa.timestamp("us")),
    "milliseconds": (pa.array(SECONDS, pa.timestamp("ms")), pa.timestamp("us")),
    "milliseconds with zone": (pa.array(SECONDS, pa.timestamp("ms", "UTC")), pa.timestamp("us", "UTC")),
    "nanoseconds": (pa.array(SECONDS, pa.timestamp("ns")), pa.timestamp("ns")),
    "nanoseconds to microseconds": (pa.array(SECONDS, pa.timestamp("ns")), pa.timestamp("us")),
    "time in milliseconds": (pa.array(range(200), pa.int32()).cast(pa.time32("ms")), pa.time64("us")),
    "time in nanoseconds": (
        pa.array([i * 1000 for i in range(200)], pa.int64()).cast(pa.time64("ns")),
        pa.time64("us"),
    ),
    "binary as string": (pa.array([b"x%d" % i for i in range(200)]), pa.string()),
    "string as large string": (pa.array([f"x{i}" for i in range(200)]), pa.large_string()),
    "fixed": (pa.array([bytes([i, 1, 2]) for i in range(200)], pa.binary(3)), pa.binary(3)),
    "microseconds to nanoseconds": (pa.array(SECONDS, pa.timestamp("us")), pa.timestamp("ns")),
    "fixed as binary": (pa.array([bytes([i, 1, 2]) for i in range(200)], pa.binary(3)), pa.binary()),
}


@pytest.mark.parametrize("by_dictionary", [True, False])
@pytest.mark.parametrize("name", PROMOTIONS)
def test_values_are_hashed_as_the_tables_type(name: str, by_dictionary: bool, tmp_path: Path) -> None:
    values, type_ = PROMOTIONS[name]
    values = pa.concat_arrays([values, values[:1], pa.nulls(3, values.type)])
    options = {"use_dictionary": by_dictionary, "store_schema": False}
    location = write(tmp_path / "a.parquet", pa.table({"a": values}), **options)
    schema = pa.schema([pa.field("a", type_, metadata={"PARQUET:field_id": "1"})])
    sketch = sketch_parquet(Storage(), location, schema, [1])
    assert same(sketch.samples[1], Sample().update(values.cast(type_)))
    assert sketch.samples[1].estimate() == 200
    assert sketch.null_value_counts == {1: 3}


def test_uuids(tmp_path: Path) -> None:
    values = pa.array([i.to_bytes(16, "big") for i in range(100)], pa.binary(16))
    location = write(tmp_path / "a.parquet", pa.table({"a": values}))
    schema = pa.schema([pa.field("a", pa.uuid(), metadata={"PARQUET:field_id": "1"})])
    assert same(sketch_parquet(Storage(), location, schema, [1]).samples[1], Sample().update(values))


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (pa.array(["x"]), pa.int64()),
        (pa.array([2**40]), pa.int32()),
        (pa.array([decimal.Decimal("1.55")]), pa.decimal128(9, 1)),
    ],
)
def test_a_column_that_is_not_of_the_tables_type_is_refused(
    values: pa.Array, type_: pa.DataType, tmp_path: Path
) -> None:
    location = write(tmp_path / "a.parquet", pa.table({"a": values}))
    schema = pa.schema([pa.field("a", type_, metadata={"PARQUET:field_id": "1"})])
    with pytest.raises(SchemaError, match=r"column a is .* in the file and .* in the table") as raised:
        sketch_parquet(Storage(), location, schema, [1])
    assert raised.value.location == location


# Which columns, which rows --------------------------------------------------------------------------------------------

NESTED = pa.table(
    {
        "id": pa.array(range(100)),
        "s": pa.StructArray.from_arrays(
            [
                pa.array([i % 20 for i in range(100)], pa.int32()),
                pa.array([None if i % 3 == 0 else f"x{i}" for i in range(100)]),
                pa.StructArray.from_arrays([pa.array([float("nan")] * 50 + [0.5] * 50)], ["c"]),
            ],
            ["a", "b", "deep"],
            mask=pa.array([i % 10 == 5 for i in range(100)]),
        ),
    }
)


@pytest.mark.parametrize("encoding", [None, "DELTA_BINARY_PACKED"])
def test_columns_inside_structs(encoding: str | None, tmp_path: Path) -> None:
    """Those whose struct is null do not count, whatever lies under the null."""
    options = {"use_dictionary": False, "column_encoding": {"s.a": encoding}} if encoding else {}
    location = write(tmp_path / "a.parquet", NESTED, **options)
    schema = with_ids(NESTED.schema)
    sketch = sketch_parquet(Storage(), location, schema, ids_of(schema))
    assert_like_twin(sketch, location, schema)
    assert {i: sample.estimate() for i, sample in sketch.samples.items()} == {1: 100, 3: 18, 4: 59, 6: 2}
    assert sketch.null_value_counts == {1: 0, 3: 10, 4: 41, 6: 10}
    assert sketch.nan_value_counts == {6: 45}


def test_columns_are_found_by_field_id_not_by_name(tmp_path: Path) -> None:
    location = write(tmp_path / "a.parquet", pa.table({"a": [1, 2, 3], "b": [4, 4, 4]}))
    renamed = pa.schema([pa.field("b", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    assert sketch_parquet(Storage(), location, renamed, [1]).samples[1].estimate() == 3


def test_files_without_any_field_ids_are_matched_by_names(tmp_path: Path) -> None:
    pq.write_table(NESTED, tmp_path / "a.parquet")
    schema = with_ids(NESTED.schema)
    sketch = sketch_parquet(Storage(), str(tmp_path / "a.parquet"), schema, ids_of(schema))
    assert_like_twin(sketch, str(tmp_path / "a.parquet"), schema)


def test_what_needs_no_reading_is_not_read(tmp_path: Path) -> None:
    """Columns of nulls alone, columns that the file lacks, files without rows."""
    table = pa.table({"a": pa.nulls(10, pa.int64()), "b": pa.nulls(10, pa.float64())})
    location = write(tmp_path / "a.parquet", table)
    schema = with_ids(pa.schema([*table.schema, ("new", pa.float32()), ("newer", pa.string())]))
    storage = Storage()
    sketch = sketch_parquet(storage, location, schema, [1, 2, 3, 4])
    assert storage.metrics.requests == 1
    assert all(sample.is_empty for sample in sketch.samples.values())
    assert sketch.null_value_counts == {1: 10, 2: 10, 3: 10, 4: 10}
    assert sketch.nan_value_counts == {2: 0, 3: 0}
    location = write(tmp_path / "b.parquet", table.slice(0, 0))
    sketch = sketch_parquet(storage, location, schema, [1])
    assert sketch.samples[1].is_empty
    assert sketch.null_value_counts[1] == 0


def test_the_footer_is_read_once_and_not_at_all_if_given(tmp_path: Path) -> None:
    location = write(tmp_path / "a.parquet", pa.table({"a": [1]}))
    storage = Storage()
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    metadata = read_metadata(storage, location)
    for options, requests in (({}, 2), ({"metadata": metadata}, 1)):
        before = storage.metrics.requests
        assert sketch_parquet(storage, location, schema, [1], **options).samples[1].estimate() == 1  # type: ignore[arg-type]
        assert storage.metrics.requests - before == requests


# What is refused ------------------------------------------------------------------------------------------------------


def test_unknown_field_ids_are_refused(tmp_path: Path) -> None:
    location = write(tmp_path / "a.parquet", NESTED)
    schema = with_ids(NESTED.schema)
    for wrong in (2, 99):  # 2 is a struct
        with pytest.raises(SchemaError, match=f"no primitive column has field id {wrong}"):
            sketch_parquet(Storage(), location, schema, [1, wrong])
        with pytest.raises(SchemaError, match=f"no primitive column has field id {wrong}"):
            BatchSketcher(schema, [wrong])


def test_a_column_that_lies_in_a_list_is_refused(tmp_path: Path) -> None:
    element = pa.field("element", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table({"a": pa.array([[1]], pa.list_(element))}), tmp_path / "a.parquet")
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    with pytest.raises(SchemaError, match="column a is in a list or map of the file"):
        sketch_parquet(Storage(), str(tmp_path / "a.parquet"), schema, [1])


def test_damaged_files_raise_errors_of_ours_only(tmp_path: Path) -> None:
    for name in ("snappy", "zstd-legacy"):
        path = next(path for path in SPARK_FILES if path.stem == name)
        data = path.read_bytes()
        schema = table_schema(path)
        target = tmp_path / "a.parquet"
        choose = random.Random(name)
        failed = 0
        for _ in range(60):
            damaged = bytearray(data)
            for _ in range(20):
                damaged[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
            target.write_bytes(damaged)
            try:
                sketch_parquet(Storage(), str(target), schema, ids_of(schema))
            except SkerryError as error:
                assert error.location == str(target), error  # noqa: PT017
                failed += 1
        assert failed > 20
        target.write_bytes(data[: len(data) // 2])
        with pytest.raises(FormatError):
            sketch_parquet(Storage(), str(target), schema, ids_of(schema))


@pytest.mark.parametrize("route", ["dictionary", "pages", "pyarrow"])
def test_a_damaged_page_is_named_with_its_place(route: str, tmp_path: Path) -> None:
    options = {"column_encoding": {"a": "DELTA_BINARY_PACKED"}, "use_dictionary": False} if route == "pyarrow" else {}
    location = write(tmp_path / "a.parquet", pa.table({"a": [1, 2, 3]}), compression="zstd", **options)
    metadata: FileMetadata = read_metadata(Storage(), location)
    if route == "dictionary":
        metadata = replace(metadata, created_by=MR)
    data = bytearray(Path(location).read_bytes())
    data[4:40] = bytes(36)
    Path(location).write_bytes(data)
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    with pytest.raises(FormatError) as raised:
        sketch_parquet(Storage(), location, schema, [1], metadata=metadata)
    assert raised.value.location == location
    assert raised.value.offset == (None if route == "pyarrow" else 4)


# Batches --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [TABLE, NESTED], ids=["flat", "nested"])
def test_batches_give_what_their_file_gives(table: pa.Table, tmp_path: Path) -> None:
    location = write(tmp_path / "a.parquet", table)
    schema = with_ids(table.schema)
    sketcher = BatchSketcher(schema, ids_of(schema))
    for batch in table.cast(schema).to_batches(max_chunksize=37):
        sketcher.update(batch)
    sketch = sketch_parquet(Storage(), location, schema, ids_of(schema))
    assert sketcher.nan_value_counts == sketch.nan_value_counts
    for field_id, sample in sketcher.samples.items():
        assert same(sample, sketch.samples[field_id])


def test_nans_are_counted_in_columns_that_are_not_sketched() -> None:
    schema = with_ids(TABLE.schema)
    sketcher = BatchSketcher(schema, [1])
    for batch in TABLE.cast(schema).to_batches():
        sketcher.update(batch)
    assert sketcher.samples.keys() == {1}
    assert sketcher.nan_value_counts == {5: 429, 6: 321}


def test_rows_of_another_schema_are_refused() -> None:
    schema = with_ids(NESTED.schema)
    sketcher = BatchSketcher(schema, [1, 3])
    (batch,) = NESTED.to_batches()
    inner = batch.column("s")
    wrong = {
        "no column id": batch.select(["s"]),
        "no column s.a": batch.set_column(1, "s", pa.StructArray.from_arrays([inner.field(1)], ["b"])),
        "column id is int32 in the rows and int64 in the table": batch.set_column(
            0, "id", batch.column(0).cast("int32")
        ),
    }
    for message, rows in wrong.items():
        with pytest.raises(SchemaError, match=message):
            sketcher.update(rows)


def test_dictionary_encoded_batches_are_hashed_by_their_used_values() -> None:
    values = pa.array([f"value {i}" for i in range(100)])
    column = pa.DictionaryArray.from_arrays(pa.array([i % 10 for i in range(1000)], pa.int32()), values)
    sketcher = BatchSketcher(TEXT, [1])
    sketcher.update(pa.RecordBatch.from_arrays([column], ["a"]))
    assert same(sketcher.samples[1], Sample().update(values[:10]))


def test_rows_that_come_at_once_are_sketched_a_column_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {f"c{i}": range(0, 2000 * i, i) for i in range(1, 5)}
    rows = pa.table({**columns, "f": [float("nan"), 1.5] * 1000})
    schema = with_ids(rows.schema)
    batches = rows.cast(schema).to_batches(max_chunksize=300)
    at_once, in_turn = BatchSketcher(schema, ids_of(schema)), BatchSketcher(schema, ids_of(schema))
    for batch in batches:
        in_turn.update(batch)

    working = []  # samples with working memory, at every update
    update = Sample.update

    def counted(sample: Sample, values: Any) -> None:
        update(sample, values)
        working.append(sum(other._collector is not None for other in at_once.samples.values()))

    monkeypatch.setattr(Sample, "update", counted)
    for part in (batches[:3], batches[3:]):
        at_once.update_once(part)
    assert working == [1] * (5 * len(batches))
    for field_id, sample in in_turn.samples.items():
        assert at_once.samples[field_id].serialize() == sample.serialize()
    assert at_once.nan_value_counts == in_turn.nan_value_counts == {ids_of(schema)[-1]: 1000}
