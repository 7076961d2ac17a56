"""Reading Puffin files: the footer in one or two ranged reads, every blob in one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from skerry.arguments import check_instance, checked_path
from skerry.errors import FormatError
from skerry.puffin.layout import (
    FOOTER_TRAILER_BYTES,
    MAGIC,
    check_magic,
    decode_blob,
    decode_footer,
    decode_footer_trailer,
)
from skerry.puffin.metadata import BlobMetadata, FileMetadata
from skerry.storage import Storage, redact, storage_of

__all__ = ["PuffinReader", "read"]

_SPECULATIVE_TAIL_BYTES: Final = 32 * 1024
"""Footers are smaller (a blob takes about 200 bytes there), so that one read is enough for nearly every file."""


def read(
    path: str | os.PathLike[str], *, storage: Storage | None = None, options: Mapping[str, str] | None = None
) -> PuffinReader:
    """Open a Puffin file.

    Example:
        file = puffin.read("s3://lake/t/metadata/1.stats", options={"s3.region": "eu-west-1"})
        file.read_blob(file.blobs[0])

    Args:
        path: A path or URL.
        storage: Where to read; by default one made of `options`.
        options: Storage options such as credentials.

    Returns:
        A reader that knows the file's metadata and reads blobs on request; its `repr` shows what is in the file.

    Raises:
        NotFoundError: There is no such file.
        FormatError: It is not a sound Puffin file.
        UnsupportedError: A footer flag is set whose meaning is not known.
        SchemaError: Both `storage` and `options` are given, or the path is neither text nor a path.
    """
    return PuffinReader(path, storage=storage, options=options)


class PuffinReader:
    """A Puffin file, open for reading. Its footer is read at once; blobs are read when asked for.

    The footer takes one ranged read if its size or less than 32 KiB was asked for, else two. Nothing else is read to
    open the file, so the magic at its very start is checked when the bytes beside it are read. A reader holds no open
    handle and may be used from many threads.

    Example:
        file = puffin.PuffinReader("t/metadata/1.stats")
        [blob.type for blob in file.blobs]

    Args:
        path: A path or URL.
        storage: Where to read; by default one made of `options`.
        options: Storage options such as credentials.
        file_size: Its size in bytes as recorded elsewhere, such as in table metadata: saves asking the store.
        footer_size: The size of its footer in bytes as recorded elsewhere. Only a hint: the file's own record counts.

    Raises:
        NotFoundError: There is no such file.
        FormatError: It is not a sound Puffin file.
        UnsupportedError: A footer flag is set whose meaning is not known.
        SchemaError: Both `storage` and `options` are given, or the path is neither text nor a path.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        storage: Storage | None = None,
        options: Mapping[str, str] | None = None,
        file_size: int | None = None,
        footer_size: int | None = None,
    ) -> None:
        self.location = location = checked_path("path", path)
        self._storage = storage = storage_of(storage, options)
        self._shown = redact(location)
        tail_bytes = max(FOOTER_TRAILER_BYTES, footer_size or _SPECULATIVE_TAIL_BYTES)
        if file_size is None:
            tail, file_size = storage.read_tail(location, tail_bytes)
        else:
            tail_bytes = max(0, min(tail_bytes, file_size))
            tail = storage.read_range(location, file_size - tail_bytes, tail_bytes)
        self.file_size = file_size
        self._tail = bytes(tail)
        trailer = decode_footer_trailer(self._tail, file_size=file_size, location=self._shown)
        self.footer_size = trailer.footer_size
        if trailer.footer_size > len(self._tail):
            missing = trailer.footer_size - len(self._tail)
            self._tail = bytes(storage.read_range(location, file_size - trailer.footer_size, missing)) + self._tail
        footer = self._tail[-trailer.footer_size :]
        if len(self._tail) == file_size:
            check_magic(self._tail[: len(MAGIC)], 0, location=self._shown)
        self.file_metadata: FileMetadata = decode_footer(footer, file_size=file_size, location=self._shown)

    @property
    def blobs(self) -> tuple[BlobMetadata, ...]:
        """The metadata of all blobs, in the order of the footer."""
        return self.file_metadata.blobs

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the file, such as `created-by`."""
        return self.file_metadata.properties

    def read_blob(self, blob: BlobMetadata, *, max_bytes: int | None = None) -> bytes:
        """Read and decompress a blob, in one ranged read at most.

        Args:
            blob: One of `blobs`.
            max_bytes: The largest content to accept, in bytes; by default 16 MiB and 64 times the blob's stored length.

        Returns:
            The content. What it means is up to the blob's type.

        Raises:
            FormatError: The bytes are not what the metadata says.
            SchemaError: `blob` is something else.
            UnsupportedError: They are in a codec that the specification does not list.
        """
        check_instance("blob", blob, BlobMetadata, "one of the file's blobs")
        return decode_blob(blob, self.read_range(blob.offset, blob.length), max_bytes=max_bytes, location=self._shown)

    def read_blobs(self, blobs: Iterable[BlobMetadata] | None = None) -> list[bytes]:
        """Read and decompress several blobs, with their ranges fetched together.

        Args:
            blobs: Some of `blobs`; all of them by default.

        Returns:
            Their contents in the given order.

        Raises:
            FormatError: The bytes are not what the metadata says.
            SchemaError: `blobs` are something else.
            UnsupportedError: They are in a codec that the specification does not list.
        """
        wanted = self.blobs if blobs is None else tuple(blobs) if isinstance(blobs, Iterable) else (blobs,)
        for blob in wanted:
            check_instance("blobs", blob, BlobMetadata, "some of the file's blobs")
        ranges = [self._checked_range(blob.offset, blob.length) for blob in wanted]
        fetched = self._storage.read_ranges(
            self.location, [start for start, _ in ranges], [length for _, length in ranges]
        )
        stored = [self._trimmed(bytes(data), blob.offset) for data, blob in zip(fetched, wanted, strict=True)]
        return [decode_blob(blob, data, location=self._shown) for blob, data in zip(wanted, stored, strict=True)]

    def read_range(self, offset: int, length: int) -> bytes:
        """Read bytes between the first magic and the footer: a blob as stored, or a region that properties describe.

        Args:
            offset: Where they start in the file.
            length: How many.

        Returns:
            Exactly `length` bytes.

        Raises:
            FormatError: They are outside of that area.
        """
        start, count = self._checked_range(offset, length)
        tail_start = self.file_size - len(self._tail)
        if start >= tail_start:
            return self._trimmed(self._tail[start - tail_start : start - tail_start + count], offset)
        return self._trimmed(bytes(self._storage.read_range(self.location, start, count)), offset)

    def _checked_range(self, offset: int, length: int) -> tuple[int, int]:
        """The range to read for `length` bytes at `offset`; it includes the magic where that is just before."""
        end = self.file_size - self.footer_size
        if not (length >= 0 and len(MAGIC) <= offset <= end - length):
            raise FormatError(
                f"{length} bytes at {offset} are not within bytes {len(MAGIC)} to {end}",
                location=self._shown,
                offset=offset,
                rule="Puffin spec, File structure",
            )
        return (0, length + len(MAGIC)) if offset == len(MAGIC) else (offset, length)

    def _trimmed(self, data: bytes, offset: int) -> bytes:
        """`data` without the magic, if it was read along."""
        if offset != len(MAGIC):
            return data
        check_magic(data[: len(MAGIC)], 0, location=self._shown)
        return data[len(MAGIC) :]

    def __repr__(self) -> str:
        properties = "".join(f", {name}={text!r}" for name, text in self.properties.items())
        lines = [f"PuffinReader({self._shown!r}, {self.file_size:,} bytes{properties})"]
        for i, blob in enumerate(self.blobs):
            extra = "".join(f" {name}={text!r}" for name, text in blob.properties.items())
            lines.append(
                f"  [{i}] {blob.type} fields={list(blob.fields)} snapshot={blob.snapshot_id} "
                f"sequence={blob.sequence_number} {blob.compression_codec or 'uncompressed'} "
                f"{blob.length:,} bytes at {blob.offset:,}{extra}"
            )
        return "\n".join(lines)
