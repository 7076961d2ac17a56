"""The documents lead somewhere: their links, the headings these name, and the modules and tests that are mentioned."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import skerry.errors

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/skerry"
# What is named without its folder lies in one of these.
PLACES = (ROOT, PACKAGE, ROOT / "tests", ROOT / "benchmarks", ROOT / "examples/change_data")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "llms.txt"])
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


def pages_of_docs() -> set[str]:
    return {str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")}


def test_every_page_is_in_the_menu_of_the_site_once():
    menu = tomllib.loads((ROOT / "docs/site/contents.toml").read_text())["pages"]
    pages = [f"{page}.md" for group in menu.values() for page in group]
    assert sorted(pages) == sorted({*pages})
    assert pages_of_docs() <= {*pages}
    assert all((ROOT / page).is_file() for page in pages)


def test_language_models_are_shown_every_page():
    listed = {*LINK.findall((ROOT / "llms.txt").read_text())}
    assert {page for page in pages_of_docs() if not page.startswith(("docs/formats/", "docs/design/"))} <= listed


def test_the_error_catalogue_has_every_error():
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(skerry.errors.__all__)
    assert {getattr(skerry.errors, name)().help for name in headings} == {
        f"docs/errors.md#{heading}" for heading in anchors(ROOT / "docs/errors.md") - {"errors"}
    }
