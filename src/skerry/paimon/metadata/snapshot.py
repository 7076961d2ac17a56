"""Snapshot files: the root of everything committed up to a point in time.

Spec: docs/formats/paimon.md § 3.1; Paimon spec, Snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Final

from skerry.errors import FormatError, UnsupportedError
from skerry.storage import decode_json

__all__ = [
    "BATCH_COMMIT_IDENTIFIER",
    "SNAPSHOT_VERSION",
    "CommitKind",
    "Snapshot",
    "decode_snapshot",
    "encode_snapshot",
]

SNAPSHOT_VERSION: Final = 3
BATCH_COMMIT_IDENTIFIER: Final = 2**63 - 1
"""The commit identifier of batch commits, whose user is used only once."""

_RULE = "docs/formats/paimon.md § 3.1"


class CommitKind(Enum):
    """What a commit did."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot, with the names that its file uses, in snake case.

    Args:
        version: Version of the file's layout.
        id: Its number; they are consecutive from 1.
        schema_id: The newest schema when it was committed.
        base_manifest_list: Name of the list of all manifests of the previous snapshot.
        base_manifest_list_size: Its bytes; None in files of old versions.
        delta_manifest_list: Name of the list of the manifests that this commit added.
        delta_manifest_list_size: Its bytes.
        changelog_manifest_list: Name of the list of this commit's manifests of changelog files; None without any.
        changelog_manifest_list_size: Its bytes.
        index_manifest: Name of the manifest of all index files; None without any.
        commit_user: The user that committed it.
        commit_identifier: Number of the commit among those of its user.
        commit_kind: What it did.
        time_millis: When, in milliseconds since 1970.
        total_record_count: Rows of all live files, before merging; None in files of old versions.
        delta_record_count: Rows of added files minus rows of deleted ones.
        changelog_record_count: Rows of this commit's changelog files.
        watermark: Event time that the table has reached, in milliseconds.
        statistics: Name of the table's statistics file.
        properties: Arbitrary properties by writers.
        next_row_id: The row id for the next appended row, in tables that track rows.
        unknown: Keys that this version does not know, kept as they were read.
    """

    version: int = SNAPSHOT_VERSION
    id: int
    schema_id: int
    base_manifest_list: str
    base_manifest_list_size: int | None = None
    delta_manifest_list: str
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: int | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


_KEYS: Final = {part.name: _camel(part.name) for part in fields(Snapshot) if part.name != "unknown"}
_TEXTS: Final = frozenset(
    (
        "base_manifest_list",
        "delta_manifest_list",
        "changelog_manifest_list",
        "index_manifest",
        "commit_user",
        "statistics",
    )
)
_REQUIRED: Final = frozenset(
    (
        "id",
        "schema_id",
        "base_manifest_list",
        "delta_manifest_list",
        "commit_user",
        "commit_identifier",
        "commit_kind",
        "time_millis",
    )
)
_COUNTS: Final = frozenset(
    ("base_manifest_list_size", "delta_manifest_list_size", "changelog_manifest_list_size", "schema_id", "next_row_id")
)


def decode_snapshot(data: bytes | str, *, location: str | None = None) -> Snapshot:
    """Decode a snapshot file.

    Args:
        data: The file.
        location: Its location, for messages.

    Raises:
        FormatError: It is not a valid snapshot.
        UnsupportedError: Its version or kind is unknown.

    Spec: docs/formats/paimon.md § 3.1.
    """
    found = decode_object(data, "snapshot", location)
    try:
        return snapshot_of(found)
    except (FormatError, UnsupportedError) as error:
        error.location = location
        raise


def decode_object(data: bytes | str, what: str, location: str | None) -> dict[str, Any]:
    """Decode a file that contains one JSON object.

    Raises:
        FormatError: It contains something else.
    """
    try:
        found = decode_json(data)
    except ValueError as error:
        raise FormatError(f"a {what} file must be JSON: {error}", location=location) from error
    if not isinstance(found, dict):
        raise FormatError(f"a {what} file must hold a JSON object, found {type(found).__name__}", location=location)
    return found


def snapshot_of(found: Mapping[str, Any]) -> Snapshot:
    """The snapshot from a file's keys.

    Raises:
        FormatError: A key is missing or has an invalid value.
        UnsupportedError: The version or kind is unknown.
    """
    version = found.get("version") or 1
    if not isinstance(version, int) or not 1 <= version <= SNAPSHOT_VERSION:
        raise UnsupportedError(f"snapshot version {version!r:.40} is not supported, expected 1 to {SNAPSHOT_VERSION}")
    values: dict[str, Any] = {"version": version}
    for name, key in _KEYS.items():
        value = found.get(key)
        if value is not None and name != "version":
            values[name] = _value(name, key, value)
    missing = [_KEYS[name] for name in sorted(_REQUIRED) if name not in values]
    if missing:
        raise FormatError(f"a snapshot must have {missing[0]!r}", rule=_RULE)
    known = set(_KEYS.values())
    return Snapshot(**values, unknown={key: value for key, value in found.items() if key not in known})


def _value(name: str, key: str, value: Any) -> Any:
    if name == "commit_kind":
        if not isinstance(value, str) or value not in CommitKind.__members__:
            raise UnsupportedError(f"commit kind {value!r:.40} is not supported")
        return CommitKind(value)
    if name == "properties":
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise FormatError("a snapshot's properties must be texts by name", rule=_RULE)
        return value
    if name in _TEXTS:
        if not isinstance(value, str) or not value:
            raise FormatError(f"a snapshot's {key!r} must be text, found {value!r:.40}", rule=_RULE)
        return value
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise FormatError(f"a snapshot's {key!r} must be a 64-bit integer, found {value!r:.40}", rule=_RULE)
    if value < 0 and (name in _COUNTS or name == "id"):
        raise FormatError(f"a snapshot's {key!r} must not be negative, found {value}", rule=_RULE)
    return value


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The content of a snapshot's file; optional keys without a value are omitted."""
    return json.dumps(snapshot_keys(snapshot), indent=2, ensure_ascii=False).encode()


def snapshot_keys(snapshot: Snapshot) -> dict[str, Any]:
    """The keys of a snapshot's file, unknown ones last."""
    found: dict[str, Any] = {}
    for name, key in _KEYS.items():
        value = getattr(snapshot, name)
        if value is not None:
            found[key] = value.value if isinstance(value, CommitKind) else value
    return {**found, **snapshot.unknown}
