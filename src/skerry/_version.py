"""The version of skerry. The build, files that name their writer and the command line all read it here."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.2.0"
