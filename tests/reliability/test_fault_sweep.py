"""Seeded samples of the fault sweep; with SKERRY_TORTURE=1 all of it, where it was left the last time.

A case is replayed by its name: `SKERRY_SWEEP=s3/iceberg:append/12/kill pytest tests/reliability`. SKERRY_SWEEP_SEED
takes other samples, SKERRY_SWEEP_STATE names the file in which the long run writes down what it has done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SWEEP = Path(__file__).with_name("sweep.py")
SECONDS = 2
"""Of processor time, at each place: a server takes many times that. `make torture-faults` runs every case."""


@pytest.mark.long
@pytest.mark.service
def test_every_place(s3_server, rest_catalog) -> None:
    s3 = {"options": s3_server.options, "bucket": s3_server.new_bucket()}
    rest = {**s3, "bucket": rest_catalog.bucket, "uri": rest_catalog.uri, "warehouse": rest_catalog.warehouse}
    cases = os.environ.get("SKERRY_SWEEP", "")
    command = [sys.executable, str(SWEEP), "--s3", json.dumps(s3), "--rest", json.dumps(rest), cases]
    if "SKERRY_TORTURE" in os.environ:
        command += ["--state", os.environ.get("SKERRY_SWEEP_STATE", "sweep-state.jsonl")]
    elif not cases:
        command += ["--seed", os.environ.get("SKERRY_SWEEP_SEED", "14"), "--seconds", str(SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr[-3000:]}"
