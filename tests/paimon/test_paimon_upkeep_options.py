"""Options by which commits look after a table: partitions that expire, old records, tags; compared with Paimon Java."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paimon_peers import JavaPaimon

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.cleaning.partition_times import PartitionTimes
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

NOW = datetime.datetime.now()


def make(path: Path, schema: pa.Schema, properties: Mapping[str, str], **how: Any) -> PaimonTable:
    return PaimonTable.create(Storage(), str(path), schema, properties=properties, **how)


# ---- partitions ----

PARTITIONED = pa.schema([("id", pa.int64()), ("day", pa.string()), ("hour", pa.int32())])


def days_ago(days: float, form: str = "%Y-%m-%d") -> str:
    return (NOW - datetime.timedelta(days=days)).strftime(form)


def events(*days: str | None) -> pa.Table:
    return pa.table({"id": list(range(len(days))), "day": list(days), "hour": [5] * len(days)}, schema=PARTITIONED)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "form", "partition_by"),
    [
        ({}, "%Y-%m-%d", ["day"]),
        ({"partition.timestamp-formatter": "yyyyMMdd"}, "%Y%m%d", ["day", "hour"]),
        ({"partition.timestamp-pattern": "$day $hour:00:00"}, "%Y-%m-%d", ["day", "hour"]),
        (
            {"partition.timestamp-pattern": "$day/0$hour", "partition.timestamp-formatter": "dd.MM.yyyy/HH"},
            "%d.%m.%Y",
            ["day", "hour"],
        ),
        ({"partition.expiration-max-num": "2"}, "%Y-%m-%d", ["day"]),
        ({"partition.expiration-strategy": "update-time"}, "%Y-%m-%d", ["day"]),
    ],
)
def test_partitions_expire_as_in_java(
    tmp_path: Path, java_paimon: JavaPaimon, options: dict[str, str], form: str, partition_by: list[str]
) -> None:
    found = []
    for name in ("ours", "theirs"):
        table = make(tmp_path / name, PARTITIONED, {}, partition_by=partition_by)
        table.append(events(*(days_ago(days, form) for days in (30, 20, 9, 8, 6, 1)), "1999-1-1", "when", None))
        table.set_properties(
            {"partition.expiration-time": "7 d", "partition.expiration-check-interval": "0 s", **options}
        )
        more = events(days_ago(0, form), days_ago(40, form))
        if name == "ours":
            wanted = {"%Y-%m-%d": 5, "%Y%m%d": 4, "%d.%m.%Y": 4}[form]
            wanted = 0 if "strategy" in str(options) else 2 if "max-num" in str(options) else wanted
            assert table.expire_partitions(dry_run=True).files == wanted
            table.append(more)
        else:
            java_paimon.write(table.location, [list(row.values()) for row in more.to_pylist()])
        rows = table.refresh().scan().to_arrow().sort_by("id")
        found.append((sorted(map(repr, rows.to_pylist())), [s.operation for s in table.snapshots()]))
        assert table.statistics()["day"].ndv == len(set(rows["day"].to_pylist()) - {None}) or name == "theirs"
    assert found[0] == found[1]


def test_partitions_expire_by_a_job(tmp_path: Path) -> None:
    table = make(tmp_path / "t", PARTITIONED, {}, partition_by=["day"])
    with pytest.raises(SchemaError, match="give older_than="):
        table.expire_partitions()
    table.append(events(days_ago(3), days_ago(1), None))
    done = table.expire_partitions(datetime.timedelta(days=2))
    assert done.partitions == (f"day={days_ago(3)}",)
    assert (done.files, done.rows) == (1, 1)
    assert table.expire_partitions(datetime.timedelta(days=2)).snapshot_id == done.snapshot_id
    assert table.freshness()["id"].is_fresh
    other = make(tmp_path / "u", PARTITIONED, {})
    with pytest.raises(SchemaError, match="needs a table with partitions"):
        other.expire_partitions(datetime.timedelta(days=2))


def test_a_check_waits_for_its_interval(tmp_path: Path) -> None:
    options = {"partition.expiration-time": "7 d", "partition.expiration-check-interval": "1000 d"}
    table = make(tmp_path / "t", PARTITIONED, options, partition_by=["day"])
    table.append(events(days_ago(30)))
    assert table.scan().count() == 1
    table.set_properties({"end-input.check-partition-expire": "true"})
    table.append(events(days_ago(1)))
    assert table.scan().count() == 1


@given(moment=st.datetimes(datetime.datetime(1000, 1, 1), datetime.datetime(9999, 1, 1)))
def test_formatted_moments_are_read_back(moment: datetime.datetime) -> None:
    whole = moment.replace(microsecond=0)
    for form, text in (
        (None, f"{whole:%Y-%m-%d %H:%M:%S}"),
        ("yyyyMMdd HHmmss", f"{whole:%Y%m%d %H%M%S}"),
        ("'d'''dd'm'MM'y'yyyy-H:m:s", f"d'{whole:%d}m{whole:%m}y{whole:%Y}-{whole.hour}:{whole.minute}:{whole.second}"),
    ):
        assert PartitionTimes(["k"], None, form).moment([text]) == whole


def test_formats_that_are_not_numbers_are_refused() -> None:
    for form in ("EEE", "yyyy-MMM-dd", "yyyy 'x", "yyyy yyyy"):
        with pytest.raises(SchemaError, match="timestamp-formatter"):
            PartitionTimes(["k"], None, form)


# ---- records ----


def _seconds(days: float) -> int:
    return int((datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)).timestamp())


TIMES: dict[str, tuple[pa.DataType, Any]] = {
    "INT": (pa.int32(), _seconds),
    "BIGINT, seconds": (pa.int64(), _seconds),
    "BIGINT, milliseconds": (pa.int64(), lambda days: _seconds(days) * 1000),
    "TIMESTAMP(3)": (pa.timestamp("ms"), lambda days: datetime.datetime.fromtimestamp(_seconds(days), datetime.UTC)),
    "TIMESTAMP_LTZ(6)": (
        pa.timestamp("us", "UTC"),
        lambda days: datetime.datetime.fromtimestamp(_seconds(days), datetime.UTC),
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("kind", TIMES)
def test_records_expire_as_in_java(tmp_path: Path, java_paimon: JavaPaimon, kind: str) -> None:
    type_, moment = TIMES[kind]
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("at", type_)])
    found = []
    for name in ("ours", "theirs"):
        options = {"bucket": "1", "record-level.expire-time": "7 d", "record-level.time-field": "at"}
        table = make(tmp_path / name, schema, {**options, "write-only": "true"}, primary_key=["id"])
        ages = [0, 1, 6, 8, 30, None]
        rows = [{"id": i, "at": None if age is None else moment(age)} for i, age in enumerate(ages)]
        table.append(pa.Table.from_pylist(rows, schema))
        table.append(pa.Table.from_pylist([{"id": 3, "at": moment(2)}, {"id": 1, "at": moment(9)}], schema))
        assert table.scan().count() == 6  # only compaction leaves them out
        if name == "ours":
            table.compact(full=True)
            assert table.statistics()["id"].ndv == 4
            assert table.freshness()["id"].is_fresh
        else:
            table.set_properties({"write-only": "false"})
            java_paimon.write(table.location, [], compaction="full")
        found.append(sorted(table.refresh().scan().to_arrow()["id"].to_pylist()))
    # java drops records before it merges them, so that the older record of key 1 comes back
    assert found == [[0, 2, 3, 5], [0, 1, 2, 3, 5]]


def test_compacted_records_expire_later(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("at", pa.int64())])
    table = make(tmp_path / "t", schema, {"bucket": "1"}, primary_key=["id"])
    table.append(pa.table({"id": [1, 2], "at": [_seconds(5), _seconds(1)]}, schema=schema))
    table.compact(full=True)
    table.set_properties({"record-level.expire-time": "3 d"})
    with pytest.raises(SchemaError, match=r"needs record-level\.time-field"):
        table.compact(full=True)
    table.set_properties({"record-level.time-field": "at"})
    table.compact(full=True)
    assert table.scan().to_arrow()["id"].to_pylist() == [2]
    assert table.compact(full=True).groups == 0


# ---- tags ----

TAGGED = pa.schema([("id", pa.int64())])


@pytest.mark.spark
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes_and_spaces"},
        {"tag.creation-period": "hourly", "sink.process-time-zone": "Asia/Kathmandu"},
        {"tag.creation-period": "two-hours", "tag.default-time-retained": "3 h", "tag.create-success-file": "true"},
        {"tag.period-formatter": "without_dashes", "tag.creation-delay": "5 m"},
        {"tag.creation-period-duration": "1 s", "tag.num-retained-max": "1"},
    ],
)
def test_tags_are_created_as_in_java(tmp_path: Path, java_paimon: JavaPaimon, options: dict[str, str]) -> None:
    found: list[dict[str, int]] = []
    table = make(tmp_path / "ours", TAGGED, {"tag.automatic-creation": "process-time", **options})
    theirs = make(tmp_path / "theirs", TAGGED, {"tag.automatic-creation": "process-time", **options})
    for number in range(2):
        table.append(pa.table({"id": [number]}, schema=TAGGED))
        java_paimon.write(theirs.location, [[number]])
        for one in (table, theirs):
            tags = {ref.name: (ref.snapshot_id, ref.max_ref_age) for ref in one.handle.refs() if ref.kind == "tag"}
            found.append(tags)
        if "tag.creation-period-duration" not in options:
            assert found[-1] == found[-2]
        assert len(found[-2]) == 1
        assert set(found[-1]) == set(found[-2]) or "tag.creation-period-duration" in options
    for one in (table, theirs):
        success = [path.name for path in (Path(one.location) / "tag").glob("*/*")]
        assert success == [f"{name}_SUCCESS" for name in found[-1]] or "tag.create-success-file" not in options


def test_tags_follow_watermarks_and_the_past(tmp_path: Path) -> None:
    table = make(tmp_path / "t", TAGGED, {})
    for number in range(4):
        table.append(pa.table({"id": [number]}, schema=TAGGED))
        path = tmp_path / "t" / "snapshot" / f"snapshot-{number + 1}"
        moment = datetime.datetime(2026, 3, 1 + number // 2 * 3, 10, tzinfo=datetime.UTC)
        text = json.loads(path.read_text()) | {"watermark": int(moment.timestamp() * 1000)}
        path.write_text(json.dumps(text))
    table.set_properties({"tag.automatic-creation": "watermark", "tag.automatic-completion": "true"})
    table.append(pa.table({"id": [9]}, schema=TAGGED))
    tags = {ref.name: ref.snapshot_id for ref in table.handle.refs() if ref.kind == "tag"}
    assert tags == {"2026-02-28": 1, "2026-03-01": 3, "2026-03-02": 4, "2026-03-03": 5}
    table.set_properties({"tag.num-retained-max": "2", "tag.create-success-file": "true"})
    table.create_tag("mine")
    assert (tmp_path / "t/tag/tag-success-file/mine_SUCCESS").exists()
    table.append(pa.table({"id": [10]}, schema=TAGGED))
    assert [ref.name for ref in table.handle.refs() if ref.kind == "tag"] == ["2026-03-02", "2026-03-03", "mine"]
    assert not table.remove_orphans(older_than_days=0).files
    table.drop_ref("mine")
    assert not list(tmp_path.glob("t/tag/tag-success-file/*"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"tag.automatic-creation": "batch", "sink.process-time-zone": "Nowhere/Else"}, SchemaError),
        ({"tag.automatic-creation": "sometimes"}, UnsupportedError),
        ({"tag.automatic-creation": "process-time", "sink.process-time-zone": "Nowhere/Else"}, SchemaError),
        ({"tag.automatic-creation": "process-time", "tag.creation-delay": "2 d"}, SchemaError),
    ],
)
def test_tags_that_cannot_be_made_are_refused(tmp_path: Path, options: dict[str, str], error: type[Exception]) -> None:
    table = make(tmp_path / "t", TAGGED, options)
    with pytest.raises(error, match="table option"):
        table.append(pa.table({"id": [1]}, schema=TAGGED))


# ---- levels ----


@pytest.mark.spark
def test_files_of_a_level_are_those_of_java(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
    options = {
        "bucket": "1",
        "write-only": "true",
        "file.format.per.level": "0:avro, 5:orc",
        "file.compression.per.level": "0:snappy,5:lz4",
        "metadata.stats-mode.per.level": "0:none,5:counts",
        "changelog-producer": "input",
    }
    found = []
    for name in ("ours", "theirs"):
        table = make(tmp_path / name, schema, options, primary_key=["id"])
        seen = []
        for number in range(2):
            rows = [[number, f"x{number}"], [7, f"y{number}"]]
            if name == "ours":
                table.append(pa.table(dict(zip(schema.names, map(list, zip(*rows, strict=True)), strict=True)), schema))
            else:
                java_paimon.write(table.location, rows)
        seen.append(described(table))
        if name == "ours":
            table.compact(full=True)
        else:
            table.set_properties({"write-only": "false"})
            java_paimon.write(table.location, [], compaction="full")
        seen.append(described(table))
        found.append(seen)
        assert sorted(java_paimon.read(table.location)) == [[0, "x0"], [1, "x1"], [7, "y1"]]
        assert table.scan(where="v = 'y1'").count() == 1
    assert found[0] == found[1]
    assert [file[0] for file in found[0][1]] == ["orc"]


def described(table: PaimonTable) -> list[tuple[Any, ...]]:
    """Format, level, statistics of every file."""
    state = table.refresh().handle.state
    return [
        (entry.file.file_name.partition(".")[2], entry.file.level, entry.file.value_stats, entry.file.value_stats_cols)
        for entry in live_entries(state)
    ]


def test_levels_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    for options, message in (
        ({"file.format.per.level": "0:lance"}, "lance"),
        ({"file.compression.per.level": "5:magic"}, "magic"),
        ({"file.format.per.level": "zero:orc"}, "per.level|file.format"),
    ):
        with pytest.raises((SchemaError, UnsupportedError), match=message):
            make(tmp_path / message[:4], schema, {"bucket": "1", **options}, primary_key=["id"]).append(
                pa.table({"id": [1]}, schema=schema)
            )


# ---- defaults ----


@pytest.mark.spark
@pytest.mark.parametrize("keyed", [False, True])
def test_defaults_stand_for_nulls_as_in_java(tmp_path: Path, java_paimon: JavaPaimon, keyed: bool) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a", pa.int32()), ("b", pa.string())])
    how: dict[str, Any] = {"primary_key": ["id"]} if keyed else {}
    table = make(tmp_path / "t", schema, {"bucket": "1"} if keyed else {}, **how)
    table.update_schema().set_default_value("a", 7).set_default_value("b", "x").commit()
    table.append(pa.table({"id": [1, 2], "a": [None, 3], "b": ["y", None]}, schema=schema))
    table.append(pa.table({"id": [3]}, schema=pa.schema([schema.field(0)])))
    java_paimon.write(table.location, [[4, None, None]])
    expected = [[1, 7, "y"], [2, 3, "x"], [3, 7, "x"], [4, 7, "x"]]
    assert sorted(java_paimon.read(table.location)) == expected
    assert sorted(map(list, (row.values() for row in table.refresh().scan().to_arrow().to_pylist()))) == expected
