"""The locations of index files, and the deletion vectors of a snapshot's data files in them.

Spec: docs/formats/paimon.md § 5.6, § 12.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from skerry.errors import FormatError
from skerry.paimon.allowed_locations import check_location
from skerry.paimon.manifests.index_manifest import DELETION_VECTORS, IndexManifestEntry, read_index_manifest
from skerry.paimon.metadata.partition_names import partition_texts
from skerry.paimon.metadata.snapshot import Snapshot
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.splits import VectorLocation

__all__ = ["VectorKey", "index_locations", "vector_locations"]

VectorKey: TypeAlias = tuple[bytes, int, str]
"""Partition, bucket and name of a data file."""

_RULE: Final = "docs/formats/paimon.md § 5.6"


def vector_locations(state: PaimonState, snapshot: Snapshot) -> Mapping[VectorKey, VectorLocation]:
    """The deletion vectors of a snapshot, by data file.

    Raises:
        FormatError: The index manifest is corrupt, or a data file has two vectors.
        NotFoundError: The index manifest does not exist.
        SkerryError: An index file is outside the table's folder.
    """
    if snapshot.index_manifest is None:
        return {}
    location = state.paths.manifest(snapshot.index_manifest)
    entries = [entry for entry in read_index_manifest(state.storage, location) if entry.index_type == DELETION_VECTORS]
    found: dict[VectorKey, VectorLocation] = {}
    for entry, path in zip(entries, index_locations(state, entries), strict=True):
        for vector in entry.deletion_vectors_ranges or ():
            key = (entry.partition, entry.bucket, vector.data_file_name)
            if key in found:
                raise FormatError(
                    f"data file {vector.data_file_name} has two deletion vectors", location=location, rule=_RULE
                )
            found[key] = VectorLocation(path, vector.offset, vector.length, vector.cardinality)
    return found


def index_locations(state: PaimonState, entries: Sequence[IndexManifestEntry]) -> list[str]:
    """The locations of index files.

    Raises:
        SkerryError: One is outside the table's folder.
    """
    folders = _folders(state, [(entry.partition, entry.bucket) for entry in entries])
    for entry in entries:
        if entry.external_path is not None:
            check_location(state, entry.external_path)
    return [
        entry.external_path or state.paths.index_file(entry.file_name, folder)
        for entry, folder in zip(entries, folders, strict=True)
    ]


def _folders(state: PaimonState, buckets: Sequence[tuple[bytes, int]]) -> list[str]:
    """The folders of buckets."""
    names = state.schema.partition_keys
    texts = partition_texts(
        state.schema.partition_fields,
        [partition for partition, _ in buckets],
        legacy=state.options.legacy_partition_names,
    )
    return [
        state.paths.bucket(list(zip(names, values, strict=True)), bucket)
        for values, (_, bucket) in zip(texts, buckets, strict=True)
    ]
