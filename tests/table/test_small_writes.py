"""Small commits: what a process remembers of its last one is what the files say, and is not read again."""

import os

import pyarrow as pa
import pytest

import skerry
from skerry.iceberg.manifests.cache import shared_cache
from skerry.iceberg.manifests.snapshot_manifests import read_manifests
from skerry.iceberg.statistics import known_samples
from skerry.paimon.manifests import cache as paimon_cache
from skerry.paimon.manifests.live_files import live_entries, snapshot_manifests
from skerry.paimon.statistics import samples as paimon_samples
from skerry.storage import Storage
from skerry.table.statistics.group_sketches import encode_group_sketches
from skerry.table.statistics.pieces import known_sample
from skerry.table.statistics.row_sample import encode_row_sample

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("x", pa.float64()), ("p", pa.int32())])


def rows(start, stop):
    ids = range(start, stop)
    return pa.table(
        [list(ids), [f"name {id_}" for id_ in ids], [id_ / 7 for id_ in ids], [id_ % 3 for id_ in ids]], schema=SCHEMA
    )


def settle_schemas(folder):
    """Make Paimon's schemas old: one that has just been written is read again."""
    for schema in folder.rglob("schema-0"):
        os.utime(schema, (0, 0))


@pytest.fixture
def requests(monkeypatch):
    """What is asked of storage: methods, with the kind of file by which its name begins or ends."""
    found = []
    names = ("read", "read_range", "read_ranges", "read_tail", "list", "list_folder", "exists", "size", "write")
    for name in (*names, "arrow_file", "open_input", "open_output"):
        real = getattr(Storage, name)

        def counting(self, location, *arguments, _real=real, _name=name, **options):
            found.append((_name, location.rsplit("/", 1)[-1]))
            return _real(self, location, *arguments, **options)

        monkeypatch.setattr(Storage, name, counting)
    return found


@pytest.mark.parametrize("format_", ["iceberg", "paimon"])
def test_a_warm_append_reads_no_metadata_that_cannot_have_changed(tmp_path, requests, format_):
    table = skerry.connect(tmp_path).create_table("d.t", SCHEMA, format=format_)
    settle_schemas(tmp_path)
    for number in range(3):
        table.append(rows(number, number + 2))
    requests.clear()
    table.append(rows(7, 8))
    asked = [(method, name.split("-")[0] if format_ == "paimon" else "") for method, name in requests]
    if format_ == "iceberg":  # data, manifest, list, statistics, metadata
        assert [method for method, _ in asked] == ["open_output", *["write"] * 4]
        return
    written = [name for method, name in asked if method == "write"]
    assert sorted(name for name in written if name.isalpha()) == sorted(
        ["manifest", "manifest", "manifest", "stat", "snapshot", "LATEST"]
    )
    assert len(written) == 7
    looked = [name for method, name in asked if method in ("read", "list_folder", "exists", "size")]
    assert set(looked) == {"schema", "LATEST", "snapshot"}, "what other writers may have changed"
    assert len(looked) <= 12
    assert len(asked) == 1 + len(written) + len(looked)


def test_a_warm_delete_reads_manifests_and_data_alone(tmp_path, requests):
    for format_ in ("iceberg", "paimon"):
        table = skerry.connect(tmp_path).create_table(f"d.{format_}", SCHEMA, format=format_)
        settle_schemas(tmp_path)
        for number in range(3):
            table.append(rows(10 * number, 10 * number + 10))
        requests.clear()
        table.delete("id = 15")
        assert not [name for method, name in requests if method.startswith("read") and name.endswith(".stats")]
        assert not [name for _, name in requests if name.startswith("schema-")]
        lists = [name for method, name in requests if method == "read" and name.startswith(("snap-", "manifest-list"))]
        assert not lists
        assert table.count() == 29


def content(groups, own=None):
    """What samples say; hashes that are in no group say nothing."""
    hashes = {
        id_: [column.theta, *(column.group(row).hashes.tolist() for row in range(len(groups.groups)))]
        for id_, column in groups.columns.items()
    }
    rows = None if groups.rows is None else encode_row_sample(groups.rows)
    return groups.groups, hashes, rows, None if own is None else encode_group_sketches(own)


def check_iceberg(table):
    state = table.refresh().handle.state
    snapshot = state.snapshot()
    assert list(shared_cache().manifests(state.storage, snapshot)) == read_manifests(state.storage, snapshot)
    known = known_samples.known_sample(state, snapshot)
    known_sample._REMEMBERED.clear()
    found = known_samples.known_sample(state, snapshot)
    assert known is not found
    assert content(known.groups(), known.own) == content(found.groups(), found.own)
    assert known.missing_files == found.missing_files
    for name in ("links", "paths", "schema_id", "last_column_id"):
        assert getattr(known.chain, name) == getattr(found.chain, name)


def check_paimon(table):
    state = table.refresh().handle.state
    known = snapshot_manifests(state, state.snapshot), live_entries(state)
    assert live_entries(state) == known[1]
    paimon_cache.shared_cache().clear()
    assert known == (snapshot_manifests(state, state.snapshot), live_entries(state))
    remembered = paimon_samples.read_published(state, state.snapshot)
    known_sample._REMEMBERED.clear()
    paimon_samples._KNOWN.clear()
    found = paimon_samples.read_published(state, state.snapshot)
    assert content(remembered.sample.groups) == content(found.sample.groups)
    assert remembered.sample.missing_files == found.sample.missing_files
    assert {key: sketch.serialize() for key, sketch in remembered.sketches.items()} == {
        key: sketch.serialize() for key, sketch in found.sketches.items()
    }


ICEBERG = [
    {"format-version": "1"},
    {"format-version": "2", "skerry.statistics.partition-sketch-bytes": "20000"},
    {"format-version": "3", "write.delete.mode": "merge-on-read", "skerry.statistics.row-sample": "false"},
]


@pytest.mark.parametrize(
    ("format_", "properties"),
    [*(("iceberg", one) for one in ICEBERG), ("paimon", {}), ("paimon", {"skerry.statistics.row-sample": "false"})],
)
def test_what_is_remembered_is_what_the_files_say(tmp_path, format_, properties):
    check = check_iceberg if format_ == "iceberg" else check_paimon
    catalog = skerry.connect(tmp_path)
    table = catalog.create_table("d.t", SCHEMA, format=format_, partition_by=["p"], properties=properties)
    table.append(rows(0, 3_000))
    check(table)
    for number in range(2):
        table.append(rows(3_000 + 5 * number, 3_004 + 5 * number))
        check(table)
    table.delete("id % 50 = 3")
    check(table)
    table.delete("p = 1")
    check(table)
    table.overwrite(rows(0, 30), where="p = 2")
    check(table)
    if format_ == "iceberg" and properties["format-version"] == "1":
        table.upgrade(2)
        table.append(rows(9_000, 9_010))
        check(table)
    table.compact()
    check(table)
    assert table.count() == table.scan().to_arrow().num_rows
