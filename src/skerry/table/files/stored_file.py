"""What a file of rows is to its readers, in whichever format it is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.table.predicate import Column, FieldMetrics

__all__ = ["Part", "StoredFile", "reading", "without_columns"]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that are read together: a row group, a stripe, or a whole file.

    Args:
        index: Which of the file's parts it is.
        first_row: Position of its first row in the file.
        row_count: Its rows.
        offset: Where it begins in the file.
        size_bytes: About how much memory the wanted columns of its rows take.
    """

    index: int
    first_row: int
    row_count: int
    offset: int
    size_bytes: int


class StoredFile(Protocol):
    """A file whose metadata is read. It may be read by many threads at a time."""

    @property
    def row_count(self) -> int:
        """Rows in the file."""

    @property
    def parts(self) -> Sequence[Part]:
        """Its rows, part by part, in the order of the file."""

    def metrics(self, column: Column) -> FieldMetrics | None:
        """What the file knows about a column in each of its parts; None if nothing."""

    def batches(self, part: Part, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read the wanted columns of a part.

        Args:
            part: One of `parts`.
            batch_rows: Most rows of a batch.

        Yields:
            Batches in the order of the rows, in the types of the file, with field ids. Columns that the file lacks are
            missing; if it has none of them, there is one without id.
        """


def without_columns(row_count: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of so many rows in which nothing stands."""
    for start in range(0, row_count, batch_rows):
        yield pa.record_batch([pa.nulls(min(batch_rows, row_count - start))], names=["rows"])


@contextmanager
def reading(location: str, file_format: str) -> Iterator[None]:
    """Turn PyArrow's exceptions into ours, and say of which file any is."""
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
        if "out of range for nanosecond" in str(error):  # how PyArrow reads the timestamps of ORC
            raise UnsupportedError(f"PyArrow does not read this file: {error}", location=location) from error
        raise FormatError(f"the file is not {_NAMES[file_format]}, or corrupt: {error}", location=location) from error


_NAMES = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro", "amudai": "an Amudai shard"}
