"""Where the files of a table may be: metadata written by others could point anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from skerry.paimon.metadata.schema import TableSchema
from skerry.storage import Storage, is_within
from skerry.table.files.locations import OUTSIDE_PROPERTY, outside_folder

__all__ = ["Place", "check_location"]


class Place(Protocol):
    """A table, as far as it says where its files may be."""

    @property
    def schema(self) -> TableSchema:
        """Its schema, with the options."""

    @property
    def location(self) -> str:
        """Its folder."""

    @property
    def storage(self) -> Storage:
        """Access to its files."""


def check_location(state: Place, path: str) -> None:
    """Refuse a file outside the table's folder, unless the table's options allow its location.

    Raises:
        SkerryError: It is outside.
    """
    options = state.schema.options
    if options.get(OUTSIDE_PROPERTY, "false").lower() == "true":
        return
    external: Sequence[str] = options.get("data-file.external-paths", "").split(",")
    allowed = (state.location, *external, *state.storage.allowed_locations)
    if not any(is_within(root.strip(), path) for root in allowed if root.strip()):
        raise outside_folder(path, "option")
