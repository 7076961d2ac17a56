"""Files, wherever they lie: local, in memory, in S3, Google Cloud Storage or Azure.

`Storage` reads, writes, lists and deletes by location. The functions beside it take locations apart and put them
together; they do no I/O.
"""

from __future__ import annotations

from skerry.storage.location import (
    FileStatus,
    Folder,
    absolute,
    bounded_name,
    file_key,
    is_within,
    join,
    local_path,
    name,
    parent,
    redact,
)
from skerry.storage.metrics import Counts, Metrics
from skerry.storage.storage import Storage
from skerry.storage.streams import Sink

__all__ = [
    "Counts",
    "FileStatus",
    "Folder",
    "Metrics",
    "Sink",
    "Storage",
    "absolute",
    "bounded_name",
    "file_key",
    "is_within",
    "join",
    "local_path",
    "name",
    "parent",
    "redact",
]
