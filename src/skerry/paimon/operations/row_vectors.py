"""Deletion vectors: which index files change when rows are deleted, or files rewritten.

Spec: docs/formats/paimon.md § 5.6, § 12.1.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from skerry.paimon.manifests.deletion_vectors import VectorBits, encode_vectors, find_vector
from skerry.paimon.manifests.index_manifest import DELETION_VECTORS, IndexManifestEntry
from skerry.paimon.operations.change import IndexChange
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.writing.layout import WriteLayout
from skerry.table.owned_files import OwnedFiles

__all__ = ["FileKey", "change_vectors"]

FileKey: TypeAlias = tuple[bytes, int, str]
"""Partition, bucket and name of a data file."""

_NOTHING: Final = np.zeros(0, np.int64)


def change_vectors(
    layout: WriteLayout,
    entries: Iterable[IndexManifestEntry],
    deleted: Mapping[FileKey, Positions],
    gone: Iterable[FileKey] = (),
    *,
    owned: OwnedFiles,
) -> IndexChange:
    """Write the vectors of a change.

    Args:
        layout: Locations of index files.
        entries: The existing index files.
        deleted: int64[n] Positions to delete in addition, ascending, by data file.
        gone: Data files that the table no longer has, nor their vectors.
        owned: Owns the new index files.

    Returns:
        The index files to add, and those that they replace: all of a bucket if the table has buckets, else those that
        hold a changed vector.
    """
    leaving = set(gone)
    touched = deleted.keys() | leaving
    changes: dict[tuple[bytes, int], list[FileKey]] = {}
    for file_key in touched:
        changes.setdefault(file_key[:2], []).append(file_key)
    by_bucket: dict[tuple[bytes, int], list[IndexManifestEntry]] = {}
    for entry in entries:
        if entry.index_type == DELETION_VECTORS:
            by_bucket.setdefault((entry.partition, entry.bucket), []).append(entry)
    added: list[IndexManifestEntry] = []
    removed: list[IndexManifestEntry] = []
    prefix = uuid.uuid4()
    for key, files in sorted(changes.items()):
        known = by_bucket.get(key, [])
        chosen = known if _has_buckets(layout) else [found for found in known if _holds(found, touched)]
        vectors: dict[str, Positions] = {}
        for entry in chosen:
            vectors |= _read(layout, entry)
        for file_key in files:
            name = file_key[2]
            if file_key in leaving:
                vectors.pop(name, None)
            if file_key in deleted:
                vectors[name] = np.union1d(vectors.get(name, _NOTHING), deleted[file_key])
        removed += chosen
        for part in _parts(layout, vectors):
            name = f"index-{prefix}-{len(added)}"
            owned.add(layout.index_file(*key, name))
            added.append(_write(layout, key, part, name))
    return IndexChange(tuple(added), tuple(removed))


def _has_buckets(layout: WriteLayout) -> bool:
    """Whether the vectors of a bucket are in one index file."""
    return layout.has_keys or layout.options.bucket > 0


def _holds(entry: IndexManifestEntry, touched: Iterable[FileKey]) -> bool:
    names = {name for partition, bucket, name in touched if (partition, bucket) == (entry.partition, entry.bucket)}
    return any(vector.data_file_name in names for vector in entry.deletion_vectors_ranges or ())


def _read(layout: WriteLayout, entry: IndexManifestEntry) -> dict[str, Positions]:
    location = entry.external_path or layout.index_file(entry.partition, entry.bucket, entry.file_name)
    data = layout.storage.read(location)
    return {
        vector.data_file_name: find_vector(data, vector, location=location)
        for vector in entry.deletion_vectors_ranges or ()
    }


def _parts(layout: WriteLayout, vectors: Mapping[str, Positions]) -> Sequence[Mapping[str, Positions]]:
    """The vectors by index file: one for each bucket, or of about the target size."""
    if not vectors:
        return []
    if _has_buckets(layout):
        return [vectors]
    target = max(layout.options.deletion_vector_file_target_size, 1)
    parts: list[dict[str, Positions]] = [{}]
    size = 0
    for name in sorted(vectors):
        if size >= target:
            parts.append({})
            size = 0
        parts[-1][name] = vectors[name]
        size += min(2 * len(vectors[name]), int(vectors[name][-1]) // 8 + 1) if len(vectors[name]) else 0
    return parts


def _write(
    layout: WriteLayout, key: tuple[bytes, int], vectors: Mapping[str, Positions], name: str
) -> IndexManifestEntry:
    bits = VectorBits.BITS_64 if layout.options.deletion_vectors_64 else VectorBits.BITS_32
    data, ranges = encode_vectors(vectors, bits)
    layout.storage.write(layout.index_file(*key, name), data)
    return IndexManifestEntry(*key, DELETION_VECTORS, name, len(data), len(ranges), tuple(ranges))
