"""Two engines on one table: Spark reads what we write, we read what Spark writes, and each goes on where the other was.

Every change is made to a model in Python as well. After each, both engines must have the model's rows, and PyIceberg
must open the table.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_samples import plain, plain_rows
from pyiceberg.catalog.sql import SqlCatalog

import skerry
from skerry.table.statistics.column_statistics import FreshnessState
from torture import few_of

pytestmark = pytest.mark.spark

Row = dict[str, Any]
Change = Callable[[list[Row]], list[Row]]

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("region", pa.string())])
MERGE_ON_READ = {f"write.{change}.mode": "merge-on-read" for change in ("delete", "update", "merge")}
REGIONS = ("north", "south", None)
LINEAGE = ["id", "_row_id", "_last_updated_sequence_number"]


def people(start: int, stop: int) -> list[Row]:
    return [{"id": n, "name": f"n{n}", "region": REGIONS[n % 3]} for n in range(start, stop)]


def keep(test: Callable[[Row], bool]) -> Change:
    return lambda rows: [row for row in rows if test(row)]


def put(*changed: Row) -> Change:
    """Rows in place of those with their ids, or beside the others."""
    ids = {row["id"] for row in changed}
    return lambda rows: [*(row for row in rows if row["id"] not in ids), *changed]


def same(rows: list[Row]) -> list[Row]:
    return rows


def values(rows: list[Row]) -> str:
    """Rows as SQL."""
    texts = [
        [str(row["id"]), *("NULL" if row[c] is None else f"'{row[c]}'" for c in ("name", "region"))] for row in rows
    ]
    return "VALUES " + ", ".join(f"({', '.join(text)})" for text in texts)


class SharedTable:
    """A table, the model of its rows, and the engines that must agree.

    Args:
        warehouse: The warehouse's folder.
        session: Spark on its catalog.
        schema: The columns; `id` identifies a row.
        peer_reads: Whether PyIceberg reads such tables; it opens all of them.
        options: What `create_table` takes.
    """

    def __init__(
        self, warehouse: Path, session: Any, schema: pa.Schema = SCHEMA, *, peer_reads: bool = True, **options: Any
    ) -> None:
        self.catalog = skerry.connect(warehouse)
        self.table = self.catalog.create_table("d.t", schema, **options)
        self.session = session
        self.rows: list[Row] = []
        self.peer_reads = peer_reads
        self._lineage: dict[int, tuple[int, int]] = {}
        self._peer = SqlCatalog("skerry", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}")

    # ---- changes ----

    def ours(self, action: Callable[[skerry.catalog.Table], Any], change: Change = same) -> None:
        """A change by us."""
        action(self.table.refresh())
        self._changed(change)

    def append(self, rows: list[Row]) -> None:
        """Rows appended by us."""
        self.ours(lambda table: table.append(self.arrow(rows)), lambda old: [*old, *rows])

    def sql(self, statement: str, change: Change = same) -> None:
        """A change by Spark."""
        self.session.sql(statement.format(t="skerry.d.t"))
        self._changed(change)

    def evolved(self, change: Change) -> None:
        """The table's columns were changed, by either; rows have another shape, and are the same."""
        self.rows = change(self.rows)
        self.check()

    def arrow(self, rows: list[Row], columns: list[str] | None = None) -> pa.Table:
        """Rows in the table's types."""
        schema = self.table.refresh().schema
        fields = [schema.field(name) for name in columns or schema.names]
        return pa.Table.from_pylist(rows, pa.schema(fields))

    def _changed(self, change: Change) -> None:
        before = {row["id"]: row for row in self.rows}
        self.rows = sorted(change(self.rows), key=lambda row: row["id"])
        self.check()
        if self.table.format_version == 3:
            self._check_lineage(before)

    # ---- what must hold ----

    def check(self) -> None:
        """All engines have the model's rows."""
        expected = [plain(row) for row in self.rows]
        assert plain_rows(self.table.refresh().scan().to_arrow()) == expected, "skerry"
        assert self.by_spark("SELECT * FROM skerry.d.t") == expected, "Spark"
        loaded = self._peer.load_table("d.t")
        current = self.table.current_snapshot()
        assert loaded.metadata.current_snapshot_id == (current and current.snapshot_id)
        if self.peer_reads:
            assert plain_rows(loaded.scan().to_arrow()) == expected, "PyIceberg"
        self._check_statistics()

    def _check_statistics(self) -> None:
        """No column says that its distinct count is fresh when it is another one."""
        for name, column in self.table.statistics().items():
            if name in self.table.schema.names and column.freshness.state in (
                FreshnessState.FRESH,
                FreshnessState.UPPER_BOUND,
            ):
                # empty strings are not in a sketch: DataSketches leaves them out
                distinct = len({plain(row[name]) for row in self.rows if row[name] not in (None, "", b"")})
                is_fresh = column.freshness.is_fresh
                assert column.ndv == distinct if is_fresh else column.ndv >= distinct, (name, column)

    def check_history(self) -> None:
        """Spark and we agree on every snapshot."""
        for snapshot in self.table.refresh().snapshots():
            theirs = self.by_spark(f"SELECT * FROM skerry.d.t VERSION AS OF {snapshot.snapshot_id}")
            assert plain_rows(self.table.scan(snapshot=snapshot.snapshot_id).to_arrow()) == theirs, snapshot

    def follow_lineage(self) -> None:
        """Take row ids as they are now for those to be kept."""
        self._lineage = {
            row["id"]: (row["_row_id"], row["_last_updated_sequence_number"])
            for row in plain_rows(self.table.refresh().scan(LINEAGE).to_arrow())
        }

    def _check_lineage(self, before: dict[int, Row]) -> None:
        """Rows keep their ids, and those that did not change their number; new ids are new."""
        old = self._lineage
        self.follow_lineage()
        lineage, sequence_number = self._lineage, self.table.current_snapshot().sequence_number
        theirs = self.by_spark(f"SELECT {', '.join(LINEAGE)} FROM skerry.d.t")
        assert [tuple(row.values()) for row in theirs] == [(key, *lineage[key]) for key in sorted(lineage)]
        assert len({row_id for row_id, _ in lineage.values()}) == len(lineage)
        largest = max((row_id for row_id, _ in old.values()), default=-1)
        for row in self.rows:
            key = row["id"]
            if before.get(key) == row:
                assert lineage[key] == old[key], f"row {key} did not change"
            else:
                assert lineage[key][1] == sequence_number, f"row {key} changed"
                assert lineage[key][0] == old[key][0] if key in before else lineage[key][0] > largest

    def by_spark(self, query: str) -> list[Row]:
        return plain_rows(self.session.sql(query).toArrow())


@pytest.fixture
def share(iceberg_spark, tmp_path):
    """A function of the schema and the options of a table, which Spark and we share from then on."""

    def create(schema: pa.Schema = SCHEMA, **options: Any) -> SharedTable:
        warehouse = tmp_path / "warehouse"
        skerry.connect(warehouse)
        return SharedTable(warehouse, iceberg_spark(warehouse), schema, **options)

    return create


# ---- rows ----

TURNS = {
    "v1": (1, {}, ["bucket(2, id)"]),
    "v2 by file": (2, MERGE_ON_READ, ["region", "truncate(1, name)"]),
    "v3 vectors": (3, MERGE_ON_READ, []),
    "v2 copied": (2, {}, []),
    "v2 by partition": (2, {**MERGE_ON_READ, "write.delete.granularity": "partition"}, ["bucket(2, id)"]),
    "v3 copied": (3, {}, ["region"]),
}


@pytest.mark.parametrize("how", few_of(TURNS, "v2 by file", "v3 vectors"))
def test_every_change_in_turns(share, how):
    version, properties, partition_by = TURNS[how]
    both = share(format_version=version, partition_by=partition_by, properties=properties)
    both.append(people(0, 12))
    both.sql(f"INSERT INTO {{t}} {values(people(12, 18))}", put(*people(12, 18)))
    both.ours(lambda table: table.delete("id IN (1, 6, 11, 16)"), keep(lambda r: r["id"] % 5 != 1))
    both.sql(
        "UPDATE {t} SET name = 'by Spark' WHERE id IN (2, 13)",
        lambda rows: [{**row, "name": "by Spark"} if row["id"] in (2, 13) else row for row in rows],
    )
    upserted = [{"id": n, "name": "by us", "region": "south"} for n in (2, 3, 40)]
    both.ours(lambda table: table.upsert(both.arrow(upserted), on="id"), put(*upserted))
    both.sql(
        "MERGE INTO {t} AS t USING (SELECT * FROM VALUES (3, 'x', 'north'), (4, 'gone', ''), (50, 'y', 'north') "
        "AS v(id, name, region)) AS s ON t.id = s.id WHEN MATCHED AND s.name = 'gone' THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        lambda rows: put({"id": 3, "name": "x", "region": "north"}, {"id": 50, "name": "y", "region": "north"})(
            keep(lambda row: row["id"] != 4)(rows)
        ),
    )
    source = [{"id": 3, "name": "gone", "region": None}, {"id": 5, "name": "m", "region": None}, *people(60, 62)]
    both.ours(
        lambda table: table.merge(
            both.arrow(source),
            on="id",
            when_matched=[skerry.Delete("source.name = 'gone'"), "update"],
            when_not_matched="insert",
        ),
        lambda rows: put(*source[1:])(keep(lambda row: row["id"] != 3)(rows)),
    )
    both.sql(
        "DELETE FROM {t} WHERE region = 'south' AND id < 10",
        keep(lambda r: not (r["region"] == "south" and r["id"] < 10)),
    )
    both.ours(
        lambda table: table.overwrite(both.arrow(people(70, 73)), "id >= 50"),
        lambda rows: [*keep(lambda row: row["id"] < 50)(rows), *people(70, 73)],
    )
    both.check_history()
    both.ours(lambda table: table.compact(full=True))
    both.sql("DELETE FROM {t} WHERE id = 71", keep(lambda row: row["id"] != 71))
    both.sql("CALL skerry.system.rewrite_data_files(table => 'd.t', options => map('rewrite-all', 'true'))")
    both.ours(lambda table: table.delete("id = 72"), keep(lambda row: row["id"] != 72))
    both.ours(lambda table: table.expire_snapshots(keep_last=2, older_than=datetime.datetime.now(datetime.UTC)))
    assert len(both.table.snapshots()) == 2
    both.sql(f"INSERT INTO {{t}} {values(people(80, 82))}", put(*people(80, 82)))


@pytest.mark.parametrize("file_format", few_of(["parquet", "orc", "avro"], "parquet", "orc"))
def test_blind_changes_are_read_by_spark(share, file_format):
    """Equality deletes: PyIceberg opens the table, and reads none of them."""
    formats = {"write.format.default": file_format, "write.delete.format.default": file_format}
    both = share(peer_reads=False, partition_by=["bucket(2, id)"], properties={**MERGE_ON_READ, **formats})
    both.append(people(0, 8))
    for turn in range(2):
        rows = [{"id": n, "name": f"turn {turn}", "region": None} for n in (turn, turn + 1, turn + 20)]
        both.ours(lambda table, rows=rows: table.upsert(both.arrow(rows), on="id", blind=True), put(*rows))
    both.sql("DELETE FROM {t} WHERE id IN (2, 20)", keep(lambda row: row["id"] not in (2, 20)))
    both.append([{"id": 2, "name": "again", "region": "north"}])
    both.check_history()
    both.ours(lambda table: table.compact(full=True))
    assert not any(task.deletes for task in both.table.scan().plan())


EVERY_TYPE = pa.schema(
    [
        ("id", pa.int64()),
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("ratio", pa.float32()),
        ("wide", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("huge", pa.decimal128(38, 10)),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("list", pa.list_(pa.int32())),
        ("pairs", pa.map_(pa.string(), pa.int32())),
        ("place", pa.struct([("x", pa.float64()), ("names", pa.list_(pa.string()))])),
    ]
)
EXTREMES = [
    {
        "id": 1,
        "flag": True,
        "small": -(2**31),
        "ratio": 0.5,
        "wide": 1e300,
        "price": Decimal("-1234567.89"),
        "huge": Decimal("1234567890123456789012345678.0123456789"),
        "day": datetime.date(1912, 6, 23),
        "ts": datetime.datetime(2038, 1, 19, 3, 14, 8, 123456, datetime.UTC),
        "local": datetime.datetime(1969, 12, 31, 23, 59, 58, 999999),
        "text": "naïve 🐧",
        "raw": b"\x00\xff",
        "list": [1, None, 3],
        "pairs": [("a", 1)],
        "place": {"x": float("inf"), "names": []},
    },
    dict.fromkeys(EVERY_TYPE.names) | {"id": 2},
    dict.fromkeys(EVERY_TYPE.names)
    | {"id": 3, "wide": float("nan"), "ratio": float("-inf"), "text": "", "raw": b"", "list": [], "pairs": []},
]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_every_type_in_every_file_format(share, file_format):
    formats = {"write.format.default": file_format, "write.delete.format.default": file_format}
    both = share(EVERY_TYPE, peer_reads=file_format == "parquet", properties={**MERGE_ON_READ, **formats})
    rows = EXTREMES
    if file_format == "orc":  # no parts of seconds before 1970
        rows = [row | {"local": row["local"] and row["local"].replace(microsecond=0)} for row in rows]
    both.append(rows)
    both.sql(
        f"INSERT INTO {{t}} SELECT id + 10, {', '.join(EVERY_TYPE.names[1:])} FROM {{t}}",
        lambda rows: [*rows, *({**row, "id": row["id"] + 10} for row in rows)],
    )
    both.ours(lambda table: table.delete("id IN (2, 13)"), keep(lambda row: row["id"] not in (2, 13)))
    both.sql("DELETE FROM {t} WHERE id = 3", keep(lambda row: row["id"] != 3))
    files = {row["file_path"] for row in both.session.sql("SELECT file_path FROM skerry.d.t.all_files").collect()}
    assert {path.rpartition(".")[2] for path in files} == {file_format}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_types_that_spark_has_no_name_for_are_read_by_java(share, file_format):
    schema = pa.schema(
        [
            ("id", pa.int32()),
            ("at", pa.time64("us")),
            ("uid", pa.uuid()),
            ("code", pa.binary(4)),
            ("ns", pa.timestamp("ns")),
            ("ns_utc", pa.timestamp("ns", "UTC")),
        ]
    )
    both = share(schema, format_version=3, properties={"write.format.default": file_format})
    row = {
        "id": [1, 2],
        "at": [datetime.time(23, 59, 59, 999999), None],
        "uid": [uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, None],
        "code": [b"abcd", None],
        "ns": [1_700_000_000_123_456_789, None],
        "ns_utc": [1_700_000_000_123_456_789, None],
    }
    both.table.append(
        pa.table([pa.array(row[field.name], _storage(field.type)).cast(field.type) for field in schema], schema)
    )
    iceberg = both.session._jvm.org.apache.iceberg
    file_io = iceberg.hadoop.HadoopFileIO(both.session._jsparkSession.sessionState().newHadoopConf())
    operations = iceberg.StaticTableOperations(both.table.metadata_location, file_io)
    iterator = iceberg.data.IcebergGenerics.read(iceberg.BaseTable(operations, "t")).build().iterator()
    records = [iterator.next(), iterator.next()]
    assert not iterator.hasNext()
    found = sorted((_record(record, schema.names) for record in records), key=lambda values: values[0])
    moment = "2023-11-14T22:13:20.123456789"
    first = ["1", "23:59:59.999999", "f79c3e09-677c-4bbd-a479-3f349cb785e7", "61626364", moment, f"{moment}Z"]
    assert found == [first, ["2", None, None, None, None, None]]


def _storage(type_: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(type_) else getattr(type_, "storage_type", type_)


def _record(record: Any, names: list[str]) -> list[str | None]:
    values = [record.getField(name) for name in names]
    return [v.hex() if isinstance(v, bytes | bytearray) else None if v is None else str(v) for v in values]


# ---- evolution ----


@pytest.mark.parametrize("version", [1, 2, 3])
def test_schemas_evolve_on_both_sides(share, version):
    schema = pa.schema([("id", pa.int32()), ("name", pa.string()), ("place", pa.struct([("x", pa.int32())]))])
    both = share(schema, format_version=version, properties=MERGE_ON_READ if version > 1 else {})
    both.append([{"id": n, "name": f"n{n}", "place": {"x": n}} for n in range(4)])

    def evolve(table):
        with table.update_schema() as update:
            update.update_column("id", pa.int64()).rename_column("name", "title").add_column("place.y", pa.string())
            update.add_column("price", pa.decimal128(5, 2)).move_first("price")

    evolve(both.table)
    both.evolved(
        lambda rows: [
            {"price": None, "id": row["id"], "title": row["name"], "place": {**row["place"], "y": None}} for row in rows
        ]
    )
    row = {"price": Decimal("1.50"), "id": 2**40, "title": "new", "place": {"x": 1, "y": "y"}}
    both.sql(f"INSERT INTO {{t}} VALUES (1.50, {2**40}, 'new', named_struct('x', 1, 'y', 'y'))", put(row))
    for change in ("ALTER COLUMN price TYPE decimal(9,2)", "DROP COLUMN title", "ADD COLUMN title int"):
        both.session.sql(f"ALTER TABLE skerry.d.t {change}")
    both.evolved(lambda rows: [{**{key: row[key] for key in ("price", "id", "place")}, "title": None} for row in rows])
    both.append([{"price": Decimal("1234567.89"), "id": 7, "place": None, "title": 3}])
    both.ours(lambda table: table.delete("id = 2"), keep(lambda row: row["id"] != 2))
    both.sql("DELETE FROM {t} WHERE title = 3", keep(lambda row: row["title"] != 3))


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_defaults_are_read_by_spark(share, file_format):
    properties = {**MERGE_ON_READ, "write.format.default": file_format}
    both = share(pa.schema([("id", pa.int64())]), peer_reads=False, format_version=3, properties=properties)
    both.append([{"id": n} for n in range(3)])
    initial = {
        "word": "initial",
        "number": -5,
        "day": datetime.date(2020, 2, 29),
        "price": Decimal("12.34"),
        "ok": True,
    }
    types = [pa.string(), pa.int32(), pa.date32(), pa.decimal128(9, 2), pa.bool_()]

    def evolve(table):
        with table.update_schema() as update:
            for (name, value), type_ in zip(initial.items(), types, strict=True):
                update.add_column(name, type_, default_value=value)

    evolve(both.table)
    both.evolved(lambda rows: [{**row, **initial} for row in rows])
    both.append([{"id": 3, "word": None, "number": 1, "day": None, "price": None, "ok": None}])
    both.ours(lambda table: table.append(pa.table({"id": [4]})), put({"id": 4, **initial}))
    both.sql("INSERT INTO {t} (id, word) VALUES (5, 'w')", put({"id": 5, **initial, "word": "w"}))
    both.ours(lambda table: table.delete("word = 'initial' AND id < 2"), keep(lambda row: row["id"] >= 2))


@pytest.mark.parametrize("version", few_of([1, 2, 3], 1, 3))
def test_partition_specs_evolve_on_both_sides(share, version):
    schema = pa.schema(
        [("id", pa.int64()), ("name", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("day", pa.date32())]
    )
    both = share(schema, format_version=version, properties=MERGE_ON_READ if version > 1 else {})

    def rows(start: int) -> list[Row]:
        begin = datetime.datetime(1969, 12, 30, 5, 30, tzinfo=datetime.UTC)
        return [
            {
                "id": n,
                "name": None if n % 4 == 3 else f"näme {n}",
                "ts": None if n % 4 == 2 else begin + datetime.timedelta(hours=17 * n),
                "day": datetime.date(1969, 12, 25) + datetime.timedelta(days=11 * n),
            }
            for n in range(start, start + 4)
        ]

    def insert(start: int) -> None:
        types = ("bigint", "string", "timestamp", "date")
        texts = [
            ", ".join(
                f"CAST({'NULL' if value is None else repr(str(value))} AS {type_})"
                for value, type_ in zip(row.values(), types, strict=True)
            )
            for row in rows(start)
        ]
        both.sql(f"INSERT INTO {{t}} VALUES ({'), ('.join(texts)})", put(*rows(start)))

    both.append(rows(0))
    for number, (ours, theirs) in enumerate(
        [("bucket(3, id)", "truncate(2, name)"), ("day(ts)", "years(day)"), ("truncate(5, id)", "months(day)")]
    ):
        with both.table.refresh().update_spec() as update:
            update.add_field(ours)
        insert(4 + 8 * number)
        both.session.sql(f"ALTER TABLE skerry.d.t ADD PARTITION FIELD {theirs}")
        both.append(rows(8 + 8 * number))
    with both.table.refresh().update_spec() as update:
        update.remove_field("ts_day")
    insert(40)
    both.sql("ALTER TABLE {t} REPLACE PARTITION FIELD bucket(3, id) WITH hours(ts)")
    both.append(rows(44))
    both.ours(
        lambda table: table.delete("id IN (1, 5, 9, 21, 44)"), keep(lambda row: row["id"] not in (1, 5, 9, 21, 44))
    )
    both.sql("DELETE FROM {t} WHERE id % 7 = 2", keep(lambda row: row["id"] % 7 != 2))
    for condition in (
        "name = 'näme 8'",
        "ts < TIMESTAMP '1970-01-03 00:00:00+00:00'",
        "day >= DATE '1970-03-01'",
        "id > 30",
    ):
        theirs = both.by_spark(f"SELECT * FROM skerry.d.t WHERE {condition}")
        assert plain_rows(both.table.scan(where=condition).to_arrow()) == theirs
        assert theirs


@pytest.mark.parametrize("versions", [(1, 2), (2, 3), (1, 3)])
def test_upgraded_tables(share, versions):
    old, new = versions
    both = share(format_version=old, properties=MERGE_ON_READ)
    both.append(people(0, 6))
    if old == 2:
        both.ours(lambda table: table.delete("id = 1"), keep(lambda row: row["id"] != 1))
    both.table.upgrade(new)
    both.check()
    both.table.delete("id = 2")
    both.rows = keep(lambda row: row["id"] != 2)(both.rows)
    both.check()
    if new == 3:
        both.follow_lineage()
    both.sql("DELETE FROM {t} WHERE id = 3", keep(lambda row: row["id"] != 3))
    both.append(people(10, 12))
    both.sql(
        "UPDATE {t} SET name = 'x' WHERE id = 4", lambda rows: [{**r, "name": "x"} if r["id"] == 4 else r for r in rows]
    )
    both.ours(lambda table: table.compact(full=True))


# ---- references, files ----


def test_branches_and_tags_of_both(share):
    both = share(properties=MERGE_ON_READ)
    both.append(people(0, 4))
    both.table.create_branch("ours")
    both.session.sql("ALTER TABLE skerry.d.t CREATE BRANCH theirs")
    both.table.refresh().create_tag("first")
    both.table.append(both.arrow(people(4, 6)), ref="theirs")
    both.session.sql(f"INSERT INTO skerry.d.t.branch_ours {values(people(6, 8))}")
    both.table.refresh().delete("id = 0", ref="ours")
    both.session.sql("DELETE FROM skerry.d.t.branch_theirs WHERE id = 1")
    both.check()
    expected = {
        "ours": [*people(1, 4), *people(6, 8)],
        "theirs": [people(0, 1)[0], *people(2, 6)],
        "first": people(0, 4),
    }
    for name, rows in expected.items():
        assert plain_rows(both.table.refresh().scan(ref=name).to_arrow()) == rows
        assert both.by_spark(f"SELECT * FROM skerry.d.t VERSION AS OF '{name}'") == rows
    both.ours(lambda table: table.fast_forward("main", "ours"), lambda _: expected["ours"])
    first = both.table.refs()["first"].snapshot_id
    both.sql(f"CALL skerry.system.rollback_to_snapshot('d.t', {first})", lambda _: people(0, 4))
    both.sql("CALL skerry.system.fast_forward('d.t', 'main', 'theirs')", lambda _: expected["theirs"])
    both.ours(lambda table: table.drop_ref("ours"))
    both.ours(lambda table: table.rollback(first), lambda _: people(0, 4))


def test_staged_appends_are_published_by_either(share):
    both = share()
    both.append(people(0, 2))
    both.table.append(both.arrow(people(2, 4)), staged=True, snapshot_properties={"wap.id": "ours"})
    both.check()
    both.sql("CALL skerry.system.publish_changes('d.t', 'ours')", put(*people(2, 4)))
    both.session.sql("ALTER TABLE skerry.d.t SET TBLPROPERTIES ('write.wap.enabled'='true')")
    both.session.conf.set("spark.wap.id", "theirs")
    both.session.sql(f"INSERT INTO skerry.d.t {values(people(4, 6))}")
    both.session.conf.unset("spark.wap.id")
    both.check()
    both.ours(lambda table: table.publish("theirs"), put(*people(4, 6)))


def test_files_taken_in_by_us_are_read_by_spark(share):
    both = share(properties=MERGE_ON_READ)
    both.append(people(0, 3))
    folder = Path(both.table.location.removeprefix("file://")) / "data"
    pq.write_table(pa.Table.from_pylist(people(10, 14), SCHEMA), folder / "plain.parquet")
    both.ours(lambda table: table.add_files([f"{table.location}/data/plain.parquet"]), put(*people(10, 14)))
    both.sql("DELETE FROM {t} WHERE id IN (0, 11)", keep(lambda row: row["id"] not in (0, 11)))
    both.ours(lambda table: table.delete("id = 12"), keep(lambda row: row["id"] != 12))


def test_changes_are_those_that_spark_tells(share):
    """Of copy-on-write tables: Spark tells no changes that delete files make."""
    both = share(partition_by=["bucket(2, id)"])
    both.append(people(0, 6))
    start = both.table.current_snapshot().snapshot_id
    both.sql(f"INSERT INTO {{t}} {values(people(6, 8))}", put(*people(6, 8)))
    changed = [{"id": n, "name": "by us", "region": None} for n in (1, 9)]
    both.ours(lambda table: table.upsert(both.arrow(changed), on="id"), put(*changed))
    both.sql(
        "UPDATE {t} SET region = 'west' WHERE id IN (2, 9)",
        lambda rows: [{**row, "region": "west"} if row["id"] in (2, 9) else row for row in rows],
    )
    both.ours(lambda table: table.compact(full=True))
    both.ours(lambda table: table.delete("id = 3"), keep(lambda row: row["id"] != 3))
    both.sql("DELETE FROM {t} WHERE id = 4", keep(lambda row: row["id"] != 4))
    both.session.sql(
        "CALL skerry.system.create_changelog_view(table => 'd.t', changelog_view => 'changelog', "
        f"options => map('start-snapshot-id', '{start}'), identifier_columns => array('id'))"
    )
    theirs = both.session.table("changelog").toArrow().to_pylist()
    ours = both.table.changes(start, on=["id"]).to_arrow().to_pylist()
    order = ("_change_ordinal", "id", "_change_type")
    assert len(ours) == 11
    assert sorted(ours, key=lambda row: [row[name] for name in order]) == sorted(
        theirs, key=lambda row: [row[name] for name in order]
    )
