"""Metadata that someone else wrote may point anywhere and promise anything: nothing of it is believed."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import skerry
from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.iceberg.manifests.manifest_list import ManifestContent, encode_manifest_list, read_manifest_list
from skerry.iceberg.operations import RowDelta
from skerry.iceberg.writing.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from skerry.storage import name

ROWS = pa.table({"id": pa.array(range(6), pa.int64()), "name": list("abcdef")})
ALLOW = {"skerry.read.files-outside-location": "true"}
KINDS = ["positions", "vector", "keys"]


def path_of(location):
    return Path(location.removeprefix("file://"))


def create(folder, kind="positions", **properties):
    version = 3 if kind == "vector" else 2
    table = skerry.connect(folder).create_table("d.t", ROWS.schema, format_version=version, properties=properties)
    table.append(ROWS)
    return table


def delete_rows(table, kind, positions=(1, 2)):
    """Entries of a delete file for rows of the table's one data file, not yet committed."""
    layout = table.handle.layout()
    (file,) = table.files()
    if kind == "keys":
        keys = ROWS.select(["id"]).take(list(positions))
        return write_equality_deletes(layout, keys.to_batches(), [1])
    write = write_deletion_vectors if kind == "vector" else write_position_deletes
    return write(layout, [(file, np.array(positions))])


def commit(table, entries, **changes):
    """Commit delete files, with what is said about them changed."""
    of_file = {field.name for field in dataclasses.fields(entries[0].data_file)}
    for_file = {key: value for key, value in changes.items() if key in of_file}
    changed = [
        dataclasses.replace(
            entry,
            data_file=dataclasses.replace(entry.data_file, **for_file),
            **{key: value for key, value in changes.items() if key not in of_file},
        )
        for entry in entries
    ]
    (file,) = table.files()
    snapshot = table.current_snapshot().snapshot_id
    table.handle.commit(
        RowDelta(added_deletes=tuple(changed), starting_snapshot_id=snapshot, referenced_files=(file.location,))
    )
    table.refresh()


def forge(table, change):
    """A table whose metadata is another one's, changed."""
    path = path_of(table.metadata_location)
    document = json.loads(path.read_text())
    change(document)
    forged = path.with_name("forged.metadata.json")
    forged.write_text(json.dumps(document))
    return table.catalog.register_table("d.forged", f"file://{forged}")


def ids(table):
    return sorted(table.scan().to_arrow()["id"].to_pylist())


# ---- places ----


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_delete_files_outside_of_the_table_are_refused_unless_allowed(tmp_path, kind, allowed):
    table = create(tmp_path / "warehouse", kind, **(ALLOW if allowed else {}))
    entries = delete_rows(table, kind)
    outside = tmp_path / f"elsewhere-{name(entries[0].data_file.location)}"
    shutil.copy(path_of(entries[0].data_file.location), outside)
    commit(table, entries, location=f"file://{outside}")
    if allowed:
        assert ids(table) == [0, 3, 4, 5]
        return
    with pytest.raises(SkerryError, match="outside its folder") as caught:
        table.scan().to_arrow()
    assert caught.value.location == f"file://{outside}"


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("content", list(ManifestContent))
def test_manifests_outside_of_the_table_are_refused_unless_allowed(tmp_path, content, allowed):
    table = create(tmp_path / "warehouse", **(ALLOW if allowed else {}))
    commit(table, delete_rows(table, "positions"))
    state = table.handle.state
    snapshot = state.snapshot()
    listed = read_manifest_list(state.storage, snapshot.manifest_list)
    outside = tmp_path / "elsewhere.avro"
    moved = []
    for manifest in listed:
        if manifest.content is content:
            shutil.copy(path_of(manifest.manifest_path), outside)
            manifest = dataclasses.replace(manifest, manifest_path=f"file://{outside}")
        moved.append(manifest)
    encoded = encode_manifest_list(
        moved, format_version=2, snapshot_id=snapshot.snapshot_id, sequence_number=snapshot.sequence_number
    )
    path_of(snapshot.manifest_list).write_bytes(encoded.data)
    fresh = table.catalog.load_table("d.t")
    if allowed:
        assert ids(fresh) == [0, 3, 4, 5]
        return
    with pytest.raises(SkerryError, match="outside its folder") as caught:
        fresh.scan().to_arrow()
    assert caught.value.location == f"file://{outside}"


@pytest.mark.parametrize("allowed", [False, True])
def test_manifest_lists_outside_of_the_table_are_refused_unless_allowed(tmp_path, allowed):
    table = create(tmp_path / "warehouse", **(ALLOW if allowed else {}))
    outside = tmp_path / "elsewhere.avro"
    shutil.copy(path_of(table.handle.state.snapshot().manifest_list), outside)
    forged = forge(table, lambda document: document["snapshots"][0].update({"manifest-list": f"file://{outside}"}))
    if allowed:
        assert ids(forged) == list(range(6))
        return
    with pytest.raises(SkerryError, match="outside its folder") as caught:
        forged.scan().to_arrow()
    assert caught.value.location == f"file://{outside}"


@pytest.mark.parametrize("allowed", [False, True])
def test_statistics_files_outside_of_the_table_count_for_nothing_unless_allowed(tmp_path, allowed):
    table = create(tmp_path / "warehouse", **(ALLOW if allowed else {}))
    outside = tmp_path / "elsewhere.stats"
    shutil.copy(path_of(table.handle.state.metadata.statistics[0].statistics_path), outside)
    forged = forge(table, lambda document: document["statistics"][0].update({"statistics-path": f"file://{outside}"}))
    found = forged.statistics()["id"]
    assert (found.freshness.is_fresh, found.ndv) == ((True, 6) if allowed else (False, None))


def test_no_file_of_the_machine_is_opened_in_the_name_of_a_table(tmp_path):
    table = create(tmp_path)
    entries = delete_rows(table, "positions")
    for location in ("/etc/passwd", "file:///etc/passwd", f"{table.location}/../../../etc/passwd"):
        forged = forge(table, lambda document, at=location: document["snapshots"][0].update({"manifest-list": at}))
        with pytest.raises(SkerryError, match="outside its folder"):
            forged.scan().to_arrow()
        table.catalog.drop_table("d.forged")
    commit(table, entries, location="http://169.254.169.254/latest/meta-data")
    with pytest.raises(SkerryError, match="outside its folder"):
        table.scan().to_arrow()


# ---- promises ----


@pytest.mark.parametrize(
    ("kind", "changes", "error", "message"),
    [
        ("vector", {"content_offset": 0}, FormatError, "vector"),
        ("vector", {"content_offset": 10**12}, FormatError, "in a file of"),
        ("vector", {"content_offset": -5}, FormatError, "content_offset -5"),
        ("vector", {"content_size_bytes": 3}, FormatError, "vector"),
        ("vector", {"content_size_bytes": 10**15}, FormatError, "in a file of"),
        ("vector", {"content_size_bytes": -1}, FormatError, "content_size_in_bytes -1"),
        ("vector", {"record_count": 3}, FormatError, "2 rows, the metadata says 3"),
        ("vector", {"content_offset": None}, FormatError, "needs referenced_data_file, content_offset"),
        ("positions", {"file_format": "orc"}, FormatError, "not ORC"),
        ("positions", {"file_format": "csv"}, UnsupportedError, "csv"),
        ("keys", {"equality_ids": (99,)}, SkerryError, "99"),
        ("keys", {"equality_ids": (2,)}, SkerryError, "2"),
        ("keys", {"equality_ids": ()}, SkerryError, "equality_ids"),
    ],
)
def test_what_is_said_of_delete_files_is_checked(tmp_path, kind, changes, error, message):
    table = create(tmp_path, kind)
    entries = delete_rows(table, kind)

    def act():
        commit(table, entries, **changes)
        table.scan().to_arrow()

    with pytest.raises(error, match=message) as caught:
        act()
    assert caught.value.location == entries[0].data_file.location or caught.value.location.endswith("-m0.avro")


def test_a_data_file_has_one_vector(tmp_path):
    table = create(tmp_path, "vector")
    commit(table, [*delete_rows(table, "vector", (1,)), *delete_rows(table, "vector", (2,))])
    with pytest.raises(FormatError, match="two deletion vectors"):
        table.scan().to_arrow()


@pytest.mark.parametrize("kind", ["positions", "vector"])
def test_rows_that_a_file_does_not_have_cannot_be_deleted(tmp_path, kind):
    table = create(tmp_path, kind)
    layout = table.handle.layout()
    (file,) = table.files()
    write = write_deletion_vectors if kind == "vector" else write_position_deletes
    commit(table, write(layout, [(dataclasses.replace(file, record_count=10**6), np.array([1, 10**5]))]))
    with pytest.raises(FormatError, match="100000"):
        table.scan().to_arrow()


def test_positions_may_come_in_any_order_and_twice(tmp_path):
    """Against the rules, but what is meant is clear."""
    import pyarrow.parquet as pq

    table = create(tmp_path)
    entries = delete_rows(table, "positions", (1, 2))
    path = path_of(entries[0].data_file.location)
    written = pq.read_table(path)
    pq.write_table(written.take([1, 0, 1, 0]), path)
    commit(table, entries, record_count=4, file_size_bytes=path.stat().st_size)
    assert ids(table) == [0, 3, 4, 5]
