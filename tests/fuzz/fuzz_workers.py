"""Worker processes that read mutants within limits: memory, processor time, and nothing but errors of skerry.

A worker is forked off a warm process, reads mutant after mutant, and notes in shared memory which one it is at. When it
dies, that one has killed it, and another worker goes on after it.
"""

from __future__ import annotations

import faulthandler
import json
import mmap
import os
import random
import resource
import signal
import struct
import sys
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from fuzz_kinds import Kind

from skerry.errors import SkerryError

__all__ = ["Failure", "Outcome", "mutant", "read_one", "run"]

MEMORY_BYTES = 512 << 20
"""How much more than before a read may take."""
_SLACK_BYTES = 192 << 20
"""Address space that threads and allocators reserve beside it."""
PROCESSOR_SECONDS = 10.0
_WALL_SECONDS = 120.0
_WORKER_MUTANTS = 1000
_STATE = struct.Struct("<4q")
"""What a worker shares: the number of its mutant, and how many of all were read, refused, failed."""
_NAMES = ("read", "refused", "failed")


@dataclass(frozen=True, slots=True)
class Failure:
    """A mutant that was not read as it should.

    Args:
        kind: The kind of file.
        seed: The seed of the run.
        number: The mutant's number in the run.
        problem: What happened.
        detail: Where: the traceback.
    """

    kind: str
    seed: int
    number: int
    problem: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind}, seed {self.seed}, mutant {self.number}: {self.problem}\n{self.detail}"


@dataclass(slots=True)
class Outcome:
    """What became of the mutants of a kind."""

    kind: str
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        shown = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        return f"{self.kind}: {sum(self.counts.values())} mutants ({shown}), {len(self.failures)} failures"


def mutant(kind: Kind, seed: int, number: int) -> tuple[int, bytes]:
    """The sample that a mutant is made of, by its index, and the mutant."""
    rng = random.Random(f"{seed}/{kind.name}/{number}")
    index = rng.randrange(len(kind.samples))
    data = rng.choice(kind.mutators)(rng, kind.samples[index], kind.samples)
    return index, data if kind.seal is None else kind.seal(data, index)


def read_one(kind: Kind, index: int, data: bytes) -> tuple[str, str]:
    """Read a mutant: what became of it, and the traceback if that is a failure."""
    try:
        found = kind.read(data, index)
        if kind.is_protected and not kind.is_expected(found, index):
            return "FAILED: other values than before, though a checksum protects them", f"{found!r:.2000}"
        return "read", ""
    except SkerryError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, MemoryError | pa.ArrowMemoryError):
                return "FAILED: no memory", traceback.format_exc()
            cause = cause.__cause__ or cause.__context__
        return "refused", ""
    except BaseException as error:
        return f"FAILED: {type(error).__name__}", traceback.format_exc()


def _limit() -> None:
    """Keep the process from taking more memory, or from dumping core."""
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES + _SLACK_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _work(kind: Kind, seed: int, numbers: range, shared: mmap.mmap, report: int, trace: int) -> None:
    """What a worker does until it ends: one line of JSON for each failure; where it was when it died, in `trace`."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    _limit()
    faulthandler.enable(trace)
    peak = _peak_bytes()
    _, *counts = _STATE.unpack(shared[: _STATE.size])
    with open(report, "w", buffering=1) as out:
        for number in numbers:
            shared[: _STATE.size] = _STATE.pack(number, *counts)
            index, data = mutant(kind, seed, number)
            faulthandler.dump_traceback_later(_WALL_SECONDS, exit=True, file=trace)
            signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
            result, detail = read_one(kind, index, data)
            signal.setitimer(signal.ITIMER_PROF, 0)
            grown = _peak_bytes() - peak
            if grown > MEMORY_BYTES and not result.startswith("FAILED"):
                result = f"FAILED: {grown >> 20} MiB of memory"
            if result.startswith("FAILED"):
                out.write(json.dumps([number, result.removeprefix("FAILED: "), detail]) + "\n")
            counts[_NAMES.index("failed" if result.startswith("FAILED") else result)] += 1
            if grown > MEMORY_BYTES:  # the peak never comes down: another worker goes on
                break
    shared[: _STATE.size] = _STATE.pack(number + 1, *counts)


def _forked(kind: Kind, seed: int, numbers: range, shared: mmap.mmap, trace: int) -> tuple[int, int]:
    receiving, sending = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(receiving)
            _work(kind, seed, numbers, shared, sending, trace)
            status = 0
        finally:
            os._exit(status)
    os.close(sending)
    return child, receiving


def run(kind: Kind, seed: int, numbers: range, keep: Path | None = None) -> Outcome:
    """Read mutants of a kind in workers, one after the other.

    Args:
        kind: The kind.
        seed: Which mutants: the same seed and number give the same mutant of the same samples.
        numbers: Their numbers.
        keep: Where to put the bytes of those that failed.
    """
    outcome = Outcome(kind.name)
    shared = mmap.mmap(-1, mmap.PAGESIZE)
    shared[: _STATE.size] = _STATE.pack(numbers.start, 0, 0, 0)
    at = numbers.start
    while at < numbers.stop:
        trace = os.memfd_create("trace")
        child, receiving = _forked(kind, seed, range(at, min(at + _WORKER_MUTANTS, numbers.stop)), shared, trace)
        with open(receiving) as lines:
            text = lines.read()
        _, status = os.waitpid(child, 0)
        with open(trace, errors="replace") as file:
            file.seek(0)
            traced = file.read(10_000)
        failures = [Failure(kind.name, seed, *json.loads(line)) for line in text.splitlines()]
        at, *counts = _STATE.unpack(shared[: _STATE.size])
        if status:
            failures.append(Failure(kind.name, seed, at, _death(status, traced), traced))
            counts[2] += 1
            at += 1
            shared[: _STATE.size] = _STATE.pack(at, *counts)
        outcome.failures += failures
        outcome.counts = Counter(dict(zip(_NAMES, counts, strict=True)))
        for failure in failures if keep is not None else ():
            index, data = mutant(kind, seed, failure.number)
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{kind.name}-{seed}-{failure.number}-{index}.bin").write_bytes(data)
    return outcome


def _death(status: int, traced: str) -> str:
    if not os.WIFSIGNALED(status):
        return (
            "a hang: it waits" if traced.startswith("Timeout") else f"exit status {os.waitstatus_to_exitcode(status)}"
        )
    name = signal.Signals(os.WTERMSIG(status)).name
    return f"a hang: more than {PROCESSOR_SECONDS:.0f} s" if name == "SIGPROF" else f"a crash: {name}"
