"""Catalogs by name: PyIceberg's configuration file `.pyiceberg.yaml` and its environment variables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from skerry.errors import SkerryError

__all__ = ["configured", "configured_names"]

_FILE: Final = ".pyiceberg.yaml"
_VARIABLES: Final = "pyiceberg_"


def configured_names() -> list[str]:
    """The names of the catalogs that are configured.

    Raises:
        SkerryError: The configuration cannot be read.
    """
    return list(_catalogs())


def configured(name: str) -> dict[str, Any]:
    """The configured properties of a catalog; empty if there is none of that name.

    Raises:
        SkerryError: The configuration cannot be read.
    """
    found = _catalogs().get(name.lower(), {})
    if not isinstance(found, dict):
        raise SkerryError(f"PyIceberg's configuration of catalog {name!r} is not a list of properties")
    return dict(found)


def _catalogs() -> dict[str, Any]:
    folders = (os.environ.get("PYICEBERG_HOME"), os.path.expanduser("~"), os.getcwd())  # noqa: PTH111, PTH109  may fail
    has_file = any(folder and os.path.isfile(Path(folder, _FILE)) for folder in folders)
    if not has_file and not any(name.lower().startswith(_VARIABLES) for name in os.environ):
        return {}
    from pyiceberg.utils.config import Config  # slow to load, and only needed here

    try:
        found = Config().config.get("catalog", {})
    except Exception as error:  # noqa: BLE001  its text shows lines of the file, which may hold credentials
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" in line {mark.line + 1}"
        raise SkerryError(f"PyIceberg's configuration cannot be read: {type(error).__name__}{place}") from None
    return dict(found) if isinstance(found, dict) else {}
