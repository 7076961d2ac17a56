"""How many random examples and histories a test goes through: few that are always the same, or many new ones."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["TORTURE", "examples", "few_of"]

TORTURE = "SKERRY_TORTURE" in os.environ
"""Whether `make torture` runs."""


def examples(few: int, many: int | None = None) -> int:
    """How many there are in `make test` and in `make torture`: twenty times as many, unless it is said."""
    return (few * 20 if many is None else many) if TORTURE else few


def few_of(values: Iterable[Any], *few: Any) -> list[Any]:
    """Values of a test's parameter, of which `make test` takes a few, and `make torture` all."""
    return [value if value in few else pytest.param(value, marks=pytest.mark.torture) for value in values]
