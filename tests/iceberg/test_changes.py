"""Changes between snapshots: told from what commits added, removed and deleted from, and from nothing else."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import skerry
from skerry.errors import NotFoundError, SchemaError
from skerry.iceberg.catalogs.pyiceberg_catalogs import as_pyiceberg
from skerry.iceberg.operations import OverwriteFiles, RewriteFiles, RowDelta
from skerry.iceberg.writing.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from skerry.iceberg.writing.table_writers import write_batches
from skerry.table.rows.incoming import conform

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string()), ("x", pa.float64())])
TYPES = {"INSERT": "+", "DELETE": "-", "UPDATE_BEFORE": "<", "UPDATE_AFTER": ">"}


def rows(*pairs):
    return pa.table({"k": [k for k, _ in pairs], "v": [v for _, v in pairs], "x": [0.5 for _ in pairs]}, SCHEMA)


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


def make(catalog, **options):
    return catalog.create_table("d.t", SCHEMA, **{"format_version": 2, **options})


def told(changes):
    """Changes in short: `+`, `-`, `<` and `>` with key and value, per commit in sorted order."""
    table = changes.to_arrow()
    assert table.schema.equals(changes.schema)
    commits = {}
    for row in table.to_pylist():
        commits.setdefault(row["_change_ordinal"], []).append(TYPES[row["_change_type"]] + f"{row['k']}{row['v']}")
    return {ordinal: sorted(found) for ordinal, found in commits.items()}


def head(table):
    return table.refresh().current_snapshot().snapshot_id


def locations(table):
    return {tuple(sorted(set(keys))): loc for loc, keys in _keys_by_file(table).items()}


def _keys_by_file(table):
    found = {}
    for row in table.scan(columns=["k", "_file"]).to_arrow().to_pylist():
        found.setdefault(row["_file"], []).append(row["k"])
    return found


def overwrite(table, removed, new):
    """Copy-on-write: other files in place of some."""
    implementation = table.handle
    state = implementation.refresh()
    files = write_batches(implementation.layout(), conform(new, state.schema)) if new is not None else []
    implementation.commit(
        OverwriteFiles(tuple(files), tuple(removed), starting_snapshot_id=state.snapshot().snapshot_id)
    )
    return head(table)


def delete_rows(table, positions_of_file, new=None, replaced=()):
    """Merge-on-read: positions or deletion vectors, perhaps with new rows in the same commit."""
    implementation = table.handle
    state = implementation.refresh()
    layout = implementation.layout()
    files = write_batches(layout, conform(new, state.schema)) if new is not None else []
    data = {file.location: file for file in table.files()}
    deletes = [(data[location], np.array(positions)) for location, positions in positions_of_file.items()]
    write = write_deletion_vectors if table.format_version == 3 else write_position_deletes
    added_deletes = tuple(write(layout, deletes))
    starting = state.snapshot().snapshot_id
    implementation.commit(
        RowDelta(tuple(files), added_deletes, removed_deletes=tuple(replaced), starting_snapshot_id=starting)
    )
    return head(table)


def delete_keys(table, keys, new=None):
    """Merge-on-read: equality deletes on `k`."""
    implementation = table.handle
    state = implementation.refresh()
    layout = implementation.layout()
    files = write_batches(layout, conform(new, state.schema)) if new is not None else []
    batches = list(conform(rows(*((k, "") for k in keys)), state.schema))
    deletes = tuple(write_equality_deletes(layout, batches, [1]))
    implementation.commit(RowDelta(tuple(files), deletes, starting_snapshot_id=state.snapshot().snapshot_id))
    return head(table)


def test_appends_are_inserts(catalog):
    table = make(catalog)
    assert table.changes().to_arrow().num_rows == 0
    table.append(rows((1, "a"), (2, "b")))
    first = head(table)
    table.append(rows((3, "c")))
    assert told(table.changes()) == {0: ["+1a", "+2b"], 1: ["+3c"]}
    assert told(table.changes(first)) == {0: ["+3c"]}
    assert told(table.changes(first, first)) == {}
    assert told(table.changes(None, first)) == {0: ["+1a", "+2b"]}
    found = table.changes(first).to_arrow()
    assert found.column("_commit_snapshot_id").to_pylist() == [head(table)]
    assert found.schema.names[-3:] == ["_change_type", "_change_ordinal", "_commit_snapshot_id"]
    assert pa.table(table.changes(first)).num_rows == 1, "an Arrow stream itself"


def test_copied_rows_net_out(catalog):
    table = make(catalog)
    table.append(rows((1, "a"), (2, "b"), (2, "b"), (3, "c")))
    before = head(table)
    (location,) = locations(table).values()
    after = overwrite(table, [location], rows((1, "a"), (2, "b"), (3, "C"), (4, "d")))
    assert told(table.changes(before, after)) == {0: ["+3C", "+4d", "-2b", "-3c"]}
    assert told(table.changes(before, after, on=["k"])) == {0: ["+4d", "-2b", "<3c", ">3C"]}
    everything = told(table.changes(before, after, carried_over=True))
    assert everything == {0: ["+1a", "+2b", "+3C", "+4d", "-1a", "-2b", "-2b", "-3c"]}


def test_a_change_that_only_removes_is_all_deletes(catalog):
    table = make(catalog)
    table.append(rows((1, "a")))
    table.append(rows((2, "b")))
    before = head(table)
    overwrite(table, [locations(table)[(1,)]], None)
    assert told(table.changes(before)) == {0: ["-1a"]}


@pytest.mark.parametrize("format_version", [2, 3])
def test_rows_deleted_by_position(catalog, format_version):
    table = make(catalog, format_version=format_version)
    table.append(rows((1, "a"), (2, "b"), (3, "c")))
    table.append(rows((4, "d"), (5, "e")))
    before = head(table)
    files = locations(table)
    after = delete_rows(table, {files[(1, 2, 3)]: [1], files[(4, 5)]: [0]})
    assert told(table.changes(before, after)) == {0: ["-2b", "-4d"]}
    replaced = [
        (delete.location, delete.content_offset)
        for task in table.scan().plan()
        for delete in task.deletes
        if format_version == 3 and task.data_file.location == files[(1, 2, 3)]
    ]
    later = delete_rows(table, {files[(1, 2, 3)]: [1, 2]}, rows((3, "C"), (9, "z")), replaced)
    assert told(table.changes(after, later, on=["k"])) == {0: ["+9z", "<3c", ">3C"]}
    assert told(table.changes(before, later)) == {0: ["-2b", "-4d"], 1: ["+3C", "+9z", "-3c"]}
    assert told(table.changes(after, later, on=["k"], where="v = 'C'")) == {0: [">3C"]}
    assert told(table.changes(after, later, on=["k"], where="k = 3")) == {0: ["<3c", ">3C"]}


def test_rows_deleted_by_key(catalog):
    table = make(catalog)
    table.append(rows((1, "a"), (2, "b"), (3, "c")))
    table.append(rows((1, "again"), (4, "d")))
    before = head(table)
    after = delete_keys(table, [1, 4, 7], rows((1, "new"), (4, "d")))
    assert told(table.changes(before, after)) == {0: ["+1new", "-1a", "-1again"]}
    files = locations(table)
    later = delete_rows(table, {files[(2, 3)]: [1]})
    assert told(table.changes(after, later)) == {0: ["-2b"]}
    last = delete_keys(table, [1, 2, 3])
    assert told(table.changes(later, last)) == {0: ["-1new", "-3c"]}
    assert Counter(table.scan().to_arrow().column("k").to_pylist()) == Counter([4])


def test_files_removed_with_their_deletes_lose_only_live_rows(catalog):
    table = make(catalog)
    table.append(rows((1, "a"), (2, "b"), (3, "c")))
    delete_keys(table, [1])
    (location,) = _keys_by_file(table)
    before = delete_rows(table, {location: [1]})
    after = overwrite(table, [location], rows((8, "h")))
    assert told(table.changes(before, after)) == {0: ["+8h", "-3c"]}


def test_compaction_changes_nothing(catalog):
    table = make(catalog)
    table.append(rows((1, "a")))
    table.append(rows((2, "b")))
    before = head(table)
    implementation = table.handle
    state = implementation.refresh()
    files = write_batches(implementation.layout(), conform(rows((1, "a"), (2, "b")), state.schema))
    removed = tuple(file.location for file in table.files())
    implementation.commit(RewriteFiles(tuple(files), removed, starting_snapshot_id=before))
    table.refresh().append(rows((3, "c")))
    assert told(table.changes(before)) == {0: ["+3c"]}
    assert table.changes(before).snapshot_ids == [head(table)]


def test_row_ids_pair_images_in_version_3(catalog):
    table = make(catalog, format_version=3)
    table.append(rows((1, "a"), (2, "b")))
    before = head(table)
    implementation = table.handle
    state = implementation.refresh()
    read = table.scan(columns=["k", "v", "x", "_row_id"]).to_arrow()
    new = read.set_column(1, state.schema.field("v"), pa.array(["a", "B"]))
    new = new.append_column("_last_updated_sequence_number", pa.array([1, None], pa.int64()))
    layout = implementation.layout(lineage=True)
    files = write_batches(layout, new.cast(layout.file_schema).to_batches())
    (location,) = locations(table).values()
    implementation.commit(OverwriteFiles(tuple(files), (location,), starting_snapshot_id=before))
    after = head(table)
    assert told(table.changes(before, after)) == {0: ["<2b", ">2B"]}
    assert told(table.changes(before, after, on=[])) == {0: ["+2B", "-2b"]}


def test_identifier_columns_pair_images(catalog):
    table = make(catalog, primary_key=["k"])
    table.append(rows((1, "a"), (2, "b")))
    before = head(table)
    (location,) = locations(table).values()
    after = overwrite(table, [location], rows((1, "A"), (2, "b")))
    assert told(table.changes(before, after)) == {0: ["<1a", ">1A"]}


def test_only_some_columns_and_rows(catalog):
    table = make(catalog)
    table.append(rows((1, "a"), (2, "b")))
    before = head(table)
    (location,) = locations(table).values()
    overwrite(table, [location], rows((1, "A"), (2, "b"), (3, "c")))
    found = table.changes(before, columns=["k"]).to_arrow()
    assert found.column_names == ["k", "_change_type", "_change_ordinal", "_commit_snapshot_id"]
    changed = [(row["k"], row["_change_type"]) for row in found.to_pylist()]
    assert sorted(changed) == [(1, "DELETE"), (1, "INSERT"), (3, "INSERT")]
    assert told(table.changes(before, where="k >= 2")) == {0: ["+3c"]}
    assert told(table.changes(where="v = 'b'")) == {0: ["+2b"]}


def test_columns_of_today_over_rows_of_yesterday(catalog):
    table = make(catalog)
    table.append(rows((1, "a")))
    before = head(table)
    table.update_schema().add_column("extra", pa.int32()).rename_column("v", "w").commit()
    table.refresh().append(pa.table({"k": [2], "w": ["b"], "x": [1.0], "extra": pa.array([7], pa.int32())}))
    found = table.changes().to_arrow().to_pylist()
    assert [(row["k"], row["w"], row["extra"]) for row in found] == [(1, "a", None), (2, "b", 7)]
    assert table.changes(None, before).schema.names[:3] == ["k", "v", "x"], "an older snapshot has the columns it had"


def test_only_what_changed_is_read(catalog):
    table = make(catalog, properties={"write.parquet.row-group-size-bytes": "100000"})
    random = np.random.default_rng(7)
    for _ in range(5):
        parts = [
            pa.table(
                {
                    "k": range(start, start + 2000),
                    "v": [random.bytes(20).hex() for _ in range(2000)],
                    "x": random.random(2000),
                },
                SCHEMA,
            )
            for start in range(0, 20_000, 2000)
        ]
        table.append(pa.concat_tables(parts))
    before = head(table)
    file = table.files()[-1]
    assert len(file.split_offsets) >= 5
    after = delete_rows(table, {file.location: [17, 18, 19_999]})
    metrics = table.handle.state.storage.metrics
    opened, read = metrics.files_opened, metrics.bytes_read
    found = table.changes(before, after).to_arrow()
    assert sorted(found.column("k").to_pylist()) == [17, 18, 19_999]
    assert metrics.files_opened - opened <= 4, "the data file, for its parts and its rows, and the delete file"
    assert metrics.bytes_read - read < file.file_size_bytes / 2, "two of its row groups and metadata"


def test_wrong_order_other_branches_and_unknown_snapshots(catalog):
    table = make(catalog)
    table.append(rows((1, "a")))
    first = head(table)
    table.append(rows((2, "b")))
    second = head(table)
    table.create_branch("side", first)
    table.refresh().append(rows((3, "c")), ref="side")
    side = table.refresh().refs()["side"].snapshot_id
    with pytest.raises(SchemaError, match=f"snapshot {second} came after {first}: changes are read from old to new"):
        table.changes(second, first)
    with pytest.raises(SchemaError, match=f"{second} is not an ancestor of {side}: they are on different branches"):
        table.changes(second, side)
    with pytest.raises(NotFoundError, match="no snapshot 5; it may have expired"):
        table.changes(5)
    with pytest.raises(NotFoundError, match="no branch or tag 'sied'"):
        table.changes(first, "sied")
    assert told(table.changes(first, "side")) == {0: ["+3c"]}
    assert told(table.changes("side", "side")) == {}
    with pytest.raises(SchemaError, match="no column 'q'"):
        table.changes(columns=["q"])
    with pytest.raises(SchemaError, match="no column 'q'"):
        table.changes(on=["q"])


def test_expired_snapshots_are_named(catalog):
    table = make(catalog)
    table.append(rows((1, "a")))
    first = head(table)
    table.append(rows((2, "b")))
    second = head(table)
    table.append(rows((3, "c")))
    as_pyiceberg(table.handle.catalog).load_table(("d", "t")).maintenance.expire_snapshots().by_id(first).commit()
    table.refresh()
    assert told(table.changes(second)) == {0: ["+3c"]}
    with pytest.raises(NotFoundError, match=f"the parent of snapshot {second} has expired"):
        table.changes().to_arrow()


def test_a_table_with_columns_of_these_names(catalog):
    table = catalog.create_table("d.u", pa.schema([("_change_type", pa.string())]))
    with pytest.raises(SchemaError, match="column '_change_type' has a name that is reserved for changes"):
        table.changes()
