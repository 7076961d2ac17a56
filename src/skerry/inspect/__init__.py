"""What a file contains, as a tree of `Entry` records with byte ranges: data files, statistics files, metadata.

Only what is on the way to the part that is asked for is read: the pages of one column chunk, the records of one block.
Nothing here shows anything; that is `skerry.web` and `skerry.cli`.
"""

from __future__ import annotations

from skerry.entry import Entry
from skerry.inspect.files import inspect_file, part_at

__all__ = ["Entry", "inspect_file", "part_at"]
