"""Printing of rows: a table in a terminal, tab-separated values in a pipe, an object per line as JSON."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from skerry.cli.display import Field, count, is_terminal, print_records, to_json

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.table.rows.row_stream import RowStream

__all__ = ["TERMINAL_ROWS", "print_rows", "text_rows"]

Marks: TypeAlias = Callable[[str], Sequence[tuple[int, int]]]
"""Gives the parts of a text that stand out: where they begin and end."""

TERMINAL_ROWS = 20
_MAX_CELL = 40
_MAX_MARKED_CELL = 100
_COLUMN_GAP = 3


def print_rows(
    rows: RowStream | pa.Table,
    *,
    as_json: bool,
    at_most: int | None,
    marks: Mapping[str, Marks] | None = None,
    header: bool = True,
) -> None:
    """Print rows.

    Args:
        rows: The rows.
        as_json: Print an object per line.
        at_most: In a terminal, print only so many, and say that there are more; all if None.
        marks: By name of a column, what stands out of its texts in a terminal.
        header: Whether tab-separated values begin with the names of the columns.
    """
    batches = rows.to_reader() if hasattr(rows, "to_reader") else rows.to_batches()
    if as_json:
        for batch in batches:
            print("\n".join(to_json(row) for row in _objects(batch)))
    elif is_terminal():
        _print_table(batches.read_all(), at_most, marks or {})
    else:
        _print_plain(batches, header=header)


def _objects(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows as JSON objects."""
    for row in zip(*map(_values, batch.columns), strict=True):
        yield dict(zip(batch.schema.names, row, strict=True))


def _values(column: pa.Array) -> list[Any]:
    """The values of a column, as far as JSON has them."""
    import pyarrow as pa

    if _is_variant(column.type):
        from skerry.variant import as_values

        return [_inside(value) for value in as_values(column)]
    if pa.types.is_timestamp(column.type):
        column = _iso(column)  # nanoseconds have no Python type
    values: list[Any] = column.to_pylist()
    return values


def _is_variant(type_: pa.DataType) -> bool:
    import pyarrow as pa

    if not pa.types.is_struct(type_):
        return False
    from skerry.variant import is_variant

    return is_variant(type_)


def _inside(value: Any) -> Any:
    """A value of a variant; times that Python lacks as text."""
    from skerry.variant import Typed, encode_variant, to_json

    if isinstance(value, dict):
        return {name: _inside(field) for name, field in value.items()}
    if isinstance(value, list):
        return [_inside(element) for element in value]
    return json.loads(to_json(*encode_variant(value))) if isinstance(value, Typed) else value


def text_rows(rows: pa.Table) -> Iterator[tuple[str | None, ...]]:
    """The values of rows as text, None for null."""
    for batch in rows.to_batches():
        yield from zip(*(_plain(column).to_pylist() for column in batch.columns), strict=True)


def _print_plain(batches: pa.RecordBatchReader, *, header: bool) -> None:
    """Print tab-separated values, converting a whole column to text at a time."""
    import pyarrow.compute as pc

    if header:
        print("\t".join(batches.schema.names))
    for batch in batches:
        columns = [pc.fill_null(_escaped(_plain(column)), "") for column in batch.columns]
        print("\n".join(pc.binary_join_element_wise(*columns, "\t").to_pylist()))


def _plain(column: pa.Array) -> pa.Array:
    """A column's values as text for programs; nulls stay null."""
    import pyarrow as pa

    return _iso(column) if pa.types.is_timestamp(column.type) else _as_text(column)


def _iso(times: pa.Array) -> pa.Array:
    """Timestamps in ISO 8601, in all of their digits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.replace_substring(times.cast(pa.string()), " ", "T")


def _as_text(column: pa.Array) -> pa.Array:
    """A column's values as text for people; nulls stay null."""
    import pyarrow as pa

    type_ = column.type
    if pa.types.is_string(type_):
        return column
    if _is_variant(type_):
        from skerry.variant import as_json

        return as_json(column)
    if pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        values = (None if value is None else to_json(value).strip('"') for value in column.to_pylist())
        return pa.array(values, pa.string())
    if isinstance(type_, pa.BaseExtensionType):
        return pa.array((None if value is None else str(value) for value in column.to_pylist()), pa.string())
    return column.cast(pa.string())


def _escaped(column: pa.Array) -> pa.Array:
    """Text with the characters escaped that would break a line of tab-separated values."""
    import pyarrow.compute as pc

    if not pc.any(pc.match_substring_regex(column, r"[\\\t\n\r]")).as_py():
        return column
    for character, escape in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        column = pc.replace_substring(column, character, escape)
    return column


def _print_table(rows: pa.Table, at_most: int | None, marks: Mapping[str, Marks]) -> None:
    """Print as many columns as fit the terminal."""
    import pyarrow as pa

    has_more = at_most is not None and rows.num_rows > at_most
    rows = rows.slice(0, at_most).combine_chunks() if has_more else rows.combine_chunks()
    width = shutil.get_terminal_size().columns - _COLUMN_GAP - 1
    fields: list[Field] = []
    cells: list[list[str | None]] = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        marked = marks.get(name)
        texts = [_cut(value, marked) for chunk in column.chunks for value in _as_text(chunk).to_pylist()]
        width -= max([len(name), *(len(value or "null") for value in texts)]) + _COLUMN_GAP
        if width < 0 and fields:
            break
        is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        right = is_number or pa.types.is_decimal(column.type)
        fields.append(_value_field(str(len(fields)), name, right, marked or _nothing))
        cells.append(texts)
    hidden = rows.num_columns - len(fields)
    if hidden:
        fields.append(Field("…", "…"))
    records = [
        {str(number): value for number, value in enumerate(row)} | {"…": "…"} for row in zip(*cells, strict=True)
    ]
    notes = []
    if has_more:
        notes.append(f"first {at_most} rows; --limit or a pipe gives more")
    if hidden:
        notes.append(f"{count(hidden)} of {count(rows.num_columns)} columns hidden; choose with --columns")
    print_records(records, fields, as_json=False, note="\n".join(notes))


def _value_field(key: str, title: str, right: bool, marks: Marks) -> Field:
    return Field(
        key,
        title,
        show=lambda value: "null" if value is None else value,
        right=right,
        style=lambda record: "dim" if record[key] is None else "",
        marks=marks,
    )


def _nothing(_text: str) -> Sequence[tuple[int, int]]:
    return ()


def _cut(value: str | None, marks: Marks | None) -> str | None:
    """A value on one line, cut if it is long: of marked ones the part around the first mark stays."""
    if value is None:
        return None
    line = value.replace("\n", "⏎").replace("\t", " ")
    limit = _MAX_CELL if marks is None else _MAX_MARKED_CELL
    if len(line) <= limit:
        return line
    start, end = next(iter(marks(line)), (0, 0)) if marks is not None else (0, 0)
    if end >= limit:
        line = "…" + line[start - limit // 4 :]
    return line if len(line) <= limit else line[: limit - 1] + "…"
