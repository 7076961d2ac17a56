"""What a fresh process pays: importing skerry, `skerry stats`, compiling kernels once, loading them ever after.

The peer is PyIceberg opening the same catalog and loading the same table in a fresh process. Every figure is the median
of whole processes, ours and the peer's in turn.
"""

from __future__ import annotations

import argparse
import os
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


def seconds(command: list[str], environment: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


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
        cli = [str(Path(sys.executable).with_name("skerry")), "stats", "d.t", "--warehouse", str(folder)]
        first = seconds([*python, WARM_UP], environment)
        commands = {
            "python alone": [*python, EMPTY],
            "import skerry": [*python, IMPORT],
            "PyIceberg: open catalog, load table": [*python, PYICEBERG.format(folder=folder)],
            "skerry stats": cli,
            "load compiled kernels": [*python, WARM_UP],
        }
        times: dict[str, list[float]] = {label: [] for label in commands}
        for _ in range(rounds):
            for label, command in commands.items():
                times[label].append(seconds(command, environment))

    median = {label: statistics.median(values) for label, values in times.items()}
    for label, value in median.items():
        print(f"{label:40s} {value:6.3f} s   (least {min(times[label]):.3f}, greatest {max(times[label]):.3f})")
    base = median["python alone"]
    print(f"\nimport skerry, above python alone        {median['import skerry'] - base:6.3f} s   (goal: 0.3)")
    above = median["skerry stats"] - median["PyIceberg: open catalog, load table"]
    print(f"skerry stats, above PyIceberg's opening  {above:6.3f} s   (goal: 0.4)")
    print(f"compile all kernels, once per machine    {first - base:6.3f} s   (goal: 10)")
    print(f"load all kernels, ever after             {median['load compiled kernels'] - base:6.3f} s   (goal: 1)")


if __name__ == "__main__":
    main()
