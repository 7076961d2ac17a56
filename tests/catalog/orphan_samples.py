"""What a table needs, told by a reader that shares nothing with skerry's; files made old; a sweep of one table."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import fastavro
import pytest
from rivals import path_of

from skerry.iceberg.operations import MetadataChange


def sweep(table, *, metadata: Any = None, executor: Any = None, **how: Any):
    """Remove orphans.

    Args:
        table: The table.
        metadata: Instead of what the catalog says.
        executor: Where tasks run.
        how: As `Table.remove_orphans` takes it.
    """
    if metadata is None:
        return table.remove_orphans(executor=executor, **how)
    implementation = table.handle
    state = dataclasses.replace(implementation.state, metadata=metadata)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(implementation, "state", state)
        patch.setattr(implementation, "refresh", lambda: state)
        return table.remove_orphans(executor=executor, **how)


def age(folder: Path, days: float = 30.0) -> None:
    """Make everything below a folder that old."""
    then = time.time() - days * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (then, then), follow_symlinks=False)


def metadata_update(table, update: Any) -> None:
    """Commit an update of the metadata as it is."""
    table.handle.commit(_Update(update))


@dataclasses.dataclass
class _Update:
    update: Any

    def apply(self, base):
        return MetadataChange((self.update,))


def _avro(location: str) -> list[dict[str, Any]]:
    with path_of(location).open("rb") as file:
        return list(fastavro.reader(file))


def oracle(table) -> set[str]:
    """The paths of all files that the catalog's newest state of a table needs: JSON and Avro, read naively."""
    location = table.refresh().metadata_location
    data = path_of(location).read_bytes()
    metadata = _json(data)
    return _walk(location, metadata) | thinned(metadata)


def _json(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    return found


def thinned(metadata: dict[str, Any]) -> set[str]:
    """The last statistics files that earlier metadata files name for snapshots that have none now."""
    living = {snapshot["snapshot-id"] for snapshot in metadata.get("snapshots") or []}
    living -= {entry["snapshot-id"] for entry in metadata.get("statistics") or []}
    found = {}
    for logged in metadata.get("metadata-log") or []:
        with contextlib.suppress(FileNotFoundError, ValueError):
            for entry in _json(path_of(logged["metadata-file"]).read_bytes()).get("statistics") or []:
                if entry["snapshot-id"] in living:
                    found[entry["snapshot-id"]] = os.path.normpath(path_of(entry["statistics-path"]))
    return set(found.values())


def _walk(location: str, metadata: dict[str, Any]) -> set[str]:
    needed = {location, *(entry["metadata-file"] for entry in metadata.get("metadata-log") or [])}
    for kind in ("statistics", "partition-statistics"):
        needed |= {entry["statistics-path"] for entry in metadata.get(kind) or []}
    for snapshot in metadata.get("snapshots") or []:
        needed.add(snapshot["manifest-list"])
        for manifest in _avro(snapshot["manifest-list"]):
            needed.add(manifest["manifest_path"])
            needed |= {
                entry["data_file"]["file_path"] for entry in _avro(manifest["manifest_path"]) if entry["status"] != 2
            }
    return {os.path.normpath(path_of(one)) for one in needed}


def newer_states(table) -> set[str]:
    """The paths of all files that states need which the catalog does not know, and which are newer than its own."""
    table.refresh()
    known = json.loads(path_of(table.metadata_location).read_bytes())
    needed: set[str] = set()
    for path in (path_of(table.location) / "metadata").glob("*.metadata.json"):
        try:
            state = json.loads(path.read_bytes())
        except ValueError:
            continue
        if state["last-updated-ms"] > known["last-updated-ms"]:
            with contextlib.suppress(FileNotFoundError):  # a state of which a part is gone is nobody's
                needed |= _walk(str(path), state)
    return needed
