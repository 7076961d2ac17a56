"""Shards over Parquet files: rows come from the files' own pages, and of them only those that are needed."""

from __future__ import annotations

import contextlib
import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skerry.amudai.merging import merge
from skerry.amudai.messages import ParquetColumnChunkRef, ParquetStorageType
from skerry.amudai.reading.shard_file import ShardFile, read_table
from skerry.amudai.writing.external_parquet import write_over_parquet
from skerry.amudai.writing.shard_writer import write_table
from skerry.errors import AlreadyExistsError, FormatError, SchemaError, UnsupportedError
from skerry.storage import Storage

LAYOUTS: list[dict[str, Any]] = [
    {},
    {"use_dictionary": False, "compression": "zstd", "data_page_version": "2.0", "data_page_size": 4000},
    {"compression": "gzip", "data_page_size": 300, "write_batch_size": 100, "row_group_size": 700},
    {"compression": "none", "column_encoding": {"n": "DELTA_BINARY_PACKED"}, "use_dictionary": ["s"]},
    {"compression": "brotli", "use_deprecated_int96_timestamps": True, "write_page_checksum": True},
]


def rows(start: int = 0, count: int = 2000) -> pa.Table:
    numbers = range(start, start + count)
    day = dt.datetime(2020, 1, 1)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int32()),
            "tiny": pa.array([i % 100 if i % 7 else None for i in numbers], pa.int8()),
            "big": pa.array([i << 40 for i in numbers], pa.uint64()),
            "f": pa.array([i / 8 if i % 3 else None for i in numbers], pa.float32()),
            "d": pa.array([float(i) for i in numbers]),
            "b": pa.array([i % 3 == 0 if i % 5 else None for i in numbers]),
            "s": pa.array([f"word {i % 50}" if i % 11 else None for i in numbers]),
            "x": pa.array([bytes([i % 256]) * 3 for i in numbers], pa.binary(3)),
            "dec": pa.array([Decimal(i) / 4 for i in numbers], pa.decimal128(12, 2)),
            "ts": pa.array([day + dt.timedelta(seconds=i) for i in numbers], pa.timestamp("us", "UTC")),
            "day": pa.array([(day + dt.timedelta(i)).date() for i in numbers], pa.date32()),
            "none": pa.array([None] * count, pa.int64()),
            "cat": pa.array([str(i % 3) for i in numbers]).dictionary_encode(),
            "list": pa.array([[i, None] if i % 4 else None for i in numbers], pa.list_(pa.int64())),
            "struct": pa.array([{"p": i, "q": str(i)} if i % 6 else None for i in numbers]),
        },
        schema=None,
    )


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Equal schema and values; dictionaries may be others."""
    assert found.schema.equals(expected.schema)
    for name in expected.column_names:
        assert found[name].to_pylist() == expected[name].to_pylist(), name


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_those_of_the_files(tmp_path: Path, layout: dict[str, Any]) -> None:
    table = rows()
    if layout.get("use_deprecated_int96_timestamps"):
        table = table.drop_columns("ts").append_column("ts", pa.array([dt.datetime(2020, 1, 1)] * 2000))
    pq.write_table(table, tmp_path / "a.parquet", **layout)
    pq.write_table(table.slice(0, 500), tmp_path / "b.parquet", **layout)
    written = write_over_parquet([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "x.shard")
    expected = pa.concat_tables([pq.read_table(tmp_path / name) for name in ("a.parquet", "b.parquet")])
    shard = ShardFile(tmp_path / "x.shard")
    assert_same(shard.read(), expected)
    assert shard.num_rows == written.record_count == 2500
    groups = sum(pq.ParquetFile(tmp_path / name).num_row_groups for name in ("a.parquet", "b.parquet"))
    assert shard.num_stripes == groups
    places = [2499, 0, 701, 699, 1234, 1235, 1236, 0]
    assert_same(shard.take(places), expected.take(places))
    assert shard.read(columns=["s"], filters=[("n", ">=", 1990)]).equals(
        expected.filter(np.array(expected["n"]) >= 1990).select(["s"])
    )
    batches = list(shard.iter_batches(333, columns=["ts", "list"]))
    assert pa.Table.from_batches(batches).equals(expected.select(["ts", "list"]))
    assert shard.metadata.urls == ("a.parquet", "b.parquet")


def chunks(shard: ShardFile, column: str) -> list[ParquetColumnChunkRef]:
    (reader,) = shard.metadata.stripe_readers([0])
    node = shard.shard_schema.field(column).data_type
    reader.load_descriptors([node])
    message = reader.fields.descriptor(node)
    assert message is not None
    return list(message.encodings[0].parquet.file_column_refs[0].column_chunks)


def test_every_field_of_a_reference_is_filled(tmp_path: Path) -> None:
    table = rows().select(["struct", "list", "s", "n"])
    pq.write_table(table, tmp_path / "a.parquet", data_page_size=1000, write_batch_size=100)
    write_over_parquet([tmp_path / "a.parquet"], tmp_path / "x.shard")
    shard = ShardFile(tmp_path / "x.shard")
    footer = pq.read_metadata(tmp_path / "a.parquet")
    (chunk,) = chunks(shard, "s")
    meta = footer.row_group(0).column(3)
    assert meta.path_in_schema == "s"
    assert chunk.storage_type == ParquetStorageType.BYTE_ARRAY
    assert chunk.schema_element_id == 7  # schema, struct, p, q, list, list, element, s
    assert (chunk.row_group_id, chunk.column_chunk_id, chunk.file_url) == (0, 3, "a.parquet")
    assert chunk.dictionary_range.start == meta.dictionary_page_offset
    assert chunk.dictionary_range.end == chunk.data_pages_range.start == meta.data_page_offset
    assert chunk.data_pages_range.end == meta.dictionary_page_offset + meta.total_compressed_size
    assert chunk.data_page_count > 1
    assert chunk.data_page_map.range.end > chunk.data_page_map.range.start
    assert chunks(shard, "n")[0].schema_element_id == 8


def test_rows_by_position_read_only_their_pages_and_no_footer(tmp_path: Path) -> None:
    table = pa.table({"n": np.random.default_rng(1).integers(0, 1 << 60, 200_000)})
    pq.write_table(table, tmp_path / "a.parquet", data_page_size=8000, use_dictionary=False)
    write_over_parquet([tmp_path / "a.parquet"], tmp_path / "x.shard")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[-2000:] = bytes(2000)  # neither a footer nor a magic
    (tmp_path / "a.parquet").write_bytes(data)
    storage = Storage()
    shard = ShardFile(tmp_path / "x.shard", storage=storage)
    assert shard.take([5, 150_000])["n"].to_pylist() == [table["n"][5].as_py(), table["n"][150_000].as_py()]
    assert storage.metrics.bytes_read < 100_000


def test_statistics_come_from_the_values(tmp_path: Path) -> None:
    pq.write_table(rows(), tmp_path / "a.parquet", write_statistics=False, row_group_size=500)
    write_over_parquet([tmp_path / "a.parquet"], tmp_path / "x.shard", properties={"p": 1})
    write_table(rows(), tmp_path / "y.shard", stripe_rows=500)
    over, plain = ShardFile(tmp_path / "x.shard"), ShardFile(tmp_path / "y.shard")
    assert over.properties.get("p") == 1
    for name in rows().column_names:
        assert over.statistics(name) == plain.statistics(name) or name == "s"
    words = over.statistics("s")
    assert words is not None
    assert words.distinct_count == 48  # an estimate for 50
    storage = Storage()
    shard = ShardFile(tmp_path / "x.shard", storage=storage)
    assert shard.read(columns=["n"], filters=[("s", "=", "no word")]).num_rows == 0
    assert storage.metrics.bytes_read < (tmp_path / "x.shard").stat().st_size + 100


def test_shards_over_parquet_are_merged_with_others(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    pq.write_table(rows(), tmp_path / "data" / "a.parquet")
    write_over_parquet([tmp_path / "data" / "a.parquet"], tmp_path / "data" / "x.shard")
    write_table(rows(2000), tmp_path / "y.shard")
    merge([tmp_path / "data" / "x.shard", tmp_path / "y.shard"], tmp_path / "all.shard")
    expected = pa.concat_tables([rows(), rows(2000)])
    assert_same(read_table(tmp_path / "all.shard"), expected)


def strip(path: Path, *names: str) -> None:
    """Write a shard over the same file anew, without what only this package writes, or without page maps."""
    import skerry.amudai.writing.external_parquet as module
    from skerry.amudai.messages import NameValuePair

    original_property, original_reference = module.layout_property, module._reference

    def without_map(*arguments: Any) -> Any:
        reference = original_reference(*arguments)
        if "map" in names:
            reference.column_chunks[0].ClearField("data_page_map")
        return reference

    try:
        if "layout" in names:
            module.layout_property = lambda layout: NameValuePair(name="other")
        module._reference = without_map
        write_over_parquet([path], path.with_suffix(".shard"), overwrite=True)
    finally:
        module.layout_property, module._reference = original_property, original_reference


@pytest.mark.parametrize("names", [("layout",), ("map",), ("layout", "map")])
def test_shards_of_others_are_read_through_the_footer(tmp_path: Path, names: tuple[str, ...]) -> None:
    table = rows().drop_columns("cat")
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=700, data_page_size=500, write_batch_size=50)
    strip(tmp_path / "a.parquet", *names)
    shard = ShardFile(tmp_path / "a.shard")
    assert shard.read().equals(table)
    assert shard.take([3, 1999, 650]).equals(table.take([3, 1999, 650]))


def test_what_cannot_be_referred_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(rows(), tmp_path / "a.parquet")
    pq.write_table(rows().select(["n"]), tmp_path / "b.parquet")
    pq.write_table(pa.table({"t": pa.array([1], pa.time64("us"))}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"t": pa.array([150], pa.timestamp("ns"))}), tmp_path / "d.parquet")
    (tmp_path / "e.parquet").write_bytes(b"PAR1" * 10)
    for files, where, kind, error in (
        ([], "x.shard", SchemaError, "no Parquet files"),
        (["a.parquet"], "in/x.shard", UnsupportedError, "is outside of the folder"),
        (["a.parquet", "b.parquet"], "x.shard", SchemaError, "those of the first file"),
        (["c.parquet"], "x.shard", UnsupportedError, "a shard cannot hold time64"),
        (["d.parquet"], "x.shard", SchemaError, "expected a multiple of 100 ns"),
        (["e.parquet"], "x.shard", FormatError, "footer"),
        (["a.parquet"], "a.parquet", AlreadyExistsError, "would replace one of its files"),
    ):
        with pytest.raises(kind, match=error):
            write_over_parquet([tmp_path / name for name in files], tmp_path / where)
        assert not list(tmp_path.rglob("*.shard"))
    write_over_parquet([tmp_path / "a.parquet"], tmp_path / "in" / "x.shard", allowed_locations=[str(tmp_path)])
    with pytest.raises(UnsupportedError, match="absolute urls"):
        read_table(tmp_path / "in" / "x.shard", columns=["n"])
    assert (
        ShardFile(tmp_path / "in" / "x.shard", allowed_locations=[str(tmp_path)]).read(columns=["n"]).num_rows == 2000
    )


def test_damage_to_the_files_is_noticed(tmp_path: Path) -> None:
    table = rows().select(["n", "s"])
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, write_page_checksum=True)
    write_over_parquet([path], tmp_path / "x.shard")
    good = path.read_bytes()
    random = np.random.default_rng(5)
    for place in random.integers(4, len(good) // 2, 60).tolist():
        data = bytearray(good)
        data[place] ^= 1 << int(random.integers(8))
        path.write_bytes(data)
        with contextlib.suppress(FormatError):
            assert read_table(tmp_path / "x.shard").equals(table)  # a byte that nothing depends on
    path.write_bytes(good[: len(good) // 4])
    with pytest.raises(FormatError):
        read_table(tmp_path / "x.shard")
    path.unlink()
    with pytest.raises(FormatError, match="which does not exist"):
        read_table(tmp_path / "x.shard")


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_text_of_pages_that_is_not_utf8_is_refused(tmp_path: Path, use_dictionary: bool) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"s": ["aaaa", "bbbb"]}), path, compression="none", use_dictionary=use_dictionary)
    write_over_parquet([path], tmp_path / "x.shard")
    path.write_bytes(path.read_bytes().replace(b"bbbb", b"\xffbbb"))
    with pytest.raises(FormatError, match="UTF8"):
        read_table(tmp_path / "x.shard")
