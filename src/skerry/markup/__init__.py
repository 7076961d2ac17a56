"""HTML and SVG as values: elements that escape whatever is not markup, tables, and small plots.

The page (`skerry.web`) and the displays in notebooks are made of the same fragments. There is no template language:
a text is escaped because it is not `Html`, and mypy sees which is which.
"""

from __future__ import annotations

from skerry.markup.elements import Content, Html, element, join
from skerry.markup.tables import Column, definitions, table

__all__ = ["Column", "Content", "Html", "definitions", "element", "join", "table"]
