"""The metastore of Hive 2.3.10, shared with Spark 4.1 and Iceberg 1.12: plain and encrypted tables, in turns.

The metastore runs in the tests' Spark, on an embedded Derby database, and is asked over its Thrift interface by both.
"""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import skerry
import skerry.spark
from services import fetched
from skerry.databases.hive_metastore import MetastoreError
from skerry.encryption import KeyFile
from skerry.errors import AlreadyExistsError
from skerry.iceberg.catalogs.hive import _MODIFIED
from skerry.iceberg.catalogs.hive_tables import METADATA_LOCATION
from torture import TORTURE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="skerry" module="key-management"/>
  <dependencies>
    <dependency org="org.apache.iceberg" name="iceberg-core" rev="1.11.0" transitive="false">
      <artifact name="iceberg-core" type="jar" ext="jar" m:classifier="tests"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
"""The key management that Iceberg's own tests use: keys in memory, wrapped by AES GCM."""
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())])


class Lake:
    """The metastore with a namespace `ns`, as both sides see it.

    Attributes:
        catalog: Ours.
    """

    def __init__(self, spark: SparkSession, uri: str, folder: Path, keys: KeyFile) -> None:
        self.spark, self.uri, self.folder, self.keys = spark, uri, folder, keys
        self.catalog = self.connect()

    def connect(self, **options: str) -> skerry.Catalog:
        return skerry.connect(self.uri, warehouse=f"file://{self.folder}", key_management=self.keys, **options)

    def run(self, sql: str) -> list[Any]:
        return self.spark.sql(sql).collect()

    def in_spark(self, name: str) -> list[tuple[int, str]]:
        return sorted((row.id, row.name) for row in self.run(f"SELECT id, name FROM hms.ns.{name}"))

    def here(self, name: str) -> list[tuple[int, str]]:
        rows = self.connect().load_table(f"ns.{name}").scan(columns=["id", "name"]).to_arrow()
        return sorted(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True))


def _start(spark: SparkSession, folder: Path) -> int:
    """Start the metastore in the JVM of Spark; its port."""
    jvm: Any = spark._jvm
    conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'hms'};create=true",
        "datanucleus.connectionPoolingType": "NONE",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(folder / "hive"),
        "hive.metastore.server.min.threads": "2",
    }
    for name, value in settings.items():
        conf.set(name, value)
    jvm.org.apache.hadoop.hive.metastore.txn.TxnDbUtil.setConfValues(conf)
    jvm.org.apache.hadoop.hive.metastore.txn.TxnDbUtil.prepDb(conf)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    start = jvm.org.apache.hadoop.hive.metastore.HiveMetaStore.startMetaStore
    threading.Thread(target=lambda: start(port, None, conf), daemon=True).start()
    until = time.monotonic() + 300
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return port
    raise TimeoutError("the metastore does not start")


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("hive")
    path = folder / "keys.json"
    keys = {"keyA": b"0123456789012345", "keyB": b"1123456789012345"}
    path.write_text(json.dumps({name: base64.b64encode(key).decode() for name, key in keys.items()}))
    path.chmod(0o600)
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in fetched(KEYS, folder):
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    port = _start(spark, folder)
    session = spark.newSession()
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hive",
        ".uri": f"thrift://127.0.0.1:{port}",
        ".warehouse": f"file://{folder / 'hive'}",
        ".encryption.kms-impl": "org.apache.iceberg.encryption.UnitestKMS",
        ".cache-enabled": "false",
    }
    for name, value in settings.items():
        session.conf.set(f"spark.sql.catalog.hms{name}", value)
    found = Lake(session, f"thrift://127.0.0.1:{port}", folder / "hive", KeyFile(path))
    found.catalog.create_namespace("ns")
    return found


def rows(*ids: int) -> pa.Table:
    return pa.table([list(ids), [f"n{number}" for number in ids], pa.nulls(len(ids), pa.date32())], schema=SCHEMA)


def named(*ids: int) -> list[tuple[int, str]]:
    return [(number, f"n{number}") for number in sorted(ids)]


PLAIN = {"write.delete.mode": "merge-on-read"}
ENCRYPTED = PLAIN | {"encryption.key-id": "keyA"}
TABLES = {
    "plain": PLAIN,
    "parquet": ENCRYPTED,
    "avro": ENCRYPTED
    | {"encryption.key-id": "keyB", "write.format.default": "avro", "encryption.data-key-length": "32"},
}


@pytest.mark.parametrize("name", TABLES if TORTURE else ["avro"])
def test_in_turns_on_a_table_of_spark(lake: Lake, name: str) -> None:
    """Spark creates the table and writes; we append, delete, compact and expire; Spark goes on."""
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in {"format-version": "3", **TABLES[name]}.items())
    lake.run(
        f"CREATE TABLE hms.ns.s_{name} (id bigint, name string, day date) USING iceberg PARTITIONED BY (bucket(2, id)) "
        f"TBLPROPERTIES ({properties})"
    )
    lake.run(f"INSERT INTO hms.ns.s_{name} VALUES (1, 'n1', NULL), (2, 'n2', NULL), (3, 'n3', NULL)")
    table = lake.catalog.load_table(f"ns.s_{name}")
    table.append(rows(4, 5, 6))
    table.delete("id = 2")
    assert lake.in_spark(f"s_{name}") == named(1, 3, 4, 5, 6)
    lake.run(f"DELETE FROM hms.ns.s_{name} WHERE id IN (3, 4)")
    table.append(rows(7))
    assert lake.here(f"s_{name}") == named(1, 5, 6, 7)
    table.compact()
    table.expire_snapshots(keep_last=1, older_than=_now())
    lake.run(f"INSERT INTO hms.ns.s_{name} VALUES (8, 'n8', NULL)")
    assert lake.in_spark(f"s_{name}") == lake.here(f"s_{name}") == named(1, 5, 6, 7, 8)
    _check_kinds(lake, f"s_{name}", "encryption.key-id" in properties)


@pytest.mark.parametrize("name", TABLES if TORTURE else ["parquet"])
def test_in_turns_on_a_table_of_ours(lake: Lake, name: str) -> None:
    """We create the table and write; Spark reads, writes and changes it; we go on."""
    table = lake.catalog.create_table(
        f"ns.o_{name}", SCHEMA, format_version=3, properties=TABLES[name], partition_by=["bucket(2, id)"]
    )
    assert lake.in_spark(f"o_{name}") == []
    table.append(rows(1, 2, 3, 4))
    table.delete("id = 1")
    lake.run(f"INSERT INTO hms.ns.o_{name} VALUES (5, 'n5', NULL)")
    lake.run(f"UPDATE hms.ns.o_{name} SET name = 'n6', id = 6 WHERE id = 2")
    lake.run(f"ALTER TABLE hms.ns.o_{name} ADD COLUMN more double")
    table.refresh()
    table.upsert(rows(3, 9).append_column("more", pa.array([0.5, 1.5])), on=["id"])
    table.create_tag("v1")
    assert lake.in_spark(f"o_{name}") == lake.here(f"o_{name}") == named(3, 4, 5, 6, 9)
    if TORTURE:
        lake.run(f"CALL hms.system.rewrite_data_files(table => 'ns.o_{name}', options => map('rewrite-all', 'true'))")
    lake.run(f"CALL hms.system.expire_snapshots(table => 'ns.o_{name}', retain_last => 1, older_than => now())")
    table.append(rows(10).append_column("more", pa.nulls(1, pa.float64())))
    assert lake.in_spark(f"o_{name}") == lake.here(f"o_{name}") == named(3, 4, 5, 6, 9, 10)
    assert lake.connect().load_table(f"ns.o_{name}").scan(ref="v1").count() == 5
    _check_kinds(lake, f"o_{name}", "encryption.key-id" in TABLES[name])


def test_names_and_races(lake: Lake) -> None:
    """What the metastore itself says and compares."""
    catalog = lake.catalog
    assert "ns" in catalog.list_namespaces()
    table = catalog.create_table("ns.n", SCHEMA, format_version=3, properties={"engine.hive.lock-enabled": "false"})
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("ns.n", SCHEMA)
    with pytest.raises(AlreadyExistsError):
        lake.connect().create_namespace("ns")
    stale = lake.connect().load_table("ns.n")
    table.append(rows(1))
    stale.append(rows(2))
    assert lake.here("n") == lake.in_spark("n") == named(1, 2)
    inner = catalog._iceberg.catalog
    found = inner.server.table("ns", "n")
    expected = {"expected_parameter_key": METADATA_LOCATION, "expected_parameter_value": "file:///other"}
    with pytest.raises(MetastoreError, match=_MODIFIED):
        inner.server.alter_table("ns", "n", found, expected)
    catalog.rename_table("ns.n", "ns.m")
    lake.run("INSERT INTO hms.ns.m VALUES (3, 'n3', NULL)")
    catalog.load_table("ns.m").delete("id = 2")
    assert lake.in_spark("m") == lake.here("m") == named(1, 3)
    lake.run("CREATE TABLE hms.ns.gone (id bigint) USING iceberg")
    assert {"ns.m", "ns.gone"} <= set(catalog.list_tables("ns"))
    lake.run("DROP TABLE hms.ns.gone")
    assert "ns.gone" not in catalog.list_tables("ns")
    catalog.drop_table("ns.m", purge=True)
    assert "ns.m" not in catalog.list_tables("ns")


def test_spark_writes_encrypted_files_through_python(lake: Lake) -> None:
    """`ingest` does not use Spark's own Parquet writer, and no key gets into Spark's configuration."""
    lake.catalog.create_table("ns.i", SCHEMA, format_version=3, properties=ENCRYPTED)
    frame = lake.spark.sql("SELECT id, concat('n', id) AS name, CAST(NULL AS date) AS day FROM range(50)")
    skerry.spark.ingest(lake.spark, frame, lake.connect().load_table("ns.i"))
    assert lake.in_spark("i") == lake.here("i") == named(*range(50))
    _check_kinds(lake, "i", True)


def _now() -> Any:
    from datetime import UTC, datetime

    return datetime.now(UTC)


def _check_kinds(lake: Lake, name: str, is_encrypted: bool) -> None:
    """Every file of an encrypted table is one, whoever has written it."""
    table = lake.connect().load_table(f"ns.{name}")
    folder = Path(table.location.removeprefix("file:"))
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix in (".parquet", ".avro", ".puffin")]
    magics = {path.read_bytes()[:4] for path in files}
    assert magics <= {b"AGS1", b"PARE"} if is_encrypted else not magics & {b"AGS1", b"PARE"}
    assert files
