"""Manifests, their lists and index manifests in ORC, as tables with `manifest.format` = `orc` have them.

Spec: docs/formats/paimon.md § 5.8; Paimon documentation, Configurations, `manifest.format`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from skerry.errors import FormatError, UnsupportedError
from skerry.table.files.orc_arrays import rebuild_nested

__all__ = ["ORC_MAGIC", "decode_orc", "encode_orc"]

ORC_MAGIC: Final = b"ORC"
_CODECS: Final = {"none": "uncompressed", **{name: name for name in ("zstd", "snappy", "zlib", "lz4")}}
_MAX_ROWS_PER_BYTE: Final = 1024
"""Runs of equal values take hardly any bytes, but names of files are not equal."""
_TINY: Final = ("_KIND", "_FILE_SOURCE")
"""Fields that are TINYINT in Java; Avro does not have that type."""
_VERSION_ID: Final = -1
_NESTED_ID_BASE: Final = 536_870_911
_IDS_PER_COLUMN: Final = 1024


def decode_orc(data: bytes, names: Sequence[str], *, location: str | None = None) -> pa.RecordBatch:
    """Decode a file into columns.

    Args:
        data: The file.
        names: The columns to read; those that it lacks are left out.
        location: The file, for messages.

    Raises:
        FormatError: It is not ORC, or is corrupt.
    """
    from pyarrow import orc  # needed by few tables

    try:
        file = orc.ORCFile(pa.BufferReader(data))
        if file.nrows > _MAX_ROWS_PER_BYTE * len(data):
            raise FormatError(f"the file claims {file.nrows} rows in {len(data)} bytes", location=location)
        table = file.read([name for name in names if name in file.schema.names])
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"the file is not ORC, or corrupt: {error}", location=location) from error
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def encode_orc(rows: pa.Table, *, compression: str) -> bytes:
    """Encode a file.

    Args:
        rows: Its columns, the version first.
        compression: The option `manifest.compression`.

    Raises:
        UnsupportedError: The compression is unknown.
    """
    from pyarrow import orc

    codec = _CODECS.get(compression)
    if codec is None:
        raise UnsupportedError(f"table option manifest.compression={compression} is not supported for ORC")
    schema = pa.schema(_numbered(list(rows.schema), _VERSION_ID))
    sink = pa.BufferOutputStream()
    writer = orc.ORCWriter(sink, compression=codec)
    # a writer that has received no rows does not know its columns
    writer.write(schema.empty_table())
    writer.write(rebuild_nested(rows.cast(schema)))
    writer.close()
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _numbered(fields: Sequence[pa.Field], first_id: int) -> list[pa.Field]:
    """Fields as Java writes them in ORC: small integers, and ids in the order of the fields."""
    return [_field(field, number, number) for number, field in enumerate(fields, first_id)]


def _field(field: pa.Field, number: int, column: int) -> pa.Field:
    type_ = pa.int8() if field.name in _TINY else field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct(_numbered(list(type_), 0))
    elif pa.types.is_list(type_):
        type_ = pa.list_(_field(type_.value_field, _NESTED_ID_BASE + _IDS_PER_COLUMN * column + 1, column))
    return pa.field(field.name, type_, metadata={"paimon.id": str(number)})
