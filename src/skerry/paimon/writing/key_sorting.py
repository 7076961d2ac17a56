"""Records of a primary-key table on their way into files: sorted by key, one for each key.

Spec: `formats/paimon.md` §§ 8, 10.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.options import MergeEngine
from skerry.paimon.schema import SEQUENCE_NUMBER, VALUE_KIND
from skerry.paimon.writing.layout import WriteLayout

__all__ = ["Records", "merge_buffer", "sort_records"]


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Rows with what becomes of them.

    Args:
        values: The table's columns.
        kinds: int8[n] 0 insert, 1 update-before, 2 update-after, 3 delete.
        sequence_numbers: int64[n].
    """

    values: pa.Table
    kinds: npt.NDArray[np.int8]
    sequence_numbers: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.kinds)

    def take(self, rows: npt.NDArray[np.int64]) -> Records:
        """Some of them, in the order of `rows`."""
        return Records(self.values.take(pa.array(rows)), self.kinds[rows], self.sequence_numbers[rows])

    def to_table(self, layout: WriteLayout) -> pa.Table:
        """As data files have them: keys, sequence number, kind, values."""
        schema = layout.schema.file_schema()
        names = [field.name for field in layout.schema.key_fields]
        columns = [self.values.column(name) for name in names]
        columns += [pa.chunked_array([self.sequence_numbers]), pa.chunked_array([self.kinds]), *self.values.columns]
        return pa.table(columns, schema)

    @classmethod
    def of_table(cls, layout: WriteLayout, rows: pa.Table) -> Records:
        """The records of a data file."""
        values = rows.select(layout.schema.arrow_schema.names)
        return cls(
            values,
            np.asarray(rows.column(VALUE_KIND).combine_chunks()),
            np.asarray(rows.column(SEQUENCE_NUMBER).combine_chunks()),
        )


def sort_records(layout: WriteLayout, records: Records) -> Records:
    """Records by key, then by the table's sequence fields, then as they came.

    Raises:
        SchemaError: A key is NaN, which has no place among numbers.
    """
    names = list(layout.schema.trimmed_primary_keys)
    for name in names:
        column = records.values.column(name)
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            raise SchemaError(f"primary key {name!r} is NaN in a row, which no order of keys has a place for")
    options = layout.options
    direction = "descending" if options.sequence_descending else "ascending"
    by = [(name, "ascending") for name in names] + [(name, direction) for name in options.sequence_fields]
    if len(by) == 1:
        order = pc.array_sort_indices(records.values.column(names[0]).combine_chunks())
    else:
        order = pc.sort_indices(records.values.select([name for name, _ in by]), by, null_placement="at_start")
    return records.take(np.asarray(order).astype(np.int64))


def merge_buffer(layout: WriteLayout, records: Records) -> Records:
    """One record for each key of sorted records.

    Raises:
        UnsupportedError: The table's merge engine makes records that cannot be made here.
    """
    engine = layout.options.merge_engine
    if len(records) < 2 or not (repeated := _repeated_keys(layout, records)).any():
        return records
    if engine in _CHOOSING:
        edge = np.ones(1, np.bool_)
        is_first = engine is MergeEngine.FIRST_ROW
        return records.take(np.flatnonzero(np.concatenate([edge, ~repeated] if is_first else [~repeated, edge])))
    raise UnsupportedError(
        f"option merge-engine: {engine.value} of rows with the same key in one write is not done yet"
    )


_CHOOSING = (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW)


def _repeated_keys(layout: WriteLayout, records: Records) -> npt.NDArray[np.bool_]:
    """bool[n - 1] Whether a record has the key of the one before it."""
    is_same = np.ones(len(records) - 1, np.bool_)
    for name in layout.schema.trimmed_primary_keys:
        column = records.values.column(name).combine_chunks()
        is_same &= np.asarray(pc.equal(column.slice(1), column.slice(0, len(column) - 1)))
    return is_same
