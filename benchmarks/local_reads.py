"""Reading local files: through skerry's storage, beside obstore, PyArrow and bare system calls.

Says why local files do not go through obstore: the first table is the time of one ranged read (open, read, close), the
second the speed of reading a whole file. Every route reads the same file, in turn, several rounds; medians are shown.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import obstore
import pyarrow as pa
from obstore.store import LocalStore

from figures import figure
from skerry.storage import Storage

FILE_BYTES = 256 << 20
READS = 500


def pread(path: str, offset: int, length: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.pread(descriptor, length, offset)
    finally:
        os.close(descriptor)


def race(routes: dict[str, Callable[[], object]], rounds: int, repeat: int) -> dict[str, float]:
    """Median seconds of one call of each route, the routes taking turns."""
    times: dict[str, list[float]] = {name: [] for name in routes}
    for _ in range(rounds):
        for name, route in routes.items():
            begin = time.perf_counter()
            for _ in range(repeat):
                route()
            times[name].append((time.perf_counter() - begin) / repeat)
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "blob")
        Path(path).write_bytes(os.urandom(FILE_BYTES))
        storage, store = Storage(), LocalStore(folder)

        print("one ranged read, µs" + "".join(f"{size:>12,}" for size in (4096, 65_536, 1 << 20)))
        found: dict[str, list[float]] = {}
        for size in (4096, 65_536, 1 << 20):
            routes: dict[str, Callable[[], object]] = {
                "pread": lambda size=size: pread(path, 1 << 20, size),
                "skerry read_range": lambda size=size: storage.read_range(path, 1 << 20, size),
                "skerry read_tail": lambda size=size: storage.read_tail(path, size),
                "PyArrow OSFile": lambda size=size: pa.OSFile(path).read_at(size, 1 << 20),
                "obstore": lambda size=size: obstore.get_range(store, "blob", start=1 << 20, length=size),
            }
            for name, seconds in race(routes, rounds, READS).items():
                found.setdefault(name, []).append(seconds * 1e6)
        for name, values in found.items():
            if name.startswith("skerry"):
                figure(f"ranges, {name}", values[0], found["PyArrow OSFile"][0], "µs")
            print(f"{name:19s}" + "".join(f"{value:12.1f}" for value in values))

        print(f"\nwhole file of {FILE_BYTES >> 20} MiB, GB/s")
        whole: dict[str, Callable[[], object]] = {
            "PyArrow OSFile": lambda: pa.OSFile(path).read(),
            "skerry arrow_file": lambda: storage.arrow_file(path).read(),
            "skerry read": lambda: storage.read(path),
            "skerry open_input": lambda: storage.open_input(path).read(),
            "obstore": lambda: obstore.get(store, "blob").bytes(),
        }
        seconds = race(whole, rounds, 1)
        for name, value in seconds.items():
            if name.startswith("skerry"):
                figure(f"whole file, {name}", value, seconds["PyArrow OSFile"])
            ratio = value / seconds["PyArrow OSFile"]
            print(f"{name:19s}{FILE_BYTES / value / 1e9:12.2f}   ({ratio:.2f} of PyArrow's time)")


if __name__ == "__main__":
    main()
