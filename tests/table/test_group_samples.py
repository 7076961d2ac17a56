"""Group samples against plain sets: any history of files that come, go and lose rows."""

from __future__ import annotations

import dataclasses
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.errors import FormatError, UnsupportedError
from skerry.table.statistics import column_sample, group_samples
from skerry.table.statistics.file_groups import SketchedFile, ThinnedGroup, key_of
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.group_samples_layout import decode_group_samples, encode_group_samples
from skerry.theta import Sample
from torture import examples

K = 16


def sampled(values, k=8192):
    return Sample(k).update(pa.array(sorted(values), pa.int64()))


def file_of(name, values, partition="p", k=8192):
    return SketchedFile(name, partition, len(values), {1: sampled(values, k), 2: sampled({v % 3 for v in values}, k)})


def hashes_of(values, below):
    return {hash_ for hash_ in sampled(values, 1 << 20).hashes.tolist() if hash_ < below}


def check(samples, model):
    """Every hash below the threshold that a group's files hold is in its bitmap, and nothing else if it is exact."""
    for field_id, project in ((1, lambda v: v), (2, lambda v: v % 3)):
        column = samples.columns[field_id]
        assert len(column.hashes) <= column_sample.SAMPLE_HASHES
        assert column.members.shape == (len(samples.groups), (len(column.hashes) + 7) // 8)
        for row, group in enumerate(samples.groups):
            values = {project(v) for name in model if key_of(name) in group.files for v in model[name]}
            expected = hashes_of(values, column.theta)
            found = set(column.hashes[column.present([row])].tolist())
            assert found == expected if group.exact else found >= expected
        alive = hashes_of({project(v) for values in model.values() for v in values}, column.theta)
        union = set(samples.columns[field_id].union().hashes.tolist())
        assert union >= alive
        if samples.is_exact(field_id):
            assert union == alive
    assert set(samples.files) == {key_of(name) for name in model}


VALUES = st.sets(st.integers(0, 60), max_size=40)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.tuples(st.integers(0, 9), VALUES, st.sampled_from("pq")), max_size=4)),
        st.tuples(st.just("remove"), st.sets(st.integers(0, 9))),
        st.tuples(st.just("delete"), st.integers(0, 9), st.integers(0, 60)),
        st.tuples(st.just("bound"), st.integers(1, 5)),
        st.tuples(st.just("rewrite"), st.sets(st.integers(0, 9)), st.booleans()),
        st.tuples(st.just("resketch"), st.sets(st.integers(0, 9))),
    ),
    max_size=12,
)


# `make torture` tries 1000 of them
@settings(max_examples=examples(12, 1000), suppress_health_check=[])
@given(STEPS)
def test_any_history_leaves_what_plain_sets_say(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_sample, "SAMPLE_HASHES", K)
        patch.setattr(group_samples, "PUBLISHED_HASHES", K // 2)
        samples, model, partitions = GroupSamples(), {}, {}
        for number, (step, *arguments) in enumerate(steps):
            if step == "add":
                files = {f"f{name}": (values, partition) for name, values, partition in arguments[0]}
                files = {name: file for name, file in files.items() if name not in model}
                samples = samples.with_files(
                    [file_of(name, values, partition, K) for name, (values, partition) in files.items()], max_groups=6
                )
                model |= {name: values for name, (values, _) in files.items()}
                partitions |= {name: partition for name, (_, partition) in files.items()}
                assert len(samples.groups) <= 6
            elif step == "remove":
                gone = {f"f{name}" for name in arguments[0]}
                samples = samples.without_files(gone)
                model = {name: values for name, values in model.items() if name not in gone}
            elif step == "delete":
                name = f"f{arguments[0]}"
                if name in model:
                    samples = samples.with_deletes({key_of(name): key_of(f"deleted in step {number}")})
                    model[name] = model[name] - {arguments[1]}
            elif step == "rewrite":
                gone = {f"f{name}" for name in arguments[0]} & set(model)
                exact = {id_ for id_ in samples.columns if samples.is_exact(id_)}
                come = {}
                for name in gone:
                    partition = partitions[name] if arguments[1] else "other spec"
                    come.setdefault(partition, set()).update(model.pop(name))
                new = {f"{partition} of {number}": (partition, values) for partition, values in come.items()}
                files = [file_of(name, values, partition, K) for name, (partition, values) in new.items()]
                samples = samples.with_files_rewritten(gone, files, max_groups=6)
                model |= {name: values for name, (_, values) in new.items()}
                partitions |= {name: partition for name, (partition, _) in new.items()}
                assert {id_ for id_ in samples.columns if samples.is_exact(id_)} >= exact & samples.columns.keys()
            elif step == "resketch":
                some = [f"f{name}" for name in arguments[0] if f"f{name}" in model]
                known = samples.files
                files = [
                    dataclasses.replace(file_of(name, model[name], partitions[name], K), deletes=known[key_of(name)])
                    for name in some
                ]
                samples = samples.with_resketched(files, max_groups=6)
            else:
                samples = samples.bounded(arguments[0])
                assert len(samples.groups) <= max(arguments[0], 0)
            if samples.columns:
                check(samples, model)
            assert decoded_equals(samples)


def decoded_equals(samples):
    again = decode_group_samples(encode_group_samples(samples))
    assert again.groups == samples.groups
    assert again.columns.keys() == samples.columns.keys()
    for field_id, column in samples.columns.items():
        other = again.columns[field_id]
        assert (other.theta, other.hashes.tolist()) == (column.theta, column.hashes.tolist())
        assert np.array_equal(other.members, column.members)
    return True


def test_the_published_sketch_is_that_of_all_values_however_they_were_grouped():
    parts = [set(range(start, start + 9000)) for start in (0, 5000, 20000)]
    samples = GroupSamples().with_files([file_of(f"f{i}", part, f"p{i}") for i, part in enumerate(parts)])
    whole = sampled(set.union(*parts))
    assert samples.sketch(1).serialize() == whole.to_sketch().serialize()
    assert samples.sketch(1, [0, 1]).theta <= sampled(parts[0] | parts[1]).to_sketch().theta
    lower, upper = samples.sketch(1, [2]).bounds(3)
    assert lower <= 9000 <= upper
    left = samples.without_files({"f1"})
    lower, upper = left.sketch(1).bounds(3)
    assert lower <= 18000 <= upper
    assert left.is_exact(1)


def test_a_group_that_lost_rows_is_an_upper_bound_unless_others_hold_its_values_too():
    samples = GroupSamples().with_files([file_of("a", {1, 2, 3}), file_of("b", {1, 2}), file_of("c", {9})])
    assert samples.with_deletes({key_of("b"): 1}).is_exact(1)
    assert not samples.with_deletes({key_of("c"): 1}).is_exact(1)
    assert samples.with_deletes({key_of("c"): 1}).is_exact(2)  # 9 % 3 occurs in a too
    assert not samples.with_deletes({key_of(name): 1 for name in "abc"}).is_exact(2)


def test_files_of_one_partition_are_merged_first_and_exact_groups_kept_apart():
    files = [file_of(f"f{i}", {i}, partition="pq"[i % 2]) for i in range(6)]
    samples = GroupSamples().with_files(files).bounded(2)
    assert sorted(tuple(sorted(group.partitions)) for group in samples.groups) == sorted(
        (key_of(partition),) for partition in "pq"
    )
    assert all(group.row_count == 3 and group.exact for group in samples.groups)


def test_a_column_that_a_file_was_not_sampled_for_is_given_up():
    samples = GroupSamples().with_files([file_of("a", {1, 2})])
    other = SketchedFile("b", "p", 1, {1: sampled({5})})
    assert set(samples.with_files([other]).columns) == {1}
    assert set(samples.with_columns([2, 7]).columns) == {2}


def test_one_hundred_partitions_of_sixteen_columns_take_little_room():
    rng = np.random.default_rng(7)
    files = [
        SketchedFile(f"f{i}", f"p{i}", 60_000, {1: Sample().update(rng.integers(0, 1_500_000, 60_000))})
        for i in range(100)
    ]
    data = encode_group_samples(GroupSamples().with_files(files))
    assert len(data) < 130_000  # 58 KB of hashes, and bitmaps with one bit in twenty set


def test_bytes_that_are_no_group_samples_are_refused():
    samples = GroupSamples().with_files([file_of("a", {1, 2, 3}), file_of("b", set(range(50)))])
    data = encode_group_samples(samples)
    for length in range(len(data)):
        with pytest.raises(FormatError):
            decode_group_samples(data[:length], location="x.stats")
    with pytest.raises(UnsupportedError, match="version 9"):
        decode_group_samples(b"\x09" + data[1:])
    rng = np.random.default_rng(1)
    for _ in range(300):
        changed = bytearray(data)
        changed[rng.integers(4, len(data))] ^= 1 << int(rng.integers(0, 8))
        with suppress(FormatError, UnsupportedError):
            decode_group_samples(bytes(changed))


def test_values_that_were_looked_for_below_a_lower_threshold_thin_no_group():
    """As when another writer has sampled the table again while the deleted rows were read."""
    searched, again = (GroupSamples().with_files([file_of("a", set(range(100)), k=k)]) for k in (K, 8192))
    thetas = {id_: column.theta for id_, column in searched.columns.items()}
    (group,) = again.groups
    none = {id_: np.empty(0, np.uint64) for id_ in thetas}
    thin = ThinnedGroup(group.files, {key_of("a"): 7}, 99, none, thetas=thetas)
    assert searched.with_thinned([thin]).files == {key_of("a"): 7}
    assert again.with_thinned([thin]).files == {key_of("a"): 0}, "a hash above may be gone as well"
