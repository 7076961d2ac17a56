"""Make the tables of `data/encrypted` with Spark 4.1 and Iceberg 1.12: run this file.

The catalog is Iceberg's HiveCatalog on an embedded Derby database: of the catalogs that Spark can start by itself, the
only one that encrypts. Keys are wrapped by the key management that Iceberg's own tests use.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from foreign_samples import ENCRYPTED, ROOT
from make_foreign_samples import MERGE_ON_READ, PEOPLE, people, update, where
from sample_maker import CATALOG, NAMESPACE, SampleMaker

KEY_MANAGEMENT = "org.apache.iceberg.encryption.UnitestKMS"
IVY = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="skerry" module="samples"/>
  <dependencies>
    <dependency org="org.apache.iceberg" name="iceberg-core" rev="1.11.0" transitive="false">
      <artifact name="iceberg-core" type="jar" ext="jar" m:classifier="tests"/>
    </dependency>
    <dependency org="org.apache.iceberg" name="iceberg-spark-runtime-4.1_2.13" rev="1.12.0" transitive="false"/>
  </dependencies>
</ivy-module>
"""
ENCRYPTION = {"format-version": "3", "encryption.key-id": "keyA"}
SAMPLES = {
    "people": ENCRYPTION | MERGE_ON_READ,
    "people_avro": ENCRYPTION | MERGE_ON_READ | {"write.format.default": "avro", "encryption.data-key-length": "32"},
}


def start_spark(folder: Path) -> Any:
    """Spark with a catalog `samples`, whose locations `memory://samples/s/…` are files in a folder."""
    import skerry.spark
    from skerry.spark.runtime.session import ICEBERG_EXTENSIONS

    (folder / NAMESPACE).mkdir(parents=True)
    catalog = f"spark.sql.catalog.{CATALOG}"
    return skerry.spark.session(
        "encrypted samples",
        master="local[1]",
        config={
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder / 'derby'}",
            "spark.jars": ",".join(_jars(folder)),
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.extensions": ICEBERG_EXTENSIONS,
            "spark.hadoop.fs.memory.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
            f"spark.hadoop.fs.viewfs.mounttable.samples.link./{NAMESPACE}": f"file://{folder / NAMESPACE}",
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'hms'};create=true",
            "spark.hadoop.iceberg.engine.hive.lock-enabled": "false",
            "spark.hadoop.datanucleus.connectionPoolingType": "NONE",
            "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
            "spark.hadoop.hive.metastore.schema.verification": "false",
            "spark.hadoop.hive.metastore.warehouse.dir": str(folder / "hive"),
            "spark.local.dir": str(folder / "local"),
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "hive",
            f"{catalog}.warehouse": str(folder / "hive"),
            f"{catalog}.encryption.kms-impl": KEY_MANAGEMENT,
            f"{catalog}.cache-enabled": "false",
        },
    )


def _jars(folder: Path) -> list[str]:
    """Iceberg's connector and the jar of Iceberg's own tests, fetched by the Ivy that ships with PySpark."""
    import pyspark

    from skerry.spark.runtime.java import find_java

    (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    (folder / "ivy.xml").write_text(IVY)
    java = find_java(pyspark.__version__).home / "bin" / "java"
    subprocess.run(
        [java, "-jar", ivy, "-ivy", folder / "ivy.xml", "-cachepath", folder / "path"], cwd=folder, check=True
    )
    return (folder / "path").read_text().strip().split(":")


def change(table: SampleMaker) -> None:
    """Inserts, deletes of rows, an update, and a delete in what was deleted from before."""
    table.insert(people(0, 20))
    table.insert(people(20, 30))
    table.run("DELETE FROM {t} WHERE id % 5 = 0", where(lambda row: row["id"] % 5 != 0))
    table.run("UPDATE {t} SET name = 'x' WHERE id IN (1, 22)", update(lambda row: row["id"] in (1, 22), name="x"))
    table.run("DELETE FROM {t} WHERE id < 3", where(lambda row: row["id"] >= 3))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="skerry-encrypted-") as temporary:
        folder = Path(temporary)
        spark = start_spark(folder)
        spark.sql(f"CREATE NAMESPACE {CATALOG}.{NAMESPACE} LOCATION '{ROOT}/{NAMESPACE}'")
        for name, properties in SAMPLES.items():
            table = SampleMaker(spark, folder, name, PEOPLE, properties=properties)
            change(table)
            print(name, table.pack(ENCRYPTED), "bytes")
        spark.stop()


if __name__ == "__main__":
    main()
