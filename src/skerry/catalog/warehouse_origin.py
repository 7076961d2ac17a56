"""The folder that a catalog was created for, recorded in the catalog's own database.

Iceberg names files by absolute locations, so that the catalog of a folder that was copied or moved refers to the files
of the original folder. The database records that folder; if it is older than this record, the folder is derived from
the locations of its tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from skerry.databases.sql_database import SqlConnection, SqlDatabase
from skerry.errors import CatalogLockedError, CommitUnknownError, NotFoundError, StorageError
from skerry.storage import Move, local_path

__all__ = ["CATALOG_FILE", "metadata_locations", "moved_from", "record_folder"]

CATALOG_FILE = "catalog.db"
_READ = "SELECT place FROM skerry_warehouse"
_CREATE = "CREATE TABLE IF NOT EXISTS skerry_warehouse (place VARCHAR(4096) NOT NULL PRIMARY KEY)"
_FORGET = "DELETE FROM skerry_warehouse"
_WRITE = "INSERT OR IGNORE INTO skerry_warehouse (place) VALUES (?)"
_TABLES = "SELECT metadata_location FROM iceberg_tables WHERE metadata_location IS NOT NULL"


def moved_from(database: SqlDatabase, folder: str, *, is_warehouse: bool) -> Move | None:
    """Find out whether a folder was copied or moved since its catalog was created; record it if nothing is recorded.

    Args:
        database: The SQLite database in the folder.
        folder: The folder, as an absolute path.
        is_warehouse: Whether its tables are in it too. If not, only the record counts.

    Returns:
        From where to where; None if the folder is where it was created.
    """
    with database.reading() as connection:
        origins = _recorded(connection)
        if any(_is_same_folder(origin, folder) for origin in origins) or not (origins or is_warehouse):
            return None
        locations = metadata_locations(connection)
    origins = origins or _origins_of(locations, folder)
    has_tables = bool(locations) or any(Path(folder).glob("*.db/*/schema/"))
    if has_tables and not any(_is_same_folder(origin, folder) for origin in origins):
        return Move(tuple(f"file://{origin}" for origin in origins), f"file://{folder}")
    with (
        suppress(StorageError, CatalogLockedError, CommitUnknownError),
        database.writing() as connection,
    ):  # otherwise the tables' locations would be decisive again
        record_folder(connection, folder)
    return None


def _recorded(connection: SqlConnection) -> list[str]:
    try:
        return [str(origin) for (origin,) in connection.rows(_READ)]
    except NotFoundError:  # there is no such table
        return []


def metadata_locations(connection: SqlConnection) -> list[str]:
    """The metadata files of all Iceberg tables and views, under every catalog name."""
    return [str(location) for (location,) in connection.rows(_TABLES)]


def record_folder(connection: SqlConnection, folder: str) -> None:
    """Record the folder of a catalog, replacing any other."""
    connection.change(_CREATE)
    connection.change(_FORGET)
    for origin in dict.fromkeys((folder, os.path.realpath(folder))):
        connection.change(_WRITE, (origin,))


def _is_same_folder(origin: str, folder: str) -> bool:
    """Whether two paths denote the same folder, also through links."""
    if origin == folder:
        return True
    try:
        return Path(origin).samefile(folder)
    except OSError:
        return False


def _origins_of(locations: Iterable[str], folder: str) -> list[str]:
    """The folder that a catalog was created for, derived from the metadata files of its tables.

    That is a folder which had files that this one has too: their names are unique. Otherwise it is this folder, if a
    table is in it. If neither holds, because a copy is not complete, it is a folder with a catalog of its own, or one
    that no longer exists.
    """
    paths = [path for location in locations if (path := _path_of(location)) is not None]
    outside = [path for path in paths if not _is_below(path, folder)]
    copied = [origin for path in outside if (origin := _counterpart(path, folder)) is not None]
    if not copied and len(outside) == len(paths):
        copied = [origin for path in outside if (origin := _other_warehouse(path)) is not None]
    return list(dict.fromkeys(copied)) or [folder]


def _path_of(location: str) -> str | None:
    try:
        path = local_path(location)
    except Exception:  # noqa: BLE001
        return None
    return None if path is None else os.path.normpath(f"/{path.lstrip('/')}")


def _is_below(path: str, folder: str) -> bool:
    """Whether a path is in a folder, by its name or after resolving links."""
    return Path(path).is_relative_to(folder) or Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _counterpart(path: str, folder: str) -> str | None:
    """The folder that contains a file under the same relative path as this folder does."""
    parts = Path(path).parts
    for start in range(2, len(parts)):
        if os.path.isfile(Path(folder, *parts[start:])):
            return str(Path(*parts[:start]))
    return None


def _other_warehouse(path: str) -> str | None:
    """The folder that a table's metadata file belongs to: `<folder>/<namespace>/<table>/metadata/<file>`."""
    if len(Path(path).parents) < 5:
        return None
    origin = Path(path).parents[3]
    return str(origin) if not origin.exists() or (origin / CATALOG_FILE).exists() else None
