"""Error for files that were deleted after a frame was created, instead of a page of Spark's own.

A frame is bound to the files of a snapshot. If it is used after these were compacted and the snapshot has
expired, Spark's reader fails outside of skerry's code. PySpark converts exceptions of the JVM in one place;
those that it has no class for are examined here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark.errors.exceptions import captured

from skerry.errors import NotFoundError
from skerry.storage import is_within

__all__ = ["explain_lost_files"]

_LOST = re.compile(r"FAILED_READ_FILE\.FILE_NOT_EXIST.*?reading file (?:path: )?(\S+?)\.?(?:\s|$)", re.DOTALL)
_tables: dict[str, str] = {}
_original: Callable[[Any], Any] = captured.convert_exception


def explain_lost_files(location: str, name: str) -> None:
    """Make jobs that miss a file of a table end with an error that explains it.

    Args:
        location: The table's folder.
        name: Its name.
    """
    _tables[location] = name
    captured.convert_exception = _convert


def _convert(exception: Any) -> Any:
    converted = _original(exception)
    if isinstance(converted, captured.UnknownException):
        return _lost_file(str(converted)) or converted
    return converted


def _lost_file(text: str) -> NotFoundError | None:
    """The error for a file of one of the tables with frames; None for another failure."""
    found = _LOST.search(text)
    name = next((name for root, name in _tables.items() if found is not None and is_within(root, found[1])), None)
    if found is None or name is None:
        return None
    return NotFoundError(
        f"a data file of table {name} is missing: the snapshot of the frame has expired, or the table was "
        "dropped, since the frame was created; read the table again",
        location=found[1],
    )
