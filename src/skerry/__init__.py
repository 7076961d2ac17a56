"""skerry: one lakehouse storage layer in Python.

`connect` opens a catalog; everything else hangs off the catalogs and tables it returns. Submodules load on first use,
so that importing the package costs little.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skerry.catalog import connect as connect

__all__ = ["__version__", "connect"]
__version__ = "0.1.0"

_SUBMODULES = frozenset({"catalog", "errors", "puffin", "spark", "theta"})


def __getattr__(name: str) -> Any:
    if name == "connect":
        from skerry.catalog import connect

        return connect
    if name in _SUBMODULES:
        return importlib.import_module(f"skerry.{name}")
    raise AttributeError(f"module 'skerry' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
