"""A few seconds of processes that change one table at once and are killed; `isolation.py` says what they do.

With SKERRY_TORTURE=1 as many commits as docs/reliability.md tells of, at each place and with each format.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ISOLATION = Path(__file__).with_name("isolation.py")
TORTURE = "SKERRY_TORTURE" in os.environ
KINDS = [("iceberg",), ("paimon", "keyed")]


def play(place: str, kinds: tuple[str, ...], settings: dict[str, object] | None = None) -> None:
    command = [sys.executable, str(ISOLATION), place, *kinds, "--settings", json.dumps(settings or {})]
    if TORTURE:
        command += ["--commits", "1700", "--state", os.environ.get("SKERRY_ISOLATION_STATE", "isolation-state.jsonl")]
    else:  # a round of each kind
        command += ["--commits", str(12 * len(kinds)), "--round", "12", "--kill-commits", "3", "--seed", "14"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("kinds", KINDS, ids=["iceberg", "paimon"])
def test_sqlite(kinds: tuple[str, ...]) -> None:
    play("folder", kinds)


def test_changelog_by_lookup() -> None:
    play("folder", ("lookup", "background") if TORTURE else ("lookup",))


@pytest.mark.service
@pytest.mark.parametrize("kinds", KINDS if TORTURE else KINDS[:1], ids=lambda kinds: kinds[0])
def test_postgres(postgres_url, kinds: tuple[str, ...]) -> None:
    play("postgres", kinds, {"uri": postgres_url})


@pytest.mark.service
def test_rest(rest_catalog, s3_server) -> None:
    settings = {"options": s3_server.options, "bucket": rest_catalog.bucket}
    play("rest", KINDS[0], {**settings, "uri": rest_catalog.uri, "warehouse": rest_catalog.warehouse})


@pytest.mark.long
@pytest.mark.service
def test_s3(s3_server) -> None:
    play("s3", KINDS[1] if TORTURE else KINDS[1][:1], {"options": s3_server.options, "bucket": s3_server.new_bucket()})
