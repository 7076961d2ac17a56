"""The same lines of code over an Iceberg table and a Paimon table."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

import skerry
from skerry.errors import AlreadyExistsError, NotFoundError, SchemaError, UnsupportedError

FORMATS = ("iceberg", "paimon")
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("region", pa.string()), ("amount", pa.float64())])


def rows(*records: tuple[int, str | None, float | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, record, strict=True)) for record in records], SCHEMA)


def content(scan) -> list[tuple]:
    return sorted((tuple(row.values()) for row in scan.to_arrow().to_pylist()), key=repr)


@pytest.fixture(params=FORMATS)
def table(request, tmp_path):
    catalog = skerry.connect(tmp_path / "warehouse")
    return catalog.create_table("shop.sales", SCHEMA, format=request.param, partition_by=["region"])


def test_a_table_is_listed_loaded_read_and_travelled(table):
    catalog = table.catalog
    assert catalog.list_namespaces() == ["shop"]
    assert catalog.list_tables() == catalog.list_tables("shop") == ["shop.sales"]
    assert catalog.table_exists("shop.sales")
    assert table.current_snapshot() is None
    assert table.scan().count() == 0

    first = table.append(rows((1, "north", 1.0), (2, "south", 2.0)))
    between = datetime.now(UTC)
    table.append(rows((3, None, 3.0)))
    loaded = catalog.load_table("shop.sales")
    assert loaded.format == table.format
    assert loaded.partition_by == ["region"]
    assert content(loaded.scan()) == [(1, "north", 1.0), (2, "south", 2.0), (3, None, 3.0)]
    assert content(loaded.scan(["amount"], where="region = 'north'")) == [(1.0,)]
    assert content(loaded.scan(where="region IS NULL")) == [(3, None, 3.0)]
    assert loaded.scan(limit=2).count() == len(loaded.scan(limit=2).to_arrow()) == 2
    assert loaded.scan(snapshot=first.snapshot_id).count() == loaded.scan(as_of=between).count() == 2
    assert [snapshot.operation for snapshot in loaded.snapshots()] == ["append", "append"]
    assert [number for _, number in loaded.history()] == [snapshot.snapshot_id for snapshot in loaded.snapshots()]
    assert sum(file.record_count for file in loaded.files()) == 3
    assert "files by partition" in str(loaded.scan(where="region = 'north'").explain())


def test_rows_without_columns_are_counted(table):
    table.append(rows((1, "north", 1.0), (2, "south", 2.0), (3, "north", 3.0)))
    table.delete("id = 1")
    for where, count in ((None, 2), ("amount > 2.5", 1), ("id = 1", 0)):
        found = table.scan([], where=where).to_arrow()
        assert (found.num_rows, found.num_columns) == (count, 0)
    assert table.scan([], limit=1).to_arrow().num_rows == 1


def test_partitions_are_overwritten(table):
    table.append(rows((1, "north", 1.0), (2, "south", 2.0)))
    told = table.overwrite(rows((9, "north", 9.0)), where="region = 'north'")
    assert (told.inserted_rows, told.deleted_rows) == (1, 1)
    assert content(table.scan()) == [(2, "south", 2.0), (9, "north", 9.0)]
    table.overwrite(rows((7, "east", 7.0)))
    assert content(table.scan()) == [(7, "east", 7.0)]


def test_columns_come_go_and_change_their_names(table):
    table.append(rows((1, "north", 1.0)))
    with table.update_schema() as update:
        update.add_column("note", pa.string(), doc="free text")
        update.rename_column("amount", "total")
    assert table.schema.names == ["id", "region", "total", "note"]
    assert content(table.scan()) == [(1, "north", 1.0, None)]
    with table.update_schema() as update:
        update.delete_column("total")
    with table.update_schema() as update:
        update.add_column("total", pa.float64())
    assert content(table.scan(["id", "total"])) == [(1, None)]


def test_branches_and_tags_keep_what_they_name(table):
    table.append(rows((1, "north", 1.0)))
    table.create_tag("start")
    table.create_branch("audit")
    table.append(rows((2, "south", 2.0)), ref="audit")
    assert {"main", "start", "audit"} <= table.refs().keys()
    assert table.scan().count() == table.scan(ref="start").count() == 1
    assert table.scan(ref="audit").count() == 2
    table.fast_forward("main", "audit")
    assert table.refresh().scan().count() == 2
    table.rollback(table.refs()["start"].snapshot_id)
    assert table.scan().count() == 1
    table.drop_ref("audit")
    with pytest.raises(NotFoundError):
        table.scan(ref="audit")


def test_changes_are_told_from_snapshot_to_snapshot(table):
    first = table.append(rows((1, "north", 1.0)))
    table.append(rows((2, "south", 2.0)))
    table.overwrite(rows((3, "north", 3.0)), where="region = 'north'")
    told = table.changes(first.snapshot_id, on=[]).to_arrow()
    found = sorted((row["_change_type"], row["id"]) for row in told.to_pylist())
    assert found == [("DELETE", 1), ("INSERT", 2), ("INSERT", 3)]
    assert told.column_names == [*SCHEMA.names, "_change_type", "_change_ordinal", "_commit_snapshot_id"]


def test_old_snapshots_go_with_their_files(table):
    for number in range(4):
        table.overwrite(rows((number, "north", 1.0)))
    assert not table.expire_snapshots(keep_last=1).snapshot_ids  # all of them are young
    now = datetime.now(UTC)
    told = table.expire_snapshots(keep_last=1, older_than=now, dry_run=True)
    assert len(told.snapshot_ids) == 3
    assert told.size_bytes > 0
    assert len(table.snapshots()) == 4
    table.expire_snapshots(keep_last=1, older_than=now)
    assert len(table.refresh().snapshots()) == 1
    assert content(table.scan()) == [(3, "north", 1.0)]


def test_properties_are_set_and_removed(table):
    table.set_properties({"owner": "me"})
    assert table.catalog.load_table("shop.sales").properties["owner"] == "me"
    table.remove_properties("owner")
    assert "owner" not in table.properties


def test_a_name_is_given_once_whatever_the_format(table):
    other = next(format for format in FORMATS if format != table.format)
    for format in FORMATS:
        with pytest.raises(AlreadyExistsError, match=r"shop\.sales"):
            table.catalog.create_table("shop.sales", SCHEMA, format=format)
    second = table.catalog.create_table("shop.other", SCHEMA, format=other)
    assert table.catalog.list_tables("shop") == ["shop.other", "shop.sales"]
    with pytest.raises(AlreadyExistsError, match=r"shop\.sales"):
        table.catalog.rename_table("shop.other", "shop.sales")
    renamed = table.catalog.rename_table("shop.other", "shop.third")
    assert (second.format, renamed.format) == (other, other)
    table.catalog.drop_table("shop.sales", purge=True)
    assert table.catalog.list_tables() == ["shop.third"]
    with pytest.raises(NotFoundError, match="did you mean"):
        table.catalog.load_table("shop.thrid")


def test_rows_are_deleted_replaced_and_updated_by_key(table):
    table.append(rows((1, "north", 1.0), (2, "south", 2.0), (3, "south", 3.0)))
    assert table.delete("amount > 2.5").deleted_rows == 1
    told = table.upsert(rows((2, "south", 9.0), (4, "east", 4.0)), on=["id"])
    assert (told.inserted_rows, told.updated_rows) == (1, 1)
    assert content(table.scan()) == [(1, "north", 1.0), (2, "south", 9.0), (4, "east", 4.0)]
    table.overwrite(rows((5, "west", 5.0)), where="id >= 2")
    assert content(table.scan()) == [(1, "north", 1.0), (5, "west", 5.0)]


MERGED = pa.table(
    {
        "id": [1, 2, 3, 7, 8],
        "region": ["north", "east", "south", "west", "west"],
        "amount": [10.0, None, 30.0, 70.0, 80.0],
    }
).append_column("op", pa.array(["U", "U", "D", "I", "D"]))


def merge(table):
    return table.merge(
        MERGED,
        on="id",
        when_matched=[
            skerry.Delete("source.op = 'D'"),
            skerry.Update({"amount": "source.amount"}, where="source.amount IS NOT NULL"),
        ],
        when_not_matched=skerry.Insert(where="source.op <> 'D'"),
        when_not_matched_by_source=skerry.Delete("target.amount > 50"),
    )


def test_rows_are_merged_by_the_first_clause_that_is_for_them(table):
    table.append(rows((1, "north", 1.0), (2, "south", 2.0), (3, "south", 3.0), (4, "east", 4.0), (5, "east", 55.0)))
    told = merge(table)
    assert (told.inserted_rows, told.updated_rows, told.deleted_rows) == (1, 1, 2)
    assert content(table.scan()) == [(1, "north", 10.0), (2, "south", 2.0), (4, "east", 4.0), (7, "west", 70.0)]
    with pytest.raises(SchemaError, match="several rows of the source match one row"):
        table.merge(pa.table({"id": [1, 1], "amount": [1.0, 2.0]}), on="id", when_matched="update")


def test_small_files_become_one(table):
    for number in range(6):
        table.append(rows((number, "north", float(number))))
    before = content(table.scan())
    told = table.compact(full=True)
    assert (told.rewritten_files, told.added_files) == (6, 1)
    assert len(table.files()) == 1
    assert content(table.scan()) == before


def test_statistics_come_with_every_commit_and_stay(table):
    table.append(rows(*((number, f"r{number % 3}", 0.5) for number in range(100))))
    known = table.statistics()
    assert {name: found.ndv for name, found in known.items()} == {"id": 100.0, "region": 3.0, "amount": 1.0}
    assert {str(found.freshness) for found in known.values()} == {"fresh"}
    assert (known["id"].min, known["id"].max, known["id"].null_count) == (0, 99, 0)
    table.append(rows((100, "r9", None)))
    table.overwrite(rows((7, "r0", 7.0)), where="region = 'r0'")
    table.compact(full=True)
    assert {str(found) for found in table.freshness().values()} == {"fresh"}
    left = table.scan().to_arrow()
    for name, found in table.statistics().items():
        assert found.ndv == len(left[name].drop_null().unique())
    assert table.statistics("region = 'r1'")["id"].ndv == 33.0
    assert table.analyze().files == 0
    assert [match.column for match in table.catalog.joinable("shop.sales", "id").columns] == []


def test_nothing_but_orphans_is_removed(table, tmp_path):
    table.append(rows((1, "north", 1.0)))
    table.create_tag("start")
    table.overwrite(rows((2, "north", 2.0)))
    table.create_branch("audit")
    table.append(rows((3, "north", 3.0)), ref="audit")
    folder = next(
        path for path in (tmp_path / "warehouse").rglob("*") if path.is_file() and "north" in str(path)
    ).parent
    (folder / "left-behind.parquet").write_bytes(b"nobody's")
    told = table.remove_orphans(older_than_days=0)
    assert [file.location.rsplit("/", 1)[-1] for file in told.files] == ["left-behind.parquet"]
    assert table.scan(ref="start").count() == 1
    assert table.scan(ref="audit").count() == 2
    assert not table.remove_orphans(older_than_days=0).files


def test_rows_that_do_not_fit_change_nothing(table):
    with pytest.raises(SchemaError, match="amount"):
        table.append(pa.table({"id": [1], "region": ["north"], "amount": ["much"]}))
    assert table.current_snapshot() is None


@pytest.fixture
def keyed(tmp_path):
    catalog = skerry.connect(tmp_path / "warehouse")
    return catalog.create_table(
        "shop.stock", SCHEMA, format="paimon", primary_key=["id"], partition_by=["bucket(2, id)"]
    )


def test_rows_of_a_primary_key_replace_each_other(keyed):
    assert keyed.primary_key == ["id"]
    assert keyed.partition_by == ["bucket(2, id)"]
    keyed.append(rows((1, "north", 1.0), (2, "south", 2.0)))
    keyed.append(rows((2, "south", 3.0)))
    assert content(keyed.scan()) == [(1, "north", 1.0), (2, "south", 3.0)]


def test_rows_of_a_primary_key_are_merged_and_may_take_each_others_keys(keyed):
    keyed.append(rows((1, "north", 1.0), (2, "south", 2.0), (3, "south", 3.0), (4, "east", 4.0), (5, "east", 55.0)))
    told = merge(keyed)
    assert (told.inserted_rows, told.updated_rows, told.deleted_rows) == (1, 1, 2)
    assert content(keyed.scan()) == [(1, "north", 10.0), (2, "south", 2.0), (4, "east", 4.0), (7, "west", 70.0)]
    moved = pa.table({"amount": [10.0, 2.0, 4.0], "next": [2, 4, 1]})
    keyed.merge(moved, on="amount", when_matched=skerry.Update({"id": "source.next"}))
    assert content(keyed.scan()) == [(1, "east", 4.0), (2, "north", 10.0), (4, "south", 2.0), (7, "west", 70.0)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sort_by": ["id"]}, "sort_by= is only for Iceberg tables"),
        ({"format_version": 2}, "format_version= is only for Iceberg tables"),
        ({"location": "/tmp/elsewhere"}, "leave out location="),
        ({"partition_by": ["day(id)"]}, r"partitioned by columns and one bucket\(n, columns…\)"),
        ({"file_format": "lance"}, "file_format='lance' is not supported"),
    ],
)
def test_what_paimon_tables_do_not_have_is_refused_by_name(tmp_path, arguments, message):
    catalog = skerry.connect(tmp_path / "warehouse")
    with pytest.raises(UnsupportedError, match=message):
        catalog.create_table("a.b", SCHEMA, format="paimon", **arguments)
    assert catalog.list_tables() == []


def test_a_paimon_table_is_dropped_with_its_folder_only(keyed):
    with pytest.raises(SchemaError, match="purge=True drops it with its files"):
        keyed.catalog.drop_table("shop.stock")
    keyed.catalog.drop_table("shop.stock", purge=True)
    assert keyed.catalog.list_tables() == []


def test_namespaces_of_paimon_tables_do_not_nest(tmp_path):
    catalog = skerry.connect(tmp_path / "warehouse")
    with pytest.raises(UnsupportedError, match="do not nest"):
        catalog.create_table("a.b.c", SCHEMA, format="paimon")


def test_a_folder_of_paimon_tables_needs_no_catalog():
    catalog = skerry.connect("memory://both-formats/lake")
    table = catalog.create_table("a.b", SCHEMA, format="paimon")
    table.append(rows((1, "north", 1.0)))
    assert skerry.connect("memory://both-formats/lake").load_table("a.b").scan().count() == 1


def test_the_same_mistake_has_the_same_message(table):
    """Both formats check arguments in one place, and name a mistake in the same words."""
    table.append(rows((1, "north", 1.0)))
    for mistake, message in (
        (lambda: table.expire_snapshots(keep_last=0), "keep_last must be a whole number above 0, found 0"),
        (lambda: table.compact(min_input_files=1), "min_input_files must be a whole number above 1, found 1"),
        (lambda: table.compact(target_file_size_bytes=0), "target_file_size_bytes must be a whole number above 0"),
        (lambda: table.scan(limit=-1), "limit must be a whole number of at least 0, found -1"),
        (lambda: table.upsert(rows((2, "a", 1.0), (2, "b", 2.0)), on="id"), "several rows of the source have one key"),
        (lambda: table.update_schema().add_column("id", pa.int64()).commit(), "column 'id' already exists"),
        (lambda: table.drop_ref("main"), "branch 'main' cannot be dropped"),
    ):
        with pytest.raises(SchemaError, match=message):
            mistake()
    with pytest.raises(NotFoundError, match=r"no snapshot was current at 2000-01-01T00:00:00\+00:00"):
        table.scan(as_of=datetime(2000, 1, 1, tzinfo=UTC)).count()
