"""Encrypted tables in Spark: our reader gives the rows, and no key gets into its configuration or plans."""

from __future__ import annotations

import base64
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from foreign_samples import ENCRYPTED, EXPECTED, ROOT, plain

import skerry
import skerry.spark
from skerry.encryption import KeyFile, decode_key_metadata

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keyA": base64.b64encode(b"0123456789012345").decode()}))
    path.chmod(0o600)
    return KeyFile(path)


@pytest.mark.parametrize("name", ["people", "people_avro"])
def test_an_encrypted_table_is_read(spark: SparkSession, tmp_path: Path, keys: KeyFile, name: str) -> None:
    with tarfile.open(ENCRYPTED / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    expected = json.loads((tmp_path / EXPECTED).read_text())
    assert expected["metadata"].startswith(ROOT)
    table = skerry.open_table(tmp_path / "s" / name, key_management=keys)
    frame = skerry.spark.read(spark, table)
    assert (
        sorted((plain(row.asDict()) for row in frame.collect()), key=lambda row: row["id"])
        == (expected["states"]["current"])
    )
    some = skerry.spark.read(spark, table, where="id > 20", columns=["id"])
    wanted = [row["id"] for row in expected["states"]["current"] if row["id"] > 20]
    assert sorted(row.id for row in some.collect()) == wanted
    settings = str(spark.sparkContext.getConf().getAll()) + str(spark.conf.getAll)
    plan = frame._jdf.queryExecution().toString()
    for task in table.scan().plan():
        key = decode_key_metadata(task.data_file.key_metadata).key
        for text in (key.hex(), base64.b64encode(key).decode(), str(key)):
            assert text not in settings
            assert text not in plan
    assert "Parquet" not in plan
