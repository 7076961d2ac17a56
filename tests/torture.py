"""How many random examples and histories a test goes through: few that are always the same, or many new ones."""

from __future__ import annotations

import os

__all__ = ["TORTURE", "examples"]

TORTURE = "SKERRY_TORTURE" in os.environ
"""Whether `make torture` runs."""


def examples(few: int, many: int | None = None) -> int:
    """How many there are in `make test` and in `make torture`: twenty times as many, unless it is said."""
    return (few * 20 if many is None else many) if TORTURE else few
