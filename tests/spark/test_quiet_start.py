"""What a JVM says while it starts: the usual is kept back, all else passes, and a failure shows everything."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import subprocess, sys
from skerry.spark.runtime.quiet_start import quiet_start

SAYS = '''
import sys
for line in (
    "WARNING: Using incubator modules: jdk.incubator.vector",
    ":: loading settings :: url = jar:file:/spark/ivy.jar!/ivysettings.xml",
    "org.example#connector added as a dependency",
    "\\tconfs: [default]",
    "",
    "the disk is full",
):
    print(line, file=sys.stderr, flush=True)
sys.stdin.read()
print("later", file=sys.stderr)
'''
try:
    with quiet_start():
        child = subprocess.Popen([sys.executable, "-c", SAYS], stdin=subprocess.PIPE)
        if sys.argv[1:] == ["fails"]:
            child.communicate()
            raise ValueError("no")
    print("started", file=sys.stderr, flush=True)
    child.communicate()
except ValueError as error:
    print(error.__notes__, file=sys.stderr)
"""


@pytest.mark.parametrize("fails", [False, True])
def test_only_the_usual_is_kept_back(fails: bool) -> None:
    command = [sys.executable, "-c", PROGRAM, *(["fails"] if fails else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    lines = done.stderr.splitlines()
    if fails:
        assert lines[:2] == ["the disk is full", "later"]
        assert "Using incubator modules" in lines[2]
        assert "added as a dependency" in lines[2]
        assert len(lines) == 3
    else:
        assert sorted(lines) == ["later", "started", "the disk is full"]
