"""The newest metadata file in the folder of a table that is read without its catalog.

Only a catalog knows which state is current. Tables of a file system (`v7.metadata.json`, `version-hint.text`) are their
own catalog: the highest version is current. Of files that other catalogs name (`00007-<uuid>.metadata.json`) the one
with the highest number is taken. If there are several of that number, all but one lost a race, and the folder does not
say which: they are refused.

Spec: Iceberg spec, File System Tables, Metastore Tables.
"""

from __future__ import annotations

import re
from typing import Final

from skerry.errors import FormatError, NotFoundError
from skerry.storage import Storage, join, name

__all__ = ["is_metadata_file", "newest_metadata_file"]

_HINT: Final = "version-hint.text"
_END: Final = r"(?:\.\w{1,8})?\.metadata\.json(?:\.\w{1,8})?"
_OWN_VERSION: Final = re.compile(rf"v(\d{{1,18}}){_END}")
_CATALOG_VERSION: Final = re.compile(rf"(\d{{1,18}})-[0-9a-fA-F-]{{36}}{_END}")
_SHOWN: Final = 3
_ANY: Final = re.compile(rf".+{_END}")


def is_metadata_file(location: str) -> bool:
    """Whether a location has the name of a metadata file."""
    return _ANY.fullmatch(name(location)) is not None


def newest_metadata_file(storage: Storage, folder: str) -> str | None:
    """The metadata file of a table's current state, as far as its folder shows it; one listing.

    Args:
        storage: Access to the folder.
        folder: The table's folder.

    Returns:
        Its location; None if there is none.

    Raises:
        FormatError: Several files may be the newest.
    """
    inside = join(folder, "metadata")
    names = [name(file.location) for file in storage.list_folder(inside).files]
    own, cataloged = _newest(names, _OWN_VERSION), _newest(names, _CATALOG_VERSION)
    newest = [*own, *cataloged]
    if _HINT in names:  # only tables of a file system have one
        hinted = _hinted(storage, join(inside, _HINT), names)
        newest = [hinted] if hinted is not None else own or cataloged
    if len(newest) > 1:
        shown = " and ".join(sorted(newest)[:_SHOWN])
        more = f" and {len(newest) - _SHOWN} others" if len(newest) > _SHOWN else ""
        raise FormatError(
            f"{shown}{more} may each be the newest metadata file: only the table's catalog knows which (Nessie numbers "
            "all of them 00000); connect to it, or open the file that it names",
            location=inside,
            rule="Iceberg spec, Metastore Tables",
        )
    return join(inside, newest[0]) if newest else None


def _newest(names: list[str], pattern: re.Pattern[str]) -> list[str]:
    """The names with the highest number."""
    numbers = {text: int(match[1]) for text in names if (match := pattern.fullmatch(text)) is not None}
    return [text for text, number in numbers.items() if number == max(numbers.values())]


def _hinted(storage: Storage, hint: str, names: list[str]) -> str | None:
    """The file that a hint names by its name; None if it has a number, which may be an old one."""
    try:
        text = storage.read(hint).decode().strip()
    except (NotFoundError, UnicodeDecodeError):
        return None
    return next((found for found in (text, f"{text}.metadata.json") if found in names), None)
