"""Tables in new folders: Spark reads what we registered there, and we read what Spark prepared to be copied."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from foreign_samples import plain_rows

import skerry
from skerry.table.statistics.column_statistics import FreshnessState

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": pa.array(range(20), pa.int64()), "name": [f"n{n % 7}" for n in range(20)]})
TABLE = {
    "partition_by": ["bucket(2, id)"],
    "properties": {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"},
}


def history(table: skerry.Table) -> list[list[dict[str, object]]]:
    """The rows of every snapshot."""
    return [plain_rows(table.scan(snapshot=snapshot.snapshot_id).to_arrow()) for snapshot in table.snapshots()]


def history_in_spark(session, table: skerry.Table) -> list[list[dict[str, object]]]:
    query = "SELECT * FROM skerry.d.t VERSION AS OF {}"
    return [plain_rows(session.sql(query.format(snapshot.snapshot_id)).toArrow()) for snapshot in table.snapshots()]


def changed_by_both(table: skerry.Table, session) -> None:
    """Data and deletes of both engines."""
    table.append(ROWS)
    session.sql("DELETE FROM skerry.d.t WHERE id IN (3, 4)")
    table.refresh().delete("id IN (5, 6)")
    session.sql("INSERT INTO skerry.d.t VALUES (100, 'Spark')")


@pytest.mark.parametrize("version", [2, 3])
def test_spark_goes_on_with_a_table_that_is_registered_with_prefixes(iceberg_spark, tmp_path, version):
    old, new = tmp_path / "old", tmp_path / "new"
    table = skerry.connect(old).create_table("d.t", ROWS.schema, format_version=version, **TABLE)
    changed_by_both(table, iceberg_spark(old))
    expected = history(table.refresh())
    folder = tmp_path / "far"
    shutil.copytree(table.location.removeprefix("file://"), folder)
    metadata = folder / "metadata" / Path(table.metadata_location).name
    catalog = skerry.connect(new)
    catalog.create_namespace("d")
    moved = catalog.register_table("d.t", str(metadata), prefixes={table.location: f"file://{folder}"})
    shutil.rmtree(old)
    session = iceberg_spark(new)
    assert history_in_spark(session, moved) == expected == history(moved)
    session.sql("UPDATE skerry.d.t SET name = 'moved' WHERE id IN (1, 7)")
    session.sql("CALL skerry.system.rewrite_data_files(table => 'd.t', options => map('rewrite-all', 'true'))")
    rows = [{**row, "name": "moved"} if row["id"] in (1, 7) else row for row in expected[-1]]
    assert plain_rows(moved.refresh().scan().to_arrow()) == rows
    assert all(str(folder) in file.location for file in moved.files()), moved.files()


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_that_spark_prepared_for_a_copy(iceberg_spark, tmp_path, version):
    """`rewrite_table_path` writes metadata with new names, and a list of what must be copied to where.

    All changes are ours: it fails if some files are named `file:///…` and others `file:/…`, as Spark names its own.
    """
    old, new = tmp_path / "old", tmp_path / "new"
    table = skerry.connect(old).create_table("d.t", ROWS.schema, format_version=version, **TABLE)
    session = iceberg_spark(old)
    table.append(ROWS)
    table.delete("id IN (3, 4)")
    table.update({"name": "'again'"}, where="id = 9")
    expected = history(table)
    target, staging = f"file://{tmp_path}/far", tmp_path / "staging"
    called = session.sql(
        f"CALL skerry.system.rewrite_table_path(table => 'd.t', source_prefix => '{table.location}', "
        f"target_prefix => '{target}', staging_location => 'file://{staging}')"
    ).first()
    listed = Path(called["file_list_location"].removeprefix("file://")).read_text().splitlines()
    for names in csv.reader(listed):
        source, copy = (Path(name.removeprefix("file://")) for name in names)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    catalog = skerry.connect(new)
    catalog.create_namespace("d")
    moved = catalog.register_table("d.t", f"{target}/metadata/{called['latest_version']}")
    shutil.rmtree(old)
    assert history(moved) == expected
    for name, column in moved.statistics().items():  # Spark changes a statistics file's name, and none of its bytes
        assert column.freshness.state is not FreshnessState.FRESH or column.ndv == len(
            {row[name] for row in expected[-1]}
        ), (name, column)
    moved.append(ROWS)
    moved.compact(full=True)
    assert moved.refresh().scan().count() == len(expected[-1]) + 20
    assert moved.statistics()["id"].freshness.is_fresh
