"""Columns as a command line gives them: a name and a type of SQL, or a file that has them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.table.rows.csv_files import CsvFormat

__all__ = ["column_of", "schema_of", "type_of"]

_COLUMN = re.compile(r'\s*("(?:[^"]|"")+"|\S+)\s+(.+?)(\s+not\s+null)?\s*', re.IGNORECASE | re.DOTALL)
_TYPE = re.compile(r"\s*(\w+)\s*(?:\(([\d\s,]+)\))?\s*((?:\[\]\s*)*)")


def column_of(text: str, option: str) -> pa.Field:
    """Parse a column such as `price DECIMAL(10, 2) NOT NULL`; a name with spaces is put in double quotes.

    Args:
        text: The column.
        option: What it was given by, for messages.

    Raises:
        click.BadParameter: It is not of this form, or the type is unknown.
    """
    import pyarrow as pa

    found = _COLUMN.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a column with its type, such as 'id bigint'", param_hint=option)
    name = found[1][1:-1].replace('""', '"') if found[1].startswith('"') else found[1]
    return pa.field(name, type_of(found[2], option), nullable=found[3] is None)


def type_of(text: str, option: str) -> pa.DataType:
    """Parse a type of SQL, also a list of one: `BIGINT[]`.

    Args:
        text: The type.
        option: What it was given by, for messages.

    Raises:
        click.BadParameter: It is unknown.
    """
    import pyarrow as pa

    from skerry.table.predicate.casts import parse_sql_type

    found = _TYPE.fullmatch(text)
    sizes = tuple(int(size) for size in found[2].split(",") if size.strip()) if found and found[2] else ()
    type_ = parse_sql_type(found[1].upper(), sizes) if found else None
    if found is None or type_ is None:
        raise click.BadParameter(
            f"{text!r} is not a type such as bigint, varchar, decimal(10, 2), timestamp or bigint[]; --like FILE takes "
            "columns of other types from a file",
            param_hint=option,
        )
    for _ in range(found[3].count("[]")):
        type_ = pa.list_(type_)
    return type_


def schema_of(source: Path, csv: CsvFormat | None = None) -> pa.Schema:
    """The columns of a file, or of the files of a folder.

    Args:
        source: The file or folder.
        csv: How CSV files are written.

    Raises:
        SchemaError: They cannot be read, or are of no known format.
    """
    from skerry.table.rows.sources import open_files

    return open_files(source, None, csv).schema.remove_metadata()
