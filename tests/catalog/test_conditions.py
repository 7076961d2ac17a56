"""Computed conditions on tables: the same rows wherever they are taken, and files that they exclude stay closed."""

from __future__ import annotations

import datetime
import decimal
import uuid

import duckdb
import pyarrow as pa
import pytest

import skerry
from skerry.errors import FormatError, SchemaError

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("qty", pa.int32()),
        ("ts", pa.timestamp("us")),
    ]
)
ROWS = [
    (1, "alpha", "1.50", 10, "2024-01-31 23:59:59"),
    (2, "beta max", "20.00", None, "2024-02-01 00:00:00"),
    (3, None, "3.00", 0, "2024-02-29 12:00:00"),
    (4, "Alpha_2", None, 4, None),
    (5, "gamma%", "0.10", 50, "2025-01-01 00:00:00"),
    (6, "delta", "7.77", -7, "2023-12-31 00:00:00"),
]
CONDITIONS = [
    "name LIKE '%a'",
    "name NOT LIKE '%a'",
    "name ILIKE 'ALPHA\\_%' ESCAPE '\\'",
    "contains(name, '%')",
    "NOT contains(name, 'a m')",
    "price * qty > 5",
    "NOT (price * qty > 5)",
    "qty > id",
    "length(trim(name)) BETWEEN 5 AND 7",
    "coalesce(qty, -1) < 0",
    "date_trunc('month', ts) = '2024-02-01'",
    "year(ts) <> 2024",
    "CAST(ts AS DATE) = DATE '2024-02-29' OR lower(name) = 'alpha'",
    "CASE WHEN qty > 0 THEN price ELSE 0 END < 1",
]
TABLES = {
    "iceberg": {"format": "iceberg"},
    "shards": {"format": "iceberg", "file_format": "amudai"},
    "paimon": {"format": "paimon"},
    "keyed": {"format": "paimon", "primary_key": ["id"]},
}


def rows(records=ROWS):
    columns = list(zip(*records, strict=True))
    prices = [None if price is None else decimal.Decimal(price) for price in columns[2]]
    times = [None if at is None else datetime.datetime.fromisoformat(at) for at in columns[4]]
    return pa.table(
        [
            pa.array(column, field.type)
            for column, field in zip([*columns[:2], prices, columns[3], times], SCHEMA, strict=True)
        ],
        schema=SCHEMA,
    )


def table_of(folder, kind, **options):
    table = skerry.connect(folder / "warehouse").create_table("shop.sales", SCHEMA, **TABLES[kind], **options)
    for record in ROWS:  # a file each
        table.append(rows([record]))
    return table


def ids(scan):
    return sorted(scan.to_arrow()["id"].to_pylist())


def duck_ids(condition):
    with duckdb.connect() as connection:
        connection.register("sales", rows())
        return sorted(row for (row,) in connection.execute(f"SELECT id FROM sales WHERE {condition}").fetchall())


@pytest.mark.parametrize("kind", TABLES)
def test_scans_deletes_and_updates_take_the_rows_that_duckdb_takes(kind, tmp_path):
    table = table_of(tmp_path, kind)
    for number, condition in enumerate(CONDITIONS):
        expected = duck_ids(condition)
        assert ids(table.scan(where=condition)) == expected, condition
        branch = f"work{number}"
        if number % 5:
            continue
        table.create_branch(branch)
        deleted = table.delete(condition, ref=branch)
        assert deleted.deleted_rows == len(expected), condition
        assert ids(table.scan(ref=branch)) == sorted({*range(1, 7)} - {*expected}), condition


@pytest.mark.parametrize("kind", TABLES)
def test_rows_get_values_computed_from_what_they_were(kind, tmp_path):
    table = table_of(tmp_path, kind)
    done = table.update(
        {"price": "price * 1.1", "name": "upper(name) || '!'", "qty": "coalesce(qty, id) // 2", "ts": None},
        "id < $below AND (price > 1 OR price IS NULL)",
        parameters={"below": 4},
    )
    assert (done.updated_rows, done.inserted_rows, done.deleted_rows) == (3, 0, 0)
    found = {row["id"]: tuple(row.values())[1:] for row in table.scan().to_arrow().to_pylist()}
    assert found[1] == ("ALPHA!", decimal.Decimal("1.65"), 5, None)
    assert found[2] == ("BETA MAX!", decimal.Decimal("22.00"), 1, None)
    assert found[3] == (None, decimal.Decimal("3.30"), 0, None)
    assert found[5] == tuple(rows().to_pylist()[4].values())[1:]
    assert table.update({"qty": 7}).updated_rows == 6
    assert set(table.scan(["qty"]).to_arrow()["qty"].to_pylist()) == {7}
    assert table.update({"qty": 8}, "id > 100").updated_rows == 0
    with pytest.raises(SchemaError, match=r"no column 'target\.prize'; did you mean"):
        table.update({"price": "prize + 1"})
    with pytest.raises(SchemaError, match="does not fit type decimal128"):
        table.update({"price": "price * 1000000000"})
    assert set(table.scan(["qty"]).to_arrow()["qty"].to_pylist()) == {7}


@pytest.mark.parametrize("kind", TABLES)
def test_merges_and_overwrites_take_computed_conditions(kind, tmp_path):
    table = table_of(tmp_path, kind)
    done = table.merge(
        rows([(1, "ALPHA", "9.00", 1, None), (2, "other", "1.00", 1, None), (9, "new", "1.00", 1, None)]),
        on="id",
        when_matched=skerry.Update(
            {"price": "source.price + target.price", "name": "target.name"}, "lower(source.name) = target.name"
        ),
        when_not_matched=skerry.Insert(where="length(name) > 5"),
        when_not_matched_by_source=skerry.Delete("target.qty > target.id"),
    )
    assert (done.updated_rows, done.inserted_rows, done.deleted_rows) == (1, 0, 1)
    assert ids(table.scan()) == [1, 2, 3, 4, 6]
    assert table.scan(["price"], "id = 1").to_arrow()["price"].to_pylist() == [decimal.Decimal("10.50")]
    if kind != "keyed":
        table.overwrite(rows([(7, "x", "1.00", 1, None)]), "name ILIKE ? OR qty IN ?", parameters=["alpha%", [0, -7]])
        assert ids(table.scan()) == [2, 7]


@pytest.mark.parametrize("kind", ["iceberg", "shards", "paimon"])
@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("date_trunc('month', ts) = '2024-02-01'", 2),
        ("year(ts) = 2024", 3),
        ("CAST(ts AS DATE) > DATE '2024-12-31'", 1),
        ("name LIKE 'al%a'", 1),
        ("id * 2 + 1 > 10", 2),
        ("price * qty > 5", 4),  # neither is null
    ],
)
def test_files_that_a_computed_condition_excludes_are_not_planned(kind, condition, count, tmp_path):
    plan = table_of(tmp_path, kind).scan(where=condition).plan()
    assert len(plan.files if kind == "paimon" else plan) == count


def test_partitions_follow_from_computed_conditions(tmp_path):
    table = table_of(tmp_path, "iceberg", partition_by=["month(ts)"])
    assert "files by partition" in (text := str(table.scan(where="year(ts) = 2025").explain()))
    assert "to read                        1 files" in text


def test_parameters_are_values_and_never_sql(tmp_path):
    table = table_of(tmp_path, "iceberg")
    assert ids(table.scan(where="id = ? AND name = ?", parameters=[1, "alpha"])) == [1]
    assert ids(table.scan(where="name = $1 OR name = $1", parameters=["x' OR '1'='1"])) == []
    assert (
        ids(table.scan(where="ts >= $start AND name <> '?'", parameters={"start": datetime.date(2024, 2, 29)}))
        == [3, 5][1:]
    )
    assert ids(table.scan(where="id IN ? AND price < ?", parameters=[(1, 2, 5), decimal.Decimal("1.6")])) == [1, 5]
    assert ids(
        table.scan(where="ts < ? - ?", parameters=[datetime.datetime(2024, 2, 1), datetime.timedelta(hours=1)])
    ) == [6]
    assert ids(table.scan(where="price > ?", parameters=[1e1])) == [2]
    for where, parameters, error, message in [
        ("id = ?", [], FormatError, r"parameter \? has no value; 0 are given \(character 6 of: id = \?\)"),
        ("id = ?", [1, 2], FormatError, "does not use parameter 2"),
        ("id = $a", {"b": 1}, FormatError, r"parameter \$a has no value; 1 are named"),
        ("id = 1 OR id = ?", "1", SchemaError, "parameters must be a list"),
        ([("id", "=", 1)], [1], SchemaError, "parameters= are values for a condition in SQL"),
        ("id = ?", [object()], SchemaError, "parameter 1 cannot be a literal in SQL"),
        ("id = ?", [uuid.UUID(int=1)], SchemaError, "does not fit column"),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            table.scan(where=where, parameters=parameters)


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_columns_of_type_unknown_are_null(tmp_path, file_format):
    nothing = pa.struct([("a", pa.int32()), ("b", pa.null())])
    schema = pa.schema([("id", pa.int64()), ("nothing", pa.null()), ("s", nothing)])
    properties = {"write.format.default": file_format}
    table = skerry.connect(tmp_path).create_table("d.t", schema, format_version=3, properties=properties)
    rows = [{"id": 1, "nothing": None, "s": {"a": 1, "b": None}}, {"id": 2, "nothing": None, "s": None}]
    table.append(pa.Table.from_pylist(rows, schema=schema))
    for where, expected in [
        ("nothing IS NULL", [1, 2]),
        ("nothing IS NOT NULL", []),
        ("s.b IS NULL AND id > 1", [2]),
        ("s.b IS NOT NULL OR id = 2", [2]),
    ]:
        assert ids(table.scan(where=where)) == expected
        assert table.scan(where=where).count() == len(expected)
    table.delete("id = 1 AND nothing IS NULL")
    assert table.scan().to_arrow().to_pylist() == rows[1:]
