"""Planning: what it opens, what it delivers, how it agrees with a plain twin, and what it refuses."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from unittest.mock import patch

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_samples import Snapshot, data_file, entry, keys, positions, vector

import skerry
from skerry.errors import FormatError, NotFoundError, SchemaError, SkerryError
from skerry.iceberg.manifests.cache import ManifestCache
from skerry.iceberg.manifests.manifest_list import ManifestContent
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema
from skerry.iceberg.metadata.partition_spec import PartitionField, PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from skerry.iceberg.metadata.types import (
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)
from skerry.iceberg.partitioning.transforms import apply
from skerry.iceberg.planning import file_pruning
from skerry.table.files.data_file import DeleteKind
from skerry.table.predicate import conjuncts_of, parse, row_mask
from skerry.table.rows.values import encode_value, physical_value
from torture import examples

SCHEMA = Schema(
    NestedField(1, "n", LongType()),
    NestedField(2, "s", StringType()),
    NestedField(3, "place", StructType(NestedField(4, "x", IntegerType()))),
    NestedField(5, "f", DoubleType()),
    NestedField(6, "ts", TimestampType()),
)
NO_SPEC = PartitionSpec(spec_id=0)
BY_DAY = PartitionSpec(
    PartitionField(6, 1000, DayTransform(), "ts_day"),
    PartitionField(1, 1001, BucketTransform(4), "n_bucket"),
    spec_id=1,
)


# ---- what a plan delivers ----


def test_a_plan_is_a_sequence_that_holds_no_tasks():
    snapshot = Snapshot(SCHEMA)
    for first in (0, 3, 5):
        snapshot.add([entry(data_file(snapshot.path(f"f{number}"), rows=number)) for number in range(first, first + 3)])
    tasks = snapshot.plan().tasks
    assert len(tasks) == 9
    assert [task.data_file.record_count for task in tasks] == [0, 1, 2, 3, 4, 5, 5, 6, 7]
    assert tasks[4] == list(tasks)[4]
    assert tasks[-1].data_file.record_count == 7
    assert tasks[2:5] == list(tasks)[2:5]
    assert tasks[0] is not tasks[0]
    for index in (9, -10):
        with pytest.raises(IndexError):
            tasks[index]


def test_tasks_carry_lineage_and_constants():
    by_s = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "s"), spec_id=0)
    snapshot = Snapshot(SCHEMA, (by_s,))
    snapshot.add([entry(data_file(snapshot.path("a"), partition=("x",)), 7, first_row_id=40)])
    (task,) = snapshot.plan(defaults={5: 0.5}).tasks
    assert (task.sequence_number, task.first_row_id) == (7, 40)
    assert task.constants == {5: 0.5, 2: "x"}
    assert task.data_file.partition == ("x",)


def test_a_plan_as_columns():
    snapshot = Snapshot(SCHEMA, (NO_SPEC, BY_DAY))
    snapshot.add([entry(data_file(snapshot.path("a"), split_offsets=(4, 50)), 3, first_row_id=40)])
    snapshot.add([entry(data_file(snapshot.path("b"), spec_id=1, partition=(19000, 2)), 4)])
    snapshot.add([keys(snapshot.path("k"), 4), vector(snapshot.path("v"), snapshot.path("b"), 4, spec_id=0)])
    table = snapshot.plan().tasks.to_arrow()
    first, second = table.to_pylist()
    assert first["file_path"] == snapshot.path("a")
    assert first["split_offsets"] == [4, 50]
    assert (first["sequence_number"], first["first_row_id"], first["spec_id"], first["matches_all"]) == (3, 40, 0, True)
    assert first["partition"] == {"ts_day": None, "n_bucket": None}
    assert [delete["file_path"] for delete in first["deletes"]] == [snapshot.path("k")]
    assert second["partition"] == {"ts_day": datetime.date(2022, 1, 8), "n_bucket": 2}
    assert [delete["content_offset"] for delete in second["deletes"]] == [4]
    empty = Snapshot(SCHEMA).plan().tasks.to_arrow()
    assert empty.num_rows == 0
    assert set(empty.schema.names) == set(table.schema.names)


def test_a_promoted_partition_column_has_the_wider_type():
    narrow = Schema(NestedField(1, "n", IntegerType()))
    wide = Schema(NestedField(1, "n", LongType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "n"), spec_id=0)
    snapshot = Snapshot(narrow, (spec,))
    snapshot.add([entry(data_file(snapshot.path("a"), partition=(1,)))])
    snapshot.schema = wide
    snapshot.add([entry(data_file(snapshot.path("b"), partition=(2**40,)))])
    snapshot.add([keys(snapshot.path("k"), 2, partition=(1,))])
    tasks = snapshot.plan().tasks
    assert tasks.to_arrow()["partition"].to_pylist() == [{"n": 1}, {"n": 2**40}]
    assert [len(task.deletes) for task in tasks] == [1, 0]
    assert [task.data_file.partition for task in snapshot.plan("n = 1").tasks] == [(1,)]


def test_a_plan_as_a_stream(tmp_path, monkeypatch):
    monkeypatch.setattr(file_pruning, "_WAVE_FILES", 2)
    rows = numbers(40, 10)
    properties = {"write.delete.mode": "merge-on-read", "commit.manifest-merge.enabled": "false"}
    table = skerry.connect(tmp_path).create_table("ns.t", rows.schema, properties=properties)
    for first in range(0, 40, 10):
        table.append(rows.slice(first, 10))
        with table.update_spec() as update:
            update.add_field(f"truncate({10 + first}, n) as n{first}")
    table.delete("n IN (3, 34)")
    scan = table.scan(where="n < 35")
    streamed, plan = scan.plan_batches().read_all(), scan.plan_table()
    assert streamed.drop_columns("partition").equals(plan.drop_columns("partition"))
    assert streamed.column("partition").combine_chunks().type.num_fields == 4
    found = streamed.column("partition").to_pylist()
    assert [{**dict.fromkeys(found[0]), **values} for values in plan.column("partition").to_pylist()] == found
    assert scan.count() == 33
    assert [table.scan(where="n < 35", limit=limit).count() for limit in (0, 7, 100)] == [0, 7, 33]
    assert table.scan(where="n < 35", limit=25).to_arrow().equals(scan.to_arrow().slice(0, 25))
    assert sorted(scan.to_arrow()["n"].to_pylist()) == [n for n in range(35) if n not in (3, 34)]
    assert table.scan(where="n > 99").plan_batches().read_all().num_rows == 0


# ---- what it opens ----


def counted(snapshot, where, cache):
    """Files that remain, and requests and bytes that planning took, without the manifest list."""
    listed = snapshot.list_manifests()
    before = snapshot.storage.metrics.counts()
    plan = snapshot.planner(where, cache=cache, threads=2).plan(listed)
    spent = snapshot.storage.metrics.counts() - before
    return len(plan.tasks), spent.requests - 1, spent.bytes_read - snapshot.storage.size(listed.manifest_list)


def daily(days=12, files=3):
    """A manifest per day with a file per bucket."""
    snapshot = Snapshot(SCHEMA, (NO_SPEC, BY_DAY))
    for day in range(days):
        bounds = {
            "lower_bounds": {1: encode_value(pa.int64(), day)},
            "upper_bounds": {1: encode_value(pa.int64(), day)},
        }
        places = [(snapshot.path(f"{day}-{bucket}"), (day, bucket)) for bucket in range(files)]
        snapshot.add([entry(data_file(path, spec_id=1, partition=place, **bounds)) for path, place in places])
    return snapshot


def test_only_manifests_that_can_matter_are_opened_and_each_once():
    snapshot, cache = daily(), ManifestCache(1 << 20)
    lengths = [manifest.manifest_length for manifest in snapshot.manifests]
    day = "ts >= TIMESTAMP '1970-01-05 00:00:00' AND ts < TIMESTAMP '1970-01-06 00:00:00'"
    assert counted(snapshot, day, cache) == (3, 1, lengths[4])
    assert counted(snapshot, day, cache) == (3, 0, 0)
    assert counted(snapshot, None, cache) == (36, 11, sum(lengths) - lengths[4])
    assert counted(snapshot, "n BETWEEN 7 AND 7", ManifestCache(0)) == (3, 12, sum(lengths))
    assert counted(snapshot, day, ManifestCache(0)) == (3, 1, lengths[4])


def test_delete_manifests_that_cannot_matter_are_not_opened():
    snapshot = daily(2)
    snapshot.add([positions(snapshot.path("p0"), 1, spec_id=1, partition=(0, 0))])
    snapshot.add([positions(snapshot.path("p1"), 1, spec_id=1, partition=(1, 0))])
    where = "ts < TIMESTAMP '1970-01-02 00:00:00'"
    assert counted(snapshot, where, ManifestCache(0))[:2] == (3, 2)


def test_delete_manifests_older_than_all_data_are_not_opened():
    snapshot = Snapshot(SCHEMA)
    snapshot.add([entry(data_file(snapshot.path("a")), 5)]).add([keys(snapshot.path("k"), 4)])
    assert counted(snapshot, None, ManifestCache(0))[:2] == (1, 1)
    snapshot.add([positions(snapshot.path("p"), 5)])
    assert counted(snapshot, None, ManifestCache(0))[:2] == (1, 2)


# ---- the plain twin ----

TRANSFORMS = {
    1: [IdentityTransform(), BucketTransform(3), TruncateTransform(5), VoidTransform()],
    2: [IdentityTransform(), BucketTransform(3), TruncateTransform(1)],
    4: [IdentityTransform(), TruncateTransform(2)],
    5: [IdentityTransform()],
    6: [YearTransform(), MonthTransform(), DayTransform(), HourTransform()],
}
ARROW = to_arrow_schema(SCHEMA)
TYPES = {1: pa.int64(), 2: pa.string(), 4: pa.int32(), 5: pa.float64(), 6: pa.timestamp("us")}
HOUR = 3_600_000_000
VALUES = {
    1: st.sampled_from([None, -7, 0, 3, 4, 12]),
    2: st.sampled_from([None, "", "a", "ab", "b", "é"]),
    4: st.sampled_from([None, -3, 0, 1, 8]),
    5: st.sampled_from([None, float("nan"), -0.5, 0.0, 2.5]),
    6: st.sampled_from([None, -1, 0, HOUR, 30 * HOUR, 800 * HOUR, 9000 * HOUR]),
}
TESTS = [
    "n = 3", "n <> 3", "n < 4", "n >= 4", "n IN (0, 12)", "n NOT IN (0, 3)", "n IS NULL", "n IS NOT NULL", "n > 100",
    "s = 'ab'", "s LIKE 'a%'", "s NOT LIKE 'a%'", "s > 'a'", "s IS NULL", "s IN ('b', 'é')",
    "place.x = 1", "place.x < 0", "place.x IS NULL", "place.x >= 0",
    "f > 0", "f < 0", "isnan(f)", "NOT isnan(f)", "f IS NULL", "f = 2.5",
    "ts < TIMESTAMP '1970-01-01 00:00:00'", "ts >= TIMESTAMP '1970-02-01 00:00:00'", "ts IS NULL",
    "ts = TIMESTAMP '1970-01-01 01:00:00'", "ts IN (TIMESTAMP '1970-01-02 06:00:00')",
]  # fmt: skip
CONDITIONS = st.recursive(
    st.sampled_from(TESTS),
    lambda inner: st.one_of(
        inner.map("NOT ({})".format),
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map("({0[0]}) {0[1]} ({0[2]})".format),
    ),
    max_leaves=3,
)
ROWS = st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=3)


@st.composite
def specs(draw):
    result = []
    for spec_id in range(draw(st.integers(1, 3))):
        sources = draw(st.lists(st.sampled_from(sorted(TRANSFORMS)), unique=True, max_size=2))
        fields = [
            PartitionField(source, 1000 + 10 * spec_id + place, draw(st.sampled_from(TRANSFORMS[source])), f"p{source}")
            for place, source in enumerate(sources)
        ]
        result.append(PartitionSpec(*fields, spec_id=spec_id))
    return result


def table_of(rows):
    columns = {key: pa.array([row[key] for row in rows], TYPES[key]) for key in TYPES}
    place = pa.StructArray.from_arrays([columns[4]], fields=list(ARROW.field("place").type))
    return (
        pa.table([columns[1], columns[2], place, columns[5], columns[6]], schema=ARROW).combine_chunks().to_batches()[0]
    )


def partition_of(spec, row):
    result = []
    for field in spec.fields:
        value = apply(field.transform, pa.array([row[field.source_id]], TYPES[field.source_id]))[0]
        result.append(physical_value(value.type, value))
    return tuple(result)


def metrics_of(rows, known):
    """The metrics of rows, of the columns that are known."""
    result = {
        name: {} for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    }
    for key in known:
        present = [row[key] for row in rows if row[key] is not None]
        ordinary = [value for value in present if value == value]
        result["value_counts"][key] = len(rows)
        result["null_value_counts"][key] = len(rows) - len(present)
        if key == 5:
            result["nan_value_counts"][key] = len(present) - len(ordinary)
        if ordinary:
            result["lower_bounds"][key] = encode_value(TYPES[key], min(ordinary))
            result["upper_bounds"][key] = encode_value(TYPES[key], max(ordinary))
    return result


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), specs=specs(), condition=CONDITIONS)
def test_no_file_with_wanted_rows_is_dropped_and_none_is_wanted_wholly_in_vain(data, specs, condition):
    snapshot = Snapshot(SCHEMA, specs)
    predicate, contents = parse(condition, ARROW), {}
    for spec in specs:
        entries = []
        for number in range(data.draw(st.integers(1, 3))):
            rows = data.draw(ROWS)
            partition = partition_of(spec, rows[0])
            rows = [row for row in rows if repr(partition_of(spec, row)) == repr(partition)]
            path = snapshot.path(f"{spec.spec_id}-{number}")
            contents[path] = row_mask(predicate, table_of(rows)).to_pylist()
            known = data.draw(st.sets(st.sampled_from(sorted(TYPES))))
            file = data_file(path, rows=len(rows), spec_id=spec.spec_id, partition=partition, **metrics_of(rows, known))
            entries.append(entry(file))
        snapshot.add(entries, spec_id=spec.spec_id)
    plan = snapshot.plan(condition)
    kept = {task.data_file.location: task.matches_all for task in plan.tasks}
    for path, mask in contents.items():
        assert path in kept or not any(mask)
        assert all(mask) or not kept.get(path)
    first, *others = plan.steps
    assert first.total == len(specs)
    for step in plan.steps:
        assert step.kept + sum(count for _, count in step.dropped) == step.total
    assert others[-1].kept == len(kept)
    planner = snapshot.planner(condition, cache=ManifestCache(0))  # reads the metrics of the condition's columns alone
    alone = planner.plan(snapshot.list_manifests())
    assert {task.data_file.location: task.matches_all for task in alone.tasks} == kept
    assert alone.steps == plan.steps
    with patch.object(file_pruning, "_WAVE_FILES", 2):
        parts = list(snapshot.planner(condition).stream(snapshot.list_manifests()))
        known = snapshot.planner().known_files(snapshot.list_manifests())
    expected = repr(list(plan.tasks))  # a NaN is equal to no other
    assert repr([task for part in parts for task in part]) == expected
    chosen = list(known.chosen(conjuncts_of(predicate)))  # of which no manifest is left out as a whole
    assert repr([task for task in chosen if task.data_file.location in kept]) == expected
    assert all(all(contents[task.data_file.location]) or not task.matches_all for task in chosen)
    assert all(len(part) <= 3 for part in parts)


COMPARE = {
    "=": lambda low, high, value: low <= value <= high,
    "<": lambda low, high, value: low < value,
    "<=": lambda low, high, value: low <= value,
    ">": lambda low, high, value: high > value,
    ">=": lambda low, high, value: high >= value,
    "<>": lambda low, high, value: not low == high == value,
}


@given(
    ranges=st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 3)), min_size=1, max_size=6),
    operators=st.lists(st.tuples(st.sampled_from(sorted(COMPARE)), st.integers(-3, 3)), min_size=1, max_size=3),
)
def test_exactly_the_files_remain_whose_bounds_leave_room(ranges, operators):
    snapshot, expected, entries = Snapshot(SCHEMA), [], []
    for number, (low, width) in enumerate(ranges):
        high = low + width
        bounds = metrics_of([{1: low}, {1: high}], [1])
        entries.append(entry(data_file(snapshot.path(str(number)), **bounds)))
        if all(COMPARE[operator](low, high, value) for operator, value in operators):
            expected.append(snapshot.path(str(number)))
    where = " AND ".join(f"n {operator} {value}" for operator, value in operators)
    assert [task.data_file.location for task in snapshot.add(entries).plan(where).tasks] == expected


# ---- splits ----


def numbers(count, batch):
    """Rows that come in batches, of which each becomes a row group."""
    table = pa.table({"n": pa.array(range(count), pa.int64())})
    return pa.Table.from_batches(table.to_batches(max_chunksize=batch))


def test_large_files_are_cut_and_read_back_whole(tmp_path):
    rows = numbers(40_000, 5000)
    properties = {"write.parquet.row-group-size-bytes": "40000", "read.split.target-size": "30000"}
    table = skerry.connect(tmp_path).create_table("ns.t", rows.schema, properties=properties)
    table.append(rows)
    table.append(rows.slice(0, 10))
    scan = table.scan(["n", "_pos"], where="n < 30000")
    whole, parts = scan.plan(), scan.plan(split=True)
    assert len(whole) == 2
    assert len(parts) > 3
    assert list(parts) == [parts[number] for number in range(len(parts))]
    assert all(task.end_byte - task.start_byte <= 30_000 for task in parts if task.end_byte is not None)
    reader = scan.row_reader()
    separate = pa.Table.from_batches([batch for task in parts for batch in reader.batches([task])])
    assert separate.to_pydict() == scan.to_arrow().to_pydict()
    assert sum(reader.count([task]) for task in parts) == scan.count() == 30_010
    explanation = scan.explain()
    assert explanation.split_count == len(parts)
    assert f"split                    {len(parts):>7,} tasks of at most 30,000 bytes" in str(explanation)


@pytest.mark.parametrize("size", ["0", "-5", "much"])
def test_a_split_size_must_be_a_number_of_bytes(tmp_path, size):
    rows = pa.table({"n": pa.array([1], pa.int64())})
    catalog = skerry.connect(tmp_path)
    catalog.create_table("ns.t", rows.schema)
    with catalog.iceberg_catalog.load_table("ns.t").transaction() as transaction:
        transaction.set_properties({"read.split.target-size": size})
    table = catalog.load_table("ns.t")
    with pytest.raises(SchemaError, match=f"read.split.target-size must be a whole number above 0, found '{size}'"):
        table.scan().plan(split=True)


# ---- row groups ----


def test_explain_judges_row_groups(tmp_path):
    rows, properties = numbers(40_000, 10_000), {"write.parquet.row-group-size-bytes": "80000"}
    table = skerry.connect(tmp_path).create_table("ns.t", rows.schema, properties=properties)
    table.append(rows)
    scan = table.scan(where="n >= 15000 AND n < 31000")
    step = scan.explain().plan.steps[-1]
    assert (step.name, step.total, step.kept) == ("row groups by statistics", 4, 3)
    assert (step.total_rows, step.kept_rows) == (40_000, 30_000)
    assert step.dropped == (('statistics without "n" >= 15000', 1),)
    assert scan.explain(row_groups=False).plan.steps[-1].name == "files by bounds"
    assert table.scan().explain().plan.steps[-1].name == "files by bounds"
    assert table.scan().explain(row_groups=True).plan.steps[-1].kept == 4


# ---- counting ----


def test_settled_files_are_counted_and_the_others_left():
    snapshot = Snapshot(SCHEMA)
    bounds = [metrics_of([{1: low}, {1: low + 5}], [1]) for low in (0, 3, 10)]
    for number, known in enumerate(bounds):
        snapshot.add([entry(data_file(snapshot.path(f"{number}"), rows=10 + number, **known))])
    snapshot.add([vector(snapshot.path("v"), snapshot.path("2"))])
    known, others = snapshot.plan("n > -1").tasks.settled()
    assert known == 21
    assert [task.data_file.location for task in others] == [snapshot.path("2")]
    assert [delete.kind for delete in others[0].deletes] == [DeleteKind.VECTOR]
    known, others = snapshot.plan("n > 4").tasks.settled()
    assert known == 0
    assert len(others) == 3
    assert Snapshot(SCHEMA).plan().tasks.settled()[0] == 0


# ---- what is refused ----


def test_every_truncation_and_a_flipped_byte_are_told_or_harmless():
    snapshot = daily(1, 3)
    listed = snapshot.list_manifests()
    (manifest,) = snapshot.manifests
    expected = [task.data_file.location for task in snapshot.plan().tasks]
    for path in (listed.manifest_list, manifest.manifest_path):
        whole = snapshot.storage.read(path)
        for length in (*range(0, len(whole), 97), len(whole) - 1):
            snapshot.storage.write(path, whole[:length], overwrite=True)
            with pytest.raises(FormatError) as caught:
                snapshot.planner("n = 1", cache=ManifestCache(0)).plan(listed)
            assert caught.value.location == path
        for place in range(0, len(whole), 61):
            broken = whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]
            snapshot.storage.write(path, broken, overwrite=True)
            with contextlib.suppress(SkerryError):  # any of ours, and nothing else
                snapshot.planner("n = 1", cache=ManifestCache(0)).plan(listed)
        snapshot.storage.write(path, whole, overwrite=True)
    assert [task.data_file.location for task in snapshot.plan().tasks] == expected


def test_what_is_missing_is_named():
    snapshot = daily(1, 1)
    listed = snapshot.list_manifests()
    (manifest,) = snapshot.manifests
    snapshot.storage.delete([manifest.manifest_path])
    with pytest.raises(NotFoundError, match=r"m0\.avro"):
        snapshot.planner(cache=ManifestCache(0)).plan(listed)
    with pytest.raises(NotFoundError, match=r"nowhere\.avro"):
        snapshot.planner().plan(msgspec.structs.replace(listed, manifest_list=f"{snapshot.root}/metadata/nowhere.avro"))


@pytest.mark.parametrize(
    "location",
    [
        "s3://elsewhere/f", "/etc/passwd", "{root}/data/../../f", "{root}x/f", "{root}/data/a\0b", "{root}/..",
        "{root}", "f",
    ],
)  # fmt: skip
def test_files_outside_of_the_table_are_refused(location):
    snapshot = Snapshot(SCHEMA)
    path = location.format(root=snapshot.root)
    snapshot.add([entry(data_file(snapshot.path("a b%20c=é..f"))), entry(data_file(path))])
    with pytest.raises(SkerryError, match="outside its folder") as caught:
        snapshot.plan()
    assert caught.value.location == path
    assert len(snapshot.plan(roots=None).tasks) == 2


def test_odd_names_inside_of_the_table_are_fine():
    snapshot = Snapshot(SCHEMA)
    names = [
        "..hidden",
        "a..b",
        "%20",
        "day=2024-01-01%3A",
        ".crc",
        "a%2Fb",
        "ts_hour=%25",
        "%2e%2e",
        "a%2F..%2Fb",
        "a\\..\\b",
    ]
    snapshot.add([entry(data_file(snapshot.path(name))) for name in names])
    assert [task.data_file.location for task in snapshot.plan().tasks] == [snapshot.path(name) for name in names]


def test_manifests_outside_of_the_table_are_refused():
    snapshot, other = Snapshot(SCHEMA), Snapshot(SCHEMA)
    other.add([entry(data_file(snapshot.path("a")))])
    snapshot.manifests = other.manifests
    with pytest.raises(SkerryError, match="outside its folder"):
        snapshot.plan()
    with pytest.raises(SkerryError, match="outside its folder"):
        snapshot.planner().plan(other.list_manifests())


def test_specs_must_fit():
    snapshot = Snapshot(SCHEMA, (NO_SPEC, BY_DAY))
    snapshot.add([entry(data_file(snapshot.path("a"), spec_id=1, partition=(1, 2)))])
    with pytest.raises(FormatError, match="which the table does not have"):
        snapshot.plan(specs={0: NO_SPEC})
    wider = PartitionSpec(*BY_DAY.fields, PartitionField(2, 1002, IdentityTransform(), "s"), spec_id=1)
    with pytest.raises(FormatError, match=r"partition field 's' \(1002\) is missing") as caught:
        snapshot.plan(specs={1: wider})
    assert caught.value.location == snapshot.manifests[0].manifest_path
    swapped = PartitionSpec(*reversed(BY_DAY.fields), spec_id=1)
    assert snapshot.plan(specs={1: swapped}).tasks[0].data_file.partition == (2, 1)


def test_the_corrupt_one_of_several_manifests_is_named():
    snapshot = daily(3, 2)
    broken = data_file(snapshot.path("broken"), spec_id=1, partition=(3, 0), lower_bounds={1: b"abc"})
    snapshot.add([entry(broken)])
    with pytest.raises(FormatError, match="takes 4 or 8 bytes, found 3") as caught:
        snapshot.plan("n BETWEEN 0 AND 1")
    assert caught.value.location == snapshot.manifests[3].manifest_path
    assert len(snapshot.plan().tasks) == 7


def test_a_manifest_that_is_not_what_its_list_says_is_named():
    snapshot = daily(2, 1)
    snapshot.add([positions(snapshot.path("p"), spec_id=1, partition=(0, 0))])
    path = snapshot.manifests[2].manifest_path
    snapshot.manifests[2] = dataclasses.replace(snapshot.manifests[2], content=ManifestContent.DATA)
    with pytest.raises(FormatError) as caught:
        snapshot.plan()
    assert caught.value.location == path


def test_several_manifests_are_pruned_together_and_yet_told_apart():
    snapshot = Snapshot(SCHEMA, (NO_SPEC, BY_DAY))
    for number in range(40):
        place = {"spec_id": 1, "partition": (number, 3)} if number % 8 == 0 else {}
        paths = [snapshot.path(f"{number}-{row}") for row in range(5)]
        bounds = [metrics_of([{1: row}], [1]) for row in range(5)]
        files = [data_file(path, rows=number, **place, **known) for path, known in zip(paths, bounds, strict=True)]
        snapshot.add([entry(file) for file in files])
    plan = snapshot.plan("n BETWEEN 3 AND 3", threads=2)
    assert [task.data_file.record_count for task in plan.tasks] == list(range(40))
    assert [task.data_file.spec_id for task in plan.tasks] == [int(number % 8 == 0) for number in range(40)]
    assert plan.steps[0].kept == 40
    assert (plan.steps[2].total, plan.steps[2].kept) == (200, 40)
