"""Metadata files: manifests, their lists, index manifests; read as columns, and written from them.

They are Avro, or ORC by the option `manifest.format`; a reader detects the format from the bytes.

Fields are found by name. Missing fields are null if they are optional; unknown ones are ignored, since every version of
Paimon adds some.

Spec: docs/formats/paimon.md § 5.1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.avro import ContainerEncoder, read_columns
from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.paimon.manifests.cache import read_cached
from skerry.paimon.manifests.orc_metadata import ORC_MAGIC, decode_orc, encode_orc
from skerry.paimon.metadata.options import CoreOptions
from skerry.storage import Storage

__all__ = [
    "MetadataEncoding",
    "decode_metadata",
    "encode_metadata",
    "list_of",
    "read_metadata",
    "required",
    "stats_struct",
    "to_batch",
]

_VERSION_FIELD: Final = "_VERSION"
_RULE: Final = "docs/formats/paimon.md § 5.1"

_FEW_ROWS: Final = 32
"""Up to this many rows are encoded one by one: columns have a fixed cost, some milliseconds for a manifest."""

_CODECS: Final = {"zstd": "zstandard", "none": "null", "deflate": "deflate", "snappy": "snappy", "null": "null"}
"""Avro's names for the values of `manifest.compression`."""


def required(name: str, type_: pa.DataType) -> pa.Field:
    """A column that is never null."""
    return pa.field(name, type_, nullable=False)


def list_of(type_: pa.DataType) -> pa.DataType:
    """A list type without null elements."""
    return pa.list_(pa.field("item", type_, nullable=False))


def stats_struct() -> pa.StructType:
    """The column type of SimpleStats."""
    return pa.struct(
        [
            required("_MIN_VALUES", pa.binary()),
            required("_MAX_VALUES", pa.binary()),
            pa.field("_NULL_COUNTS", pa.list_(pa.int64())),
        ]
    )


def read_metadata(
    storage: Storage, location: str, schema: pa.Schema, version: int, *, size: int | None = None
) -> pa.RecordBatch:
    """Read a file as columns.

    Args:
        storage: Access to the file.
        location: The file.
        schema: The columns to read, with the fields of structs.
        version: The expected `_VERSION`.
        size: Its size in bytes by the metadata that names it; None if not recorded.

    Raises:
        NotFoundError: The file does not exist.
        FormatError: It is corrupt, or not of that size.
        UnsupportedError: Its version is unknown.
    """
    kind = f"{version} {schema.names}"
    return read_cached(
        storage, location, kind, size, lambda data: decode_metadata(data, schema, version, location=location)
    )


def decode_metadata(data: bytes, schema: pa.Schema, version: int, *, location: str | None = None) -> pa.RecordBatch:
    """Decode a file into columns; see `read_metadata`."""
    names = [_VERSION_FIELD, *schema.names]
    if data.startswith(ORC_MAGIC):
        batch = decode_orc(data, names, location=location)
    else:
        batch = read_columns(data, names, ignore_missing=True, location=location)
    try:
        _check_version(batch, version)
        columns = [
            _conform(batch.column(field.name) if field.name in batch.schema.names else None, field, batch.num_rows)
            for field in schema
        ]
    except (FormatError, UnsupportedError) as error:
        error.location = location
        raise
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _check_version(batch: pa.RecordBatch, version: int) -> None:
    if _VERSION_FIELD not in batch.schema.names:
        raise FormatError(f"field {_VERSION_FIELD} is missing", rule=_RULE)
    if batch.num_rows == 0:
        return
    others = [found for found in pc.unique(batch.column(_VERSION_FIELD)).to_pylist() if found != version]
    if others:
        raise UnsupportedError(f"version {others[0]} is not supported, only {version}")


def _conform(array: pa.Array | None, field: pa.Field, count: int, around: pa.StructArray | None = None) -> pa.Array:
    """Convert a column to a field's type; a missing one is null.

    Args:
        array: The column; None if the file lacks it.
        field: The field.
        count: Its rows.
        around: The structs that it is a member of; members of null structs are null.

    Raises:
        FormatError: It has another type, or a null in a required field.
    """
    if array is None:
        if not field.nullable:
            raise FormatError(f"field {field.name} is missing", rule=_RULE)
        return pa.nulls(count, field.type)
    if not field.nullable and array.null_count > (around.null_count if around is not None else 0):
        raise FormatError(f"field {field.name} is null", rule=_RULE)
    if pa.types.is_struct(field.type) and pa.types.is_struct(array.type):
        names = [child.name for child in array.type]
        children = [
            _conform(array.field(names.index(child.name)) if child.name in names else None, child, count, array)
            for child in field.type
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(field.type), mask=mask)
    if array.type == field.type:
        return array
    if pa.types.is_list(field.type) and pa.types.is_list(array.type):
        items = _conform(array.values, field.type.value_field, len(array.values))
        return pa.ListArray.from_arrays(array.offsets, items, type=field.type, mask=array.is_null())
    try:
        return array.cast(field.type)
    except pa.ArrowException as error:
        raise FormatError(f"field {field.name} is of type {array.type}, expected {field.type}", rule=_RULE) from error


# Writing ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetadataEncoding:
    """Format and compression of a table's metadata files.

    Args:
        file_format: The option `manifest.format`.
        compression: The option `manifest.compression`.
    """

    file_format: str = "avro"
    compression: str = "zstd"

    @classmethod
    def from_options(cls, options: CoreOptions) -> MetadataEncoding:
        """The encoding by a table's options."""
        return cls(options.manifest_format, options.manifest_compression)


def encode_metadata(batch: pa.RecordBatch, version: int, encoding: MetadataEncoding | None = None) -> bytes:
    """Encode a file.

    Args:
        batch: Its columns, without the version; required ones are not nullable.
        version: The version.
        encoding: Its format and compression; Paimon's defaults if None.

    Raises:
        SchemaError: A required column is null.
        UnsupportedError: The compression is unknown.
    """
    encoding = encoding or MetadataEncoding()
    versions = pa.repeat(pa.scalar(version, pa.int32()), batch.num_rows)
    schema = pa.schema([pa.field(_VERSION_FIELD, pa.int32(), nullable=False), *batch.schema])
    rows = pa.Table.from_arrays([versions, *batch.columns], schema=schema)
    if encoding.file_format == "orc":
        for column, field in zip(rows.columns, schema, strict=True):
            _check_required(column, field)
        return encode_orc(rows, compression=encoding.compression)
    codec = _CODECS.get(encoding.compression)
    if codec is None:
        raise UnsupportedError(f"table option manifest.compression={encoding.compression} is not supported")
    encoder = ContainerEncoder(_avro_schema(schema), codec=codec)
    few = len(rows) <= _FEW_ROWS
    blocks = encoder.encode(_numbered(rows).to_pylist()) if few else encoder.encode_columns(rows)
    return b"".join([encoder.header, *blocks])


def _check_required(column: pa.ChunkedArray | pa.Array, field: pa.Field) -> None:
    """Refuse nulls in required fields, members of structs included; ORC does not check that itself."""
    if not field.nullable and column.null_count:
        raise SchemaError(f"field {field.name} is null", rule=_RULE)
    if pa.types.is_struct(field.type):
        present = column.drop_null() if column.null_count else column
        for member, values in zip(field.type, present.flatten(), strict=True):
            _check_required(values, member)


def to_batch(records: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Convert records to columns.

    Args:
        records: One sequence or mapping of values per record, in the order of the schema.
        schema: The columns.

    Raises:
        SchemaError: A value does not fit its column.
    """
    columns = zip(*records, strict=True) if records else ((),) * len(schema)
    try:
        arrays = [pa.array(list(values), field.type) for values, field in zip(columns, schema, strict=True)]
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise SchemaError(f"a record does not fit the metadata: {error}", rule=_RULE) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _numbered(rows: pa.Table) -> pa.Table:
    """Rows with integers instead of timestamps, which as Python objects would have the local time zone.

    Every column is nullable: nulls in required ones are found by the Avro schema.
    """
    columns = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        type_ = _numbered_type(column.type)
        columns[name] = column if type_ == column.type else column.cast(type_)
    return pa.table(columns)


def _numbered_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _numbered_type(field.type)) for field in type_])
    return pa.int64() if pa.types.is_timestamp(type_) else type_


_KNOWN_SCHEMAS: Final[list[tuple[pa.Schema, str]]] = []
"""Schemas that were written, with their Avro schemas: there are a few kinds of files."""


def _avro_schema(schema: pa.Schema) -> str:
    """The Avro schema of a file, as JSON."""
    for known, text in _KNOWN_SCHEMAS:
        if known.equals(schema):
            return text
    kind, name, *fields = _record("record", schema).items()
    text = json.dumps(dict([kind, name, ("namespace", _NAMESPACE), *fields]), separators=(",", ":"))
    _KNOWN_SCHEMAS.append((schema, text))
    return text


_NAMESPACE: Final = "org.apache.paimon.avro.generated"


def _record(name: str, fields: Iterable[pa.Field]) -> dict[str, Any]:
    """The Avro schema of records; nested ones are named after their path, as Java does."""
    return {"type": "record", "name": name, "fields": [_field(name, field) for field in fields]}


def _field(parent: str, field: pa.Field) -> dict[str, Any]:
    type_ = _type(f"{parent}_{field.name}", field)
    return {"name": field.name, "type": type_, **({"default": None} if field.nullable else {})}


def _type(path: str, field: pa.Field) -> Any:
    type_ = field.type
    if pa.types.is_struct(type_):
        plain: Any = _record(path, type_)
    elif pa.types.is_list(type_):
        plain = {"type": "array", "items": _type(path, type_.value_field)}
    else:
        plain = _AVRO_TYPES[type_]
    return ["null", plain] if field.nullable else plain


_AVRO_TYPES: Final[dict[pa.DataType, Any]] = {
    pa.int32(): "int",
    pa.int64(): "long",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.timestamp("ms"): {"type": "long", "logicalType": "timestamp-millis"},
}
