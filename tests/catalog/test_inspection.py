"""Metadata tables: against PyIceberg's of the same table, against what was written, and at what cost."""

from __future__ import annotations

import datetime
import decimal
import uuid
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import skerry
from skerry.errors import FormatError, NotFoundError, SchemaError, UnsupportedError
from skerry.iceberg import inspection
from skerry.iceberg.manifests.cache import ManifestCache
from skerry.iceberg.manifests.map_columns import MapColumns
from skerry.iceberg.manifests.snapshot_manifests import read_manifests
from skerry.paimon.manifests.cache import MetadataCache
from skerry.table.inspection.inspect import METADATA_TABLES, Inspect, rows_table

FORMATS = ("iceberg", "paimon")
MERGED_ON_READ = {"iceberg": "merge-on-read", "paimon": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("x", pa.float64()),
        ("price", pa.decimal128(10, 2)),
    ]
)


def rows(ids, *, day=1, names=None):
    ids = list(ids)
    return pa.table(
        {
            "id": ids,
            "name": names or [f"name {number}" for number in ids],
            "day": [datetime.date(2026, 1, day)] * len(ids),
            "at": [datetime.datetime(2026, 1, day, number % 24, tzinfo=datetime.UTC) for number in ids],
            "x": [None if number % 3 == 0 else float("nan") if number % 3 == 1 else number / 2 for number in ids],
            "price": [decimal.Decimal(number) / 4 for number in ids],
        },
        SCHEMA,
    )


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


def changed_table(catalog, version):
    """A table with all kinds of files: of two specs, added, existing and deleted, with position and key deletes."""
    options = {"write.delete.mode": "merge-on-read", "write.merge.mode": "merge-on-read"}
    table = catalog.create_table(
        "ns.t", SCHEMA, partition_by=["day(at)", "bucket(2, id)"], properties=options, format_version=version
    )
    for number in range(3):
        table.append(rows(range(10 * number, 10 * number + 10), day=number + 1))
    table.create_tag("third")
    table.delete("id in (0, 5, 10)")
    table.upsert(rows([7, 100], day=1), on=["id", "at"], blind=True)
    table.create_branch("audit")
    table.append(rows([200]), ref="audit")
    return table


def theirs(tmp_path):
    warehouse = tmp_path / "warehouse"
    peer = SqlCatalog("skerry", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}")
    return peer.load_table("ns.t").inspect


def plain(value):
    """A value in a form in which ours and PyIceberg's can be compared: maps as dictionaries, UTC without zone."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) for item in value):
            return {key: plain(item) for key, item in value}
        return [plain(item) for item in value] or None
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, float) and value != value:
        return "nan"
    return value


def records(table, columns, key):
    return sorted((plain(row) for row in table.select(columns).to_pylist()), key=lambda row: repr(row[key]))


@pytest.mark.parametrize("version", [2, 3])
def test_iceberg_tables_are_those_of_pyiceberg(catalog, tmp_path, version):
    table = changed_table(catalog, version)
    ours, peer = table.inspect, theirs(tmp_path)
    tagged = table.refs()["third"].snapshot_id
    for name, found, expected, key in (
        ("snapshots", ours.snapshots(), peer.snapshots(), "snapshot_id"),
        ("history", ours.history(), peer.history(), "snapshot_id"),
        ("refs", ours.refs(), peer.refs(), "name"),
        ("metadata_log", ours.metadata_log(), peer.metadata_log_entries(), "file"),
        ("manifests", ours.manifests(), peer.manifests(), "path"),
        ("partitions", ours.partitions(), peer.partitions(), "partition"),
        ("files", ours.files(), peer.files(), "file_path"),
        ("files", ours.files(snapshot=tagged), peer.files(tagged), "file_path"),
        ("files", ours.files(ref="third"), peer.files(tagged), "file_path"),
        ("partitions", ours.partitions(ref="third"), peer.partitions(tagged), "partition"),
        # PyIceberg fails on the entries of deletion vectors, which have no column sizes
        *([("entries", ours.entries(), peer.entries(), "data_file")] if version == 2 else []),
    ):
        columns = [column for column in expected.column_names if column != "key_metadata"]
        assert [column for column in found.column_names if column in columns] == columns, name
        if name == "entries":
            found, expected = files_of(found), files_of(expected)
            key = "file_path"
            columns = [column for column in expected.column_names if column != "key_metadata"]
        assert found.num_rows == expected.num_rows > 0, name
        assert records(found, columns, key) == records(expected, columns, key), name
    assert sorted(set(ours.files()["content"].to_pylist())) == [0, 1, 2]
    assert set(ours.entries()["status"].to_pylist()) == {1}


def files_of(entries):
    """The columns of entries with those of their files beside them."""
    files = pa.Table.from_batches(pa.RecordBatch.from_struct_array(chunk) for chunk in entries["data_file"].chunks)
    for name in ("status", "snapshot_id", "sequence_number", "readable_metrics"):
        files = files.append_column(name, entries[name])
    return files


def test_all_files_are_those_of_pyiceberg_each_once(catalog, tmp_path):
    table = changed_table(catalog, 2)
    table.compact(full=True)
    found = table.inspect.all_files(columns=["file_path"])["file_path"].to_pylist()
    expected = theirs(tmp_path).all_files()["file_path"].to_pylist()
    assert sorted(found) == sorted(set(expected))
    assert set(table.inspect.files()["file_path"].to_pylist()) < set(found)
    statuses = table.inspect.entries()["status"].to_pylist()
    assert set(statuses) == {1, 2}  # compaction has deleted the files that it replaced


def test_partitions_of_changed_specs_have_the_fields_of_all(catalog, tmp_path):
    table = catalog.create_table("ns.t", SCHEMA, partition_by=["day"])
    table.append(rows([1], day=1))
    table.update_spec().add_field("bucket(4, id)").remove_field("day").commit()
    table.append(rows([2], day=2))
    files = table.inspect.files()
    partitions = {row["spec_id"]: row["partition"] for row in files.select(["spec_id", "partition"]).to_pylist()}
    bucket = partitions[1]["id_bucket"]
    assert partitions[0] == {"day": datetime.date(2026, 1, 1), "id_bucket": None}
    assert partitions[1] == {"day": None, "id_bucket": bucket}
    assert bucket in range(4)
    assert sorted(table.inspect.partitions()["spec_id"].to_pylist()) == [0, 1]
    peer = theirs(tmp_path).files()
    assert records(files, ["partition"], "partition") == records(peer, ["partition"], "partition")


def test_bounds_are_typed_even_in_columns_that_have_changed(catalog):
    nested = pa.schema(
        [("n", pa.int32()), ("s", pa.struct([("a", pa.string())])), ("u", pa.uuid()), ("l", pa.list_(pa.int32()))]
    )
    table = catalog.create_table("ns.t", nested)
    low, high = uuid.UUID(int=1), uuid.UUID(int=2)
    table.append(
        pa.table({"n": [1, 5], "s": [{"a": "x"}, None], "u": [low.bytes, high.bytes], "l": [[1], None]}, schema=nested)
    )
    with table.update_schema() as update:
        update.update_column("n", pa.int64()).rename_column("s.a", "b").add_column("late", pa.date32())
    metrics = table.inspect.files(columns=["readable_metrics"])["readable_metrics"][0].as_py()
    assert list(metrics) == ["n", "s.b", "u", "late"]
    assert (metrics["n"]["lower_bound"], metrics["n"]["upper_bound"]) == (1, 5)
    assert (metrics["s.b"]["lower_bound"], metrics["s.b"]["null_value_count"]) == ("x", 1)
    assert set(metrics["late"].values()) == {None}
    types = table.inspect.schema("files").field("readable_metrics").type
    assert types.field("n").type.field("lower_bound").type == pa.int64()


@pytest.mark.parametrize("format", FORMATS)
def test_both_formats_say_the_same_about_the_same_rows(catalog, format):
    table = catalog.create_table(
        "ns.t",
        SCHEMA,
        format=format,
        partition_by=["day"],
        properties={"deletion-vectors.enabled" if format == "paimon" else "write.delete.mode": MERGED_ON_READ[format]},
        format_version={"iceberg": 3, "paimon": None}[format],
    )
    for name in METADATA_TABLES:
        if (format, name) != ("paimon", "metadata_log"):
            found = table.inspect.read(name)
            assert found.schema == table.inspect.schema(name)
            assert name in ("refs", "properties", "metadata_log") or not found.num_rows
    table.append(rows(range(10), day=1))
    first = table.current_snapshot().snapshot_id
    table.append(rows(range(10, 25), day=2))
    table.create_tag("two")
    table.delete("id < 3 or id = 20")
    inspect = table.inspect

    files = inspect.files()
    assert files.schema == inspect.schema("files")
    data = files.filter(pc.equal(files["content"], 0)).sort_by("record_count")
    assert data["record_count"].to_pylist() == [10, 15]
    assert set(data["file_format"].to_pylist()) == {"PARQUET"}
    assert [row["day"] for row in data["partition"].to_pylist()] == [datetime.date(2026, 1, day) for day in (1, 2)]
    assert {file.location for file in table.files()} == set(data["file_path"].to_pylist())
    for column, low, high, nulls in (
        ("id", 0, 9, 0),
        ("name", "name 0", "name 9", 0),
        ("day", datetime.date(2026, 1, 1), datetime.date(2026, 1, 1), 0),
        (
            "at",
            datetime.datetime(2026, 1, 1, 0, tzinfo=datetime.UTC),
            datetime.datetime(2026, 1, 1, 9, tzinfo=datetime.UTC),
            0,
        ),
        ("price", decimal.Decimal("0.00"), decimal.Decimal("2.25"), 0),
        ("x", None, None, 4),
    ):
        metrics = data["readable_metrics"][0].as_py()[column]
        assert (metrics["value_count"], metrics["null_value_count"]) == (10, nulls)
        if column != "x":  # Iceberg leaves NaN out of bounds, Paimon has no bounds then
            assert (metrics["lower_bound"], metrics["upper_bound"]) == (low, high)

    vectors = files.filter(pc.equal(files["content"], 1))
    assert sorted(vectors["record_count"].to_pylist()) == [1, 3]
    assert set(vectors["referenced_data_file"].to_pylist()) == set(data["file_path"].to_pylist())
    deletes = inspect.position_deletes()
    assert sorted(zip(deletes["file_path"].to_pylist(), deletes["pos"].to_pylist(), strict=True)) == sorted(
        [(data["file_path"][0].as_py(), position) for position in (0, 1, 2)] + [(data["file_path"][1].as_py(), 10)]
    )
    assert set(deletes["delete_file_path"].to_pylist()) == set(vectors["file_path"].to_pylist())

    partitions = inspect.partitions().sort_by("record_count")
    columns = ["record_count", "file_count", "position_delete_record_count", "position_delete_file_count"]
    assert sorted(tuple(row.values()) for row in partitions.select(columns).to_pylist()) == [
        (10, 1, 3, 1),
        (15, 1, 1, 1),
    ]
    assert partitions["total_data_file_size_in_bytes"].to_pylist() == data["file_size_in_bytes"].to_pylist()
    committed = table.current_snapshot().timestamp
    assert all(
        abs(moment - committed) < datetime.timedelta(minutes=5) for moment in partitions["last_updated_at"].to_pylist()
    )

    assert inspect.files(snapshot=first)["record_count"].to_pylist() == [10]
    assert inspect.files(ref="two").num_rows == 2
    assert inspect.position_deletes(ref="two").num_rows == 0
    assert inspect.partitions(snapshot=first).num_rows == 1
    assert inspect.manifests(snapshot=first)["added_data_files_count"].to_pylist() == [1]
    counts = inspect.manifests()["partition_summaries"].to_pylist()
    assert {summary[0]["lower_bound"] for summary in counts if summary} == {"2026-01-01", "2026-01-02"}
    assert inspect.history()["snapshot_id"].to_pylist() == inspect.snapshots()["snapshot_id"].to_pylist()
    assert inspect.snapshots()["operation"].to_pylist()[:2] == ["append", "append"]
    refs = {row["name"]: row["type"] for row in inspect.refs().to_pylist()}
    assert refs["main"] == "BRANCH"
    assert refs["two"] == "TAG"
    assert dict(zip(*inspect.properties().to_pydict().values(), strict=True)) == table.properties
    before = table.refs()["two"].snapshot_id
    sketched = {
        row["columns"][0]: int(dict(row["properties"])["ndv"])
        for row in inspect.statistics().to_pylist()
        if row["snapshot_id"] == before and row["blob_type"] == "apache-datasketches-theta-v1"
    }
    assert sketched["id"] == sketched["name"] == 25


def test_paimon_key_tables_show_keys_levels_and_the_files_of_branches(catalog):
    table = catalog.create_table("ns.t", SCHEMA, format="paimon", primary_key=["id"], partition_by=["bucket(2, id)"])
    table.append(rows(range(10)))
    table.create_branch("side")
    table.append(rows([100]), ref="side")
    table.append(rows(range(5, 15)))
    table.compact(full=True)
    inspect = table.inspect
    files = inspect.files()
    assert "partition" not in files.schema.names
    assert set(files["level"].to_pylist()) == {5}
    assert set(files["file_source"].to_pylist()) == {"COMPACT"}
    assert min(key["id"] for key in files["min_key"].to_pylist()) == 0
    assert max(key["id"] for key in files["max_key"].to_pylist()) == 14
    assert sum(files["record_count"].to_pylist()) == 15
    every = set(inspect.all_files()["file_path"].to_pylist())
    of_side = set(inspect.files(ref="side")["file_path"].to_pylist())
    assert set(files["file_path"].to_pylist()) | of_side < every
    assert len(of_side) == 3
    entries = inspect.entries(columns=["status", "snapshot_id", "data_file"])
    deleted = [row for row in entries.to_pylist() if row["status"] == 2]
    assert {row["snapshot_id"] for row in deleted} == {table.current_snapshot().snapshot_id}
    assert all(row["data_file"]["level"] == 0 for row in deleted)
    assert inspect.partitions()["total_buckets"].to_pylist() == [2]
    with pytest.raises(UnsupportedError, match="Paimon tables have no metadata_log"):
        inspect.metadata_log()


@pytest.mark.parametrize("format", FORMATS)
def test_wrong_arguments_are_named(catalog, format):
    inspect = catalog.create_table("ns.t", SCHEMA, format=format).inspect
    with pytest.raises(NotFoundError, match="did you mean 'files'"):
        inspect.read("file")
    with pytest.raises(SchemaError, match="files has no column 'path'; did you mean 'file_path'"):
        inspect.files(columns=["path"])
    with pytest.raises(SchemaError, match="columns must be a list"):
        inspect.files(columns="file_path")
    with pytest.raises(SchemaError, match="only one of snapshot and ref"):
        inspect.files(snapshot=1, ref="main")
    with pytest.raises(SchemaError, match="refs is about the whole table"):
        inspect.read("refs", ref="main")
    with pytest.raises(SchemaError, match="takes the number of a snapshot"):
        inspect.files(snapshot="main")
    with pytest.raises(NotFoundError, match="no snapshot 7"):
        inspect.files(snapshot=7)
    with pytest.raises(NotFoundError, match="no branch or tag 'mian'; did you mean 'main'"):
        inspect.manifests(ref="mian")


@pytest.mark.parametrize("format", FORMATS)
def test_every_file_of_metadata_is_read_once(catalog, format, monkeypatch):
    monkeypatch.setattr("skerry.iceberg.planning.file_tables.shared_cache", lambda: ManifestCache(0))
    known = MetadataCache(0)
    for module in ("manifests.cache", "manifests.manifest", "manifests.manifest_list", "commit"):
        monkeypatch.setattr(f"skerry.paimon.{module}.shared_cache", lambda: known)
    table = catalog.create_table("ns.t", SCHEMA, format=format)
    for number in range(6):
        table.append(rows([number]))
    table = catalog.load_table("ns.t")
    lists = {"iceberg": 1, "paimon": 2}[format]
    for name, count, requests in (
        ("manifests", 6, lists),
        ("files", 6, lists + 6),
        ("entries", 6, lists + 6),
        ("partitions", 1, lists + 6),
        ("position_deletes", 0, {"iceberg": 1, "paimon": 0}[format]),
    ):
        known.clear()  # what this process has written or read
        table = catalog.load_table("ns.t")
        before = table.storage.metrics.counts()
        assert table.inspect.read(name).num_rows == count
        assert (table.storage.metrics.counts() - before).requests == requests, name
    known.clear()
    before = table.storage.metrics.counts()
    assert table.inspect.all_files(columns=["file_path"]).num_rows == 6
    # Paimon: branches, snapshots and tags are listed, six snapshots read, and of each the list of what it added
    assert (table.storage.metrics.counts() - before).requests == {"iceberg": 6 + 6, "paimon": 3 + 6 + 7 + 6}[format]


def test_few_columns_of_many_files_cost_little(catalog, monkeypatch):
    decoded = []
    read = ManifestCache.read

    def recorded(self, storage, manifest, columns):
        decoded.append(set(columns))
        return read(self, storage, manifest, columns)

    monkeypatch.setattr(ManifestCache, "read", recorded)
    table = catalog.create_table("ns.t", SCHEMA)
    table.append(rows([1]))
    decoded.clear()
    table.inspect.files(columns=["file_path", "record_count"])
    assert decoded == [{"status", "file_path", "record_count"}]


def test_metrics_of_files_that_differ_in_their_columns_are_found():
    """Maps with and without the same keys, null and empty ones, of several lengths, against a plain loop."""
    random = np.random.default_rng(7)
    for keys in ([[1, 2]] * 50, [[5, 5, 9]] * 3, [random.permutation(6)[: random.integers(0, 6)] for _ in range(200)]):
        maps = [
            None
            if random.integers(5) == 0 and len(keys) > 3
            else [(int(key), int(random.integers(100))) for key in row]
            for row in keys
        ]
        array = pa.array(maps, pa.map_(pa.int32(), pa.int64()))
        for part in (array, array.slice(2), array.slice(1, 1), array.slice(0, 0)):
            columns = MapColumns(part)
            for key in range(10):
                expected = [next((value for at, value in row or () if at == key), None) for row in part.to_pylist()]
                assert columns.values(key).to_pylist() == expected
                assert columns.counts(key).tolist() == [-1 if value is None else value for value in expected]


def test_numbers_that_no_column_holds_are_errors_of_ours():
    with pytest.raises(FormatError, match="snapshot_id has a value that does not fit int64"):
        rows_table([(2**63,)], [pa.field("snapshot_id", pa.int64())])


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_metadata_is_an_error_of_ours(catalog, format):
    table = catalog.create_table("ns.t", SCHEMA, format=format)
    table.append(rows([1]))
    path = table.inspect.manifests()["path"][0].as_py()
    data = table.storage.read(path)
    table.storage.write(path, data[: len(data) // 2], overwrite=True)
    with pytest.raises(FormatError):
        catalog.load_table("ns.t").inspect.files()
    table.storage.delete([path])
    with pytest.raises(NotFoundError):
        catalog.load_table("ns.t").inspect.partitions()


# Queries -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_queries_read_metadata_tables_beside_tables(catalog, format):
    table = catalog.create_table("ns.t", SCHEMA, format=format, partition_by=["day"])
    table.append(rows(range(10), day=1))
    table.append(rows(range(10, 25), day=2))
    found = catalog.sql(
        """
        SELECT partition.day AS day, max(readable_metrics.id.upper_bound) AS top, count(t.id) AS rows
        FROM "ns.t$files" f JOIN ns.t t ON t.day = f.partition.day
        WHERE f.record_count > 5 AND f.content = 0 GROUP BY 1 ORDER BY 1
        """
    )
    days = [datetime.date(2026, 1, day) for day in (1, 2)]
    assert found.to_pylist() == [{"day": days[0], "top": 9, "rows": 10}, {"day": days[1], "top": 24, "rows": 15}]
    assert catalog.sql("SELECT sum(record_count) AS n FROM ns.t$files").to_pylist() == [{"n": 25}]
    late = catalog.sql(
        """SELECT snapshot_id FROM ns."t$snapshots" WHERE operation = 'append' AND committed_at > TIMESTAMP '2026-01-01'
        ORDER BY committed_at"""
    )
    assert late["snapshot_id"].to_pylist() == [snapshot.snapshot_id for snapshot in table.snapshots()]
    for name in METADATA_TABLES:
        if (format, name) != ("paimon", "metadata_log"):
            assert catalog.sql(f'SELECT * FROM "ns.t${name}"').num_rows == table.inspect.read(name).num_rows
    assert "f (ns.t$files): 2 rows" in str(catalog.explain('SELECT * FROM "ns.t$files" f'))


def test_wrong_names_in_queries_are_named(catalog):
    catalog.create_table("ns.t", SCHEMA)
    for name, message in (("ns.t$fils", "did you mean 'files'"), ("ns.u$files", "no table 'ns.u\\$files'")):
        with pytest.raises(NotFoundError, match=message):
            catalog.sql(f'SELECT * FROM "{name}"')
    with pytest.raises(SchemaError, match="nope"):
        catalog.sql('SELECT nope FROM "ns.t$files"')
    catalog.create_table("ns.p", SCHEMA, format="paimon")
    with pytest.raises(UnsupportedError, match="Paimon tables have no metadata_log"):
        catalog.sql('SELECT * FROM "ns.p$metadata_log"')


def test_a_table_may_be_called_like_a_metadata_table(catalog):
    catalog.create_table("ns.t", SCHEMA).append(rows(range(3)))
    catalog.create_table("ns.t$files", SCHEMA).append(rows(range(7)))
    assert catalog.sql('SELECT count(*) AS n FROM "ns.t$files"').to_pylist() == [{"n": 7}]


def test_a_query_reads_a_metadata_table_once_and_only_its_columns(catalog, monkeypatch):
    table = catalog.create_table("ns.t", SCHEMA)
    table.append(rows(range(3)))
    asked = []
    read = Inspect.read

    def recorded(self, name, **options):
        asked.append((name, options["columns"]))
        return read(self, name, **options)

    monkeypatch.setattr(Inspect, "read", recorded)
    catalog.sql('SELECT file_path FROM "ns.t$files" WHERE record_count > 1')
    assert asked == [("files", ["file_path", "record_count"])]


@pytest.mark.parametrize("name", ["content_offset", "content_size_in_bytes", "referenced_data_file"])
def test_deletion_vectors_without_a_place_are_refused(catalog, name):
    table = catalog.create_table("ns.t", SCHEMA)
    vector = {
        "file_path": f"{table.location}/data/a.puffin",
        "file_format": "PUFFIN",
        "record_count": 1,
        "file_size_in_bytes": 100,
        "content_offset": 4,
        "content_size_in_bytes": 50,
        "referenced_data_file": "a.parquet",
        "key_metadata": None,
    }
    with pytest.raises(FormatError, match=f"a deletion vector has no {name}"):
        table.inspect._deleted_by(vector | {name: None})


@pytest.mark.parametrize("name", ["files", "all_files", "entries", "manifests", "partitions"])
def test_manifests_of_an_unknown_spec_are_refused(catalog, monkeypatch, name):
    table = catalog.create_table("ns.t", SCHEMA, partition_by=["day"])
    table.append(rows(range(3)))

    def wrong(storage, snapshot):
        return [replace(found, partition_spec_id=99) for found in read_manifests(storage, snapshot)]

    monkeypatch.setattr(inspection, "read_manifests", wrong)
    with pytest.raises(FormatError, match="partition spec 99, which the table does not have"):
        table.inspect.read(name)
