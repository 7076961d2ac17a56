"""Kernels compiled and kept by our cache, beside the same functions under numba's own (`njit(cache=True)`).

Each figure is a whole process that imports all modules with kernels and makes every kernel ready to be called: once
with an empty cache, then with a full one, ours and numba's in turn. One process compiles here; `warm_up` uses as many
as there are cores. Processor time is what to compare on a machine that has other work.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import skerry.kernels
from figures import figure


def modules_with_kernels() -> list[str]:
    package = Path(skerry.__file__).parent
    files = sorted(path for path in package.rglob("*.py") if "\n@kernel" in path.read_text())
    return [".".join(path.relative_to(package.parent).with_suffix("").parts) for path in files]


def with_our_cache() -> None:
    from skerry.kernels.loading import prepare

    modules = modules_with_kernels()
    for name in modules:
        importlib.import_module(name)
    for name in modules:
        prepare(name)


def with_numbas_cache() -> None:
    """Let numba compile and keep what `kernel` marks, with the signatures that it is marked with."""
    import numba

    from skerry.kernels.intrinsics import INTRINSICS
    from skerry.kernels.lowering import LOWERED
    from skerry.kernels.signature import parse_signature

    def type_of(argument: Any) -> Any:
        element = getattr(numba.types, argument.type_name)
        if not argument.ndim:
            return element
        return numba.types.Array(element, argument.ndim, "C", readonly=not argument.is_out)

    entries = []

    def kernel(signature: Any) -> Any:
        if callable(signature):
            return numba.njit(cache=True, error_model="numpy")(signature)

        def mark(function: Any) -> Any:
            dispatcher = numba.njit(cache=True, error_model="numpy")(function)
            entries.append((dispatcher, tuple(map(type_of, parse_signature(signature).arguments))))
            return dispatcher

        return mark

    skerry.kernels.kernel = kernel  # type: ignore[assignment]
    for function, name in INTRINSICS.items():
        setattr(skerry.kernels, function.__name__, LOWERED[name])
    for name in modules_with_kernels():
        importlib.import_module(name)
    for dispatcher, types in entries:
        dispatcher.compile(types)


SIDES = {"ours": with_our_cache, "numba": with_numbas_cache}


def run(side: str, folder: str) -> tuple[float, float]:
    """Seconds by the clock and of processor time that a process takes."""
    environment = {**os.environ, "SKERRY_CACHE_DIR": folder, "NUMBA_CACHE_DIR": folder}
    begin, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, __file__, "--side", side], check=True, env=environment)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - begin, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--side", choices=SIDES, help="be one of the processes that are measured")
    arguments = parser.parse_args()
    if arguments.side:
        SIDES[arguments.side]()
        return
    with tempfile.TemporaryDirectory() as top:
        folders = {side: str(Path(top) / side) for side in SIDES}
        first = {side: run(side, folders[side]) for side in SIDES}
        times: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
        for _ in range(arguments.rounds):
            for side in SIDES:
                times[side].append(run(side, folders[side]))
        print("                  clock  processor   (seconds)")
        for side in SIDES:
            print(f"{side:6s} empty    {first[side][0]:8.2f} {first[side][1]:9.2f}")
        ours, theirs = ([used for _, used in times[side]] for side in SIDES)
        figure("full cache, processor time", ours, theirs)
        figure("empty cache, processor time", *(first[side][1] for side in SIDES))
        for side in SIDES:
            clock, used = (statistics.median(values) for values in zip(*times[side], strict=True))
            print(f"{side:6s} full     {clock:8.2f} {used:9.2f}")
        for side, folder in folders.items():
            size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
            print(f"{side:6s} on disk  {size / 1e6:8.2f} MB")


if __name__ == "__main__":
    main()
