"""Spark's start without what the JVM and Ivy say of it."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator

__all__ = ["quiet_start"]

_NOISE = re.compile(
    rb"WARNING: (Using incubator modules|(A|An) .*(restricted|deprecated) method|Use --enable-native-access|"
    rb"Restricted methods will be|sun\.misc\.Unsafe|java\.lang\.|Please consider reporting)"
    rb"|:: |\t|Ivy Default Cache|The jars for the packages|confs: |[\w.-]+#[\w.-]+ added as a dependency|\s*$"
)


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Keep from the standard error of a JVM that the block starts what is said at every start.

    All else is passed on, as long as the JVM lives. If the block fails, everything that was said is added to the
    exception as a note.
    """
    reader, writer = os.pipe()
    terminal = os.dup(2)
    os.dup2(writer, 2)
    os.close(writer)
    said: list[bytes] = []

    def pass_on() -> None:
        with os.fdopen(reader, "rb") as lines:
            for line in lines:
                said.append(line)
                del said[:-1000]
                if not _NOISE.match(line):
                    os.write(terminal, line)
        os.close(terminal)

    passing = threading.Thread(target=pass_on, name="standard error of Spark", daemon=True)
    passing.start()
    try:
        yield
    except BaseException as error:
        os.dup2(terminal, 2)
        passing.join(1)  # a JVM that failed has gone
        error.add_note(b"".join(said).decode(errors="replace"))
        raise
    os.dup2(terminal, 2)
