"""What a fresh process pays: importing skerry, `skerry ls` and `stats`, compiling kernels once, loading them later.

The peer is PyIceberg opening the same catalog and loading the same table in a fresh process. Every figure is the median
of whole processes, ours and the peer's in turn; what commands take of the processor (user and system) is the least of
them, since others on the machine only add to it.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import skerry

EMPTY = "pass"
IMPORT = "import skerry"
PYICEBERG = """
from pyiceberg.catalog.sql import SqlCatalog
catalog = SqlCatalog("skerry", uri="sqlite:///{folder}/catalog.db", warehouse="file://{folder}")
catalog.load_table("d.t")
"""
WARM_UP = "import skerry.kernels; skerry.kernels.warm_up()"


def seconds(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """How long a process takes, and how much of the processor."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "warehouse"
        cache = Path(name) / "cache"
        environment = {**os.environ, "SKERRY_CACHE_DIR": str(cache)}
        table = skerry.connect(folder).create_table("d.t", pa.schema([("k", pa.int64()), ("s", pa.string())]))
        table.append(pa.table({"k": range(100_000), "s": [f"word {n % 777}" for n in range(100_000)]}))

        python = [sys.executable, "-c"]
        skerry_, place = str(Path(sys.executable).with_name("skerry")), ["--warehouse", str(folder)]
        first, _ = seconds([*python, WARM_UP], environment)
        commands = {
            "python alone": [*python, EMPTY],
            "import skerry": [*python, IMPORT],
            "PyIceberg: open catalog, load table": [*python, PYICEBERG.format(folder=folder)],
            "skerry ls": [skerry_, "ls", *place],
            "skerry stats": [skerry_, "stats", "d.t", *place],
            "load compiled kernels": [*python, WARM_UP],
        }
        times: dict[str, list[float]] = {label: [] for label in commands}
        processor: dict[str, list[float]] = {label: [] for label in commands}
        for _ in range(rounds):
            for label, command in commands.items():
                wall, taken = seconds(command, environment)
                times[label].append(wall)
                processor[label].append(taken)

    median = {label: statistics.median(values) for label, values in times.items()}
    for label, value in median.items():
        print(f"{label:40s} {value:6.3f} s   (least {min(times[label]):.3f}, greatest {max(times[label]):.3f})")
    base = median["python alone"]
    print(f"\nimport skerry, above python alone        {median['import skerry'] - base:6.3f} s   (goal: 0.3)")
    above = median["skerry stats"] - median["PyIceberg: open catalog, load table"]
    print(f"skerry stats, above PyIceberg's opening  {above:6.3f} s   (goal: 0.4)")
    for label in ("skerry ls", "skerry stats"):
        print(f"{label + ', processor time, least':40s} {min(processor[label]):6.3f} s   (goal: 0.5)")
    print(f"compile all kernels, once per machine    {first - base:6.3f} s   (goal: 10)")
    print(f"load all kernels, ever after             {median['load compiled kernels'] - base:6.3f} s   (goal: 1)")


if __name__ == "__main__":
    main()
