"""SimpleStats: the minima, maxima and null counts of columns in manifests and their lists.

Spec: docs/formats/paimon.md § 5.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skerry.paimon.values.binary_row import encode_rows
from skerry.paimon.values.types import AtomicType, PaimonType, TypeRoot

__all__ = ["EMPTY_ROW", "EMPTY_STATS", "SimpleStats", "stats_of_columns", "stats_record", "stats_records"]

EMPTY_ROW = bytes(12)
"""A row without fields, preceded by its arity, as in manifests."""


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Minima, maxima and null counts of some columns.

    Args:
        min_values: A row of minima preceded by its arity; null for an unknown one.
        max_values: The same for maxima.
        null_counts: Null counts by column, each None if unknown; None if there are no counts at all.
    """

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: tuple[int | None, ...] | None = ()

    @property
    def size_bytes(self) -> int:
        """About the memory that the values take."""
        return len(self.min_values) + len(self.max_values) + 8 * len(self.null_counts or ())


EMPTY_STATS = SimpleStats()
"""The statistics of no columns."""


def stats_of_columns(types: Sequence[PaimonType], columns: Sequence[pa.Array]) -> SimpleStats:
    """The statistics of whole columns, in mode `full`.

    Args:
        types: Their types; binary and nested ones get only null counts, as in Java.
        columns: The columns, with the types that `skerry.paimon.values.arrow_types.arrow_type` returns.
    """
    minima, maxima = [], []
    for type_, column in zip(types, columns, strict=True):
        bounds = {"min": None, "max": None}
        if isinstance(type_, AtomicType) and type_.root not in (TypeRoot.BINARY, TypeRoot.VARBINARY):
            bounds = pc.min_max(column)
        minima.append(_one(bounds["min"], column.type))
        maxima.append(_one(bounds["max"], column.type))
    return SimpleStats(
        encode_rows(types, minima).to_list()[0],
        encode_rows(types, maxima).to_list()[0],
        tuple(column.null_count for column in columns),
    )


def _one(value: pa.Scalar | None, type_: pa.DataType) -> pa.Array:
    return pa.nulls(1, type_) if value is None else pa.repeat(value, 1)


def stats_record(stats: SimpleStats) -> dict[str, Any]:
    """Statistics as a record of an Avro file."""
    counts = stats.null_counts
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": None if counts is None else list(counts),
    }


def stats_records(column: pa.StructArray) -> list[SimpleStats]:
    """The statistics in a column of `skerry.paimon.manifests.metadata_file.stats_struct`."""
    minima, maxima, counts = (column.field(number).to_pylist() for number in range(3))
    return [
        SimpleStats(low, high, None if nulls is None else tuple(nulls))
        for low, high, nulls in zip(minima, maxima, counts, strict=True)
    ]
