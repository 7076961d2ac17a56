"""Sketches of single groups: small partitions are counted well, within the bytes that the table grants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skerry
from skerry import puffin
from skerry.errors import FormatError, SchemaError
from skerry.table.statistics.column_statistics import FreshnessState
from skerry.table.statistics.file_groups import FileGroup, SketchedFile, key_of
from skerry.table.statistics.group_sketches import (
    GroupSketches,
    decode_group_sketches,
    encode_group_sketches,
    group_key,
)
from skerry.table.statistics.pieces.chain import SKETCH_PROPERTIES
from skerry.theta import Sample

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.int32())])
BYTES = "skerry.statistics.partition-sketch-bytes"
SMALL, LARGE = 3000, 150_000


def rows(start, stop, p):
    return pa.table({"k": range(start, stop), "p": pa.array([p] * (stop - start), pa.int32())})


def make(folder, size_bytes):
    properties = {BYTES: str(size_bytes), "write.delete.mode": "merge-on-read"}
    table = skerry.connect(folder).create_table("d.t", SCHEMA, partition_by=["p"], properties=properties)
    parts = [rows(0, LARGE, 0), *(rows(n * 2000, n * 2000 + SMALL, n) for n in range(1, 6))]
    table.append(pa.concat_tables(parts))
    return table


def check(table, where, distinct):
    found = table.refresh().statistics(where)["k"]
    assert found.freshness.state is FreshnessState.FRESH, found
    assert found.lower <= distinct <= found.upper, found
    return found.upper - found.lower


def sketch_bytes(table):
    """The bytes that sketches of groups take in the newest statistics file; 0 if there are none."""
    state = table.handle.state
    file = state.statistics_file(state.snapshot().snapshot_id)
    return int(puffin.read(file.statistics_path).properties.get(SKETCH_PROPERTIES[1], "0"))


def test_small_partitions_are_counted_exactly_where_there_is_room(tmp_path):
    rough = make(tmp_path / "without", 0)
    assert sketch_bytes(rough) == 0
    assert check(rough, "p = 2", SMALL) > 0.05 * SMALL
    exact = make(tmp_path / "with", 1_000_000)
    assert 0 < sketch_bytes(exact) <= 1_000_000
    assert check(exact, "p = 2", SMALL) == 0
    assert check(exact, "p IN (2, 3)", SMALL + 2000) < check(rough, "p IN (2, 3)", SMALL + 2000)
    assert check(exact, "p >= 0", LARGE) <= check(rough, "p >= 0", LARGE)


@pytest.mark.parametrize("size_bytes", [100, 2_000, 40_000])
def test_the_bytes_suffice(tmp_path, size_bytes):
    table = make(tmp_path, size_bytes)
    assert sketch_bytes(table) <= size_bytes
    assert (sketch_bytes(table) > 0) == (size_bytes > 1000)
    for n in range(1, 6):
        lower, upper = table.statistics(f"p = {n}")["k"].sketch.bounds(3)
        assert lower <= SMALL <= upper


def test_sketches_follow_changes(tmp_path):
    table = make(tmp_path, 1_000_000)
    table.append(rows(50_000, 50_500, 2))
    assert check(table, "p = 2", SMALL + 500) == 0
    table.overwrite(rows(7, 107, 3), "p = 3")
    assert check(table, "p = 3", 100) == 0
    table.delete("p = 4 AND k < 8100")  # of this group only the shared sample tells now
    assert check(table, "p = 4", SMALL - 100) > 0
    assert check(table, "p = 5", SMALL) == 0
    table.compact(full=True)
    assert check(table, "p = 2", SMALL + 500) == check(table, "p = 4", SMALL - 100) == 0
    table.set_properties({BYTES: "0"})
    table.append(rows(0, 10, 1))
    assert sketch_bytes(table) == 0
    table.set_properties({BYTES: "1000000"})
    table.analyze(full=True)
    assert check(table, "p = 5", SMALL) == 0
    with pytest.raises(SchemaError, match=BYTES):
        table.set_properties({BYTES: "1 MB"}).append(rows(0, 1, 1))


def test_damaged_sketches_are_as_good_as_lost(tmp_path):
    table = make(tmp_path, 1_000_000)
    (file,) = table.handle.state.metadata.statistics
    path = Path(file.statistics_path.removeprefix("file://"))
    offset = int(puffin.read(path).properties[SKETCH_PROPERTIES[0]])
    data = bytearray(path.read_bytes())
    data[offset + 40] ^= 1
    path.write_bytes(data)
    assert check(table, "p = 2", SMALL) > 0


def sketches(sizes):
    made = {}
    for key, size in enumerate(sizes):
        hashes = np.sort(np.random.default_rng(key).integers(1, 1 << 62, size).astype(np.uint64))
        made[key] = {3: Sample().update(hashes.view(np.int64)).compact, 7: Sample().compact}
    return GroupSketches(made)


@given(st.lists(st.integers(0, 50), max_size=5))
def test_bytes_hold_what_was_put_in(sizes):
    made = sketches(sizes)
    read = decode_group_sketches(encode_group_sketches(made))
    assert read.sketches.keys() == made.sketches.keys()
    for key, found in made.sketches.items():
        for field_id, sketch in found.items():
            assert read.sketches[key][field_id].theta == sketch.theta
            assert read.sketches[key][field_id].hashes.tolist() == sketch.hashes.tolist()


@pytest.mark.parametrize("damage", [lambda d: d[:7], lambda d: d[:-1], lambda d: d + b"x", lambda d: b"\2" + d[1:]])
def test_other_bytes_are_refused(damage):
    with pytest.raises(FormatError, match="group sketches"):
        decode_group_sketches(damage(encode_group_sketches(sketches([5, 9]))))
    huge = np.array([1, 1 << 31, 1 << 31], "<u4").tobytes()
    with pytest.raises(FormatError, match="do not fit"):
        decode_group_sketches(huge)


def test_a_group_without_the_sketches_of_all_its_files_has_none():
    files = [SketchedFile(name, "p", 1, {1: Sample().update([n])}) for n, name in enumerate("ab")]
    group = FileGroup({key_of("a"): 0, key_of("b"): 0, key_of("c"): 0}, frozenset(), 3)
    whole = FileGroup({key_of("a"): 0, key_of("b"): 0}, frozenset(), 2)
    made = GroupSketches().of([group, whole], [], files, 10_000)
    assert made.sketches.keys() == {group_key(whole.files)}
    assert made.union([whole], 1).hashes.size == 2
    assert made.union([whole, group], 1) is None
    inexact = FileGroup(whole.files, frozenset(), 2, exact=False)
    assert not GroupSketches().of([inexact], [], files, 10_000).sketches
