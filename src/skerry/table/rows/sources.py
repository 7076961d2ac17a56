"""Data that has no Arrow interface of its own: records in Python, files by name, lazy frames."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from skerry.errors import NotFoundError, SchemaError
from skerry.table.rows.csv_files import CsvFormat, open_csv, reason

__all__ = ["open_files", "open_source"]

_RECORDS: Final = 10_000
_FORMATS: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".orc": "orc",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".json": "json",
    ".jsonl": "json",
}
_COMPRESSED: Final = (".gz", ".bz2", ".zst")


def open_source(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader | None:
    """Open data as a stream.

    Args:
        data: A list or iterator of records (dictionaries) or of Arrow batches, a dictionary of columns, the name of a
            Parquet, CSV, ORC, Arrow or JSON lines file or of a folder of them, or a lazy frame of Polars. CSV files
            are read as `CsvFormat` says: an empty field and NA are null.
        schema: The types of columns by name, where they are known.

    Returns:
        The rows; None if it is something else.

    Raises:
        NotFoundError: There is no such file.
        SchemaError: Records or files do not fit each other.
    """
    if isinstance(data, str | Path):
        return open_files(Path(data), schema)
    if isinstance(data, Mapping):
        return pa.table(_columns(dict(data), schema)).to_reader()
    if type(data).__name__ == "LazyFrame" and callable(getattr(data, "collect", None)):
        return pa.RecordBatchReader.from_stream(data.collect())
    if isinstance(data, Iterator) or (isinstance(data, Sequence) and not isinstance(data, bytes | bytearray)):
        return _open_records(iter(data), schema)
    return None


def open_files(path: Path, schema: pa.Schema | None, csv: CsvFormat | None = None) -> pa.RecordBatchReader:
    """Open a file, or the files of a folder.

    Args:
        path: The file or folder.
        schema: The types of columns by name, where they are known.
        csv: How CSV files are written.

    Raises:
        NotFoundError: There is no such file.
        SchemaError: They cannot be read, or are of different kinds.
    """
    if not path.exists():
        raise NotFoundError(f"there is no file {str(path)!r} to read rows from", location=str(path))
    files = [path] if path.is_file() else sorted(found for found in path.rglob("*") if _kind(found) in _FORMATS)
    kinds = {_kind(found) for found in files}
    if kinds - {".json"} and path.is_dir():  # beside files of rows, it describes them
        kinds.discard(".json")
        files = [found for found in files if _kind(found) in kinds]
    if len(kinds) != 1 or not kinds <= _FORMATS.keys():
        named = ", ".join(sorted(kinds)) or "none"
        raise SchemaError(f"{str(path)!r}: rows are read from files of one of {', '.join(_FORMATS)}, found {named}")
    format_ = _FORMATS[kinds.pop()]
    if format_ != "csv" and csv is not None and csv != CsvFormat():
        raise SchemaError(f"{str(path)!r}: options are of CSV files, found {format_}")
    csv = csv or CsvFormat()
    known = {field.name: field.type for field in schema or () if _is_text_type(field.type)}
    try:
        if format_ == "csv":
            reader = open_csv(files, known, csv)
        else:
            reader = _open_dataset(files, format_, known)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise SchemaError(f"{str(path)!r} cannot be read: {reason(error, files, csv)}") from error
    return pa.RecordBatchReader.from_batches(reader.schema, _read(reader, path, files, csv))


def _open_dataset(files: list[Path], format_: str, known: Mapping[str, pa.DataType]) -> pa.RecordBatchReader:
    """The rows of files that have no other columns than the first: PyArrow leaves such columns out.

    Raises:
        SchemaError: A file has one.
    """
    from pyarrow import dataset

    found = dataset.dataset(list(map(str, files)), format=format_)
    if format_ == "json":  # a key may also appear later in a file
        types = (
            known.get(field.name, field.type) if pa.types.is_null(field.type) else field.type for field in found.schema
        )
        schema = pa.schema([field.with_type(type_) for field, type_ in zip(found.schema, types, strict=True)])
        return pa.RecordBatchReader.from_batches(schema, _json_batches(files, schema))
    for fragment in found.get_fragments():
        more = [name for name in fragment.physical_schema.names if name not in found.schema.names]
        if more:
            raise SchemaError(
                f"{fragment.path!r} has columns that {str(files[0])!r} has not: {', '.join(more)}; append them apart"
            )
    reader: pa.RecordBatchReader = found.scanner().to_reader()
    return reader


def _json_batches(files: list[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    from pyarrow import json

    options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    for file in files:
        try:
            with pa.input_stream(str(file)) as stream:
                for batch in json.open_json(stream, parse_options=options):
                    yield batch.select(schema.names)
        except pa.ArrowInvalid as error:
            if "unexpected field" not in str(error):
                raise
            raise SchemaError(
                f"{str(file)!r}: a record has a key that the first ones lack; write every key in the first record, "
                "null if it has no value"
            ) from error


def _kind(file: Path) -> str:
    """The extension, before that of a compression of text."""
    inner = Path(file.stem).suffix
    return inner if file.suffix in _COMPRESSED and _FORMATS.get(inner) in ("csv", "json") else file.suffix


def _read(reader: pa.RecordBatchReader, path: Path, files: list[Path], csv: CsvFormat) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise SchemaError(f"{str(path)!r} cannot be read: {reason(error, files, csv)}") from error


def _is_text_type(type_: pa.DataType) -> bool:
    """Whether the values of a CSV file are read as this type; others keep the type that PyArrow finds."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_string)
    return any(test(type_) for test in (*tests, pa.types.is_date, pa.types.is_timestamp))


def _open_records(data: Iterator[Any], schema: pa.Schema | None) -> pa.RecordBatchReader | None:
    first = next(data, None)
    if first is None:
        return (pa.schema([]) if schema is None else schema).empty_table().to_reader()
    if isinstance(first, pa.RecordBatch | pa.Table):
        batches = (part for each in itertools.chain((first,), data) for part in _batches_of(each))
        return pa.RecordBatchReader.from_batches(first.schema, batches)
    if not isinstance(first, Mapping):
        return None
    records: Iterator[Any] = itertools.chain((first,), data)
    chunks: Iterator[list[Any]] = iter(lambda: list(itertools.islice(records, _RECORDS)), [])
    begin = _batch(next(chunks), schema, None)
    rest = (_batch(chunk, schema, begin.schema) for chunk in chunks)
    return pa.RecordBatchReader.from_batches(begin.schema, itertools.chain((begin,), rest))


def _batches_of(data: Any) -> Iterable[pa.RecordBatch]:
    if isinstance(data, pa.RecordBatch):
        return (data,)
    if isinstance(data, pa.Table):
        batches: list[pa.RecordBatch] = data.to_batches()
        return batches
    raise SchemaError(f"an iterator of Arrow batches gave {type(data).__name__}")


def _batch(records: list[Any], schema: pa.Schema | None, wanted: pa.Schema | None) -> pa.RecordBatch:
    """Records as a batch; a record that lacks a column has a null there."""
    if not all(isinstance(record, Mapping) for record in records):
        other = next(record for record in records if not isinstance(record, Mapping))
        raise SchemaError(f"an iterator of records gave {type(other).__name__}: {other!r:.60}")
    names = list(dict.fromkeys(name for record in records for name in record))
    if wanted is not None:
        unknown = [name for name in names if name not in wanted.names]
        if unknown:
            raise SchemaError(f"a record has the column {unknown[0]!r}, which the first {_RECORDS:,} records lack")
        names = wanted.names
    columns = _columns({name: [record.get(name) for record in records] for name in names}, wanted or schema)
    return pa.record_batch(columns)


def _columns(values: dict[str, Any], schema: pa.Schema | None) -> dict[str, pa.Array]:
    """Columns of the types that a schema has for them, else of those that their values have."""
    found = {}
    for name, column in values.items():
        known = schema.field(name).type if schema is not None and name in schema.names else None
        try:
            found[name] = pa.array(column, known)
        except (pa.ArrowException, TypeError, OverflowError, AttributeError, ValueError) as error:
            try:
                found[name] = pa.array(column)  # what does not fit is said where it is converted
            except (pa.ArrowException, TypeError, OverflowError):
                raise SchemaError(f"column {name!r} has values of different types: {error}") from error
    return found
