"""Moved warehouse folders: redirects locations in metadata to the new folder, and restricts writes to it.

Iceberg's metadata names files by absolute locations. In a folder that was copied or moved they point to the old
location, whose files may belong to another warehouse or no longer exist.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skerry.errors import SkerryError, UnsupportedError
from skerry.storage.location import Family, Location, is_within, local_path, parse_location

__all__ = ["MOVED_FROM", "MOVED_TO", "Move", "Moves", "move_of"]

MOVED_FROM: Final = "skerry.moved-from"
"""Storage option: where the folder was when its metadata was written; several locations, one per line."""
MOVED_TO: Final = "skerry.moved-to"
"""Storage option: where the folder is now."""


@dataclass(frozen=True, slots=True)
class Move:
    """A folder that was moved.

    Args:
        sources: Locations of the folder that metadata may name; several spellings or links may lead to one folder.
        target: Its location now.
    """

    sources: tuple[str, ...]
    target: str

    def __call__(self, location: str) -> str:
        """The current location of something: in the folder, or the folder itself, it gets the new prefix.

        A local path keeps its spelling: plain, `file:/…` or `file:///…`. All other locations are unchanged, including
        those that are ambiguous because of `.` and `..`.
        """
        below = self._below(location)
        if below is None:
            return location
        end = "/" if location.endswith("/") and below else ""
        return _spelled(self.target, location).rstrip("/") + (f"/{below}{end}" if below else "")

    def concerns(self, location: str) -> bool:
        """Whether a location is in the old folder."""
        return self._below(location) is not None

    def check_writable(self, location: str) -> None:
        """Refuse to write or delete outside the folder's new location.

        Raises:
            UnsupportedError: The location is not in the folder's new location.
        """
        if self.concerns(location) or _below(self.target, location) is None or not self._stays_inside(location):
            raise UnsupportedError(
                f"this warehouse was copied or moved from {self.sources[0]} to {self.target}; "
                "nothing outside it may be written or deleted. To make it independent of the original, run "
                "catalog.relocate() or `skerry relocate`",
                location=location,
            )

    def _stays_inside(self, location: str) -> bool:
        """Whether no link in the folder leads out of it: a copied link points to the files of the original."""
        path, folder = local_path(location), local_path(self.target)
        if path is None or folder is None:
            return True
        real, root = os.path.realpath(os.path.dirname(path) or path), os.path.realpath(folder)
        return os.path.commonpath([real, root]) == root or path.rstrip("/") == folder.rstrip("/")

    def _below(self, location: str) -> str | None:
        """The path from the old folder to a location; None if it is elsewhere, or in a new folder within the old."""
        for source in self.sources:
            below = _below(source, location)
            if below is not None:
                is_new = _below(source, self.target) is not None and _below(self.target, location) is not None
                return None if is_new else below
        return None


@dataclass(frozen=True, slots=True)
class Moves:
    """Several folders, each with a place of its own; of those that contain a location, the innermost decides.

    Args:
        folders: Old locations with new ones; a folder that stays is its own new location.
    """

    folders: tuple[tuple[str, str], ...]

    def __call__(self, location: str) -> str:
        """The new location of something in one of the folders; all other locations are unchanged."""
        found = self._folder(location)
        return location if found is None or found[0] == found[1] else Move((found[0],), found[1])(location)

    def concerns(self, location: str) -> bool:
        """Whether a location is in one of the folders."""
        return self._folder(location) is not None

    def check_writable(self, location: str) -> None:
        """Refuse to write or delete in an old folder.

        Raises:
            UnsupportedError: The location is in one.
        """
        if self(location) != location:
            raise UnsupportedError("nothing is written where the files of the table were before", location=location)

    def _folder(self, location: str) -> tuple[str, str] | None:
        inside = [folder for folder in self.folders if _below(folder[0], location) is not None]
        return max(inside, key=lambda folder: len(_segments(parse_location(folder[0]))), default=None)


def move_of(options: Mapping[str, str]) -> Move | None:
    """The move that storage options describe, if any."""
    sources, target = options.get(MOVED_FROM), options.get(MOVED_TO)
    return Move(tuple(sources.split("\n")), target) if sources and target else None


def _below(source: str, location: str) -> str | None:
    """The path from a folder to a location in it, empty for the folder itself; None if it is elsewhere."""
    try:
        outer, inner = parse_location(source), parse_location(location)
    except SkerryError:
        return None
    if (outer.family, outer.authority) != (inner.family, inner.authority):
        return None
    if is_within(source, location):
        segments = _segments(inner)
        return "/".join(segments[len(_segments(outer)) :])
    return "" if _segments(outer) == _segments(inner) else None


def _segments(location: Location) -> list[str]:
    parts = location.path.rstrip("/").split("/")
    return [part for part in parts if part] if location.family is Family.LOCAL else parts


def _spelled(target: str, like: str) -> str:
    """A local folder, spelled with the prefix of another local location."""
    found = parse_location(target)
    if found.family is not Family.LOCAL or parse_location(like).family is not Family.LOCAL:
        return target
    for prefix in ("file://localhost/", "file:///", "file:/"):
        if like.startswith(prefix):
            return prefix[:-1] + found.path
    return found.path
