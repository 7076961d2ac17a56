"""The deleted rows of a data file, by its deletion vector.

Spec: docs/formats/paimon.md § 12.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from skerry.errors import FormatError
from skerry.paimon.manifests.deletion_vectors import find_vector
from skerry.paimon.manifests.index_manifest import DeletionVectorMeta
from skerry.paimon.planning.splits import SplitFile
from skerry.storage import name

__all__ = ["Positions", "deleted_positions"]

Positions: TypeAlias = npt.NDArray[np.int64]

_NO_POSITIONS = np.zeros(0, np.int64)


def deleted_positions(file: SplitFile, read: Callable[[str], bytes]) -> Positions:
    """The positions of a file's deleted rows, ascending: int64[n].

    Args:
        file: The file.
        read: Reads an index file; many vectors share one.

    Raises:
        FormatError: The vector is corrupt, or names rows that the file does not have.
    """
    vector = file.deletion_vector
    if vector is None:
        return _NO_POSITIONS
    meta = DeletionVectorMeta(name(file.location), vector.offset, vector.length, vector.cardinality)
    positions = find_vector(read(vector.location), meta, location=vector.location)
    if len(positions) and positions[-1] >= file.row_count:
        raise FormatError(
            f"row {positions[-1]} of {file.location} is deleted, the file has {file.row_count} rows",
            location=vector.location,
            offset=vector.offset,
        )
    return positions
