"""Puffin: files of blobs, such as statistics and indexes of a table.

`read` opens a file, `PuffinWriter` makes one. What a blob means is not known here.

Spec: Puffin spec.
"""

from __future__ import annotations

from skerry.puffin.metadata import BlobMetadata, FileMetadata
from skerry.puffin.reader import PuffinReader, read
from skerry.puffin.writer import PuffinWriter

__all__ = ["BlobMetadata", "FileMetadata", "PuffinReader", "PuffinWriter", "read"]
