"""Hash indexes: the hashes of all keys that were ever assigned to a dynamic bucket.

Spec: docs/formats/paimon.md § 7.3.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from skerry.errors import FormatError
from skerry.paimon.manifests.index_manifest import IndexManifestEntry
from skerry.storage import Storage

__all__ = ["read_hashes"]

_HASH_BYTES: Final = 4


def read_hashes(storage: Storage, location: str, entry: IndexManifestEntry) -> npt.NDArray[np.int32]:
    """int32[n] The hashes in an index file.

    Raises:
        FormatError: Its length differs from the metadata.
        NotFoundError: It does not exist.
    """
    data = storage.read(location)
    if len(data) != entry.file_size or len(data) != entry.row_count * _HASH_BYTES:
        raise FormatError(
            f"expected a hash index of {entry.row_count} keys and {entry.file_size} bytes, found {len(data)} bytes",
            location=location,
            rule="docs/formats/paimon.md § 7.3",
        )
    return np.frombuffer(data, ">i4").astype(np.int32)
