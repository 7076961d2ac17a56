"""Spark's start without what the JVM and Ivy say of it."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import select
import threading
from collections.abc import Iterator

__all__ = ["quiet_start"]

_NOISE = re.compile(
    rb"WARNING: (Using incubator modules|(A|An) .*(restricted|deprecated) method|Use --enable-native-access|"
    rb"Restricted methods will be|sun\.misc\.Unsafe|java\.lang\.|Please consider reporting)"
    rb"|:: |\t|Ivy Default Cache|The jars for the packages|confs: |[\w.-]+#[\w.-]+ added as a dependency|\s*$"
)
_KEPT_LINES = 1000
_CHUNK_BYTES = 65_536


class _Filter:
    """Passes the lines of a pipe on to a terminal, but for noise."""

    def __init__(self, reader: int, terminal: int) -> None:
        self.reader = reader
        self.terminal = terminal
        self.said: list[bytes] = []
        self.unfinished = b""
        self.ended = False
        self.lock = threading.Lock()

    def run(self) -> None:
        """Until all that hold the other end have closed it."""
        while not self.ended:
            select.select([self.reader], [], [])
            self.drain()

    def drain(self) -> None:
        """Pass on all that was written until now."""
        with self.lock:
            while not self.ended and select.select([self.reader], [], [], 0)[0]:
                chunk = os.read(self.reader, _CHUNK_BYTES)
                self.ended = not chunk
                *lines, self.unfinished = (self.unfinished + chunk).splitlines(keepends=True) or [b""]
                if self.ended or self.unfinished.endswith(b"\n"):
                    lines.append(self.unfinished)
                    self.unfinished = b""
                for line in lines:
                    self.pass_on(line)

    def pass_on(self, line: bytes) -> None:
        self.said.append(line)
        del self.said[:-_KEPT_LINES]
        if not _NOISE.match(line):
            os.write(self.terminal, line)


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Keep from the standard error of a JVM that the block starts what is said at every start.

    All else is passed on, as long as this process lives. If the block fails, everything that was said is added to the
    exception as a note.
    """
    reader, writer = os.pipe()
    terminal = os.dup(2)
    os.dup2(writer, 2)
    os.close(writer)
    passing = _Filter(reader, terminal)
    # The JVM outlives this process by a moment, so that the pipe's end is never seen: a daemon thread, and at exit
    # what it has not yet come to. Both descriptors stay open as long as the process does.
    threading.Thread(target=passing.run, name="standard error of Spark", daemon=True).start()
    atexit.register(passing.drain)
    try:
        yield
    except BaseException as error:
        passing.drain()  # a JVM that failed has said what it had to say
        error.add_note(b"".join(passing.said).decode(errors="replace"))
        raise
    finally:
        os.dup2(terminal, 2)
