"""Scans of Iceberg tables: the rows of the condition, whatever was pruned, evolved or travelled."""

from __future__ import annotations

import datetime
from decimal import Decimal

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import DecimalType, DoubleType, LongType, StringType

import skerry
from skerry.errors import FormatError, NotFoundError, SchemaError, SkerryError
from skerry.iceberg.manifests.manifest import EntryStatus, ManifestContent, ManifestEntry, encode_manifest
from skerry.iceberg.manifests.manifest_list import encode_manifest_list
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.planning.plan import ScanPlanner
from skerry.table.files.data_file import DataFile
from skerry.table.statistics.written_file import WrittenFile
from torture import examples

NO_STATISTICS = {"skerry.statistics.enabled": "false"}


def peer(folder):
    return SqlCatalog("skerry", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")


def create(folder, data, *, name="ns.t", **options):
    properties = {**NO_STATISTICS, **options.pop("properties", {})}
    return skerry.connect(folder).create_table(name, data.schema, properties=properties, **options)


def by(name, table):
    return table.sort_by(name).to_pylist()


# ---- rows of conditions, beside DuckDB ----

ROWS = 240
NAN = float("nan")
CARRIERS = [None if n % 11 == 0 else ["AA", "B6", "UA", "WN"][n % 4] for n in range(ROWS)]
DELAYS = [None if n % 5 == 0 else NAN if n % 17 == 0 else n % 6 * 10.0 - 10 for n in range(ROWS)]
TIMES = [None if n % 13 == 0 else datetime.datetime(2013, 1 + n % 6, 1, n % 2) for n in range(ROWS)]
DAYS = [datetime.date(2013, 1 + n % 3, 1 + n % 2) for n in range(ROWS)]
FLIGHTS = pa.table(
    {
        "n": pa.array(range(ROWS), pa.int64()),
        "carrier": CARRIERS,
        "delay": DELAYS,
        "time": pa.array(TIMES, pa.timestamp("us")),
        "day": pa.array(DAYS, pa.date32()),
    }
)
SPECS = [
    [],
    ["carrier"],
    ["month(time)", "bucket(3, carrier)"],
    ["day(day)"],
    ["truncate(40, n)", "truncate(1, carrier)"],
    ["delay"],
    ["hour(time)"],
    ["year(time)", "void(n)"],
]
CONDITIONS = st.recursive(
    st.sampled_from(
        [
            "n < 50", "n BETWEEN 100 AND 200", "n IN (1, 130, 239, 1000)", "n = 150", "n <> 3", "carrier = 'AA'",
            "carrier > 'B6'", "carrier LIKE 'U%'", "carrier IN ('WN', 'B6')", "carrier IS NULL",
            "carrier NOT LIKE 'A%'", "delay > 30", "delay <= 0", "isnan(delay)", "delay IS NOT NULL", "delay = 20",
            "time >= '2013-05-01'", "time < '2013-02-01 01:00:00'", "time IS NULL", "time = '2013-03-01 00:00:00'",
            "day = DATE '2013-02-02'", "day NOT IN (DATE '2013-01-01', DATE '2013-02-02')", "day < '2013-02-01'",
        ]
    ),
    lambda inner: st.one_of(
        inner.map(lambda condition: f"NOT ({condition})"),
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map("({0[0]}) {0[1]} ({0[2]})".format),
    ),
    max_leaves=3,
)  # fmt: skip


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    """The same rows in tables of many partition specs, in two commits each."""
    folder = tmp_path_factory.mktemp("flights")
    tables = []
    for number, spec in enumerate(SPECS):
        table = create(folder, FLIGHTS, name=f"ns.t{number}", partition_by=spec)
        table.append(FLIGHTS.slice(0, 120))
        table.append(FLIGHTS.slice(120))
        tables.append(table)
    return tables


@settings(max_examples=examples(20), deadline=None)
@given(number=st.integers(0, len(SPECS) - 1), condition=CONDITIONS)
def test_a_scan_has_the_rows_of_its_condition(flights, number, condition):
    table = flights[number]
    expected = sorted(row for (row,) in duckdb.from_arrow(FLIGHTS).filter(condition).project("n").fetchall())
    scan = table.scan(["n"], condition)
    assert sorted(scan.to_arrow()["n"].to_pylist()) == expected
    assert scan.count() == len(expected)
    steps = scan.explain().plan.steps
    assert all(step.kept + sum(count for _, count in step.dropped) == step.total for step in steps)
    assert steps[-1].kept_rows >= len(expected)


def test_conditions_of_pyarrow_and_the_order_of_columns(flights):
    scan = flights[2].scan(["delay", "n"], (pc.field("delay") > 30) & (pc.field("carrier") == "AA"))
    assert scan.schema.names == ["delay", "n"]
    expected = FLIGHTS.filter((pc.field("delay") > 30) & (pc.field("carrier") == "AA"))
    assert by("n", scan.to_arrow()) == by("n", expected.select(["delay", "n"]))


def test_the_funnel_tells_what_was_dropped_and_why(flights):
    explanation = flights[1].scan(["n"], "carrier = 'AA' AND n >= 120").explain()
    manifests, by_partition, by_bounds = explanation.plan.steps
    assert (manifests.total, manifests.kept, manifests.total_rows) == (2, 2, 240)
    assert by_partition.total == 10
    assert by_partition.dropped == (("partition without \"carrier\" = 'AA'", 8),)
    assert by_bounds.dropped == (('bounds without "n" >= 120', 1),)
    assert len(explanation.plan.tasks) == 1
    assert explanation.plan.tasks[0].matches_all
    text = str(explanation)
    assert "files by partition             2 of      10" in text
    assert "dropped       8  partition without \"carrier\" = 'AA'" in text
    assert "to read                        1 files" in text


def test_manifests_are_pruned_by_their_summaries(tmp_path):
    table = create(tmp_path, FLIGHTS, partition_by=["month(time)"])
    for start in range(24):
        table.append(FLIGHTS.slice(start, 1))
    storage = table.handle.state.storage
    before = storage.metrics.counts()
    scan = table.scan(where="time < '2013-02-01'")
    step = scan.explain(row_groups=False).plan.steps[0]
    assert step.total == 24
    assert step.kept == 3  # those of n = 6, 12 and 18; n = 0 has no time
    assert (storage.metrics.counts() - before).requests == step.kept, "the process that wrote the list knows it"


def test_counting_opens_no_data_file_where_metadata_tells(flights):
    table = flights[1]
    storage = table.handle.state.storage
    before = storage.metrics.counts()
    assert table.scan().count() == ROWS
    assert table.scan(where="carrier = 'AA'").count() == FLIGHTS.filter(pc.field("carrier") == "AA").num_rows
    assert table.scan(limit=7).count() == 7
    assert (storage.metrics.counts() - before).files_opened == 0


def test_a_scan_goes_wherever_arrow_streams_go(flights, tmp_path):
    scan = flights[0].scan(["n"], "n < 10")
    assert pl.DataFrame(scan)["n"].to_list() == list(range(10))
    assert scan.to_polars()["n"].sum() == 45
    assert scan.to_duckdb().aggregate("sum(n)").fetchall() == [(45,)]
    assert pa.table(scan).num_rows == 10
    assert [batch.num_rows for batch in scan.to_batches()] == [10]
    copy = create(tmp_path, scan.schema.empty_table())
    copy.append(scan)
    assert copy.scan().to_arrow()["n"].to_pylist() == list(range(10))


def test_a_table_without_rows(tmp_path):
    table = create(tmp_path, FLIGHTS)
    assert table.scan().to_arrow() == FLIGHTS.slice(0, 0).cast(table.schema)
    assert table.scan(where="n > 1").count() == 0
    assert len(table.scan().plan()) == 0
    assert "snapshot None" in str(table.scan().explain())


# ---- evolution ----


def test_columns_follow_their_ids_through_evolution(tmp_path):
    old = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "name": ["a", "b"],
            "score": pa.array([1.5, None], pa.float32()),
            "price": pa.array([Decimal(1), Decimal(2)], pa.decimal128(5, 2)),
            "place": [{"x": 1, "y": "left"}, None],
            "gone": ["old", "old"],
        }
    )
    table = create(tmp_path, old)
    table.append(old)
    foreign = peer(tmp_path).load_table("ns.t")
    with foreign.update_schema() as update:
        update.update_column("id", field_type=LongType())
        update.update_column("score", field_type=DoubleType())
        update.update_column("price", field_type=DecimalType(9, 2))
        update.rename_column("name", "label")
        update.delete_column("gone")
        update.rename_column("place.x", "across")
        update.add_column(("place", "z"), StringType())
        update.move_first("place")
    with foreign.update_schema() as update:
        update.add_column("gone", LongType())
        update.add_column("name", StringType())
    table.refresh()
    new = pa.table(
        {
            "place": pa.array([{"across": 5, "y": "right", "z": "up"}], table.schema.field("place").type),
            "id": pa.array([2**40], pa.int64()),
            "label": ["c"],
            "score": [2.5],
            "price": pa.array([Decimal(3)], pa.decimal128(9, 2)),
            "gone": pa.array([7], pa.int64()),
            "name": ["new"],
        }
    )
    table.append(new)
    found = table.scan().to_arrow()
    assert found.schema == table.schema
    names = ("place", "id", "label", "score", "price", "gone", "name")
    assert by("id", found.select(names)) == [
        dict(zip(names, row, strict=True))
        for row in (
            ({"across": 1, "y": "left", "z": None}, 1, "a", 1.5, Decimal(1), None, None),
            (None, 2, "b", None, Decimal(2), None, None),
            ({"across": 5, "y": "right", "z": "up"}, 2**40, "c", 2.5, Decimal(3), 7, "new"),
        )
    ]
    assert by("id", found) == by("id", foreign.refresh().scan().to_arrow().cast(found.schema))
    for condition, ids in [
        ("gone IS NULL", [1, 2]), ("name = 'a'", []), ("label = 'a'", [1]), ("place.across >= 1", [1, 2**40]),
        ("id > 2.5", [2**40]), ("place.z IS NULL", [1, 2]), ("score > 1 AND price < 2.005", [1]),
    ]:  # fmt: skip
        assert table.scan(["id"], condition).to_polars()["id"].sort().to_list() == ids, condition
    parts = table.scan(["place.z", "id", "place.y"]).to_arrow()
    assert by("id", parts)[2] == {"place": {"y": "right", "z": "up"}, "id": 2**40}
    first = table.snapshots()[0].snapshot_id
    assert table.scan(snapshot=first).schema.names == ["id", "name", "score", "price", "place", "gone"]
    assert table.scan(["gone"], "name = 'b'", snapshot=first).to_arrow().to_pylist() == [{"gone": "old"}]


def test_partition_specs_may_change(tmp_path):
    table = create(tmp_path, FLIGHTS, partition_by=["carrier"])
    table.append(FLIGHTS.slice(0, 120))
    foreign = peer(tmp_path).load_table("ns.t")
    with foreign.update_spec() as update:
        update.remove_field("carrier")
        update.add_field("n", "truncate[40]")
    table.refresh()
    table.append(FLIGHTS.slice(120))
    scan = table.scan(["n"], "carrier = 'AA' AND n >= 100")
    expected = FLIGHTS.filter((pc.field("carrier") == "AA") & (pc.field("n") >= 100))["n"].to_pylist()
    assert sorted(scan.to_arrow()["n"].to_pylist()) == expected
    assert len({task.data_file.spec_id for task in scan.plan()}) == 2


def test_identity_partition_values_stand_in_for_columns_that_files_lack(tmp_path):
    """Tables migrated from Hive keep partition values in folder names only."""
    whole = pa.table({"n": pa.array([1, 2], pa.int64()), "region": ["eu", "eu"]})
    table = create(tmp_path, whole, partition_by=["region"])
    folder = tmp_path / "ns" / "t" / "data"
    folder.mkdir(parents=True, exist_ok=True)
    without = pa.schema([table.schema.field("n")])
    pq.write_table(whole.select(["n"]).cast(without), folder / "a.parquet")
    size = (folder / "a.parquet").stat().st_size
    table.append_files([WrittenFile(DataFile(f"file://{folder}/a.parquet", "parquet", 2, size, partition=("eu",)))])
    assert table.scan().to_arrow().to_pylist() == whole.to_pylist()
    assert table.scan(where="region = 'eu' AND n > 1").to_arrow().to_pylist() == [{"n": 2, "region": "eu"}]
    assert len(table.scan(where="region = 'us'").plan()) == 0


def test_files_without_ids_are_read_by_the_tables_name_mapping(tmp_path):
    table = create(tmp_path, pa.table({"n": pa.array([], pa.int64()), "word": pa.array([], pa.string())}))
    bare = tmp_path / "ns" / "t" / "bare.parquet"
    bare.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"word": ["a", "b"], "n": pa.array([1, 2], pa.int64())}), bare)
    foreign = peer(tmp_path).load_table("ns.t")
    foreign.add_files([f"file://{bare}"])
    with foreign.update_schema() as update:
        update.rename_column("word", "term")
    table.refresh()
    assert table.scan(where="term = 'b'").to_arrow().to_pylist() == [{"n": 2, "term": "b"}]


# ---- time travel ----


def test_snapshots_branches_tags_and_times(tmp_path):
    data = pa.table({"n": pa.array([1], pa.int64())})
    table = create(tmp_path, data)
    ids = []
    for number in range(3):
        table.append(pa.table({"n": pa.array([number], pa.int64())}))
        ids.append(table.current_snapshot().snapshot_id)
    foreign = peer(tmp_path).load_table("ns.t")
    foreign.manage_snapshots().create_tag(ids[0], "first").create_branch(ids[1], "second").commit()
    with foreign.update_schema() as update:
        update.add_column("word", StringType())
    table.refresh()

    def numbers(**at):
        return sorted(table.scan(["n"], **at).to_arrow()["n"].to_pylist())

    assert numbers() == [0, 1, 2]
    assert numbers(snapshot=ids[1]) == [0, 1]
    assert numbers(ref="first") == [0]
    assert numbers(ref="second") == [0, 1]
    assert numbers(ref="main") == [0, 1, 2]
    assert table.scan(ref="first").schema.names == ["n"]
    assert table.scan(ref="second").schema.names == ["n", "word"]
    times = [when for when, _ in table.history()]
    assert numbers(as_of=times[1]) == [0, 1]
    assert numbers(as_of=times[1].replace(tzinfo=None)) == [0, 1]
    assert numbers(as_of=times[2] + datetime.timedelta(days=1)) == [0, 1, 2]
    with pytest.raises(NotFoundError, match="no snapshot was current at 2000-01-01"):
        numbers(as_of=datetime.datetime(2000, 1, 1))
    with pytest.raises(NotFoundError, match="no snapshot 5"):
        numbers(snapshot=5)
    with pytest.raises(NotFoundError, match="no branch or tag 'frist'; did you mean 'first'"):
        numbers(ref="frist")
    with pytest.raises(SchemaError, match="one of snapshot=, ref= and as_of="):
        numbers(ref="first", snapshot=ids[0])


# ---- refusals ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["carier"]}, "no column 'carier'; did you mean 'carrier'?"),
        ({"columns": "n"}, "columns must be a list of strings, found 'n'; write columns=['n']"),
        ({"where": "dealy > 5"}, "no column 'dealy'; did you mean 'delay'? (character 1 of: dealy > 5)"),
        ({"limit": -1}, "limit must be a whole number of at least 0, found -1"),
        ({"limit": True}, "limit must be a whole number of at least 0, found True"),
    ],
)
def test_wrong_arguments_are_named(flights, arguments, message):
    with pytest.raises(SchemaError) as caught:
        flights[0].scan(**arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("place", ["file://{outside}", "{table}/../../elsewhere.parquet"])
def test_files_outside_of_the_table_are_refused_unless_allowed(tmp_path, allowed, place):
    rows = pa.table({"n": pa.array([1, 2], pa.int64())})
    properties = {"skerry.read.files-outside-location": str(allowed).lower()}
    table = create(tmp_path, rows, properties=properties)
    table.append(rows)
    outside = tmp_path / "elsewhere.parquet"
    pq.write_table(rows.cast(table.schema), outside)
    location = place.format(outside=outside, table=table.location)
    table.append_files([WrittenFile(DataFile(location, "parquet", 2, outside.stat().st_size))])
    if allowed:
        assert table.scan().to_arrow().num_rows == 4
        return
    with pytest.raises(SkerryError, match="a file of the table is outside its folder") as caught:
        table.scan().plan()
    assert caught.value.location == location


def test_corrupt_metadata_is_named(tmp_path):
    data = pa.table({"n": pa.array([1, 2], pa.int64())})
    table = create(tmp_path, data)
    table.append(data)
    (listing,) = (tmp_path / "ns" / "t" / "metadata").glob("snap-*.avro")
    manifests = [path for path in listing.parent.glob("*.avro") if path != listing]
    for path in (*manifests, listing):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(FormatError) as caught:
            table.scan().to_arrow()
        assert path.name in str(caught.value)
        path.unlink()
        with pytest.raises(NotFoundError) as missing:
            table.scan().to_arrow()
        assert path.name in str(missing.value)
        path.write_bytes(whole)
    assert table.scan().count() == 2


def plan_of(table, entries, *, content=ManifestContent.DATA, conjuncts=(), version=2):
    """Plan a snapshot of one hand-made manifest."""
    state = table.handle.state
    schema, spec = state.metadata.schema(), state.metadata.spec()
    folder = state.metadata_folder
    data, manifest = encode_manifest(
        f"{folder}/m.avro", entries, schema=schema, spec=spec, format_version=version, content=content, snapshot_id=1
    )
    state.storage.write(manifest.manifest_path, data, overwrite=True)
    listing = encode_manifest_list([manifest], format_version=version, snapshot_id=1, sequence_number=1)
    state.storage.write(f"{folder}/l.avro", listing.data, overwrite=True)
    planner = ScanPlanner(
        table="ns.t",
        storage=state.storage,
        roots=(state.metadata.location,),
        schema=schema,
        specs=state.metadata.specs(),
        conjuncts=conjuncts,
        defaults={},
    )
    return planner.plan(Snapshot(snapshot_id=1, timestamp_ms=1, manifest_list=f"{folder}/l.avro"))


def test_keys_stay_with_their_files_and_confusion_is_refused(tmp_path):
    table = create(tmp_path, pa.table({"n": pa.array([1], pa.int64())}))
    file = DataFile(f"{table.location}/data/a.parquet", "parquet", 1, 100)
    added = ManifestEntry(EntryStatus.ADDED, file)
    assert len(plan_of(table, [added]).tasks) == 1
    (task,) = plan_of(table, [ManifestEntry(EntryStatus.ADDED, file, key_metadata=b"secret")]).tasks
    assert task.data_file.key_metadata == b"secret"
    assert "secret" not in repr(task)
    gone = ManifestEntry(EntryStatus.DELETED, file, snapshot_id=1, sequence_number=1, file_sequence_number=1)
    assert [task.data_file.location for task in plan_of(table, [gone, added]).tasks] == [file.location]
    broken = DataFile(file.location, "parquet", 1, 100, lower_bounds={1: b"abc"}, upper_bounds={1: b"abc"})
    predicate = table.scan(where="n > 1").predicate
    with pytest.raises(FormatError, match="takes 4 or 8 bytes, found 3") as caught:
        plan_of(table, [ManifestEntry(EntryStatus.ADDED, broken)], conjuncts=(predicate,))
    assert caught.value.location.endswith("m.avro")
