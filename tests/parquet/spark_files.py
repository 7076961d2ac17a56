"""Small files by parquet-mr, which Spark writes Parquet with: one table, every type, several ways of writing it.

`python tests/parquet/spark_files.py` writes those under tests/parquet/data anew.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parent / "data"
ROWS = 900
COLUMNS = {
    "id": "id",
    "tiny": "cast(id % 7 as tinyint)",
    "small": "cast(id % 300 - 150 as smallint)",
    "number": "cast(if(id % 13 = 0, null, id % 100) as int)",
    # Few values first, many later: the dictionary is given up in the middle of the chunk.
    "late_number": "if(id < 300, id % 20, id * 7919)",
    "late_text": "if(id < 300, concat('early ', id % 20), substr(md5(cast(id as string)), 1, 10))",
    "few": "if(id % 5 = 0, null, concat('value ', id % 9))",
    "many": "if(id % 17 = 0, null, substr(sha1(cast(id as string)), 1, 12))",
    "flag": "id % 3 = 0",
    "always": "true",
    "f32": "cast(case when id % 11 = 0 then 'NaN' when id % 10 = 1 then '-0' else string(id % 10) end as float)",
    "f64": "cast(case when id % 11 = 0 then 'NaN' when id % 7 = 1 then '-0' else string(id / 2) end as double)",
    "calm": "cast(id % 8 as double)",
    "d9": "cast((id - 700) * 1.01 as decimal(9, 2))",
    "d18": "cast((id % 60 - 30) * 100000.01 as decimal(18, 2))",
    "d38": "cast((id - 700) as decimal(38, 4)) * 12345678901234567890.1234",
    "day": "date_add(date'1969-12-01', cast(id % 90 as int))",
    "moment": "timestamp_micros((id - 700) * 1000000)",
    "local": "cast(timestamp_micros((id % 40 - 20) * 1000000) as timestamp_ntz)",
    "bytes": "cast(reverse(cast(id % 50 as string)) as binary)",
    "inner": "if(id % 4 = 0, null, named_struct('a', cast(id % 30 as int), 'b', nullif(concat('b', id), 'b9')))",
    "items": "array(cast(id as int), 7)",
    "nothing": "cast(null as string)",
}
SMALL_PAGES = {
    "parquet.page.row.count.limit": "200",
    "parquet.dictionary.page.size": "2048",
    "parquet.page.size.check.estimate": "false",
}
VARIANTS: dict[str, dict[str, str]] = {
    "snappy": {"compression": "snappy", **SMALL_PAGES},
    "gzip-v2": {"compression": "gzip", "parquet.writer.version": "PARQUET_2_0", **SMALL_PAGES},
    "zstd-legacy": {"compression": "zstd", "spark.sql.parquet.writeLegacyFormat": "true", **SMALL_PAGES},
    "none-plain": {"compression": "uncompressed", "parquet.enable.dictionary": "false"},
    "lz4raw-millis": {"compression": "lz4_raw", "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"},
    "snappy-int96": {"compression": "snappy", "spark.sql.parquet.outputTimestampType": "INT96", **SMALL_PAGES},
}
"""Write options by name; those of `spark.sql` are set on the session."""


def write_spark_files(spark: SparkSession, folder: Path, *, rows: int = ROWS) -> dict[str, Path]:
    """Write every variant as one file `<variant>.parquet` with field ids from 1, those of `inner` from 101."""
    from pyspark.sql.types import StructField, StructType

    frame = spark.range(rows, numPartitions=1).selectExpr(*[f"{sql} as {name}" for name, sql in COLUMNS.items()])
    fields = []
    for i, field in enumerate(frame.schema.fields):
        type_ = field.dataType
        if isinstance(type_, StructType):
            inner = [StructField(f.name, f.dataType, True, {"parquet.field.id": 101 + j}) for j, f in enumerate(type_)]
            type_ = StructType(inner)
        fields.append(StructField(field.name, type_, field.name != "id", {"parquet.field.id": i + 1}))
    # Through Python, because DataFrame.to() drops the metadata of some columns.
    frame = spark.createDataFrame(frame.collect(), StructType(fields)).coalesce(1)
    written = {}
    for name, options in VARIANTS.items():
        session = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS", "spark.sql.session.timeZone": "UTC"}
        session |= {key: value for key, value in options.items() if key.startswith("spark.")}
        before = {key: spark.conf.get(key, None) for key in session}
        try:
            for key, value in session.items():
                spark.conf.set(key, value)
            with tempfile.TemporaryDirectory() as temporary:
                target = Path(temporary) / "out"
                frame.write.options(**{k: v for k, v in options.items() if k not in session}).parquet(str(target))
                (part,) = target.glob("part-*.parquet")
                written[name] = folder / f"{name}.parquet"
                shutil.copyfile(part, written[name])
        finally:
            for key, value in before.items():
                if value is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, value)
    return written


if __name__ == "__main__":
    from skerry.spark import session

    DATA.mkdir(exist_ok=True)
    for path in write_spark_files(session(), DATA).values():
        sys.stdout.write(f"{path} {path.stat().st_size}\n")
