"""The example notebook runs from its first cell to its last, and every result shows itself as HTML."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

import skerry

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_look.ipynb"


class Formatter:
    """IPython's formatter for HTML, as far as extensions use it."""

    def __init__(self) -> None:
        self.by_type: dict[type, Any] = {}

    def for_type(self, type_: type, function: Any) -> None:
        self.by_type[type_] = function

    def html(self, value: Any) -> str:
        function = self.by_type.get(type(value))
        return str(value._repr_html_() if function is None else function(value))


def run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell; the value of its last expression."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(last, "cell", "eval"), names)


def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    formatter, names, shown = Formatter(), {}, 0
    skerry.load_ipython_extension(
        SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": formatter}))
    )
    notebook = json.loads(NOTEBOOK.read_text())
    for cell in notebook["cells"]:
        assert not cell.get("outputs"), "a notebook is stored without results"
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            value = run(source.removeprefix("%load_ext skerry\n"), names)
            html = formatter.html(value)
            assert "<table" in html or "<dl" in html, source
            shown += 1
    assert shown == sum(cell["cell_type"] == "code" for cell in notebook["cells"])
    files = names["sales"].inspect.files(columns=["file_path", "record_count"])
    assert "3 rows" in formatter.html(files)
    assert "the first 100" in formatter.html(pa.table({"n": range(101)}))
    assert "and 20 more columns" in formatter.html(pa.table({f"<{n}>": [n] for n in range(120)}))
    assert "<3>" not in formatter.html(pa.table({"<3>": ["<3>"]}))
