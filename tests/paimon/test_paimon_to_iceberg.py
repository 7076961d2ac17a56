"""Paimon append tables become Iceberg tables where they lie, or stay as they were."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden_tables import golden_tables, sorted_rows

import skerry
from skerry.catalog import table_migrating
from skerry.catalog.iceberg_tables import IcebergTables
from skerry.errors import AlreadyExistsError, ConflictError, SchemaError, SkerryError, UnsupportedError
from skerry.migration.metadata_removal import MetadataRemoval
from skerry.storage import Storage

TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("text", pa.string()),
        ("day", pa.date32()),
        ("micros", pa.timestamp("us")),
        ("zoned", pa.timestamp("us", "UTC")),
        ("double", pa.float64()),
        ("money", pa.decimal128(10, 2)),
        ("bytes", pa.binary()),
        ("list", pa.list_(pa.int32())),
        ("row", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ("map", pa.map_(pa.string(), pa.int64())),
    ]
)


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


def rows(start, count=200):
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": numbers,
            "tiny": [k % 100 - 50 for k in numbers],
            "small": [k % 1000 if k % 9 else None for k in numbers],
            "text": [f"a text that is longer than a bound {k % 37}" for k in numbers],
            "day": [dt.date(1969, 12, 30 + k % 2) if k % 7 else None for k in numbers],
            "micros": [dt.datetime(1969, 12, 31, 23, 59, k % 60, 123000) for k in numbers],
            "zoned": [dt.datetime(2024, 1, 1, 0, 0, k % 60, 123456, dt.UTC) for k in numbers],
            "double": [k / 3 if k % 5 else float("nan") for k in numbers],
            "money": [Decimal(k) / 4 for k in numbers],
            "bytes": [bytes([k % 256]) for k in numbers],
            "list": [[k, None] if k % 3 else None for k in numbers],
            "row": [{"a": k, "b": ["x"]} for k in numbers],
            "map": [[("q", k)] for k in numbers],
        },
        TYPES,
    )


def small(catalog, name="d.t", **options):
    table = catalog.create_table(name, pa.schema([("k", pa.int64()), ("s", pa.string())]), format="paimon", **options)
    table.append(pa.table({"k": range(10), "s": [f"s{k % 3}" for k in range(10)]}))
    return table


def files_below(location):
    return {file.location for file in Storage().list(location)}


@pytest.mark.parametrize(("version", "bitmap64"), [(2, "false"), (3, "true")])
def test_rows_deletes_partitions_and_statistics_go_over(catalog, version, bitmap64):
    table = catalog.create_table(
        "d.t",
        TYPES,
        format="paimon",
        partition_by=["day"],
        properties={
            "deletion-vectors.enabled": "true",
            "deletion-vectors.bitmap64": bitmap64,
            "skerry.statistics.max-groups": "7",
            "skerry.compaction.background": "true",
        },
    )
    table.append(rows(0))
    table.append(rows(200))
    table.delete("id < 30 or id = 399")
    table.analyze()
    before = table.scan().to_arrow()
    known = {name: (found.ndv, str(found.freshness)) for name, found in table.statistics().items()}
    data = {file for file in files_below(table.location) if "bucket-0" in file}

    told = catalog.migrate("d.t", format="iceberg", format_version=version, dry_run=True)
    assert (told.files, told.partition_by, told.dry_run) == (len(data), ("day",), True)
    assert catalog.load_table("d.t").format == "paimon"
    done = table.migrate("iceberg", format_version=version)
    assert (done.files, done.size_bytes, done.schema) == (told.files, told.size_bytes, told.schema)

    new = catalog.load_table("d.t")
    assert (new.format, new.format_version, new.partition_by) == ("iceberg", version, ["day"])
    assert catalog.list_tables() == ["d.t"]
    assert data <= files_below(new.location)
    after = new.scan().to_arrow()
    assert sorted_rows(after) == sorted_rows(before.cast(after.schema))
    pyiceberg = catalog.iceberg_catalog.load_table(("d", "t")).scan().to_arrow()
    assert sorted_rows(pyiceberg.cast(after.schema)) == sorted_rows(after)
    found = {name: (found.ndv, str(found.freshness)) for name, found in new.statistics().items()}
    hashed_alike = known.keys() - {"tiny", "small"}
    assert {name: found[name] for name in hashed_alike} == {name: known[name] for name in hashed_alike}
    assert known["id"] == (369.0, "fresh")
    assert new.properties["skerry.statistics.max-groups"] == "7"
    assert "skerry.compaction.background" not in new.properties
    assert new.scan(where="day is null").count() == before.filter(pa.compute.is_null(before["day"])).num_rows
    moment = "micros = timestamp '1969-12-31 23:59:07.123'"
    assert new.scan(where=moment).count() == table_rows(before, "micros", dt.datetime(1969, 12, 31, 23, 59, 7, 123000))
    plan = new.scan(where="id >= 200 and id < 210").plan()
    assert {task.data_file.record_count for task in plan} <= {200, 28, 86, 85, 29}
    assert len(plan) < len(data)


def test_only_footers_are_read(catalog):
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64()), ("x", pa.float64())]), format="paimon")
    numbers = np.random.default_rng(7)
    table.append(pa.table({"k": numbers.integers(0, 2**60, 200_000), "x": numbers.random(200_000)}))
    ndv = table.statistics()["k"].ndv
    size = sum(file.file_size_bytes for file in table.files())
    storage = table.handle.state.storage
    before = storage.metrics.counts()
    catalog.migrate("d.t", format="iceberg")
    counted = storage.metrics.counts() - before
    assert size > 3_000_000
    assert 0 < counted.bytes_read < 400_000  # the sample among them
    new = catalog.load_table("d.t")
    assert (new.statistics()["k"].ndv, str(new.statistics()["k"].freshness)) == (ndv, "fresh")
    assert len(new.scan(where="k < 0").plan()) == 0


def table_rows(table, name, value):
    return sum(found == value for found in table[name].to_pylist())


def test_the_new_table_lives_on_and_may_go_back(catalog):
    table = small(catalog, properties={"deletion-vectors.enabled": "true"})
    table.delete("k = 3")
    table.migrate("iceberg")
    new = catalog.load_table("d.t")
    new.append(pa.table({"k": range(10, 20), "s": ["new"] * 10}))
    new.delete("k = 4 or k = 14")
    assert str(new.statistics()["k"].freshness) == "fresh"
    assert new.statistics()["k"].ndv == 17
    new.compact(full=True)
    new.expire_snapshots(keep_last=1)
    swept = new.remove_orphans(older_than_days=0)
    assert any("/manifest/" in file.location for file in swept.files)  # of the Paimon table
    assert sorted(new.scan(["k"]).to_arrow()["k"].to_pylist()) == [0, 1, 2, *range(5, 14), *range(15, 20)]
    new.migrate("paimon")
    back = catalog.load_table("d.t")
    assert back.format == "paimon"
    assert sorted(back.scan(["k"]).to_arrow()["k"].to_pylist()) == [0, 1, 2, *range(5, 14), *range(15, 20)]
    assert back.statistics()["k"].ndv == 17


def test_evolved_columns(catalog):
    schema = pa.schema([("a", pa.int32()), ("b", pa.string()), ("c", pa.float32()), ("m", pa.decimal128(6, 2))])
    table = catalog.create_table("d.t", schema, format="paimon")
    table.append(pa.table({"a": [1], "b": ["x"], "c": [0.5], "m": [Decimal("1.25")]}, schema))
    with table.update_schema() as update:
        update.update_column("a", pa.int64())
        update.update_column("c", pa.float64())
        update.update_column("m", pa.decimal128(12, 2))
        update.rename_column("b", "bb")
        update.add_column("n", pa.string())
    table.append(pa.table({"a": [2**40], "bb": ["y"], "c": [0.25], "m": [Decimal("99999999.25")], "n": ["z"]}))
    with table.update_schema() as update:
        update.delete_column("n")
        update.add_column("b", pa.int32())
    table.append(pa.table({"a": [3], "bb": ["w"], "c": [1.0], "m": [None], "b": [7]}, table.refresh().schema))
    before = table.scan().to_arrow().sort_by("a")
    table.migrate("iceberg")
    new = catalog.load_table("d.t")
    assert new.scan().to_arrow().sort_by("a").equals(before)
    assert new.scan(where="a = 1").to_arrow()["bb"].to_pylist() == ["x"]
    assert new.scan(where="b = 7").count() == 1


def golden_append_tables():
    return [found for found in golden_tables() if not found.case.get("primaryKeys") and not has_keys(found)]


def has_keys(found):
    return bool(found.state().schema.primary_keys)


REFUSED = {
    "py_types_a": "column 'ti' of type TIME(3)",
    "types_parquet_a": "column 'ti' of type TIME(3)",
    "types_orc_a": "column 'ti' of type TIME(3)",
    "types_avro_a": "column 'ti' of type TIME(3)",
    "row_tracking_a": "row ids would be lost",
    "row_tracking_b": "row ids would be lost",
}


@pytest.mark.parametrize("found", golden_append_tables(), ids=lambda found: found.name)
def test_tables_that_others_wrote(catalog, found):
    table = golden(catalog, found.name)
    if found.name in REFUSED:
        with pytest.raises(UnsupportedError, match=re.escape(REFUSED[found.name])):
            table.migrate("iceberg")
        return
    before = table.scan().to_arrow()
    table.migrate("iceberg")
    new = catalog.load_table(table.name)
    after = new.scan().to_arrow()
    assert sorted_rows(after) == sorted_rows(before.cast(after.schema))
    pyiceberg = catalog.iceberg_catalog.load_table(("d", found.name)).scan().to_arrow()
    assert sorted_rows(pyiceberg.cast(after.schema)) == sorted_rows(after)
    for name in after.column_names:
        values = [value for value in after[name].to_pylist() if value is not None]
        if values and not pa.types.is_nested(after.schema.field(name).type) and name != "x":
            expression = pa.compute.field(name) == pa.scalar(values[0], after.schema.field(name).type)
            assert new.scan(where=expression).count() == sum(value == values[0] for value in values), name


def golden(catalog, name):
    """A table that others wrote, as a table of the catalog."""
    folder = next(found for found in golden_tables() if found.name == name).folder
    target = Path(catalog.properties["warehouse"].removeprefix("file://")) / "d.db" / name
    shutil.copytree(folder / "table", target, copy_function=shutil.copyfile)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    table = catalog.load_table(f"d.{name}")
    for ref in table.refs().values():
        if ref.name != "main":
            table.drop_ref(ref.name)
    return table


@pytest.mark.spark
def test_icebergs_own_reader(catalog, tmp_path, iceberg_spark):
    made = catalog.create_table(
        "d.t", TYPES, format="paimon", partition_by=["day"], properties={"deletion-vectors.enabled": "true"}
    )
    made.append(rows(0))
    made.append(rows(200))
    made.delete("id < 30 or id = 399")
    names = {found.name for found in golden_append_tables()} - REFUSED.keys()
    tables = [made, *(golden(catalog, name) for name in sorted(names))]
    for number, table in enumerate(tables):
        table.migrate("iceberg", format_version=2 + number % 2)
    session = iceberg_spark(tmp_path / "warehouse")
    for table in tables:
        ours = catalog.load_table(table.name).scan().to_arrow()
        theirs = session.sql(f"select * from skerry.{table.name}").toArrow()
        assert sorted_rows(theirs.cast(ours.schema)) == sorted_rows(ours), table.name
        for name in ours.column_names:
            type_ = ours.schema.field(name).type
            found = ours[name].drop_null()
            if len(found) and (pa.types.is_integer(type_) or pa.types.is_timestamp(type_) or pa.types.is_date(type_)):
                value = pa.compute.max(found)
                literal = f"cast('{value.as_py()}' as {SPARK_TYPES[type_]})"
                count = session.sql(f"select count(*) from skerry.{table.name} where {name} = {literal}").first()[0]
                assert count == pa.compute.sum(pa.compute.equal(found, value)).as_py(), (table.name, name)


SPARK_TYPES = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
}


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        (
            [("k", pa.int64())],
            {"primary_key": ["k"]},
            (
                "a Paimon table with a primary key merges records as it is read, which Iceberg tables do not: only "
                "append tables can become Iceberg tables without rewriting; read it and write the rows to a new table"
            ),
        ),
        (
            [("s", pa.struct([("t", pa.time32("ms"))]))],
            {},
            "column 's.t' of type TIME(3): Paimon's files hold milliseconds where Iceberg's hold microseconds",
        ),
        (
            [("t", pa.list_(pa.timestamp("ns")))],
            {},
            (
                "column 't.element' of type TIMESTAMP(9): Iceberg's timestamps have microseconds, and those with "
                "nanoseconds are stored differently"
            ),
        ),
        (
            [("k", pa.int64())],
            {"properties": {"row-tracking.enabled": "true"}},
            "table option row-tracking.enabled=true: row ids would be lost",
        ),
    ],
    ids=["primary key", "time", "nanoseconds", "row tracking"],
)
def test_tables_that_cannot_go(catalog, columns, options, expected):
    catalog.create_table("d.t", pa.schema(columns), format="paimon", **options)
    with pytest.raises(UnsupportedError) as error:
        catalog.migrate("d.t", format="iceberg")
    assert error.value.message == expected
    assert catalog.load_table("d.t").format == "paimon"


def test_files_in_avro_are_refused(catalog):
    small(catalog, file_format="avro")
    with pytest.raises(
        UnsupportedError, match="data files of format avro written by Paimon cannot belong to an Iceberg table"
    ):
        catalog.migrate("d.t", format="iceberg")


@pytest.mark.parametrize("digits", ["s", "ms"])
def test_milliseconds_in_parquet(catalog, digits):
    table = catalog.create_table("d.t", pa.schema([("t", pa.timestamp(digits))]), format="paimon")
    table.append(pa.table({"t": [dt.datetime(2024, 1, 1)]}))
    with pytest.raises(UnsupportedError, match="the Parquet file contains milliseconds, which other readers"):
        table.migrate("iceberg")
    with table.update_schema() as update:
        update.update_column("t", pa.timestamp("us"))
    table.compact(full=True)
    table.migrate("iceberg")
    assert catalog.load_table("d.t").scan().to_arrow()["t"].to_pylist() == [dt.datetime(2024, 1, 1)]


@pytest.mark.parametrize("file_format", ["orc", "amudai"])
def test_other_file_formats(catalog, file_format):
    small(catalog, file_format=file_format).migrate("iceberg")
    new = catalog.load_table("d.t")
    assert new.scan(where="s = 's1'").to_arrow().sort_by("k")["k"].to_pylist() == [1, 4, 7]
    new.append(pa.table({"k": [10], "s": ["s1"]}))
    assert {task.data_file.file_format for task in new.scan().plan()} == {file_format}
    assert new.scan(where="s = 's1'").count() == 4


def test_branches_and_tags_are_not_dropped(catalog):
    table = small(catalog)
    table.create_tag("v1")
    with pytest.raises(UnsupportedError) as error:
        table.migrate("iceberg")
    assert error.value.message == (
        "only the newest snapshot is migrated, but the table has 1 other branches or tags, such as the tag 'v1': drop "
        "them first"
    )


def test_types_that_iceberg_does_not_promote(catalog):
    table = small(catalog)
    with table.update_schema() as update:
        update.update_column("k", pa.decimal128(20, 0))
    with pytest.raises(UnsupportedError) as error:
        table.migrate("iceberg")
    assert error.value.message == (
        "column 'k' was of type long in schema 0 and is decimal(20, 0) now, which Iceberg cannot convert; rewrite the "
        "files: compact(full=True)"
    )
    table.compact(full=True)
    table.migrate("iceberg")
    assert catalog.load_table("d.t").scan().count() == 10


def rewrite_file(table, change):
    """Put another file in place of a table's only one, of the same size as far as metadata tells."""
    (file,) = (found for found in files_below(table.location) if "/bucket-0/" in found)
    path = file.removeprefix("file://")
    pq.write_table(change(pq.read_table(path)), path, compression="zstd")
    return path


def test_field_ids_of_a_file_that_mean_other_columns(catalog):
    table = small(catalog)

    def swap(found):
        fields = [
            found.schema.field(number).with_metadata({"PARQUET:field_id": str(1 - number)}) for number in range(2)
        ]
        return found.cast(pa.schema(fields))

    rewrite_file(table, swap)
    with pytest.raises(SkerryError) as error:
        table.migrate("iceberg")
    assert "column 'k' has field id 1 in the file but 0 in the table" in str(error.value)
    assert catalog.load_table("d.t").format == "paimon"


def test_the_other_format_must_be_another_one(catalog):
    small(catalog)
    with pytest.raises(AlreadyExistsError, match=r"table 'd\.t' is a Paimon table already"):
        catalog.migrate("d.t", format="paimon")
    with pytest.raises(UnsupportedError, match="format='delta' is not supported"):
        catalog.migrate("d.t", format="delta")
    with pytest.raises(SchemaError, match="format_version must be 2 or 3, found 1"):
        catalog.migrate("d.t", format="iceberg", format_version=1)
    with pytest.raises(UnsupportedError, match="the Iceberg table keeps the partition keys"):
        catalog.migrate("d.t", format="iceberg", partition_by=[])


def test_an_interrupted_migration_is_told(catalog):
    small(catalog)
    catalog.create_table("d.t__migrating", pa.schema([("k", pa.int64())]))
    with pytest.raises(AlreadyExistsError, match=r"'d\.t' is being migrated, or an earlier migration was interrupted"):
        catalog.migrate("d.t", format="iceberg")
    assert catalog.load_table("d.t").scan().count() == 10


# Failures and rivals ------------------------------------------------------------------------------------------------


def unchanged(catalog, files, count=10):
    """Whether the table is the Paimon table that it was, and nothing else is left of the attempt."""
    table = catalog.load_table("d.t")
    assert (table.format, table.scan().count()) == ("paimon", count)
    assert catalog.list_tables() == ["d.t"]
    left = {file for file in files_below(table.location) - files if "/metadata/" in file}
    assert not left
    table.remove_orphans(older_than_days=0)
    table.append(pa.table({"k": [99], "s": ["t"]}))
    assert table.scan().count() == count + 1


@pytest.mark.parametrize(
    ("owner", "step"), [(IcebergTables, "register"), (table_migrating, "publish_files"), (IcebergTables, "rename")]
)
def test_a_failure_leaves_the_table_as_it_was(catalog, monkeypatch, owner, step):
    location = small(catalog).location
    stray = Path(location.removeprefix("file://"), "metadata", "deep", "kept.avro")
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"somebody's")
    files = files_below(location)

    def fail(*_, **__):
        raise OSError("no luck")

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, fail)
        with pytest.raises(OSError, match="no luck"):
            catalog.migrate("d.t", format="iceberg")
    assert stray.exists()
    stray.unlink()
    unchanged(catalog, files)


@pytest.mark.parametrize("moment", ["check", "_check_snapshots"])
def test_a_rival_commit_is_not_lost(catalog, monkeypatch, moment):
    table = small(catalog)
    rival = catalog.load_table("d.t")
    files = files_below(table.location)
    inner = getattr(MetadataRemoval, moment)

    def commit_first(self):
        if rival is not None and rival.scan().count() == 10:
            if moment == "_check_snapshots":  # a writer that knows the table from before
                self.restore()
            rival.append(pa.table({"k": [10], "s": ["s"]}))
            rival.refresh()
        inner(self)

    monkeypatch.setattr(MetadataRemoval, moment, commit_first)
    with pytest.raises(ConflictError):
        catalog.migrate("d.t", format="iceberg")
    monkeypatch.undo()
    unchanged(catalog, files, 11)


def test_folders_become_iceberg_tables(catalog):
    with pytest.raises(UnsupportedError, match="a folder can only become an Iceberg table"):
        catalog.migrate("d.x", "/tmp/folder", format="paimon")
    with pytest.raises(UnsupportedError, match="leave out partition_by="):
        catalog.migrate("d.x", "/tmp/folder", partition_by=[])
