"""The rows of a frame where Spark computes them, for jobs that do not need them on the driver."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructField, StructType

from skerry.errors import SkerryError
from skerry.spark.runtime.failures import TaskError, original_errors
from skerry.spark.schema import to_arrow_schema
from skerry.table.merging import RemoteRows

__all__ = ["FrameRows"]

Result = TypeVar("Result")

_RESULT = StructType([StructField("result", BinaryType())])


class FrameRows(RemoteRows):
    """The rows of a frame, in parts of Spark's tasks.

    Args:
        frame: The frame, of a classic session or Spark Connect.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return to_arrow_schema(self._frame.schema)

    def each(self, write: Callable[[Iterator[pa.RecordBatch]], Result]) -> list[Result]:
        """Run a function on the rows of every task."""
        with original_errors():
            rows = self._frame.mapInArrow(functools.partial(_run, write), _RESULT).collect()
        return [pickle.loads(row.result) for row in rows]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self._frame.toArrow().__arrow_c_stream__(requested_schema)


def _run(
    write: Callable[[Iterator[pa.RecordBatch]], object], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    try:
        result = write(iter(batches))
    except SkerryError as error:
        raise TaskError(error) from error
    yield pa.record_batch({"result": pa.array([cloudpickle.dumps(result)], pa.binary())})
