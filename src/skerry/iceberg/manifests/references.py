"""Which data file the deletes of a file are of, if they are all of one.

Spec: Iceberg spec, Manifests: the field `referenced_data_file`, which only deletion vectors must have.

Bounds of the paths in a position delete file say the same where they are equal. Where the two contradict each other,
the paths in the file decide, and the deletes are not known to be of one file: `rewrite_table_path` of Iceberg Java
(1.12) renames bounds and paths, and leaves the field as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["FILE_PATH_ID", "REFERENCE_COLUMNS", "path_bounds", "referenced_file", "referenced_files"]

FILE_PATH_ID: Final = 2147483546
"""Field id of the column `file_path` in files of position deletes (Iceberg spec, Reserved Field IDs)."""

REFERENCE_COLUMNS: Final = ("referenced_data_file", "lower_bounds", "upper_bounds")
"""The columns of a manifest that `referenced_files` needs."""


def path_bounds(files: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """The bounds of the paths in delete files, binary."""
    of_path = pa.scalar(FILE_PATH_ID, pa.int32())
    lower, upper = (
        pc.map_lookup(files.column(name), query_key=of_path, occurrence="first")
        for name in ("lower_bounds", "upper_bounds")
    )
    return lower, upper


def referenced_files(files: pa.RecordBatch, is_vector: npt.NDArray[np.bool_]) -> pa.Array:
    """The one data file of each delete file, binary; null if there are several, or it is not known.

    Args:
        files: Deletion vectors and position delete files, a row each.
        is_vector: Which are deletion vectors.
    """
    none = pa.scalar(None, pa.binary())
    named = files.column("referenced_data_file").cast("binary")
    lower, upper = path_bounds(files)
    both = pc.if_else(pc.and_(pa.array(~is_vector), pc.fill_null(pc.equal(lower, upper), False)), lower, none)
    return pc.if_else(pc.fill_null(pc.not_equal(named, both), False), none, pc.coalesce(named, both))


def referenced_file(named: str | None, lower_bounds: Mapping[int, Any], upper_bounds: Mapping[int, Any]) -> str | None:
    """The one data file of a position delete file, as `referenced_files` finds it."""
    lower, upper = lower_bounds.get(FILE_PATH_ID), upper_bounds.get(FILE_PATH_ID)
    if lower is None or lower != upper:
        return named
    both = bytes(lower).decode(errors="replace")
    return both if named in (None, both) else None
