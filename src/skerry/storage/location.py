"""Locations: absolute paths and URLs of files, taken literally.

Table formats keep locations as plain strings, so nothing in a location is percent-encoded or decoded here: `%20`, `#`
and `?` are part of the name. A location is `scheme://authority/path`, a local path, or `file:/path`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final

from skerry.arguments import checked_path
from skerry.errors import SkerryError, UnsupportedError

__all__ = [
    "Family",
    "FileStatus",
    "Folder",
    "Location",
    "bounded_name",
    "file_key",
    "file_keys",
    "is_local",
    "is_relative",
    "is_within",
    "join",
    "name",
    "parent",
    "parse_location",
    "redact",
]

_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/]*)(?P<path>.*)", re.DOTALL)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SEPARATOR: Final = re.compile("/")
_CUT_ESCAPE: Final = re.compile("%.?$")
_AZURE_SEPARATOR: Final = re.compile(r"[/\\]")
_DFS_HOST: Final = ".dfs."


class Family(Enum):
    """The kinds of store; several schemes may denote the same one."""

    LOCAL = "local files"
    MEMORY = "memory"
    S3 = "Amazon S3"
    GCS = "Google Cloud Storage"
    AZURE = "Azure Blob Storage"


_FAMILIES: Final[dict[str, Family]] = {
    "file": Family.LOCAL,
    "memory": Family.MEMORY,
    "s3": Family.S3,
    "s3a": Family.S3,
    "s3n": Family.S3,
    "gs": Family.GCS,
    "gcs": Family.GCS,
    "az": Family.AZURE,
    "abfs": Family.AZURE,
    "abfss": Family.AZURE,
    "wasb": Family.AZURE,
    "wasbs": Family.AZURE,
}


@dataclass(frozen=True, slots=True)
class Location:
    """Where a file, or everything below a prefix, is stored.

    Args:
        text: The location as given.
        family: The kind of store.
        authority: Identifies the store within its kind: bucket, or `container@account host`; empty for local files.
        path: An absolute path for local files; otherwise the key, without a leading slash.
    """

    text: str
    family: Family
    authority: str
    path: str


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file that a listing found.

    Args:
        location: Its location, with the prefix spelled as in the listing request.
        size_bytes: Its size.
        modified: When it was last written, with a time zone.
    """

    location: str
    size_bytes: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class Folder:
    """The direct contents of a folder.

    Args:
        files: Its files.
        folders: Locations of its subfolders, with the folder's own location spelled as given.
    """

    files: tuple[FileStatus, ...]
    folders: tuple[str, ...]


def parse_location(location: str | os.PathLike[str]) -> Location:
    """Split a location into its parts.

    Args:
        location: A URL or a local path; a relative path is resolved against the working directory.

    Returns:
        Its parts.

    Raises:
        SkerryError: The location is empty, or its URL names no bucket or contains credentials.
        UnsupportedError: The scheme, or a remote host in a `file:` URL, is not supported.
    """
    text = checked_path("a location", location)
    if text.startswith("/"):
        return Location(text, Family.LOCAL, "", text)
    if not text:
        raise SkerryError("the location is empty")
    match = _URL.fullmatch(text)
    if match is None:
        path = text[len("file:") :] if text.startswith("file:/") else os.path.join(os.getcwd(), text)
        return Location(text, Family.LOCAL, "", path)
    scheme, authority, path = match["scheme"].lower(), match["authority"], match["path"]
    family = _FAMILIES.get(scheme)
    if family is None:
        raise UnsupportedError(
            f"scheme {scheme!r} is not supported; use one of {', '.join(sorted(_FAMILIES))}", location=redact(text)
        )
    if family is Family.LOCAL:
        if authority not in ("", "localhost"):
            raise UnsupportedError(f"a file: URL names the host {authority!r}; only this machine is supported")
        return Location(text, family, "", path or "/")
    if not authority and family is not Family.MEMORY:
        raise SkerryError("the URL names no bucket or container", location=redact(text))
    if "@" in authority and family is not Family.AZURE:
        raise SkerryError("a URL must not contain credentials; pass them as storage options", location=redact(text))
    return Location(text, family, authority, path.removeprefix("/"))


def join(base: str, *parts: str) -> str:
    """Append path segments to a location.

    Args:
        base: A location; trailing slashes do not matter.
        parts: Segments, or several separated by slashes; slashes around them do not matter, and empty parts are
            dropped.

    Returns:
        The location below `base`.

    Raises:
        SkerryError: A segment is `.` or `..`, so that the result might not be below `base`.
    """
    pieces = [piece for part in parts if (piece := part.strip("/"))]
    for piece in pieces:
        if not {".", ".."}.isdisjoint(piece.split("/")):
            raise SkerryError(f"a path segment may not be '.' or '..': {piece!r}", location=redact(base))
    root, rest = split_root(base)
    return root + "/".join([rest, *pieces] if rest else pieces)


def parent(location: str) -> str:
    """The location of the folder that contains `location`; a root or a bucket is its own parent."""
    root, rest = split_root(location)
    return root + rest.rpartition("/")[0]


def name(location: str) -> str:
    """The last path segment of `location`; empty for a root or a bucket."""
    return split_root(location)[1].rpartition("/")[2]


def bounded_name(text: str, max_bytes: int) -> str:
    """Shorten a path segment to a number of bytes: one that is too long is cut and ends in a digest of the whole.

    Args:
        text: The segment.
        max_bytes: The most bytes; at least 40.
    """
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    digest = hashlib.blake2b(data, digest_size=8).hexdigest()
    kept = data[: max_bytes - len(digest) - 1].decode(errors="ignore")
    return f"{_CUT_ESCAPE.sub('', kept)}-{digest}"


def is_within(root: str, location: str) -> bool:
    """Whether `location` is strictly below `root`, judged by the names alone.

    The store's own keys are compared: `%2E%2E` and `..%2F` are characters of a name, as they are for the store. As the
    answer decides what may be deleted, it is False when in doubt: for segments `.` and `..` (on Azure also between
    backslashes, which its service may treat as slashes), for NUL bytes, and for locations that cannot be parsed. `s3`,
    `s3a` and `s3n` denote the same store, as do the spellings of a local path. Symbolic links are not followed.

    Args:
        root: Location of a folder, with or without a trailing slash.
        location: The location to judge.

    Returns:
        Whether it is below.
    """
    try:
        outer, inner = parse_location(root), parse_location(location)
    except SkerryError:
        return False
    if (outer.family, _canonical_authority(outer)) != (inner.family, _canonical_authority(inner)):
        return False
    outer_segments, inner_segments = _segments(outer), _segments(inner)
    separator = _AZURE_SEPARATOR if inner.family is Family.AZURE else _SEPARATOR
    if any(_climbs(found.path, separator) for found in (outer, inner)):
        return False
    depth = len(outer_segments)
    return len(inner_segments) > depth and inner_segments[:depth] == outer_segments and any(inner_segments[depth:])


def file_key(location: str) -> tuple[str, ...]:
    """A key that is equal for different spellings of one file's location.

    `file:///a//b`, `file:/a/c/../b` and `/a/b` are one file, as are `s3://b/k` and `s3a://b/k`. A location that cannot
    be parsed equals only itself. Symbolic links are not followed.
    """
    try:
        found = parse_location(location)
    except SkerryError:
        return ("", location)
    if found.family is Family.LOCAL:
        return (found.family.value, os.path.normpath(f"/{found.path.lstrip('/')}"))
    return (found.family.value, _canonical_authority(found), *_segments(found))


def file_keys(locations: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """The `file_key` of each of many locations, of which many are in the same folders."""
    local, folders = Family.LOCAL.value, dict[str, tuple[str, ...]]()
    for location in locations:
        folder, _, last = location.rpartition("/")
        key = folders.get(folder)
        if key is None:
            is_whole = folder != "" and not folder.endswith(("/", ":"))
            key = folders[folder] = file_key(folder) if is_whole else ("",)
        if key[0] == "" or key[-1] == "/" or last in ("", ".", ".."):
            yield file_key(location)
        elif key[0] == local:
            yield (local, f"{key[1]}/{last}")
        else:
            yield (*key, last)


def is_relative(location: str) -> bool:
    """Whether a location neither begins with a slash nor with a scheme."""
    return not location.startswith("/") and _SCHEME.match(location) is None


def local_path(location: str) -> str | None:
    """The path of a local file; None for a location in another store."""
    found = parse_location(location)
    return found.path if found.family is Family.LOCAL else None


def is_local(location: str) -> bool:
    """Whether a location is in the local file system."""
    return parse_location(location).family is Family.LOCAL


def absolute(location: str | os.PathLike[str]) -> str:
    """A location that does not depend on the working directory and can be compared with other names.

    Local paths are resolved against the working directory; if they contain `..`, links are followed, as opening the
    file would. URLs and plain absolute paths are unchanged.
    """
    text = checked_path("a location", location)
    if not text or _URL.fullmatch(text) or text.startswith("file:/"):
        return text
    segments = text.split("/")
    if ".." in segments:
        folder, _, last = text.rpartition("/")
        if last in ("", ".", ".."):
            return os.path.realpath(text)
        return os.path.join(os.path.realpath(folder or "/"), last)
    return os.path.abspath(text) if not text.startswith("/") or "." in segments else text


def redact(url: str) -> str:
    """Hide the parts of a URL that may be secret: user info and query.

    Args:
        url: Any URL or local path.

    Returns:
        The URL with `***` for user info (an Azure container in front of `@` is not user info) and query; a path
        unchanged.
    """
    match = _URL.fullmatch(url)
    if match is None:
        return url
    family = _FAMILIES.get(match["scheme"].lower())
    if family in (Family.LOCAL, Family.MEMORY):
        return url
    user, at, host = match["authority"].rpartition("@")
    if at and (family is not Family.AZURE or ":" in user):
        user = "***"
    rest, question, _ = f"{user}{at}{host}{match['path']}".partition("?")
    return f"{match['scheme']}://{rest}{'?***' if question else ''}"


def split_root(location: str) -> tuple[str, str]:
    """Split off the part that has no parent (`/`, `file:/`, `s3://bucket/`); the rest has no trailing slash."""
    match = _URL.fullmatch(location)
    if match is not None:
        root, rest = f"{match['scheme']}://{match['authority']}/", match["path"][1:]
    elif location.startswith("file:/"):
        root, rest = "file:/", location[len("file:/") :]
    else:
        root, rest = ("/", location[1:]) if location.startswith("/") else ("", location)
    return root, rest.rstrip("/")


def _canonical_authority(location: Location) -> str:
    """The canonical one of the host names of an Azure account."""
    if location.family is not Family.AZURE:
        return location.authority
    container, at, host = location.authority.partition("@")
    return f"{container}{at}{host.lower().replace(_DFS_HOST, '.blob.', 1)}"


def _segments(location: Location) -> list[str]:
    """Path segments; repeated slashes are ignored in a local path, and are part of the key elsewhere."""
    path = location.path.rstrip("/")
    if not path:
        return []
    if location.family is Family.LOCAL:
        return [segment for segment in path.split("/") if segment]
    return path.split("/")


def _climbs(path: str, separator: re.Pattern[str]) -> bool:
    """Whether a path may lead out of the folder that it begins with."""
    return "\0" in path or not {".", ".."}.isdisjoint(separator.split(path))
