"""Iceberg metadata beside every commit of a Paimon table: Spark's Iceberg connector and ours read the table by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon

import skerry
from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("p", pa.string()),
        ("v", pa.decimal128(9, 2)),
        ("l", pa.list_(pa.int32())),
    ]
)
WANTED = {"metadata.iceberg.storage": "table-location", "bucket": "-1"}


def rows(start: int, stop: int) -> pa.Table:
    ids = range(start, stop)
    found = [{"id": id_, "p": f"p{id_ % 2}", "v": id_, "l": [id_, None]} for id_ in ids]
    return pa.Table.from_pylist(found, SCHEMA)


def made(warehouse: Path, **how: Any) -> Any:
    catalog = skerry.connect(str(warehouse))
    catalog.create_namespace("d")
    return catalog.create_table("d.t", SCHEMA, format="paimon", **how)


def ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


def seen(table: Any) -> list[int]:
    """What Iceberg readers see: ours."""
    return ids(skerry.open_table(table.location + "/metadata/" + newest(table)).scan().to_arrow())


def newest(table: Any) -> str:
    hint = Path(table.location.removeprefix("file://")) / "metadata" / "version-hint.text"
    return f"v{hint.read_text()}.metadata.json"


def test_iceberg_readers_see_every_commit(tmp_path: Path) -> None:
    table = made(tmp_path, partition_by=["p"], properties=WANTED)
    for number in range(4):
        table.append(rows(number * 10, number * 10 + 5))
        assert seen(table) == ids(table.scan().to_arrow())
    table.delete("id = 3 or id > 30")
    assert seen(table) == ids(table.scan().to_arrow())
    table.compact(full=True)
    assert seen(table) == ids(table.scan().to_arrow())
    table.update_schema().rename_column("v", "w").add_column("x", pa.int32()).commit()
    table.append(rows(50, 52).rename_columns(["id", "p", "w", "l"]))
    mirrored = skerry.open_table(f"{table.location}/metadata/{newest(table)}")
    expected = table.scan().to_arrow().sort_by("id")
    assert mirrored.scan().to_arrow().sort_by("id").to_pydict() == expected.to_pydict()
    explained = mirrored.scan(where="id = 51").explain()
    assert explained.plan.steps[-1].kept == 1
    table.rollback(3)
    assert newest(table) == "v3.metadata.json"
    assert seen(table) == ids(table.scan().to_arrow()) == [*range(5), *range(10, 15), *range(20, 25)]
    table.append(rows(70, 71).rename_columns(["id", "p", "w", "l"]))
    assert seen(table) == ids(table.scan().to_arrow())


def test_merged_rows_appear_with_full_compaction(tmp_path: Path) -> None:
    properties = {**WANTED, "bucket": "1", "write-only": "true"}
    table = made(tmp_path, primary_key=["id"], properties=properties)
    table.append(rows(0, 5))
    assert seen(table) == []
    table.compact(full=True)
    assert seen(table) == list(range(5))
    table.append(rows(4, 8))
    assert seen(table) == list(range(5))
    table.delete("id = 0")
    table.compact(full=True)
    assert seen(table) == list(range(1, 8))


def test_old_versions_and_orphans(tmp_path: Path) -> None:
    table = made(tmp_path, properties={**WANTED, "metadata.iceberg.previous-versions-max": "2"})
    for number in range(16):
        table.append(rows(number, number + 1))
        versions = list(Path(table.location.removeprefix("file://")).glob("metadata/v*.metadata.json"))
        assert len(versions) <= 6
    (tmp_path / "d.db/t/bucket-0/data-orphan.parquet").write_bytes(b"left")
    removed = table.remove_orphans(older_than_days=0)
    assert [Path(file.location).name for file in removed.files] == ["data-orphan.parquet"]
    assert seen(table) == list(range(16))
    table.expire_snapshots(keep_last=1)
    assert seen(table) == list(range(16))


def test_a_failure_is_made_good_by_the_next_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import skerry.migration.iceberg_mirror as mirror

    table = made(tmp_path, properties=WANTED)
    table.append(rows(0, 3))
    with monkeypatch.context() as patch:
        patch.setattr(mirror, "encode_metadata", lambda metadata: 1 / 0)
        table.append(rows(3, 6))
    assert seen(table) == [0, 1, 2]
    assert not list(tmp_path.glob("d.db/t/metadata/snap-2*"))
    table.append(rows(6, 8))
    assert seen(table) == list(range(8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metadata.iceberg.storage": "hive-catalog"}, "metadata.iceberg.storage=hive-catalog"),
        ({"deletion-vectors.enabled": "true"}, "deletion-vectors.enabled=true"),
        ({"file.format": "avro"}, "file.format=avro"),
        ({"metadata.iceberg.format-version": "3"}, "format-version=3"),
    ],
)
def test_what_iceberg_readers_would_not_see_is_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    table = made(tmp_path, properties={**WANTED, **options})
    with pytest.raises(UnsupportedError, match=message):
        table.append(rows(0, 1))


def test_the_folder_of_a_catalog(tmp_path: Path) -> None:
    table = made(tmp_path, properties={"metadata.iceberg.storage": "hadoop-catalog"})
    table.append(rows(0, 1))
    assert (tmp_path / "iceberg/d/t/metadata/v1.metadata.json").exists()
    alone = PaimonTable.open(Storage(), table.location)
    with pytest.raises(UnsupportedError, match="opened without a catalog"):
        alone.append(rows(1, 2))
    table.set_properties({"metadata.iceberg.storage-location": "elsewhere"})
    with pytest.raises(SchemaError, match="storage-location=elsewhere"):
        table.append(rows(1, 2))


@pytest.mark.spark
@pytest.mark.parametrize("keyed", [False, True])
def test_spark_and_java_in_turns(tmp_path: Path, spark: Any, java_paimon: JavaPaimon, keyed: bool) -> None:
    how = {"primary_key": ["id"], "properties": {**WANTED, "bucket": "1"}} if keyed else {"properties": WANTED}
    table = made(tmp_path, **how)
    for number in range(3):
        table.append(rows(number * 10, number * 10 + 3))
        java_paimon.write(
            table.location,
            [[number * 10 + 5, "p1", "1.25", [1, 2]]],
            compaction="full" if keyed else None,
        )
        table.refresh()
        if number == 1:
            table.delete("id in (0, 15)")
        table.compact(full=True)
        expected = ids(table.scan().to_arrow())
        found = spark.read.format("iceberg").load(table.location)
        assert sorted(row.id for row in found.select("id").collect()) == expected
        assert [row.id for row in found.where("id = 12").collect()] == ([12] if 12 in expected else [])
        assert sorted(row[0] for row in java_paimon.read(table.location)) == expected
