"""References to bytes of a shard's files, and the rules for their urls.

A shard may come from anywhere, so a url in it must not reach what its reader did not mean to open: it names a file in
the folder of the shard's root file or below, unless the caller allows other folders. Percent-encoding is decoded.

Spec: docs/formats/amudai.md § 2.6, § 2.7; Amudai book, chapter 3; Amudai book, chapter 6, DataRef, DataRefArray.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from skerry.amudai.messages import DataRef, DataRefArray
from skerry.errors import FormatError, UnsupportedError
from skerry.storage import file_key, is_within, join, local_path, parent, redact

__all__ = ["Reference", "UrlRules", "check_range", "decode_reference_array", "encode_data_ref", "encode_url"]

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f\\?#]")
_MAX_POSITION: Final = (1 << 63) - 1
_RULE: Final = "docs/formats/amudai.md § 2.6"
_URL_RULE: Final = "docs/formats/amudai.md § 2.6"


@dataclass(frozen=True, slots=True)
class Reference:
    """Bytes of a file.

    Args:
        location: The file.
        start: Its first byte.
        end: The byte after the last.
    """

    location: str
    start: int
    end: int

    @property
    def length(self) -> int:
        """How many bytes there are."""
        return self.end - self.start


class UrlRules:
    """Resolves the urls of one shard.

    Args:
        root: Location of the shard's root file.
        allowed: Folders beside that of the root whose files absolute urls may name.
    """

    __slots__ = ("_allowed", "_folder", "root")

    def __init__(self, root: str, allowed: Iterable[str] = ()) -> None:
        self.root = root
        self._folder = parent(root)
        self._allowed = tuple(allowed)

    def resolve(self, url: str, within: str | None = None) -> str:
        """The location of the file that a url names.

        Args:
            url: The url; an empty one names the file it is in.
            within: The file that the url is in; the root by default.

        Raises:
            FormatError: The url leaves the folder of the root, or has a part that urls of shards never have.
            UnsupportedError: The url is absolute, and the caller has not allowed its folder.
        """
        if not url:
            return self.root if within is None else within
        if _SCHEME.match(url) or url.startswith("/"):
            return self._absolute(url)
        path = unquote(url, errors="replace")
        segments = path.split("/")
        treacherous = any(segment in (".", "..") for part in (url, path) for segment in part.split("/"))
        if treacherous or _UNSAFE.search(url) or _UNSAFE.sub("", path) != path or not all(segments):
            raise FormatError(
                f"url {_shown(url)!r} is not allowed, expected a path below the folder of the shard",
                location=redact(self.root),
                rule=_URL_RULE,
            )
        return join(self._folder, path)

    def _absolute(self, url: str) -> str:
        location = unquote(url, errors="replace") if url.startswith("file:") else url
        if not any(is_within(folder, location) for folder in self._allowed):
            raise UnsupportedError(
                f"the shard refers to {_shown(url)!r}: absolute urls are followed only into folders that the caller "
                "allows (allowed_locations=)",
                location=redact(self.root),
                rule=_URL_RULE,
            )
        return location

    def reference(self, data_ref: DataRef, within: str | None = None) -> Reference:
        """The bytes that a DataRef names.

        Args:
            data_ref: The message.
            within: The file that it is in; the root by default.

        Raises:
            FormatError: The url or the range is none that can be.
            UnsupportedError: The url is absolute, and the caller has not allowed its folder.
        """
        location = self.resolve(data_ref.url, within)
        start, end = data_ref.range.start, data_ref.range.end
        check_range(start, end, location=location)
        return Reference(location, start, end)


def check_range(start: int, end: int, *, location: str) -> None:
    """Refuse a range that no file can have.

    Raises:
        FormatError: It ends before it starts, or beyond 2^63.
    """
    if start > end or end > _MAX_POSITION:
        raise FormatError(
            f"bytes {start} to {end} are not a range of a file", location=redact(location), offset=None, rule=_RULE
        )


def decode_reference_array(array: DataRefArray, count: int, *, location: str) -> list[tuple[str, int, int] | None]:
    """Take the references of a list apart.

    Args:
        array: The message.
        count: How many references there are; the list may end sooner, and then the others are empty.
        location: The file that it is in, for errors.

    Returns:
        Url, start and end of each; None where the range is empty, which means that there is nothing.

    Raises:
        FormatError: The three lists differ in length or are too long, or a range is none.
    """
    lengths = (len(array.url), len(array.start), len(array.end))
    # the reference leaves off what follows the last field that a stripe has; without records that is all
    if len(set(lengths)) > 1 or lengths[0] > count:
        raise FormatError(
            f"DataRefArray has {lengths[0]} urls, {lengths[1]} starts and {lengths[2]} ends, expected the same of "
            f"each and at most {count}",
            location=redact(location),
            rule="docs/formats/amudai.md § 2.7",
        )
    found: list[tuple[str, int, int] | None] = []
    for url, start, end in zip(array.url, array.start, array.end, strict=True):
        check_range(start, end, location=location)
        found.append((url, start, end) if end > start else None)
    return found + [None] * (count - len(found))


def encode_url(base: str, location: str) -> str:
    """The url by which a shard names a file.

    Args:
        base: Location of the shard's root file.
        location: The file.

    Returns:
        A relative url, percent-encoded; empty for the root itself; an absolute one if the file is outside of the
        root's folder.

    Raises:
        UnsupportedError: Readers do not follow any url of the file: part of its name is what no url may have.
    """
    url = _encoded(base, location)
    try:
        named = UrlRules(base, [parent(location)]).resolve(url)
    except FormatError:
        named = None
    if named is None or file_key(named) != file_key(location):
        raise UnsupportedError(
            f"a shard cannot refer to {_shown(location)!r}: expected a name and folders without control characters, "
            "backslash, '?' and '#', and without what means '.' or '..' once percent-encoding is decoded",
            location=redact(base),
            rule=_URL_RULE,
        )
    return url


def _encoded(base: str, location: str) -> str:
    outer, inner = "/".join(file_key(parent(base))), "/".join(file_key(location))
    if file_key(location) == file_key(base):
        return ""
    if is_within(parent(base), location):
        return _quoted(inner[len(outer) :].lstrip("/"))
    path = local_path(location)
    return location if path is None else f"file://{_quoted(path)}"


def _quoted(path: str) -> str:
    return quote(path, safe="/!$&'()*+,;=@~")


def encode_data_ref(start: int, end: int, url: str = "") -> DataRef:
    """A DataRef message."""
    data_ref = DataRef(url=url)
    data_ref.range.start, data_ref.range.end = start, end
    return data_ref


def _shown(url: str) -> str:
    """A url for messages, without what may be secret and not too long."""
    shown = redact(url).partition("?")[0]
    return shown if len(shown) <= 200 else shown[:200] + "…"
