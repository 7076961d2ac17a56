"""`open_table`: a table by its location, without a catalog, to read it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skerry.catalog.pickling import Opening
from skerry.errors import NotFoundError, SchemaError
from skerry.iceberg.metadata.newest_file import is_metadata_file
from skerry.paimon.metadata.paths import TablePaths
from skerry.paimon.metadata.schemas import schema_ids
from skerry.storage import READ_ONLY, Storage, absolute, allow_locations, check_options
from skerry.storage import allowed_locations as locations_of
from skerry.table.table import Table

if TYPE_CHECKING:
    from skerry.encryption import KeyManagement

__all__ = ["open_table"]

_FILE_REASON: Final = "a file was opened as a table, to be read; it cannot be changed"
_REASON: Final = "the table was opened by its location, to be read; to change it, load it from its catalog"


def open_table(
    location: str | os.PathLike[str],
    *,
    allowed_locations: Sequence[str] = (),
    key_management: KeyManagement | str | None = None,
    **properties: str,
) -> Table:
    """Open a table by its location, or a data file, without a catalog. It can be read, and nothing else.

    Args:
        location: The folder of an Iceberg or Paimon table, or a metadata file of an Iceberg table (which stays at that
            state). A folder that was copied or moved is read where it is. A Parquet file or an Amudai shard that is in
            no table is opened as a table of that file; only its metadata is read, so that counts of distinct values
            are absent.

            Which state of an Iceberg table is current, only its catalog knows: of a folder, the metadata file with the
            highest number is read, which may be one that was never committed. Tables of a file system, and Paimon
            tables, are their own catalog.
        allowed_locations: Folders outside of the table's own location from which its files may be read.
        key_management: Who decrypts the keys of an encrypted Iceberg table: see `connect`.
        properties: Storage options, such as `**{"s3.endpoint": …}`.

    Returns:
        The table; `refresh()` looks for a newer state.

    Raises:
        FormatError: Several metadata files may be the newest, or one cannot be read.
        NotFoundError: There is no table.
        SchemaError: `location` is not a location, or `allowed_locations` not a list of them; there is no such
            `key_management`; or a column of the file has a type that no table has.
        UnsupportedError: The table needs what skerry does not support.
    """
    text = os.fspath(location) if isinstance(location, str | os.PathLike) else ""
    if not text:
        raise SchemaError(f"location must be a folder or a metadata file, found {location!r}")
    place = absolute(Path(text).expanduser() if text.startswith("~") else text)
    check_options(properties)
    found = _open(place, allow_locations(allowed_locations), key_management, properties)
    given = {"allowed_locations": list(allowed_locations), "key_management": key_management, **properties}
    given = {name: value for name, value in given.items() if value}
    found._opening = Opening(open_table, place, given)  # noqa: SLF001  what has no catalog is opened here
    return found


def _open(
    place: str, allowed: dict[str, str], key_management: KeyManagement | str | None, properties: dict[str, str]
) -> Table:
    options = {**properties, **allowed, READ_ONLY: _REASON}
    storage = Storage(options, locations_of(options))
    if not is_metadata_file(place) and schema_ids(storage, TablePaths(place)):
        from skerry.paimon.table import PaimonTable

        return PaimonTable.open(storage, place)
    from skerry.iceberg.catalogs.opening import key_ring_of
    from skerry.iceberg.catalogs.static import StaticCatalog
    from skerry.iceberg.handle import IcebergHandle
    from skerry.iceberg.table import IcebergTable

    catalog = StaticCatalog(place, options, _REASON)
    catalog.key_ring = key_ring_of(key_management, options)
    try:
        return IcebergTable(IcebergHandle(catalog, catalog.identifier))
    except NotFoundError:
        from skerry.catalog.file_opening import open_file

        found = open_file(place, properties, _FILE_REASON)
        if found is None:
            raise
        return found
