"""Locations of a table's files: outside its folder they are refused unless the table or the reader allows them."""

from __future__ import annotations

from skerry.errors import SkerryError

__all__ = ["OUTSIDE_PROPERTY", "outside_folder"]

OUTSIDE_PROPERTY = "skerry.read.files-outside-location"
"""Table property, or option: whether files outside the table's folder are read; false if not set."""


def outside_folder(location: str, kind: str) -> SkerryError:
    """The error for a file outside the table's folder.

    Args:
        location: The file.
        kind: What the table format calls its settings: `property` or `option`.
    """
    return SkerryError(
        "a file of the table is outside its folder; if that is intended, open it with allowed_locations=[…], or "
        f"set the table {kind} {OUTSIDE_PROPERTY}=true",
        location=location,
    )
