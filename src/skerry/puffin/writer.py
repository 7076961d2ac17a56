"""Writing Puffin files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from skerry._version import __version__
from skerry.arguments import check_list, checked_path
from skerry.puffin.layout import MAGIC, encode_blob, encode_footer
from skerry.puffin.metadata import BlobMetadata, FileMetadata
from skerry.storage import Storage, storage_of

__all__ = ["PuffinWriter"]


class PuffinWriter:
    """Collects blobs and writes them as one Puffin file.

    Example:
        writer = puffin.PuffinWriter({"purpose": "demonstration"})
        writer.add_blob("my-blob-type", b"its bytes", fields=[3], snapshot_id=7, sequence_number=2)
        writer.write("demo.puffin")

    Args:
        properties: Properties of the file. `created-by` is set to this version of skerry unless given.
        compress_footer: Whether the footer payload is compressed with LZ4. Iceberg Java and PyIceberg cannot read such
            files, so it is off by default.

    Attributes:
        properties: Properties of the file; may be changed until the file is written.

    Spec: Puffin spec, File structure, Common properties.
    """

    def __init__(self, properties: Mapping[str, str] | None = None, *, compress_footer: bool = False) -> None:
        self.properties: dict[str, str] = {"created-by": f"skerry {__version__}", **(properties or {})}
        self._compress_footer = compress_footer
        self._parts: list[bytes] = [MAGIC]
        self._position = len(MAGIC)
        self._blobs: list[BlobMetadata] = []

    @property
    def blobs(self) -> tuple[BlobMetadata, ...]:
        """The metadata of the blobs added so far."""
        return tuple(self._blobs)

    def add_blob(
        self,
        type: str,
        data: bytes,
        *,
        fields: Iterable[int],
        snapshot_id: int,
        sequence_number: int,
        compression_codec: str | None = "zstd",
        properties: Mapping[str, str] | None = None,
    ) -> BlobMetadata:
        """Add a blob.

        Args:
            type: What it is, such as `apache-datasketches-theta-v1`.
            data: Its content.
            fields: Field ids that it was computed for; the order is kept.
            snapshot_id: Snapshot that it was computed from.
            sequence_number: That snapshot's sequence number.
            compression_codec: `zstd`, `lz4` (which Iceberg Java and PyIceberg cannot read), or None. Content of more
                than 16 MiB that would shrink to less than a 64th is stored uncompressed.
            properties: Properties of the blob, such as `ndv`.

        Returns:
            Its metadata, as the footer will hold it.

        Raises:
            SchemaError: `fields` is not a list of whole numbers.
            UnsupportedError: The specification does not list the codec.
        """
        check_list("fields", fields, "whole numbers")
        stored, codec = encode_blob(data, compression_codec)
        offset, length = self.add_region(stored)
        blob = BlobMetadata(
            type=type,
            fields=tuple(fields),
            snapshot_id=snapshot_id,
            sequence_number=sequence_number,
            offset=offset,
            length=length,
            compression_codec=codec,
            properties=dict(properties or {}),
        )
        self._blobs.append(blob)
        return blob

    def add_region(self, data: bytes) -> tuple[int, int]:
        """Add bytes that belong to no blob; readers that do not know of them never touch them.

        Args:
            data: The bytes, stored as they are.

        Returns:
            Their offset and length in bytes. Record them in `properties` to find them again.
        """
        region = (self._position, len(data))
        self._parts.append(bytes(data))
        self._position += len(data)
        return region

    def finish(self) -> tuple[bytes, int]:
        """Assemble the file without writing it.

        Returns:
            The bytes of the file, and the size of its footer in bytes.

        Raises:
            FormatError: A value given for a blob or property does not have the type that the specification demands.
        """
        metadata = FileMetadata(blobs=self.blobs, properties=dict(self.properties))
        footer = encode_footer(metadata, compress=self._compress_footer)
        return b"".join([*self._parts, footer]), len(footer)

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        storage: Storage | None = None,
        options: Mapping[str, str] | None = None,
        overwrite: bool = False,
    ) -> tuple[int, int]:
        """Write the file in one step: it appears complete or not at all.

        Args:
            path: A path or URL.
            storage: Where to write; by default one made of `options`.
            options: Storage options such as credentials.
            overwrite: Whether an existing file is replaced.

        Returns:
            The size of the file and of its footer in bytes, as table metadata records them (`file-size-in-bytes` and
            `file-footer-size-in-bytes`).

        Raises:
            AlreadyExistsError: The file exists, and `overwrite` is false.
            SchemaError: Both `storage` and `options` are given.
            FormatError: A value given for a blob or property does not have the type that the specification demands.
        """
        data, footer_size = self.finish()
        storage_of(storage, options).write(checked_path("path", path), data, overwrite=overwrite)
        return len(data), footer_size
