"""A table's history as users see it, for all table formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar, overload

from skerry.arguments import check_whole_number
from skerry.errors import FormatError, SchemaError
from skerry.table.records import Record, Records, aligned
from skerry.table.work.quantities import moment

__all__ = [
    "MAIN",
    "History",
    "HistoryEntry",
    "Ref",
    "Retention",
    "Snapshot",
    "Snapshots",
    "in_utc",
    "of_batch",
    "of_millis",
]

Stored = TypeVar("Stored")

MAIN = "main"
"""The default branch."""


def of_millis(millis: int) -> datetime:
    """Convert milliseconds since 1970 in a metadata file to a datetime in UTC.

    Raises:
        FormatError: It is outside the years 1 to 9999.
    """
    try:
        return datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise FormatError(f"{millis} milliseconds since 1970 are outside the years 1 to 9999") from error


@dataclass(frozen=True, slots=True)
class Snapshot(Record):
    """One state of a table's rows.

    Args:
        snapshot_id: Its id.
        parent_id: The snapshot that it is based on; None for the first.
        sequence_number: Order of commits; 0 if the table format has none.
        timestamp: When it was committed, UTC.
        operation: `append`, `replace`, `overwrite` or `delete`.
        summary: What it added and removed, and totals, as texts by key.
        has_statistics: Whether sketches are published for it.
        applied: In the result of an append: whether its rows were added; False if the table already had the stream's
            batch.
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    timestamp: datetime
    operation: str
    summary: Mapping[str, str]
    has_statistics: bool
    applied: bool = True


class Snapshots(Sequence[Snapshot]):
    """Snapshots of a table, each described when it is looked at; a table in a notebook.

    Args:
        stored: The snapshots as the table's metadata has them.
        describe: Describes one.
    """

    def __init__(self, stored: Sequence[Stored], describe: Callable[[Stored], Snapshot]) -> None:
        self._stored: Sequence[Any] = stored
        self._describe: Callable[[Any], Snapshot] = describe

    def __len__(self) -> int:
        return len(self._stored)

    @overload
    def __getitem__(self, index: int) -> Snapshot: ...
    @overload
    def __getitem__(self, index: slice) -> list[Snapshot]: ...
    def __getitem__(self, index: int | slice) -> Snapshot | list[Snapshot]:
        if isinstance(index, slice):
            return [self._describe(one) for one in self._stored[index]]
        return self._describe(self._stored[index])

    def __iter__(self) -> Iterator[Snapshot]:
        return map(self._describe, self._stored)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Snapshots | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        lines = [("snapshot", "committed", "operation", "rows", "statistics")]
        for one in self:
            rows = one.summary.get("total-records", "")
            number, published = f"{int(rows):,}" if rows.isdecimal() else "", "published" if one.has_statistics else ""
            lines.append((str(one.snapshot_id), moment(one.timestamp), one.operation, number, published))
        return aligned(lines, "><<><") if len(lines) > 1 else "[]"

    def _repr_html_(self) -> str:
        from skerry.table.display import records_html

        return records_html(self, "Snapshots")


class HistoryEntry(NamedTuple):
    """A change of the current snapshot.

    Args:
        timestamp: When it became the current one, UTC.
        snapshot_id: Its id.
    """

    timestamp: datetime
    snapshot_id: int


class History(Records[HistoryEntry]):
    """Which snapshots were the current one; a table in a notebook."""

    title = "History"


def of_batch(snapshot: Snapshot | None, *, applied: bool) -> Snapshot | None:
    """The snapshot returned by the append of a stream's batch."""
    return snapshot if snapshot is None or applied else replace(snapshot, applied=False)


@dataclass(frozen=True, slots=True)
class Ref(Record):
    """A branch or tag.

    Args:
        name: Its name.
        kind: `branch` or `tag`.
        snapshot_id: The snapshot that it points to; None for a branch without one.
        max_ref_age: The reference is dropped when its snapshot is older; None: the table's property applies.
        max_snapshot_age: For a branch: older snapshots expire; None: the table's property applies.
        min_snapshots_to_keep: For a branch: how many of its newest snapshots are kept, however old; None: the table's
            property applies.
    """

    name: str
    kind: str
    snapshot_id: int | None
    max_ref_age: timedelta | None = None
    max_snapshot_age: timedelta | None = None
    min_snapshots_to_keep: int | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a branch or tag keeps snapshots; None leaves it to the table's properties.

    Args:
        max_ref_age: The reference is dropped when its snapshot is older; `main` is never dropped.
        max_snapshot_age: For a branch: older snapshots expire.
        min_snapshots_to_keep: For a branch: how many of its newest snapshots are kept, however old.

    Raises:
        SchemaError: An age is not a timedelta of at least a millisecond, or the number is not above 0.
    """

    max_ref_age: timedelta | None = None
    max_snapshot_age: timedelta | None = None
    min_snapshots_to_keep: int | None = None

    def __post_init__(self) -> None:
        for option, age in (("max_ref_age", self.max_ref_age), ("max_snapshot_age", self.max_snapshot_age)):
            if age is not None and not isinstance(age, timedelta):
                raise SchemaError(f"{option} takes a timedelta, found {type(age).__name__}: {age!r}")
            if age is not None and age < timedelta(milliseconds=1):
                raise SchemaError(f"an age must be at least a millisecond, found {age}")
        check_whole_number("min_snapshots_to_keep", self.min_snapshots_to_keep, 1)


def in_utc(moment: datetime) -> datetime:
    """A moment with a zone: UTC if it has none."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
