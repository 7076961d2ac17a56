"""A batch of a stream that is written: what tells it from others, so that it is committed once, and none is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skerry.errors import SchemaError, StreamNameError

__all__ = ["LastBatch", "StreamBatch", "batch_arguments", "has_batch", "stream_batch"]


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch of a stream.

    Args:
        stream: What tells the stream from others that write to the table, the same after a restart.
        number: The batch; numbers of a query only grow.
        query: Who counts the batches: the id of a query, the same after a restart with its checkpoint, another one
            without. None if nobody says.
        takes_over: Whether the query may go on under a name that another query has used, beginning with any number.
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
    """The last batch of a stream that a table has.

    Args:
        number: The batch.
        query: Who counted; None if that was not said.
    """

    number: int
    query: str | None = None


def stream_batch(
    stream: str | None, batch: int | None, query: str | None = None, take_over: bool = False
) -> StreamBatch | None:
    """A batch of a stream, as arguments name it.

    Raises:
        SchemaError: One is given without the other, or the number is below 0.
    """
    if stream is None and batch is None:
        if query is not None or take_over:
            raise SchemaError("query= and take_over= are about a stream: they go with stream= and batch=")
        return None
    if stream is None or batch is None:
        raise SchemaError("stream= and batch= go together: the stream's name and the number of the batch")
    if batch < 0:
        raise SchemaError(f"batch= is a number from 0, found {batch}")
    return StreamBatch(stream, batch, query, take_over)


def batch_arguments(batch: StreamBatch | None) -> dict[str, Any]:
    """The arguments that name a batch of a stream."""
    if batch is None:
        return {}
    return {"stream": batch.stream, "batch": batch.number, "query": batch.query, "take_over": batch.takes_over}


def has_batch(last: LastBatch | None, batch: StreamBatch, table: str) -> bool:
    """Whether a table has a batch.

    A number says that only among those of one query: with a new checkpoint a query counts from 0 again, and two queries
    may share a name. Where nobody says who counts, a repeated batch is the last one; a lower number is a new count.

    Args:
        last: The last batch of the stream that the table has.
        batch: The batch.
        table: The table's name, for messages.

    Raises:
        StreamNameError: The number is not above the last one, and another query has counted that.
    """
    if last is None or batch.number > last.number:
        return False
    is_repeat = batch.number == last.number
    if batch.query == last.query:
        if is_repeat or batch.query is not None:
            return True
    elif last.query is None and is_repeat and not batch.takes_over:  # noted before ids of queries were
        return True
    if batch.takes_over:
        return False
    raise StreamNameError(
        f"batch {batch.number} of stream {batch.stream!r}{_of(batch.query)} is refused: the table has batch "
        f"{last.number}{_of(last.query)} under this name. After a checkpoint was lost or replaced, batches are counted "
        "from 0 again, and a name must have one writer. Go on from the old checkpoint; or give the stream another name "
        "(stream); or take the name over (take_over=True, option take-over): then all rows of this batch are written, "
        "those that the table has already as well",
        location=table,
    )


def _of(query: str | None) -> str:
    return "" if query is None else f" of query {query}"
