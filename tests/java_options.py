"""Options for the JVMs that tests start: they live shortly, and run many different queries on a few rows."""

from __future__ import annotations

from pathlib import Path

import pyspark

ARCHIVES = Path(__file__).parents[1] / ".cache"

# Code is used too rarely to be worth the optimizing compiler. The room for code that Java takes without it is too small
# for a run of the suite: a thread then throws code away that is compiled again soon.
COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"


def quick_java(spark_version: str = pyspark.__version__) -> str:
    """Options by which Spark's JVMs need little processor time, with the classes that `make peers` has archived."""
    archive = ARCHIVES / f"spark-{'.'.join(spark_version.split('.')[:2])}.jsa"
    return f"{COMPILER} -XX:SharedArchiveFile={archive}" if _is_archive(archive) else COMPILER


def _is_archive(file: Path) -> bool:
    """Whether a file has an archive: it is empty where none could be written."""
    return file.exists() and file.stat().st_size > 0
