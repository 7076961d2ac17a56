"""What is going on: records of the logger `skerry`, and spans where the process uses OpenTelemetry.

Neither costs anything unless somebody listens: records of level INFO are made if the logger has that level, spans if
OpenTelemetry's API has been imported by whoever configures it.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from skerry._version import __version__

__all__ = ["LOG", "span", "working"]

LOG: Final = logging.getLogger("skerry")
_API: Final = "opentelemetry.trace"


@contextmanager
def span(name: str, **attributes: str | float) -> Iterator[Any]:
    """A span of OpenTelemetry around the block; an exception is recorded in it.

    Args:
        name: What is done.
        attributes: About it; their names get the prefix `skerry.`.

    Yields:
        The span; None if the process does not use OpenTelemetry.
    """
    api = sys.modules.get(_API)
    if api is None:
        yield None
        return
    named = {f"skerry.{key}": value for key, value in attributes.items()}
    with api.get_tracer("skerry", __version__).start_as_current_span(f"skerry.{name}", attributes=named) as current:
        yield current


@contextmanager
def working(table: str, done: str, name: str, **attributes: str | float) -> Iterator[Any]:
    """A span around work on a table, and a record of level INFO with its milliseconds if it succeeds.

    Args:
        table: The table.
        done: What was done, for the log: "deleted 12 files of expired snapshots".
        name: What is done, for the span: "delete".
        attributes: As in `span`.

    Yields:
        The span; None if the process does not use OpenTelemetry.
    """
    begin = time.monotonic()
    with span(name, table=table, **attributes) as current:
        yield current
    LOG.info("%s: %s in %.0f ms", table, done, 1000 * (time.monotonic() - begin))
