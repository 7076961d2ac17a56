"""Processes that commit to one table at once, some of them killed: nothing acknowledged is lost, nothing half there.

Every worker writes down what it is about to commit and, once `append` has returned, that it was acknowledged. A delay
between the check for the next snapshot and its creation makes races certain. Tables with a primary key are compacted by
every worker too; one of them has a changelog, which must tell of each row once, another one deletion vectors.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from paimon_peers import JavaPaimon, PyPaimon

from skerry.paimon.metadata.snapshots import snapshot_ids
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

TORTURE = "SKERRY_TORTURE" in os.environ
WORKERS, ROWS, KILLED = (8, 3, 3) if TORTURE else (4, 3, 2)
SCHEMA = pa.schema([("id", pa.int64()), ("worker", pa.int32()), ("text", pa.string())])

WORKER = """
import json, os, random, sys, time
import pyarrow as pa
from skerry.errors import ConflictError
from skerry.paimon import commit
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

location, log, worker, commits, rows, seed = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
chance = random.Random(seed)
publish = commit.PaimonTarget.publish

def late(self, staged):
    time.sleep(chance.uniform(0, 0.02))
    return publish(self, staged)

commit.PaimonTarget.publish = late
table = PaimonTable.open(Storage(), location)
out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
print("ready", flush=True)
sys.stdin.readline()
for number in range(commits):
    ids = [(worker * commits + number) * rows + row for row in range(rows)]
    data = pa.table({"id": ids, "worker": [worker] * rows, "text": [f"{worker}-{number}"] * rows}, schema=table.schema)
    os.write(out, (json.dumps(["tried", ids]) + "\\n").encode())
    try:
        table.append(data)
    except ConflictError:
        os.write(out, (json.dumps(["failed", ids]) + "\\n").encode())
    else:
        os.write(out, (json.dumps(["acknowledged", ids]) + "\\n").encode())
"""


def count_lines(log: Path) -> int:
    return log.read_bytes().count(b"\n")


def torture(
    location: Path, folder: Path, *, commits: int, killed: int, seed: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Let the workers loose; what was acknowledged and what may or may not be there."""
    chance = random.Random(seed)
    script = folder / "worker.py"
    script.write_text(WORKER)
    logs = [folder / f"worker-{number}.log" for number in range(WORKERS)]
    workers = [
        subprocess.Popen(
            [sys.executable, script, str(location), str(log), str(number), str(commits), str(ROWS), str(seed + number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for number, log in enumerate(logs)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"\n")
        worker.stdin.flush()
    for number in chance.sample(range(WORKERS), killed):
        lines = chance.randrange(2, 2 * commits // 3)
        while workers[number].poll() is None and (not logs[number].exists() or count_lines(logs[number]) < lines):
            time.sleep(chance.uniform(0.001, 0.02))
        workers[number].send_signal(signal.SIGKILL)
    for worker in workers:
        worker.wait(1800)
    acknowledged, open_ended = [], []
    for log in logs:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        acknowledged += [ids for outcome, ids in lines if outcome == "acknowledged"]
        if lines and lines[-1][0] == "tried":
            open_ended.append(lines[-1][1])
    return acknowledged, open_ended


KINDS = {
    "append": {},
    "primary key": {"bucket": "2"},
    "changelog": {"bucket": "2", "changelog-producer": "lookup"},
    "vectors": {"bucket": "2", "deletion-vectors.enabled": "true"},
}


@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
def test_torture(tmp_path: Path, pypaimon: PyPaimon, java_paimon: JavaPaimon, kind: str) -> None:
    location = tmp_path / "table"
    keyed = kind != "append"
    properties = {"commit.max-retries": "1000", "commit.max-retry-wait": "1 s", **KINDS[kind]}
    key = ["id"] if keyed else []
    PaimonTable.create(Storage(), str(location), SCHEMA, primary_key=key, properties=properties)

    # every commit of a primary-key table may compact as well: those take several times as long
    commits = 50 if TORTURE else 6 if keyed else 12
    acknowledged, open_ended = torture(location, tmp_path, commits=commits, killed=KILLED, seed=5)

    table = PaimonTable.open(Storage(), str(location))
    ids = snapshot_ids(Storage(), table.handle.state.paths)
    assert ids == list(range(1, len(ids) + 1))
    if kind == "vectors":  # readers see what compaction has looked up
        table.compact()
    if kind == "changelog":
        table.compact()
        told = Counter(table.changes().to_arrow().filter(pc.field("_change_type") == "INSERT")["id"].to_pylist())
        assert told == Counter(table.scan().to_arrow()["id"].to_pylist())
    ours = table.scan().to_arrow()
    found = Counter(ours.column("id").to_pylist())
    assert all(found[row] == 1 for batch in acknowledged for row in batch)
    for batch in open_ended:
        assert len({found[row] for row in batch}) == 1
    promised = {row for batch in acknowledged + open_ended for row in batch}
    assert found.keys() <= promised
    assert sorted(pypaimon.read(location).column("id").to_pylist()) == sorted(found.elements())
    assert sorted(row[0] for row in java_paimon.read(location)) == sorted(found.elements())
    assert len(acknowledged) >= (WORKERS - KILLED) * commits
