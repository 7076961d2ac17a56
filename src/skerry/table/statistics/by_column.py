"""Statistics by column, as `Table.statistics` returns them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skerry.table.records import aligned
from skerry.table.rows.schema import nearest
from skerry.table.statistics.column_statistics import ColumnStatistics

if TYPE_CHECKING:
    import pandas

__all__ = ["Statistics"]

_SCHEMA = pa.schema(
    [
        pa.field("column", pa.string(), nullable=False),
        ("ndv", pa.float64()),
        ("lower", pa.float64()),
        ("upper", pa.float64()),
        ("null_count", pa.int64()),
        ("min", pa.string()),
        ("max", pa.string()),
        pa.field("freshness", pa.string(), nullable=False),
        ("reason", pa.string()),
    ]
)


class Statistics(dict[str, ColumnStatistics]):
    """Statistics by dotted column name, in schema order; a name that is missing is answered with the nearest one."""

    def __missing__(self, name: object) -> ColumnStatistics:
        raise KeyError(f"no column {name!r}{nearest(str(name), self)}")

    def to_arrow(self) -> pa.Table:
        """A row per column, under the names of `ColumnStatistics`; `min` and `max` are texts, `reason` is of its own.

        Example:
            table.statistics().to_arrow().sort_by([("ndv", "descending")])
        """
        rows = [
            {
                "column": known.column,
                "ndv": known.ndv,
                "lower": known.lower,
                "upper": known.upper,
                "null_count": known.null_count,
                "min": _text(known.min),
                "max": _text(known.max),
                "freshness": known.freshness.state.value,
                "reason": known.freshness.reason or None,
            }
            for known in self.values()
        ]
        return pa.Table.from_pylist(rows, _SCHEMA)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows of `to_arrow` as a data frame; needs pandas."""
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        lines: list[tuple[str, ...]] = [("column", "distinct", "from", "to", "nulls", "freshness")]
        for known in self.values():
            counts = [_number(each) for each in (known.ndv, known.lower, known.upper, known.null_count)]
            lines.append((known.column, *counts, str(known.freshness)))
        return aligned(lines, "<>>>><")

    def _repr_html_(self) -> str:
        from skerry.table.statistics.display import statistics_html

        return statistics_html(self)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value.hex() if isinstance(value, bytes) else str(value)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
