"""What a stream reads from a table, and its interfaces, for all table formats."""

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
    """Limits on the size of a batch, which always contains something.

    Args:
        files: Data files added, at most; None for any number.
        snapshots: Commits, at most; None for any number.
    """

    files: int | None = None
    snapshots: int | None = None

    def __post_init__(self) -> None:
        for name in ("files", "snapshots"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise SchemaError(f"the limit on {name} per batch must be at least 1, found {value!r}")

    def are_passed(self, files: int, snapshots: int) -> bool:
        """Whether the counts exceed the limits."""
        return files > (self.files or files) or snapshots > (self.snapshots or snapshots)


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """What a stream reads.

    Args:
        columns: Dotted names; all columns if None.
        where: SQL text; all rows if None.
        ref: The branch.
        changes: Whether deleted and updated rows are delivered too, with the columns that mark them.
        on: With changes, the columns that identify a row; the table's own if None.
        start: `earliest`: existing rows first, then new ones; `latest`: only new ones; or a snapshot's id: everything
            after it.
        skip_changes: Without changes, whether commits that deleted or updated rows are skipped; otherwise they
            end the stream.
        limits: Limits on the size of a batch.
        consumer: The name under which the table records how far the stream has read, so that snapshots it still needs
            do not expire; None to record nothing.
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
        """The snapshot's id in `start`, unless it is a word.

        Raises:
            SchemaError: It is neither.
        """
        if not self.start.isdecimal():
            raise SchemaError(f"a stream starts at {EARLIEST}, {LATEST} or a snapshot's id, found {self.start!r}")
        return int(self.start)


class TableOffset(Protocol):
    """The position of a stream; all that a restart needs."""

    @property
    def table(self) -> str:
        """Distinguishes the table from others, including later ones of the same name."""
        ...

    def encode(self) -> dict[str, Any]:
        """As JSON for a checkpoint."""
        ...


class StreamTask(Protocol):
    """A part of the rows between two offsets; picklable."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        ...


class TableStream(Protocol):
    """A table as a stream: offsets, and tasks that read the rows between two of them."""

    @property
    def schema(self) -> pa.Schema:
        """The delivered columns."""
        ...

    @property
    def identity(self) -> str:
        """The table's identity, as its offsets record it."""
        ...

    @property
    def storage(self) -> Storage:
        """The table's storage."""
        ...

    def initial(self) -> TableOffset:
        """The offset at which a new stream begins."""
        ...

    def latest(self, after: Any) -> TableOffset:
        """The end of the next batch, within the limits, if it begins at `after`; without limits if that is None."""
        ...

    def plan(self, start: Any, end: Any) -> Sequence[StreamTask]:
        """Plan what to read between two offsets."""
        ...

    def hold(self, start: Any, end: Any) -> None:
        """Record that rows between two offsets are about to be read, and that all before the first were processed."""
        ...

    def commit(self, end: Any) -> None:
        """Record that everything before an offset was processed."""
        ...

    def decode(self, offset: Mapping[str, Any]) -> TableOffset:
        """Decode an offset of the table's format.

        Raises:
            FormatError: It is not an offset.
        """
        ...
