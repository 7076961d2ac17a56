"""Builds the documentation site from README, docs/ and the docstrings of public names: `make docs`.

Sphinx reads a copy, made under `.cache/site`, in which a contents page and the pages of the API reference are added, so
that docs/ remains plain Markdown. Warnings are errors: a link that leads nowhere ends the build.
"""

from __future__ import annotations

import importlib
import re
import shutil
import sys
import tomllib
from pathlib import Path

from sphinx.cmd.build import build_main

ROOT = Path(__file__).parents[2]
SOURCE, SITE = ROOT / ".cache/site/source", ROOT / ".cache/site/html"
LINK = re.compile(r"\]\(([^)\s#]+)")
CONTENTS = tomllib.loads((Path(__file__).parent / "contents.toml").read_text())
OWN_PAGES = ("Catalog", "Table", "TableScan")
"""Classes of `skerry` with a page each; all others share one."""


def stage() -> None:
    """Copy the documents, and the files that they link to."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "llms.txt"]
    for document in documents:
        copy(document)
        for link in LINK.findall(document.read_text()):
            target = (document.parent / link).resolve()
            if target.is_file() and target not in documents:
                copy(target)
    for page in SOURCE.rglob("*.md"):
        page.write_text(folders_as_code(page))


def copy(file: Path) -> None:
    """Copy a file to its place below `SOURCE`."""
    target = SOURCE / file.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)


def folders_as_code(page: Path) -> str:
    """The page without links to folders, which a site does not have."""
    original = (ROOT / page.relative_to(SOURCE)).parent

    def plain(found: re.Match[str]) -> str:
        return found[1] if (original / found[2]).is_dir() else found[0]

    return re.sub(r"\[([^\]]*)\]\(([^)\s#:]+)\)", plain, page.read_text())


def write_contents(api: list[str]) -> None:
    """The page that Sphinx makes the menu of; README is its text."""
    lines = [(SOURCE / "README.md").read_text()]
    for caption, pages in [*CONTENTS["pages"].items(), ("API reference", api)]:
        lines += ["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"]
    (SOURCE / "index.md").write_text("\n".join(lines) + "\n")
    (SOURCE / "README.md").unlink()
    for page in SOURCE.rglob("*.md"):
        up = "../" * (len(page.relative_to(SOURCE).parts) - 1)
        page.write_text(page.read_text().replace(f"]({up}README.md", f"]({up}index.md"))


def write_reference() -> list[str]:
    """The pages of the API reference: of a module each, and of the large classes.

    Returns:
        Names of the pages.
    """
    folder = SOURCE / "api"
    folder.mkdir()
    pages = []
    for module, title in CONTENTS["modules"].items():
        names = sorted(importlib.import_module(module).__all__)
        own = OWN_PAGES if module == "skerry" else ()
        for name in own:
            pages.append(write_page(f"{module}.{name}", f"{module}.{name}", [(module, name)]))
        rest = [(module, name) for name in names if name not in own and not name.startswith("__")]
        pages.append(write_page(module, title, rest))
    return pages


def write_page(page: str, title: str, names: list[tuple[str, str]]) -> str:
    """A page of names, each with its module.

    Returns:
        The page's name.
    """
    lines = [f"# {title}", ""]
    for module, name in names:
        found = getattr(importlib.import_module(module), name)
        kind = "class" if isinstance(found, type) else "function" if callable(found) else "data"
        kind = "exception" if kind == "class" and issubclass(found, BaseException) else kind
        lines += ["```{eval-rst}", f".. auto{kind}:: {module}.{name}"]
        if kind == "class":
            lines += ["   :members:", "   :inherited-members: object, tuple, int, str, Mapping, Sequence, Enum"]
        lines += ["```", ""]
    (SOURCE / "api" / f"{page}.md").write_text("\n".join(lines))
    return f"api/{page}"


def main() -> int:
    """Build the site; the exit code is Sphinx's."""
    stage()
    write_contents(write_reference())
    arguments = ["-q", "-b", "html", "-W", "--keep-going", "-c", str(Path(__file__).parent), str(SOURCE), str(SITE)]
    code = build_main(arguments)
    if not code:
        shutil.copyfile(ROOT / "llms.txt", SITE / "llms.txt")
        print(f"the site is in {SITE.relative_to(ROOT)}: open {SITE.relative_to(ROOT)}/index.html")
    return code


if __name__ == "__main__":
    sys.exit(main())
