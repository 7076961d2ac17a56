"""Folders whose files are numbered: schemas, snapshots, long-lived changelogs."""

from __future__ import annotations

from skerry.storage import Storage, name

__all__ = ["numbered_files"]

_MAX_DIGITS = 19


def numbered_files(storage: Storage, folder: str, prefix: str) -> list[int]:
    """The numbers of the files in a folder whose names are a prefix and a number.

    Args:
        storage: Access to the folder.
        folder: The folder; it need not exist.
        prefix: The prefix of the names; other files are ignored.

    Returns:
        The numbers, ascending.
    """
    found = []
    for file in storage.list_folder(folder).files:
        text = name(file.location).removeprefix(prefix)
        if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and name(file.location) == f"{prefix}{text}":
            found.append(int(text))
    return sorted(found)
