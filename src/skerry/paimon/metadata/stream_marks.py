"""How far writing streams have come: the record of a batch when its snapshot has expired.

A snapshot records its user and commit number, as long as it exists. A mark records them afterwards. It is written
before a batch is tried, with the snapshot that was the newest then, and again once the batch is in the table:

- no mark, or one of an earlier batch: the batch was never tried;
- a mark of the batch that says it is in the table: it is;
- a mark of the batch that does not: its commit, if it exists, is one of the later snapshots.

A mark is that of a batch if the same query has counted both (`skerry.table.stream_batch.has_batch`).

A mark is a file in the folder `skerry-streams` of its branch, which Paimon does not know.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any, TypeGuard

from skerry.errors import FormatError, NotFoundError
from skerry.paimon.metadata.paths import TablePaths
from skerry.paimon.metadata.snapshot import decode_object
from skerry.paimon.metadata.state import PaimonState
from skerry.storage import join

__all__ = ["StreamMark", "delete_mark", "mark_location", "marks_folder", "read_mark", "stream_user", "write_mark"]

_NAMESPACE = uuid.UUID("5d0f9c1e-3b0a-4f0e-9f0b-6f1f3a1a7c52")


@dataclass(frozen=True, slots=True)
class StreamMark:
    """How far a stream has come on a branch.

    Args:
        stream: The stream's name.
        batch: The last batch that was tried.
        after: The newest snapshot when it was first tried; 0 for none.
        is_published: Whether it is known to be in the table.
        query: The query that counts the batches; None if unknown.
    """

    stream: str
    batch: int
    after: int
    is_published: bool = False
    query: str | None = None


def stream_user(stream: str, query: str | None = None) -> str:
    """The user under whose name the batches of a query are committed, so that they are not taken for another's."""
    counted = stream if query is None else f"{stream}\0{query}"
    return f"skerry-stream-{uuid.uuid5(_NAMESPACE, counted)}"


def marks_folder(paths: TablePaths) -> str:
    """The folder of a branch's marks."""
    return join(paths.branch_root, "skerry-streams")


def mark_location(state: PaimonState, stream: str) -> str:
    """The location of a stream's mark."""
    return join(marks_folder(state.paths), f"{stream_user(stream)}.json")


def read_mark(state: PaimonState, stream: str) -> StreamMark | None:
    """The mark of a stream; None if it has none.

    Raises:
        FormatError: The file is corrupt.
    """
    location = mark_location(state, stream)
    try:
        found = decode_object(state.storage.read(location), "stream mark", location)
    except NotFoundError:
        return None
    batch, after, is_published = (found.get(key) for key in ("batch", "after", "isPublished"))
    query = found.get("query")
    is_query = query is None or isinstance(query, str)
    if not (_is_count(batch) and _is_count(after) and isinstance(is_published, bool) and is_query):
        raise FormatError(
            f"a stream mark must have 'batch', 'after', 'isPublished' and optionally 'query', found {found!r:.200}",
            location=location,
        )
    return StreamMark(stream, batch, after, is_published, query)


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def write_mark(state: PaimonState, mark: StreamMark) -> None:
    """Write a stream's mark, replacing the previous one."""
    said = {"stream": mark.stream, "batch": mark.batch, "after": mark.after, "isPublished": mark.is_published}
    if mark.query is not None:
        said["query"] = mark.query
    location = mark_location(state, mark.stream)
    state.storage.write(location, json.dumps(said, indent=2).encode(), overwrite=True)


def delete_mark(state: PaimonState, stream: str) -> None:
    """Delete a stream's mark, if it exists."""
    state.storage.delete([mark_location(state, stream)])
