"""Index manifests: the index files of a snapshot, all of them in one file.

Spec: Paimon, Global Index; `formats/paimon.md` § 5.
"""

from __future__ import annotations

from dataclasses import dataclass

from skerry.paimon.manifest import FileKind

__all__ = ["DELETION_VECTORS", "HASH", "DeletionVectorMeta", "GlobalIndexMeta", "IndexManifestEntry"]

HASH = "HASH"
"""Index type: hashes of the keys of a bucket (dynamic buckets)."""
DELETION_VECTORS = "DELETION_VECTORS"
"""Index type: vectors of deleted rows."""


@dataclass(frozen=True, slots=True)
class DeletionVectorMeta:
    """Where in an index file the deletion vector of a data file is.

    Args:
        data_file_name: The data file, without folders.
        offset: Where the vector's length field begins.
        length: Bytes; what they include depends on the vector's kind.
        cardinality: Deleted rows; None if unknown.
    """

    data_file_name: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True)
class GlobalIndexMeta:
    """The rows and columns that a global index is of."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None


@dataclass(frozen=True, slots=True)
class IndexManifestEntry:
    """An index file.

    Args:
        partition: Values of the partition keys as a row with arity.
        bucket: The bucket that it is of.
        index_type: `HASH`, `DELETION_VECTORS`, or the name of a global index.
        file_name: Its name, without folders.
        file_size: Bytes.
        row_count: Hashes or vectors in it.
        deletion_vectors_ranges: The vectors in it; None if it has none.
        external_path: Where it lies, if not in the table.
        global_index: What a global index is of.
        kind: Always ADD in files.
    """

    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_vectors_ranges: tuple[DeletionVectorMeta, ...] | None = None
    external_path: str | None = None
    global_index: GlobalIndexMeta | None = None
    kind: FileKind = FileKind.ADD
