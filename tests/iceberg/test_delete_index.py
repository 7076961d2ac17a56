"""Delete files find their data files: Iceberg's rules, one by one and against a plain twin."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_samples import Snapshot, data_file, entry, keys, positions, vector

from skerry.errors import FormatError, SkerryError
from skerry.iceberg.manifests.file_batch import FileBatch
from skerry.iceberg.manifests.manifest import EntryStatus, FileContent
from skerry.iceberg.manifests.reader import read_manifest
from skerry.iceberg.metadata.partition_spec import PartitionField, PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.transforms import BucketTransform, IdentityTransform, VoidTransform
from skerry.iceberg.metadata.types import DoubleType, IntegerType, LongType, NestedField, StringType, StructType
from skerry.iceberg.planning.delete_index import DeleteIndex
from skerry.table.files.data_file import DeleteKind
from skerry.table.rows.values import decode_value, encode_value
from torture import examples

LONG = pa.int64()
SCHEMA = Schema(
    NestedField(1, "n", LongType()),
    NestedField(2, "s", StringType()),
    NestedField(3, "place", StructType(NestedField(4, "x", IntegerType()))),
    NestedField(5, "f", DoubleType()),
)
NO_SPEC = PartitionSpec(spec_id=0)
BY_S = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "s"), spec_id=1)
BY_BUCKET = PartitionSpec(PartitionField(1, 1001, BucketTransform(4), "n_bucket"), spec_id=2)
DROPPED = PartitionSpec(PartitionField(2, 1000, VoidTransform(), "s"), spec_id=3)
BY_FLOAT = PartitionSpec(PartitionField(5, 1002, IdentityTransform(), "f"), spec_id=4)
SPECS = (NO_SPEC, BY_S, BY_BUCKET, DROPPED, BY_FLOAT)


def snapshot_of(data, deletes):
    """One manifest per spec for both."""
    snapshot = Snapshot(SCHEMA, SPECS)
    for entries in (data, deletes):
        for spec in SPECS:
            of_spec = [item for item in entries if item.data_file.spec_id == spec.spec_id]
            if of_spec:
                snapshot.add(of_spec)
    return snapshot


def plan(data, deletes, where=None):
    return snapshot_of(data, deletes).plan(where, roots=None).tasks


def names(data, deletes, where=None):
    return {
        task.data_file.location: [delete.location for delete in task.deletes] for task in plan(data, deletes, where)
    }


def in_s(path, value, sequence=1):
    return entry(data_file(path, spec_id=1, partition=(value,)), sequence)


# ---- age ----


def test_position_deletes_and_vectors_apply_to_files_of_their_age_and_older():
    data = [entry(data_file(f"d{age}"), age) for age in (1, 2, 3)]
    assert names(data, [positions("p", 2)]) == {"d1": ["p"], "d2": ["p"], "d3": []}
    vectors = [vector(f"v{age}", f"d{age}", 2) for age in (1, 2, 3)]
    assert names(data, vectors) == {"d1": ["v1"], "d2": ["v2"], "d3": []}


def test_equality_deletes_apply_to_older_files_only():
    data = [entry(data_file(f"d{age}"), age) for age in (1, 2, 3)]
    assert names(data, [keys("k", 2)]) == {"d1": ["k"], "d2": [], "d3": []}


def test_deletes_of_a_file_come_by_age():
    deletes = [keys("k4", 4), positions("p2", 2), keys("k3", 3), positions("p1", 1)]
    assert names([entry(data_file("d"), 1)], deletes) == {"d": ["p1", "p2", "k3", "k4"]}


def test_deleted_delete_files_do_not_count():
    gone = dataclasses.replace(positions("p", 1), status=EntryStatus.DELETED)
    assert names([entry(data_file("d"), 1)], [gone, positions("q", 1)]) == {"d": ["q"]}


# ---- partitions ----


def test_deletes_stay_in_their_partition():
    data = [in_s("a", "a"), in_s("b", "b"), in_s("null", None), entry(data_file("none"), 1)]
    deletes = [positions("pa", 1, spec_id=1, partition=("a",)), keys("kb", 2, spec_id=1, partition=("b",))]
    deletes += [keys("knull", 2, spec_id=1, partition=(None,))]
    assert names(data, deletes) == {"a": ["pa"], "b": ["kb"], "null": ["knull"], "none": []}


def test_equal_values_of_different_specs_are_different_partitions():
    data = [in_s("a", "a"), entry(data_file("bucket", spec_id=2, partition=(1,)), 1)]
    assert names(data, [keys("k", 2, spec_id=2, partition=(1,))]) == {"a": [], "bucket": ["k"]}


def test_equality_deletes_without_partition_are_global_and_position_deletes_are_not():
    data = [in_s("a", "a"), entry(data_file("none"), 1)]
    assert names(data, [keys("k", 2), positions("p", 2)]) == {"a": ["k"], "none": ["k", "p"]}


def test_a_spec_of_dropped_fields_is_unpartitioned():
    data = [in_s("a", "a"), entry(data_file("dropped", spec_id=3, partition=(None,)), 1)]
    deletes = [keys("k", 2, spec_id=3, partition=(None,)), positions("p", 2, spec_id=3, partition=(None,))]
    assert names(data, deletes) == {"a": ["k"], "dropped": ["k", "p"]}


def test_nan_is_one_partition_and_negative_zero_is_another_than_zero():
    nan = float("nan")
    data = [entry(data_file(str(value), spec_id=4, partition=(value,)), 1) for value in (nan, 0.0, -0.0)]
    deletes = [keys(f"k{value}", 2, spec_id=4, partition=(value,)) for value in (nan, -0.0)]
    assert names(data, deletes) == {"nan": ["knan"], "0.0": [], "-0.0": ["k-0.0"]}


# ---- paths ----


def test_bounds_of_paths_leave_position_deletes_out():
    data = [entry(data_file(path), 1) for path in ("a", "b", "c", "d")]
    deletes = [positions("within", between=("b", "c")), positions("unknown")]
    assert names(data, deletes) == {
        "a": ["unknown"],
        "b": ["within", "unknown"],
        "c": ["within", "unknown"],
        "d": ["unknown"],
    }


def test_deletes_of_one_file_name_it():
    data = [entry(data_file(path), 1) for path in ("a", "b")]
    deletes = [positions("named", reference="a"), positions("bounded", between=("b", "b"))]
    first, second = plan(data, deletes)
    assert [delete.referenced_data_file for delete in (*first.deletes, *second.deletes)] == ["a", "b"]
    assert [delete.location for delete in (*first.deletes, *second.deletes)] == ["named", "bounded"]


def test_paths_in_deletes_decide_if_their_bounds_contradict_the_name():
    """In copies by Iceberg Java's `rewrite_table_path`, the name is that of the original's file."""
    data = [entry(data_file(path), 1) for path in ("a", "b")]
    moved = positions("p", between=("b", "b"), reference="old/b")
    first, second = plan(data, [moved])
    assert not first.deletes
    assert [(delete.location, delete.referenced_data_file) for delete in second.deletes] == [("p", None)]


def test_a_vector_supersedes_position_deletes_but_not_equality_deletes():
    data = [entry(data_file(path), 1) for path in ("a", "b")]
    deletes = [positions("p", 2), positions("pa", 2, reference="a"), vector("v", "a", 2), keys("k", 2)]
    assert names(data, deletes) == {"a": ["v", "k"], "b": ["p", "k"]}


def test_a_vector_that_is_too_old_supersedes_nothing():
    assert names([entry(data_file("a"), 3)], [vector("v", "a", 2), positions("p", 3)]) == {"a": ["p"]}


def test_two_vectors_of_one_file_are_refused():
    with pytest.raises(FormatError, match="two deletion vectors") as caught:
        plan([entry(data_file("a"), 1)], [vector("v", "a"), vector("w", "a", 2)])
    assert caught.value.location == "a"


# ---- what a delete file carries ----


def test_delete_files_carry_what_readers_need():
    deletes = [vector("v.puffin", "a", 7, rows=3, offset=44, size=55), keys("k", 8, ids=(2, 1)), positions("p", 9)]
    data = [entry(data_file("a"), 5), entry(data_file("b"), 5)]
    first, second = plan(data, deletes)
    found, key = first.deletes
    assert (found.kind, found.location, found.file_format) == (DeleteKind.VECTOR, "v.puffin", "puffin")
    assert (found.record_count, found.file_size_bytes, found.sequence_number) == (3, 1000, 7)
    assert (found.referenced_data_file, found.content_offset, found.content_size_bytes) == ("a", 44, 55)
    assert (key.kind, key.equality_ids, key.sequence_number, key.file_format) == (DeleteKind.KEYS, (2, 1), 8, "parquet")
    assert [delete.kind for delete in second.deletes] == [DeleteKind.KEYS, DeleteKind.POSITIONS]
    assert second.deletes[0] is key


@pytest.mark.parametrize(
    ("delete", "column", "problem"),
    [
        (vector("v", "a"), "referenced_data_file", "a deletion vector has no referenced_data_file"),
        (vector("v", "a"), "content_offset", "a deletion vector has no content_offset"),
        (vector("v", "a"), "content_size_in_bytes", "a deletion vector has no content_size_in_bytes"),
        (keys("v"), "equality_ids", "an equality delete file has no equality_ids"),
    ],
)
def test_incomplete_delete_files_are_refused(delete, column, problem):
    snapshot = Snapshot(SCHEMA, SPECS).add([delete])
    files = read_manifest(snapshot.storage, snapshot.manifests[0]).table
    files = files.set_column(files.schema.get_field_index(column), column, pa.nulls(1, files.column(column).type))
    with pytest.raises(FormatError, match=problem) as caught:
        DeleteIndex([FileBatch(NO_SPEC, files)], SCHEMA)
    assert caught.value.location == "v"


def test_data_files_among_delete_files_are_refused():
    snapshot = Snapshot(SCHEMA, SPECS).add([entry(data_file("a"), 1)])
    files = read_manifest(snapshot.storage, snapshot.manifests[0]).table
    with pytest.raises(FormatError, match="manifest of delete files contains data files"):
        DeleteIndex([FileBatch(NO_SPEC, files)], SCHEMA)


# ---- bounds of keys ----


def key_bounds(column, low, high, *, nulls=0, count=10, type_=LONG):
    return {
        "lower_bounds": {} if low is None else {column: encode_value(type_, low)},
        "upper_bounds": {} if high is None else {column: encode_value(type_, high)},
        "null_value_counts": {} if nulls is None else {column: nulls},
        "value_counts": {column: count},
    }


@pytest.mark.parametrize(
    ("delete", "applies"),
    [
        (key_bounds(1, 20, 30), True),
        (key_bounds(1, 21, 30), False),
        (key_bounds(1, 0, 10), True),
        (key_bounds(1, 0, 9), False),
        (key_bounds(1, None, 9), False),
        (key_bounds(1, 21, None), False),
        (key_bounds(1, None, None), True),
        (key_bounds(1, None, None, nulls=10), False),
        (key_bounds(1, 21, 30, nulls=None), False),
    ],
)
def test_key_bounds_leave_equality_deletes_out(delete, applies):
    data = [entry(data_file("d", **key_bounds(1, 10, 20)), 1)]
    assert names(data, [keys("k", 2, **delete)]) == {"d": ["k"] if applies else []}


def test_keys_that_are_null_find_nulls():
    data = [entry(data_file(str(nulls), **key_bounds(1, 10, 20, nulls=nulls)), 1) for nulls in (0, 1)]
    assert names(data, [keys("k", 2, **key_bounds(1, 30, 40, nulls=1))]) == {"0": [], "1": ["k"]}


def test_bounds_of_columns_that_the_delete_does_not_compare_are_skipped():
    both = key_bounds(1, 0, 5)
    data = [entry(data_file("d", **key_bounds(1, 10, 20)), 1)]
    assert names(data, [keys("k", 2, ids=(2,), **both)]) == {"d": ["k"]}


def test_keys_in_structs_and_promoted_keys_are_compared():
    data = [entry(data_file("d", **key_bounds(4, 10, 20, type_=pa.int32())), 1)]
    assert names(data, [keys("k", 2, ids=(4,), **key_bounds(4, 0, 5, type_=pa.int32()))]) == {"d": []}
    data = [entry(data_file("d", **key_bounds(1, 10, 20, type_=pa.int32())), 1)]
    assert names(data, [keys("k", 2, **key_bounds(1, 0, 5))]) == {"d": []}
    assert names(data, [keys("k", 2, **key_bounds(1, 15, 2**40))]) == {"d": ["k"]}


def test_keys_of_columns_that_are_gone_apply():
    assert names([entry(data_file("d"), 1)], [keys("k", 2, ids=(99,))]) == {"d": ["k"]}


# ---- what is refused of deletes that are needed, and only of them ----


def test_delete_files_outside_of_the_table_are_refused_where_needed():
    snapshot = Snapshot(SCHEMA, SPECS)
    snapshot.add([entry(data_file(snapshot.path("a")), 2)]).add([positions("s3://elsewhere/p", 1)])
    assert [task.deletes for task in snapshot.plan().tasks] == [()]
    snapshot.add([positions("s3://elsewhere/q", 2)])
    with pytest.raises(SkerryError, match="outside its folder") as caught:
        snapshot.plan()
    assert caught.value.location == "s3://elsewhere/q"
    assert len(snapshot.plan(roots=None).tasks[0].deletes) == 1


def test_the_keys_of_delete_files_go_with_them():
    encrypted = dataclasses.replace(positions("p", 1), key_metadata=b"secret")
    (task,) = plan([entry(data_file("a"), 1)], [encrypted])
    assert [delete.key_metadata for delete in task.deletes] == [b"secret"]
    assert "secret" not in repr(task)


# ---- the plain twin ----

FILE_BOUNDS = [{}, key_bounds(1, 0, 5), key_bounds(1, 4, 9, nulls=2), key_bounds(1, 4, 9, nulls=None)]
KEY_BOUNDS = [{}, key_bounds(1, 6, 7), key_bounds(1, 1, 2, nulls=1), key_bounds(1, None, None, nulls=10)]
PATHS = ["a", "b", "c"]
PARTITIONS = [(0, ()), (1, ("x",)), (1, (None,)), (2, (1,)), (2, (2,)), (3, (None,))]
AGES = st.integers(1, 4)


@st.composite
def data_entries(draw):
    result = []
    for path in PATHS[: draw(st.integers(1, 3))]:
        spec_id, partition = draw(st.sampled_from(PARTITIONS))
        bounds = draw(st.sampled_from(FILE_BOUNDS))
        result.append(entry(data_file(path, spec_id=spec_id, partition=partition, **bounds), draw(AGES)))
    return result


@st.composite
def delete_entries(draw):
    result, vectors = [], set()
    for number in range(draw(st.integers(0, 6))):
        (spec_id, partition), age = draw(st.sampled_from(PARTITIONS)), draw(AGES)
        place = {"spec_id": spec_id, "partition": partition}
        kind = draw(st.sampled_from(["positions", "named", "keys", "vector"]))
        path = draw(st.sampled_from(PATHS))
        if kind == "vector" and path not in vectors:
            vectors.add(path)
            result.append(vector(f"{number}", path, age, **place))
        elif kind == "named":
            result.append(positions(f"{number}", age, reference=path, **place))
        elif kind == "keys":
            bounds = draw(st.sampled_from(KEY_BOUNDS))
            result.append(keys(f"{number}", age, **place, **bounds))
        else:
            between = draw(st.sampled_from([None, ("a", "b"), ("b", "b"), ("", "z"), ("d", "e")]))
            result.append(positions(f"{number}", age, between=between, **place))
    return result


def applies(data, delete, deletes):
    """Iceberg's rules for one data file and one delete file."""
    file, gone = data.data_file, delete.data_file
    same_partition = (file.spec_id, file.partition) == (gone.spec_id, gone.partition)
    if delete.content is FileContent.EQUALITY_DELETES:
        is_global = gone.spec_id in (0, 3)
        return delete.sequence_number > data.sequence_number and (same_partition or is_global) and may_meet(file, gone)
    if delete.sequence_number < data.sequence_number:
        return False
    if delete.is_deletion_vector:
        return delete.referenced_data_file == file.location
    if any(other.is_deletion_vector and applies(data, other, deletes) for other in deletes):
        return False
    low, high = (bounds.get(2147483546) for bounds in (gone.lower_bounds, gone.upper_bounds))
    named, bounded = delete.referenced_data_file, low.decode() if low is not None and low == high else None
    reference = None if named and bounded and named != bounded else named or bounded
    if reference is not None:
        return reference == file.location
    return same_partition and (low is None or low <= file.location.encode() <= high)


def may_meet(file, gone):
    (first, last), (lowest, highest) = key_range(file), key_range(gone)
    nulls = [side.null_value_counts.get(1) for side in (file, gone)]
    only_nulls = any(count == side.value_counts.get(1, -1) for side, count in zip((file, gone), nulls, strict=True))
    return (first <= highest and lowest <= last and not only_nulls) or 0 not in nulls


def key_range(file):
    low, high = (bounds.get(1) for bounds in (file.lower_bounds, file.upper_bounds))
    return -(2**63) if low is None else decode_value(LONG, low), 2**63 if high is None else decode_value(LONG, high)


@settings(max_examples=examples(80), deadline=None)
@given(data=data_entries(), deletes=delete_entries())
def test_the_index_agrees_with_its_plain_twin(data, deletes):
    expected = {
        item.data_file.location: sorted(
            delete.data_file.location for delete in deletes if applies(item, delete, deletes)
        )
        for item in data
    }
    assert {path: sorted(found) for path, found in names(data, deletes).items()} == expected
