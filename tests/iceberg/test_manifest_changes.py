"""Which manifests a commit writes, keeps and merges; and that no file's history is lost on the way."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pyarrow as pa
import pytest
from changed_tables import ChangedTable, changed_table
from hypothesis import given, settings
from hypothesis import strategies as st

import skerry
from skerry.errors import SchemaError
from skerry.iceberg.catalogs.pyiceberg_catalogs import as_pyiceberg
from skerry.iceberg.manifest_changes import MergePolicy
from skerry.iceberg.manifests.manifest import EntryStatus, ManifestEntry, encode_manifest
from skerry.iceberg.manifests.reader import read_manifest
from skerry.iceberg.metadata.arrow_schema import to_iceberg_schema
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.operations import AppendFiles, RewriteFiles, RowDelta
from skerry.iceberg.partitioning.partitions import partition_spec
from skerry.storage import Storage
from skerry.table.files.data_file import DataFile
from skerry.table.statistics.written_file import WrittenFile


def data_file(number: int, spec_id: int = 0) -> DataFile:
    """A file that is nowhere, which a commit does not mind."""
    partition = (number % 3,) if spec_id == 0 else ()
    return DataFile(f"file:///nowhere/{number}", "parquet", number + 1, 100, spec_id=spec_id, partition=partition)


def counts(t: ChangedTable) -> list[tuple[int | None, ...]]:
    return [(file.added_files_count, file.existing_files_count, file.deleted_files_count) for file in t.manifests()]


def test_manifests_merge_when_there_are_enough(tmp_path):
    t = changed_table(tmp_path, **{"commit.manifest.min-count-to-merge": "3"})
    assert counts(t) == [(1, 0, 0), (1, 0, 0)]
    t.table.commit(AppendFiles((data_file(1),)))
    assert counts(t) == [(1, 2, 0)]
    t.table.commit(AppendFiles((data_file(2),)))
    assert counts(t) == [(1, 0, 0), (1, 2, 0)]
    t.table.commit(AppendFiles((data_file(3), data_file(4))))
    assert counts(t) == [(2, 4, 0)]


def test_merging_can_be_switched_off(tmp_path):
    options = {"commit.manifest.min-count-to-merge": "2", "commit.manifest-merge.enabled": "false"}
    t = changed_table(tmp_path, **options)
    assert counts(t) == [(1, 0, 0), (1, 0, 0)]


def test_full_manifests_are_left_alone(tmp_path):
    """They are packed from the oldest on, so that only the newest pack changes."""
    t = changed_table(tmp_path, **{"commit.manifest.min-count-to-merge": "2"})
    (first,) = t.manifests()
    properties = {"commit.manifest.target-size-bytes": str(first.manifest_length + 10)}
    skerry.connect(tmp_path).load_table("d.t").set_properties(properties)
    for number in range(3):
        t.table.commit(AppendFiles((data_file(number),)))
    assert t.manifests()[-1] == first
    assert len(t.manifests()) == 4


def test_a_commit_of_many_files_is_split(tmp_path):
    t = changed_table(tmp_path, **{"commit.manifest.target-size-bytes": "5000"})
    t.table.commit(AppendFiles(tuple(data_file(number) for number in range(500))))
    sizes = [file.manifest_length for file in t.manifests()]
    assert len(sizes) > 3
    assert max(sizes) < 5000
    assert sum(file.added_files_count or 0 for file in t.manifests() if file.sequence_number == 3) == 500


def test_manifests_of_partition_specs_stay_apart(tmp_path):
    t = changed_table(tmp_path, **{"commit.manifest.min-count-to-merge": "2"})
    table = skerry.connect(tmp_path).load_table("d.t")
    with as_pyiceberg(t.table.catalog).load_table("d.t").update_spec() as update:
        update.remove_field("p")
    t.table.refresh()
    spec_id = t.table.state.spec.spec_id
    t.table.commit(AppendFiles((data_file(1, spec_id), data_file(2), data_file(3, spec_id))))
    assert sorted((file.partition_spec_id, file.added_files_count) for file in t.manifests()) == [(0, 1), (spec_id, 2)]
    # the column that old partitions were made of may go, and their manifests can still be rewritten
    with as_pyiceberg(t.table.catalog).load_table("d.t").update_schema() as change:
        change.delete_column("p")
    t.table.refresh()
    t.table.commit(RowDelta(removed_files=(t.a.location,), starting_snapshot_id=t.snapshot_id))
    assert t.entries()[t.b.location].data_file.partition == (1,)
    assert table.refresh().snapshots()[-1].summary["deleted-data-files"] == "1"


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"commit.manifest-merge.enabled": "yes"}, "must be true or false, found 'yes'"),
        ({"commit.manifest.min-count-to-merge": "0"}, "min-count-to-merge must be a whole number above 0, found '0'"),
        ({"commit.manifest.target-size-bytes": "8MB"}, "target-size-bytes must be a whole number above 0"),
    ],
)
def test_wrong_properties_are_named(properties, message):
    with pytest.raises(SchemaError, match=message):
        MergePolicy.from_properties(properties)


@dataclasses.dataclass
class Model:
    """What every live file was when it was added."""

    history: dict[str, tuple[int | None, ...]] = dataclasses.field(default_factory=dict)
    added: int = 0


STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "remove", "rewrite"]), st.integers(1, 4), st.randoms(use_true_random=False)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=10)
@given(version=st.sampled_from([1, 2, 3]), min_count=st.integers(1, 4), target=st.integers(4000, 9000), steps=STEPS)
def test_no_history_is_lost(tmp_path_factory, version, min_count, target, steps):
    """Whatever is added, removed, rewritten and merged: a file's row ids, numbers and snapshot stay what they were."""
    t = changed_table(
        tmp_path_factory.mktemp("t"),
        version,
        **{"commit.manifest.min-count-to-merge": str(min_count), "commit.manifest.target-size-bytes": str(target)},
    )
    model = Model({path: history(entry) for path, entry in t.entries().items()})
    for kind, count, random in steps:
        new = tuple(data_file(model.added + number) for number in range(count))
        gone = tuple(random.sample(sorted(model.history), min(count, len(model.history))))
        operation: Any = AppendFiles(new)
        if kind == "remove":
            operation = RowDelta(removed_files=gone, starting_snapshot_id=t.snapshot_id)
        elif kind == "rewrite" and gone:
            written = tuple(WrittenFile(file) for file in new)
            operation = RewriteFiles(written, gone, sequence_number=1, starting_snapshot_id=t.snapshot_id)
        t.table.commit(operation)
        model.added += count
        remember(t, model, () if isinstance(operation, AppendFiles) else gone)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_manifests_that_lose_files_and_are_merged_at_once_keep_the_history_of_others(tmp_path, version):
    t = changed_table(tmp_path, version, **{"commit.manifest.min-count-to-merge": "2"})
    for first in (10, 20):
        t.table.commit(AppendFiles((data_file(first), data_file(first + 1))))
    before = {path: history(entry) for path, entry in t.entries().items()}
    gone = [data_file(number).location for number in (10, 20)]
    written = (WrittenFile(data_file(30)),)
    t.table.commit(RewriteFiles(written, tuple(gone), sequence_number=1, starting_snapshot_id=t.snapshot_id))
    assert len(t.manifests()) == 1
    after = {path: history(entry) for path, entry in t.entries().items() if entry.is_live}
    assert {path: values for path, values in after.items() if path in before} == {
        path: values for path, values in before.items() if path not in gone
    }
    assert len(after) == len(before) - 1


def history(entry: ManifestEntry) -> tuple[int | None, ...]:
    return entry.snapshot_id, entry.sequence_number, entry.file_sequence_number, entry.first_row_id


def remember(t: ChangedTable, model: Model, gone: tuple[str, ...]) -> None:
    """Compare the table with the model, and take what is new into it."""
    live, ids = {}, []
    for path, entry in t.entries().items():
        if entry.is_live:
            live[path] = history(entry)
            ids.append((entry.first_row_id, entry.data_file.record_count))
            if path not in model.history:
                assert entry.status is EntryStatus.ADDED
                assert entry.snapshot_id == t.snapshot_id
        else:
            assert path in gone or path not in model.history
    for path in gone:
        del model.history[path]
    assert {path: live[path] for path in model.history} == model.history
    model.history = live
    assert t.summary["total-data-files"] == str(len(live))
    for file in t.manifests():
        assert file.has_live_files or file.added_snapshot_id == t.snapshot_id
    if t.version == 3:
        ordered = sorted((first, first + count) for first, count in ids)
        assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(ordered))
        assert not ordered or ordered[-1][1] <= t.table.state.metadata.next_row_id


def test_partition_values_are_found_by_field_id(tmp_path):
    """A manifest whose fields stand in another order than in the table's spec is rewritten in the spec's."""
    schema = to_iceberg_schema(pa.schema([("a", pa.int64()), ("b", pa.string())]))
    spec = partition_spec(schema, ["a", "b"])
    reversed_ = PartitionSpec(*reversed(spec.fields), spec_id=spec.spec_id)
    file = DataFile("file:///nowhere", "parquet", 1, 1, partition=("x", 7))
    entry = ManifestEntry(EntryStatus.ADDED, file)
    location = str(tmp_path / "m.avro")
    options = {"schema": schema, "spec": reversed_, "format_version": 2, "snapshot_id": 1}
    data, manifest = encode_manifest(location, [entry], **options)
    Storage().write(location, data)
    known = dataclasses.replace(manifest, sequence_number=1, min_sequence_number=1)
    read = read_manifest(Storage(), known)
    assert [found.data_file.partition for found in read.entries()] == [("x", 7)]
    assert [found.data_file.partition for found in read.entries(spec=spec)] == [(7, "x")]
