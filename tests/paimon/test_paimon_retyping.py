"""Columns that get types into which their values must be cast: Paimon Java reads the same values afterwards."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, java_rows

from skerry.errors import SchemaError
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

MOMENT = datetime.datetime(2026, 2, 28, 12, 30, 15, 123456)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("i4", pa.int32()),
        ("i8", pa.int64()),
        ("f8", pa.float64()),
        ("de", pa.decimal128(12, 3)),
        ("st", pa.string()),
        ("da", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("bo", pa.bool_()),
    ]
)
VALUES = [
    {
        "id": number,
        "i4": number * 70_000,
        "i8": number << 33 | 5,
        "f8": number * 1.75,
        "de": decimal.Decimal(number * 12345).scaleb(-3),
        "st": str(number * 3),
        "da": datetime.date(2026, 1, 1) + datetime.timedelta(days=number),
        "ts": MOMENT + datetime.timedelta(hours=number * 7),
        "bo": number % 2 == 0,
    }
    for number in range(-3, 4)
] + [{"id": 99}]
LOSSLESS = {"i4": "STRING", "i8": "STRING", "de": "STRING", "da": "STRING", "ts": "STRING", "bo": "STRING"}
CASTS = [
    ("i8", "INT"),
    ("i4", "SMALLINT"),
    ("i4", "FLOAT"),
    ("f8", "INT"),
    ("f8", "STRING"),
    ("de", "DECIMAL(6, 1)"),
    ("de", "BIGINT"),
    ("st", "INT"),
    ("st", "DECIMAL(5, 2)"),
    ("st", "VARCHAR(1)"),
    ("da", "TIMESTAMP(3)"),
    ("ts", "DATE"),
    ("ts", "TIMESTAMP(3)"),
    ("bo", "INT"),
    ("i4", "BOOLEAN"),
]


def made(path: Path, **how: Any) -> PaimonTable:
    table = PaimonTable.create(Storage(), str(path), SCHEMA, **how)
    table.append(pa.Table.from_pylist(VALUES, SCHEMA))
    return table


@pytest.mark.spark
@pytest.mark.parametrize("keyed", [False, True])
def test_java_casts_old_values_alike(tmp_path: Path, java_paimon: JavaPaimon, keyed: bool) -> None:
    how: dict[str, Any] = {"primary_key": ["id"], "properties": {"bucket": "1"}} if keyed else {}
    for number, (column, type_) in enumerate([*LOSSLESS.items(), *CASTS]):
        table = made(tmp_path / f"t{number}", **how)
        table.update_schema(allow_incompatible_changes=True).update_column(column, type_).commit()
        found = table.scan().to_arrow()
        assert sorted(map(repr, java_paimon.read(table.location))) == sorted(map(repr, java_rows(found))), type_
        assert not table.freshness()[column].is_fresh
        assert table.freshness()["id"].is_fresh
        table.compact(full=True)
        table.analyze()
        assert table.scan().to_arrow().sort_by("id") == found.sort_by("id")
        assert table.statistics()[column].ndv == len({row for row in found[column].to_pylist() if row is not None})
        value = found[column][2].as_py()
        if isinstance(value, (str, int)):
            literal = f"'{value}'" if isinstance(value, str) else value
            wanted = sorted(row["id"] for row in found.to_pylist() if row[column] == value)
            assert sorted(table.scan(where=f"{column} = {literal}").to_arrow()["id"].to_pylist()) == wanted


def test_losses_are_allowed_first(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    for column, type_ in CASTS:
        with pytest.raises(SchemaError, match="without losing information"):
            table.update_schema().update_column(column, type_).commit()
    for column, type_ in LOSSLESS.items():
        table.update_schema().update_column(column, type_).commit()
    assert table.scan(["i4"]).to_arrow()["i4"].to_pylist()[0] == "-210000"
    table.set_properties({"disable-explicit-type-casting": "true"})
    with pytest.raises(SchemaError, match="disable-explicit-type-casting=true"):
        table.update_schema(allow_incompatible_changes=True).update_column("f8", "INT").commit()


def test_what_no_value_can_follow_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    for column, type_ in (
        ("f8", "DATE"),
        ("bo", "DATE"),
        ("ts", "TIMESTAMP WITH LOCAL TIME ZONE"),
    ):
        with pytest.raises(SchemaError, match="cannot change from"):
            table.update_schema(allow_incompatible_changes=True).update_column(column, type_).commit()
    table.update_schema().set_default_value("st", "many").commit()
    with pytest.raises(SchemaError, match="many"):
        table.update_schema(allow_incompatible_changes=True).update_column("st", "INT").commit()
