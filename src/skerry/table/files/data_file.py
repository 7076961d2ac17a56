"""Data files as both table formats see them: location, contents and bounds of their values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

__all__ = ["DataFile", "DeleteFile", "DeleteKind"]


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file with the metrics that planning needs.

    Args:
        location: Absolute location (path or URL) as written in the metadata.
        file_format: `parquet`, `orc`, `avro` or `amudai`.
        record_count: Rows in the file, deleted ones included.
        file_size_bytes: Exact size.
        spec_id: The partition spec of `partition`.
        partition: One value per field of the spec, in order, in the form of the transform's result type:
            int for int, long, date (days), time and timestamp (units of the type), str, bytes (binary, fixed, uuid),
            Decimal, bool, float or None.
        column_sizes: Compressed bytes by field id.
        value_counts: Values by field id, nulls and NaNs included.
        null_value_counts: Nulls by field id.
        nan_value_counts: NaNs by field id (float and double only).
        lower_bounds: Lower bound by field id, in Iceberg's single-value serialisation (Iceberg spec, Appendix D).
        upper_bounds: Upper bound by field id, in the same form.
        split_offsets: Byte offsets at which readers may split the file (row-group starts), ascending.
        sort_order_id: Sort order that the rows obey, None if none.
        key_metadata: What decrypts the file, for a reader; None if it is not encrypted. It is never printed.
    """

    location: str
    file_format: str
    record_count: int
    file_size_bytes: int
    spec_id: int = 0
    partition: tuple[Any, ...] = ()
    column_sizes: dict[int, int] = field(default_factory=dict)
    value_counts: dict[int, int] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    nan_value_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()
    sort_order_id: int | None = None
    key_metadata: bytes | None = field(default=None, repr=False)


class DeleteKind(Enum):
    """The form in which a delete file names deleted rows."""

    POSITIONS = "positions"
    """Rows by (data file, position)."""
    KEYS = "keys"
    """Rows by value: all rows with these values in older data files (Iceberg: equality deletes)."""
    VECTOR = "vector"
    """A bitmap of positions in one data file."""


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Row deletes that apply to a data file; small and picklable.

    Args:
        kind: How the deleted rows are named.
        location: The file.
        file_format: `parquet`, `orc`, `avro` or `puffin`.
        record_count: Deletes in the file, or in the vector.
        file_size_bytes: Exact size of the file.
        sequence_number: Data sequence number.
        equality_ids: Field ids of the columns that `KEYS` compares.
        referenced_data_file: The one data file that all deletes belong to; None if there may be several.
        content_offset: Offset of a `VECTOR` in the file.
        content_size_bytes: Its length.
        key_metadata: What decrypts the file; None if it is not encrypted. It is never printed.
    """

    kind: DeleteKind
    location: str
    file_format: str
    record_count: int
    file_size_bytes: int
    sequence_number: int = 0
    equality_ids: tuple[int, ...] = ()
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_bytes: int | None = None
    key_metadata: bytes | None = field(default=None, repr=False)
