"""What a command loads: only what it needs."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa

import skerry

SCRIPT = """
import sys
from skerry.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
for name in ("pandas", "pyspark", "duckdb", "sqlglot", "pyiceberg", "sqlalchemy", "requests", "urllib3"):
    assert name not in sys.modules, name
for name in ("paimon.table", "amudai.reading.shard_file", "planner", "iceberg.commit", "iceberg.metadata.applying",
    "iceberg.jobs.analyze", "iceberg.jobs.compact", "iceberg.jobs.merge", "iceberg.jobs.row_changes", "jobs.orphans"):
    assert f"skerry.{name}" not in sys.modules, name
"""


def test_statistics_are_told_without_pandas_spark_pyiceberg_commits_jobs_and_other_formats(tmp_path):
    table = skerry.connect(tmp_path).create_table("d.t", pa.schema([("k", pa.int64()), ("at", pa.timestamp("us"))]))
    table.append(pa.table({"k": [1, 2], "at": pa.array([1, None], pa.timestamp("us"))}))
    for command in (["stats", "d.t", "--json"], ["scan", "d.t", "--json"], ["ls"], ["show", "d.t"]):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *command, "--warehouse", str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "1" in done.stdout
