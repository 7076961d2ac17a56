"""Tables made by Spark and Iceberg's Java classes: the rows of every snapshot, branch and tag, without a JVM."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from foreign_samples import plain_rows, sample_names, unpack

import skerry
from skerry.storage import Storage
from skerry.table.inspection.inspect import METADATA_TABLES

LINEAGE = ["id", "_row_id", "_last_updated_sequence_number"]


def scan(table, state, **options):
    kind, _, name = state.partition(":")
    if state == "current":
        return table.scan(**options)
    return table.scan(ref=name, **options) if name else table.scan(snapshot=int(kind), **options)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A function that opens each sample once."""
    found = {}

    def open_sample(name):
        if name not in found:
            sample = unpack(name)
            found[name] = sample, sample.open(tmp_path_factory.mktemp(name))
        return found[name]

    return open_sample


@pytest.mark.parametrize("name", sample_names())
def test_every_state_has_the_rows_that_were_put_there(opened, name):
    sample, table = opened(name)
    assert len(sample.states) >= 2
    for state, rows in sample.states.items():
        assert plain_rows(scan(table, state).to_arrow()) == rows, state
        assert scan(table, state).count() == len(rows), state


@pytest.mark.parametrize("name", sample_names())
def test_conditions_and_columns_choose_among_them(opened, name):
    sample, table = opened(name)
    for state, rows in list(sample.states.items())[-3:]:
        found = scan(table, state, columns=["id"], where="id BETWEEN 2 AND 35 AND id <> 20").to_arrow()
        assert plain_rows(found) == [{"id": row["id"]} for row in rows if 2 <= row["id"] <= 35 and row["id"] != 20]
        text = next((column for column in rows[0] if column in ("name", "title", "label")), None)
        for value in {row[text] for row in rows[:1] + rows[-1:]} if text else ():
            condition = f"{text} IS NULL" if value is None else f"{text} = '{value}'"
            wanted = [row for row in rows if row[text] == value]
            assert plain_rows(scan(table, state, where=condition).to_arrow()) == wanted, (state, condition)


@pytest.mark.parametrize("name", sample_names())
def test_rows_keep_their_ids_and_tell_what_updated_them(opened, name):
    sample, table = opened(name)
    for state, lineage in sample.lineage.items():
        found = plain_rows(scan(table, state, columns=LINEAGE).to_arrow())
        expected = [
            dict(zip(LINEAGE, (row["id"], *numbers), strict=True))
            for row, numbers in zip(sample.states[state], lineage, strict=True)
        ]
        assert found == expected, state


@pytest.mark.parametrize("name", sorted(set(sample_names()) - {"branches"}))
def test_changes_lead_from_each_state_to_the_next(opened, name):
    sample, table = opened(name)
    before, old = None, {}
    for snapshot in (int(state) for state in sample.states if state != "current"):
        new = {row["id"]: row for row in sample.states[str(snapshot)]}
        changes = plain_rows(table.changes(before, snapshot, on=["id"]).to_arrow())
        kinds = {}
        for row in changes:
            kinds.setdefault(row["id"], []).append(row["_change_type"])
        if not old or old[min(old)].keys() == new[min(new)].keys():
            expected = {
                key: ["DELETE"]
                if key not in new
                else ["INSERT"]
                if key not in old
                else ["UPDATE_BEFORE", "UPDATE_AFTER"]
                for key in {*old, *new}
                if old.get(key) != new.get(key)
            }
            assert kinds == expected, snapshot
            for row in changes:
                image = {key: value for key, value in row.items() if not key.startswith("_")}
                assert image == (old if row["_change_type"] in ("DELETE", "UPDATE_BEFORE") else new)[row["id"]]
        before, old = snapshot, new


@pytest.fixture
def changeable(tmp_path):
    """A function that opens a sample of its own, to be changed."""

    def open_sample(name):
        sample = unpack(name)
        return sample.open(tmp_path / "warehouse"), sample.states["current"]

    return open_sample


@pytest.mark.parametrize("name", sample_names())
def test_what_others_wrote_can_be_changed(changeable, name):
    table, rows = changeable(name)
    if name == "every_type_orc":  # has times that we do not write to ORC files
        table.set_properties({"write.format.default": "parquet"})
    ids = [row["id"] for row in rows]
    gone, kept = set(ids[::3]), [row for row in rows if row["id"] not in ids[::3]]
    before = {row["id"]: row for row in plain_rows(table.scan(LINEAGE).to_arrow())} if table.format_version == 3 else {}
    table.delete("id IN (" + ", ".join(map(str, gone)) + ")")
    assert plain_rows(table.scan().to_arrow()) == kept
    table.compact(full=True)
    assert plain_rows(table.scan().to_arrow()) == kept
    assert not any(task.deletes for task in table.scan().plan())
    if before:
        assert plain_rows(table.scan(LINEAGE).to_arrow()) == [before[row["id"]] for row in kept]
    again = table.scan(where=f"id = {kept[0]['id']}").to_arrow()
    table.upsert(again, on="id")
    place, field = again.schema.get_field_index("id"), table.schema.field("id")
    table.append(again.set_column(place, field, pa.array([12345], field.type)))
    assert plain_rows(table.scan().to_arrow()) == sorted([*kept, {**kept[0], "id": 12345}], key=lambda row: row["id"])


@pytest.mark.parametrize("name", sample_names())
def test_their_metadata_is_shown(opened, name):
    sample, table = opened(name)
    inspect = table.inspect
    for metadata_table in METADATA_TABLES:
        found = inspect.read(metadata_table)
        found.validate(full=True)
        assert found.schema == inspect.schema(metadata_table)
    for state, rows in sample.states.items():
        kind, _, ref = state.partition(":")
        at = {} if state == "current" else {"ref": ref} if ref else {"snapshot": int(kind)}
        files = inspect.files(**at)
        counts = [
            pc.sum(files.filter(pc.equal(files["content"], kind))["record_count"]).as_py() or 0 for kind in (0, 2)
        ]
        positions = inspect.position_deletes(**at).num_rows
        assert counts[0] >= len(rows) >= counts[0] - positions - counts[1], state
    current = inspect.files()
    data = current.filter(pc.equal(current["content"], 0))
    assert sorted(file.location for file in table.files()) == sorted(data["file_path"].to_pylist())


@pytest.mark.parametrize("name", sample_names())
def test_their_folder_is_enough(opened, name):
    sample, _ = opened(name)
    folder, copy = sample.metadata.rpartition("/metadata/")[0], f"memory://copied/{name}"
    storage = Storage()
    for location in sample.files:
        storage.write(location.replace(folder, copy), storage.read(location), overwrite=True)
    table = skerry.open_table(copy)
    assert table.metadata_location == sample.metadata.replace(folder, copy)
    assert plain_rows(table.scan().to_arrow()) == sample.states["current"]
