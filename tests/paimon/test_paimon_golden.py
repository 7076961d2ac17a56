"""Tables of Paimon Java and pypaimon, at every snapshot, tag, branch and changelog that they have."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from golden_tables import GoldenTable, golden_tables, sorted_rows

from skerry.paimon.reading.changes import changes
from skerry.paimon.reading.fallback_scan import scan

TABLES = golden_tables()
WITH_CHANGELOG = [table for table in TABLES if (table.folder / "changelog.parquet").exists()]
WITH_INDEX = [table for table in TABLES if "index" in table.name or table.name.startswith("bloom_")]
KINDS = {"INSERT": "+I", "DELETE": "-D", "UPDATE_BEFORE": "-U", "UPDATE_AFTER": "+U"}

each_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


@each_table
def test_every_version_has_its_rows(table: GoldenTable) -> None:
    state = table.state()
    for file, version in table.versions:
        expected = table.expected(file)
        found = scan(state, **version)
        rows = found.to_arrow()
        assert rows.column_names == expected.column_names, file
        assert table.rows(rows) == table.rows(expected), file
    expected = table.expected("expected.parquet")
    assert scan(state).count() == expected.num_rows


@each_table
def test_rows_are_the_same_however_they_are_read(table: GoldenTable) -> None:
    """One thread, no memory to speak of (so that sections are merged as streams), and each column by itself."""
    state, expected = table.state(), table.expected("expected.parquet")
    assert table.rows(scan(state, threads=1, memory_bytes=1).to_arrow()) == table.rows(expected)
    for name in expected.column_names[:: max(len(expected.column_names) // 3, 1)]:
        assert table.rows(scan(state, [name]).to_arrow()) == table.rows(expected.select([name])), name


@each_table
def test_conditions_leave_the_rows_that_they_hold_for(table: GoldenTable) -> None:
    state, expected = table.state(), table.expected("expected.parquet")
    for number, name in enumerate(expected.column_names[:4]):
        column = expected.column(name)
        plain = pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_boolean(column.type)
        if not plain or not len(column.drop_null()):
            continue
        value = column.drop_null()[len(column.drop_null()) // 2]
        if number % 2:  # each column by one of them
            where, mask = pc.field(name) == value, pc.equal(column, value)
        else:
            where = (pc.field(name) != value) | pc.field(name).is_null()
            mask = pc.fill_null(pc.not_equal(column, value), True)
        found = scan(state, where=where)
        wanted = expected.filter(mask)
        assert table.rows(found.to_arrow()) == table.rows(wanted), str(found.predicate)
        assert found.count() == wanted.num_rows, str(found.predicate)


@pytest.mark.parametrize("table", WITH_CHANGELOG, ids=lambda table: table.name)
def test_every_changelog_has_its_rows(table: GoldenTable) -> None:
    expected = table.expected("changelog.parquet")
    first = min(expected.column("_snapshot_id").to_pylist())
    found = changes(table.state(), first - 1).to_arrow()
    kinds = [KINDS[type_] for type_ in found.column("_change_type").to_pylist()]
    renamed = found.drop_columns(["_change_type", "_change_ordinal", "_commit_snapshot_id"])
    renamed = renamed.append_column("_snapshot_id", found.column("_commit_snapshot_id"))
    renamed = renamed.append_column("_row_kind", pa.array(kinds, pa.string()))
    assert sorted_rows(renamed.select(expected.column_names)) == sorted_rows(expected)


@pytest.mark.parametrize("table", WITH_INDEX, ids=lambda table: table.name)
def test_file_indexes_spare_files(table: GoldenTable) -> None:
    """Values between the bounds of files that have them not: only an index can tell."""
    state, expected = table.state(), table.expected("expected.parquet")
    kind = next(name for name in table.case["options"] if name.endswith(".columns"))
    spared = 0
    for name in table.case["options"][kind].split(","):
        column = expected.column(name)
        least, most = (pc.min_max(column)[end].as_py() for end in ("min", "max"))
        if not isinstance(least, int | str) or pa.types.is_timestamp(column.type):
            continue
        absent = range(least, most) if isinstance(least, int) else [least + "!", most[:-1] + "!"]
        present = set(column.to_pylist())
        for value in [value for value in absent if value not in present][:10]:
            found = scan(state, where=pc.field(name) == pa.scalar(value, column.type))
            assert found.count() == 0
            spared += sum(step.total - step.kept for step in found.explain().plan.steps if "index" in step.name)
    assert spared > 0
