"""Timestamps of Parquet's deprecated type INT96: chooses the unit in which each column is read.

Julian days and nanoseconds of the day cover many thousand years, 64 bits of nanoseconds 584. PyArrow silently turns
values outside of its unit's range into other times, so they are checked first.

Spec: Parquet spec, parquet.thrift, `Type`; Paimon Java: its writer allows negative nanoseconds of the day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skerry.errors import UnsupportedError
from skerry.parquet import (
    Column,
    DictionaryPage,
    Encoding,
    FileMetadata,
    PageBuffer,
    decode_plain_fixed,
    iter_pages,
)
from skerry.storage import Storage

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["TimestampUnits", "check_nanoseconds", "is_nanoseconds", "plan_units"]

_FITTING_WRITER: Final = "parquet-cpp-arrow"
"""Arrow's writer converts 64-bit timestamps to INT96, so values written from nanoseconds always fit."""

_EPOCH_DAY: Final = 2_440_588
_NANOS_PER_DAY: Final = 86_400 * 10**9
_DAYS: Final = 2**63 // _NANOS_PER_DAY - 1
"""Whole days around the epoch in which every nanosecond fits into 64 bits, before and after it."""


def is_nanoseconds(type_: pa.DataType | None) -> bool:
    """Whether a column is requested in nanoseconds."""
    return type_ is not None and pa.types.is_timestamp(type_) and type_.unit == "ns"


@dataclass(frozen=True, slots=True)
class TimestampUnits:
    """The columns of a file, by the unit in which INT96 is read.

    Args:
        paths: Requested columns by unit; a single unit unless columns of INT96 are requested in several.
        nanoseconds: INT96 columns that are read in nanoseconds, as positions among the primitive columns.
    """

    paths: dict[str, tuple[str, ...]]
    nanoseconds: tuple[int, ...]


def plan_units(schema: pq.ParquetSchema, leaves: Sequence[tuple[int, pa.DataType | None]]) -> TimestampUnits:
    """Plan in which units a file is read.

    A top-level column is read in one unit: nanoseconds if any column in it is requested in nanoseconds.

    Args:
        schema: The file's schema.
        leaves: The requested primitive columns, and their types.
    """
    columns = [(schema.column(position), position, type_) for position, type_ in leaves]
    old = [(column, position, type_) for column, position, type_ in columns if column.physical_type == "INT96"]
    fine = {_top(column) for column, _, type_ in old if is_nanoseconds(type_)}
    coarse = {_top(column) for column, _, _ in old} - fine
    paths: dict[str, list[str]] = {}
    for column, _, _ in columns:
        paths.setdefault("ns" if fine and _top(column) not in coarse else "us", []).append(column.path)
    chosen = {unit: tuple(found) for unit, found in paths.items()}
    return TimestampUnits(chosen, tuple(position for column, position, _ in old if _top(column) in fine))


def _top(column: pq.ColumnSchema) -> str:
    name: str = column.path.split(".")[0]
    return name


def check_nanoseconds(storage: Storage, metadata: FileMetadata, row_group: int, columns: Sequence[int]) -> None:
    """Refuse a row group with times that do not fit into 64 bits of nanoseconds.

    Args:
        storage: Access to the file.
        metadata: Its footer.
        row_group: Which row group.
        columns: Columns of type INT96, as positions among the primitive columns.

    Raises:
        UnsupportedError: There is such a time, or its pages cannot be checked.
        FormatError: A page breaks the format.
    """
    if metadata.created_by.startswith(_FITTING_WRITER):
        return
    buffer = PageBuffer()
    for index in columns:
        chunk = metadata.row_groups[row_group].chunks[index]
        if chunk.null_count is not None and chunk.null_count == chunk.value_count:
            continue
        data = memoryview(storage.read_range(metadata.location, chunk.offset, chunk.size_bytes))
        for page in iter_pages(data, chunk, base=chunk.offset, location=metadata.location, buffer=buffer):
            if isinstance(page, DictionaryPage):
                _check(chunk.column, decode_plain_fixed(chunk.column, page.data, page.value_count), metadata.location)
            elif page.encoding == Encoding.PLAIN:
                _check(chunk.column, decode_plain_fixed(chunk.column, page.data, page.present_count), metadata.location)


def _check(column: Column, values: npt.NDArray[np.uint8], location: str) -> None:
    """Check values: 8 bytes of nanoseconds in the day, 4 bytes of the Julian day."""
    nanos = values[:, :8].copy().view("<i8").ravel()
    days = values[:, 8:].copy().view("<i4").ravel().astype(np.int64) - _EPOCH_DAY
    is_far = (np.abs(days) > _DAYS) | (nanos > _NANOS_PER_DAY) | (nanos < -_NANOS_PER_DAY)
    if is_far.any():
        raise UnsupportedError(
            f"column {column.name} has a time {int(days[is_far][0])} days from 1970, which nanoseconds in 64 bits "
            "cannot hold; Arrow has no other type for timestamps of 7 to 9 digits",
            location=location,
        )
