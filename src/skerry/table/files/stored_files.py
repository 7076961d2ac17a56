"""Opening of data files in all supported formats."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from skerry.encryption import KeyMetadata, decode_key_metadata
from skerry.errors import UnsupportedError
from skerry.storage import Storage
from skerry.table.files.avro_file import open_avro
from skerry.table.files.evolution import NameMapping
from skerry.table.files.orc_file import open_orc
from skerry.table.files.parquet_file import open_parquet
from skerry.table.files.stored_file import StoredFile

__all__ = ["open_stored", "read_columns"]


def _open_amudai(storage: Storage, location: str, wanted: pa.Schema, names: NameMapping | None) -> StoredFile:
    from skerry.table.files.amudai_file import open_amudai  # imports protobuf and more, which few tables need

    return open_amudai(storage, location, wanted, names)


_OPEN: dict[str, Callable[[Storage, str, pa.Schema, NameMapping | None], StoredFile]] = {
    "parquet": open_parquet,
    "orc": open_orc,
    "avro": open_avro,
    "amudai": _open_amudai,
}
_OPEN_ENCRYPTED: dict[str, Callable[[Storage, str, pa.Schema, NameMapping | None, KeyMetadata], StoredFile]] = {
    "parquet": open_parquet,
    "avro": open_avro,
}


def open_stored(
    storage: Storage,
    location: str,
    file_format: str,
    wanted: pa.Schema,
    names: NameMapping | None,
    *,
    key_metadata: bytes | None = None,
) -> StoredFile:
    """Open a file; see `skerry.table.files.parquet_file.open_parquet`.

    Raises:
        UnsupportedError: Its format cannot be read, or not if it is encrypted.
    """
    if key_metadata is not None:
        decrypted = _OPEN_ENCRYPTED.get(file_format)
        if decrypted is None:
            raise UnsupportedError(f"encrypted {file_format} files are not supported", location=location)
        return decrypted(storage, location, wanted, names, decode_key_metadata(key_metadata, location=location))
    opened = _OPEN.get(file_format)
    if opened is None:
        raise UnsupportedError(f"reading {file_format} files is not supported", location=location)
    return opened(storage, location, wanted, names)


def read_columns(storage: Storage, location: str, file_format: str, names: NameMapping | None) -> tuple[pa.Schema, int]:
    """Read a file's columns with their field ids, and its number of rows; only its metadata is read.

    Args:
        storage: Access to it.
        location: The file.
        file_format: Parquet or ORC.
        names: Field ids by name, for a file without ids; None refuses such a file.

    Raises:
        FormatError: It is corrupt.
        NotFoundError: It is missing.
        SchemaError: It has no field ids, and there is no name mapping.
        UnsupportedError: It is encrypted, or of another format.
    """
    nothing = pa.schema([])
    if file_format == "parquet":
        parquet = open_parquet(storage, location, nothing, names)
        return parquet.schema, parquet.row_count
    if file_format == "orc":
        orc = open_orc(storage, location, nothing, names)
        return orc.schema, orc.row_count
    raise UnsupportedError(f"reading only the columns of {file_format} files is not supported", location=location)
