"""A server of Paimon's REST catalog for tests: one warehouse in a folder, its names in memory, one bearer token."""

from __future__ import annotations

import json
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlsplit

TOKEN = "s3cret-token-of-the-tests"
PAGE = 2


class RefusedError(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, message: str, kind: str = "TABLE") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class PaimonRestServer:
    """The names of one warehouse.

    Attributes:
        uri: The address.
        requests: Method and path of every request.
        interfere: Called with method and path before a request is executed; what it raises is the answer.
        after: Called with method and path when it has been executed.
        data_token: The storage options that a table's token has; None for a catalog without data tokens.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.databases: dict[str, dict[str, str]] = {}
        self.tables: dict[tuple[str, str], dict[str, Any]] = {}
        self.requests: list[str] = []
        self.interfere: Callable[[str, str], None] = lambda method, path: None
        self.after: Callable[[str, str], None] = lambda method, path: None
        self.data_token: dict[str, str] | None = None
        self.tokens = 0
        self._lock = threading.RLock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.uri = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        catalog = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else {}
                parts = urlsplit(self.path)
                try:
                    if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                        raise RefusedError(401, f"not {self.headers.get('Authorization')}")
                    status, found = 200, catalog.answer(self.command, parts.path, parse_qs(parts.query), body)
                except RefusedError as error:
                    kind = {"resourceType": error.kind, "resourceName": None}
                    status, found = error.status, {**kind, "message": str(error), "code": error.status}
                data = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815  named by http.server

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> Any:
        self.requests.append(f"{method} {path}")
        self.interfere(method, path)
        with self._lock:
            found = self._executed(method, [unquote_plus(part) for part in path.strip("/").split("/")][1:], query, body)
        self.after(method, path)
        return found

    def _executed(self, method: str, path: list[str], query: dict[str, list[str]], body: dict[str, Any]) -> Any:
        if path == ["config"]:
            enabled = {"data-token.enabled": "true"} if self.data_token is not None else {}
            return {"defaults": {"prefix": "a b", "header.X-Default": "1"}, "overrides": enabled}
        assert path.pop(0) == "a b", "the prefix"
        match method, path:
            case "GET", ["databases"]:
                return _page("databases", sorted(self.databases), query)
            case "POST", ["databases"]:
                if body["name"] in self.databases:
                    raise RefusedError(409, "exists", "DATABASE")
                self.databases[body["name"]] = body.get("options") or {}
                return {}
            case "POST", ["tables", "rename"]:
                return self._rename(body["source"], body["destination"])
            case _, ["databases", database, *_] if database not in self.databases:
                raise RefusedError(404, f"no database {database}", "DATABASE")
            case "GET", ["databases", database]:
                return {"id": database, "name": database, "location": str(self.folder), "options": {}}
            case "DELETE", ["databases", database]:
                del self.databases[database]
                return {}
            case "GET", ["databases", database, "tables"]:
                return _page("tables", sorted(name for of, name in self.tables if of == database), query)
            case "POST", ["databases", database, "tables"]:
                return self._create(database, body["identifier"]["object"], body["schema"])
            case _, ["databases", database, "tables", name, *rest]:
                table, _, branch = name.partition("$branch_")
                if (database, table) not in self.tables:
                    raise RefusedError(404, f"no table {name}")
                return self._of_table(method, (database, table), branch, rest, body)
        raise RefusedError(501, f"{method} {path}")

    def _create(self, database: str, name: str, schema: dict[str, Any]) -> Any:
        if (database, name) in self.tables:
            raise RefusedError(409, "exists")
        folder = self.folder / f"{database}.db" / f"{name}-{uuid.uuid4()}"
        options = schema.get("options") or {}
        self.tables[database, name] = {"id": str(uuid.uuid4()), "path": options.pop("path", str(folder))}
        if options.get("type", "table") == "table":
            highest = max(field["id"] for field in schema["fields"])
            self._write_schema((database, name), {**schema, "id": 0, "options": options, "highestFieldId": highest})
        else:
            self.tables[database, name]["schema"] = {**schema, "id": 0, "options": options}
        return {}

    def _write_schema(self, key: tuple[str, str], schema: dict[str, Any]) -> None:
        found = {"version": 3, "comment": None, **schema, "timeMillis": int(time.time() * 1000)}
        folder = Path(self.tables[key]["path"]) / "schema"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"schema-{schema['id']}").open("x") as file:
            json.dump(found, file)
        self.tables[key]["schema"] = found

    def _rename(self, source: dict[str, str], target: dict[str, str]) -> Any:
        old, new = ((one["database"], one["object"]) for one in (source, target))
        if old not in self.tables or new[0] not in self.databases:
            raise RefusedError(404, "no such table or database")
        if new in self.tables:
            raise RefusedError(409, "exists")
        self.tables[new] = self.tables.pop(old)
        return {}

    def _of_table(self, method: str, key: tuple[str, str], branch: str, rest: list[str], body: dict[str, Any]) -> Any:
        table = self.tables[key]
        root = Path(table["path"]) / f"branch/branch-{branch}" if branch else Path(table["path"])
        match method, rest:
            case "GET", []:
                schema = table["schema"]
                shown = {
                    name: schema.get(name) for name in ("fields", "partitionKeys", "primaryKeys", "options", "comment")
                }
                about = {"id": table["id"], "name": key[1], "path": table["path"], "isExternal": False}
                audit = {"owner": "o", "createdAt": 1, "createdBy": "o", "updatedAt": 1, "updatedBy": "o"}
                return {**about, "schemaId": schema["id"], "schema": shown, **audit}
            case "POST", []:
                self._alter(key, body["changes"])
                return {}
            case "DELETE", []:
                shutil.rmtree(self.tables.pop(key)["path"], ignore_errors=True)
                return {}
            case "GET", ["token"]:
                self.tokens += 1
                until = int((time.time() + 1) * 1000) if self.tokens == 1 else int((time.time() + 3600) * 1000)
                return {"token": self.data_token, "expiresAtMillis": until}
            case "GET", ["snapshot"]:
                newest = _newest(root)
                if newest is None:
                    raise RefusedError(404, "no snapshot", "SNAPSHOT")
                counts = {"recordCount": 0, "fileSizeInBytes": 0, "fileCount": 0, "lastFileCreationTime": 0}
                return {"snapshot": {"snapshot": newest, **counts}}
            case "POST", ["commit"]:
                if body["tableId"] != table["id"]:
                    raise RefusedError(404, "another table")
                return {"success": self._commit(root, body["snapshot"])}
        return self._refs(method, root, Path(table["path"]), rest, body)

    def _refs(self, method: str, root: Path, main: Path, rest: list[str], body: dict[str, Any]) -> Any:
        """Tags and branches are files, as Java's server keeps them."""
        match method, rest:
            case "POST", ["tags"]:
                tag = root / "tag" / f"tag-{body['tagName']}"
                if tag.exists():
                    raise RefusedError(409, "exists", "TAG")
                tag.parent.mkdir(parents=True, exist_ok=True)
                shown = json.loads((root / "snapshot" / f"snapshot-{body['snapshotId']}").read_text())
                if "timeRetained" in body:
                    kept = {"tagTimeRetained": int(body["timeRetained"].removesuffix(" ms")) / 1000}
                    shown |= {"tagCreateTime": [2026, 1, 2, 3, 4], **kept}
                tag.write_text(json.dumps(shown))
            case "DELETE", ["tags", name]:
                (root / "tag" / f"tag-{name}").unlink()
            case "POST", ["branches"]:
                folder = main / "branch" / f"branch-{body['branch']}"
                shutil.copytree(main / "schema", folder / "schema")
                if "fromTag" in body:
                    shown = json.loads((main / "tag" / f"tag-{body['fromTag']}").read_text())
                    (folder / "snapshot").mkdir()
                    (folder / "snapshot" / f"snapshot-{shown['id']}").write_text(json.dumps(shown))
            case "DELETE", ["branches", name]:
                shutil.rmtree(main / "branch" / f"branch-{name}")
            case "POST", ["branches", name, "forward"]:
                for folder in ("schema", "snapshot"):
                    shutil.copytree(main / "branch" / f"branch-{name}" / folder, main / folder, dirs_exist_ok=True)
            case "POST", ["rollback"]:
                number = body["instant"]["snapshotId"]
                for path in (root / "snapshot").glob("snapshot-*"):
                    if int(path.name.removeprefix("snapshot-")) > number:
                        path.unlink()
                (root / "snapshot" / "LATEST").write_text(str(number))
            case _:
                raise RefusedError(501, f"{method} {rest}")
        return {}

    def _commit(self, root: Path, snapshot: dict[str, Any]) -> bool:
        newest = _newest(root)
        if snapshot["id"] != (newest["id"] if newest else 0) + 1:
            return False
        (root / "snapshot").mkdir(parents=True, exist_ok=True)
        (root / "snapshot" / f"snapshot-{snapshot['id']}").write_text(json.dumps(snapshot))
        (root / "snapshot" / "LATEST").write_text(str(snapshot["id"]))
        return True

    def _alter(self, key: tuple[str, str], changes: list[dict[str, Any]]) -> None:
        schema = json.loads(json.dumps(self.tables[key]["schema"]))
        fields = schema["fields"]

        def named(change: dict[str, Any]) -> dict[str, Any]:
            (name,) = change["fieldNames"]
            return next(field for field in fields if field["name"] == name)

        for change in changes:
            match change["action"]:
                case "setOption":
                    schema["options"][change["key"]] = change["value"]
                case "removeOption":
                    del schema["options"][change["key"]]
                case "updateComment":
                    schema["comment"] = change["comment"]
                case "addColumn":
                    schema["highestFieldId"] += 1
                    added = {
                        "id": schema["highestFieldId"],
                        "name": change["fieldNames"][0],
                        "type": change["dataType"],
                    }
                    fields.append(added | ({"description": change["comment"]} if change.get("comment") else {}))
                case "dropColumn":
                    fields.remove(named(change))
                case "renameColumn":
                    named(change)["name"] = change["newName"]
                case "updateColumnComment":
                    named(change)["description"] = change["newComment"]
                case "updateColumnType":
                    field = named(change)
                    kept = " NOT NULL" if field["type"].endswith("NOT NULL") and change["keepNullability"] else ""
                    field["type"] = change["newDataType"].removesuffix(" NOT NULL") + kept
                case "updateColumnNullability":
                    field = named(change)
                    field["type"] = field["type"].removesuffix(" NOT NULL")
                    field["type"] += "" if change["newNullability"] else " NOT NULL"
                case "updateColumnPosition":
                    move = change["move"]
                    field = next(field for field in fields if field["name"] == move["fieldName"])
                    fields.remove(field)
                    names = [other["name"] for other in fields]
                    fields.insert(0 if move["type"] == "FIRST" else names.index(move["referenceFieldName"]) + 1, field)
                case other:
                    raise RefusedError(501, other)
        self._write_schema(key, {**schema, "id": schema["id"] + 1})


def _page(key: str, names: list[str], query: dict[str, list[str]]) -> dict[str, Any]:
    start = int(query.get("pageToken", ["0"])[0])
    more = str(start + PAGE) if start + PAGE < len(names) else None
    return {key: names[start : start + PAGE], "nextPageToken": more}


def _newest(root: Path) -> dict[str, Any] | None:
    numbers = [int(path.name.removeprefix("snapshot-")) for path in (root / "snapshot").glob("snapshot-*")]
    return json.loads((root / "snapshot" / f"snapshot-{max(numbers)}").read_text()) if numbers else None
