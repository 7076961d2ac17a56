"""Logs of orphan removal: the files marked before anything was deleted, and what happened to them.

Lines of JSON. The first identifies the table and the run; each further one is a file.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from skerry.errors import FormatError, SchemaError
from skerry.storage import file_key, join
from skerry.table.reachability import ReachableTable
from skerry.table.summaries import OrphanFile

__all__ = ["OrphanLog", "read_marked"]


class OrphanLog:
    """Writes the logs of one run, or none if there is no folder for them.

    Args:
        table: The table.
        folder: The folder of the logs.

    Attributes:
        locations: The logs that were written.
    """

    def __init__(self, table: ReachableTable, folder: str | None) -> None:
        self._table = table
        self._folder = folder
        self._run = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        self.locations: list[str] = []

    def write_marked(self, files: Iterable[OrphanFile], before: datetime) -> None:
        """Log the files that will be deleted."""
        self._write("marked", [_line(file, "marked") for file in files], older_than=before.isoformat())

    def write_swept(self, deleted: Iterable[OrphanFile], saved: Iterable[OrphanFile]) -> None:
        """Log the files that were deleted, and those that were kept because a commit now refers to them."""
        lines = [*(_line(file, "deleted") for file in deleted), *(_line(file, "saved") for file in saved)]
        self._write("swept", lines)

    def _write(self, phase: str, lines: list[dict[str, Any]], **said: str) -> None:
        if self._folder is None:
            return
        table = self._table
        head = {
            "table": table.name,
            "identity": table.identity,
            "location": table.location,
            "phase": phase,
            "written": datetime.now(UTC).isoformat(),
            **said,
            "files": len(lines),
            "size_bytes": sum(line["size_bytes"] for line in lines),
        }
        safe_name = re.sub(r"[^\w.-]", "_", table.name)
        location = join(self._folder, f"{safe_name}-{self._run}-{phase}.jsonl")
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (head, *lines))
        table.storage.write(location, text.encode())
        self.locations.append(location)


def _line(file: OrphanFile, fate: str) -> dict[str, Any]:
    return {
        "file": file.location,
        "size_bytes": file.size_bytes,
        "modified": file.modified.isoformat(),
        "fate": fate,
    }


class _Marked:
    """Files that an earlier run marked and that have not changed since."""

    def __init__(self, files: Iterable[OrphanFile]) -> None:
        self._files = {file_key(file.location): (file.size_bytes, file.modified) for file in files}

    def __contains__(self, file: OrphanFile) -> bool:
        return self._files.get(file_key(file.location)) == (file.size_bytes, file.modified)


def read_marked(table: ReachableTable, location: str) -> _Marked:
    """Read the files that an earlier run marked.

    Raises:
        FormatError: The file is not such a log.
        NotFoundError: It is missing.
        SchemaError: It belongs to another table.
    """
    try:
        head, *lines = map(json.loads, table.storage.read(location).decode().splitlines())
        phase, count = head["phase"], head["files"]
        identity, name = head["identity"], head["table"]
        files = [
            OrphanFile(str(line["file"]), int(line["size_bytes"]), datetime.fromisoformat(line["modified"]))
            for line in lines
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"this is not a log of marked orphans: {error!r}", location=location) from error
    if phase != "marked" or count != len(files):
        raise FormatError(
            f"this log of marked orphans is incomplete: phase {phase!r}, {len(files)} of {count} files",
            location=location,
        )
    if identity != table.identity:
        raise SchemaError(f"{location} marks orphans of another table, {name} ({identity})")
    return _Marked(files)
