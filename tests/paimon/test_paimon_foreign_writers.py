"""Tables as other writers, other versions and other options leave them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, java_rows
from pyarrow import orc

from skerry.errors import FormatError, UnsupportedError
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("day", pa.int32()), ("text", pa.string())])
KEYED: dict[str, Any] = {"primary_key": ["id"], "properties": {"bucket": "2"}}


def make(path: Path, schema: pa.Schema = SCHEMA, **how: Any) -> PaimonTable:
    return PaimonTable.create(Storage(), str(path), schema, **how)


def rows(*ids: int, text: str = "x") -> pa.Table:
    return pa.table({"id": ids, "day": [i % 3 for i in ids], "text": [f"{text}{i}" for i in ids]}, schema=SCHEMA)


def set_options(table: PaimonTable, **options: str) -> PaimonTable:
    path = Path(table.location) / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    schema["options"] |= {name.replace("_", "."): value for name, value in options.items()}
    path.write_text(json.dumps(schema))
    return PaimonTable.open(Storage(), table.location)


# ---- manifests ----


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "key"])
def test_manifests_in_orc(tmp_path: Path, keyed: bool) -> None:
    how = KEYED if keyed else {"properties": {"deletion-vectors.enabled": "true"}}
    table = make(tmp_path / "t", **how)
    table = set_options(table, manifest_format="orc")
    for first in (0, 3, 6):
        table.append(rows(first, first + 1, first + 2))
    table.delete("id = 4")
    assert sorted(table.scan(["id"]).to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 5, 6, 7, 8]
    table.compact(full=True)
    assert table.scan(where="day = 1").count() == 2
    names = [path.name for path in (tmp_path / "t" / "manifest").iterdir()]
    assert any(name.startswith("index-manifest") for name in names) != keyed
    for path in (tmp_path / "t" / "manifest").iterdir():
        schema = orc.ORCFile(path).schema
        assert schema.names[0] == "_VERSION"
        if "list" not in path.name:
            assert schema.field("_KIND").type == pa.int8()


@pytest.mark.spark
def test_materialized_tables_are_read(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    """Flink's are tables like others, with an option that only Flink obeys."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])
    table = PaimonTable.create(Storage(), str(tmp_path / "t"), schema, primary_key=["id"], properties={"bucket": "1"})
    table.append(pa.table({"id": [1, 2], "text": ["a", "b"]}, schema=schema))
    path = tmp_path / "t" / "schema" / "schema-0"
    stored = json.loads(path.read_text())
    stored["options"]["type"] = "materialized-table"
    path.write_text(json.dumps(stored))
    java_paimon.write(tmp_path / "t", [[2, "c"], [3, "d"]])
    table = PaimonTable.open(Storage(), str(tmp_path / "t"))
    rows = [[1, "a"], [2, "c"], [3, "d"]]
    assert sorted(java_paimon.read(tmp_path / "t")) == rows
    assert [list(row.values()) for row in table.scan().to_arrow().sort_by("id").to_pylist()] == rows
    with pytest.raises(UnsupportedError, match="Flink refreshes its rows"):
        table.append(pa.table({"id": [4], "text": ["e"]}, schema=schema))


@pytest.mark.spark
def test_java_and_manifests_in_orc(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    table = make(tmp_path / "t", **KEYED)
    table = set_options(table, manifest_format="orc")
    table.append(rows(0, 1, 2))
    java_paimon.write(table.location, java_rows(rows(2, 3, text="y")))
    table.handle.refresh()
    table.append(rows(4, text="z"))
    java_paimon.write(table.location, java_rows(rows(5)), compaction="full")
    table.handle.refresh()
    expected = pa.concat_tables([rows(0, 1), rows(2, 3, text="y"), rows(4, text="z"), rows(5)])
    assert table.scan().to_arrow().sort_by("id") == expected
    assert sorted(java_paimon.read(table.location)) == java_rows(expected)


def rewrite_avro(path: Path, *, null_record: bool = False) -> None:
    """As Paimon up to 0.8 writes Avro: the root is the union of null and its record."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        records: list[Any] = list(reader)
        schema = reader.writer_schema
    sink = io.BytesIO()
    fastavro.writer(sink, ["null", schema], [*records, *[None] * null_record])
    path.write_bytes(sink.getvalue())


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "key"])
def test_roots_that_may_be_null(tmp_path: Path, keyed: bool) -> None:
    options = {"manifest.compression": "none", "file.format": "avro", "file.compression": "none"}
    how = {**KEYED, "properties": {"bucket": "1", **options}} if keyed else {"properties": options}
    table = make(tmp_path / "t", **how)
    table.append(rows(0, 1, 2))
    table.append(rows(2, 3))
    without_sizes = Path(table.location) / "snapshot" / "snapshot-2"
    snapshot = json.loads(without_sizes.read_text())
    without_sizes.write_text(json.dumps({k: v for k, v in snapshot.items() if not k.endswith("ManifestListSize")}))
    rewrite_avro(tmp_path / "t" / "manifest" / snapshot["deltaManifestList"])
    assert PaimonTable.open(Storage(), table.location).scan().count() == (4 if keyed else 5)
    rewrite_avro(tmp_path / "t" / "manifest" / snapshot["baseManifestList"], null_record=True)
    with pytest.raises(FormatError, match="record 1 is null"):
        PaimonTable.open(Storage(), table.location).scan().count()


# ---- options ----


@pytest.mark.parametrize("name", ["metadata.iceberg.storage"])
def test_options_that_are_refused_for_writing(tmp_path: Path, name: str) -> None:
    table = make(tmp_path / "t")
    table.append(rows(1))
    table = set_options(table, **{name: "table-location"})
    assert table.scan().count() == 1
    with pytest.raises(
        UnsupportedError, match=f"table option {name}: commits of a table that was opened without a catalog"
    ):
        table.append(rows(2))
    assert set_options(table, **{name: "disabled"}).append(rows(2)) is not None


# ---- ORC ----


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/New_York"])
def test_times_near_1970_that_java_wrote_elsewhere(
    tmp_path: Path, java_paimon: JavaPaimon, spark: Any, zone: str
) -> None:
    times = pa.schema([("id", pa.int32()), ("t", pa.timestamp("ms")), ("l", pa.list_(pa.timestamp("us")))])
    table = make(tmp_path / "t", times, properties={"file.format": "orc"})
    millis = [1, 999, 28799500, 28800500, -3600000 + 1, -18000500, 86400001 * 3, 0]
    zones = spark._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(zone))
    try:
        java_paimon.write(table.location, [[i, [m, 0], [[m, 1000]]] for i, m in enumerate(millis)])
    finally:
        zones.setDefault(before)
    table.handle.refresh()
    expected = {row[0]: (row[1][0], row[2][0][0]) for row in java_paimon.read(table.location)}
    found = table.scan().to_arrow().to_pydict()
    assert found["id"] == sorted(expected)
    as_number = [pa.scalar(t, pa.timestamp("ms")).cast(pa.int64()).as_py() for t in found["t"]]
    assert dict(zip(found["id"], as_number, strict=True)) == {i: m for i, (m, _) in expected.items()}
    inner = table.scan().to_arrow()["l"].combine_chunks().flatten().cast(pa.int64()).to_pylist()
    assert [number // 1000 for number in inner] == [m for _, m in expected.values()]


@pytest.mark.spark
def test_padded_texts_of_java(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    nested = pa.struct([("a", pa.string()), ("l", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.string()))])
    schema = pa.schema([pa.field("c", pa.string(), nullable=False), ("v", pa.string()), ("n", nested)])
    for keys in ([], ["c"]):
        options = {"file.format": "orc", "bucket": "1", **({} if keys else {"bucket-key": "c"})}
        table = make(tmp_path / f"t{len(keys)}", schema, primary_key=keys, properties=options)
        path = Path(table.location) / "schema" / "schema-0"
        text = json.loads(path.read_text())
        members = [("a", "CHAR(4)"), ("l", {"type": "ARRAY", "element": "CHAR(2)"})]
        members.append(("m", {"type": "MAP", "key": "CHAR(5) NOT NULL", "value": "STRING"}))
        text["fields"][0]["type"] = "CHAR(3) NOT NULL"
        text["fields"][2]["type"] = {
            "type": "ROW",
            "fields": [{"id": 3 + i, "name": name, "type": type_} for i, (name, type_) in enumerate(members)],
        }
        path.write_text(json.dumps(text))
        rows = [["a", "b ", ["ä", ["x", None], [["k", "v "]]]], ["abc", None, None], ["", "", [None, None, None]]]
        java_paimon.write(table.location, rows)
        table = PaimonTable.open(Storage(), table.location)
        assert sorted(java_paimon.read(table.location)) == sorted(rows)
        found = sorted([list(row.values()) for row in table.scan().to_arrow().to_pylist()])
        nests = [None if row[2] is None else [row[2]["a"], row[2]["l"], row[2]["m"]] for row in found]
        assert [row[:2] for row in found] == [["", ""], ["a", "b "], ["abc", None]]
        assert nests == [[None, None, None], ["ä", ["x", None], [("k", "v ")]], None]
        assert table.scan(where="c = 'a'").count() == 1
