"""The documents lead somewhere: their links, the headings these name, and the modules and tests that are mentioned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/skerry"
# What is named without its folder lies in one of these.
PLACES = (ROOT, PACKAGE, ROOT / "tests", ROOT / "benchmarks", ROOT / "examples/change_data")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"```.*?```", re.DOTALL)
MODULE = re.compile(r"`((?:\w+/)*\w+\.py|(?:\w+/)+)`")

documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def text_of(document: Path) -> str:
    return FENCE.sub("", document.read_text())


def anchors(document: Path) -> set[str]:
    """What links can name in a document, made of its headings as GitHub makes it."""
    headings = re.findall(r"^#+ (.*)$", text_of(document), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def is_there(name: str) -> bool:
    """Whether a module or folder exists; a bare name stands for any module of that name, a foreign folder for none."""
    if "/" not in name:
        return (ROOT / name).exists() or any(any(place.rglob(name)) for place in PLACES[1:])
    first = name.split("/", maxsplit=1)[0]
    is_ours = name.endswith(".py") or any((place / first).is_dir() for place in (ROOT, PACKAGE))
    return not is_ours or any((place / name).exists() for place in PLACES)


@documents
def test_links_lead_to_files_and_headings(document: Path):
    for link in LINK.findall(text_of(document)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@documents
def test_modules_and_tests_that_are_named_exist(document: Path):
    if document.name == "CHANGELOG.md":  # history names modules as they were
        return
    missing = [name for name in MODULE.findall(text_of(document)) if not is_there(name)]
    assert not missing
