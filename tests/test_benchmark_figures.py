"""Figures of benchmarks: collected by name, and compared beyond noise."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import all as all_benchmarks
from figures import FIGURES_FILE, Figure, figure


def test_figures_are_collected(tmp_path, monkeypatch):
    monkeypatch.setenv(FIGURES_FILE, str(tmp_path / "figures"))
    figure("plan", [1.0, 3.0, 2.0], 4)
    figure("rate", 7.5, unit="rows/s", more_is_better=True)
    one, other = (Figure(**json.loads(line)) for line in (tmp_path / "figures").read_text().splitlines())
    assert one == Figure("plan", "s", value=2.0, noise=0.5, peer=4.0)
    assert other == Figure("rate", "rows/s", value=7.5, more_is_better=True)


def test_nothing_is_written_where_no_one_collects(tmp_path, monkeypatch):
    monkeypatch.delenv(FIGURES_FILE, raising=False)
    monkeypatch.chdir(tmp_path)
    figure("plan", 1.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (Figure("a", "s", 1.0), Figure("a", "s", 1.5), 1.5),
        (Figure("a", "s", 1.0), Figure("a", "s", 1.1), None),
        (Figure("a", "s", 1.5), Figure("a", "s", 1.0), None),
        (Figure("a", "s", 1.0, noise=0.4), Figure("a", "s", 1.5, noise=0.2), None),
        (Figure("a", "s", 1.0, peer=2.0), Figure("a", "s", 3.0, peer=6.0), None),  # the machine is slower, not we
        (Figure("a", "s", 1.0, peer=2.0), Figure("a", "s", 1.0, peer=1.0), 2.0),
        (Figure("a", "1/s", 3.0, more_is_better=True), Figure("a", "1/s", 1.5, more_is_better=True), 2.0),
        (Figure("a", "s", 1.0), Figure("a", "s", 9.0, peer=1.0), None),  # not the same measurement
    ],
)
def test_slower_is_what_exceeds_noise(old, new, expected):
    assert all_benchmarks.times_slower(old, new) == expected


def test_a_table_is_kept_script_by_script(tmp_path, monkeypatch):
    monkeypatch.setattr(all_benchmarks, "KEPT", tmp_path / "figures.json")
    all_benchmarks.keep({"one": {"a": Figure("a", "s", 1.0)}, "two": {"b": Figure("b", "s", 1.0)}})
    all_benchmarks.keep({"two": {"b": Figure("b", "s", 4.0)}})
    assert all_benchmarks.compare("one", {"a": Figure("a", "s", 1.0)}) == []
    assert all_benchmarks.compare("two", {"b": Figure("b", "s", 4.1)}) == []
    (line,) = all_benchmarks.compare("two", {"b": Figure("b", "s", 8.0)})
    assert line.startswith("two: b: 2.00 times")
    assert all_benchmarks.compare("one", {}) == ["one: a: not measured any more"]


def test_every_benchmark_tells_figures():
    alone = {"all", "change_records", "figures", "line_charts", "spark_times", "tpch_data", "tpch_queries"}
    assert set(all_benchmarks.scripts()) == {path.stem for path in all_benchmarks.FOLDER.glob("*.py")} - alone
