"""What a fresh process pays: importing skerry, `skerry ls` and `stats`, compiling kernels once, loading them later.

Kernels are compiled once as in a checkout, by numba, and once as in a wheel, from bitcode: a wheel is built for that.
For the first calls of a fresh machine the time is given that they wait for machine code.

The peer is PyIceberg opening the same catalog and loading the same table in a fresh process. Every figure is the median
of whole processes, ours and the peer's in turn; what commands take of the processor (user and system) is the least of
them, since others on the machine only add to it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import pyarrow as pa

import skerry
from figures import figure

ROOT = Path(__file__).parents[1]
EMPTY = "pass"
IMPORT = "import skerry"
PYICEBERG = """
from pyiceberg.catalog.sql import SqlCatalog
catalog = SqlCatalog("skerry", uri="sqlite:///{folder}/catalog.db", warehouse="file://{folder}")
catalog.load_table("d.t")
"""
WARM_UP = "import skerry.kernels; skerry.kernels.warm_up()"
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
FIRST_CALLS = """
import json, sys, time
import pyarrow as pa
import skerry, skerry.amudai
from skerry.kernels import Kernel

waited = 0.0
call = Kernel.__call__

def timed(self, *arguments):
    global waited
    if self.is_bound:
        return call(self, *arguments)
    begin = time.perf_counter()
    self._prepare(self.py_func.__module__)
    waited += time.perf_counter() - begin
    return call(self, *arguments)

Kernel.__call__ = timed
folder = sys.argv[1]
rows = pa.table({"k": range(100_000), "s": [f"word {n % 777}" for n in range(100_000)]})
table = skerry.connect(folder).create_table("d.t", rows.schema)
calls = {
    "append": lambda: table.append(rows),
    "scan": lambda: table.scan(where="k > 5").to_arrow(),
    "amudai.write_table": lambda: skerry.amudai.write_table(rows, folder + "/t.amudai"),
    "amudai.read_table": lambda: skerry.amudai.read_table(folder + "/t.amudai"),
}
waits = {}
for name, first in calls.items():
    waited = 0.0
    first()
    waits[name] = waited
assert sys.argv[2] == "numba" or "numba" not in sys.modules
print(json.dumps(waits))
"""


def seconds(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """How long a process takes, and how much of the processor."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def unpacked_wheel(folder: Path) -> Path:
    """A folder with the package as a wheel installs it."""
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(folder / "site")
    return folder / "site"


def first_calls(folder: Path, package: Path, kernels: str) -> dict[str, float]:
    """Seconds that the first calls of a process wait for machine code, with an empty cache."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(package), "SKERRY_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", FIRST_CALLS, str(folder), kernels]
    done = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE)
    return dict(json.loads(done.stdout))


def fresh_machine(folder: Path, rounds: int) -> None:
    """Print what is waited for where no kernel was compiled before: wheel and checkout in turn."""
    packages = {"wheel": unpacked_wheel(folder), "numba": ROOT / "src"}
    times: dict[str, list[dict[str, float]]] = {kernels: [] for kernels in packages}
    for i in range(rounds):
        for kernels, package in packages.items():
            waits = first_calls(folder / f"{kernels} {i}", package, kernels)
            environment = {
                **os.environ,
                "PYTHONPATH": str(package),
                "SKERRY_CACHE_DIR": str(folder / f"all {kernels} {i}"),
            }
            wall, taken = seconds([sys.executable, "-c", WARM_UP], environment)
            times[kernels].append({**waits, "all kernels": wall, "all kernels, processor time": taken})
    print("\nfirst calls on a fresh machine wait for kernels   wheel   numba   (seconds; goals: 3, all kernels 10)")
    for name in times["wheel"][0]:
        wheel, numba = (statistics.median(waits[name] for waits in times[kernels]) for kernels in packages)
        print(f"{name:46s} {wheel:8.2f} {numba:7.2f}")
        for kernels in packages:
            figure(f"{name}, {kernels}", [waits[name] for waits in times[kernels]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--fresh-rounds", type=int, default=3, help="of those that compile all kernels")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "warehouse"
        cache = Path(name) / "cache"
        environment = {**os.environ, "SKERRY_CACHE_DIR": str(cache)}
        table = skerry.connect(folder).create_table("d.t", pa.schema([("k", pa.int64()), ("s", pa.string())]))
        table.append(pa.table({"k": range(100_000), "s": [f"word {n % 777}" for n in range(100_000)]}))

        python = [sys.executable, "-c"]
        skerry_, place = str(Path(sys.executable).with_name("skerry")), ["--warehouse", str(folder)]
        seconds([*python, WARM_UP], environment)
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
    for label in commands:
        figure(f"{label}, processor time", processor[label])
    print(f"\nimport skerry, above python alone        {median['import skerry'] - base:6.3f} s   (goal: 0.3)")
    above = median["skerry stats"] - median["PyIceberg: open catalog, load table"]
    print(f"skerry stats, above PyIceberg's opening  {above:6.3f} s   (goal: 0.4)")
    for label in ("skerry ls", "skerry stats"):
        print(f"{label + ', processor time, least':40s} {min(processor[label]):6.3f} s   (goal: 0.5)")
    print(f"load all kernels, ever after             {median['load compiled kernels'] - base:6.3f} s   (goal: 1)")
    with tempfile.TemporaryDirectory() as name:
        fresh_machine(Path(name), arguments.fresh_rounds)


if __name__ == "__main__":
    main()
