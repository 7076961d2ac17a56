"""Raw data as frames: CSV, JSON, Parquet and ORC files, read with the table's schema if there is one; databases.

A record that does not fit ends the job that reads it. Spark's readers keep such a record's text in a column, and a
filter on that column refuses it, so that the check needs no extra pass over the data. The
filter knows the file and the text; `skerry.spark.writing.bad_records` then looks for line, column and value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DecimalType, StringType, StructField, StructType

from skerry.errors import FormatError, NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.spark.runtime.failures import RefusedRecordError, error_of, original_errors, refuse
from skerry.spark.runtime.settings import changed_settings
from skerry.spark.schema import to_arrow_schema, to_spark_type, written_by_spark
from skerry.spark.writing.bad_records import RecordFormat, explain, plain_location
from skerry.spark.writing.jdbc import JdbcConnection
from skerry.spark.writing.spark_writer import unused_name
from skerry.table.rows.schema import nearest

__all__ = ["FORMATS", "Source", "detect_format", "infer_schema", "open_source"]

FORMATS = ("csv", "json", "parquet", "orc", "jdbc")

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".orc": "orc",
}
_COMPRESSED = frozenset({".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate"})

# Spark ignores unknown options; a misspelt one would go unnoticed.
_FILE_OPTIONS = "pathGlobFilter recursiveFileLookup modifiedBefore modifiedAfter ignoreCorruptFiles ignoreMissingFiles"
_TEXT_OPTIONS = (
    "encoding charset lineSep locale dateFormat timestampFormat timestampNTZFormat timeFormat timeZone multiLine "
    "enableDateTimeParsingFallback samplingRatio compression"
)
_OPTIONS = {
    "csv": (
        "sep delimiter quote escape charToEscapeQuoteEscaping comment header ignoreLeadingWhiteSpace "
        "ignoreTrailingWhiteSpace nullValue nanValue positiveInf negativeInf emptyValue maxColumns maxCharsPerColumn "
        f"unescapedQuoteHandling preferDate inputBufferSize {_TEXT_OPTIONS} {_FILE_OPTIONS}"
    ).split(),
    "json": (
        "primitivesAsString prefersDecimal allowComments allowUnquotedFieldNames allowSingleQuotes "
        "allowNumericLeadingZeros allowBackslashEscapingAnyCharacter allowUnquotedControlChars "
        "allowNonNumericNumbers inferTimestamp dropFieldIfAllNull useUnsafeRow maxNestingDepth maxNumLen maxStringLen "
        f"{_TEXT_OPTIONS} {_FILE_OPTIONS}"
    ).split(),
    "parquet": f"mergeSchema datetimeRebaseMode int96RebaseMode {_FILE_OPTIONS}".split(),
    "orc": f"mergeSchema {_FILE_OPTIONS}".split(),
}
_OURS = {"mode", "columnnameofcorruptrecord", "inferschema", "enforceschema"}

_SAMPLE_RECORDS = 1000
_LONGEST_RECORD = 1 << 20  # characters


@dataclass(frozen=True, slots=True)
class Source:
    """Incoming rows.

    Args:
        frame: The rows, with the source's column names.
        origin: The file that a row comes from; None if that is unknown.
        format: How records that may not fit are parsed; None if they have types of their own.
        database: The database that the rows come from, if any.
    """

    frame: DataFrame
    origin: Column | None = None
    format: RecordFormat | None = None
    database: JdbcConnection | None = None

    def error(self, failure: BaseException) -> SkerryError | None:
        """The error of skerry that ended a job over the frame, with line, column and value; None for other errors."""
        error = failure if isinstance(failure, SkerryError) else error_of(failure)
        if isinstance(error, RefusedRecordError) and self.format is not None:
            return explain(self.frame.sparkSession, self.format, error)
        if error is None and self.database is not None:
            return self.database.error(failure)
        return error or _file_error(failure)


def detect_format(source: str) -> str:
    """The format named by a path's extension.

    Raises:
        UnsupportedError: It names none.
    """
    suffixes = [suffix.lower() for suffix in PurePosixPath(source.rstrip("/*")).suffixes]
    while suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    found = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if found is None:
        raise UnsupportedError(
            f"the source's name does not show its format; give it (format, --format): {' or '.join(FORMATS)}",
            location=source,
        )
    return found


def open_source(
    spark: SparkSession,
    source: str,
    *,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    schema: pa.Schema | None = None,
) -> Source:
    """Open files as a frame.

    CSV files have a header line unless the option `header` says no; it is compared with the table, and the header of
    every other file with that of the first. JSON files have one object per line unless `multiLine` says otherwise;
    their keys are compared with the table in the first 1,000 records.

    Args:
        spark: The session.
        source: A file, a folder or a glob, at any location that the session's Hadoop can read; for a database a table
            or a query.
        format: `csv`, `json`, `parquet`, `orc` or `jdbc`; by the path's extension if None.
        options: Options of Spark's reader of that format.
        schema: The table's schema; types are inferred if None.

    Raises:
        NotFoundError: The file does not exist.
        SchemaError: Columns do not fit the table.
        MissingDependencyError: The session has no driver for a database.
        StorageError: A database cannot be reached, or refuses.
        UnsupportedError: The format or an option is unknown; the nearest is proposed.
    """
    if (format or "").lower() == "jdbc":
        database = JdbcConnection(options or {})
        return Source(database.read(spark, source), database=database)
    format, options = _checked(source, format, options)
    with _read_errors(source):
        if format in ("parquet", "orc"):
            return Source(spark.read.format(format).options(**options).load(source))
        if schema is None:
            schema = infer_schema(spark, source, format=format, options=options)
        names = _names_in_source(spark, source, format, options, schema)
        wanted = {field.name: field for field in schema}
        for name in names:
            if name not in wanted:
                raise SchemaError(f"the table has no column {name!r}{nearest(name, wanted)}", location=source)
        fields = [StructField(name, _readable_type(format, wanted[name])) for name in names]
        return _refusing(spark, source, format, options, fields, schema)


def infer_schema(
    spark: SparkSession, source: str, *, format: str | None = None, options: Mapping[str, str] | None = None
) -> pa.Schema:
    """Infer the schema of a table for files. CSV and JSON files are read once for it.

    Times of day without a zone become timestamps without one.

    Args:
        spark: The session.
        source: As in `open_source`.
        format: As in `open_source`.
        options: As in `open_source`.

    Raises:
        NotFoundError: The file does not exist.
        SchemaError: A column has a type that tables cannot store, or there are no columns.
        UnsupportedError: The format or an option is unknown.
    """
    if (format or "").lower() == "jdbc":
        return to_arrow_schema(JdbcConnection(options or {}).read(spark, source).schema)
    format, options = _checked(source, format, options)
    reader = spark.read.format(format).options(**options)
    if format == "csv":
        reader = reader.option("inferSchema", "true")
    with _read_errors(source), changed_settings(spark, {"spark.sql.timestampType": "TIMESTAMP_NTZ"}):
        schema = to_arrow_schema(reader.load(source).schema)
    if not len(schema):
        raise SchemaError("there are no columns", location=source)
    return schema


def _checked(source: str, format: str | None, options: Mapping[str, str] | None) -> tuple[str, dict[str, str]]:
    """The format and its options, with our defaults."""
    format = detect_format(source) if format is None else format.lower()
    if format not in FORMATS:
        raise UnsupportedError(f"format={format!r} is not supported{nearest(format, FORMATS)}")
    known = {option.lower() for option in _OPTIONS[format]}
    for option in options or {}:
        if option.lower() in _OURS:
            raise UnsupportedError(f"the {format} option {option!r} cannot be set: the table's schema decides")
        if option.lower() not in known:
            raise UnsupportedError(f"there is no {format} option {option!r}{nearest(option, _OPTIONS[format])}")
    result = {} if format != "csv" else {"header": "true", **({"sep": "\t"} if ".tsv" in source.lower() else {})}
    given = {option.lower(): option for option in options or {}}
    if "delimiter" in given:
        result.pop("sep", None)
    result = {option: value for option, value in result.items() if option not in given}
    return format, result | {option: str(value) for option, value in (options or {}).items()}


@contextmanager
def _read_errors(source: str) -> Iterator[None]:
    """Convert Spark's errors about files to errors of skerry."""
    try:
        with original_errors():
            yield
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise NotFoundError("file does not exist", location=source) from None
        raise SkerryError(f"Spark cannot read it: {error}", location=source) from error
    except Py4JJavaError as error:
        found = _file_error(error)
        if found is None:
            raise
        raise found from None


def _names_in_source(
    spark: SparkSession, source: str, format: str, options: Mapping[str, str], schema: pa.Schema
) -> list[str]:
    """The columns of the files; those of a CSV file in order."""
    lower = {option.lower(): value for option, value in options.items()}
    if format == "csv":
        return schema.names if lower["header"].lower() == "false" else spark.read.options(**options).csv(source).columns
    if lower.get("multiline", "false").lower() == "true":
        found = spark.read.options(**options).json(source).columns
    else:
        lines = spark.read.options(**_only(options, _FILE_OPTIONS + " lineSep encoding")).text(source)
        keys = lines.limit(_SAMPLE_RECORDS).select(sf.explode(sf.json_object_keys("value")).alias("key"))
        found = [row.key for row in keys.distinct().collect()]
    return [*schema.names, *sorted(set(found).difference(schema.names))]


def _only(options: Mapping[str, str], names: str) -> dict[str, str]:
    wanted = {name.lower() for name in names.split()}
    return {option: value for option, value in options.items() if option.lower() in wanted}


def _readable_type(format: str, field: pa.Field) -> DataType:
    """The type to read a column as: the table's, but with more decimals, so that none is silently rounded.

    Raises:
        UnsupportedError: Text of this format cannot represent such values.
    """
    nested = pa.types.is_nested(field.type)
    if not (written_by_spark(pa.schema([field])) or (nested and format == "json")) or (nested and format == "csv"):
        raise UnsupportedError(f"column {field.name!r}: {field.type} cannot be read from {format}")
    return _widened(to_spark_type(field.type))


def _widened(type_: DataType) -> DataType:
    if isinstance(type_, DecimalType):
        return DecimalType(38, 38 - (type_.precision - type_.scale))
    if isinstance(type_, StructType):
        return StructType([StructField(field.name, _widened(field.dataType), True) for field in type_])
    return type_


def _refusing(
    spark: SparkSession,
    source: str,
    format: str,
    options: Mapping[str, str],
    fields: Sequence[StructField],
    schema: pa.Schema,
) -> Source:
    """Read records with given types; one that does not fit ends the job."""
    corrupt = unused_name("corrupt", [field.name for field in fields])
    lower = {option.lower(): value for option, value in options.items()}
    read_as = RecordFormat(format, lower, tuple(fields), {field.name: str(field.type) for field in schema})
    reader = spark.read.format(format).schema(StructType([*fields, StructField(corrupt, StringType())]))
    reader = reader.options(**options).options(mode="PERMISSIVE", columnNameOfCorruptRecord=corrupt)
    if read_as.has_header:
        reader = reader.option("enforceSchema", "false")  # every file's header is compared with the names
    frame = reader.load(source)
    origin = sf.input_file_name()
    text = sf.col(corrupt)
    refused = refuse(record=sf.left(text, sf.lit(_LONGEST_RECORD)), location=origin)
    return Source(frame.where(sf.when(text.isNull(), True).otherwise(refused)).drop(corrupt), origin, read_as)


# Spark's own errors about files --------------------------------------------------------------------------------------

_HEADER = re.compile(r"CSV header does not conform to the schema.*?Expected: (.*?) but found: (.*?)\n", re.DOTALL)
_HEADER_LENGTH = re.compile(r"CSV header is not equal to.*?Header length: (\d+), schema size: (\d+)", re.DOTALL)
_CSV_FILE = re.compile(r"CSV file: (\S+)")
_READING = re.compile(r"FAILED_READ_FILE.*?while reading file (\S+?)\.?\s", re.DOTALL)


def _file_error(failure: BaseException) -> SkerryError | None:
    """The error for a file that Spark cannot read."""
    text = str(failure)
    file = _CSV_FILE.search(text)
    location = None if file is None else plain_location(file[1])
    if found := _HEADER.search(text):
        return SchemaError(f"the header has column {found[2]!r} where other files have {found[1]!r}", location=location)
    if found := _HEADER_LENGTH.search(text):
        return SchemaError(f"the header has {found[1]} columns, other files have {found[2]}", location=location)
    if found := _READING.search(text):
        _, _, cause = text.rpartition("Caused by: ")[2].partition("\n")[0].partition(": ")
        return FormatError(f"the file cannot be read{f': {cause}' if cause else ''}", location=plain_location(found[1]))
    return None
