"""Reads mutants of every kind of file: `python tests/fuzz/fuzz_run.py --mutants 20000 --seed 7`.

A failure is printed with kind, seed and number, and its bytes are kept; `--file` reads them again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fuzz_corpus import build
from fuzz_kinds import Kind
from fuzz_workers import Failure, Outcome, read_one, run

_STEP = 2000
_KEEP = Path(".cache/fuzz")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=20_000, help="of each kind")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--start", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--kind", action="append", help="kinds that begin so; all by default")
    parser.add_argument("--keep", type=Path, default=_KEEP, help="folder for mutants that fail")
    parser.add_argument("--file", type=Path, nargs="*", help="read mutants that were kept, and nothing else")
    chosen = parser.parse_args(arguments)
    with _corpus() as kinds:
        if chosen.file is not None:
            return _read_again(kinds, chosen.file)
        wanted = [kind for name, kind in kinds.items() if not chosen.kind or name.startswith(tuple(chosen.kind))]
        print(
            f"seed {chosen.seed}, mutants {chosen.start} to {chosen.start + chosen.mutants} of {len(wanted)} kinds",
            flush=True,
        )
        return _run_all(wanted, chosen.seed, range(chosen.start, chosen.start + chosen.mutants), chosen.keep)


@contextmanager
def _corpus() -> Iterator[dict[str, Kind]]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield build(Path(folder))


def _run_all(kinds: Sequence[Kind], seed: int, numbers: range, keep: Path) -> int:
    """Every kind in turn, some thousand mutants at a time, so that a run that is ended early has seen all of them."""
    failed = 0
    for kind in kinds:
        began, failures, outcome = time.monotonic(), set(), Outcome(kind.name)
        parts = [range(at, min(at + _STEP, numbers.stop)) for at in range(numbers.start, numbers.stop, _STEP)]
        for part in parts:
            found = run(kind, seed, part, keep)
            outcome.counts += found.counts
            outcome.failures += found.failures
            for failure in found.failures:
                key = _place_of(failure)
                if key not in failures:
                    failures.add(key)
                    print(f"{failure}\n", flush=True)
        failed += len(outcome.failures)
        print(f"{outcome}, {time.monotonic() - began:.0f} s", flush=True)
    return int(failed > 0)


def _place_of(failure: Failure) -> str:
    """What tells failures of one cause from others: the problem, and the last places in skerry."""
    places = [line.strip() for line in failure.detail.splitlines() if 'File "' in line and "/skerry/" in line]
    return failure.problem + "".join(places[-2:])


def _read_again(kinds: dict[str, Kind], files: Sequence[Path]) -> int:
    failed = 0
    for file in files:
        name, _, index = file.stem.rsplit("-", 3)[0], None, int(file.stem.rsplit("-", 1)[1])
        result, detail = read_one(kinds[name], index, file.read_bytes())
        failed += result.startswith("FAILED")
        print(f"{file}: {result}\n{detail}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
