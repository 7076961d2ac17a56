"""Servers that plan the scans of tables: what they are asked for, and what they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from skerry.storage import Storage

__all__ = ["ScanServer", "ServerPlan"]


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """A scan that a server has planned.

    Args:
        parts: Its answers in their order, not yet checked: `file-scan-tasks`, and the `delete-files` to which these
            refer by number.
        storage: Access to the files.
    """

    parts: Sequence[Mapping[str, Any]] = field(repr=False)
    storage: Storage


class ScanServer(Protocol):
    """A server that plans the scans of a table."""

    def plan(self, request: Mapping[str, Any], storage: Storage, threads: int) -> ServerPlan:
        """Have a scan planned.

        Args:
            request: What to read: the specification's `PlanTableScanRequest`.
            storage: Access to the table's files, for a plan without credentials of its own.
            threads: The number of parts fetched in parallel.

        Raises:
            FormatError: The server does not answer as the specification says.
            NotFoundError: There is no such table.
            StorageError: It cannot be reached, does not plan the scan in time, or fails to.
            UnsupportedError: It does not offer to plan scans.

        Spec: Iceberg REST specification.
        """
