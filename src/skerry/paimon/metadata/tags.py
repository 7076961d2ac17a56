"""Tags: snapshots kept under a name.

A tag is a copy of its snapshot's file, so that it outlives the snapshot; expiry spares the files that it refers to.

Spec: docs/formats/paimon.md § 13.1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    CommitUnknownError,
    FormatError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from skerry.paimon.metadata.file_names import checked_name, named_files
from skerry.paimon.metadata.paths import TablePaths
from skerry.paimon.metadata.published_file import holds
from skerry.paimon.metadata.snapshot import Snapshot, decode_object, snapshot_keys, snapshot_of
from skerry.storage import Storage
from skerry.table.rows.schema import nearest

__all__ = [
    "Tag",
    "create_tag",
    "decode_tag",
    "delete_tag",
    "encode_tag",
    "find_tag",
    "read_tag",
    "read_tags",
    "tag_names",
]

_PREFIX: Final = "tag-"
_CREATE_TIME: Final = "tagCreateTime"
_TIME_RETAINED: Final = "tagTimeRetained"
_RULE: Final = "docs/formats/paimon.md § 13.1"


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag.

    Args:
        name: Its name.
        snapshot: The snapshot.
        create_time: When it was created, in its creator's local time; None if that was not recorded.
        time_retained: How long it is kept; None for no limit.
    """

    name: str
    snapshot: Snapshot
    create_time: datetime | None = None
    time_retained: timedelta | None = None


def tag_names(storage: Storage, paths: TablePaths) -> list[str]:
    """The sorted names of a branch's tags."""
    return named_files(storage, paths.tags, _PREFIX)


def read_tags(storage: Storage, paths: TablePaths) -> list[Tag]:
    """The tags of a branch, by name."""
    found = (find_tag(storage, paths, name) for name in tag_names(storage, paths))
    return [tag for tag in found if tag is not None]


def find_tag(storage: Storage, paths: TablePaths, name: str) -> Tag | None:
    """The tag of a name; None if it does not exist.

    Raises:
        FormatError: The file is corrupt.
        UnsupportedError: Its version or kind is unknown.
    """
    location = paths.tag(checked_name(name, "tag"))
    try:
        data = storage.read(location)
    except NotFoundError:
        return None
    return decode_tag(name, data, location=location)


def read_tag(storage: Storage, paths: TablePaths, name: str) -> Tag:
    """The tag of a name.

    Raises:
        NotFoundError: It does not exist; the message proposes the nearest name.
        FormatError: The file is corrupt.
        UnsupportedError: Its version or kind is unknown.
    """
    found = find_tag(storage, paths, name)
    if found is None:
        raise NotFoundError(f"no tag {name!r}{nearest(name, tag_names(storage, paths))}", location=paths.tag(name))
    return found


def create_tag(
    storage: Storage,
    paths: TablePaths,
    name: str,
    snapshot: Snapshot,
    *,
    time_retained: timedelta | None = None,
    create_time: datetime | None = None,
) -> Tag:
    """Keep a snapshot under a name.

    Args:
        storage: Access to the table's files.
        paths: Their locations.
        name: The name.
        snapshot: The snapshot.
        time_retained: How long the tag is kept; None for no limit.
        create_time: When it is created, in local time; now if None. Recorded only together with `time_retained`.

    Raises:
        AlreadyExistsError: The tag exists.
        CommitUnknownError: The store failed; the tag may or may not exist.
        SchemaError: The name is not valid.
    """
    when = (create_time or datetime.now()) if time_retained is not None else None  # Java records local time, too
    tag = Tag(checked_name(name, "tag"), snapshot, when, time_retained)
    try:
        storage.write(paths.tag(name), encode_tag(tag))
    except AlreadyExistsError as error:
        raise AlreadyExistsError(f"tag {name!r} already exists", location=paths.tag(name)) from error
    except AccessDeniedError:
        raise
    except StorageError as error:
        if not holds(storage, paths.tag(name), encode_tag(tag)):
            raise CommitUnknownError(
                f"tag {name!r} may or may not have been created: {error}", location=paths.tag(name)
            ) from error
    return tag


def delete_tag(storage: Storage, paths: TablePaths, name: str) -> None:
    """Delete a tag; the files that only its snapshot needs stay until orphans are removed.

    Raises:
        NotFoundError: The tag does not exist.
    """
    read_tag(storage, paths, name)
    storage.delete([paths.tag(name)])


def decode_tag(name: str, data: bytes, *, location: str | None = None) -> Tag:
    """Decode a tag's file.

    Raises:
        FormatError: It is not a valid tag.
        UnsupportedError: Its version or kind is unknown.
    """
    found = decode_object(data, "tag", location)
    created, retained = found.pop(_CREATE_TIME, None), found.pop(_TIME_RETAINED, None)
    try:
        return Tag(name, snapshot_of(found), _moment(created), _duration(retained))
    except (FormatError, UnsupportedError) as error:
        error.location = location
        raise


def _moment(value: Any) -> datetime | None:
    """A local time: year, month, day, hour, minute, and second and nanosecond unless they are zero."""
    if value is None:
        return None
    if not isinstance(value, list) or not 5 <= len(value) <= 7 or not all(isinstance(part, int) for part in value):
        raise FormatError(f"{_CREATE_TIME} must be a time, found {value!r:.80}", rule=_RULE)
    year, month, day, hour, minute, second, nanos = (*value, 0, 0)[:7]
    try:
        return datetime(year, month, day, hour, minute, second, nanos // 1_000)
    except (ValueError, OverflowError, TypeError) as error:
        raise FormatError(f"{_CREATE_TIME} must be a time, found {value!r:.80}", rule=_RULE) from error


def _duration(value: Any) -> timedelta | None:
    """A duration in seconds; None for an ISO 8601 text, which is not parsed."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormatError(f"{_TIME_RETAINED} must be a number of seconds, found {value!r:.80}", rule=_RULE)
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError):
        return timedelta.max


def encode_tag(tag: Tag) -> bytes:
    """The content of a tag's file."""
    keys: dict[str, Any] = snapshot_keys(tag.snapshot)
    when, retained = tag.create_time, tag.time_retained
    if when is not None:
        date = (when.year, when.month, when.day, when.hour, when.minute, when.second, when.microsecond * 1_000)
        keys[_CREATE_TIME] = list(date)
    if retained is not None:
        keys[_TIME_RETAINED] = retained.total_seconds()
    return json.dumps(keys, indent=2, ensure_ascii=False).encode()
