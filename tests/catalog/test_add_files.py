"""Files that exist already become a table's: what is computed of them, and what is refused before anything changes."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rivals import EPOCH, SCHEMA, Elsewhere, beaten_by, files_below, keys, path_of, peer, rows

import skerry
from skerry.errors import AlreadyExistsError, FormatError, NotFoundError, SchemaError, UnsupportedError
from skerry.parquet import decode_page_header, read_metadata
from skerry.storage import Storage
from skerry.table.statistics.sketching import sketch_parquet

MAPPING = "schema.name-mapping.default"


@pytest.fixture
def warehouse(tmp_path):
    return tmp_path / "warehouse"


@pytest.fixture
def catalog(warehouse):
    return skerry.connect(warehouse)


@pytest.fixture
def table(catalog):
    return catalog.create_table("d.t", SCHEMA, properties={"commit.retry.min-wait-ms": "1"})


def put(table, name, data, **options) -> str:
    """A Parquet file in the table's folder that no snapshot knows."""
    folder = path_of(table.location) / "incoming"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, folder / f"{name}.parquet", **options)
    return f"file://{folder}/{name}.parquet"


def fresh(table):
    return {name: (column.ndv, str(column.freshness)) for name, column in table.statistics().items()}


def test_files_without_ids_are_read_by_name(table, warehouse):
    snapshot = table.add_files([put(table, "a", rows(0, 10)), put(table, "b", rows(10, 30))])
    assert (snapshot.operation, snapshot.summary["added-data-files"]) == ("append", "2")
    assert keys(table) == [*range(30)]
    assert fresh(table) == {"k": (30, "fresh"), "s": (7, "fresh"), "d": (3, "fresh")}
    assert table.properties[MAPPING] == (
        '[{"field-id":1,"names":["k"]},{"field-id":2,"names":["s"]},{"field-id":3,"names":["d"]}]'
    )
    theirs = peer(warehouse, "d.t")
    assert theirs.scan(row_filter="k > 27").to_arrow()["k"].to_pylist() == [28, 29]
    table.append(rows(30, 31))
    assert fresh(table)["k"] == (31, "fresh")


def test_files_that_look_as_if_written_here(table, catalog):
    twin = catalog.create_table("d.twin", SCHEMA)
    data = rows(0, 100)
    twin.append(data)
    (written,) = twin.files()
    copy = put(table, "copy", pq.read_table(path_of(written.location)).select(["k", "s", "d"]), compression="zstd")
    table.add_files([copy])
    (added,) = table.files()
    for name in ("record_count", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds", "partition"):
        assert getattr(added, name) == getattr(written, name), name
    assert added.file_size_bytes == path_of(copy).stat().st_size
    for name in ("k", "s", "d"):
        assert table.statistics()[name].sketch.serialize() == twin.statistics()[name].sketch.serialize()


def test_files_with_ids_are_read_by_id_whatever_their_names(table):
    other = pa.schema(
        [
            pa.field("text", pa.string(), metadata={"PARQUET:field_id": "2"}),
            pa.field("key", pa.int32(), metadata={"PARQUET:field_id": "1"}),
        ]
    )
    table.add_files([put(table, "a", pa.table({"text": ["x", "y"], "key": [1, 2]}, schema=other))])
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "s": "x", "d": None}, {"k": 2, "s": "y", "d": None}]
    assert MAPPING not in table.properties
    assert fresh(table) == {"k": (2, "fresh"), "s": (2, "fresh"), "d": (0, "fresh")}
    assert table.statistics()["s"].max == "y"


def test_partitions_are_told_from_the_rows(catalog, warehouse):
    table = catalog.create_table("d.p", SCHEMA, partition_by=["day(d)", "truncate(6, s)", "bucket(4, s)"])
    one = rows(0, 1)
    table.add_files([put(table, "a", one)])
    (file,) = table.files()
    table.append(one)
    assert {other.partition for other in table.files()} == {file.partition}
    assert keys(table, where="d = DATE '2020-01-01'") == [0, 0]
    assert keys(table, where="d = DATE '2020-01-02'") == []
    assert peer(warehouse, "d.p").scan(row_filter="d = '2020-01-01'").to_arrow().num_rows == 2
    before = files_below(warehouse)
    with pytest.raises(SchemaError, match="a data file contains rows of 3 partitions") as caught:
        table.add_files([put(table, "b", rows(0, 9))])
    assert caught.value.location.endswith("b.parquet")
    assert files_below(warehouse) - before == {str(path_of(table.location) / "incoming" / "b.parquet")}


def test_partitions_of_files_with_other_names(catalog):
    table = catalog.create_table("d.p", SCHEMA, partition_by=["day(d)"])
    table.update_schema().rename_column("d", "day").rename_column("s", "d").commit()
    fields = [field.with_metadata({"PARQUET:field_id": str(number)}) for number, field in enumerate(SCHEMA, 1)]
    old_names = pa.schema(fields)
    table.add_files([put(table, "a", rows(0, 1).cast(old_names))])
    assert table.files()[0].partition == ((EPOCH - dt.date(1970, 1, 1)).days,)
    assert table.scan().to_arrow().to_pylist() == [{"k": 0, "d": "word 0", "day": EPOCH}]
    assert fresh(table) == {"k": (1, "fresh"), "d": (1, "fresh"), "day": (1, "fresh")}


def test_a_partition_column_must_be_in_the_file(catalog):
    table = catalog.create_table("d.p", SCHEMA, partition_by=["d"])
    with pytest.raises(SchemaError, match="the file lacks column 'd', which partition field 'd' is derived from"):
        table.add_files([put(table, "a", rows(0, 3).drop_columns(["d"]))])


def test_narrower_types_are_promoted(catalog):
    table = catalog.create_table("d.w", pa.schema([("k", pa.int64()), ("x", pa.float64())]))
    table.append(pa.table({"k": [1, 2], "x": [0.5, 1.5]}))
    narrow = pa.table({"k": pa.array([2, 3], pa.int32()), "x": pa.array([1.5, 2.5], pa.float32())})
    table.add_files([put(table, "a", narrow)])
    assert keys(table) == [1, 2, 2, 3]
    assert fresh(table) == {"k": (3, "fresh"), "x": (3, "fresh")}


def test_a_column_with_a_default_that_the_file_lacks(catalog):
    table = catalog.create_table("d.v", SCHEMA, format_version=3)
    table.update_schema().add_column("n", pa.int32(), required=True, default_value=7).commit()
    table.add_files([put(table, "a", rows(0, 3))])
    assert table.scan(columns=["n"]).to_arrow()["n"].to_pylist() == [7, 7, 7]
    assert fresh(table)["k"] == (3, "fresh")
    assert fresh(table)["n"][1].startswith("absent"), "its values are in no file"


def test_a_name_that_now_is_another_columns_is_refused(table):
    table.add_files([put(table, "a", rows(0, 3))])
    with table.update_schema() as update:
        update.rename_column("s", "word").add_column("s", pa.string())
    assert json.loads(table.properties[MAPPING])[1] == {"names": ["s", "word"], "field-id": 2}
    assert table.scan(limit=1).to_arrow().to_pylist() == [{"k": 0, "word": "word 0", "d": EPOCH, "s": None}]
    with pytest.raises(SchemaError, match="column 's' of a file without field ids may be"):
        table.add_files([put(table, "b", rows(3, 5))])
    table.add_files([put(table, "c", rows(3, 5).rename_columns(["k", "word", "d"]))])
    assert keys(table) == [*range(5)]


def test_names_that_were_deleted_do_not_come_back(table):
    table.add_files([put(table, "a", rows(0, 3))])
    table.update_schema().delete_column("s").add_column("s", pa.string()).commit()
    assert table.scan(columns=["s"]).to_arrow()["s"].to_pylist() == [None] * 3


# What is refused -----------------------------------------------------------------------------------------------------


def test_files_that_do_not_fit_change_nothing(table, warehouse):
    table.append(rows(100, 101))
    bad = {
        "extra": (
            rows(0, 2).append_column("more", pa.array([1, 2])),
            SchemaError,
            "the file has a column 'more' that",
        ),
        "type": (pa.table({"k": ["a"], "s": ["b"], "d": [None]}), SchemaError, "column 'k' is string in the file"),
        "wide": (pa.table({"k": pa.array([1], pa.int64())}), SchemaError, "column 'k' is int64 in the file, but int32"),
        "empty": (rows(0, 0), SchemaError, "the file has no rows"),
    }
    good = put(table, "good", rows(0, 5))
    table.add_files([put(table, "first", rows(50, 51))])
    location = table.metadata_location
    for name, (data, kind, message) in bad.items():
        with pytest.raises(kind, match=message) as caught:
            table.add_files([good, put(table, name, data)])
        assert caught.value.location.endswith(f"{name}.parquet")
    broken = path_of(put(table, "broken", rows(0, 5)))
    broken.write_bytes(broken.read_bytes()[:-6])
    with pytest.raises(FormatError):
        table.add_files([good, f"file://{broken}"])
    with pytest.raises(NotFoundError):
        table.add_files([good, f"file://{broken}.not"])
    with pytest.raises(SchemaError, match="locations must be a list of strings, found 5 in it"):
        table.add_files([5])
    with pytest.raises(NotFoundError, match="no branch or tag 'x'"):
        table.add_files([good], ref="x")
    assert table.refresh().metadata_location == location


def test_required_columns(catalog):
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string())])
    table = catalog.create_table("d.r", schema)
    with pytest.raises(SchemaError, match="column 'k' is required, but has 1 nulls in the file"):
        table.add_files([put(table, "a", pa.table({"k": pa.array([1, None], pa.int64()), "s": ["x", "y"]}))])
    with pytest.raises(SchemaError, match="required column 'k' is missing"):
        table.add_files([put(table, "b", pa.table({"s": ["x", "y"]}))])
    table.add_files([put(table, "c", pa.table({"k": pa.array([1, 2], pa.int64()), "s": ["x", None]}))])
    assert keys(table) == [1, 2]


MOMENT = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
TIMES = pa.schema(
    [("at", pa.timestamp("us", "UTC")), ("log", pa.list_(pa.timestamp("us", "UTC"))), ("t", pa.time64("us"))]
)
TIMED = {"at": [MOMENT], "log": [[MOMENT]], "t": [dt.time(1)]}


@pytest.mark.parametrize(
    ("column", "type_", "message"),
    [
        ("at", pa.timestamp("ms", "UTC"), "'at' is stored in milliseconds, but the table's .* in microseconds"),
        ("at", pa.timestamp("ns", "UTC"), "'at' is stored in nanoseconds, but the table's .* in microseconds"),
        ("at", pa.timestamp("us"), "'at' has timestamps without zone in the file but with in the table"),
        ("log", pa.list_(pa.timestamp("ns", "UTC")), r"'log\.element' is stored in nanoseconds"),
        ("t", pa.time32("ms"), "'t' is stored in milliseconds"),
    ],
)
def test_times_that_other_readers_would_take_for_others_are_refused(catalog, column, type_, message):
    table = catalog.create_table("d.times", TIMES)
    schema = TIMES.set(TIMES.get_field_index(column), pa.field(column, type_))
    with pytest.raises(SchemaError, match=message) as caught:
        table.add_files([put(table, "a", pa.table(TIMED, schema=schema))])
    assert caught.value.location.endswith("a.parquet")
    assert not table.snapshots()
    table.add_files([put(table, "b", pa.table(TIMED, schema=TIMES))])
    assert table.scan(["at"]).to_arrow().to_pylist() == [{"at": MOMENT}]


def test_pages_that_say_they_are_not_compressed_are_refused(catalog, table):
    """ARROW-17100: what parquet-cpp wrote before Arrow 3.0. Only the bit and the writer's name are changed here."""
    data = pa.table({"k": pa.array([7] * 1000, pa.int64())}, schema=pa.schema([SCHEMA.field("k")]))
    path = path_of(put(table, "a", data, data_page_version="2.0", use_dictionary=False, compression="zstd"))
    chunk = read_metadata(Storage(), f"file://{path}").row_groups[0].chunks[0]
    written = bytearray(path.read_bytes())
    header = decode_page_header(memoryview(written), chunk.data_offset)
    end = chunk.data_offset + header.header_bytes
    # Thrift's compact protocol has a boolean in its field's type, 1 or 2: is_compressed is the last but the statistics
    places = [at for at in range(chunk.data_offset, end) if written[at] == 0x11]
    for at in places:
        changed = bytearray(written)
        changed[at] = 0x12
        if decode_page_header(memoryview(changed), chunk.data_offset) == replace(header, is_compressed=False):
            break
    name = pq.read_metadata(path).created_by.encode()
    path.write_bytes(bytes(changed).replace(name, b"parquet-cpp version 1.5.1-".ljust(len(name))))
    assert pq.read_table(path)["k"].to_pylist() == [7] * 1000
    schema = pa.schema([pa.field("k", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    assert sketch_parquet(Storage(), f"file://{path}", schema, [1]).samples[1].estimate() == 1
    with pytest.raises(UnsupportedError, match="ARROW-17100"):
        table.add_files([f"file://{path}"])
    assert not table.snapshots()


def test_old_timestamps_and_nanoseconds_of_version_3_are_added(catalog):
    """Readers know what INT96 counts; version 3 has a type of nanoseconds."""
    table = catalog.create_table("d.times", TIMES)
    table.add_files([put(table, "a", pa.table(TIMED, schema=TIMES), use_deprecated_int96_timestamps=True)])
    assert table.scan(["at", "log"]).to_arrow().to_pylist() == [{"at": MOMENT, "log": [MOMENT]}]
    fine = pa.schema([("at", pa.timestamp("ns"))])
    table = catalog.create_table("d.fine", fine, format_version=3)
    table.add_files([put(table, "a", pa.table([pa.array([1], pa.int64()).cast(pa.timestamp("ns"))], schema=fine))])
    assert table.scan().to_arrow()["at"].cast(pa.int64()).to_pylist() == [1]


def test_duplicates_are_refused(table, catalog, monkeypatch):
    one, two = put(table, "a", rows(0, 5)), put(table, "b", rows(5, 10))
    with pytest.raises(AlreadyExistsError, match="the file is named twice"):
        table.add_files([one, one.replace("file://", "")])
    table.add_files([one])
    with pytest.raises(AlreadyExistsError, match="the table has this data file already"):
        table.add_files([two, one.replace("file://", "file:")])
    rival = catalog.load_table("d.t")
    beaten_by(monkeypatch, lambda: rival.add_files([two]))
    with pytest.raises(AlreadyExistsError, match="the table has this data file already"):
        table.add_files([two])
    assert keys(table.refresh()) == [*range(10)]


def test_files_elsewhere_need_permission(table, tmp_path):
    pq.write_table(rows(0, 5), tmp_path / "else.parquet")
    with pytest.raises(UnsupportedError, match=r"outside the table's folder .*files-outside-location=true"):
        table.add_files([str(tmp_path / "else.parquet")])
    with pytest.raises(UnsupportedError, match="outside the table's folder"):
        table.add_files([f"{table.location}/../../../else.parquet"])
    table.set_properties({"skerry.read.files-outside-location": "true"})
    table.add_files([str(tmp_path / "else.parquet")])
    assert keys(table) == [*range(5)]


def test_files_are_looked_at_wherever_the_executor_says(table):
    executor = Elsewhere()
    progress = []
    files = [put(table, name, rows(start, start + 5)) for name, start in (("a", 0), ("b", 5))]
    table.add_files(files, executor=executor, progress=progress.append)
    assert executor.tasks == 2
    assert [(step.done_files, step.total_files, step.done_rows) for step in progress] == [(1, 2, 5), (2, 2, 10)]
    assert keys(table) == [*range(10)]
    assert fresh(table)["k"] == (10, "fresh")


def test_adding_to_a_branch_against_a_rival(catalog, table, monkeypatch):
    table.append(rows(100, 110))
    table.create_branch("b")
    rival = catalog.load_table("d.t")
    beaten_by(monkeypatch, lambda: None, lambda: rival.append(rows(110, 120), ref="b"))
    snapshot = table.add_files([put(table, "a", rows(0, 5))], ref="b")
    assert snapshot == table.current_snapshot("b")
    assert keys(table, ref="b") == [*range(5), *range(100, 120)]
    assert keys(table) == [*range(100, 110)]
