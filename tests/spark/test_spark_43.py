"""The newest Spark, which has no Iceberg connector: our own ways through it, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from java_options import quick_java
from spark_homes import make_spark_home

pytestmark = pytest.mark.spark

PYTHON = Path(__file__).parents[2] / ".venv-spark43" / "bin" / "python"
"""Made by `make peers`."""


@pytest.mark.long
def test_a_pipeline_on_spark_4_3(tmp_path: Path) -> None:
    job = Path(__file__).parent / "peers" / "spark43_job.py"
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    (package,) = PYTHON.parents[1].glob("lib/python*/site-packages/pyspark")
    environment["SPARK_HOME"] = str(make_spark_home(tmp_path / "home", package))
    done = subprocess.run(
        [PYTHON, job, tmp_path / "warehouse", tmp_path / "spark", quick_java("4.3")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.splitlines() == [
        "spark 4.3.0 4.3.0",
        "Iceberg 1.12.0 has no connector for Spark 4.3, only for 4.0 and 4.1: run `pip install 'pyspark==4.1.*'`",
        "ingest 900 900 rows in 3 files, 900.0 keys, fresh",
        "write 1000 rows in 6 files, 1000.0 keys, fresh",
        "read 1000 9945",
        "own read 330 ['s0', 's1', 's2', 's3', 's4', 's5', 's6']",
        "sql {'n': 990, 'm': 999}",
        "merge 5 5",
        "compact 3 995 rows in 3 files, 995.0 keys, fresh",
        "stream 995 1",
        "upkeep 1 True 0",
    ]
