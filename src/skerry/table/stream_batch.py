"""Batches of a stream: how a batch is identified, so that each is committed exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skerry.arguments import check_whole_number
from skerry.errors import SchemaError, StreamNameError

__all__ = ["LastBatch", "StreamBatch", "batch_arguments", "has_batch", "stream_batch"]


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch that a stream writes.

    Args:
        stream: The stream's name, which is unique among the writers of the table and the same after a restart.
        number: The batch; the numbers of a query only grow.
        query: The query that counts the batches. Its id is the same after a restart with its checkpoint, and another
            one without. None if unknown.
        takes_over: Whether the query may continue under a name that another query has used, starting with any number.
    """

    stream: str
    number: int
    query: str | None = None
    takes_over: bool = False

    def __post_init__(self) -> None:
        if not self.stream:
            raise SchemaError("a stream needs a name that stays the same after a restart")
        if self.query == "":
            raise SchemaError("a query needs an id that stays the same after a restart")


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last batch of a stream that the table contains.

    Args:
        number: The batch.
        query: The query that counted it; None if unknown.
    """

    number: int
    query: str | None = None


def stream_batch(
    stream: str | None, batch: int | None, query: str | None = None, take_over: bool = False
) -> StreamBatch | None:
    """Create the batch that arguments describe.

    Raises:
        SchemaError: One is given without the other, or the number is below 0.
    """
    if stream is None and batch is None:
        if query is not None or take_over:
            raise SchemaError("query= and take_over= need stream= and batch=")
        return None
    if stream is None or batch is None:
        raise SchemaError("stream= and batch= must be given together: the stream's name and the number of the batch")
    check_whole_number("batch", batch, 0)
    return StreamBatch(stream, batch, query, take_over)


def batch_arguments(batch: StreamBatch | None) -> dict[str, Any]:
    """The arguments that describe a batch of a stream."""
    if batch is None:
        return {}
    return {"stream": batch.stream, "batch": batch.number, "query": batch.query, "take_over": batch.takes_over}


def has_batch(last: LastBatch | None, batch: StreamBatch, table: str) -> bool:
    """Whether a table already contains a batch.

    Numbers are comparable only within one query: with a new checkpoint a query counts from 0 again, and two queries may
    share a name. If the query is unknown, a batch with the last number is a repetition, and a lower number a new count.

    Args:
        last: The last batch of the stream that the table contains.
        batch: The batch.
        table: The table's name, for messages.

    Raises:
        StreamNameError: The number is not above the last one, which another query has counted.
    """
    if last is None or batch.number > last.number:
        return False
    is_repeat = batch.number == last.number
    if batch.query == last.query:
        if is_repeat or batch.query is not None:
            return True
    elif last.query is None and is_repeat and not batch.takes_over:  # recorded before query ids were
        return True
    if batch.takes_over:
        return False
    raise StreamNameError(
        f"batch {batch.number} of stream {batch.stream!r}{_of(batch.query)} is refused: the table has batch "
        f"{last.number}{_of(last.query)} under this name. After a checkpoint was lost or replaced, batches are counted "
        "from 0 again, and a name must have one writer. Continue from the old checkpoint; or rename the stream "
        "(stream); or take the name over (take_over=True, option take-over): then all rows of this batch are written, "
        "even those that the table already has",
        location=table,
    )


def _of(query: str | None) -> str:
    return "" if query is None else f" of query {query}"
