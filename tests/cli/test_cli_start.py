"""What a command loads: only what it needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pytest

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


LOADED = """
import json, sys
from skerry.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(list(sys.modules)))
"""
NOT_FOR_A_TABLE = (
    "pydantic",
    "typer",
    "pyiceberg",
    "sqlalchemy",
    "sqlglot",
    "urllib3",
    "http",
    "email",
    "numba",
    "rich",
)
NOT_FOR_STATISTICS = (
    "numba",
    "skerry.table.predicate",
    "skerry.table.rows.incoming",
    "skerry.variant.columns",
    "skerry.paimon",
)
NOT_FOR_A_LIST = ("pyarrow.compute", "llvmlite", "skerry.avro", "skerry.kernels", "skerry.puffin", "skerry.theta")


@pytest.mark.parametrize(
    ("command", "without", "most_of_ours"),
    [
        (["ls"], (*NOT_FOR_A_TABLE, *NOT_FOR_STATISTICS, *NOT_FOR_A_LIST), 119),
        (["stats", "d.t"], (*NOT_FOR_A_TABLE, *NOT_FOR_STATISTICS), 186),
    ],
    ids=["ls", "stats"],
)
def test_a_short_command_loads_little(tmp_path, command, without, most_of_ours):
    table = skerry.connect(tmp_path).create_table("d.t", pa.schema([("k", pa.int64()), ("s", pa.string())]))
    table.append(pa.table({"k": [1, 2], "s": ["a", None]}))
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *command, "-w", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in without if name in loaded] == []
    assert sum(name.startswith("skerry") for name in loaded) <= most_of_ours
