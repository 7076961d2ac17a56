"""Make the tables of `data/` with Spark 4.1 and Iceberg 1.12: `python tests/foreign/make_foreign_samples.py [name…]`.

Every change is told twice, to Spark as SQL and to a model in Python; the expected rows are the model's, and Spark has
to agree before a sample is kept.
"""

from __future__ import annotations

import datetime
import sys
import tempfile
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from foreign_samples import DATA, ROOT
from sample_maker import NAMESPACE, Row, SampleMaker, start_spark

MERGE_ON_READ = {f"write.{change}.mode": "merge-on-read" for change in ("delete", "update", "merge")}
COPY_ON_WRITE = {f"write.{change}.mode": "copy-on-write" for change in ("delete", "update", "merge")}

Maker = Callable[..., SampleMaker]


def where(test: Callable[[Row], bool]) -> Callable[[list[Row]], list[Row]]:
    """A delete of the rows that do not pass."""
    return lambda rows: [row for row in rows if test(row)]


def update(test: Callable[[Row], bool], **values: Any) -> Callable[[list[Row]], list[Row]]:
    """An update of the rows that pass; a value may be a function of the row."""

    def change(rows: list[Row]) -> list[Row]:
        return [
            row | {name: value(row) if callable(value) else value for name, value in values.items()}
            if test(row)
            else row
            for row in rows
        ]

    return change


def same(rows: list[Row]) -> list[Row]:
    """Files change, rows do not."""
    return rows


def merge(table: SampleMaker, columns: str, values: str, change: Callable[[list[Row]], list[Row]]) -> None:
    """Upsert rows; those whose name is 'gone' are deleted."""
    table.run(
        f"MERGE INTO {{t}} AS t USING (SELECT * FROM VALUES {values} AS v({columns})) AS s ON t.id = s.id "
        "WHEN MATCHED AND s.name = 'gone' THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET t.name = s.name "
        f"WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({', '.join('s.' + c.strip() for c in columns.split(','))})",
        change,
    )


def rewrite(table: SampleMaker, **options: str) -> None:
    """Compact the table's data files."""
    settings = ", ".join(f"'{key.replace('_', '-')}', '{value}'" for key, value in options.items())
    table.run(
        f"CALL samples.system.rewrite_data_files(table => '{NAMESPACE}.{table.name}', options => map({settings}))", same
    )


# ---- row-level change ----

PEOPLE = {"id": "bigint", "name": "string", "region": "string"}
REGIONS = ("north", "south", None)


def people(start: int, stop: int) -> list[Row]:
    return [{"id": n, "name": f"n{n}", "region": REGIONS[n % 3]} for n in range(start, stop)]


def change_people(table: SampleMaker) -> None:
    """Insert, delete, update and merge, each touching several files, and some rows twice."""
    table.insert(people(0, 40))
    table.insert(people(40, 60))
    table.run("DELETE FROM {t} WHERE id % 5 = 0", where(lambda row: row["id"] % 5 != 0))
    table.run("DELETE FROM {t} WHERE id % 7 = 0", where(lambda row: row["id"] % 7 != 0))
    table.run(
        "UPDATE {t} SET name = concat(name, '!') WHERE id BETWEEN 30 AND 45",
        update(lambda row: 30 <= row["id"] <= 45, name=lambda row: row["name"] + "!"),
    )
    merge(
        table,
        "id, name, region",
        "(1, 'one', 'south'), (2, 'gone', ''), (31, 'again', ''), (5, 'back', 'south'), (100, 'new', 'north')",
        lambda rows: [
            *update(lambda row: row["id"] in (1, 31), name=lambda row: {1: "one", 31: "again"}[row["id"]])(
                where(lambda row: row["id"] != 2)(rows)
            ),
            {"id": 5, "name": "back", "region": "south"},
            {"id": 100, "name": "new", "region": "north"},
        ],
    )
    table.run(
        "DELETE FROM {t} WHERE region = 'north' AND id < 20",
        where(lambda row: not (row["region"] == "north" and row["id"] < 20)),
    )


def position_deletes(make: Maker, granularity: str, file_format: str = "parquet") -> SampleMaker:
    table = make(
        PEOPLE,
        partition_by="region",
        properties={
            "format-version": "2",
            "write.delete.granularity": granularity,
            "write.format.default": file_format,
            "write.delete.format.default": file_format,
            **MERGE_ON_READ,
        },
    )
    change_people(table)
    return table


def position_deletes_row_groups(make: Maker) -> SampleMaker:
    """Deletes in a file of many row groups, compacted into one delete file, then into the data."""
    table = make(
        {"id": "int", "name": "string"},
        properties={
            "format-version": "2",
            "write.delete.granularity": "partition",
            "write.parquet.row-group-size-bytes": "600",
            "write.parquet.row-group-check-min-record-count": "20",
            "write.parquet.row-group-check-max-record-count": "20",
            **MERGE_ON_READ,
        },
    )
    table.insert([{"id": n, "name": f"name {n * 7919 % 1000}"} for n in range(400)])
    table.insert([{"id": n, "name": f"name {n}"} for n in range(400, 420)])
    table.run("DELETE FROM {t} WHERE id BETWEEN 35 AND 130", where(lambda row: not 35 <= row["id"] <= 130))
    table.run("DELETE FROM {t} WHERE id % 10 = 3", where(lambda row: row["id"] % 10 != 3))
    table.run(
        f"CALL samples.system.rewrite_position_delete_files(table => '{NAMESPACE}.{table.name}', "
        "options => map('rewrite-all', 'true'))",
        same,
    )
    table.run("DELETE FROM {t} WHERE id IN (0, 399, 419)", where(lambda row: row["id"] not in (0, 399, 419)))
    rewrite(table, full="true")
    return table


def deletion_vectors(make: Maker, file_format: str = "parquet") -> SampleMaker:
    """Vectors that later deletes replace; updates keep row ids; compaction keeps lineage."""
    table = make(PEOPLE, properties={"format-version": "3", "write.format.default": file_format, **MERGE_ON_READ})
    change_people(table)
    rewrite(table, full="true")
    table.run("DELETE FROM {t} WHERE id = 11", where(lambda row: row["id"] != 11))
    table.run("UPDATE {t} SET region = 'west' WHERE id = 12", update(lambda row: row["id"] == 12, region="west"))
    return table


def copied_lineage(make: Maker) -> SampleMaker:
    """Row ids through copy-on-write in a partitioned table."""
    table = make(PEOPLE, partition_by="bucket(2, id)", properties={"format-version": "3", **COPY_ON_WRITE})
    change_people(table)
    return table


def upgraded(make: Maker) -> SampleMaker:
    """Version 1 to 3: rows without lineage, position deletes that a vector takes in."""
    table = make(PEOPLE, properties={"format-version": "1"})
    table.insert(people(0, 10))
    settings = {"format-version": "2", **MERGE_ON_READ}
    listed = ", ".join(f"'{key}'='{value}'" for key, value in settings.items())
    table.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({listed})")
    table.insert(people(10, 20))
    table.run("DELETE FROM {t} WHERE id IN (3, 13, 14)", where(lambda row: row["id"] not in (3, 13, 14)))
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')")
    table.run("DELETE FROM {t} WHERE id IN (4, 15)", where(lambda row: row["id"] not in (4, 15)))
    table.adopt_lineage()
    table.insert(people(20, 25))
    table.run("UPDATE {t} SET name = 'x' WHERE id IN (5, 21)", update(lambda row: row["id"] in (5, 21), name="x"))
    return table


def equality_deletes(make: Maker, file_format: str = "PARQUET") -> SampleMaker:
    """Several sets of ids, nulls, rows inserted again, deletes of one partition and of the whole table."""
    table = make(
        PEOPLE, properties={"format-version": "2", "write.format.default": file_format.lower(), **MERGE_ON_READ}
    )
    table.insert(people(0, 12))

    def delete(columns: list[str], rows: list[Row], *, partition: Any = None, data: list[Row] = ()) -> None:
        def act() -> None:
            delta = table.java_table().newRowDelta()
            delta.addDeletes(table.write_equality_deletes(columns, rows, file_format=file_format, partition=partition))
            if data:
                delta.addRows(table.write_data(data, file_format=file_format))
            delta.commit()

        def gone(row: Row) -> bool:
            in_scope = partition is None or partition[2](row)
            return in_scope and any(all(row[c] == key[c] for c in columns) for key in rows)

        table.change(act, lambda old: [*where(lambda row: not gone(row))(old), *data])

    delete(["id"], [{"id": 3}, {"id": 4}, {"id": 99}])
    table.insert([{"id": 3, "name": "again", "region": None}])
    # rows of the same commit live on: its deletes are not older than they are
    delete(["id"], [{"id": 5}], data=[{"id": 5, "name": "at once", "region": "south"}])
    delete(
        ["region", "name"],
        [{"region": None, "name": "n2"}, {"region": "north", "name": "n6"}, {"region": "x", "name": "n1"}],
    )
    delete(["name"], [{"name": None}])
    table.insert([{"id": 20, "name": None, "region": "north"}, {"id": 21, "name": None, "region": None}])
    delete(["region", "name"], [{"region": None, "name": None}])
    table.sql("ALTER TABLE {t} ADD PARTITION FIELD region")
    table.insert(people(30, 48))

    spec = table.java_table().spec()
    south = table.partition_of({"region": "south"}, spec)
    # files of the unpartitioned spec are out of this one's scope
    delete(
        ["name"],
        [{"name": "n31"}, {"name": "n32"}, {"name": "n1"}],
        partition=(spec, south, lambda row: row["id"] >= 30 and row["region"] == "south"),
    )
    null = table.partition_of({"region": None}, spec)
    delete(
        ["region"], [{"region": None}], partition=(spec, null, lambda row: row["id"] >= 30 and row["region"] is None)
    )
    delete(["id"], [{"id": 1}, {"id": 33}, {"id": 34}])
    table.run("DELETE FROM {t} WHERE id = 36", where(lambda row: row["id"] != 36))
    table.insert(people(33, 34))
    return table


def equality_deletes_evolved(make: Maker) -> SampleMaker:
    """Keys that were promoted, renamed, added later, or of every comparable type."""
    table = make({"id": "int", "a": "float", "b": "date", "c": "decimal(6,2)"}, properties={"format-version": "2"})
    day = datetime.date(2024, 2, 29)
    table.insert(
        [{"id": n, "a": n / 2, "b": day + datetime.timedelta(n), "c": Decimal(10 * n).scaleb(-2)} for n in range(8)]
    )

    def delete(columns: list[str], rows: list[Row], **as_python: Any) -> None:
        def act() -> None:
            table.java_table().newRowDelta().addDeletes(table.write_equality_deletes(columns, rows)).commit()

        keys = as_python.get("keys") or rows
        table.change(act, where(lambda row: not any(all(row[c] == key[c] for c in columns) for key in keys)))

    local = table.jvm.java.time.LocalDate
    delete(["b"], [{"b": local.parse("2024-03-02")}], keys=[{"b": datetime.date(2024, 3, 2)}])
    delete(["c"], [{"c": Decimal("0.50")}])
    table.sql("ALTER TABLE {t} ALTER COLUMN id TYPE bigint")
    table.sql("ALTER TABLE {t} RENAME COLUMN c TO amount")
    table.sql("ALTER TABLE {t} ALTER COLUMN amount TYPE decimal(9,2)")
    table.sql("ALTER TABLE {t} ADD COLUMN late string")
    table.reshape(
        lambda rows: [{**{("amount" if k == "c" else k): v for k, v in row.items()}, "late": None} for row in rows]
    )
    table.columns = {"id": "bigint", "a": "float", "b": "date", "amount": "decimal(9,2)", "late": "string"}
    delete(["id", "amount"], [{"id": 1, "amount": Decimal("0.10")}, {"id": 3, "amount": Decimal("0.10")}])
    table.insert([{"id": 2**40, "a": None, "b": None, "amount": Decimal("12345.67"), "late": "here"}])
    delete(["late", "id"], [{"late": None, "id": 0}, {"late": "here", "id": 3}])
    return table


# ---- evolution ----


def specs(make: Maker) -> SampleMaker:
    """Every transform, one after the other, with deletes over all of them."""
    table = make(
        {
            "id": "bigint",
            "name": "string",
            "region": "string",
            "ts": "timestamp",
            "day": "date",
            "price": "decimal(9,2)",
        },
        properties={"format-version": "2", **MERGE_ON_READ},
    )

    def rows(start: int) -> list[Row]:
        begin = datetime.datetime(2023, 11, 30, 22, 30, tzinfo=datetime.UTC)
        return [
            {
                "id": n,
                "name": None if n % 6 == 5 else f"näme {n}",
                "region": REGIONS[n % 3],
                "ts": None if n % 6 == 4 else begin + datetime.timedelta(hours=17 * n),
                "day": datetime.date(1969, 12, 25) + datetime.timedelta(days=11 * n),
                "price": Decimal(n * 1050 - 3000).scaleb(-2),
            }
            for n in range(start, start + 6)
        ]

    fields = ["region", "bucket(3, id)", "truncate(4, name)", "years(ts)", "months(day)", "truncate(10, price)"]
    table.insert(rows(0))
    for number, field in enumerate(fields, 1):
        table.sql(f"ALTER TABLE {{t}} ADD PARTITION FIELD {field}")
        if number > 1 and number % 2:
            table.sql(f"ALTER TABLE {{t}} DROP PARTITION FIELD {fields[number - 2]}")
        table.insert(rows(6 * number))
    table.sql("ALTER TABLE {t} ADD PARTITION FIELD hours(ts)")
    table.insert(rows(60))
    table.sql("ALTER TABLE {t} REPLACE PARTITION FIELD hours(ts) WITH days(ts) AS ts_at_day")
    table.sql("ALTER TABLE {t} RENAME COLUMN region TO zone")
    table.columns = {("zone" if name == "region" else name): type_ for name, type_ in table.columns.items()}

    def renamed(found: list[Row]) -> list[Row]:
        return [{("zone" if name == "region" else name): value for name, value in row.items()} for row in found]

    table.reshape(renamed)
    table.insert(renamed(rows(70)))
    table.run("DELETE FROM {t} WHERE id % 4 = 1", where(lambda row: row["id"] % 4 != 1))
    table.run("UPDATE {t} SET zone = 'moved' WHERE id % 9 = 0", update(lambda row: row["id"] % 9 == 0, zone="moved"))
    return table


def specs_version_1(make: Maker) -> SampleMaker:
    """Version 1 keeps dropped partition fields as `void`."""
    table = make(PEOPLE, partition_by="region, bucket(2, id)", properties={"format-version": "1"})
    table.insert(people(0, 9))
    table.sql("ALTER TABLE {t} DROP PARTITION FIELD region")
    table.insert(people(9, 18))
    table.sql("ALTER TABLE {t} ADD PARTITION FIELD truncate(2, name)")
    table.insert(people(18, 24))
    table.run("DELETE FROM {t} WHERE id % 4 = 2", where(lambda row: row["id"] % 4 != 2))
    return table


def schema_evolution(make: Maker) -> SampleMaker:
    """Columns added, dropped, renamed, moved, promoted, at the top and in structs, lists and maps."""
    table = make(
        {
            "id": "int",
            "label": "string",
            "ratio": "float",
            "price": "decimal(5,2)",
            "old": "string",
            "place": "struct<x: int, y: string>",
            "stops": "array<struct<name: string, at: int>>",
            "notes": "map<string, struct<text: string>>",
        },
        properties={"format-version": "2", **MERGE_ON_READ},
    )
    table.insert(
        [
            {
                "id": n,
                "label": f"l{n}",
                "ratio": n / 4,
                "price": Decimal(n * 101).scaleb(-2),
                "old": "old",
                "place": None if n == 2 else {"x": n, "y": "y"},
                "stops": None if n == 1 else [{"name": f"s{i}", "at": i} for i in range(n)],
                "notes": [(f"k{n}", {"text": "t"})],
            }
            for n in range(4)
        ]
    )
    for change in (
        "ALTER COLUMN id TYPE bigint",
        "ALTER COLUMN ratio TYPE double",
        "ALTER COLUMN price TYPE decimal(9,2)",
        "RENAME COLUMN label TO title",
        "DROP COLUMN old",
        "ADD COLUMN place.z double",
        "RENAME COLUMN place.x TO across",
        "ALTER COLUMN place.across TYPE bigint",
        "ADD COLUMN stops.element.until date",
        "DROP COLUMN stops.element.at",
        "ADD COLUMN notes.value.author string",
        "ADD COLUMN old int",
        "ALTER COLUMN title FIRST",
        "ALTER COLUMN price AFTER title",
    ):
        table.sql(f"ALTER TABLE {{t}} {change}")

    def evolved(rows: list[Row]) -> list[Row]:
        return [
            {
                "title": row["label"],
                "price": row["price"],
                "id": row["id"],
                "ratio": row["ratio"],
                "place": row["place"] and {"across": row["place"]["x"], "y": row["place"]["y"], "z": None},
                "stops": row["stops"] and [{"name": stop["name"], "until": None} for stop in row["stops"]],
                "notes": [(key, {**value, "author": None}) for key, value in row["notes"]],
                "old": None,
            }
            for row in rows
        ]

    table.reshape(evolved)
    table.columns = {
        "title": "string",
        "price": "decimal(9,2)",
        "id": "bigint",
        "ratio": "double",
        "place": "struct<across: bigint, y: string, z: double>",
        "stops": "array<struct<name: string, until: date>>",
        "notes": "map<string, struct<text: string, author: string>>",
        "old": "int",
    }
    table.insert(
        [
            {
                "title": "new",
                "price": Decimal("1234567.89"),
                "id": 2**40,
                "ratio": 0.1,
                "place": {"across": 2**33, "y": None, "z": 0.5},
                "stops": [{"name": "end", "until": datetime.date(2030, 1, 1)}],
                "notes": [("a", {"text": None, "author": "me"}), ("b", {"text": "t", "author": None})],
                "old": 7,
            }
        ]
    )
    table.run("DELETE FROM {t} WHERE place.across = 3", where(lambda row: (row["place"] or {}).get("across") != 3))
    return table


def defaults(make: Maker, file_format: str = "parquet") -> SampleMaker:
    """Version 3: rows older than a column have its initial default."""
    table = make(
        {"id": "int"}, properties={"format-version": "3", "write.format.default": file_format, **MERGE_ON_READ}
    )
    table.insert([{"id": n} for n in range(3)])
    lit = table.iceberg.expressions.Expressions.lit
    types = table.iceberg.types.Types
    change = table.java_table().updateSchema()
    change = change.addColumn("word", types.StringType.get(), lit("initial"))
    change = change.addRequiredColumn("number", types.IntegerType.get(), lit(-5))
    change = change.addColumn("day", types.DateType.get(), lit("2020-02-29").to(types.DateType.get()))
    change = change.addColumn("price", types.DecimalType.of(9, 2), lit(Decimal("12.34")))
    change = change.addColumn("flag", types.BooleanType.get(), lit(True))
    change = change.addColumn("ratio", types.DoubleType.get(), lit(0.25))
    change.addColumn("bare", types.StringType.get()).commit()
    initial = {
        "word": "initial",
        "number": -5,
        "day": datetime.date(2020, 2, 29),
        "price": Decimal("12.34"),
        "flag": True,
        "ratio": 0.25,
        "bare": None,
    }
    table.reshape(lambda rows: [{**row, **initial} for row in rows])
    table.columns = {
        "id": "int", "word": "string", "number": "int", "day": "date", "price": "decimal(9,2)", "flag": "boolean",
        "ratio": "double", "bare": "string",
    }  # fmt: skip
    given = {"word": None, "number": 1, "day": None, "price": None, "flag": None, "ratio": None, "bare": "b"}
    table.insert([{"id": 3, **given}])
    table.java_table().updateSchema().updateColumnDefault("word", lit("later")).commit()
    table.run(
        "INSERT INTO {t} (id, number, bare) VALUES (4, 2, 'c')",
        lambda rows: [*rows, {"id": 4, **initial, "number": 2, "word": "later", "bare": "c"}],
    )
    table.run("DELETE FROM {t} WHERE word = 'initial' AND id = 1", where(lambda row: row["id"] != 1))
    return table


# ---- types and files ----


def every_type(make: Maker, file_format: str = "parquet") -> SampleMaker:
    """Extremes; no time in the last second before 1970, which Java's ORC writer takes for one after."""
    table = make(
        {
            "id": "bigint",
            "flag": "boolean",
            "small": "int",
            "ratio": "float",
            "wide": "double",
            "price": "decimal(9,2)",
            "huge": "decimal(38,10)",
            "day": "date",
            "ts": "timestamp",
            "local": "timestamp_ntz",
            "text": "string",
            "raw": "binary",
            "list": "array<int>",
            "pairs": "map<string, int>",
            "place": "struct<x: double, names: array<string>>",
        },
        properties={"format-version": "2", "write.format.default": file_format, **MERGE_ON_READ},
    )
    nothing = dict.fromkeys(table.columns)
    table.insert(
        [
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
                "pairs": [("a", 1), ("b", None)],
                "place": {"x": float("inf"), "names": []},
            },
            {**nothing, "id": 2},
            {**nothing, "id": 3, "wide": float("nan"), "ratio": float("-inf"), "text": "", "raw": b"", "list": []},
        ]
    )
    table.run("DELETE FROM {t} WHERE id = 2", where(lambda row: row["id"] != 2))
    return table


def java_types(make: Maker, file_format: str) -> SampleMaker:
    """Types that Spark has no name for: time, uuid, fixed and nanoseconds."""
    table = make({"id": "int"}, properties={"format-version": "3"})
    types = table.iceberg.types.Types
    change = table.java_table().updateSchema()
    change = change.addColumn("at", types.TimeType.get()).addColumn("uid", types.UUIDType.get())
    change = change.addColumn("code", types.FixedType.ofLength(4))
    change = change.addColumn("ns", types.TimestampNanoType.withoutZone())
    change.addColumn("ns_utc", types.TimestampNanoType.withZone()).commit()
    java, time = table.jvm.java, table.jvm.java.time
    uid = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    records = [
        {
            "id": 1,
            "at": time.LocalTime.parse("23:59:59.999999"),
            "uid": java.util.UUID.fromString(str(uid)),
            "code": b"abcd",
            "ns": time.LocalDateTime.parse("1969-12-31T23:59:58.999999999"),
            "ns_utc": time.OffsetDateTime.parse("2024-02-29T00:00:00.123456789Z"),
        },
        {"id": 2},
    ]
    moment = int(datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC).timestamp()) * 10**9 + 123456789
    time_of_day = datetime.time(23, 59, 59, 999999)
    rows = [
        {"id": 1, "at": time_of_day, "uid": uid, "code": b"abcd", "ns": -1_000_000_001, "ns_utc": moment},
        dict.fromkeys(("id", "at", "uid", "code", "ns", "ns_utc")) | {"id": 2},
    ]
    file = table.write_data(records, file_format=file_format)
    table.java_table().newAppend().appendFile(file).commit()
    table.rows["main"] = rows
    table.is_read_by_spark = False
    table.is_lineage_kept = False
    table.note(str(table.snapshot().snapshotId()), "")
    return table


def imported(make: Maker, file_format: str) -> SampleMaker:
    """Files without field ids that `add_files` took in, found by the name mapping; then columns are renamed."""
    table = make(
        {"id": "int", "name": "string", "place": "struct<x: int, y: string>"},
        properties={"format-version": "2", **MERGE_ON_READ},
    )
    rows = [{"id": n, "name": f"n{n}", "place": {"x": n, "y": "y"}} for n in range(6)]
    folder = f"{ROOT}/{NAMESPACE}/{table.name}/imported"
    frame = table.spark.createDataFrame(
        [(row["id"], row["name"], (row["place"]["x"], row["place"]["y"])) for row in rows],
        "id int, name string, place struct<x: int, y: string>",
    )
    frame.coalesce(1).write.format(file_format).save(folder)
    table.run(
        f"CALL samples.system.add_files(table => '{NAMESPACE}.{table.name}', "
        f"source_table => '`{file_format}`.`{folder}`')",
        lambda _: rows,
    )
    table.sql("ALTER TABLE {t} RENAME COLUMN name TO title")
    table.sql("ALTER TABLE {t} ADD COLUMN place.z int")
    table.reshape(lambda old: [{"id": r["id"], "title": r["name"], "place": {**r["place"], "z": None}} for r in old])
    table.columns = {"id": "int", "title": "string", "place": "struct<x: int, y: string, z: int>"}
    table.insert([{"id": 6, "title": "six", "place": {"x": 6, "y": None, "z": 6}}])
    table.run("DELETE FROM {t} WHERE id IN (1, 6)", where(lambda row: row["id"] not in (1, 6)))
    return table


def branches(make: Maker) -> SampleMaker:
    table = make(PEOPLE, properties={"format-version": "2", **MERGE_ON_READ})
    table.insert(people(0, 6))
    table.sql("ALTER TABLE {t} CREATE TAG first")
    table.sql("ALTER TABLE {t} CREATE BRANCH audit")
    table.rows["audit"] = list(table.rows["main"])
    table.insert(people(6, 9), branch="audit")
    table.run("DELETE FROM {t} WHERE id = 0", where(lambda row: row["id"] != 0))
    table.run(
        "DELETE FROM {t}.branch_audit WHERE id IN (1, 7)", where(lambda row: row["id"] not in (1, 7)), branch="audit"
    )
    table.sql("ALTER TABLE {t} CREATE TAG audited AS OF VERSION " + str(table.snapshot("audit").snapshotId()))
    table.insert(people(20, 22))
    return table


SAMPLES: dict[str, Callable[[Maker], SampleMaker]] = {
    "position_deletes_by_file": lambda make: position_deletes(make, "file"),
    "position_deletes_by_partition": lambda make: position_deletes(make, "partition"),
    "position_deletes_orc": lambda make: position_deletes(make, "partition", "orc"),
    "position_deletes_avro": lambda make: position_deletes(make, "file", "avro"),
    "position_deletes_row_groups": position_deletes_row_groups,
    "deletion_vectors": deletion_vectors,
    "deletion_vectors_orc": lambda make: deletion_vectors(make, "orc"),
    "deletion_vectors_avro": lambda make: deletion_vectors(make, "avro"),
    "copied_lineage": copied_lineage,
    "upgraded": upgraded,
    "equality_deletes": equality_deletes,
    "equality_deletes_orc": lambda make: equality_deletes(make, "ORC"),
    "equality_deletes_avro": lambda make: equality_deletes(make, "AVRO"),
    "equality_deletes_evolved": equality_deletes_evolved,
    "specs": specs,
    "specs_version_1": specs_version_1,
    "schema_evolution": schema_evolution,
    "defaults": defaults,
    "defaults_avro": lambda make: defaults(make, "avro"),
    "every_type": every_type,
    "every_type_orc": lambda make: every_type(make, "orc"),
    "every_type_avro": lambda make: every_type(make, "avro"),
    "java_types": lambda make: java_types(make, "PARQUET"),
    "java_types_orc": lambda make: java_types(make, "ORC"),
    "java_types_avro": lambda make: java_types(make, "AVRO"),
    "imported": lambda make: imported(make, "parquet"),
    "imported_orc": lambda make: imported(make, "orc"),
    "branches": branches,
}


def main(names: list[str]) -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        spark = start_spark(Path(folder))
        for name in names or SAMPLES:
            try:
                size = SAMPLES[name](
                    lambda *args, name=name, **options: SampleMaker(spark, Path(folder), name, *args, **options)
                ).pack()
                print(f"{name}: {size:,} bytes", flush=True)
            except Exception as error:
                failed += 1
                print(f"{name} FAILED: {type(error).__name__}: {str(error)[:2000]}", flush=True)
        spark.stop()
    print(f"{sum(path.stat().st_size for path in DATA.glob('*.tar.xz')):,} bytes in all")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
