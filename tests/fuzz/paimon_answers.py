"""What the server of a Paimon REST catalog says, without a network: samples, and what reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

import skerry
from skerry.catalog.paimon_rest import RestPaimonTables
from skerry.errors import SkerryError
from skerry.http.http_client import Answer, HttpClient
from skerry.paimon.catalogs import rest_server
from skerry.paimon.metadata.snapshot import encode_snapshot

__all__ = ["paimon_answers"]

_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])


class Canned(HttpClient):
    """Gives answers that were prepared."""

    answers: Iterator[Answer] = iter(())

    def send(self, *_: Any) -> Answer:
        return next(self.answers, Answer(404, {}, b"{}"))


def paimon_answers(folder: Path) -> tuple[list[bytes], Callable[[bytes, int], Any]]:
    """Samples of answers, and a function that reads an answer in the place of a sample."""
    table = skerry.connect(folder / "paimon-lake").create_table("n.t", _SCHEMA, format="paimon")
    table.append(pa.table({"id": [1], "name": ["a"]}, _SCHEMA))
    state = table.handle.state
    snapshot = {"snapshot": {"snapshot": json.loads(encode_snapshot(state.snapshot)), "recordCount": 1}}
    described = {"id": "i", "path": table.location, "schemaId": 0, "schema": {"options": {"type": "table"}}}
    token = {"token": {"s3.access-key": "a", "s3.region": "r"}, "expiresAtMillis": 1 << 41}
    client = Canned()

    def opened(*answers: tuple[int, bytes], config: bytes = b"{}") -> RestPaimonTables:
        told = [(200, config), *answers]
        client.answers = iter([Answer(status, {}, data) for status, data in told])
        return RestPaimonTables({"uri": "http://127.0.0.1:1", "warehouse": "w"})

    def shown(data: bytes) -> Any:
        found = opened((200, json.dumps(described).encode()), (200, data)).load("n.t").current_snapshot()
        return None if found is None else found.snapshot_id

    def lent(data: bytes) -> Any:
        config = json.dumps({"overrides": {"data-token.enabled": "true"}}).encode()
        answers = ((200, json.dumps(described).encode()), (200, data))
        return sorted(opened(*answers, config=config).load("n.t").storage.options)

    def committed(data: bytes) -> Any:
        authority = opened((200, json.dumps(described).encode())).load("n.t").handle.state.authority
        client.answers = iter([Answer(200, {}, data)])
        assert state.snapshot is not None
        try:
            authority.create_snapshot(state.storage, state.paths, state.snapshot, None)
        except SkerryError as error:
            return type(error)
        return "published"

    readers: list[tuple[Any, Callable[[bytes], Any]]] = [
        ({"defaults": {"a": "b"}, "overrides": {"prefix": "p"}}, lambda data: repr(opened(config=data))[:40]),
        ({"databases": ["a", "b"], "nextPageToken": None}, lambda data: opened((200, data)).list_namespaces()),
        ({"tables": ["t"], "nextPageToken": "x"}, lambda data: opened((200, data)).list_tables("n")),
        (described, lambda data: opened((200, data)).load("n.t").schema.names),
        (snapshot, shown),
        (token, lent),
        ({"success": True}, committed),
        ({"message": "no", "code": 404, "resourceType": "TABLE"}, lambda data: opened((404, data)).exists("n.t")),
    ]

    def read(data: bytes, index: int) -> Any:
        with mock.patch.object(rest_server, "client_of", return_value=client):  # other tests have real servers
            return readers[index][1](data)

    return [json.dumps(sample).encode() for sample, _ in readers], read
