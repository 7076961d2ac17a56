"""Files in Parquet, ORC and Avro as a table has them now: evolution, ids and names, metadata columns, row lineage."""

from __future__ import annotations

import base64
import datetime
import decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyarrow.parquet import encryption
from stored_rows import FORMATS, data_task, field, position_deletes, reader, rows_of, write_rows

from skerry.errors import FormatError, SchemaError, SkerryError, UnsupportedError
from skerry.iceberg.writing.orc_files import orc_schema
from skerry.storage import Storage
from skerry.table.files.data_file import DataFile
from skerry.table.files.evolution import merge_columns
from skerry.table.files.scan_task import FileScanTask
from skerry.table.files.stored_files import open_stored
from skerry.table.predicate import parse
from skerry.table.rows.metadata_columns import (
    LAST_UPDATED_SEQUENCE_NUMBER,
    METADATA_COLUMNS,
    ROW_ID,
    is_metadata_column,
    with_metadata_columns,
)

formats = pytest.mark.parametrize("file_format", FORMATS)
SCHEMA = pa.schema([field("n", pa.int64(), 1), field("word", pa.string(), 2)])


# ---- evolution ----

OLD = pa.schema(
    [
        field("number", pa.int32(), 1, nullable=False),
        field("gone", pa.string(), 2),
        field(
            "place",
            pa.struct(
                [
                    field("lat", pa.float32(), 11),
                    field("dropped", pa.int32(), 12),
                    field("inner", pa.struct([field("a", pa.int32(), 14)]), 13),
                ]
            ),
            3,
        ),
        field(
            "tags",
            pa.list_(field("element", pa.struct([field("k", pa.string(), 22), field("v", pa.int32(), 23)]), 21)),
            4,
        ),
        field("by_name", pa.map_(field("key", pa.string(), 31, nullable=False), field("value", pa.float32(), 32)), 5),
        field("price", pa.decimal128(9, 2), 6),
    ]
)
NOW = pa.schema(
    [
        field("price", pa.decimal128(18, 2), 6),
        field(
            "spot",
            pa.struct(
                [
                    field("inner", pa.struct([field("b", pa.string(), 15), field("a", pa.int64(), 14)]), 13),
                    field("dropped", pa.string(), 16),  # another column of the old name
                    field("latitude", pa.float64(), 11),
                ]
            ),
            3,
        ),
        field("n", pa.int64(), 1, nullable=False),
        field(
            "tags",
            pa.list_(field("element", pa.struct([field("v", pa.int64(), 23), field("more", pa.int32(), 24)]), 21)),
            4,
        ),
        field("by_name", pa.map_(field("key", pa.string(), 31, nullable=False), field("value", pa.float64(), 32)), 5),
        field("new", pa.int32(), 7),
    ]
)
OLD_ROWS = [
    {
        "number": 1,
        "gone": "x",
        "place": {"lat": 1.5, "dropped": 9, "inner": {"a": 5}},
        "tags": [{"k": "a", "v": 1}, {"k": "b", "v": None}],
        "by_name": [("x", 0.5)],
        "price": decimal.Decimal("1.25"),
    },
    {"number": 2, "gone": None, "place": None, "tags": None, "by_name": None, "price": None},
    {
        "number": 3,
        "gone": "y",
        "place": {"lat": None, "dropped": None, "inner": None},
        "tags": [],
        "by_name": [],
        "price": decimal.Decimal("-0.01"),
    },
]
NOW_ROWS = [
    {
        "price": decimal.Decimal("1.25"),
        "spot": {"inner": {"b": "default", "a": 5}, "dropped": None, "latitude": 1.5},
        "n": 1,
        "tags": [{"v": 1, "more": 8}, {"v": None, "more": 8}],
        "by_name": [("x", 0.5)],
        "new": 7,
    },
    {"price": None, "spot": None, "n": 2, "tags": None, "by_name": None, "new": 7},
    {
        "price": decimal.Decimal("-0.01"),
        "spot": {"inner": None, "dropped": None, "latitude": None},
        "n": 3,
        "tags": [],
        "by_name": [],
        "new": 7,
    },
]
DEFAULTS = {7: 7, 15: "default", 24: 8}


@formats
def test_old_files_have_the_columns_of_today(tmp_path, file_format):
    task = data_task(tmp_path / "a", pa.Table.from_pylist(OLD_ROWS, schema=OLD), file_format, constants=DEFAULTS)
    assert rows_of(reader(NOW), [task]) == NOW_ROWS
    for name in NOW.names:
        assert rows_of(reader(NOW, columns=[name]), [task]) == [{name: row[name]} for row in NOW_ROWS]
    tested = FileScanTask(task.data_file, constants=DEFAULTS)
    where = parse("spot.latitude > 1 AND new = 7", NOW)
    assert rows_of(reader(NOW, columns=["n"], predicate=where, read=["n", "spot", "new"]), [tested]) == [{"n": 1}]


@formats
def test_struct_fields_are_read_without_their_neighbours(tmp_path, file_format):
    task = data_task(tmp_path / "a", pa.Table.from_pylist(OLD_ROWS, schema=OLD), file_format)
    part = pa.schema([field("spot", pa.struct([field("dropped", pa.string(), 16)]), 3)])
    expected = [{"spot": {"dropped": None}}, {"spot": None}, {"spot": {"dropped": None}}]
    assert rows_of(reader(part), [task]) == expected


def test_merging_adds_what_is_missing_wherever_it_is():
    merged = merge_columns(NOW, OLD)
    assert merged.names == [*NOW.names, "gone"]
    assert [child.name for child in merged.field("spot").type] == ["inner", "dropped", "latitude", "dropped"]
    assert merged.field("spot").type.field(3).metadata == {b"PARQUET:field_id": b"12"}
    assert merge_columns(NOW, NOW) == NOW
    assert all(f.nullable for f in merge_columns(pa.schema([]), OLD))


# ---- ids and names ----

NAMES = {
    ("n",): 1,
    ("number",): 1,
    ("place",): 3,
    ("place", "lat"): 11,
    ("tags",): 4,
    ("tags", "element"): 21,
    ("tags", "element", "v"): 23,
}
BARE_ROWS = [{"number": 1, "place": {"lat": 1.5}, "tags": [{"v": 4}]}, {"number": 2, "place": None, "tags": []}]
BARE = pa.schema(
    [
        pa.field("number", pa.int32()),
        pa.field("place", pa.struct([pa.field("lat", pa.float32())])),
        pa.field("tags", pa.list_(pa.field("element", pa.struct([pa.field("v", pa.int32())])))),
    ]
)
MAPPED = pa.schema(
    [
        NOW.field("n"),
        pa.field("spot", pa.struct([field("latitude", pa.float64(), 11)]), metadata=NOW.field("spot").metadata),
        NOW.field("tags"),
    ]
)


def write_bare(path, file_format):
    table = pa.Table.from_pylist(BARE_ROWS, schema=BARE)
    if file_format == "parquet":
        pq.write_table(table, path)
    elif file_format == "orc":
        orc.write_table(table, str(path))
    else:
        place = {"type": "record", "name": "p", "fields": [{"name": "lat", "type": "float"}]}
        tag = {"type": "array", "items": {"type": "record", "name": "t", "fields": [{"name": "v", "type": "int"}]}}
        fields = [
            {"name": "number", "type": "int"},
            {"name": "place", "type": ["null", place]},
            {"name": "tags", "type": tag},
        ]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, BARE_ROWS)
    return FileScanTask(DataFile(str(path), file_format, 2, path.stat().st_size), matches_all=True)


@formats
def test_files_without_ids_are_read_through_a_name_mapping(tmp_path, file_format):
    task = write_bare(tmp_path / "a", file_format)
    assert rows_of(reader(MAPPED, names=NAMES), [task]) == [
        {"n": 1, "spot": {"latitude": 1.5}, "tags": [{"v": 4, "more": None}]},
        {"n": 2, "spot": None, "tags": []},
    ]
    with pytest.raises(SchemaError, match="the file has no field ids, and the table has no schema") as caught:
        rows_of(reader(MAPPED), [task])
    assert caught.value.location == task.data_file.location


@formats
def test_a_file_with_ids_does_not_go_by_names(tmp_path, file_format):
    task = data_task(tmp_path / "a", pa.table([[5]], schema=pa.schema([field("n", pa.int64(), 9)])), file_format)
    assert rows_of(reader(SCHEMA, columns=["n"], names={("n",): 1}), [task]) == [{"n": None}]


def test_orc_keeps_the_types_that_it_has_no_word_for(tmp_path):
    schema = pa.schema(
        [
            field("t", pa.time64("us"), 1),
            field("u", pa.uuid(), 2),
            field("f", pa.binary(3), 3),
            field("ts", pa.timestamp("us"), 4),
        ]
    )
    stamp = datetime.datetime(1999, 12, 31, 23, 59, 59, 999999)
    row = {"t": datetime.time(1, 2, 3, 4), "u": b"u" * 16, "f": b"abc", "ts": stamp}
    plain = [
        pa.array([row["t"]], pa.time64("us")),
        pa.array([row["u"]], pa.binary(16)).cast(pa.uuid()),
        pa.array([row["f"]], pa.binary(3)),
        pa.array([stamp], pa.timestamp("us")),
    ]
    task = data_task(tmp_path / "a.orc", pa.table(plain, schema=schema), "orc")
    (found,) = rows_of(reader(schema), [task])
    assert found == {**row, "u": found["u"]}
    assert found["u"].bytes == row["u"]


def test_orc_times_that_pyarrow_cannot_hold_are_refused_by_name(tmp_path):
    schema = pa.schema([field("ts", pa.timestamp("us"), 4)])
    path = tmp_path / "a.orc"
    orc.write_table(pa.table([[datetime.datetime(1500, 1, 1)]], schema=orc_schema(schema)), path)
    task = FileScanTask(DataFile(str(path), "orc", 1, path.stat().st_size), matches_all=True)
    with pytest.raises(UnsupportedError, match="out of range for nanosecond") as caught:
        rows_of(reader(schema), [task])
    assert caught.value.location == task.data_file.location


@pytest.mark.parametrize(("unit", "per_second"), [("us", 10**6), ("ns", 10**9)])
def test_orc_times_that_could_not_be_read_back_are_not_written(tmp_path, unit, per_second):
    schema = pa.schema([field("ts", pa.list_(field("element", pa.timestamp(unit), 5)), 4)])

    def rows(moment):
        return pa.table([pa.array([[moment]], pa.list_(pa.int64())).cast(schema.field("ts").type)], schema=schema)

    high, low = (2**63 - 1) * per_second // 10**9, -(2**63) // 10**9 * per_second + per_second
    for moment in (high, low):
        task = data_task(tmp_path / f"{moment}.orc", rows(moment), "orc")
        (found,) = reader(schema).batches([task])
        assert found.column(0).flatten().cast(pa.int64()).to_pylist() == [moment]
    if unit == "us":
        for moment, text in ((high + 1, "2262-04-11 23:47:16.854776"), (low - per_second, "1677-09-21 00:12:43")):
            with pytest.raises(UnsupportedError, match=f"column 'ts' has {text}: times before 1677-09-21 or after"):
                data_task(tmp_path / "b.orc", rows(moment), "orc")


def test_orc_columns_whose_names_have_dots(tmp_path):
    schema = pa.schema([field("a.b", pa.int64(), 1), field("a", pa.struct([field("b", pa.int64(), 3)]), 2)])
    task = data_task(tmp_path / "a.orc", pa.table([[1], [{"b": 2}]], schema=schema), "orc")
    assert rows_of(reader(schema), [task]) == [{"a.b": 1, "a": {"b": 2}}]
    assert rows_of(reader(schema, columns=["a.b"]), [task]) == [{"a.b": 1}]


@formats
def test_files_that_are_something_else_are_refused(tmp_path, file_format):
    path = tmp_path / "a"
    write_rows(path, pa.table([[1], ["a"]], schema=SCHEMA), file_format)
    whole = path.read_bytes()
    task = FileScanTask(DataFile(str(path), file_format, 1, len(whole)), matches_all=True)
    assert rows_of(reader(SCHEMA), [task]) == [{"n": 1, "word": "a"}]
    for damaged in (b"", b"PAR1", whole[:4], whole[: len(whole) // 2], whole[:-1], b"x" * len(whole)):
        path.write_bytes(damaged)
        with pytest.raises(FormatError) as caught:
            rows_of(reader(SCHEMA), [task])
        assert caught.value.location == str(path)


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_bits_flipped_anywhere_never_raise_anything_unforeseen(tmp_path, file_format):
    path = tmp_path / "a"
    write_rows(path, pa.table([range(50), [f"w{n}" for n in range(50)]], schema=SCHEMA), file_format)
    whole = path.read_bytes()
    task = FileScanTask(DataFile(str(path), file_format, 50, len(whole)))
    for position in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        error = None
        try:
            rows_of(reader(SCHEMA, predicate=parse("n >= 0", SCHEMA)), [task])
        except SkerryError as caught:
            error = caught
        assert error is None or error.location == str(path)


def test_an_avro_file_of_no_records_is_refused(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        fastavro.writer(file, "long", [1, 2])
    with pytest.raises(UnsupportedError, match="an Avro file whose values are not records has no columns"):
        open_stored(Storage(), str(tmp_path / "a"), "avro", SCHEMA, None)


class Keys(encryption.KmsClient):
    """Keeps keys where everybody can read them."""

    def wrap_key(self, key_bytes, master_key_identifier):
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_encrypted_files_are_refused_by_name(tmp_path, plaintext_footer):
    path = tmp_path / "encrypted Parquet file"
    factory = encryption.CryptoFactory(lambda config: Keys())
    wanted = encryption.EncryptionConfiguration("footer", column_keys={"c": ["n"]}, plaintext_footer=plaintext_footer)
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), wanted)
    table = pa.table([[1], ["a"]], schema=SCHEMA)
    with pq.ParquetWriter(path, SCHEMA, encryption_properties=properties) as writer:
        writer.write_table(table)
    task = FileScanTask(DataFile(str(path), "parquet", 1, path.stat().st_size), matches_all=True)
    with pytest.raises(UnsupportedError, match=" is encrypted") as caught:
        rows_of(reader(SCHEMA), [task])
    assert caught.value.location == str(path)
    path.write_bytes(b"something else")
    with pytest.raises(FormatError, match="not a Parquet file"):
        rows_of(reader(SCHEMA), [task])


# ---- metadata columns ----


@formats
def test_rows_tell_where_they_lie(tmp_path, file_format):
    table = pa.table([range(250), ["w"] * 250], schema=SCHEMA)
    group_rows = None if file_format == "avro" else 100
    task = data_task(tmp_path / "a", table, file_format, group_rows=group_rows)
    found = rows_of(reader(SCHEMA, columns=["_pos", "n", "_file", "_spec_id"]), [task])
    assert found == [{"_pos": n, "n": n, "_file": str(tmp_path / "a"), "_spec_id": 3} for n in range(250)]
    assert rows_of(reader(SCHEMA, columns=["_pos"]), [task]) == [{"_pos": n} for n in range(250)]
    where = parse("_pos >= 120 AND _pos < 122 OR n = 7", with_metadata_columns(SCHEMA))
    tested = FileScanTask(task.data_file)
    assert rows_of(reader(SCHEMA, columns=["n"], predicate=where, read=["n", "_pos"]), [tested]) == [
        {"n": n} for n in (7, 120, 121)
    ]


def test_a_column_of_the_table_keeps_its_name():
    own = pa.schema([field("_pos", pa.string(), 1), field("n", pa.int64(), 2)])
    known = with_metadata_columns(own)
    assert known.names == ["_pos", "n", "_file", "_deleted", "_spec_id", "_row_id", "_last_updated_sequence_number"]
    assert known.field("_pos").type == pa.string()
    assert not is_metadata_column(1)
    assert all(is_metadata_column(int(f.metadata[b"PARQUET:field_id"])) for f in METADATA_COLUMNS)


LINEAGE = ["n", "_row_id", "_last_updated_sequence_number"]


def lineage(rows, **fields):
    return [dict(zip(LINEAGE, row, strict=True)) for row in rows]


@formats
def test_rows_without_stored_ids_take_them_from_their_file(tmp_path, file_format):
    table = pa.table([range(5), ["w"] * 5], schema=SCHEMA)
    delete = position_deletes(tmp_path / "d", [(tmp_path / "a", 1)])
    task = data_task(tmp_path / "a", table, file_format, first_row_id=1000, sequence_number=7, deletes=(delete,))
    assert rows_of(reader(SCHEMA, columns=LINEAGE), [task]) == lineage((n, 1000 + n, 7) for n in (0, 2, 3, 4))


@formats
def test_rows_keep_the_ids_that_are_stored_with_them(tmp_path, file_format):
    schema = pa.schema(
        [
            SCHEMA.field("n"),
            field("_row_id", pa.int64(), ROW_ID),
            field("_last_updated_sequence_number", pa.int64(), LAST_UPDATED_SEQUENCE_NUMBER),
        ]
    )
    table = pa.table([[0, 1, 2], [5, None, 9], [None, 3, 4]], schema=schema)
    task = data_task(tmp_path / "a", table, file_format, first_row_id=100, sequence_number=8)
    assert rows_of(reader(SCHEMA, columns=LINEAGE), [task]) == lineage([(0, 5, 8), (1, 101, 3), (2, 9, 4)])
    # what is inherited is in no statistics
    where = parse("_row_id = 101", with_metadata_columns(SCHEMA))
    tested = FileScanTask(task.data_file, first_row_id=100, sequence_number=8)
    assert rows_of(reader(SCHEMA, columns=["n"], predicate=where, read=["n", "_row_id"]), [tested]) == [{"n": 1}]


def test_rows_of_files_without_ids_have_none(tmp_path):
    task = data_task(tmp_path / "a", pa.table([[1], ["w"]], schema=SCHEMA), sequence_number=7)
    assert rows_of(reader(SCHEMA, columns=LINEAGE), [task]) == lineage([(1, None, None)])


def test_the_reader_counts_rows_that_it_would_mark(tmp_path):
    delete = position_deletes(tmp_path / "d", [(tmp_path / "a", 1)])
    task = data_task(tmp_path / "a", pa.table([range(5), ["w"] * 5], schema=SCHEMA), deletes=(delete,))
    marked = reader(SCHEMA, columns=["_deleted"])
    assert [row["_deleted"] for row in rows_of(marked, [task])] == [False, True, False, False, False]
    assert marked.count([task]) == 5


def test_reserved_columns_of_the_format_are_as_the_specification_numbers_them():
    assert {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in METADATA_COLUMNS} == {
        "_file": 2147483646,
        "_pos": 2147483645,
        "_deleted": 2147483644,
        "_spec_id": 2147483643,
        "_row_id": 2147483540,
        "_last_updated_sequence_number": 2147483539,
    }


def test_avro_rows_that_may_be_null_by_their_schema(tmp_path):
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "n", "type": "long", "field-id": 1}, {"name": "word", "type": "string", "field-id": 2}],
    }
    with (tmp_path / "a").open("wb") as file:
        fastavro.writer(file, ["null", schema], [{"n": 1, "word": "w"}, {"n": 2, "word": "x"}])
    opened = open_stored(Storage(), str(tmp_path / "a"), "avro", SCHEMA, None)
    (batch,) = opened.batches(opened.parts[0], 10)
    assert batch.to_pylist() == [{"n": 1, "word": "w"}, {"n": 2, "word": "x"}]


# ---- timestamps of type INT96 ----

TIMES = pa.schema(
    [
        field("far", pa.timestamp("us"), 1),
        field("n", pa.int64(), 2),
        field("fine", pa.struct([field("ns", pa.timestamp("ns"), 4)]), 3),
    ]
)


def int96_file(path, rows, *, writer=b"parquet-cpp-arrow"):
    pq.write_table(rows, path, use_deprecated_int96_timestamps=True, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"parquet-cpp-arrow", writer))
    return open_stored(Storage(), str(path), "parquet", TIMES, None)


def test_int96_is_read_in_the_units_that_are_wanted(tmp_path):
    far = [datetime.datetime(9999, 12, 31), None, datetime.datetime(1, 1, 1)] * 1000
    fine = [{"ns": 1234567890123456789}, None, {"ns": -1}] * 1000
    rows = pa.table({"far": far, "n": range(3000), "fine": fine}, schema=TIMES)
    opened = int96_file(tmp_path / "a", rows)
    found = [pa.Table.from_batches([batch]) for batch in opened.batches(opened.parts[0], 700)]
    assert pa.concat_tables(found).select(TIMES.names).cast(TIMES) == rows


def test_times_that_nanoseconds_do_not_hold_are_refused(tmp_path):
    inner = pa.struct([field("ns", pa.timestamp("us"), 4)])
    far = pa.array([{"ns": 253402214400 * 10**6}], inner)
    rows = pa.table([far], schema=pa.schema([field("fine", inner, 3)]))
    opened = int96_file(tmp_path / "a", rows, writer=b"parquet-mr-older!")
    with pytest.raises(UnsupportedError, match=r"column fine\.ns has a time 2932896 days from 1970") as raised:
        list(opened.batches(opened.parts[0], 10))
    assert raised.value.location == str(tmp_path / "a")


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_column_whose_name_is_not_utf8_is_refused(tmp_path, file_format):
    path = tmp_path / "a"
    named = pa.schema([field("n", pa.int64(), 1), field("wordword", pa.string(), 2)])
    if file_format == "orc":
        attributes = [f.with_metadata({b"iceberg.id": f.metadata[b"PARQUET:field_id"]}) for f in named]
        orc.write_table(pa.table([[1], ["a"]], pa.schema(attributes)), path, compression="uncompressed")
    else:
        pq.write_table(pa.table([[1], ["a"]], named), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"wordword", b"\xfaordword"))
    task = FileScanTask(DataFile(str(path), file_format, 1, path.stat().st_size), matches_all=True)
    with pytest.raises(FormatError, match=r"names a column with bytes that are not UTF-8: b'\\xfaordword'") as caught:
        rows_of(reader(named), [task])
    assert caught.value.location == str(path)


def test_text_of_orc_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "a.orc"
    attributes = [f.with_metadata({b"iceberg.id": f.metadata[b"PARQUET:field_id"]}) for f in SCHEMA]
    orc.write_table(pa.table([[1], ["zzzz"]], pa.schema(attributes)), path, compression="uncompressed")
    path.write_bytes(path.read_bytes().replace(b"zzzz", b"\xffzzz"))
    task = FileScanTask(DataFile(str(path), "orc", 1, path.stat().st_size), matches_all=True)
    with pytest.raises(FormatError, match=r"column 'word': .*UTF8"):
        rows_of(reader(SCHEMA), [task])
