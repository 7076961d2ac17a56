"""A REST catalog in memory: PyIceberg checks requirements and applies updates; it fails where a test says so."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import update_table_metadata
from scripted_server import Reply, Request, Script, ScriptedServer, failure, serving

import skerry

TRANSACTION = "POST /v1/{prefix}/transactions/commit"
ENDPOINTS = [
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    TRANSACTION,
]


class Tables:
    """Tables `n.<name>`, whose files are in a folder.

    Attributes:
        config: What the server says of every table.
        known: Location and JSON of the metadata, by name.
        fail: Called with each transaction and what applies a part of it; may answer instead.
    """

    def __init__(self, folder: Any, names: tuple[str, ...], schema: Any, properties: dict[str, str]) -> None:
        self.known: dict[str, tuple[str, Any]] = {}
        self.config: dict[str, str] = {}
        self.fail: Callable[[list[Any], Callable[[list[Any]], None]], Reply | None] = lambda *_: None
        catalog = skerry.connect(folder)
        for name in names:
            table = catalog.create_table(f"n.{name}", schema, properties=properties)
            state = table.handle.state
            self.known[name] = (state.metadata_location, json.loads(state.storage.read(state.metadata_location)))

    def apply(self, changes: list[Any]) -> None:
        """Apply all changes or none."""
        new = {}
        for change in changes:
            name = change["identifier"]["name"]
            location, found = self.known[name]
            request = CommitTableRequest.model_validate(change)
            base = TableMetadataUtil.parse_obj(found)
            for requirement in request.requirements:
                requirement.validate(base)
            metadata = update_table_metadata(base, request.updates, metadata_location=location)
            new_location = f"{metadata.location}/metadata/{uuid.uuid4()}.metadata.json"
            new[name] = (new_location, json.loads(metadata.model_dump_json()))
        self.known.update(new)

    def answer(self, request: Request) -> Reply:
        path = request.path.partition("?")[0]
        name = path.rpartition("/")[2]
        if path.endswith("/transactions/commit"):
            changes = request.json["table-changes"]
            return self._try(changes, self.fail(changes, self.apply), Reply(204))
        if name not in self.known:
            return failure(404, "NoSuchTableException", name)
        if request.method == "POST":
            refused = self._try([request.json], None, None)
            if refused is not None:
                return refused
        location, metadata = self.known[name]
        return Reply(200, {"metadata-location": location, "metadata": metadata, "config": self.config})

    def _try(self, changes: list[Any], instead: Reply | None, done: Any) -> Any:
        if instead is not None:
            return instead
        try:
            self.apply(changes)
        except CommitFailedException as error:
            return failure(409, "CommitFailedException", str(error))
        return done


@contextmanager
def table_server(tables: Tables, **config: Any) -> Iterator[ScriptedServer]:
    """Serve tables, with further entries of the configuration."""
    answers: Script = tables.answer

    def script(request: Request) -> Reply:
        if request.path.startswith("/v1/config"):
            return Reply(200, {"defaults": {}, "overrides": {}, "endpoints": ENDPOINTS, **config})
        if request.path.endswith("/namespaces"):
            return Reply(200, {"namespaces": [["n"]]})
        if request.path.endswith("/namespaces/n"):
            return Reply(200, {"namespace": ["n"], "properties": {}})
        if request.path.endswith("/n/tables"):
            return Reply(200, {"identifiers": [{"namespace": ["n"], "name": name} for name in tables.known]})
        return answers(request)

    with serving(script) as server:
        yield server
