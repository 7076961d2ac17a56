"""The example notebooks run from the first cell to the last, and every result shows itself as HTML."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

import skerry
from code_blocks import some_flights
from skerry.table.work.notebook_progress import notebook_bar
from skerry.table.work.progress import show_progress
from skerry.table.work.tasks import JobProgress

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))
ROWS: dict[str, tuple[Callable[[dict[str, Any]], int], int]] = {
    "change_data": (lambda names: names["orders"].count(), 2),
    "first_look": (lambda names: names["sales"].count(), 300),
    "joins": (lambda names: names["catalog"].sql(names["query"]).num_rows, 5),
    "landing": (lambda names: names["table"].count("carrier = 'ha'"), 11),
    "lookups": (lambda names: names["logs"].count(), 4_997),
}
"""Rows that a notebook ends with, and how many they are."""


class Formatter:
    """IPython's formatter for HTML, as far as extensions use it."""

    def __init__(self) -> None:
        self.by_type: dict[type, Any] = {}

    def for_type(self, type_: type, function: Any) -> None:
        self.by_type[type_] = function

    def html(self, value: Any) -> str:
        function = self.by_type.get(type(value))
        return str(value._repr_html_() if function is None else function(value))


class Kernel:
    """A notebook's kernel, as far as bars of progress use it."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.display = SimpleNamespace(display=self._display)

    def get_ipython(self) -> Any:
        return SimpleNamespace(kernel=self)

    def _display(self, value: Any, *, display_id: bool) -> Any:
        assert display_id
        self.update(value)
        return self

    def update(self, value: Any) -> None:
        self.shown.append(value._repr_html_())


@pytest.fixture
def kernel(monkeypatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    return kernel


def run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell; the value of its last expression."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(last, "cell", "eval"), names)


@pytest.fixture
def formatter() -> Formatter:
    formatter = Formatter()
    skerry.load_ipython_extension(
        SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": formatter}))
    )
    return formatter


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, formatter, kernel, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "flights.csv" in notebook.read_text():
        pyarrow.csv.write_csv(some_flights(), "flights.csv")
    names: dict[str, Any] = {}
    for cell in json.loads(notebook.read_text())["cells"]:
        assert not cell.get("outputs"), "a notebook is stored without results"
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            value = run(source.removeprefix("%load_ext skerry\n"), names)
            html = formatter.html(value)
            assert "<table" in html or "<dl" in html, source
    count, expected = ROWS[notebook.stem]
    assert count(names) == expected
    assert bool(kernel.shown) == (notebook.stem == "landing")


def test_arrow_tables_show_themselves(formatter):
    assert "3 rows" in formatter.html(pa.table({"n": range(3)}))
    assert "the first 100" in formatter.html(pa.table({"n": range(101)}))
    assert "and 20 more columns" in formatter.html(pa.table({f"<{n}>": [n] for n in range(120)}))
    assert "<3>" not in formatter.html(pa.table({"<3>": ["<3>"]}))


def test_a_bar_is_below_the_cell_while_its_job_runs(kernel):
    with show_progress("compact") as callback:
        assert callback is not None
        callback(JobProgress("<write>", 1, 4, 5_000, 10_000_000))
    begun, written, gone = kernel.shown
    assert '<progress aria-label="compact">' in begun
    assert "&lt;write&gt; " in written
    assert '<progress value="1" max="4"' in written
    assert "1 of 4 files" in written
    assert gone == ""


def test_a_bar_is_moved_a_few_times_a_second(kernel):
    times = iter([0.0, 0.0, 0.1, 0.2, 0.3, 0.4])
    with notebook_bar(kernel.display.display, "read", lambda _: "", times.__next__) as callback:
        for done in range(5):
            callback(JobProgress("read", done, 5))
    assert [text.partition('value="')[2][:1] for text in kernel.shown] == ["", "0", "3", ""]


def test_a_bar_goes_with_a_job_that_fails(kernel):
    with pytest.raises(ValueError, match="stop"), show_progress("compact"):
        raise ValueError("stop")
    assert kernel.shown[-1] == ""
