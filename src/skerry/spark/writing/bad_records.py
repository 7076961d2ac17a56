"""Diagnosis of a refused record: its line in the file, and the value that is wrong.

The job that refuses a record knows its file and its text, or the column and the value. Only then that one file is
read again line by line to find the line; and the record is parsed once per column, with only that column typed, to
find the column. Everything is done by the parser that refused the record, so that both agree.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from skerry.errors import SchemaError
from skerry.spark.runtime.failures import RefusedRecordError
from skerry.spark.runtime.settings import changed_settings

__all__ = ["RecordFormat", "explain", "plain_location"]

_CORRUPT = "_corrupt"
_OF_FILES = frozenset({"header", "multiline", "compression", "encoding"})  # options that do not affect a single record
_ONE_PARTITION = {"spark.sql.files.maxPartitionBytes": str(2**62)}
_SHOWN = 100  # characters of a value in a message


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """How the records of a source are parsed.

    Args:
        format: `csv` or `json`.
        options: Options of Spark's reader, in lower case.
        fields: The columns, with the types that they are read as.
        labels: The columns' types as the table has them, for messages.
    """

    format: str
    options: Mapping[str, str]
    fields: tuple[StructField, ...]
    labels: Mapping[str, str]

    @property
    def has_header(self) -> bool:
        """Whether the first line of a file contains names."""
        return self.format == "csv" and self.options.get("header", "true").lower() != "false"

    @property
    def is_by_line(self) -> bool:
        """Whether a record never spans lines."""
        return self.options.get("multiline", "false").lower() != "true"

    def parse(self, text: Column, typed: frozenset[str]) -> Column:
        """Parse records as a struct, with `_corrupt` set to the text of those that do not fit.

        Args:
            text: The records.
            typed: The columns to read as their own types; all others are read as text.
        """
        fields = [
            StructField(field.name, field.dataType if field.name in typed else StringType()) for field in self.fields
        ]
        ddl = StructType([*fields, StructField(_CORRUPT, StringType())]).toDDL()
        options = {key: value for key, value in self.options.items() if key not in _OF_FILES}
        options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        return sf.from_csv(text, ddl, options) if self.format == "csv" else sf.from_json(text, ddl, options)


def plain_location(location: str) -> str:
    """A file's location without percent-encoding and, for local files, without the scheme that Spark adds."""
    return re.sub(r"^file:/+", "/", unquote(location))


def explain(spark: SparkSession, format: RecordFormat, error: RefusedRecordError) -> SchemaError:
    """Describe the position of a refused record and what is wrong with it.

    Args:
        spark: The session.
        format: How the records are read.
        error: What the job knew.

    Returns:
        An error with line, column and value, as far as they can be found, and the file as its location.
    """
    location = None if error.location is None else plain_location(error.location)
    line, record = (None, None) if location is None else _find(spark, format, location, error)
    if error.record is not None:
        what = _what_is_wrong(spark, format, error.record)
    elif record is not None and error.column is not None and error.column in format.labels and error.value is not None:
        raw = spark.range(1).select(format.parse(sf.lit(record), frozenset()).getField(error.column)).first()
        what = _does_not_fit(format, error.column, raw[0] if raw else error.value)
    else:
        what = error.message
    return SchemaError(what if line is None else f"line {line}, {what}", location=location)


def _does_not_fit(format: RecordFormat, column: str, value: str | None) -> str:
    return f"column {column!r}: value {_shown(value)} does not fit {format.labels[column]}"


def _what_is_wrong(spark: SparkSession, format: RecordFormat, record: str) -> str:
    names = [field.name for field in format.fields]
    text = sf.lit(record)
    parsed = [format.parse(text, frozenset()), *(format.parse(text, frozenset([name])) for name in names)]
    row = spark.range(1).select(*(column.alias(f"c{index}") for index, column in enumerate(parsed))).first()
    if row is None or row[0] is None or row[0][_CORRUPT] is not None:
        if format.format == "json":
            return f"not a JSON object: {_shown(record)}"
        return f"{_value_count(format, record)} values instead of {len(names)}: {_shown(record)}"
    for name, typed in zip(names, row[1:], strict=True):
        if typed[_CORRUPT] is not None:
            return _does_not_fit(format, name, row[0][name])
    return f"the record does not fit: {_shown(record)}"


def _shown(text: str | None) -> str:
    return repr(text if text is None or len(text) <= _SHOWN else text[:_SHOWN] + "…")


def _value_count(format: RecordFormat, record: str) -> int:
    separator = format.options.get("sep", format.options.get("delimiter", ","))
    if len(separator) != 1:
        return record.count(separator) + 1
    quote = format.options.get("quote", '"') or None
    if quote is None:
        return record.count(separator) + 1
    return len(next(csv.reader([record], delimiter=separator, quotechar=quote, escapechar="\\"), []))


def _find(
    spark: SparkSession, format: RecordFormat, location: str, error: RefusedRecordError
) -> tuple[int | None, str | None]:
    """The number and the text of the first line with the record; None if that cannot be determined."""
    path = re.sub(r"([\\*?\[\]{}])", r"\\\1", location)  # the literal name, not a pattern
    reader = spark.read
    for option in ("encoding", "lineSep"):
        if option.lower() in format.options:
            reader = reader.option(option, format.options[option.lower()])
    try:
        if not format.is_by_line:
            whole = reader.text(path, wholetext=True).first()
            position = -1 if whole is None or error.record is None else whole.value.find(error.record)
            return (None, None) if whole is None or position < 0 else (1 + whole.value.count("\n", 0, position), None)
        with changed_settings(spark, _ONE_PARTITION):
            lines = reader.text(path).select((sf.monotonically_increasing_id() + 1).alias("line"), "value")
            if format.has_header:
                lines = lines.where("line > 1")
            found = lines.where(_is_refused(format, sf.col("value"), error)).orderBy("line").first()
    except PySparkException:  # the refusal itself matters more
        return None, None
    return (None, None) if found is None else (found.line, found.value)


def _is_refused(format: RecordFormat, text: Column, error: RefusedRecordError) -> Column:
    if error.record is not None:
        return text == error.record
    assert error.column is not None
    parsed = format.parse(text, frozenset(field.name for field in format.fields))
    column = parsed
    for name in error.column.split(".") if error.column not in format.labels else [error.column]:
        column = column.getField(name)
    return (sf.trim(text) != "") & column.cast("string").eqNullSafe(sf.lit(error.value))
