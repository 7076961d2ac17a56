"""CSV files as people have them: other separators and decimal signs, dates as written, words for null, encodings."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from skerry.errors import SchemaError

__all__ = ["CSV_OPTIONS", "CsvFormat", "csv_format", "open_csv", "reason"]

CSV_OPTIONS: Final = ("sep", "decimal", "nullValue", "encoding", "dateFormat", "timestampFormat")
"""Names of options, those of Spark's reader where it has them."""
_HEADER_BYTES: Final = 1 << 20
_SEPARATORS: Final = ";\t|"
_PATTERN: Final = {
    "y": "%Y",
    "yyyy": "%Y",
    "M": "%m",
    "MM": "%m",
    "d": "%d",
    "dd": "%d",
    "H": "%H",
    "HH": "%H",
    "m": "%M",
    "mm": "%M",
    "s": "%S",
    "ss": "%S",
    "T": "T",
}
"""Spark's years of two digits are of this century, those of `strptime` are not; and it writes months as words."""
_LETTERS: Final = re.compile(r"([A-Za-z])\1*")
_HOURS: Final = re.compile(r"%[cHIrRTX]")
_WHERE_OF_ARROW: Final = re.compile(
    r"^Error creating dataset\. .*?Is this a '\w+' file\?: |Could not open \w+ input source '.*?': |\bInvalid: ",
    re.DOTALL,
)
_BAD_VALUE: Final = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to ([^:]*): invalid value '(.*)'", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How CSV files are written.

    Attributes:
        separator: Between fields; if None, a tab in `.tsv` files, else a comma, or the semicolon, tab or bar that the
            first line has instead.
        decimal: The decimal sign.
        nulls: Texts that are null, beside empty fields.
        encoding: As Python names it.
        date: How dates are written where not as in ISO 8601, for `strptime`.
        timestamp: The same of timestamps.
    """

    separator: str | None = None
    decimal: str = "."
    nulls: tuple[str, ...] = ("NA",)
    encoding: str = "utf8"
    date: str | None = None
    timestamp: str | None = None


def csv_format(options: Sequence[tuple[str, str]]) -> CsvFormat:
    """The format that options (`CSV_OPTIONS`) describe; `nullValue` may come several times.

    Raises:
        SchemaError: An option or its value is unknown.
    """
    values = dict(options)
    unknown = [name for name in values if name not in CSV_OPTIONS]
    if unknown:
        raise SchemaError(f"no option {unknown[0]!r} of CSV files; there are {', '.join(CSV_OPTIONS)}")
    for name in {"sep", "decimal"} & values.keys():
        values[name] = values[name].replace("\\t", "\t")
        if len(values[name]) != 1 or not values[name].isascii():
            raise SchemaError(f"option {name!r} is {values[name]!r}, expected one character of ASCII")
    encoding = values.get("encoding", "utf8")
    try:
        "".encode(encoding)
    except (LookupError, ValueError):
        raise SchemaError(f"option 'encoding' is {encoding!r}, which Python does not know") from None
    return CsvFormat(
        separator=values.get("sep"),
        decimal=values.get("decimal", "."),
        nulls=tuple(value for name, value in options if name == "nullValue") or ("NA",),
        encoding=encoding,
        date=_strptime(values.get("dateFormat")),
        timestamp=_strptime(values.get("timestampFormat")),
    )


def _strptime(pattern: str | None) -> str | None:
    """A pattern for `strptime`, also where it is written as Spark writes it: `dd.MM.yyyy`."""
    if pattern is None or "%" in pattern:
        return pattern
    plain = pattern.replace("'T'", "T")
    unknown = {found[0] for found in _LETTERS.finditer(plain)} - _PATTERN.keys()
    if unknown:
        raise SchemaError(f"{pattern!r} is not a pattern such as dd.MM.yyyy or %d.%m.%Y: {min(unknown)!r} is unknown")
    return _LETTERS.sub(lambda found: _PATTERN[found[0]], plain)


def open_csv(files: Sequence[Path], known: dict[str, pa.DataType], written: CsvFormat) -> pa.RecordBatchReader:
    """Open CSV files with a header as a stream.

    Args:
        files: The files, also compressed ones.
        known: The types of columns by name; those of others are found out.
        written: How they are written.

    Raises:
        pyarrow.ArrowException: They cannot be read; also while the stream is read.
        SchemaError: A file has a column that the first one lacks.
        UnicodeDecodeError: They have another encoding.
    """
    from pyarrow import csv as arrow_csv
    from pyarrow import dataset

    separator = written.separator or _separator(files[0], written.encoding)
    _check_headers(files, separator, written.encoding)

    def opened(types: dict[str, pa.DataType], *patterns: str | None) -> Any:
        format_ = dataset.CsvFileFormat(
            arrow_csv.ParseOptions(delimiter=separator),
            read_options=arrow_csv.ReadOptions(encoding=written.encoding),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                strings_can_be_null=True,
                null_values=["", *written.nulls],
                decimal_point=written.decimal,
                timestamp_parsers=[arrow_csv.ISO8601, *filter(None, patterns)],
            ),
        )
        return dataset.dataset(list(map(str, files)), format=format_)

    as_read = {name: pa.timestamp("s") if written.date and pa.types.is_date(t) else t for name, t in known.items()}
    found = opened(as_read, written.timestamp, written.date)
    schema = found.schema
    bytes_ = [name for name, type_ in zip(schema.names, schema.types, strict=True) if pa.types.is_binary(type_)]
    if bytes_:
        raise pa.ArrowInvalid(f"column {bytes_[0]!r} has invalid UTF8 data")
    reader: pa.RecordBatchReader = found.scanner().to_reader()
    if written.date is None:
        return reader
    texts = {field.name for field in opened({}, written.timestamp).schema if pa.types.is_string(field.type)}
    dates = {field.name for field in schema if _is_date(field, known.get(field.name), texts)}
    wanted = pa.schema([field.with_type(pa.date32()) if field.name in dates else field for field in reader.schema])
    is_day = _HOURS.search(written.date) is None
    return pa.RecordBatchReader.from_batches(wanted, (_with_dates(batch, wanted, is_day=is_day) for batch in reader))


def _check_headers(files: Sequence[Path], separator: str, encoding: str) -> None:
    """Refuse files with other columns than the first one, which would be left out."""
    known = set(_header(files[0], separator, encoding)) if len(files) > 1 else set()
    for file in files[1:]:
        unknown = [name for name in _header(file, separator, encoding) if name not in known]
        if unknown:
            problem = f"{file.name!r} has the column {unknown[0]!r}, which {files[0].name!r} lacks"
            raise SchemaError(f"{problem}; fields are taken to end at {separator!r}", location=str(file))


def _with_dates(batch: pa.RecordBatch, wanted: pa.Schema, *, is_day: bool) -> pa.RecordBatch:
    """Rows with dates, where they were read as times: those of a day's beginning if their pattern has no hours."""
    found = batch.cast(wanted)
    for field, before, after in zip(wanted, batch.columns, found.columns, strict=True):
        if is_day and before.type != field.type and not after.cast(before.type).equals(before):
            raise pa.ArrowInvalid(f"column {field.name!r} has a time of day, expected date32[day]")
    return found


def _is_date(field: pa.Field, known: pa.DataType | None, texts: set[str]) -> bool:
    """Whether a column has dates: it is to have them, or only the pattern of dates makes times of its texts."""
    if known is not None:
        return pa.types.is_date(known)
    return pa.types.is_date(field.type) or (pa.types.is_timestamp(field.type) and field.name in texts)


def _separator(file: Path, encoding: str) -> str:
    """What stands between the names in the first line."""
    if file.name.removesuffix(file.suffix if file.suffix != ".tsv" else "").endswith(".tsv"):
        return "\t"
    line = re.split(r"[\r\n]", re.sub(r'"[^"]*"', "", _beginning(file, encoding)), maxsplit=1)[0]
    return next((sign for sign in _SEPARATORS if sign in line), ",") if "," not in line else ","


def _header(file: Path, separator: str, encoding: str) -> list[str]:
    """The names in the first line."""
    lines = io.StringIO(_beginning(file, encoding), newline="")
    try:
        return next(csv.reader(lines, delimiter=separator), [])
    except csv.Error:  # a quote without its end, which PyArrow refuses
        return []


def _beginning(file: Path, encoding: str) -> str:
    """As much of a file as has its first line: PyArrow wants it there, too."""
    with pa.input_stream(str(file), compression="detect") as source:
        return bytes(source.read(_HEADER_BYTES)).decode(encoding, errors="replace").lstrip("\ufeff")


def reason(error: Exception, files: Sequence[Path], written: CsvFormat) -> str:
    """Why files cannot be read, in words that their writer knows: column, line and value where they are known."""
    text = _WHERE_OF_ARROW.sub("", str(error))
    if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in text:
        return f"it is not encoded as {written.encoding}: {text}; `skerry append -o encoding=cp1252` names another one"
    bad = _BAD_VALUE.search(text)
    if bad is None:
        return text
    names = _header(files[0], written.separator or _separator(files[0], written.encoding), written.encoding)
    column = repr(names[int(bad[1])]) if int(bad[1]) < len(names) else f"#{int(bad[1]) + 1}"
    place = f" of line {bad[2]}" if bad[2] else ""
    return f"column {column}{place} has {bad[4]!r}, expected {bad[3]}"
