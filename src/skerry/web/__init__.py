"""The page: a local, read-only view of tables and files in a browser, as `skerry serve` starts it.

A screen reads a record (`read_…`), and shows it as HTML (`show_…`); its JSON twin is the record itself. What is read
comes from the public methods of catalogs and tables, and from `skerry.inspect`. Needs the extra `skerry[web]`.
"""

from __future__ import annotations

from skerry.web.server import serve
from skerry.web.source import Source, open_source

__all__ = ["Source", "open_source", "serve"]
