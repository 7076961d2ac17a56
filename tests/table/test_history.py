"""Moments of metadata files."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from skerry.errors import FormatError
from skerry.table.history import of_millis


def test_milliseconds_are_moments_within_the_years_of_python():
    assert of_millis(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert of_millis(-62_135_596_800_000).year == 1
    for millis in (1 << 62, -(1 << 62), 1 << 70):
        with pytest.raises(FormatError, match="outside the years 1 to 9999"):
            of_millis(millis)
