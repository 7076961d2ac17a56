"""Writes the files in `data`: variants as Spark 4.1 and Iceberg Java 1.12 shred them, with their JSON.

`python tests/variant/make_variant_samples.py`
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "foreign"))

from sample_maker import CATALOG, NAMESPACE, start_spark

DATA = Path(__file__).with_name("data")
DOCUMENTS: dict[str, list[str | None]] = {
    "objects": [
        '{"id":1,"name":"a","at":{"x":1.5,"y":[1,2]},"tags":["p",null],"big":12345678901}',
        '{"id":2,"name":null,"at":{"x":2.25,"y":[]},"tags":[],"big":12345678902,"more":{"k":[{}]}}',
        '{"id":300,"name":"c","at":{"x":"none"},"big":"text"}',
        None,
        "null",
        "{}",
        '{"id":4,"at":{"x":3.75,"z":true,"y":[3]},"tags":["q","r"],"big":12345678903}',
    ],
    "lists": ["[1,2,3]", "[]", '["text",null,4]', None, "[5]", "[[6]]"],
    "texts": ['"a"', '"' + "b" * 70 + '"', "null", None, '"é"'],
    "mixed": ['{"a":1}', '"text"', "7", "null", None, "[true,false]", "1.25", "1e300"],
}
PRIMITIVES = """
    VALUES (0, CAST(true AS VARIANT)), (1, CAST(CAST(1 AS TINYINT) AS VARIANT)), (2, CAST(2.5f AS VARIANT)),
    (3, CAST(3.5d AS VARIANT)), (4, CAST(CAST('1.23' AS DECIMAL(9, 2)) AS VARIANT)),
    (5, CAST(CAST('123456789012345678901234.5' AS DECIMAL(38, 1)) AS VARIANT)), (6, CAST(DATE'2020-02-29' AS VARIANT)),
    (7, CAST(TIMESTAMP'2020-01-02 03:04:05.000006Z' AS VARIANT)),
    (8, CAST(TIMESTAMP_NTZ'1957-01-02 03:04:05.5' AS VARIANT)), (9, CAST(X'00FF' AS VARIANT)),
    (10, CAST('text' AS VARIANT)), (11, CAST(9223372036854775807 AS VARIANT))
"""


def main() -> None:
    """Write them."""
    DATA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = start_spark(folder)
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        for table, documents in DOCUMENTS.items():
            rows = list(enumerate(documents))
            spark.createDataFrame(rows, "id int, j string").createOrReplaceTempView("incoming")
            write(spark, folder, table, "SELECT /*+ COALESCE(1) */ id, parse_json(j) AS v FROM incoming ORDER BY id")
        write(spark, folder, "primitives", f"SELECT /*+ COALESCE(1) */ * FROM {PRIMITIVES} AS t(id, v) ORDER BY id")
        spark.stop()


def write(spark: object, folder: Path, name: str, query: str) -> None:
    """One table of one file, and what it holds."""
    table = f"{CATALOG}.{NAMESPACE}.{name}"
    spark.sql(
        f"CREATE TABLE {table} (id int, v variant) USING iceberg "
        "TBLPROPERTIES ('format-version'='3', 'write.parquet.shred-variants'='true')"
    )
    spark.sql(f"INSERT INTO {table} {query}")
    found = spark.sql(f"SELECT id, to_json(v) AS j FROM {table} ORDER BY id").collect()
    (path,) = (folder / NAMESPACE / name / "data").rglob("*.parquet")
    (DATA / f"{name}.parquet").write_bytes(path.read_bytes())
    (DATA / f"{name}.json").write_text(json.dumps([row["j"] for row in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
