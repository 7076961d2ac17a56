"""Sorting rows by columns: terms in text form, and the order of rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.table.rows.values import is_uuid

__all__ = ["SortTerm", "parse_term", "sort_indices", "sortable"]

_TERM: Final = re.compile(
    r"(?P<source>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class SortTerm:
    """One term of an order; picklable.

    Args:
        source: What is sorted by: a column, or a text that stands for one.
        descending: Whether large values come first.
        nulls_last: Whether nulls come after all values.
    """

    source: str
    descending: bool = False
    nulls_last: bool = False


def parse_term(text: str) -> SortTerm:
    """A term in text form: a source, optionally `asc` or `desc`, then optionally `nulls first` or `nulls last`.

    Without the latter, nulls come first in ascending and last in descending order.
    """
    found = _TERM.fullmatch(text)
    parts = found.groupdict() if found else {}
    descending = (parts.get("direction") or "asc").lower() == "desc"
    nulls = (parts.get("nulls") or ("last" if descending else "first")).lower()
    return SortTerm(found["source"] if found else text, descending, nulls == "last")


def sort_indices(columns: Sequence[Any], terms: Sequence[SortTerm], row_count: int) -> pa.Array:
    """The order of rows when sorted; the sort is stable.

    Args:
        columns: Values to sort by, one column for each term.
        terms: Their directions.
        row_count: The number of rows.

    Returns:
        uint64[n] row numbers in sort order; floats are in the order -NaN < -Infinity < -0 < 0 < Infinity < NaN.
    """
    keys: dict[str, Any] = {}
    directions: list[tuple[str, str]] = []
    for number, (column, term) in enumerate(zip(columns, terms, strict=True)):
        if column.null_count:
            # a separate key, since Arrow puts all keys' nulls at the same end
            keys[f"n{number}"] = column.is_null() if term.nulls_last else column.is_valid()
            directions.append((f"n{number}", "ascending"))
        keys[f"v{number}"] = sortable(column)
        directions.append((f"v{number}", "descending" if term.descending else "ascending"))
    if not keys:
        return pa.array(np.arange(row_count, dtype=np.uint64))
    return pc.sort_indices(pa.table(keys), sort_keys=directions)


def sortable(column: Any) -> Any:
    """Convert a column so that Arrow sorts it as the specification says."""
    if isinstance(column, pa.ChunkedArray):
        chunks = [sortable(chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=chunks[0].type) if chunks else column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        bits = column.to_numpy(zero_copy_only=False).astype(np.float64).view(np.int64)
        return pa.array(bits ^ ((bits >> 63) & 0x7FFF_FFFF_FFFF_FFFF), mask=np.asarray(column.is_null()))
    return column.storage if is_uuid(column.type) else column
