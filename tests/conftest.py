"""Fixtures shared by all tests. Tests marked `spark` share one worker, and so one JVM, under pytest-xdist."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
