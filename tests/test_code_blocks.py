"""The code of README and docs runs, page by page, and gives what stands beside it.

A page's Python blocks share their names, beginning with those of `code_blocks.py`. A comment behind an expression that
begins with a value is what the expression gives. A block without a language is what the one before it has printed, or,
after `$ `, what commands print; numbers in it may differ. Blocks with `spark` in them need a JVM.
"""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import code_blocks
from skerry.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/tutorials").glob("*.md"))]
BLOCK = re.compile(r"^```(python)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VALUE = re.compile(r"  # (.+?)(?:[;:]\s.*)?$")


def name_of(page: Path) -> str:
    """A page as `code_blocks` calls it: `README.md`, `scans.md`, `tutorials/joins.md`."""
    return str(page.relative_to(ROOT)).removeprefix("docs/")


def pages_with(*, spark: bool) -> list[Any]:
    """Pages with blocks to run: those with `spark` in them, or the others."""
    return [
        pytest.param(page, id=name_of(page).removesuffix(".md"))
        for page in PAGES
        if name_of(page) not in code_blocks.NOT_RUN
        and any(is_run(text, with_spark=spark) and spark == ("spark" in text) for kind, text, _ in blocks(page) if kind)
    ]


def blocks(page: Path) -> list[tuple[str | None, str, int]]:
    """Language, text and first line of each block."""
    text = page.read_text()
    return [(found[1], found[2], text.count("\n", 0, found.start(2))) for found in BLOCK.finditer(text)]


def is_run(block: str, *, with_spark: bool) -> bool:
    return (with_spark or "spark" not in block) and not any(text in block for text in code_blocks.NOT_RUN_BLOCKS)


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with(spark=False))
def test_code_blocks(page, tmp_path, monkeypatch, capsys):
    run(page, tmp_path, monkeypatch, capsys, {})


@pytest.mark.parametrize("page", pages_with(spark=True))
def test_code_blocks_with_spark(page, tmp_path, monkeypatch, capsys, spark):
    run(page, tmp_path, monkeypatch, capsys, {"spark": spark})


def run(page: Path, folder: Path, monkeypatch, capsys, names: dict[str, Any]) -> None:
    monkeypatch.chdir(folder)
    names.update(code_blocks.names_of(name_of(page)))
    for language, text, line in blocks(page):
        if language and is_run(text, with_spark="spark" in names):
            capsys.readouterr()
            run_python(page, code_blocks.in_folder(text, folder), line, names)
        elif not language and text.startswith("$ skerry"):
            run_commands(text, names, capsys)
        elif not language and (printed := capsys.readouterr().out):
            assert masked(printed) == masked(text)


def run_python(page: Path, text: str, line: int, names: dict[str, Any]) -> None:
    for statement in ast.increment_lineno(ast.parse(text), line).body:
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), page, "exec"), names)
            continue
        value = eval(compile(ast.Expression(statement.value), page, "eval"), names)
        stated = VALUE.search(text.splitlines()[statement.end_lineno - line - 1])
        try:
            expected = ast.literal_eval(stated[1]) if stated else None
        except (SyntaxError, ValueError):
            continue
        assert expected is None or value == pytest.approx(expected, abs=0.06), f"{page}:{statement.lineno}"


def run_commands(text: str, names: dict[str, Any], capsys) -> None:
    for command in text.split("$ skerry ")[1:]:
        words, _, expected = command.partition("\n")
        if words.startswith(code_blocks.NOT_RUN_COMMANDS):
            continue
        names.get("_before", {}).get(words.split()[0], lambda: None)()
        app(shlex.split(words, comments=True), standalone_mode=False)
        printed = capsys.readouterr().out
        if expected and not words.startswith(code_blocks.UNSTATED_COMMANDS):
            assert masked(printed) == masked(expected), words


def masked(text: str) -> str:
    """The text without numbers, whose units and widths differ as well."""
    return re.sub(r" +", " ", re.sub(r"\d[\d,.]*( [kMG]?B)?", "0", text)).strip()
