"""Iceberg tables described anew as Paimon append tables: the same rows from the same files, or a refusal by name."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paimon_peers import JavaPaimon, PyPaimon, java_rows

import skerry
from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    CommitUnknownError,
    FormatError,
    SchemaError,
    StorageError,
    UnsupportedError,
)
from skerry.iceberg.operations import RowDelta
from skerry.iceberg.writing.delete_files import write_equality_deletes
from skerry.migration.iceberg_to_paimon import plan_paimon, publish_paimon
from skerry.paimon.manifests.live_files import index_entries, live_entries
from skerry.paimon.metadata.schemas import schema_ids
from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage, name
from skerry.table.owned_files import owned_files
from skerry.table.rows.schema import NULL_DEFAULT_KEY
from torture import examples

MERGE_ON_READ = {f"write.{change}.mode": "merge-on-read" for change in ("delete", "update", "merge")}
TYPES = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("p", pa.string()),
        ("x", pa.int32()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("small", pa.decimal128(5, 2)),
        ("large", pa.decimal128(30, 2)),
        ("day", pa.date32()),
        ("micros", pa.timestamp("us")),
        ("zoned", pa.timestamp("us", "UTC")),
        ("bytes", pa.binary()),
        ("fixed", pa.binary(5)),
        ("yes", pa.bool_()),
        ("row", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("list", pa.list_(pa.struct([("q", pa.int32())]))),
        ("map", pa.map_(pa.string(), pa.struct([("z", pa.int32())]))),
    ]
)
START = dt.datetime(2024, 1, 1)


def rows(ids):
    return pa.Table.from_pylist(
        [
            {
                "id": k,
                "p": None if k % 3 == 0 else f"p{k % 3}",
                "x": None if k % 7 == 0 else k,
                "single": k / 2,
                "double": float("nan") if k % 5 == 0 else -k / 4,
                "small": Decimal(k) / 4,
                "large": Decimal(k) * 10**12,
                "day": dt.date(1969, 12, 20) + dt.timedelta(k),
                "micros": START + dt.timedelta(microseconds=250 * k),
                "zoned": START.replace(tzinfo=dt.UTC) - dt.timedelta(microseconds=k),
                "bytes": bytes([k % 256, 255]),
                "fixed": bytes([k % 256] * 5),
                "yes": k % 2 == 0,
                "row": None if k % 4 == 0 else {"a": k, "b": str(k)},
                "list": [{"q": k}, {"q": None}] if k % 3 else None,
                "map": [("k", {"z": k})],
            }
            for k in ids
        ],
        TYPES,
    )


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


class Elsewhere:
    """Sends tasks and results away as bytes, as Spark does."""

    def map(self, function, tasks):
        for task in tasks:
            there, given = pickle.loads(pickle.dumps((function, task)))
            yield pickle.loads(pickle.dumps(there(given)))


def publish(draft, storage, location, name):
    with owned_files(storage) as files:
        return publish_paimon(draft, storage, location, name, files)


def plan(table, **how):
    return plan_paimon(table.handle.refresh(), **how)


def place(table):
    """Where the Paimon table will lie."""
    return f"{table.location}-paimon".removeprefix("file://")


def migrate(table, **how):
    publish(plan(table, **how), Storage(), place(table), table.name)
    return PaimonTable.open(Storage(), place(table), name=table.name)


def content(table, *args, **scan):
    return sorted(map(repr, table.scan(*args, **scan).to_arrow().to_pylist()))


def check_same(table, migrated):
    assert migrated.schema.names == table.schema.names
    assert content(migrated) == content(table)


def evolve(table):
    """Rename, drop, add again, add and promote, at the top and inside; nothing of it touches the files."""
    with table.update_spec() as spec:
        spec.rename_field("p", "by_p")
    with table.update_schema() as schema:
        schema.rename_column("p", "part").rename_column("x", "p").add_column("new", pa.string())
        schema.update_column("p", pa.int64()).update_column("single", pa.float64())
        schema.update_column("small", pa.decimal128(12, 2)).delete_column("yes").add_column("yes", pa.string())
        schema.rename_column(("row", "a"), "aa").delete_column(("row", "b")).add_column(("row", "c"), pa.int64())
        schema.add_column(("list", "element", "n"), pa.string()).rename_column(("map", "value", "z"), "zz")
        schema.move_first("day")


@pytest.mark.parametrize(("version", "file_format"), [(2, "parquet"), (3, "parquet"), (2, "orc")])
def test_evolved_columns_and_deleted_rows_are_the_same_in_paimon(catalog, version, file_format):
    table = catalog.create_table(
        "d.t",
        TYPES,
        file_format=file_format,
        partition_by=["p"],
        properties={**MERGE_ON_READ, "comment": "what it is"},
        format_version=version,
    )
    table.append(rows(range(20)))
    table.delete("id in (3, 4, 7)")
    evolve(table)
    table.append(table.scan(where="id < 3").to_arrow())
    table.delete("id = 9")
    before = {path: path.read_bytes() for path in Path(table.location.removeprefix("file://")).rglob("*.*")}
    draft = plan(table, executor=Elsewhere())
    assert (len(draft.files), draft.partition_by, len(draft.schemas)) == (6, ("part",), 2)
    assert draft.size_bytes == sum(file.file_size_bytes for file in table.files())
    migrated = migrate(table)
    check_same(table, migrated)
    state = migrated.handle.state
    assert {path: path.read_bytes() for path in before} == before
    assert state.schema.comment == "what it is"
    assert state.snapshot.commit_kind is CommitKind.OVERWRITE
    assert state.snapshot.total_record_count == 23
    assert [file.external_path for file in (entry.file for entry in live_entries(state))] == [
        file.location for file in table.files()
    ]
    assert sum(len(entry.deletion_vectors_ranges) for entry in index_entries(state)) == 2
    ids = {field.name: field.metadata[b"PARQUET:field_id"] for field in table.schema}
    assert {field.name: field.metadata[b"PARQUET:field_id"] for field in migrated.schema} == ids
    for where in ("part is null", "part = 'p1' and p < 12", "new is null", "row.aa > 9", "yes is not null", "p = 5"):
        assert content(migrated, where=where) == content(table, where=where), where
    assert state.schema.highest_field_id == table.handle.state.metadata.last_column_id


@pytest.mark.parametrize("has_deletes", [False, True])
def test_what_is_known_of_values_goes_over_without_a_look_at_them(catalog, has_deletes):
    table = catalog.create_table("d.t", TYPES, partition_by=["p"], properties=MERGE_ON_READ)
    for start in range(0, 60, 20):
        table.append(rows(range(start, start + 20)))
    if has_deletes:
        table.delete("id in (3, 44)")
    known, expected = table.statistics(), content(table)
    pages = {}
    for file in table.files():
        path = Path(file.location.removeprefix("file://"))
        data = pages[path] = path.read_bytes()
        footer = int.from_bytes(data[-8:-4], "little") + 8
        path.write_bytes(bytes(len(data) - footer) + data[-footer:])
    migrated = migrate(table)
    found = migrated.statistics()
    assert {column: str(now.freshness) for column, now in found.items() if column != "fixed"} == {
        column: "fresh" for column in known if column != "fixed"
    }
    # fixed-length bytes are of another type in Paimon, and what lies inside of structs has no bounds there
    assert known.keys() == found.keys()
    for column, then in known.items():
        if column == "fixed":
            continue
        now = found[column]
        assert (now.ndv, now.lower, now.upper) == (then.ndv, then.lower, then.upper), column
        if "." not in column and column not in ("bytes", "double"):
            assert (now.min, now.max) == (then.min, then.max), column
        is_told = not has_deletes and "." not in column and column != "double"
        assert now.null_count == (then.null_count if is_told else None), column
    assert found["double"].min is None  # where NaN stands among numbers, readers do not agree
    for where in ("id >= 40", "micros < timestamp '2024-01-01 00:00:00.002'", "x is null and id < 20", "p = 'p2'"):
        kept = sum(len(list(split.files)) for split in migrated.scan(where=where).plan())
        assert kept == len(list(table.scan(where=where).plan())), where
    for path, data in pages.items():
        path.write_bytes(data)
    assert content(migrated) == expected


def test_bounds_keep_every_file_that_has_a_row(catalog):
    schema = pa.schema([("k", pa.int64()), ("s", pa.string()), ("x", pa.float64()), ("d", pa.decimal128(9, 3))])
    table = catalog.create_table("d.t", schema)
    chance = random.Random(7)
    texts = ["", "a" * 40, "\U0010ffff" * 20, "é" * 17, "aaaaaaaaaaaaaaaa", None]
    for _ in range(8):
        records = [
            {
                "k": chance.choice([None, 0, -(2**63), 2**63 - 1, chance.randrange(100)]),
                "s": chance.choice(texts),
                "x": chance.choice([0.0, -0.0, 1e300, -1.5, float("inf"), None]),
                "d": chance.choice([Decimal("-0.001"), Decimal("123456.789"), None]),
            }
            for _ in range(3)
        ]
        table.append(pa.Table.from_pylist(records, schema))
    migrated = migrate(table)
    check_same(table, migrated)
    conditions = [f"s = '{text}'" for text in texts if text is not None]
    conditions += ["k = 0", "k < 0", "k > 99", "x = 0", "x > 1e299", "d < 0", "d > 1", "s > 'b'", "x is null"]
    for where in conditions:
        assert content(migrated, where=where) == content(table, where=where), where


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({}, ("id", "nothing", "text")),  # numbers among which there is NaN have no bounds
        ({"write.metadata.metrics.default": "counts"}, ("nothing", "text")),
        ({"write.metadata.metrics.default": "none"}, None),
    ],
)
def test_numbers_have_statistics_only_with_both_bounds(catalog, properties, named):
    """Paimon's connector for Spark answers MIN and MAX from them, and takes a missing bound for a file of nulls."""
    table = catalog.create_table(
        "d.t",
        pa.schema([("id", pa.int64()), ("nothing", pa.int32()), ("number", pa.float64()), ("text", pa.string())]),
        properties=properties,
    )
    table.append(pa.table({"id": [1, 2], "nothing": [None, None], "number": [1.0, float("nan")], "text": ["a", "b"]}))
    migrated = migrate(table)
    (entry,) = live_entries(migrated.handle.state)
    assert entry.file.value_stats_cols == (named or ())
    assert entry.file.value_stats.null_counts == tuple(2 if found == "nothing" else 0 for found in named or ())
    check_same(table, migrated)


def test_files_without_field_ids_are_read_by_the_names_that_they_have(catalog, tmp_path):
    schema = pa.schema([("k", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us")), ("n", pa.int32())])
    table = catalog.create_table("d.t", schema)
    folder = Path(table.location.removeprefix("file://")) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    old = pa.table({"k": [1, 2], "s": ["a", "b"], "t": [START, None], "n": [5, None]}, schema=schema)
    as_written = {
        "plain": old,
        "narrow": old.set_column(3, "n", old["n"].cast(pa.int8())),
        "dictionary": old.set_column(1, "s", old["s"].dictionary_encode()),
        "fewer": old.select(["n", "k"]),
    }
    for key, data in as_written.items():
        pq.write_table(data, folder / f"{key}.parquet")
        table.add_files([f"file://{folder}/{key}.parquet"])
    with table.update_schema() as update:
        update.rename_column("k", "key").rename_column("s", "k")
    migrated = migrate(table)
    check_same(table, migrated)
    assert len(schema_ids(Storage(), migrated.handle.state.paths)) == 3


def test_folders_name_what_files_lack(catalog, tmp_path):
    folder = tmp_path / "raw"
    for day in (1, 2):
        sub = folder / f"day={day}"
        sub.mkdir(parents=True)
        pq.write_table(pa.table({"k": [day, day + 10]}), sub / f"x{day}.parquet")
    catalog.migrate("d.t", str(folder))
    table = catalog.load_table("d.t")
    with pytest.raises(
        UnsupportedError,
        match=r"the file lacks column 'day', whose values are only in the table's metadata; compact\(",
    ):
        plan(table, partition_by=[])
    migrated = migrate(table)
    check_same(table, migrated)
    assert content(migrated, ["day"], "day = 2") == ["{'day': 2}", "{'day': 2}"]
    migrated.delete("k = 11")
    migrated.append(pa.table({"k": [7], "day": [3]}, schema=migrated.schema))
    assert sorted(migrated.scan().to_arrow().to_pydict().items()) == [("day", [2, 2, 1, 3]), ("k", [2, 12, 1, 7])]


def test_the_table_lives_on(catalog):
    table = catalog.create_table("d.t", TYPES, partition_by=["p"], properties=MERGE_ON_READ)
    for start in (0, 20, 40):
        table.append(rows(range(start, start + 20)))
    table.delete("id in (3, 41)")
    evolve(table)
    expected = table.scan().to_arrow()
    migrated = migrate(table, properties={"compaction.min.file-num": "2"})
    migrated.delete("id = 8 or id = 45")
    migrated.upsert(expected.slice(0, 2), on=["id"])
    migrated.append(expected.filter(pa.array([k in (8, 45) for k in expected["id"].to_pylist()])))
    assert content(migrated) == sorted(map(repr, expected.to_pylist()))
    for _ in range(2):
        migrated.compact(full=True)
        assert content(migrated) == sorted(map(repr, expected.to_pylist()))
    assert not any(entry.file.external_path for entry in live_entries(migrated.handle.state))
    assert not index_entries(migrated.handle.state)


@pytest.mark.parametrize("had_rows", [False, True])
def test_empty_tables(catalog, had_rows):
    table = catalog.create_table("d.t", TYPES)
    if had_rows:
        table.append(rows(range(3)))
        table.delete("true")
    migrated = migrate(table)
    assert (migrated.handle.state.snapshot, migrated.scan().count()) == (None, 0)
    migrated.append(rows(range(5)))
    assert migrated.scan().count() == 5


def test_properties_defaults_and_descriptions(catalog):
    table = catalog.create_table(
        "d.t",
        pa.schema([("k", pa.int64())]),
        properties={
            "skerry.statistics.max-groups": "9",
            "write.format.default": "orc",
            "write.orc.compression-codec": "zlib",
            "write.target-file-size-bytes": "1000000",
            "owner": "me",
        },
        format_version=3,
    )
    with table.update_schema() as update:
        update.add_column("day", pa.date32(), doc="the day").add_column("n", pa.decimal128(5, 2))
        update.set_default_value("day", dt.date(2024, 2, 29)).set_default_value("n", Decimal("-1.50"))
    migrated = migrate(table, properties={"file.compression": "zstd"})
    assert migrated.properties == {
        "skerry.statistics.max-groups": "9",
        "bucket": "-1",
        "file.format": "orc",
        "file.compression": "zstd",
    }
    key, day, number = migrated.handle.state.schema.fields
    assert (day.description, day.default_value, number.default_value) == ("the day", "2024-02-29", "-1.50")
    found = dict(migrated.schema.field("day").metadata)
    assert found.pop(NULL_DEFAULT_KEY) == b"true"
    assert found == table.schema.field("day").metadata
    assert key.default_value is None


def test_partition_keys_are_those_of_the_spec_or_those_that_are_wanted(catalog):
    table = catalog.create_table("d.t", TYPES, partition_by=["p", "bucket(4, id)"])
    table.append(rows(range(9)))
    with pytest.raises(UnsupportedError) as found:
        plan(table)
    assert found.value.message == (
        "partition field 'id_bucket' (bucket[4]) has no counterpart in Paimon, whose tables are partitioned by columns"
        "; partition_by=[] makes a Paimon table without partitions, whose files are still pruned by their bounds"
    )
    assert migrate(table, partition_by=["p"]).partition_by == ["p"]
    assert plan(table, partition_by=[]).partition_by == ()
    with pytest.raises(SchemaError, match="partition_by: no column 'q'; there are: bytes, day"):
        plan(table, partition_by=["q"])
    with pytest.raises(SchemaError, match="partition_by must be a list of columns, found 'p'"):
        plan(table, partition_by="p")
    with pytest.raises(
        UnsupportedError, match="the file is not partitioned by the identity of column 'x'; partition_by="
    ):
        plan(table, partition_by=["x"])
    with table.update_spec() as spec:
        spec.remove_field("p").remove_field("id_bucket").add_field("yes")
    with pytest.raises(UnsupportedError, match="the file is not partitioned by the identity of column 'yes'"):
        plan(table)
    table.compact(full=True)
    other = catalog.load_table("d.t")
    assert plan(other).partition_by == ("yes",)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.int32(), [1, -5]),
        (pa.bool_(), [True, False]),
        (pa.string(), ["", "a/b=c%"]),
        (pa.date32(), [dt.date(2024, 2, 29), dt.date(1969, 12, 31)]),
        (pa.timestamp("us"), [START, dt.datetime(1960, 1, 1, 1, 1, 1, 5)]),
        (pa.timestamp("us", "UTC"), [START.replace(tzinfo=dt.UTC), START.replace(tzinfo=dt.UTC, microsecond=7)]),
        (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal(2)]),
        (pa.decimal128(30, 2), [Decimal("-1.50"), Decimal(10) ** 20]),
    ],
    ids=str,
)
def test_values_of_partition_keys(catalog, type_, values):
    schema = pa.schema([("k", pa.int64()), ("p", type_)])
    table = catalog.create_table("d.t", schema, partition_by=["p"])
    table.append(pa.table({"k": [1, 2, 3], "p": [*values, None]}, schema=schema))
    migrated = migrate(table)
    check_same(table, migrated)
    migrated.append(table.scan().to_arrow())  # whose rows belong to the same partitions
    assert len({entry.partition for entry in live_entries(migrated.handle.state)}) == 3
    migrated.overwrite(pa.table({"k": [9], "p": [None]}, schema=schema), "p is null")
    assert sorted(migrated.scan(["k"]).to_arrow()["k"].to_pylist()) == [1, 1, 2, 2, 9]


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (pa.float64(), "partition key 'p' is floating-point: Iceberg keeps -0.0 and 0.0 in one partition, for which"),
        (pa.binary(), "partition key 'p' of type BYTES is not supported; partition_by=[] makes a Paimon table without"),
    ],
)
def test_partition_keys_whose_values_paimon_does_not_tell_are_refused(catalog, type_, message):
    schema = pa.schema([("k", pa.int64()), ("p", type_)])
    table = catalog.create_table("d.t", schema, partition_by=["p"])
    table.append(pa.table({"k": [1, 2], "p": [None, 0.0 if type_ == pa.float64() else b"1"]}, schema=schema))
    with pytest.raises(UnsupportedError) as found:
        plan(table)
    assert found.value.message.startswith(message)
    check_same(table, migrate(table, partition_by=[]))


def test_dates_that_have_become_timestamps(catalog):
    schema = pa.schema([("k", pa.int64()), ("d", pa.date32())])
    table = catalog.create_table("d.t", schema, format_version=3)
    table.append(pa.table({"k": [1, 2], "d": [dt.date(2024, 2, 29), None]}, schema=schema))
    with table.update_schema() as update:
        update.update_column("d", pa.timestamp("us"))
    table.append(pa.table({"k": [3], "d": [START]}, schema=table.schema))
    migrated = migrate(table)
    check_same(table, migrated)
    for where in ("d > timestamp '2024-01-02 00:00:00'", "d = timestamp '2024-01-01 00:00:00'", "d is null"):
        assert content(migrated, where=where) == content(table, where=where), where


def test_files_lie_where_the_iceberg_table_says(catalog, tmp_path):
    for folder in ("else,where", "elsewhere"):
        where = {"write.data.path": f"file://{tmp_path}/{folder}"}
        table = catalog.create_table(f"d.t{len(folder)}", pa.schema([("k", pa.int64())]), properties=where)
        table.append(pa.table({"k": [1]}))
        if "," in folder:
            with refused("option data-file.external-paths cannot name a folder with a comma; allow files anywhere"):
                plan(table)
            migrated = migrate(table, properties={"skerry.read.files-outside-location": "true"})
        else:
            migrated = migrate(table)
            assert migrated.properties["data-file.external-paths"] == f"file://{tmp_path}/{folder}"
        check_same(table, migrated)


def refused(match, error=UnsupportedError):
    return pytest.raises(error, match=match)


@pytest.mark.parametrize(
    ("type_", "version", "message"),
    [
        (
            pa.time64("us"),
            2,
            "column 'c' of type time64[us]: Iceberg's files contain microseconds where Paimon's contain",
        ),
        (pa.uuid(), 2, "column 'c' of type extension<arrow.uuid>: Paimon has no such type"),
        (pa.timestamp("ns"), 3, "column 'c' of type timestamp[ns]: Paimon's files store nanoseconds differently"),
        (pa.null(), 3, "column 'c' of type null: Paimon has no type for columns without values"),
        (pa.list_(pa.time64("us")), 2, "column 'c.element' of type time64[us]"),
        (pa.struct([("m", pa.map_(pa.int32(), pa.uuid()))]), 2, "column 'c.m.value' of type extension<arrow.uuid>"),
    ],
)
def test_types_that_paimon_has_not_are_refused_by_column(catalog, type_, version, message):
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64()), ("c", type_)]), format_version=version)
    with pytest.raises(UnsupportedError) as found:
        plan(table)
    assert str(found.value).startswith(message)


def test_names_that_paimon_uses_itself_are_refused(catalog):
    table = catalog.create_table("d.t", pa.schema([("_KEY_k", pa.int64())]))
    with refused("column '_KEY_k' has a name that is reserved by Paimon", SchemaError):
        plan(table)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (
            {"k": pa.array([1], pa.uint32())},
            "column 'k' is uint32 in the file, which Paimon's readers would read as signed",
        ),
        (
            {"t": pa.array([1000], pa.timestamp("ns"))},
            "column 't' has nanoseconds in the file, or Parquet's old type",
        ),
        ({"r": pa.array([{"b": 1}])}, "column 'r' is a struct, of whose members the file has none that the table has"),
    ],
)
def test_files_that_paimon_would_read_as_something_else_are_refused(catalog, tmp_path, stored, message):
    schema = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us")), ("r", pa.struct([("a", pa.int64())]))])
    table = catalog.create_table("d.t", schema)
    if "r" in stored:
        with table.update_schema() as update:
            update.add_column(("r", "b"), pa.int64())
    folder = Path(table.location.removeprefix("file://")) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(stored), folder / "x.parquet", use_deprecated_int96_timestamps=True)
    table.add_files([f"file://{folder}/x.parquet"])
    if "r" in stored:
        with table.update_schema() as update:
            update.delete_column(("r", "b"))
    with pytest.raises(UnsupportedError) as found:
        plan(table)
    assert str(found.value).startswith(message)
    assert found.value.location == f"file://{folder}/x.parquet"
    if "compact" in str(found.value):
        table.compact(full=True)
        check_same(catalog.load_table("d.t"), migrate(catalog.load_table("d.t")))


def test_names_of_files_must_tell_them_and_their_format(catalog):
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]))
    folder = Path(table.location.removeprefix("file://")) / "data"
    for path in ("a/x.parquet", "b/x.parquet"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"k": [1]}), folder / path)
    table.add_files([f"file://{folder}/a/x.parquet"])
    plan(table)
    table.add_files([f"file://{folder}/b/x.parquet"])
    with refused(f"Paimon identifies files by their names, and file://{folder}/./x.parquet has the same"):
        plan(table)
    table.compact(full=True)
    table = catalog.load_table("d.t")
    check_same(table, migrate(table))
    pq.write_table(pa.table({"k": [2]}), folder / "x.pq")
    table.add_files([f"file://{folder}/x.pq"])
    with refused("Paimon derives a file's format from its name, which does not end in .parquet here"):
        plan(table)


@pytest.mark.parametrize("file_format", ["avro", "amudai"])
def test_formats_that_stay_are_refused(catalog, file_format):
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]), file_format=file_format)
    table.append(pa.table({"k": [1]}))
    with refused(f"data files of format {file_format} cannot be migrated, only those of parquet and orc"):
        plan(table)


def test_equality_deletes_go_with_compaction(catalog):
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64()), ("s", pa.string())]))
    table.append(pa.table({"k": range(5), "s": list("abcde")}))
    inner = table.handle
    added = tuple(write_equality_deletes(inner.layout(), [pa.record_batch({"s": ["b"]})], [2]))
    inner.commit(RowDelta(added_deletes=added, starting_snapshot_id=inner.state.snapshot().snapshot_id))
    with refused(r"the file has equality deletes, which Paimon append tables do not support; compact\(\) rewrites"):
        plan(table)
    table.refresh().compact()
    table = catalog.load_table("d.t")
    migrated = migrate(table)
    check_same(table, migrated)
    assert migrated.scan().count() == 4


def test_values_that_only_metadata_knows_are_refused(catalog):
    table = catalog.create_table(
        "d.t", pa.schema([("k", pa.int64()), ("r", pa.struct([("a", pa.int64())]))]), format_version=3
    )
    table.append(pa.table({"k": [1], "r": [{"a": 1}]}, schema=table.schema))
    with table.update_schema() as update:
        update.add_column("n", pa.int32(), default_value=5)
    with refused("the file lacks column 'n', whose values are only in the table's metadata"):
        plan(table)
    table.compact(full=True)
    table = catalog.load_table("d.t")
    check_same(table, migrate(table))
    with table.update_schema() as update:
        update.add_column(("r", "b"), pa.int32(), default_value=7)
    with refused("the file lacks column 'r.b', whose values are only"):
        plan(table)


def test_a_name_that_means_two_columns_of_a_file_is_refused(catalog):
    table = catalog.create_table("d.t", pa.schema([("a", pa.int64()), ("b", pa.int64())]), partition_by=["a"])
    table.append(pa.table({"a": [1], "b": [2]}))
    with table.update_spec() as spec:
        spec.rename_field("a", "by_a")
    with table.update_schema() as update:
        update.rename_column("b", "c").rename_column("a", "b")
    with refused("the file has another column of the name 'b', by which the table is now partitioned"):
        plan(table)
    check_same(table, migrate(table, partition_by=[]))


@pytest.mark.parametrize(
    ("properties", "error", "message"),
    [
        (
            {"bucket": "4", "bucket-key": "k"},
            UnsupportedError,
            "an Iceberg table becomes an append table without buckets",
        ),
        (
            {"deletion-vectors.enabled": "false"},
            SchemaError,
            "option deletion-vectors.enabled must be true: rows of the",
        ),
        (
            {"chain-table.enabled": "true"},
            UnsupportedError,
            "table option chain-table.enabled=true is not supported",
        ),
        ({"skerry.statistics.columns": "kk"}, SchemaError, "skerry.statistics.columns names 'kk'"),
    ],
)
def test_options_that_do_not_fit_are_refused(catalog, properties, error, message):
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]), properties=MERGE_ON_READ)
    table.append(pa.table({"k": range(5)}))
    table.delete("k = 1")
    with refused(message, error):
        plan(table, properties=properties)


def test_files_are_what_the_metadata_says(catalog):
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": range(5)}))
    (file,) = table.files()
    path = Path(file.location.removeprefix("file://"))
    pq.write_table(pa.table({"k": range(4)}, pa.schema([table.schema.field("k")])), path)
    with refused("the file has 4 rows, the table's metadata says 5", FormatError):
        plan(table)
    path.write_bytes(b"PAR1")
    with refused(f"in {file.location}", FormatError):
        plan(table)


# Publishing ----------------------------------------------------------------------------------------------------------


class Fails(Storage):
    """Fails to write files whose location has a text in it, or stops answering after it has written them."""

    def __init__(self, text, error, *, after=False):
        super().__init__()
        self.text, self.error, self.after, self.written = text, error, after, []

    def write(self, location, data, *, overwrite=False):
        if self.text in location and not self.after:
            raise self.error
        super().write(location, data, overwrite=overwrite)
        self.written.append(location)
        if self.text in location:
            raise self.error


def files_below(location):
    return sorted(file.location.removeprefix(location) for file in Storage().list(location))


@pytest.fixture
def two_schemas(catalog):
    table = catalog.create_table("d.t", TYPES, properties=MERGE_ON_READ)
    table.append(rows(range(9)))
    with table.update_schema() as update:
        update.rename_column("x", "y")
    table.append(rows(range(9, 12)).rename_columns(table.schema.names).cast(table.schema))
    table.delete("id = 4")
    return table


def test_a_table_is_there_with_all_of_it(two_schemas):
    draft = plan(two_schemas)
    storage = Fails("nothing", StorageError())
    publish(draft, storage, place(two_schemas), "d.t")
    kinds = [name(location).rpartition("-")[0] or name(location) for location in storage.written]
    assert [name(location) for location in storage.written[-2:]] == ["schema-0", "schema-1"]
    assert kinds.index("snapshot") > max(place for place, kind in enumerate(kinds) if "manifest" in kind)
    before = files_below(place(two_schemas))
    with refused("table 'd.t' already exists", AlreadyExistsError):
        publish(draft, Storage(), place(two_schemas), "d.t")
    assert files_below(place(two_schemas)) == before


PARTS = ("/index/", "manifest-list-", "index-manifest", "skerry-statistics", "/statistics/", "snapshot-1")


@pytest.mark.parametrize("text", [*PARTS, "schema-1", "schema-0"])
def test_nothing_is_left_of_a_table_that_could_not_be_made(two_schemas, text):
    draft = plan(two_schemas)
    storage = Fails(text, AccessDeniedError("no"))
    with refused("no", AccessDeniedError):
        publish(draft, storage, place(two_schemas), "d.t")
    assert bool(storage.written) == (text != "/index/")
    assert files_below(place(two_schemas)) == []
    publish(draft, Storage(), place(two_schemas), "d.t")
    check_same(two_schemas, PaimonTable.open(Storage(), place(two_schemas)))


def test_whoever_stops_it_finds_nothing_half_made(two_schemas):
    for text in ("snapshot-1", "schema-0"):
        with pytest.raises(KeyboardInterrupt):
            publish(plan(two_schemas), Fails(text, KeyboardInterrupt(), after=True), place(two_schemas), "d.t")
        assert files_below(place(two_schemas)) == []
    with pytest.raises(KeyboardInterrupt):
        publish(plan(two_schemas), Fails("schema-1", KeyboardInterrupt(), after=True), place(two_schemas), "d.t")
    check_same(two_schemas, PaimonTable.open(Storage(), place(two_schemas)))


@pytest.mark.parametrize("text", ["snapshot-1", "schema-0"])
def test_what_fails_before_the_newest_schema_makes_no_table(two_schemas, text):
    with refused("lost", StorageError):
        publish(plan(two_schemas), Fails(text, StorageError("lost")), place(two_schemas), "d.t")
    assert files_below(place(two_schemas)) == []
    publish(plan(two_schemas), Fails(text, StorageError("late"), after=True), place(two_schemas), "d.t")
    check_same(two_schemas, PaimonTable.open(Storage(), place(two_schemas)))


def test_nothing_is_removed_when_the_outcome_is_unknown(two_schemas):
    text = "schema-1"
    storage = Fails(text, StorageError("lost"))
    with refused("may or may not have been created", CommitUnknownError):
        publish(plan(two_schemas), storage, place(two_schemas), "d.t")
    assert files_below(place(two_schemas)) == sorted(
        location.removeprefix(place(two_schemas)) for location in storage.written
    )
    publish(plan(two_schemas), Fails(text, StorageError("late"), after=True), f"{place(two_schemas)}2", "d.t")
    check_same(two_schemas, PaimonTable.open(Storage(), f"{place(two_schemas)}2"))


class Resends(Storage):
    """Loses the answer to every request that creates a file, sends it again, and finds the file there."""

    def write(self, location, data, *, overwrite=False):
        super().write(location, data, overwrite=overwrite)
        if "/schema/" in location or "/snapshot/snapshot-" in location:
            raise AlreadyExistsError("exists", location=location)


def test_an_answer_that_was_lost_is_no_rival(two_schemas):
    publish(plan(two_schemas), Resends(), place(two_schemas), "d.t")
    check_same(two_schemas, PaimonTable.open(Storage(), place(two_schemas)))


@pytest.mark.parametrize("rival", ["snapshot-1", "schema-1", "schema-0"])
def test_a_rival_keeps_the_table_that_it_has_made_meanwhile(two_schemas, rival):
    class Rival(Storage):
        def write(self, location, data, *, overwrite=False):
            if location.endswith(rival):
                other = {**json.loads(data), "commitUser": "rival", "timeMillis": 1}
                Storage().write(location, json.dumps(other).encode())
            super().write(location, data, overwrite=overwrite)

    with refused("table 'd.t' already exists", AlreadyExistsError):
        publish(plan(two_schemas), Rival(), place(two_schemas), "d.t")
    assert [path.rpartition("/")[2] for path in files_below(place(two_schemas))] == [rival]


# Histories -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(examples(4)))
def test_random_histories_go_over(catalog, seed):
    chance = random.Random(seed)
    schema = pa.schema([("k", pa.int64()), ("a", pa.int32()), ("b", pa.float32()), ("p", pa.string())])
    table = catalog.create_table(
        "d.t",
        schema,
        partition_by=["p"] if seed % 2 else [],
        properties=MERGE_ON_READ,
        format_version=chance.choice([2, 3]),
    )
    fresh = iter(range(1000))

    def append():
        count = chance.randrange(1, 30)
        columns = {}
        for field in table.schema:
            values = [chance.randrange(20) for _ in range(count)]
            if pa.types.is_string(field.type):
                columns[field.name] = [None if value % 7 == 0 else f"t{value % 3}" for value in values]
            else:
                columns[field.name] = [None if value == 3 and field.name != "k" else value for value in values]
        table.append(pa.table(columns, schema=table.schema))

    def change_columns():
        others = [field.name for field in table.schema if field.name not in ("k", "p")]
        with table.update_schema() as update:
            step = chance.choice(["add", "rename", "drop", "promote", "swap"])
            if step == "add" or not others:
                update.add_column(f"c{next(fresh)}", pa.int32())
            elif step == "rename":
                update.rename_column(chance.choice(others), f"r{next(fresh)}")
            elif step == "drop":
                gone = chance.choice(others)
                update.delete_column(gone).add_column(gone, pa.string())
            elif step == "promote":
                column = chance.choice(others)
                wide = {pa.int32(): pa.int64(), pa.float32(): pa.float64()}.get(table.schema.field(column).type)
                update.update_column(column, wide)
            elif len(others) > 1:
                first, second = others[:2]
                update.rename_column(first, "swapping").rename_column(second, first).rename_column("swapping", second)

    append()
    for _ in range(12):
        chance.choice([append, append, change_columns, lambda: table.delete(f"k = {chance.randrange(20)}")])()
    expected_statistics = {column: found.ndv for column, found in table.statistics().items()}
    migrated = migrate(table)
    check_same(table, migrated)
    for column in table.schema.names:
        value = "'t1'" if pa.types.is_string(table.schema.field(column).type) else "5"
        for where in (f'"{column}" = {value}', f'"{column}" > {value}', f'"{column}" is null'):
            assert content(migrated, where=where) == content(table, where=where), where
    assert {column: found.ndv for column, found in migrated.statistics().items()} == expected_statistics
    migrated.delete("k < 6")
    table.delete("k < 6")
    assert content(migrated) == content(table)


# Other readers -------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_java_and_pypaimon_read_and_change_the_same_rows(
    catalog, tmp_path, java_paimon: JavaPaimon, pypaimon: PyPaimon
):
    def check(table, migrated):
        expected = table.scan().to_arrow()
        location = migrated.location
        assert sorted(map(repr, java_paimon.read(location))) == sorted(map(repr, java_rows(expected)))
        assert sorted(map(repr, pypaimon.read(location).to_pylist())) == sorted(map(repr, expected.to_pylist()))

    for key, version, file_format in (("v2", 2, "parquet"), ("v3", 3, "parquet"), ("orc", 2, "orc")):
        table = catalog.create_table(
            f"d.{key}",
            TYPES,
            file_format=file_format,
            partition_by=["p"],
            properties=MERGE_ON_READ,
            format_version=version,
        )
        table.append(rows(range(20)))
        table.delete("id in (3, 4, 7)")
        evolve(table)
        table.append(table.scan(where="id < 3").to_arrow())
        check(table, migrate(table))

    columns = TYPES.remove(TYPES.get_field_index("fixed"))
    imported = catalog.create_table("d.imported", columns)
    data = rows(range(12)).select(columns.names)
    folder = Path(imported.location.removeprefix("file://")) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    variants = {
        "plain": (data, {}),  # whose decimals are bytes of a fixed length
        "integers": (data, {"store_decimal_as_integer": True, "data_page_version": "2.0"}),
        "narrow": (data.set_column(2, "x", data["x"].cast(pa.int8())), {"compression": "gzip"}),
        "lists": (data, {"use_compliant_nested_type": False, "use_dictionary": False}),
    }
    for key, (variant, how) in variants.items():
        pq.write_table(variant, folder / f"{key}.parquet", **how)
        imported.add_files([f"file://{folder}/{key}.parquet"])
    with imported.update_schema() as update:
        update.rename_column("x", "y").update_column("y", pa.int64())
    migrated = migrate(imported)
    check(imported, migrated)
    (row,) = imported.scan(limit=1).to_arrow().to_pylist()
    before = java_rows(imported.scan().to_arrow())
    java_paimon.write(migrated.location, [list({**row, "id": 99}.values())])
    expected = sorted(map(repr, [*before, *java_rows(pa.Table.from_pylist([{**row, "id": 99}], imported.schema))]))
    assert sorted(map(repr, java_paimon.read(migrated.location))) == expected
    after = PaimonTable.open(Storage(), migrated.location)
    after.compact(full=True)
    assert sorted(map(repr, java_paimon.read(migrated.location))) == expected
    assert sorted(map(repr, java_rows(after.scan().to_arrow()))) == expected
