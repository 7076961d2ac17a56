"""What is known of a Spark job while it runs: its name in Spark's UI, and the rows and bytes that it has processed."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from skerry.spark.runtime.jvm import is_classic
from skerry.table.work.tasks import JobProgress, ProgressCallback

__all__ = ["described", "run_with_progress"]

Result = TypeVar("Result")

_INTERVAL_S = 0.25
_DESCRIPTION = "spark.job.description"


@contextlib.contextmanager
def described(spark: SparkSession, work: str) -> Iterator[None]:
    """Name the jobs that the calling thread starts inside, as Spark's UI shows them; names of the caller's own stay.

    Args:
        spark: The session; the UI of a Connect server is not reached.
        work: What the jobs do, and with which table: "merge nyc.flights".
    """
    context = spark.sparkContext if is_classic(spark) else None
    if context is None or context.getLocalProperty(_DESCRIPTION) is not None:
        yield
        return
    context.setLocalProperty(_DESCRIPTION, f"skerry: {work}")
    try:
        yield
    finally:
        context._jsc.setLocalProperty(_DESCRIPTION, None)


def run_with_progress(spark: SparkSession, run: Callable[[], Result], progress: ProgressCallback | None) -> Result:
    """Run a function that runs Spark jobs, and report their progress from the calling thread meanwhile.

    The jobs carry a tag. When the caller is interrupted, or the callback raises, they are cancelled.

    Args:
        spark: The session that the jobs belong to.
        run: The function.
        progress: Called a few times a second; None to run without.

    Returns:
        What the function returns; what it raises is raised.
    """
    tag = f"skerry-{uuid.uuid4()}"
    results: list[Result] = []
    failures: list[BaseException] = []

    def work() -> None:
        _tag(spark, tag)
        try:
            results.append(run())
        except BaseException as failure:  # noqa: BLE001  raised again where the thread is joined
            failures.append(failure)

    thread = InheritableThread(target=work, daemon=True, session=spark)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_INTERVAL_S)
            if progress is not None:
                progress(_progress(spark, tag))
    except BaseException:
        while thread.is_alive():  # again and again, because the next job may just be about to start
            _cancel(spark, tag)
            thread.join(_INTERVAL_S)
        raise
    if failures:
        raise failures[0]
    return results[0]


def _tag(spark: SparkSession, tag: str) -> None:
    """Mark the jobs that the calling thread starts from now on."""
    if is_classic(spark):
        spark.sparkContext.addJobTag(tag)
    else:
        spark.addTag(tag)


def _cancel(spark: SparkSession, tag: str) -> None:
    if is_classic(spark):
        spark.sparkContext.cancelJobsWithTag(tag)
    else:
        spark.interruptTag(tag)


def _progress(spark: SparkSession, tag: str) -> JobProgress:
    """What the tagged jobs have read and written, summed over their stages; a Connect server does not report it."""
    if not is_classic(spark):
        return JobProgress("write")
    context: Any = spark.sparkContext._jsc.sc()
    read_rows = read_bytes = written_rows = written_bytes = 0
    for job in context.statusTracker().getJobIdsForTag(tag):
        for stage_id in spark.sparkContext.statusTracker().getJobInfo(job).stageIds:
            try:
                stage = context.statusStore().lastStageAttempt(stage_id)
            except Py4JJavaError:  # not started
                continue
            read_rows += stage.inputRecords()
            read_bytes += stage.inputBytes()
            written_rows += stage.outputRecords()
            written_bytes += stage.outputBytes()
    return JobProgress("write", done_rows=max(read_rows, written_rows), done_bytes=max(read_bytes, written_bytes))
