"""Mutants of every kind of file are read or refused: no other error, crash or hang, and no more than 512 MB.

`make test` reads the same few mutants each time, `make fuzz` as many as one likes; see docs/reliability.md.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzz_corpus import NAMES, build
from fuzz_kinds import Kind
from fuzz_workers import MEMORY_BYTES, run

pytestmark = pytest.mark.xdist_group("fuzz")
_SEED = int(os.environ.get("SKERRY_FUZZ_SEED", time.time() if "SKERRY_TORTURE" in os.environ else 14))


@pytest.fixture(scope="module")
def kinds() -> Iterator[dict[str, Kind]]:
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    yield build(folder)
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", NAMES)
def test_mutants_are_read_or_refused(name: str, kinds: dict[str, Kind], tmp_path: Path) -> None:
    outcome = run(kinds[name], _SEED, range(kinds[name].share), tmp_path)
    assert sum(outcome.counts.values()) == kinds[name].share
    assert not outcome.failures, "\n".join(map(str, outcome.failures))


def test_every_kind_has_its_mutants(kinds: dict[str, Kind]) -> None:
    assert sorted(kinds) == list(NAMES)


def test_whatever_goes_wrong_is_noticed(tmp_path: Path) -> None:
    """The harness itself: every way to fail, each by a mutant of its own, and those between are read."""
    kept: list[bytes | bytearray] = []

    def read(data: bytes, _index: int) -> bytes:
        match data[0]:
            case 1:
                os.abort()
            case 2:
                raise KeyError(data)
            case 3:
                kept.append(b"\1" * (MEMORY_BYTES + (20 << 20)))
            case 4:
                kept.append(bytearray(4 << 30))
            case 5:
                return data
        return b"sound"

    kind = Kind("made", [b"\0"], read, (lambda rng, _data, _others: bytes([rng.randrange(6)]),), is_protected=True)
    outcome = run(kind, 2, range(12), tmp_path)
    assert {re.sub(r"^\d+ MiB", "much", failure.problem.split(":")[0]) for failure in outcome.failures} == {
        "much of memory",
        "KeyError",
        "MemoryError",
        "a crash",
        "other values than before, though a checksum protects them",
    }
    assert outcome.counts["read"] > 0
    assert outcome.counts["failed"] == len(outcome.failures) == len(list(tmp_path.iterdir()))
    assert sum(outcome.counts.values()) == 12
