"""Settings of Sphinx for the site; see build.py."""

from __future__ import annotations

from typing import Any

import skerry

project = "skerry"
version = release = skerry.__version__
author = "the authors of skerry"
project_copyright = "Apache License 2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["CONTRIBUTING/**"]

html_theme = "furo"
html_title = f"skerry {release}"
html_show_sphinx = False
html_copy_source = False
pygments_style, pygments_dark_style = "friendly", "monokai"

myst_heading_anchors = 5
highlight_language = "text"

default_role = "code"  # docstrings set names in single backticks
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_rtype = False


def set_examples_as_code(app: Any, what: str, name: str, found: object, options: object, lines: list[str]) -> None:
    """Set what follows `Example:` as a block of code, in place."""
    lines[:] = [text for line in lines for text in ([f"{line}:", ""] if line.strip() == "Example:" else [line])]


def setup(app: Any) -> None:
    """Called by Sphinx; docstrings are changed before napoleon sees them."""
    app.connect("autodoc-process-docstring", set_examples_as_code, priority=400)
