"""Citations lead somewhere: the documents and headings that docstrings and errors name are there.

`docs/formats/README.md` says how a citation is written, and lists the documents and headings outside this repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTED = ROOT / "docs" / "formats" / "README.md"
REMARK = r"(?: \([^()]*\))?"
PART = r"(?:section|table|chapter) \d+(?:\.\d+)*"
NUMBERS = rf"(?: § [\d.]*\d{REMARK}(?:, § [\d.]*\d{REMARK})*)?"

SPEC = re.compile(r'\bSpec: ((?:(?!"""|\n\s*\n).)+)', re.DOTALL)
RULE = re.compile(r'(?:\brule=\(?\s*(?:[\w.]+ or )?|^_\w*RULE\w*(?:: Final)? = |"rule": )(f?"[^"\n]*")', re.MULTILINE)


@cache
def documents() -> dict[str, list[str]]:
    """The headings of the documents outside this repository, by the name that they are cited by."""
    _, _, text = LISTED.read_text().partition("\n## Documents\n")
    documents, _, headings = text.partition("\n## Headings\n")
    found: dict[str, list[str]] = {
        name: [] for name in re.findall(r"^\| `([^`]+)` \| \[[^]]+\]\(https://\S+\) \|.*\|$", documents, re.MULTILINE)
    }
    for name, cell in re.findall(r"^\| `([^`]+)` \| (.+) \|$", headings, re.MULTILINE):
        found[name] += cell.split(" · ")
    return found


@cache
def page_headings(page: str) -> frozenset[str]:
    """The headings of a page of this repository, and the numbers of those that have one."""
    path = ROOT / page
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE) if path.is_file() else []
    return frozenset([*headings, *(heading.split()[0] for heading in headings)])


@cache
def citation() -> re.Pattern[str]:
    """One or more references, as they stand at the beginning of what follows `Spec:`."""
    outside = []
    for name, headings in documents().items():
        parts = "|".join(map(re.escape, sorted(headings, key=len, reverse=True)))
        item = rf"(?:{parts + '|' if parts else ''}{PART}|`[^`]+`){REMARK}"
        outside.append(rf"{re.escape(name)}{REMARK}(?:, {item})*")
    inside = [rf"docs/formats/[\w-]+\.md{NUMBERS}", r"docs/[\w-]+\.md, [^,;:.]+"]
    reference = "|".join([*inside, *outside])
    return re.compile(rf"((?:{reference})(?:; (?:{reference}))*)(?:\.(?= |$)|: .+\.(?= |$)|$)")


def problem_of(text: str) -> str | None:
    """What is wrong with a citation; None if it leads somewhere."""
    found = citation().match(text)
    if found is None:
        return "names no document or heading that is listed"
    for reference in found[1].split("; "):
        page = re.match(r"docs/[\w/-]+\.md", reference)
        if page is None:
            continue
        headings = page_headings(page[0])
        wanted = re.findall(r"§ ([\d.]*\d)", reference) or re.findall(r"\.md, (.+)", reference)
        missing = [heading for heading in wanted if heading not in headings]
        if missing or not headings:
            return f"{page[0]} has no heading {', '.join(missing)}"
    return None


def citations(path: Path) -> Iterator[tuple[str, str]]:
    """The citations of a module, each with its place."""
    text = path.read_text()
    for kind in (SPEC, RULE):
        for found in kind.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield " ".join(found[1].removeprefix("f").strip('"').split()), f"{path.relative_to(ROOT)}:{line}"


def test_citations_of_code_and_tests():
    """Every `Spec:` and every rule of an error."""
    modules = [path for folder in ("src", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
    found = [each for path in modules if path != Path(__file__) for each in citations(path)]
    assert len(found) > 500
    wrong = [f"{where}: {problem}: {text}" for text, where in found if (problem := problem_of(text)) is not None]
    assert not wrong, "\n".join(["see docs/formats/README.md", *wrong])


def test_sections_that_pages_cite():
    """A § in a page here is one of its own, or of the page that a link names."""
    wrong = []
    for path in sorted(LISTED.parent.glob("*.md")):
        text = re.sub(r"^    .*$", "", path.read_text(), flags=re.MULTILINE)
        text = re.sub(r"^\| `docs/.*$", "", text, flags=re.MULTILINE)
        for number, _, linked in re.findall(r"§§? ([\d.]*\d)(\]\(([\w-]+\.md)\))?", text):
            page = f"docs/formats/{linked or path.name}"
            if number not in page_headings(page):
                wrong.append(f"{path.name}: {page} § {number}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "docs/formats/paimon.md § 99.",
        "docs/formats/nothing.md § 1.",
        "formats/paimon.md § 1.",
        "docs/types.md, What is not there.",
        "Iceberg spec, Sacn Planning.",
        "Iceberg table spec, Scan Planning.",
        "Paimon: Schema",
    ],
)
def test_what_leads_nowhere(text):
    """The test can fail."""
    assert problem_of(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "docs/formats/paimon.md § 5.4 (`_CREATION_TIME`), § 13; Paimon Java, `SchemaManager`. And a sentence.",
        "Iceberg spec, Data File Fields (note 2): -0.0 comes before 0.0.",
        "RFC 8878, section 3.1.1.1.3",
        "docs/types.md, What is hashed.",
    ],
)
def test_what_leads_somewhere(text):
    """Sections, headings, remarks."""
    assert problem_of(text) is None
