"""What methods of tables take: rows, conditions and moments, checked before anything is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol, TypeAlias

from skerry.arguments import checked_texts
from skerry.errors import SchemaError
from skerry.table.history import MAIN, in_utc
from skerry.table.stream_batch import StreamBatch
from skerry.table.work.tasks import Executor, ProgressCallback

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.filters import Filters

__all__ = ["Age", "ColumnSource", "Condition", "Keys", "Rows", "WriteOptions", "check_moment", "moment_before"]


class Rows(Protocol):
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
Keys: TypeAlias = "Rows | Sequence[Mapping[str, object]] | Sequence[object]"
"""Values of a key: Arrow data with its columns, or a list of dictionaries, of tuples, or of the values of its only
column."""
Age: TypeAlias = datetime | timedelta
"""A moment (UTC if it has no zone), or how long ago it was."""


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


def check_moment(option: str, value: datetime | None) -> None:
    """Refuse what is not a point in time.

    Raises:
        SchemaError: It is something else.
    """
    if value is not None and not isinstance(value, datetime):
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
    if not isinstance(value, datetime):
        raise SchemaError(f"{option} takes a datetime or a timedelta, found {type(value).__name__}: {value!r}")
    return in_utc(value)
