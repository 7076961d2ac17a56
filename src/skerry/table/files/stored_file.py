"""The interface of an open data file, for all file formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.table.predicate import Column, FieldMetrics

__all__ = ["Part", "StoredFile", "TakesRows", "check_row_count", "reading", "without_columns"]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that are read together: a row group, a stripe, or a whole file.

    Args:
        index: Its index among the file's parts.
        first_row: Position of its first row in the file.
        row_count: Its rows.
        offset: Its offset in the file.
        size_bytes: Approximate memory use of the requested columns.
    """

    index: int
    first_row: int
    row_count: int
    offset: int
    size_bytes: int


class StoredFile(Protocol):
    """A file whose metadata has been read. Several threads may read it concurrently."""

    @property
    def row_count(self) -> int:
        """Number of rows in the file."""

    @property
    def parts(self) -> Sequence[Part]:
        """The parts of the file, in order."""

    def metrics(self, column: Column) -> FieldMetrics | None:
        """The metrics of a column in each part; None if there are none."""

    def batches(self, part: Part, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read the requested columns of a part.

        Args:
            part: One of `parts`.
            batch_rows: Maximum rows of a batch.

        Yields:
            Batches in the order of the rows, in the types of the file, with field ids. Columns that the file lacks are
            missing; if it has none of them, batches have one column without id.
        """


@runtime_checkable
class TakesRows(Protocol):
    """A file of which single rows can be read without the others."""

    @property
    def columns(self) -> Sequence[str]:
        """The requested columns that it has."""

    def take(self, part: Part, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Read rows with the requested columns, as `StoredFile.batches` does, if there are any columns.

        Args:
            part: One of the file's parts.
            rows: int64[n] Ascending positions in the file, all in the part.
        """


def without_columns(row_count: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of a number of rows, with a dummy column."""
    for start in range(0, row_count, batch_rows):
        yield pa.record_batch([pa.nulls(min(batch_rows, row_count - start))], names=["rows"])


def check_row_count(found: int, expected: int, location: str) -> None:
    """Refuse a file that has another number of rows than the table's metadata says.

    Raises:
        FormatError: It has.
    """
    if found != expected:
        raise FormatError(f"the file has {found} rows, the table's metadata says {expected}", location=location)


@contextmanager
def reading(location: str, file_format: str) -> Iterator[None]:
    """Turn PyArrow's exceptions into errors of skerry that name the file."""
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"PyArrow does not read this file: {error}", location=location) from error
    except SkerryError as error:
        error.location = error.location or location
        raise
    except UnicodeDecodeError as error:
        raise FormatError(
            f"the file names a column with bytes that are not UTF-8: {error.object[:40]!r}", location=location
        ) from error
    except (pa.ArrowException, OSError) as error:
        if "out of range for nanosecond" in str(error):  # PyArrow's message for timestamps of ORC
            raise UnsupportedError(f"PyArrow does not read this file: {error}", location=location) from error
        raise FormatError(f"the file is not {_NAMES[file_format]}, or corrupt: {error}", location=location) from error


_NAMES = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro", "amudai": "an Amudai shard"}
