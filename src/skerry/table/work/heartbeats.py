"""Jobs that run: each writes now and then, to a file of its own in the user's cache folder, how far it is.

A job that ends within a second writes nothing. A file is replaced atomically, and deleted when its job ends; one whose
process is gone, or that another user may have written, is passed over. The files only inform: nothing depends on them.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from skerry.kernels import is_trusted, user_cache_directory
from skerry.table.work.tasks import JobProgress, ProgressCallback

__all__ = ["RunningJob", "heartbeat", "running_jobs"]

_EVERY_S: Final = 1.0
_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job, as it has last said.

    Args:
        job: What it does: `compact`.
        location: The folder of its table.
        process: The id of its process.
        begun: When it began, UTC.
        seen: When it said so, UTC.
        step: Its current step.
        done_files: Files finished.
        total_files: Files in all, None if unknown.
        done_rows: Rows finished.
        done_bytes: Bytes finished.
    """

    job: str
    location: str
    process: int
    begun: datetime
    seen: datetime
    step: str
    done_files: int = 0
    total_files: int | None = None
    done_rows: int = 0
    done_bytes: int = 0


@contextlib.contextmanager
def heartbeat(
    job: str, location: str, progress: ProgressCallback | None, clock: Callable[[], float] = time.monotonic
) -> Iterator[ProgressCallback | None]:
    """A callback that also writes how far a job is.

    Args:
        job: What it does.
        location: The folder of its table.
        progress: The callback that its caller wants; None for none.
        clock: Seconds, for tests.

    Yields:
        The callback; the caller's own if there is no cache folder.
    """
    folder = _folder()
    if folder is None:
        yield progress
        return
    written: list[Path] = []
    begun, last = datetime.now(UTC), clock()

    def beat(now: JobProgress) -> None:
        nonlocal last
        if progress is not None:
            progress(now)
        if clock() - last >= _EVERY_S:
            last = clock()
            found = RunningJob(job, location, os.getpid(), begun, datetime.now(UTC), **asdict(now))
            with contextlib.suppress(OSError):
                written[:] = [_write(folder, found, written[0] if written else None)]

    try:
        yield beat
    finally:
        with contextlib.suppress(OSError):
            for path in written:
                path.unlink()


def running_jobs(location: str) -> list[RunningJob]:
    """The jobs of this machine and user that work on a table, those that began first in front.

    Args:
        location: The table's folder.
    """
    folder = _folder()
    found: list[RunningJob] = []
    if folder is None or not folder.is_dir():
        return found
    for path in sorted(folder.glob("*.json"))[:_MOST]:
        job = _read(path)
        if job is not None and job.location.rstrip("/") == location.rstrip("/"):
            found.append(job)
    return sorted(found, key=lambda job: job.begun)


def _folder() -> Path | None:
    root = user_cache_directory()
    return None if root is None else root / "jobs"


def _write(folder: Path, job: RunningJob, path: Path | None) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f"{job.process}-", suffix=".new")
    with os.fdopen(handle, "w") as file:
        json.dump(asdict(job), file, default=datetime.isoformat)
    path = path or Path(temporary).with_suffix(".json")
    return Path(temporary).replace(path)


def _read(path: Path) -> RunningJob | None:
    """A job; None if its process is gone, or the file is not one that a job of this user has written."""
    try:
        if not is_trusted(path.stat()):
            return None
        given = json.loads(path.read_text())
        times = {name: datetime.fromisoformat(given[name]) for name in ("begun", "seen")}
        job = RunningJob(**{**given, **times})
        os.kill(job.process, 0)
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return None
    return job
