"""Writer of ORC files, and the timestamps that PyArrow's ORC writer would corrupt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import orc

from skerry.errors import UnsupportedError
from skerry.storage import Sink, Storage
from skerry.table.files.file_output import SinkOutput
from skerry.table.files.orc_arrays import rebuild_nested
from skerry.table.rows.nested_arrays import list_elements
from skerry.table.rows.schema import empty_batch
from skerry.table.rows.value_texts import format_timestamp

__all__ = ["OrcOutput", "OrcTimes"]

_STRIPE_BYTES: Final = 16 << 20
"""A quarter of Iceberg Java's: a stripe is held in memory for each of up to 128 open files."""
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class OrcTimes:
    """Timestamps that must not be written: those that cannot be read back, or that readers of a table format misread.

    PyArrow reads timestamps as 64 bits of nanoseconds since 1970, and refuses the whole stripe for one outside. It
    writes parts of seconds before 1970 with negative nanoseconds.

    Args:
        is_wrong: Which of some times are misread: from their ticks since 1970, int64[n] and all negative, and the
            number of ticks per second, to bool[n].
        what: How messages call them, in the plural.
        instead: The formats to write instead.
    """

    def __init__(self, is_wrong: Callable[[np.ndarray, int], np.ndarray], what: str, instead: str) -> None:
        self._is_wrong = is_wrong
        self._what = what
        self._instead = instead

    def check(self, rows: pa.Table) -> None:
        """Refuse rows with such timestamps.

        Raises:
            UnsupportedError: A column has one; the message names it.
        """
        for field, column in zip(rows.schema, rows.columns, strict=True):
            for times in (times for chunk in column.chunks for times in _times(chunk)):
                values = times.cast(pa.int64()).drop_null().to_numpy()
                per_second = _PER_SECOND[times.type.unit]
                finer = 10**9 // per_second
                far = values[(values < -(2**63 // finer)) | (values > (2**63 - 1) // finer)]
                if len(far):
                    raise UnsupportedError(
                        f"column {field.name!r} has {_written(far[0], per_second)}: times before 1677-09-21 or after "
                        f"2262-04-11 cannot be written to ORC files, because they could not be read back; write "
                        f"{self._instead}"
                    )
                early = values[values < 0]
                wrong = early[self._is_wrong(early, per_second)]
                if len(wrong):
                    raise UnsupportedError(
                        f"column {field.name!r} has {_written(wrong[0], per_second)}: {self._what} cannot be written "
                        f"to ORC files, because other readers would read another time; write {self._instead}"
                    )


def _written(time: np.int64, per_second: int) -> str:
    return format_timestamp(int(time) * (10**9 // per_second))


def _times(array: pa.Array) -> Iterator[pa.Array]:
    """The timestamps in an array, at any depth."""
    type_ = array.type
    if pa.types.is_timestamp(type_):
        yield array
    elif pa.types.is_struct(type_):
        for child in array.flatten():
            yield from _times(child)
    elif pa.types.is_list(type_):
        yield from _times(list_elements(array))
    elif pa.types.is_map(type_) and len(array):
        start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
        for child in (array.keys, array.items):
            yield from _times(child.slice(start, stop - start))


class OrcOutput(SinkOutput):
    """An ORC file.

    Args:
        storage: The storage to write to.
        location: Its location, which must be free.
        schema: Its columns, with the metadata that becomes attributes of ORC types; other columns of the rows are left
            out.
        codec: Compression codec of its streams.
        refused: Times that it cannot hold.
    """

    def __init__(self, storage: Storage, location: str, schema: pa.Schema, *, codec: str, refused: OrcTimes) -> None:
        super().__init__(storage, location)
        self._schema = schema
        self._refused = refused
        self._output = _PatientOutput(self._sink)
        self._writer = orc.ORCWriter(self._output, compression=codec, stripe_size=_STRIPE_BYTES)
        # a writer that got no rows has no columns
        self._writer.write(pa.Table.from_batches([empty_batch(schema)]))

    def write(self, rows: pa.Table) -> None:
        """Write rows.

        Raises:
            UnsupportedError: A column has a timestamp that would be misread.
        """
        self._refused.check(rows)
        self._writer.write(rebuild_nested(rows.select(self._schema.names).cast(self._schema)))
        self._output.raise_failure()

    def abort(self) -> None:
        """Discard the file."""
        self._output.discard()
        self._writer.close()
        super().abort()

    def _finish(self) -> None:
        self._writer.close()
        self._output.raise_failure()


class _PatientOutput:
    """A stream that never fails while ORC writes to it: an error there, or in its finaliser, would end the process."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._sink: Sink | None = sink
        self._position = 0
        self._failure: BaseException | None = None

    def write(self, data: Any) -> int:
        length = memoryview(data).nbytes
        if self._sink is not None and self._failure is None:
            try:
                self._sink.write(data)
            except BaseException as error:  # noqa: BLE001  raised again once Arrow has let go
                self._failure = error
        self._position += length
        return length

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def discard(self) -> None:
        """Ignore everything that is still written."""
        self._sink = None

    def raise_failure(self) -> None:
        """Raise the error that a write had, if any."""
        if self._failure is not None:
            raise self._failure
