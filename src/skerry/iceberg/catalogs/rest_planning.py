"""Scans that a REST catalog's server plans: submitted, awaited, fetched part by part, cancelled if they are not needed.

Spec: Iceberg REST specification.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

from skerry.errors import NotFoundError, SkerryError, StorageError
from skerry.http.http_client import seconds_of
from skerry.iceberg.catalogs.records import Identifier
from skerry.iceberg.catalogs.rest_credentials import VendedCredentials, vended_options
from skerry.iceberg.catalogs.rest_server import RestServer
from skerry.iceberg.planning.scan_server import ServerPlan
from skerry.storage import Storage
from skerry.storage.options import signs_remotely
from skerry.storage.renewing import RenewedCredentials, expires_at

__all__ = ["RestScanServer"]

_PLANS: Final = "namespaces/{namespace}/tables/{table}/plan"
_PLAN: Final = "namespaces/{namespace}/tables/{table}/plan/{plan-id}"
_TASKS: Final = "namespaces/{namespace}/tables/{table}/tasks"
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
_GROWTH: Final = 1.5
_PATIENCE: Final = "rest-scan-planning.poll-timeout-ms"
_PATIENCE_S: Final = 300.0
_FETCH_S: Final = 3600.0
_MAX_TASKS: Final = 100_000
_THREADS: Final = 8
_MAX_REASON: Final = 300
_REPLACED: Final = (
    "s3.access-key-id",
    "s3.secret-access-key",
    "s3.session-token",
    "gcs.oauth2.token",
    "adls.sas-token",
)


class RestScanServer:
    """Plans scans of one table; see `skerry.iceberg.planning.scan_server.ScanServer`.

    Args:
        server: The catalog's server.
        identifier: The table.
        locations: Its folder and its metadata file, which select among several credentials.
        token: A token for this table alone.

    Raises:
        SchemaError: The catalog property `rest-scan-planning.poll-timeout-ms` is not a positive number.
    """

    def __init__(
        self, server: RestServer, identifier: Identifier, locations: tuple[str, ...], token: str | None = None
    ) -> None:
        self._server = server
        self._identifier = identifier
        self._locations = locations
        self._token = token
        self._patience_s = seconds_of(server.properties, _PATIENCE, _PATIENCE_S)

    def __repr__(self) -> str:
        return f"RestScanServer({'.'.join(self._identifier)!r})"

    def plan(self, request: Mapping[str, Any], storage: Storage, threads: int) -> ServerPlan:
        """Have a scan planned, and fetch all of its tasks; a plan that is not fetched to its end is cancelled."""
        plan: str | None = None
        try:
            found = self._call("POST", _PLANS, body=dict(request))
            plan = _plan_id(found)
            if found.get("status") == "submitted":
                if plan is None:
                    raise self._server.nonsense("a plan that was submitted has no plan-id")
                found = self._awaited(plan)
            if found.get("status") != "completed":
                plan = None
                raise self._unplanned(found)
            return ServerPlan(self._fetched(found, threads), self._storage(found, plan, storage))
        except BaseException:
            if plan is not None:
                self._cancel(plan)
            raise

    def _awaited(self, plan: str) -> dict[str, Any]:
        """The result of a plan that was submitted."""
        until, pause_s = time.monotonic() + self._patience_s, _FIRST_PAUSE_S
        while True:
            time.sleep(pause_s)
            try:
                found = self._call("GET", _PLAN, plan=plan)
            except NotFoundError as error:
                raise StorageError(f"the catalog's server lost its plan of the scan: {error.message}") from error
            if found.get("status") != "submitted":
                return found
            pause_s = min(pause_s * _GROWTH, _LONGEST_PAUSE_S)
            if time.monotonic() + pause_s > until:
                raise StorageError(
                    f"the catalog's server has not planned the scan within {self._patience_s:g} s ({_PATIENCE})",
                    location=".".join(self._identifier),
                )

    def _unplanned(self, found: Mapping[str, Any]) -> SkerryError:
        """The error of a plan that has not been completed."""
        status = found.get("status")
        if status not in ("failed", "cancelled"):
            return self._server.nonsense("the status of a plan is none of completed, submitted, failed and cancelled")
        error = found.get("error")
        said = error.get("message") if isinstance(error, dict) else None
        reason = f": {' '.join(self._server.without_secrets(said).split())[:_MAX_REASON]}" if said else ""
        what = "failed to plan the scan" if status == "failed" else "cancelled its plan of the scan"
        return StorageError(f"the catalog's server {what}{reason}", location=".".join(self._identifier))

    def _fetched(self, first: dict[str, Any], threads: int) -> tuple[Mapping[str, Any], ...]:
        """All parts of a completed plan, in their order."""
        parts = [first]
        pending, seen = self._next(first), set[str]()
        until = time.monotonic() + _FETCH_S
        if not pending:
            return (first,)
        with ThreadPoolExecutor(min(threads, _THREADS), thread_name_prefix="skerry-scan-tasks") as pool:
            while pending:
                known = len(seen)
                seen.update(pending)
                if len(seen) != known + len(pending) or len(seen) > _MAX_TASKS:
                    raise self._server.nonsense("the tasks of a plan repeat or do not end")
                if time.monotonic() > until:
                    raise StorageError(f"the catalog's server has not given the plan's tasks within {_FETCH_S:g} s")
                found = list(pool.map(self._tasks_of, pending))
                parts += found
                pending = [task for part in found for task in self._next(part)]
        return tuple(parts)

    def _tasks_of(self, task: str) -> dict[str, Any]:
        try:
            return self._call("POST", _TASKS, body={"plan-task": task})
        except NotFoundError as error:
            raise StorageError(f"the catalog's server lost a part of its plan: {error.message}") from error

    def _next(self, part: Mapping[str, Any]) -> list[str]:
        tasks = part.get("plan-tasks")
        tasks = [] if tasks is None else tasks
        if not isinstance(tasks, list) or not all(isinstance(task, str) for task in tasks):
            raise self._server.nonsense("plan-tasks is not a list of texts")
        return tasks

    def _cancel(self, plan: str) -> None:
        with suppress(SkerryError):  # what ended the plan matters more, and the server forgets plans by itself
            self._call("DELETE", _PLAN, plan=plan)

    def _call(self, method: str, endpoint: str, *, body: Any = None, plan: str = "") -> dict[str, Any]:
        names = {
            "namespace": self._server.namespace_path(self._identifier[:-1]),
            "table": quote(self._identifier[-1], safe=""),
            "plan-id": quote(plan, safe=""),
        }
        found = self._server.call(method, endpoint, names=names, body=body, token=self._token, is_read=True)
        return {} if method == "DELETE" else self._server.object(found, "a plan")

    def _storage(self, found: Mapping[str, Any], plan: str | None, storage: Storage) -> Storage:
        """Access to the files of a plan, which may come with credentials of its own."""
        options = vended_options({"storage-credentials": found.get("storage-credentials")}, *self._locations)
        if not options:
            return storage
        kept = {name: value for name, value in storage.options.items() if not name.startswith(_REPLACED)}
        options = {**kept, **options}
        if expires_at(options) is None:
            requests = storage.requests if signs_remotely(options) else None
            return Storage(options, storage.allowed_locations, requests=requests)
        source = VendedCredentials(self._server, self._identifier, self._locations, self._token, plan)
        return Storage(options, storage.allowed_locations, RenewedCredentials(options, source))

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing, ()  # scans are planned where they are created


def _nothing() -> None:
    return None


def _plan_id(found: Mapping[str, Any]) -> str | None:
    plan = found.get("plan-id")
    return plan if isinstance(plan, str) and plan else None
