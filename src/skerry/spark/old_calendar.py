"""Days that Spark moves on their way into a filter of a source.

Spark hands constants to sources as `java.sql.Date` and `java.sql.Timestamp`, whose calendar has no 5 to 14 October
1582, and whose points in time before 1900 depend on what clocks showed. What comes out of it may be another day.
"""

from __future__ import annotations

import datetime
from typing import Final

__all__ = ["MOVED_DAYS", "MOVED_MOMENTS"]

MOVED_DAYS: Final = (datetime.date(1582, 10, 4), datetime.date(1582, 10, 26))
"""The first and last day that may be another one; one more than the calendars differ by, for the sake of time zones."""

MOVED_MOMENTS: Final = datetime.datetime(1900, 1, 2)
"""UTC; points in time before it may be other ones."""
