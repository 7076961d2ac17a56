"""Files, wherever they are stored: local, in memory, in S3, Google Cloud Storage or Azure.

`Storage` reads, writes, lists and deletes by location. The functions beside it split and join locations; they do no
I/O.
"""

from __future__ import annotations

from skerry.storage.json_text import decode_json
from skerry.storage.location import (
    FileStatus,
    Folder,
    absolute,
    bounded_name,
    file_key,
    file_keys,
    is_local,
    is_relative,
    is_within,
    join,
    local_path,
    name,
    parent,
    redact,
)
from skerry.storage.metrics import Counts, Metrics
from skerry.storage.moves import MOVED_FROM, MOVED_TO, Move, Moves, move_of
from skerry.storage.options import (
    ALLOWED_LOCATIONS,
    BASE_LOCATION,
    READ_ONLY,
    allow_locations,
    allowed_locations,
    check_options,
    is_harmless,
)
from skerry.storage.storage import Storage, storage_of
from skerry.storage.streams import RangeReader, Sink

__all__ = [
    "ALLOWED_LOCATIONS",
    "BASE_LOCATION",
    "MOVED_FROM",
    "MOVED_TO",
    "READ_ONLY",
    "Counts",
    "FileStatus",
    "Folder",
    "Metrics",
    "Move",
    "Moves",
    "RangeReader",
    "Sink",
    "Storage",
    "absolute",
    "allow_locations",
    "allowed_locations",
    "bounded_name",
    "check_options",
    "decode_json",
    "file_key",
    "file_keys",
    "is_harmless",
    "is_local",
    "is_relative",
    "is_within",
    "join",
    "local_path",
    "move_of",
    "name",
    "parent",
    "redact",
    "storage_of",
]
