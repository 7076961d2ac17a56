"""Reads of the files of a shard: its root file and those that it refers to."""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from typing import Final, TypeVar

from google.protobuf.message import Message

from skerry.amudai.shard.framing import decode_message
from skerry.amudai.shard.references import Reference
from skerry.errors import FormatError, NotFoundError, UnsupportedError
from skerry.parquet import FileMetadata, read_metadata
from skerry.storage import Storage, redact

__all__ = ["FRAME", "MAGIC_BYTES", "ShardFiles", "check_magic"]

MAGIC_BYTES: Final = 8
"""Bytes of the header at the start of every file of a shard, and of the footer at its end."""
_MAGIC: Final = b"amud"
_VERSION: Final = struct.Struct("<BBBB")
_VERSION_MINOR: Final = 1
FRAME: Final = _MAGIC + _VERSION.pack(0, _VERSION_MINOR, 0, 0)
"""Header and footer as they are written: the magic, then patch, two bytes of minor, and major version."""
_RULE: Final = "docs/formats/amudai.md § 2.1"

M = TypeVar("M", bound=Message)


def check_magic(data: bytes | memoryview, *, location: str, offset: int) -> None:
    """Refuse the header or footer of a file that is none of a shard's, or of a version to come.

    Raises:
        FormatError: It is something else.
        UnsupportedError: The major version is not 0.
    """
    found = bytes(data)
    if len(found) != MAGIC_BYTES or found[: len(_MAGIC)] != _MAGIC:
        raise FormatError(
            f"not a file of an Amudai shard: expected magic {_MAGIC.hex()}, found {found[:4].hex() or 'no bytes'}",
            location=location,
            offset=offset,
            rule=_RULE,
        )
    major = found[-1]
    if major > 0:
        raise UnsupportedError(
            f"version {major} of the format, expected 0", location=location, offset=offset, rule=_RULE
        )


class ShardFiles:
    """The files of one shard, by location. Safe to use from many threads; holds no open handle.

    Args:
        storage: Where to read from.
        root: Location of the root file.
        root_size: Its size.
        tail: Its last bytes, which are not read again.
    """

    def __init__(self, storage: Storage, root: str, root_size: int, tail: bytes) -> None:
        self.root = root
        self.root_size = root_size
        self._storage = storage
        self._tail = memoryview(tail)
        self._tail_start = root_size - len(tail)
        self._checked: set[str] = set()
        self._parquet: dict[str, FileMetadata] = {}
        self._lock = threading.Lock()
        if self._tail_start == 0:
            check_magic(self._tail[:MAGIC_BYTES], location=self.shown, offset=0)

    @property
    def shown(self) -> str:
        """The root's location for messages."""
        return redact(self.root)

    def read(self, references: Sequence[Reference]) -> list[memoryview]:
        """Read bytes of any of the files; nearby ranges are fetched together.

        The magic at the start of a file is read along the first time.

        Returns:
            One view per reference, exactly as long.

        Raises:
            FormatError: A reference reaches beyond the end of its file, or the file is missing or none of a shard.
            NotFoundError: The root does not exist any more.
        """
        found = [memoryview(b"")] * len(references)
        wanted: dict[str, list[int]] = {}
        for i, reference in enumerate(references):
            if reference.location == self.root and reference.end > self.root_size:
                raise FormatError(
                    f"bytes {reference.start} to {reference.end} are outside of the file of {self.root_size} bytes",
                    location=self.shown,
                    offset=reference.start,
                    rule="docs/formats/amudai.md § 2.6",
                )
            if reference.location == self.root and reference.start >= self._tail_start:
                start = reference.start - self._tail_start
                found[i] = self._tail[start : start + reference.length]
            else:
                wanted.setdefault(reference.location, []).append(i)
        for location, places in wanted.items():
            try:
                parts = self._read_file(location, [references[i] for i in places])
            except NotFoundError as error:
                if location == self.root:
                    raise
                raise self._missing(location, references[places[0]].start) from error
            for i, part in zip(places, parts, strict=True):
                found[i] = part
        return found

    def _read_file(self, location: str, references: Sequence[Reference]) -> list[memoryview]:
        offsets = [reference.start for reference in references]
        lengths = [reference.length for reference in references]
        with self._lock:
            is_new = location not in self._checked
        if not is_new:
            return self._storage.read_ranges(location, offsets, lengths)
        header, *parts = self._storage.read_ranges(location, [0, *offsets], [MAGIC_BYTES, *lengths])
        check_magic(header, location=redact(location), offset=0)
        with self._lock:
            self._checked.add(location)
        return parts

    def _missing(self, location: str, offset: int | None = None) -> FormatError:
        return FormatError(
            f"the shard refers to {redact(location)}, which does not exist",
            location=self.shown,
            offset=offset,
            rule="docs/formats/amudai.md § 2.5",
        )

    def read_foreign(self, location: str, offsets: Sequence[int], lengths: Sequence[int]) -> list[memoryview]:
        """Read ranges of a file that is none of a shard's.

        Raises:
            FormatError: A range reaches beyond the end of the file, or there is no such file.
        """
        try:
            return self._storage.read_ranges(location, offsets, lengths)
        except NotFoundError as error:
            raise self._missing(location) from error

    def parquet_metadata(self, location: str) -> FileMetadata:
        """The footer of a Parquet file; it is read once.

        Raises:
            FormatError: It is damaged, or there is no such file.
        """
        with self._lock:
            found = self._parquet.get(location)
        if found is None:
            try:
                found = read_metadata(self._storage, location)
            except NotFoundError as error:
                raise self._missing(location) from error
            with self._lock:
                self._parquet[location] = found
        return found

    def read_messages(self, kind: type[M], references: Sequence[Reference]) -> list[M]:
        """Read protobuf messages, each in a frame of its own.

        Raises:
            FormatError: A reference is empty, or what it refers to is not such a message.
        """
        return [
            decode_message(kind, frame, location=redact(reference.location), offset=reference.start)
            for reference, frame in zip(references, self.read(references), strict=True)
        ]
