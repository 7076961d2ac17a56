"""What the format allows and no writer at hand makes: other layouts of buffers, internal fields, moved shards."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from altered_shards import Parts, bitmap, written
from golden_shards import SHIPPED

from skerry import amudai
from skerry.amudai.fields.value_dictionary import ValueDictionary, encode_value_dictionary
from skerry.amudai.messages import BufferKind, DataEncoding, ParquetFileColumnRef
from skerry.amudai.shard.schema import Field, InternalKind, Schema
from skerry.amudai.values.decimals import encode_decimal
from skerry.errors import FormatError, NotFoundError, UnsupportedError

ROWS = 2500
STRINGS = [None if i % 7 == 3 else "é" * (i % 5) + str(i) for i in range(ROWS)]
NUMBERS = [None if i % 5 == 2 else i * 3 for i in range(ROWS)]
TABLE = pa.table({"n": pa.array(NUMBERS, pa.int32()), "s": STRINGS, "b": [i % 3 == 0 for i in range(ROWS)]})
Write = Callable[[Parts], str]


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return written(TABLE, tmp_path / "written.amudai.shard", stripe_rows=10_000)


def _replace(parts: Parts, name: str, *buffers: object) -> None:
    native = parts.descriptor(name).encodings[0].native
    native.ClearField("buffers")
    native.buffers.extend(buffers)


def _assert_reads(path: str, expected: pa.Table = TABLE) -> None:
    file = amudai.ShardFile(path)
    table = file.read()
    table.validate(full=True)
    assert table.to_pylist() == expected.to_pylist()
    rows = [expected.num_rows - 1, 5, 1001, 1003, 17]
    assert file.take(rows).to_pylist() == expected.take(pa.array(rows)).to_pylist()


def test_sealing_again_changes_nothing(parts: Parts, tmp_path: Path) -> None:
    _assert_reads(parts.seal(tmp_path / "sealed"))


def test_presence_of_numbers_in_a_buffer_of_its_own(parts: Parts, tmp_path: Path) -> None:
    values = np.array([77 if number is None else number for number in NUMBERS], np.int32)
    present = np.array([number is not None for number in NUMBERS])
    data = parts.add_numbers(BufferKind.DATA, values)
    _replace(parts, "n", data, parts.add_numbers(BufferKind.PRESENCE, bitmap(present), 100))
    _assert_reads(parts.seal(tmp_path / "sealed"))


def test_offsets_and_presence_of_strings_in_buffers_of_their_own(parts: Parts, tmp_path: Path) -> None:
    encoded = [(text or "").encode() for text in STRINGS]
    offsets = np.append(0, np.cumsum([len(text) for text in encoded])).astype(np.uint64)
    data = np.frombuffer(b"".join(encoded), np.uint8)
    present = np.array([text is not None for text in STRINGS])
    _replace(
        parts,
        "s",
        parts.add_numbers(BufferKind.DATA, data, 512),
        parts.add_numbers(BufferKind.OFFSETS, offsets, 300),
        parts.add_numbers(BufferKind.PRESENCE, bitmap(present)),
    )
    path = parts.seal(tmp_path / "sealed")
    _assert_reads(path)
    large = pa.schema([pa.field("s", pa.large_string())])
    assert amudai.read_table(path, columns=["s"], schema=large)["s"].to_pylist() == STRINGS


def test_numbers_with_a_value_dictionary(parts: Parts, tmp_path: Path) -> None:
    distinct = np.array([0, 10, 20, 30], np.int32)  # id 0 stands for null
    ids = np.array([i % 4 for i in range(ROWS)], np.uint32)
    offsets = np.arange(0, 17, 4, dtype=np.int64)
    node = parts.schema.field("n").data_type
    entries = ValueDictionary(node.basic_type, 4, 0, distinct.view(np.uint8), offsets, np.array([1, 2, 3], np.uint32))
    dictionary = parts.add_numbers(BufferKind.VALUE_DICTIONARY, ids)
    dictionary.ClearField("block_map")
    dictionary.ClearField("block_count")
    dictionary.buffer.CopyFrom(parts.add(encode_value_dictionary(entries)))
    _replace(parts, "n", parts.add_numbers(BufferKind.DATA, ids), dictionary)
    parts.descriptor("n").field.dictionary_size = 4
    expected = TABLE.set_column(0, "n", pa.array([[None, 10, 20, 30][i % 4] for i in range(ROWS)], pa.int32()))
    _assert_reads(parts.seal(tmp_path / "sealed"), expected)


def test_blocks_without_checksums(parts: Parts, tmp_path: Path) -> None:
    values = np.arange(ROWS, dtype=np.int32)
    _replace(parts, "n", parts.add_numbers(BufferKind.DATA, values, has_checksums=False))
    _assert_reads(parts.seal(tmp_path / "sealed"), TABLE.set_column(0, "n", pa.array(values)))


def test_the_first_encoding_that_is_known_is_read(parts: Parts, tmp_path: Path) -> None:
    encodings = parts.descriptor("n").encodings
    known = DataEncoding()
    known.CopyFrom(encodings[0])
    packed = DataEncoding()
    packed.native.packed_group = True
    opaque = DataEncoding()
    opaque.native.buffers.add(kind=BufferKind.OPAQUE_DICTIONARY)
    del encodings[:]
    encodings.extend([DataEncoding(), packed, opaque, known])
    _assert_reads(parts.seal(tmp_path / "sealed"))


def test_only_unknown_encodings_are_refused_once_data_is_wanted(parts: Parts, tmp_path: Path) -> None:
    encodings = parts.descriptor("n").encodings
    del encodings[:]
    encodings.add().native.packed_group = True
    path = parts.seal(tmp_path / "sealed")
    with pytest.raises(UnsupportedError, match=r"field 'n' .*packed groups have no defined bytes"):
        amudai.read_table(path)
    assert amudai.read_table(path, columns=["s"]).num_rows == ROWS


def test_delimited_strings_are_refused(parts: Parts, tmp_path: Path) -> None:
    parts.buffers("s")[BufferKind.DATA].embedded_offsets = False
    with pytest.raises(UnsupportedError, match="delimited strings have no defined bytes"):
        amudai.read_table(parts.seal(tmp_path / "sealed"))


def test_a_field_without_descriptor_is_null(parts: Parts, tmp_path: Path) -> None:
    parts.fields[0][parts.schema.field("s").schema_id] = None
    parts.shard_fields[parts.schema.field("s").schema_id] = None
    path = parts.seal(tmp_path / "sealed")
    _assert_reads(path, TABLE.set_column(1, "s", pa.nulls(ROWS, pa.string())))
    assert amudai.ShardFile(path).statistics("s") is None


def test_a_column_that_a_stripe_lacks_is_counted_as_null() -> None:
    shard = amudai.ShardFile(str(SHIPPED / "missing-columns" / "data.amudai.shard"))
    counts = {name: shard.read(columns=[name])[name].null_count for name in shard.schema.names}
    assert {name: shard.statistics(name).null_count for name in shard.schema.names} == counts
    assert [each and each.null_count for each in shard.stripe_statistics("last")] == [0, None, None]
    assert {shard.statistics(name).position_count for name in shard.schema.names} == {shard.num_rows}


def test_items_of_fixed_lists_that_are_missing_at_the_end(tmp_path: Path) -> None:
    lists = [[i, i] if i < 5 else None for i in range(20)]
    table = pa.table(
        {
            "l": pa.array(lists, pa.list_(pa.int32(), 2)),
            "full": pa.array([[i] for i in range(20)], pa.list_(pa.int8(), 1)),
        }
    )
    parts = written(table, tmp_path / "written")

    def cut(name: str, values: np.ndarray) -> None:
        item = parts.fields[0][parts.schema.field(name).data_type.children[0].schema_id]
        assert item is not None
        native = item.encodings[0].native
        native.ClearField("buffers")
        native.buffers.append(parts.add_numbers(BufferKind.DATA, values))
        item.field.ClearField("constant_value")
        item.field.ClearField("null_count")
        item.field.position_count = len(values)

    cut("l", np.repeat(np.arange(7, dtype=np.int32), 2)[:13])
    path = parts.seal(tmp_path / "sealed")
    _assert_reads_short(path, table)
    cut("full", np.arange(19, dtype=np.int8))
    with pytest.raises(FormatError, match="lists that are not null lead to item 20 of 19"):
        amudai.read_table(parts.seal(tmp_path / "wrong"))


def _assert_reads_short(path: str, table: pa.Table) -> None:
    file = amudai.ShardFile(path)
    assert file.read().to_pylist() == table.to_pylist()
    rows = [19, 4, 6, 7, 0]
    assert file.take(rows).to_pylist() == table.take(pa.array(rows)).to_pylist()
    assert file.read(columns=["l"], filters=pc.field("l").is_valid())["l"].to_pylist() == table["l"].to_pylist()[:5]


def test_an_unknown_field_in_a_list_is_null(tmp_path: Path) -> None:
    table = pa.table({"l": [[1, 2], None, [3]]})
    parts = written(table, tmp_path / "written")
    item = parts.schema.field("l").data_type.children[0]
    parts.fields[0][item.schema_id] = None
    assert amudai.read_table(parts.seal(tmp_path / "sealed"))["l"].to_pylist() == [[None, None], None, [None]]


def _with_internal(parts: Parts, name: str, kind: str, new_name: str) -> None:
    fields = [
        Field(dataclasses.replace(found.data_type, name=new_name), kind) if found.name == name else found
        for found in parts.schema.fields
    ]
    parts.schema = Schema(tuple(fields), parts.schema.schema_id_count)


def test_deleted_rows_are_left_out(parts: Parts, tmp_path: Path) -> None:
    _with_internal(parts, "b", InternalKind.DELETED_RECORD, "")
    deleted = np.array(TABLE["b"].to_pylist())
    parts.directory.deleted_record_count = parts.stripes.stripes[0].deleted_record_count = int(deleted.sum())
    path = parts.seal(tmp_path / "sealed")
    living = TABLE.filter(pa.array(~deleted)).drop_columns("b")
    file = amudai.ShardFile(path)
    assert file.num_rows == living.num_rows
    assert file.schema.names == ["n", "s"]
    assert file.read().to_pylist() == living.to_pylist()
    assert sum(batch.num_rows for batch in file.iter_batches(100)) == living.num_rows
    assert file.read(filters=[("n", "<", 300)]).num_rows == living.filter(pa.compute.field("n") < 300).num_rows
    everything = file.read(internal_fields=True)
    assert everything.num_rows == ROWS
    assert everything[InternalKind.DELETED_RECORD].to_pylist() == deleted.tolist()
    assert file.take([0, 1])["n"].to_pylist() == TABLE["n"].to_pylist()[:2]  # by position, deleted or not


def test_more_deleted_rows_than_the_directory_says_are_damage(parts: Parts, tmp_path: Path) -> None:
    _with_internal(parts, "b", InternalKind.DELETED_RECORD, "")
    with pytest.raises(FormatError, match=r"stripe 0 has 834 records that are marked as deleted, expected 0"):
        amudai.read_table(parts.seal(tmp_path / "sealed"))


def test_internal_fields_are_hidden(parts: Parts, tmp_path: Path) -> None:
    _with_internal(parts, "n", InternalKind.INGESTION_TIMESTAMP, "")
    _with_internal(parts, "b", InternalKind.RECORD_IDENTITY, "")
    file = amudai.ShardFile(parts.seal(tmp_path / "sealed"))
    assert file.read().column_names == ["s"]
    found = file.read(internal_fields=True)
    assert found.column_names == [InternalKind.INGESTION_TIMESTAMP, "s", InternalKind.RECORD_IDENTITY]
    assert found[0].to_pylist() == NUMBERS


def test_columns_are_found_by_their_aliases(parts: Parts, tmp_path: Path) -> None:
    fields = [
        Field(dataclasses.replace(found.data_type, aliases=("text", "label"))) if found.name == "s" else found
        for found in parts.schema.fields
    ]
    parts.schema = Schema(tuple(fields), parts.schema.schema_id_count)
    path = parts.seal(tmp_path / "sealed")
    found = amudai.read_table(path, columns=["label", "n"])
    assert found.column_names == ["label", "n"]
    assert found["label"].to_pylist() == STRINGS
    with pytest.raises(NotFoundError, match="no column 'lable'"):
        amudai.read_table(path, columns=["lable"])
    wanted = STRINGS[-1]
    expected = [number for number, text in zip(NUMBERS, STRINGS, strict=True) if text == wanted]
    for filters in (
        [("text", "=", wanted)],
        pc.field("text") == wanted,
        (pc.field("label") == wanted) & pc.field("s").is_valid(),
    ):
        assert amudai.read_table(path, columns=["n"], filters=filters)["n"].to_pylist() == expected


def test_a_moved_shard_keeps_its_statistics(tmp_path: Path) -> None:
    """The reference stores where the root was; what it says there lies in the root still."""
    shutil.copytree(SHIPPED / "planes", tmp_path / "moved")
    file = amudai.ShardFile(tmp_path / "moved" / "data.amudai.shard")
    statistics = file.statistics("year")
    assert statistics is not None
    assert statistics.range is not None
    assert (statistics.range.low, statistics.range.high, statistics.null_count) == (1956, 2013, 70)


def test_types_may_be_asked_for() -> None:
    source = SHIPPED / "rows-1" / "data.amudai.shard"
    asked = pa.schema([pa.field("d", pa.timestamp("ms", "UTC")), pa.field("s", pa.large_string())])
    table = amudai.read_table(source, schema=asked)
    assert table.schema.field("d").type == pa.timestamp("ms", "UTC")
    assert table.schema.field("s").type == pa.large_string()
    ticks = amudai.read_table(source, schema=pa.schema([("d", pa.uint64())]))["d"].to_pylist()
    assert ticks == [628_926_847_502_860_000]


def test_parquet_chunks_of_composites_are_refused(tmp_path: Path) -> None:
    parts = written(pa.table({"l": [[1], [2]]}), tmp_path / "written")
    encodings = parts.descriptor("l").encodings
    del encodings[:]
    encodings.add().parquet.file_column_refs.append(ParquetFileColumnRef())
    with pytest.raises(UnsupportedError, match="composite types in Parquet files are not read"):
        amudai.read_table(parts.seal(tmp_path / "sealed"))


_TICKS = {"ARROW:extension:name": "KustoDateTime"}
_SPANS = {"ARROW:extension:name": "KustoTimeSpan"}
_DECIMAL = {"ARROW:extension:name": "KustoDecimal"}


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (pa.array([1, 2], pa.timestamp("s")), pa.timestamp("ns")),
        (pa.array([-62_135_596_800, 253_402_300_799, None], pa.timestamp("s")), pa.timestamp("us")),
        (pa.array([1, 1 << 59], pa.duration("us")), pa.duration("us")),
        (pa.array([Decimal(10) ** 33, Decimal("1E-10"), None], pa.decimal256(60, 20)), pa.decimal256(76, 42)),
        (pa.array([Decimal(10) ** 17, Decimal("1E-20")], pa.decimal256(60, 20)), pa.decimal128(38, 20)),
        (pa.array([Decimal("1.5"), None], pa.decimal128(5, 2)), pa.decimal128(38, 37)),
        (pa.array([Decimal("-12345.5")], pa.decimal128(9, 2)), pa.decimal128(38, 33)),
        (pa.array([Decimal(10) ** 50], pa.decimal256(60, 2)), pa.decimal256(76, 25)),
        (pa.array([None, None], pa.decimal128(5, 2)), pa.decimal256(76, 38)),
    ],
    ids=str,
)
def test_types_are_chosen_by_the_range_of_values(column: pa.Array, shown: pa.DataType, tmp_path: Path) -> None:
    path = tmp_path / "data.amudai.shard"
    amudai.write_table(pa.table({"c": column}), path, with_arrow_schema=False)
    found = amudai.read_table(path)["c"]
    assert found.type == shown
    if pa.types.is_decimal(shown):
        assert found.to_pylist() == column.to_pylist()
    else:
        assert found.cast(column.type).to_pylist() == column.to_pylist()


@pytest.mark.parametrize(
    ("values", "type_", "metadata"),
    [
        ([3_155_378_975_999_999_999, 1], pa.uint64(), _TICKS),
        ([0, 637_134_336_000_000_001, 3_155_378_975_990_000_000], pa.uint64(), _TICKS),
        ([0, -(1 << 62) + 1, (1 << 62), -(1 << 62)], pa.int64(), _SPANS),
        ([encode_decimal(Decimal("NaN")), encode_decimal(Decimal(1))], pa.binary(16), _DECIMAL),
        ([encode_decimal(Decimal("Infinity"))], pa.binary(16), _DECIMAL),
    ],
    ids=str,
)
def test_what_no_type_of_arrow_holds_is_shown_as_stored(
    values: list[object], type_: pa.DataType, metadata: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "data.amudai.shard"
    field = pa.field("c", type_, metadata=metadata)
    table = pa.table([pa.array(values, type_)], schema=pa.schema([field]))
    amudai.write_table(table, path, with_arrow_schema=False)
    found = amudai.read_table(path)
    assert found.schema.field("c").equals(field, check_metadata=True)
    assert found["c"].to_pylist() == values


def test_far_moments_below_lists_are_whole_microseconds_or_shown_as_stored(tmp_path: Path) -> None:
    far = [0, 3_155_378_975_990_000_000]
    for middle, shown in ((637_134_336_000_000_010, pa.timestamp("us")), (637_134_336_000_000_001, pa.uint64())):
        field = pa.field("item", pa.uint64(), metadata=_TICKS)
        column = pa.array([[far[0], None, middle], None, [], [far[1]]], pa.list_(field))
        path = tmp_path / f"{shown}.amudai.shard"
        amudai.write_table(pa.table({"c": column}), path, with_arrow_schema=False)
        found = amudai.read_table(path)["c"]
        assert found.type.value_type == shown
        assert [None if each is None else len(each) for each in found.to_pylist()] == [3, None, 0, 1]
