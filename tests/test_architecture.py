"""The shape of the project: what it offers, how big its parts are, and that imports only point down.

`python tests/test_architecture.py` writes `public_names.txt` again. That the list has to be written is the point: a
public name comes, goes or changes on purpose, with a line in CHANGELOG.md.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "skerry"
NAMES = Path(__file__).with_name("public_names.txt")
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "_pb2" not in path.name)

PUBLIC_MODULES = (
    "skerry",
    "skerry.amudai",
    "skerry.catalog",
    "skerry.encryption",
    "skerry.errors",
    "skerry.puffin",
    "skerry.spark",
    "skerry.storage",
    "skerry.theta",
    "skerry.variant",
)
MOST_LINES = 500
MOST_MODULES = 25
MOST_FUNCTION_LINES = 60


# ---- public names ----


class _Some:
    """A default value, whichever it is."""

    def __repr__(self) -> str:
        return "…"


def public_names() -> Iterator[tuple[str, Any]]:
    """Every public name with what it stands for: of modules, and of the classes in them."""
    seen = set()
    for module_name in PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        for name in sorted(module.__all__):
            found = getattr(module, name)
            yield f"{module_name}.{name}", found
            if inspect.isclass(found) and found.__module__.startswith("skerry.") and found not in seen:
                seen.add(found)
                yield from ((f"{module_name}.{name}.{member}", value) for member, value in members(found))


def members(of: type) -> list[tuple[str, Any]]:
    """The public members of a class, those from our base classes included."""
    ours = [base for base in of.__mro__ if base.__module__.startswith("skerry.")]
    names = {name for base in ours for name in (*vars(base), *getattr(base, "__annotations__", ()))}
    return [(name, inspect.getattr_static(of, name, None)) for name in sorted(names) if not name.startswith("_")]


def described(name: str, value: Any) -> str:
    """A line of the list: the name, and what it takes."""
    function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    return name + (str(signature_of(function)) if inspect.isfunction(function) else "")


def signature_of(function: Any) -> inspect.Signature:
    """Names of parameters; those with a default are marked."""
    some = _Some()
    return inspect.Signature(
        [
            one.replace(annotation=one.empty, default=one.default if one.default is one.empty else some)
            for one in inspect.signature(function).parameters.values()
            if one.name not in ("self", "cls")
        ]
    )


def listed() -> str:
    return "".join(f"{described(name, value)}\n" for name, value in public_names())


def test_public_names_change_on_purpose() -> None:
    assert listed() == NAMES.read_text(), "if that is meant: python tests/test_architecture.py"


def test_public_names_are_documented() -> None:
    bare = [
        name
        for name, value in public_names()
        if (inspect.isroutine(value) or inspect.isclass(value) or isinstance(value, property))
        and not inspect.getdoc(value)
    ]
    assert not bare


def test_files_are_passed_in_the_same_way() -> None:
    """Whatever opens or writes files takes `path`, and beside `storage=` always `options=`, by these names."""
    for name, value in public_names():
        if name.startswith(("skerry.amudai.", "skerry.puffin.")) and (
            inspect.isclass(value) or inspect.isfunction(value)
        ):
            parameters = inspect.signature(value).parameters
            taken = {"path", "storage", "options"} & set(parameters)
            assert len(taken) in (0, 3), name
            assert not {"source", "where", "location"} & set(parameters) or not taken, name


# ---- sizes ----


def test_modules_are_short() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in MODULES}
    long = {str(path.relative_to(PACKAGE)) for path, length in lengths.items() if length > MOST_LINES}
    assert not long


def test_folders_hold_few_modules() -> None:
    folders = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert [f"{folder}: {count}" for folder, count in folders.items() if count > MOST_MODULES] == []


def test_functions_are_short() -> None:
    long = {
        f"{path.relative_to(PACKAGE)} {function.name}"
        for path in MODULES
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef) and code_lines(function) > MOST_FUNCTION_LINES
    }
    assert not long


def code_lines(function: ast.FunctionDef) -> int:
    """Lines from `def` to the end, without the docstring."""
    first, last = function.body[0], function.body[-1]
    documented = ast.get_docstring(function, clean=False) is not None
    lines = (last.end_lineno or 0) - function.lineno + 1
    return lines - ((first.end_lineno or 0) - first.lineno + 1 if documented else 0)


# ---- imports ----


def test_imports_point_down_and_never_in_a_circle() -> None:
    """The contracts of pyproject.toml; imports in functions and for type checkers count."""
    command = Path(sys.executable).with_name("lint-imports")
    found = subprocess.run([command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


if __name__ == "__main__":
    NAMES.write_text(listed())
