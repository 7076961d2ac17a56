"""What a stream reads of a table, whatever its format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.storage import Storage
from skerry.table.history import MAIN

__all__ = ["EARLIEST", "LATEST", "Limits", "StreamChoice", "StreamTask", "TableOffset", "TableStream"]

EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a batch takes at most, but always something.

    Args:
        files: Data files that were added; None for any number.
        snapshots: Commits; likewise.
    """

    files: int | None = None
    snapshots: int | None = None

    def __post_init__(self) -> None:
        for name in ("files", "snapshots"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise SchemaError(f"a batch takes at least 1 of its {name}, found {value!r}")

    def are_passed(self, files: int, snapshots: int) -> bool:
        """Whether so much is too much."""
        return files > (self.files or files) or snapshots > (self.snapshots or snapshots)


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """What a stream reads.

    Args:
        columns: Dotted names; all columns if None.
        where: SQL text; all rows if None.
        ref: The branch.
        changes: Whether rows that go and rows that change are told too, with the columns that say so.
        on: With changes, the columns that identify a row; those of the table if None.
        start: `earliest`: what is there first, then what comes; `latest`: what comes; or a snapshot's id: what came
            after it.
        skip_changes: Without changes, whether commits that took rows away or changed some are passed over; else they
            end the stream.
        limits: How much a batch takes at most.
        consumer: Under which name the table notes how far the stream has come, so that no snapshot expires which it
            has still to read; None not to.
    """

    columns: tuple[str, ...] | None = None
    where: str | None = None
    ref: str = MAIN
    changes: bool = False
    on: tuple[str, ...] | None = None
    start: str = EARLIEST
    skip_changes: bool = False
    limits: Limits = field(default_factory=Limits)
    consumer: str | None = None

    @property
    def start_snapshot(self) -> int:
        """The snapshot's id that `start` is if it is no word.

        Raises:
            SchemaError: It is neither.
        """
        if not self.start.isdecimal():
            raise SchemaError(f"a stream starts at {EARLIEST}, {LATEST} or a snapshot's id, found {self.start!r}")
        return int(self.start)


class TableOffset(Protocol):
    """How far a stream has come; it is all that a restart needs."""

    @property
    def table(self) -> str:
        """What tells the table from others, also from a later one of its name."""
        ...

    def encode(self) -> dict[str, Any]:
        """As JSON that a checkpoint keeps."""
        ...


class StreamTask(Protocol):
    """A part of what is between two offsets; picklable."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        ...


class TableStream(Protocol):
    """A table as a stream: offsets, and the tasks that read what is between two of them."""

    @property
    def schema(self) -> pa.Schema:
        """What is delivered."""
        ...

    @property
    def identity(self) -> str:
        """The table's, as its offsets tell it."""
        ...

    @property
    def storage(self) -> Storage:
        """Where the table lies."""
        ...

    def initial(self) -> TableOffset:
        """Where a stream begins that never ran."""
        ...

    def latest(self, after: Any) -> TableOffset:
        """Where the next batch ends, within the limits, if it begins `after`; without limits if that is None."""
        ...

    def plan(self, start: Any, end: Any) -> Sequence[StreamTask]:
        """What is to be read between two offsets."""
        ...

    def hold(self, start: Any, end: Any) -> None:
        """What is between two offsets is about to be read, and all before the first has been done with."""
        ...

    def commit(self, end: Any) -> None:
        """All before an offset has been done with."""
        ...

    def decode(self, offset: Mapping[str, Any]) -> TableOffset:
        """Read an offset of the table's format.

        Raises:
            FormatError: It is none.
        """
        ...
