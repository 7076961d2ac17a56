"""Manifests are decoded once: in memory, in a folder, within limits, and never wrongly."""

from __future__ import annotations

import dataclasses
import decimal
import os
import random
import subprocess
import sys
import uuid

import pytest
from planning_samples import Snapshot, data_file, entry, keys, positions

from skerry.errors import FormatError, NotFoundError, SchemaError, UnsupportedError
from skerry.iceberg.manifests.cache import ManifestCache, shared_cache
from skerry.iceberg.manifests.map_columns import METRIC_COLUMNS, FieldValues
from skerry.iceberg.manifests.reader import read_manifest
from skerry.iceberg.metadata.partition_spec import PartitionField, PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.transforms import IdentityTransform
from skerry.iceberg.metadata.types import BinaryType, DateType, DecimalType, LongType, NestedField, StringType, UUIDType
from skerry.table.work import batch_cache
from skerry.table.work.batch_folder import BatchFolder

SCHEMA = Schema(
    NestedField(1, "n", LongType()),
    NestedField(2, "s", StringType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "u", UUIDType()),
    NestedField(5, "d", DecimalType(20, 3)),
    NestedField(6, "b", BinaryType()),
)
SPEC = PartitionSpec(
    *(PartitionField(number, 999 + number, IdentityTransform(), f"p{number}") for number in range(1, 7)), spec_id=0
)
FILES = ("file_path", "partition", "record_count", "sequence_number", "split_offsets")
ROOM = 1 << 30


def sample(number):
    """A file with everything filled in, or hardly anything."""
    noise = random.Random(number)
    if number % 3 == 0:
        return data_file(f"/f{number}", partition=(None,) * 6)
    values = (number, "é" * number, -number, uuid.UUID(int=number).bytes, decimal.Decimal(number) / 8, bytes(number))
    numbers = {key: noise.getrandbits(40) for key in range(1, 7)}
    bounds = {key: noise.randbytes(8) for key in range(1, 7)}
    return data_file(
        f"/f{number}",
        partition=values,
        value_counts=numbers,
        null_value_counts=numbers,
        lower_bounds=bounds,
        upper_bounds=bounds,
        split_offsets=(4, 50),
    )


@pytest.fixture
def snapshot(tmp_path):
    """One manifest on disk, too small for the folder if it were not for `everywhere`."""
    snapshot = Snapshot(SCHEMA, (SPEC,))
    snapshot.root = str(tmp_path / "table")
    return snapshot.add([entry(sample(number), 1 + number % 2) for number in range(20)])


@pytest.fixture(autouse=True)
def everywhere(monkeypatch):
    """Let small local manifests into the folder as well."""
    monkeypatch.setattr(batch_cache, "_MIN_LOCAL_BYTES", 0)


def requests(snapshot, cache, columns, manifest=None):
    """How many requests a read makes; its columns must be those of the manifest."""
    manifest = manifest or snapshot.manifests[0]
    expected = read_manifest(snapshot.storage, manifest, columns).table.select(list(columns))
    before = snapshot.storage.metrics.requests
    assert cache.read(snapshot.storage, manifest, columns).equals(expected, check_metadata=True)
    return snapshot.storage.metrics.requests - before


def test_a_manifest_is_read_once(snapshot):
    cache = ManifestCache(ROOM)
    assert [requests(snapshot, cache, FILES) for _ in range(3)] == [1, 0, 0]
    assert requests(snapshot, cache, ("status", "file_path")) == 0


def test_metrics_are_read_when_wanted(snapshot):
    cache = ManifestCache(ROOM)
    assert requests(snapshot, cache, FILES) == 1
    used = cache.used_bytes
    assert requests(snapshot, cache, (*FILES, *METRIC_COLUMNS)) == 1
    assert cache.used_bytes > used
    assert requests(snapshot, cache, ("lower_bounds", "file_path")) == 0


def test_columns_that_planning_does_not_use_are_read_anew(snapshot):
    cache = ManifestCache(ROOM)
    assert [requests(snapshot, cache, ("column_sizes", "file_path")) for _ in range(2)] == [1, 1]
    assert cache.used_bytes == 0


def test_delete_manifests_are_kept_as_well(snapshot):
    snapshot.add([keys("/k", 2, ids=(1, 2), partition=(None,) * 6), positions("/p", 2, partition=(None,) * 6)])
    cache, columns = ManifestCache(ROOM), ("content", "equality_ids", "referenced_data_file", "lower_bounds")
    assert [requests(snapshot, cache, columns, snapshot.manifests[1]) for _ in range(2)] == [1, 0]


def test_what_the_folder_has_is_not_read_in_the_next_process(snapshot, tmp_path):
    folder = tmp_path / "cache" / "manifests"
    assert requests(snapshot, ManifestCache(ROOM, BatchFolder(folder, ROOM)), (*FILES, *METRIC_COLUMNS)) == 1
    assert folder.stat().st_mode & 0o077 == 0
    for memory_bytes in (0, ROOM):
        cache = ManifestCache(memory_bytes, BatchFolder(folder, ROOM))
        assert requests(snapshot, cache, (*FILES, *METRIC_COLUMNS)) == 0
        assert (cache.used_bytes > 0) == (memory_bytes > 0)


def test_without_room_every_read_is_one(snapshot):
    cache = ManifestCache(0)
    assert [requests(snapshot, cache, FILES) for _ in range(2)] == [1, 1]


def test_memory_stays_within_its_limit_and_forgets_the_oldest(snapshot):
    for _ in range(3):
        snapshot.add([entry(sample(number)) for number in range(20)])
    everything = ManifestCache(ROOM)
    for manifest in snapshot.manifests:
        requests(snapshot, everything, FILES, manifest)
    cache = ManifestCache(everything.used_bytes * 3 // 4)
    for manifest in snapshot.manifests[:2]:
        requests(snapshot, cache, FILES, manifest)
    requests(snapshot, cache, FILES, snapshot.manifests[0])
    for manifest in snapshot.manifests[2:]:
        requests(snapshot, cache, FILES, manifest)
        assert 0 < cache.used_bytes <= cache.memory_bytes
    assert requests(snapshot, cache, FILES, snapshot.manifests[0]) == 0
    assert requests(snapshot, cache, FILES, snapshot.manifests[1]) == 1
    cache.clear()
    assert cache.used_bytes == 0
    assert requests(snapshot, cache, FILES, snapshot.manifests[0]) == 1


def test_a_part_larger_than_the_limit_is_not_kept(snapshot):
    cache = ManifestCache(100)
    assert [requests(snapshot, cache, FILES) for _ in range(2)] == [1, 1]
    assert cache.used_bytes == 0


def test_the_folder_stays_within_its_limit(snapshot, tmp_path):
    for number in range(20, 36):
        snapshot.add([entry(sample(number))])
    folder = tmp_path / "manifests"
    limit = 20_000
    for manifest in snapshot.manifests:
        requests(snapshot, ManifestCache(0, BatchFolder(folder, limit)), FILES, manifest)
        assert 0 < sum(path.stat().st_size for path in folder.iterdir()) <= limit
    assert requests(snapshot, ManifestCache(0, BatchFolder(folder, limit)), FILES, snapshot.manifests[-1]) == 0
    assert requests(snapshot, ManifestCache(0, BatchFolder(folder, limit)), FILES, snapshot.manifests[0]) == 1
    nothing = ManifestCache(0, BatchFolder(tmp_path / "none", 10))
    assert requests(snapshot, nothing, FILES) == 1
    assert not (tmp_path / "none").exists()


def test_use_keeps_a_file_in_the_folder(snapshot, tmp_path):
    folder = tmp_path / "manifests"
    requests(snapshot, ManifestCache(0, BatchFolder(folder, ROOM)), FILES)
    (path,) = folder.iterdir()
    os.utime(path, (0, 0))
    assert requests(snapshot, ManifestCache(0, BatchFolder(folder, ROOM)), FILES) == 0
    assert path.stat().st_mtime > 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:30],
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
        lambda content: content[:32] + b"\xff" + content[33:],
        lambda content: content[:63] + b"\xff" + content[64:],
        lambda content: b"x" + content[1:],
    ],
)
def test_damaged_files_are_as_good_as_none(snapshot, tmp_path, damage):
    folder = tmp_path / "manifests"
    requests(snapshot, ManifestCache(0, BatchFolder(folder, ROOM)), FILES)
    (path,) = folder.iterdir()
    content = path.read_bytes()
    path.write_bytes(damage(content))
    assert requests(snapshot, ManifestCache(0, BatchFolder(folder, ROOM)), FILES) == 1
    assert path.read_bytes() == content
    assert requests(snapshot, ManifestCache(0, BatchFolder(folder, ROOM)), FILES) == 0


def test_files_that_others_may_write_are_not_trusted(snapshot, tmp_path):
    folder = tmp_path / "manifests"
    requests(snapshot, ManifestCache(0, BatchFolder(folder, ROOM)), FILES)
    (path,) = folder.iterdir()
    path.chmod(0o666)
    assert requests(snapshot, ManifestCache(0, BatchFolder(folder, ROOM)), FILES) == 1


def test_a_folder_that_cannot_be_is_done_without(snapshot, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    cache = ManifestCache(ROOM, BatchFolder(tmp_path / "file" / "manifests", ROOM))
    assert [requests(snapshot, cache, FILES) for _ in range(2)] == [1, 0]


def test_what_entries_inherit_tells_manifests_apart(snapshot):
    cache, manifest = ManifestCache(ROOM), snapshot.manifests[0]
    requests(snapshot, cache, FILES)
    other = dataclasses.replace(manifest, first_row_id=1000)
    assert requests(snapshot, cache, ("first_row_id", "file_path"), other) == 1
    assert requests(snapshot, cache, ("first_row_id", "file_path"), manifest) == 0


def test_a_local_file_that_was_replaced_is_read_again(snapshot):
    cache, manifest = ManifestCache(ROOM), snapshot.manifests[0]
    requests(snapshot, cache, FILES)
    other = Snapshot(SCHEMA, (SPEC,)).add([entry(sample(99))])
    data = other.storage.read(other.manifests[0].manifest_path)
    snapshot.storage.write(manifest.manifest_path, data, overwrite=True)
    assert requests(snapshot, cache, FILES, dataclasses.replace(manifest, manifest_length=len(data))) == 1
    os.unlink(manifest.manifest_path)
    with pytest.raises(NotFoundError):
        cache.read(snapshot.storage, manifest, FILES)


def test_files_in_memory_do_not_get_into_the_folder(tmp_path):
    snapshot = Snapshot(SCHEMA, (SPEC,)).add([entry(sample(1))])
    cache = ManifestCache(ROOM, BatchFolder(tmp_path / "manifests", ROOM))
    assert [requests(snapshot, cache, FILES) for _ in range(2)] == [1, 0]
    assert not (tmp_path / "manifests").exists()


def test_errors_are_those_of_reading_and_nothing_is_kept(snapshot):
    cache, manifest = ManifestCache(ROOM), snapshot.manifests[0]
    with pytest.raises(UnsupportedError, match="key metadata of version 107"):
        cache.read(snapshot.storage, dataclasses.replace(manifest, key_metadata=b"k"), FILES)
    with pytest.raises(FormatError, match="manifest list says"):
        cache.read(snapshot.storage, dataclasses.replace(manifest, manifest_length=10**6, added_files_count=7), FILES)
    assert cache.used_bytes == 0


def test_limits_come_from_the_environment(monkeypatch, tmp_path):
    try:
        monkeypatch.setenv("SKERRY_CACHE_DIR", str(tmp_path))
        for memory, disk in (("0", "0"), ("5000", "7000")):
            monkeypatch.setenv("SKERRY_MANIFEST_CACHE_MEMORY_BYTES", memory)
            monkeypatch.setenv("SKERRY_MANIFEST_CACHE_DISK_BYTES", disk)
            shared_cache.cache_clear()
            assert shared_cache().memory_bytes == int(memory)
            folder = shared_cache().folder
            assert (folder and (folder.path, folder.limit_bytes)) == (tmp_path / "manifests", 7000) or disk == "0"
        monkeypatch.setenv("SKERRY_MANIFEST_CACHE_DISK_BYTES", "much")
        shared_cache.cache_clear()
        with pytest.raises(SchemaError, match="SKERRY_MANIFEST_CACHE_DISK_BYTES is 'much'"):
            shared_cache()
    finally:
        shared_cache.cache_clear()


PROCESS = """
import pathlib, pickle, random, sys
from skerry.table.work import batch_cache
from skerry.table.work.batch_folder import BatchFolder
from skerry.storage import Storage
from skerry.iceberg.manifests.cache import ManifestCache
batch_cache._MIN_LOCAL_BYTES = 0
manifests, limit = pickle.load(sys.stdin.buffer)
noise = random.Random(int(sys.argv[2]))
for _ in range(60):
    cache = ManifestCache(0, BatchFolder(pathlib.Path(sys.argv[1]), limit))
    number = noise.randrange(len(manifests))
    files = cache.read(Storage(), manifests[number], ("file_path", "record_count", "lower_bounds"))
    assert files.column("file_path").to_pylist() == [f"/f{number}"], files
    assert cache.folder._delete_oldest(limit) <= limit
"""


def test_many_processes_share_a_folder(snapshot, tmp_path):
    import pickle

    snapshot.manifests.clear()
    for number in range(12):
        snapshot.root = str(tmp_path / f"t{number}")
        snapshot.add([entry(sample(number))])
    content = pickle.dumps((snapshot.manifests, 20_000))
    command = [sys.executable, "-c", PROCESS, str(tmp_path / "manifests")]
    running = [subprocess.Popen([*command, str(seed)], stdin=subprocess.PIPE) for seed in range(3)]
    for process in running:
        process.stdin.write(content)
        process.stdin.close()
    assert [process.wait(60) for process in running] == [0, 0, 0]
    left = list((tmp_path / "manifests").iterdir())
    assert left
    assert all(path.suffix == ".arrow" for path in left)


# Metrics of single columns -------------------------------------------------------------------------------------------


def few(snapshot, cache, *field_ids, may_keep_all=False):
    """How many requests a read of some columns' metrics makes; they must be those of the manifest."""
    manifest = snapshot.manifests[0]
    whole = FieldValues(read_manifest(snapshot.storage, manifest).table)
    before = snapshot.storage.metrics.requests
    found = cache.read_metrics(snapshot.storage, manifest, FILES, field_ids, may_keep_all=may_keep_all)
    requests = snapshot.storage.metrics.requests - before
    assert found.select(list(FILES)).equals(read_manifest(snapshot.storage, manifest, FILES).table.select(list(FILES)))
    for field_id in field_ids:
        for name in METRIC_COLUMNS:
            assert FieldValues(found).values(name, field_id).equals(whole.values(name, field_id))
            assert name not in found.schema.names
    return requests


def test_the_metrics_of_each_column_are_kept_for_themselves(snapshot, tmp_path):
    cache = ManifestCache(ROOM, BatchFolder(tmp_path / "cache", ROOM))
    assert [few(snapshot, cache, *ids) for ids in ((1,), (1,), (1, 2), (2,), (), (3, 2), (3,))] == [1, 0, 1, 0, 0, 1, 0]
    assert few(snapshot, ManifestCache(0, BatchFolder(tmp_path / "cache", ROOM)), 1, 2, 3) == 0
    assert requests(snapshot, cache, (*FILES, *METRIC_COLUMNS)) == 1
    assert few(snapshot, ManifestCache(0), 1, 2) == 1


def test_the_metrics_of_all_columns_are_kept_when_another_is_asked_for(snapshot, tmp_path):
    cache = ManifestCache(ROOM)
    found = [few(snapshot, cache, *ids, may_keep_all=True) for ids in ((1,), (1,), (2,), (3,), (1, 4), ())]
    assert found == [1, 0, 1, 0, 0, 0]
    assert requests(snapshot, cache, (*FILES, *METRIC_COLUMNS)) == 0
    other = ManifestCache(ROOM)
    assert [few(snapshot, other, *ids, may_keep_all=True) for ids in ((), (), (1,), (2,))] == [1, 0, 1, 0]
    assert few(snapshot, other, 3) == 0


def test_metrics_of_one_column_take_less_room(snapshot):
    caches = ManifestCache(ROOM), ManifestCache(ROOM)
    requests(snapshot, caches[0], (*FILES, *METRIC_COLUMNS))
    few(snapshot, caches[1], 1)
    assert caches[1].used_bytes < caches[0].used_bytes


def test_room_is_that_of_memory_or_folder(snapshot, tmp_path):
    manifests = snapshot.manifests  # one of twenty files
    assert ManifestCache(2 * 20 * 6 * 64).fits(manifests, 6)
    assert not ManifestCache(2 * 20 * 6 * 64 - 1).fits(manifests, 6)
    assert ManifestCache(0, BatchFolder(tmp_path, 2 * 20 * 6 * 64)).fits(manifests, 6)
    unknown = dataclasses.replace(manifests[0], added_files_count=None, existing_files_count=None)
    assert ManifestCache(0).fits([unknown], 6)
