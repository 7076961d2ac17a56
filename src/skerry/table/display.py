"""How tables, records and results look in a notebook: the fragments that the page is made of, framed.

Modules import it when a notebook asks, so that nothing else pays for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final

import pyarrow as pa

from skerry.markup import Column, Content, Html, definitions, element, table
from skerry.table.rows.schema import field_id
from skerry.table.work.quantities import moment, size

__all__ = ["arrow_html", "framed", "load_ipython_extension", "record_html", "records_html", "shown", "table_html"]

_MOST_ROWS: Final = 100
_MOST_LETTERS: Final = 100
_STYLE: Final = Html(
    "<style>.skerry{font:13px/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums}"
    ".skerry table{border-collapse:collapse;margin:4px 0}.skerry caption{text-align:left;font-weight:600}"
    ".skerry th,.skerry td{padding:2px 14px 2px 0;text-align:left;border-bottom:1px solid #8883;background:none}"
    ".skerry th{font-weight:500;opacity:.7}.skerry .n{text-align:right}.skerry .dim{opacity:.65}"
    ".skerry dl{display:flex;flex-wrap:wrap;gap:4px 28px;margin:4px 0}"
    ".skerry dt{opacity:.65;font-size:11px;font-weight:400}"
    ".skerry dd{margin:0}.skerry .bar{fill:#0f9488}.skerry .bar-rest{fill:#8883}.skerry .grid{stroke:#8886}"
    ".skerry .bounds{fill:#0f9488;opacity:.4}.skerry .bad{color:#c2410c}.skerry code{font-size:12px}</style>"
)


def framed(title: str, *content: Content) -> Html:
    """Content with its title, in a frame that has its own style."""
    return element("div", _STYLE, element("div", element("b", title)), *content, class_="skerry")


def record_html(record: Any) -> Html:
    """A result, such as the summary of a compaction: its fields with their values."""
    return framed(
        type(record).__name__, definitions({_title(name): shown(name, value) for name, value in _values(record)})
    )


def records_html(records: Sequence[Any], title: str) -> Html:
    """Records of a kind, such as snapshots: a row for each, the last hundred of many."""
    names = _names(records[0]) if records else []
    columns = [_field_column(name, records) for name in names]
    more = f", the last {_MOST_ROWS}" if len(records) > _MOST_ROWS else ""
    listed = table(records[-_MOST_ROWS:], columns, caption="") if records else None
    return framed(f"{title} ({len(records):,}{more})", listed)


def _names(record: Any) -> list[str]:
    """The fields of a dataclass or a named tuple."""
    return [each.name for each in fields(record)] if is_dataclass(record) else list(record._fields)


def arrow_html(rows: pa.Table | pa.RecordBatch) -> Html:
    """Rows in Arrow, such as a metadata table: the first hundred.

    Args:
        rows: The rows.
    """
    shown_rows = rows.slice(0, _MOST_ROWS).to_pylist()
    columns = [
        Column[dict[str, Any]](
            field.name, _cell(field.name), right=pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        )
        for field in list(rows.schema)[:_MOST_ROWS]
    ]
    more = f", the first {_MOST_ROWS}" if rows.num_rows > _MOST_ROWS else ""
    left_out = len(rows.schema) - len(columns)
    return framed(
        f"{rows.num_rows:,} rows{more}",
        table(shown_rows, columns, caption=""),
        element("p", f"and {left_out:,} more columns", class_="dim") if left_out else None,
    )


def _cell(name: str) -> Callable[[dict[str, Any]], Content]:
    return lambda row: shown(name, row[name])


def load_ipython_extension(shell: Any) -> None:
    """Show Arrow tables, such as those of `table.inspect`, as tables in this notebook: `%load_ext skerry`.

    Args:
        shell: IPython's shell.
    """
    formatter = shell.display_formatter.formatters["text/html"]
    for type_ in (pa.Table, pa.RecordBatch):
        formatter.for_type(type_, arrow_html)


def _field_column(name: str, records: Sequence[Any]) -> Column[Any]:
    values = [getattr(record, name) for record in records]
    is_number = all(isinstance(value, int | float | None) and not isinstance(value, bool) for value in values)
    return Column(_title(name), lambda record: shown(name, getattr(record, name)), right=is_number)


def _values(record: Any) -> Iterable[tuple[str, Any]]:
    return [(each.name, getattr(record, each.name)) for each in fields(record)]


def _title(name: str) -> str:
    return name.replace("_", " ")


def shown(name: str, value: Any) -> Content:
    """A value as people read it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return (
            str(value)
            if "id" in name.replace("_", " ").split()
            else size(value)
            if name.endswith("bytes")
            else f"{value:,}"
        )
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, pa.Schema):
        return f"{len(value)} columns"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Mapping):
        value = ", ".join(f"{key}: {each}" for key, each in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        if len(value) > 5 or any(is_dataclass(each) for each in value):
            return f"{len(value):,}"
        value = ", ".join(map(str, value))
    text = str(value)
    return text if len(text) <= _MOST_LETTERS else element("span", f"{text[: _MOST_LETTERS - 1]}…", title=text[:2000])


# ---- tables ----


def table_html(name: str, facts: Mapping[str, object], schema: pa.Schema) -> Html:
    """A table: what it is, and its columns.

    Args:
        name: Its name.
        facts: What is said about it; what is empty or None is left out.
        schema: Its columns.
    """
    columns = [
        Column[pa.Field]("id", field_id, right=True),
        Column[pa.Field]("column", lambda field: field.name),
        Column[pa.Field]("type", lambda field: element("code", str(field.type))),
        Column[pa.Field]("", lambda field: "" if field.nullable else "required"),
    ]
    listed = list(schema)[:_MOST_ROWS]
    more = len(schema) - len(listed)
    return framed(
        name,
        definitions({key: shown(key, value) for key, value in facts.items()}),
        table(listed, columns, caption=""),
        element("p", f"and {more:,} more columns", class_="dim") if more else None,
    )
