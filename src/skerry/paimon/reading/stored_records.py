"""Stored rows of primary-key tables as records.

Spec: docs/formats/paimon.md § 8.5.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError
from skerry.paimon.merging import Records, check_kinds
from skerry.paimon.reading.data_files import KIND, NUMBER

__all__ = ["as_records", "kinds_of"]


def kinds_of(batch: pa.RecordBatch) -> npt.NDArray[np.int8]:
    """The kinds of records.

    Raises:
        FormatError: A record has none.
    """
    column = batch.column(KIND.name)
    if column.null_count:
        raise FormatError("a record has no kind", rule="docs/formats/paimon.md § 8.5")
    kinds: npt.NDArray[np.int8] = column.to_numpy()
    check_kinds(kinds)
    return kinds


def as_records(batch: pa.RecordBatch) -> Records:
    """Rows as records.

    Args:
        batch: Rows, with the columns of `SYSTEM_COLUMNS` among the others.

    Raises:
        FormatError: A row has no sequence number, or its kind is invalid.
    """
    numbers = batch.column(NUMBER.name)
    if numbers.null_count:
        raise FormatError("a record has no sequence number", rule="docs/formats/paimon.md § 8.5")
    values = batch.select([field for field in batch.schema.names if field not in (KIND.name, NUMBER.name)])
    return Records(values, kinds_of(batch), numbers.to_numpy())
