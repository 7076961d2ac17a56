"""Landing rows through catalogs and stores that are real servers: PostgreSQL, a REST catalog, S3 over HTTP."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import skerry
from skerry import puffin
from skerry.errors import CommitUnknownError
from skerry.http.http_client import HttpClient, HttpError

pytestmark = pytest.mark.service

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])


def rows(start, stop):
    return pa.table({"k": list(range(start, stop)), "s": [f"s{k % 9}" for k in range(start, stop)]}, schema=SCHEMA)


def land(connect):
    """Two appends, then four at once from catalog objects of their own; everything counted."""
    table = connect().create_table(
        "landing.birds",
        SCHEMA,
        partition_by=["bucket(2, k)"],
        properties={"commit.retry.num-retries": "30", "commit.retry.min-wait-ms": "10"},
    )
    table.append(rows(0, 1000))
    table.append(rows(500, 1500))
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda n: connect().load_table("landing.birds").append(rows(1500 + n * 100, 1600 + n * 100)), range(4)
            )
        )
    table.refresh()
    statistics = table.statistics()
    assert [(name, column.ndv, str(column.freshness)) for name, column in statistics.items()] == [
        ("k", 1900, "fresh"),
        ("s", 9, "fresh"),
    ]
    assert table.scan(where="k < 10").count() == 10
    state = table.handle.state
    current = state.metadata.current_snapshot()
    assert current.sequence_number == 6
    file = next(file for file in state.metadata.statistics if file.snapshot_id == current.snapshot_id)
    reader = puffin.PuffinReader(file.statistics_path, storage=state.storage)
    assert {(blob.snapshot_id, blob.sequence_number) for blob in reader.blobs} == {(current.snapshot_id, 6)}
    return table


def test_postgresql_and_s3(postgres_url, s3_server):
    bucket = s3_server.new_bucket()
    table = land(lambda: skerry.connect(postgres_url, warehouse=f"s3://{bucket}/lake", **s3_server.options))
    assert table.location.startswith(f"s3://{bucket}/lake/")


def test_a_rest_catalog_that_vends_credentials_for_s3(rest_catalog):
    table = land(lambda: skerry.connect(f"rest+{rest_catalog.uri}", warehouse=rest_catalog.warehouse))
    assert table.location.startswith(f"s3://{rest_catalog.bucket}/")
    assert "s3.session-token" in table.handle.state.storage.options


def test_a_rest_catalog_whose_answer_is_lost(rest_catalog, monkeypatch):
    """What it has done is read back over a fresh connection; what it has not done is not acknowledged."""

    def connect():
        return skerry.connect(f"rest+{rest_catalog.uri}", warehouse=rest_catalog.warehouse)

    catalog = connect()
    table = catalog.create_table("lost.birds", SCHEMA, properties={"commit.retry.num-retries": "0"})
    send = HttpClient._send_once

    def losing(*, before):
        def lose(client, method, url, *rest):
            if method != "POST" or not url.endswith("/tables/birds"):
                return send(client, method, url, *rest)
            if not before:
                send(client, method, url, *rest)
            raise HttpError("the connection broke", may_have_effect=True)

        return lose

    monkeypatch.setattr(HttpClient, "_send_once", losing(before=True))
    with pytest.raises(CommitUnknownError):
        table.append(rows(0, 10))
    monkeypatch.setattr(HttpClient, "_send_once", losing(before=False))
    table.append(rows(10, 15))
    monkeypatch.undo()
    table.append(rows(15, 17))
    assert sorted(connect().load_table("lost.birds").scan().to_arrow()["k"].to_pylist()) == list(range(10, 17))


def test_a_process_that_is_killed_leaves_the_table_as_it_was(tmp_path):
    """Killed at the worst moment: all files are written, the catalog is not updated yet."""
    import subprocess
    import sys

    table = skerry.connect(tmp_path).create_table("landing.birds", SCHEMA)
    table.append(rows(0, 10))
    program = (
        "import os, signal, pyarrow as pa, skerry\n"
        f"table = skerry.connect({str(tmp_path)!r}).load_table('landing.birds')\n"
        "catalog = table.handle.catalog\n"
        "catalog.commit_table = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        "table.append(pa.table({'k': [99], 's': ['never']}))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    table.refresh()
    assert table.scan().count() == 10
    assert table.statistics()["k"].freshness.is_fresh
    table.append(rows(10, 20))
    assert table.statistics()["k"].ndv == 20
