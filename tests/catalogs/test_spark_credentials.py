"""A stream between tables whose catalog vends credentials that live for seconds."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from scripted_server import Reply, Request, serving
from signed_store import Store, error
from table_server import Tables, table_server

import skerry
import skerry.spark

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])
LIFE_S = 2.0


class VendedTables(Tables):
    """Tables in a bucket, for which credentials are given with every answer."""

    def __init__(self, folder: object, names: tuple[str, ...]) -> None:
        super().__init__(folder, names, SCHEMA, {})
        self.valid_until: dict[str, float] = {}
        for name, (location, metadata) in self.known.items():
            self.known[name] = (location, {**metadata, "location": f"s3://bucket/lake/{name}", "metadata-log": []})

    def answer(self, request: Request) -> Reply:
        reply = super().answer(request)
        if reply.status != 200 or request.path.endswith("/transactions/commit"):
            return reply
        token = f"token-{len(self.valid_until)}"
        end = self.valid_until[token] = time.time() + LIFE_S
        config = {
            "s3.access-key-id": "key",
            "s3.secret-access-key": "hush-hush",
            "s3.session-token": token,
            "s3.session-token-expires-at-ms": str(int(end * 1000)),
        }
        vended = {"storage-credentials": [{"prefix": "s3://bucket/lake/", "config": config}]}
        return Reply(200, {**reply.body, **vended})


@pytest.mark.spark
def test_a_stream_outlives_its_credentials(spark, tmp_path):
    tables, store, expired = VendedTables(tmp_path, ("source", "sink")), Store(), []

    def answer(request: Request) -> Reply:
        token = request.headers.get("x-amz-security-token", "")
        if time.time() > tables.valid_until.get(token, 0) + 1:  # a request may be on its way for a second
            expired.append(token)
            return error(403, "ExpiredToken")
        return store.execute(request)

    skerry.spark.register(spark)
    with serving(answer) as objects, table_server(tables) as server:
        uri = f"rest+{server.uri}"
        options = {"s3.endpoint": objects.uri, "s3.region": "r"}
        given = {"catalog": uri, **{f"catalog.{key}": value for key, value in options.items()}}
        catalog = skerry.connect(uri, **options)
        source = catalog.load_table("n.source")
        frame = spark.readStream.format("skerry").options(**given).load("n.source")
        writer = frame.writeStream.format("skerry").outputMode("append")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).options(**given)
        query = writer.option("table", "n.sink").start()
        try:
            for k in range(3):
                source.append(pa.table({"k": [k], "s": ["a"]}, SCHEMA))
                query.processAllAvailable()
                time.sleep(LIFE_S)
        finally:
            query.stop()
        found = catalog.load_table("n.sink").scan().to_arrow()
    assert sorted(found["k"].to_pylist()) == [0, 1, 2]
    assert not expired
    assert len(tables.valid_until) >= 3
