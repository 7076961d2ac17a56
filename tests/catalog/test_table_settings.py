"""Partition evolution, sort orders, properties and format versions, in all versions and against rivals."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from rivals import SCHEMA, beaten_by, keys, metadata_json, peer, rows

import skerry
from skerry.errors import NotFoundError, SchemaError


@pytest.fixture
def warehouse(tmp_path):
    return tmp_path / "warehouse"


@pytest.fixture
def catalog(warehouse):
    return skerry.connect(warehouse)


def made(catalog, version=2, **options):
    table = catalog.create_table(
        "d.t", SCHEMA, format_version=version, properties={"commit.retry.min-wait-ms": "1"}, **options
    )
    table.append(rows(0, 12))
    return table


def spec_json(table):
    metadata = metadata_json(table)
    found = next(spec for spec in metadata["partition-specs"] if spec["spec-id"] == metadata["default-spec-id"])
    return [(field["field-id"], field["name"], field["transform"]) for field in found["fields"]]


# Partition specs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_of_several_specs_are_read_and_pruned_each_by_its_own(catalog, warehouse, version):
    table = made(catalog, version, partition_by=["day(d)"])
    with table.update_spec() as update:
        update.remove_field("d_day").add_field("bucket(4, k)").add_field("truncate(6, s) as head")
    table.append(rows(12, 24))
    with table.update_spec() as update:
        update.add_field("identity(d)").remove_field("k_bucket")
    table.append(rows(24, 36))
    assert keys(table) == [*range(36)]
    for where in ("d = DATE '2020-01-02'", "k = 5", "k > 30", "s = 'word 3' and d >= DATE '2020-01-02'"):
        expected = {row["k"] for row in rows(0, 36).to_pylist() if _holds(where, row)}
        assert set(keys(table, where=where)) == expected, where
        theirs = peer(warehouse, "d.t").scan(row_filter=where.replace("DATE ", "")).to_arrow()
        assert set(theirs["k"].to_pylist()) == expected, where
    assert len(metadata_json(table)["partition-specs"]) == 3
    assert {file.spec_id for file in table.files()} == {0, 1, 2}


def _holds(where, row):
    return eval(
        where.replace(" = ", " == ").replace("DATE ", "").replace("'2020-01-02'", "day"),
        {"day": dt.date(2020, 1, 2)},
        row,
    )


def test_field_ids_are_used_again_for_the_same_field(catalog):
    table = made(catalog, partition_by=["day(d)", "bucket(4, k)"])
    assert spec_json(table) == [(1000, "d_day", "day"), (1001, "k_bucket", "bucket[4]")]
    table.update_spec().remove_field("d_day").add_field("bucket(8, k) as finer").commit()
    assert spec_json(table) == [(1001, "k_bucket", "bucket[4]"), (1002, "finer", "bucket[8]")]
    table.update_spec().add_field("day(d) as again").commit()
    assert (1000, "again", "day") in spec_json(table)


def test_an_earlier_spec_is_taken_up_again(catalog):
    table = made(catalog, partition_by=["day(d)"])
    table.update_spec().remove_field("d_day").commit()
    assert (table.partition_by, metadata_json(table)["default-spec-id"]) == ([], 1)
    table.update_spec().add_field("day(d)").commit()
    assert (table.partition_by, metadata_json(table)["default-spec-id"]) == (["day(d)"], 0)
    location = table.metadata_location
    table.update_spec().remove_field("d_day").add_field("day(d)").commit()
    assert table.metadata_location == location


def test_version_1_keeps_the_place_of_a_removed_field(catalog, warehouse):
    table = made(catalog, 1, partition_by=["day(d)", "k"])
    with table.update_spec() as update:
        update.remove_field("d_day").add_field("month(d) as d_day")
    assert spec_json(table) == [(1000, "d_day_1000", "void"), (1001, "k", "identity"), (1002, "d_day", "month")]
    assert metadata_json(table)["partition-spec"] == [
        {"source-id": 3, "field-id": 1000, "transform": "void", "name": "d_day_1000"},
        {"source-id": 1, "field-id": 1001, "transform": "identity", "name": "k"},
        {"source-id": 3, "field-id": 1002, "transform": "month", "name": "d_day"},
    ]
    table.append(rows(12, 15))
    assert keys(table) == [*range(15)]
    assert peer(warehouse, "d.t").scan().to_arrow().num_rows == 15


@pytest.mark.parametrize("transform", ["s", "truncate(3, s)", "bucket(4, s)"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_column_that_was_partitioned_by_can_be_dropped(catalog, warehouse, version, transform):
    table = made(catalog, version, partition_by=[transform])
    table.update_spec().remove_field(spec_json(table)[0][1]).commit()
    table.update_schema().delete_column("s").commit()
    assert table.partition_by == []
    table.append(rows(12, 15).drop_columns(["s"]))
    assert keys(table) == [*range(15)]
    assert keys(table, where="k > 10") == [11, 12, 13, 14]
    assert peer(warehouse, "d.t").scan().to_arrow().num_rows == 15
    first = table.snapshots()[0].snapshot_id
    assert table.scan(["s"], snapshot=first, where="s = 'word 3'").to_arrow()["s"].to_pylist() == ["word 3", "word 3"]
    table.delete("k >= 6")
    assert keys(table) == [*range(6)]


def test_renamed_partition_fields(catalog, warehouse):
    table = made(catalog, partition_by=["day(d)"])
    table.update_spec().rename_field("d_day", "day_of_d").commit()
    table.append(rows(12, 15))
    assert spec_json(table) == [(1000, "day_of_d", "day")]
    assert keys(table, where="d = DATE '2020-01-01'") == [0, 3, 6, 9, 12]
    assert peer(warehouse, "d.t").scan().to_arrow().num_rows == 15


SPEC_CHANGES = [
    (lambda u: u.add_field("hour(k)"), "hour"),
    (lambda u: u.add_field("bucket(4, nothing)"), "no column 'nothing' to partition"),
    (lambda u: u.add_field("month(d)"), "partition field 'd_day' is the same"),
    (lambda u: u.add_field("bucket(4, k) as s"), "the name 's' is taken"),
    (lambda u: u.add_field("bucket(4, k) as d_day"), "there is a partition field 'd_day' already"),
    (lambda u: u.remove_field("day"), "no partition field 'day'; did you mean 'd_day'"),
    (lambda u: u.rename_field("d_day", "k"), "'k' is the name of a column"),
    (lambda u: u.rename_field("d_day", ""), "a partition field needs a name"),
]


@pytest.mark.parametrize(("change", "message"), SPEC_CHANGES, ids=range(len(SPEC_CHANGES)))
def test_spec_changes_that_do_not_fit_change_nothing(catalog, change, message):
    table = made(catalog, partition_by=["day(d)"])
    location = table.metadata_location
    with pytest.raises(SchemaError, match=message):
        change(table.update_spec().add_field("truncate(2, s)")).commit()
    assert table.refresh().metadata_location == location


def test_spec_changes_are_made_to_what_a_rival_left(catalog, monkeypatch):
    table = made(catalog)
    rival = catalog.load_table("d.t")
    attempts = beaten_by(
        monkeypatch,
        lambda: rival.update_spec().add_field("bucket(4, k)").commit(),
        lambda: rival.update_schema().rename_column("d", "day").commit(),
        lambda: rival.append(rows(12, 15).rename_columns(["k", "s", "day"])),
    )
    with pytest.raises(SchemaError, match="no column 'd' to partition"):
        table.update_spec().add_field("day(d)").commit()
    assert len(attempts) == 2
    table.update_spec().add_field("day(day)").commit()
    assert table.partition_by == ["bucket(4, k)", "day(day)"]
    assert keys(table) == [*range(15)]


# Sort orders ---------------------------------------------------------------------------------------------------------


def test_sort_orders(catalog, warehouse):
    table = made(catalog)
    assert table.sort_by == []
    table.update_sort_order(["s desc nulls last", "bucket(4, k)"])
    table.append(rows(12, 24))
    assert table.sort_by == ["s desc nulls last", "bucket(4, k) asc nulls first"]
    assert table.files()[0].sort_order_id == 1 or table.files()[1].sort_order_id == 1
    assert [str(field.direction) for field in peer(warehouse, "d.t").sort_order().fields] == ["DESC", "ASC"]
    table.update_sort_order([])
    assert (table.sort_by, metadata_json(table)["default-sort-order-id"]) == ([], 0)
    table.update_sort_order(["s desc nulls last", "bucket(4, k)"])
    metadata = metadata_json(table)
    assert (metadata["default-sort-order-id"], len(metadata["sort-orders"])) == (1, 2)
    location = table.metadata_location
    table.update_sort_order(["s desc", "bucket(4, k) asc"])
    assert table.metadata_location == location
    with pytest.raises(SchemaError, match="no column 'x'"):
        table.update_sort_order(["x"])
    with pytest.raises(SchemaError, match="sort_by must be a list of strings"):
        table.update_sort_order("k")


def test_a_table_sorted_from_the_start_can_be_unsorted(catalog, warehouse):
    table = made(catalog, sort_by=["k"])
    table.update_sort_order([])
    assert table.sort_by == []
    assert peer(warehouse, "d.t").sort_order().is_unsorted


# Properties ----------------------------------------------------------------------------------------------------------


def test_properties(catalog, warehouse):
    table = made(catalog)
    before = table.properties
    table.set_properties({"a.b": "1"}, owner="me")
    assert table.properties == {**before, "a.b": "1", "owner": "me"} == peer(warehouse, "d.t").properties
    location = table.metadata_location
    table.set_properties(owner="me")
    assert table.metadata_location == location
    with pytest.raises(NotFoundError, match="no table property 'ownr'; did you mean 'owner'"):
        table.remove_properties("a.b", "ownr")
    table.remove_properties("a.b", "owner")
    assert table.properties == before


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"format-version": "3"},
            r"'format-version' cannot be set as a property; upgrade\(format_version\)",
        ),
        ({"default-sort-order": "x"}, r"update_sort_order\(\) changes it"),
        ({"a": 1}, "names and values of properties must be strings, found 'a': 1"),
        ({"commit.retry.num-retries": 5}, "must be strings, found 'commit.retry.num-retries': 5"),
        ({"skerry.statistics.columns": "kk"}, "names 'kk', which is not a primitive column"),
        ({"skerry.statistics.enabled": "maybe"}, "must be true or false"),
        ({"skerry.statistics.partition-sketch-bytes": "many"}, "must be a whole number, found 'many'"),
    ],
)
def test_properties_without_sense(catalog, properties, message):
    table = made(catalog)
    location = table.metadata_location
    with pytest.raises(SchemaError, match=message):
        table.set_properties(properties)
    assert table.refresh().metadata_location == location


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("skerry.statistics.max-groups", "0", "must be a whole number above 0, found '0'"),
        ("commit.retry.num-retries", "lots", "must be a whole number"),
        ("commit.manifest.min-count-to-merge", "0", "must be a whole number above 0"),
        ("history.expire.min-snapshots-to-keep", "0", "must be a whole number above 0"),
        ("write.target-file-size-bytes", "128 MB", "must be a whole number above 0"),
        ("write.parquet.row-group-size-bytes", "", "must be a whole number above 0"),
        ("write.format.default", "csv", "there are: amudai, avro, orc, parquet"),
        ("write.parquet.compression-codec", "zip", "must be one of zstd"),
        ("write.delete.granularity", "row", "must be file or partition"),
        ("write.metadata.metrics.default", "some", "there are: counts, full, none"),
        ("write.delete.mode", "sometimes", "must be copy-on-write or merge-on-read"),
        ("write.merge.mode", "", "must be copy-on-write or merge-on-read"),
        ("write.merge.isolation-level", "serialisable", "did you mean 'serializable'"),
        ("read.split.target-size", "128 MB", "must be a whole number above 0"),
        ("write.manifest.compression-codec", "lzo", "must be one of gzip, zstd, snappy, uncompressed"),
        ("write.metadata.previous-versions-max", "all", "must be a whole number above 0"),
        ("skerry.statistics.row-deletes", "never", "there are: sketch, upper-bound"),
        ("gc.enabled", "no", "must be true or false"),
        ("write.wap.enabled", "1", "must be true or false"),
        ("skerry.read.files-outside-location", "yes", "must be true or false"),
        ("skerry.compaction.background", "true", "is of Paimon tables, whose writers compact them"),
    ],
)
def test_a_value_that_no_commit_could_obey_is_refused_wherever_it_is_set(catalog, name, value, message):
    table = made(catalog)
    rule = f"table property {name} .*{message}"
    with pytest.raises(SchemaError, match=rule):
        table.set_properties({name: value})
    with pytest.raises(SchemaError, match=rule):
        catalog.create_table("d.other", table.schema, properties={name: value})
    assert catalog.list_tables("d") == ["d.t"]


def test_values_that_only_other_engines_obey_are_no_obstacle(catalog, warehouse):
    table = made(catalog)
    with peer(warehouse, "d.t").transaction() as transaction:
        transaction.set_properties({"write.parquet.compression-codec": "lzo"})
    table.refresh().set_properties(owner="me")
    assert table.properties["owner"] == "me"
    table.remove_properties("write.parquet.compression-codec")
    with pytest.raises(SchemaError, match="must be one of zstd"):
        table.set_properties({"write.parquet.compression-codec": "lzo"})


def test_a_new_format_is_checked_with_the_codec_that_is_there(catalog, warehouse):
    table = made(catalog)
    with peer(warehouse, "d.t").transaction() as transaction:
        transaction.set_properties({"write.orc.compression-codec": "brotli"})
    table.refresh()
    for name in ("write.format.default", "write.delete.format.default"):
        with pytest.raises(SchemaError, match=r"write\.orc\.compression-codec must be one of"):
            table.set_properties({name: "orc"})
    table.set_properties({"write.format.default": "orc", "write.orc.compression-codec": "zstd"})
    table.append(rows(0, 3))
    assert [file.file_format for file in table.files()].count("orc") == 1


def test_wrong_values_of_other_engines_can_be_removed(catalog, warehouse):
    table = made(catalog)
    wrong = {"commit.retry.num-retries": "lots", "commit.retry.min-wait-ms": "-1", "write.delete.mode": "sometimes"}
    with peer(warehouse, "d.t").transaction() as transaction:
        transaction.set_properties(wrong)
    table.refresh()
    with pytest.raises(SchemaError, match=r"commit\.retry\.num-retries must be a whole number of at least 0"):
        table.append(rows(0, 3))
    table.remove_properties("commit.retry.num-retries")
    table.set_properties({"commit.retry.min-wait-ms": "1"})
    table.remove_properties("write.delete.mode")
    table.append(rows(0, 3))
    assert wrong.keys() & set(table.properties) == {"commit.retry.min-wait-ms"}


def test_properties_of_rivals_stay(catalog, monkeypatch):
    table = made(catalog)
    rival = catalog.load_table("d.t")
    beaten_by(monkeypatch, lambda: rival.set_properties(theirs="1"))
    table.set_properties(ours="2")
    assert {"theirs", "ours"} <= set(table.properties)


# Format versions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), [(1, 2), (1, 3), (2, 3)])
def test_upgrades(catalog, warehouse, old, new):
    table = made(catalog, old, partition_by=["day(d)"])
    table.append(rows(12, 15))
    table.create_tag("old")
    table.upgrade(new)
    metadata = metadata_json(table)
    assert metadata["format-version"] == table.format_version == new
    assert metadata["last-sequence-number"] == (0 if old == 1 else 2)
    assert not {"schema", "partition-spec"} & set(metadata)
    assert [snapshot["sequence-number"] for snapshot in metadata["snapshots"]] == ([0, 0] if old == 1 else [1, 2])
    if new == 3:
        assert metadata["next-row-id"] == 0
        assert not any("first-row-id" in snapshot for snapshot in metadata["snapshots"])
    assert keys(table) == [*range(15)]
    assert str(table.statistics()["k"].freshness) == "fresh"
    table.append(rows(15, 20))
    assert (table.statistics()["k"].ndv, str(table.statistics()["k"].freshness)) == (20, "fresh")
    assert keys(catalog.load_table("d.t")) == [*range(20)]
    theirs = peer(warehouse, "d.t")
    assert theirs.metadata.format_version == new
    assert sorted(theirs.scan().to_arrow()["k"].to_pylist()) == [*range(20)]
    if new == 3:
        metadata = metadata_json(table)
        assert metadata["snapshots"][-1]["first-row-id"] == 0
        assert metadata["next-row-id"] == metadata["snapshots"][-1]["added-rows"] == 20, "older files got ids too"
    assert keys(table, ref="old") == [*range(15)]


def test_an_upgraded_table_of_version_1_has_an_identity(catalog):
    """It is optional in version 1; without it, nobody reads a table of a later version."""
    table = made(catalog, 1)
    path = Path(table.metadata_location.removeprefix("file://"))
    document = json.loads(path.read_bytes())
    del document["table-uuid"]
    path.write_text(json.dumps(document))
    table = catalog.load_table("d.t")
    table.upgrade(2)
    table.append(rows(12, 15))
    assert uuid.UUID(metadata_json(table)["table-uuid"]).version == 4
    assert keys(catalog.load_table("d.t")) == [*range(15)]


def test_there_is_no_way_back(catalog):
    table = made(catalog, 2)
    location = table.metadata_location
    table.upgrade(2)
    with pytest.raises(SchemaError, match="the table has format version 2 and cannot be downgraded to 1"):
        table.upgrade(1)
    with pytest.raises(SchemaError, match="format_version must be 1 to 3, found 4"):
        table.upgrade(4)
    assert table.refresh().metadata_location == location


def test_an_upgrade_races_with_an_append(catalog, monkeypatch):
    table = made(catalog, 2)
    rival = catalog.load_table("d.t")
    beaten_by(monkeypatch, lambda: rival.append(rows(12, 20)))
    table.upgrade(3)
    assert (table.format_version, keys(table)) == (3, [*range(20)])
    rival.append(rows(20, 22))
    assert keys(table.refresh()) == [*range(22)]


def test_an_append_that_began_before_an_upgrade_is_written_as_the_new_version_wants(catalog, monkeypatch):
    table = made(catalog, 2)
    rival = catalog.load_table("d.t")
    beaten_by(monkeypatch, lambda: rival.upgrade(3), lambda: rival.create_tag("x"))
    table.append(rows(12, 20))
    assert (table.refresh().format_version, keys(table)) == (3, [*range(20)])
    assert "next-row-id" in metadata_json(table)


@pytest.mark.parametrize("version", [2, 3])
def test_commits_to_two_branches_at_once_share_no_sequence_number_and_no_row_ids(catalog, monkeypatch, version):
    table = made(catalog, version)
    table.create_branch("b")
    rival = catalog.load_table("d.t")
    attempts = beaten_by(monkeypatch, lambda: rival.append(rows(12, 20), ref="b"))
    table.append(rows(20, 30))
    assert len(attempts) == 2
    snapshots = metadata_json(table)["snapshots"]
    assert [snapshot["sequence-number"] for snapshot in snapshots] == [1, 2, 3]
    assert (keys(table), keys(table, ref="b")) == ([*range(12), *range(20, 30)], [*range(20)])
    if version == 3:
        assert [snapshot["first-row-id"] for snapshot in snapshots] == [0, 12, 20]


def test_new_types_need_version_3(catalog):
    table = made(catalog, 2)
    with pytest.raises(SchemaError, match="format version 3"):
        table.update_schema().add_column("n", pa.int32(), default_value=1).commit()
    table.upgrade(3)
    table.update_schema().add_column("n", pa.int32(), default_value=1).add_column("t", pa.timestamp("ns")).commit()
    assert table.schema.field("t").type == pa.timestamp("ns")
