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
SECONDS = {"folder": 4, "s3": 2, "rest": 2}
"""Of processor time, at each place: a server takes many times that. `make torture-faults` runs every case."""


def sweep(place: str, *services: str) -> None:
    cases = os.environ.get("SKERRY_SWEEP", "")
    if cases and not cases.startswith(place):
        pytest.skip(f"SKERRY_SWEEP asks for {cases}")
    command = [sys.executable, str(SWEEP), *services, cases or f"{place}/"]
    if "SKERRY_TORTURE" in os.environ:
        command += ["--state", os.environ.get("SKERRY_SWEEP_STATE", "sweep-state.jsonl")]
    elif not cases:
        command += ["--seed", os.environ.get("SKERRY_SWEEP_SEED", "14"), "--seconds", str(SECONDS[place])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr[-3000:]}"


def test_folder() -> None:
    sweep("folder")


@pytest.mark.long
@pytest.mark.service
def test_s3(s3_server) -> None:
    sweep("s3", "--s3", json.dumps({"options": s3_server.options, "bucket": s3_server.new_bucket()}))


@pytest.mark.service
def test_rest(rest_catalog, s3_server) -> None:
    settings = {"options": s3_server.options, "bucket": rest_catalog.bucket}
    sweep("rest", "--rest", json.dumps({**settings, "uri": rest_catalog.uri, "warehouse": rest_catalog.warehouse}))
