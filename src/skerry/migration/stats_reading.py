"""Value statistics of data files as columns: minima, maxima and null counts by field id.

Spec: docs/formats/paimon.md § 5.7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from skerry.errors import FormatError
from skerry.paimon.manifests.manifest import DataFileMeta
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.values.binary_reading import decode_rows

__all__ = ["FileStats", "read_stats"]

_RULE = "docs/formats/paimon.md § 5.7"


@dataclass(frozen=True, slots=True)
class FileStats:
    """Statistics of one column in some files.

    Args:
        files: Indices of the files in the request.
        field_id: The column.
        minima: Their minima, in the type that the column had in them; null where unknown.
        maxima: Their maxima, in that type; null where unknown.
        null_counts: Their null counts, None where unknown.
    """

    files: tuple[int, ...]
    field_id: int
    minima: pa.Array
    maxima: pa.Array
    null_counts: tuple[int | None, ...]


def read_stats(files: Sequence[DataFileMeta], schema_of: Callable[[int], TableSchema]) -> list[FileStats]:
    """Decode the value statistics of files.

    Args:
        files: The files.
        schema_of: The table's schemas by id.

    Raises:
        FormatError: Statistics are corrupt, or of columns that the file's schema does not have.
    """
    alike: dict[tuple[int, tuple[str, ...] | None], list[int]] = {}
    for index, file in enumerate(files):
        alike.setdefault((file.schema_id, file.value_stats_cols), []).append(index)
    found = []
    for (schema_id, names), indices in alike.items():
        schema = schema_of(schema_id)
        columns = schema.fields if names is None else [schema.field(name) for name in names]
        types = [column.type for column in columns]
        stats = [files[index].value_stats for index in indices]
        minima = decode_rows(types, [one.min_values for one in stats])
        maxima = decode_rows(types, [one.max_values for one in stats])
        counts = [one.null_counts or (None,) * len(types) for one in stats]
        if any(len(count) != len(types) for count in counts):
            raise FormatError(f"expected null counts of {len(types)} columns", rule=_RULE)
        for number, column in enumerate(columns):
            nulls = tuple(count[number] for count in counts)
            found.append(FileStats(tuple(indices), column.id, minima[number], maxima[number], nulls))
    return found
