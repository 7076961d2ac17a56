"""A batch of a stream that is written: what tells it from others, so that it is committed once."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.errors import SchemaError

__all__ = ["StreamBatch"]


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch of a stream.

    Args:
        stream: What tells the stream from others that write to the table, the same after a restart.
        number: The batch; numbers of a stream only grow.
    """

    stream: str
    number: int

    def __post_init__(self) -> None:
        if not self.stream:
            raise SchemaError("a stream needs a name that stays the same after a restart")
