"""Tasks on Spark's executors: the distributed counterpart of `skerry.table.work.tasks.ThreadExecutor`."""

from __future__ import annotations

import functools
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from skerry.errors import SkerryError
from skerry.spark.runtime.failures import TaskError, original_errors
from skerry.spark.runtime.jvm import is_classic

__all__ = ["SparkExecutor"]

Task = TypeVar("Task")
Result = TypeVar("Result")

_NUMBERED = StructType([StructField("number", LongType()), StructField("value", BinaryType())])
_CONNECT_PARALLELISM = 64  # a Connect server does not report its own


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Runs tasks on the executors of a Spark session.

    A task that fails with an error of skerry ends the job with that error, after Spark has retried it
    (`spark.task.maxFailures`). Tasks run in waves, so that the results waiting on the driver are bounded.

    Args:
        spark: The session, classic or Spark Connect.
    """

    spark: SparkSession

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results in the order of the tasks; the first error ends the job and is raised unchanged."""
        run = self._run_classic if is_classic(self.spark) else self._run_connect
        remaining = iter(tasks)
        while wave := list(itertools.islice(remaining, self._wave_size())):
            with original_errors():
                results = run(function, wave)
            yield from results

    def _wave_size(self) -> int:
        parallelism = self.spark.sparkContext.defaultParallelism if is_classic(self.spark) else _CONNECT_PARALLELISM
        return max(16 * parallelism, 64)

    def _run_classic(self, function: Callable[[Task], Result], tasks: list[Task]) -> list[Result]:
        context = self.spark.sparkContext
        return context.parallelize(tasks, len(tasks)).map(functools.partial(_run, function)).collect()

    def _run_connect(self, function: Callable[[Task], Result], tasks: list[Task]) -> list[Result]:
        numbered = pa.table(
            {
                "number": pa.array(range(len(tasks)), pa.int64()),
                "value": pa.array([cloudpickle.dumps(task) for task in tasks], pa.binary()),
            }
        )
        frame = self.spark.createDataFrame(numbered).repartition(len(tasks))
        rows = frame.mapInArrow(functools.partial(_run_batches, function), _NUMBERED).collect()
        return [pickle.loads(row.value) for row in sorted(rows, key=lambda row: row.number)]


def _run(function: Callable[[Any], Any], task: Any) -> Any:
    """Run one task in a worker; an error of skerry is marked, so that the driver finds it in Spark's."""
    try:
        return function(task)
    except SkerryError as error:
        raise TaskError(error) from error


def _run_batches(function: Callable[[Any], Any], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            result = pickle.dumps(_run(function, pickle.loads(row["value"])))
            yield pa.RecordBatch.from_pydict({"number": [row["number"]], "value": [result]})
