"""skerry: one lakehouse storage layer in Python.

`connect` opens a catalog; everything else hangs off the catalogs and tables it returns. Submodules load on first use,
so that importing the package costs little.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skerry.catalog import Delete as Delete
    from skerry.catalog import Insert as Insert
    from skerry.catalog import Update as Update
    from skerry.catalog import connect as connect

__all__ = ["Delete", "Insert", "Update", "__version__", "connect"]
__version__ = "0.1.0"

_SUBMODULES = frozenset({"amudai", "catalog", "errors", "puffin", "spark", "theta"})
_OF_CATALOG = frozenset({"Delete", "Insert", "Update", "connect"})


def __getattr__(name: str) -> Any:
    if name in _OF_CATALOG:
        return getattr(importlib.import_module("skerry.catalog"), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"skerry.{name}")
    raise AttributeError(f"module 'skerry' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
