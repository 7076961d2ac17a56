"""Where the Iceberg metadata of a Paimon table is, if the option `metadata.iceberg.storage` asks for it.

Spec: docs/formats/paimon.md § 13.6; Paimon Java, `IcebergOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.metadata.option_values import parse_bool, parse_int
from skerry.storage import join, name

__all__ = ["ICEBERG_STORAGE", "IcebergStorage"]

ICEBERG_STORAGE: Final = "metadata.iceberg.storage"
_PREFIX: Final = "metadata.iceberg."
_DELETES: Final = f"{_PREFIX}delete-after-commit.enabled"
_VERSIONS: Final = f"{_PREFIX}previous-versions-max"
_FOLDERS: Final = {"table-location": "table-location", "hadoop-catalog": "catalog-location"}
"""The kinds of storage that are files alone, with the default of `metadata.iceberg.storage-location`."""
_SUFFIX: Final = ".db"
_PREVIOUS_VERSIONS: Final = 10


@dataclass(frozen=True, slots=True)
class IcebergStorage:
    """The Iceberg metadata of a table.

    Args:
        folder: Its folder.
        format_version: The version of Iceberg's format.
        previous_versions: How many metadata files are kept besides the newest; None for all.
    """

    folder: str
    format_version: int = 2
    previous_versions: int | None = _PREVIOUS_VERSIONS

    @classmethod
    def of(cls, options: Mapping[str, str], location: str) -> IcebergStorage | None:
        """The Iceberg metadata that options ask for; None if they do not.

        Args:
            options: The table's options.
            location: The table's folder.

        Raises:
            SchemaError: An option has an invalid value, or the folder is not in a warehouse.
            UnsupportedError: A metastore is asked for.
        """
        kind = options.get(ICEBERG_STORAGE, "disabled").strip().lower()
        if kind == "disabled":
            return None
        if kind not in _FOLDERS:
            raise UnsupportedError(
                f"table option {ICEBERG_STORAGE}={kind} is not supported for writing: commits would have to reach that "
                f"catalog as well; {' and '.join(_FOLDERS)} are"
            )
        place = options.get(f"{_PREFIX}storage-location", _FOLDERS[kind]).strip().lower()
        if place not in _FOLDERS.values():
            raise SchemaError(
                f"table option {_PREFIX}storage-location={place}: expected {' or '.join(_FOLDERS.values())}"
            )
        keeps = not parse_bool(_DELETES, options.get(_DELETES, "true"))
        previous = options.get(_VERSIONS)
        return cls(
            _folder(location, place),
            parse_int(f"{_PREFIX}format-version", options.get(f"{_PREFIX}format-version", "2")),
            None if keeps else _PREVIOUS_VERSIONS if previous is None else parse_int(_VERSIONS, previous),
        )

    def file(self, file_name: str) -> str:
        """The location of a file in the folder."""
        return join(self.folder, file_name)

    def metadata_file(self, version: int) -> str:
        """The location of a metadata file, whose number is that of a Paimon snapshot."""
        return self.file(f"v{version}.metadata.json")


def _folder(location: str, place: str) -> str:
    if place == "table-location":
        return join(location, "metadata")
    database, _, table = location.rstrip("/").rpartition("/")
    if not name(database).endswith(_SUFFIX):
        raise SchemaError(
            f"table option {_PREFIX}storage-location={place} needs a table in a folder of a database: {location}"
        )
    warehouse = database.rpartition("/")[0]
    return join(warehouse, "iceberg", name(database).removesuffix(_SUFFIX), table, "metadata")
