"""What methods of tables take: rows, conditions and moments, checked before anything is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from skerry.arguments import checked_texts
from skerry.errors import SchemaError
from skerry.table.history import MAIN, in_utc
from skerry.table.stream_batch import StreamBatch
from skerry.table.work.tasks import Executor, ProgressCallback

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.filters import Filters

__all__ = [
    "Age",
    "ColumnSource",
    "Condition",
    "Keys",
    "Moment",
    "Rows",
    "SearchOptions",
    "WriteOptions",
    "moment_before",
    "moment_of",
]


class _ExportsRows(Protocol):
    """Anything with the Arrow C stream interface: PyArrow, Polars, pandas, DuckDB, a scan of another table."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows."""
        ...


class _ExportsSchema(Protocol):
    def __arrow_c_schema__(self) -> object: ...


class _HasSchema(Protocol):
    @property
    def schema(self) -> pa.Schema: ...


ColumnSource: TypeAlias = "pa.Schema | _ExportsSchema | _HasSchema | Rows"
"""Columns: an Arrow schema, or anything that has one (data, a table, another library's schema)."""
Condition: TypeAlias = "str | Filters"
"""Which rows: SQL text (`"delay > 60 AND carrier = 'UA'"`), a PyArrow expression, or filters as `pyarrow.parquet` takes
them (`[("delay", ">", 60), ("carrier", "in", ["UA", "AA"])]`)."""
Parameters: TypeAlias = "Sequence[object] | Mapping[str, object]"
"""Values of a condition's parameters: for `?` and `$1` in their order, or for `$name` by name."""
Keys: TypeAlias = "Rows | Sequence[Mapping[str, object]] | Sequence[object]"
"""Values of a key: Arrow data with its columns, or a list of dictionaries, of tuples, or of the values of its only
column."""
Rows: TypeAlias = "_ExportsRows | Sequence[Mapping[str, object]] | Iterator[object] | Mapping[str, object] | str | Path"
"""Rows: anything with the Arrow C stream interface (PyArrow, Polars, pandas, DuckDB, a scan of another table), records,
an iterator of records or of Arrow batches, columns by name, a lazy frame, or the name of a file or folder."""
Moment: TypeAlias = datetime | date | timedelta | str
"""A point in time: a datetime or date (UTC if it has no zone), one as text in ISO 8601, or a time before now."""
Age: TypeAlias = Moment
"""A moment (UTC if it has no zone), or how long ago it was."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What a search for words is for; see `skerry.table.searchable.SearchableTable.search`.

    Args:
        column: The column.
        query: The words.
        columns: Columns to return; all if None.
        where: Further conditions.
        limit: At most this many rows.
        snapshot: The snapshot; the current one if None.
        threads: As for `scan`.
    """

    column: str
    query: str
    columns: Sequence[str] | None = None
    where: Condition | None = None
    limit: int | None = None
    snapshot: int | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a change is made and published.

    Args:
        ref: The branch.
        staged: Whether the branch stays where it is until the snapshot is published.
        properties: Further entries of the snapshot summary.
        executor: Where tasks run; threads of this process if None.
        progress: Called with the progress.
        batch: The batch of a stream that the rows are, committed once.

    Raises:
        SchemaError: A name or a value of the summary is not a string.
    """

    ref: str = MAIN
    staged: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    executor: Executor | None = None
    progress: ProgressCallback | None = None
    batch: StreamBatch | None = None

    def __post_init__(self) -> None:
        checked_texts("snapshot_properties", self.properties)


def moment_of(option: str, value: Moment | None) -> datetime | None:
    """The point in time that an argument means; None for none.

    Raises:
        SchemaError: It is something else.
    """
    if isinstance(value, timedelta):
        return moment_before(option, value)
    if value is None or isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            raise SchemaError(f"{option} takes a time such as '2024-05-01 12:00:00', found {value!r}") from None
    raise SchemaError(f"{option} takes a datetime, found {type(value).__name__}: {value!r}")


def moment_before(option: str, value: Age | None) -> datetime | None:
    """The moment that an argument such as `older_than` means, with its zone; None for none.

    Raises:
        SchemaError: It is neither a datetime nor a timedelta, or a negative one.
    """
    if value is None:
        return None
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise SchemaError(f"{option} must not be negative, found {value}")
        return datetime.now(UTC) - value
    if not isinstance(value, date | str):
        raise SchemaError(f"{option} takes a datetime or a timedelta, found {type(value).__name__}: {value!r}")
    moment = moment_of(option, value)
    return None if moment is None else in_utc(moment)
