"""Dates and times that Spark changes when it passes them to a source as filters.

Spark passes constants to sources as `java.sql.Date` and `java.sql.Timestamp`, whose calendar skips 5 to 14 October
1582, and whose instants before 1900 depend on historical local time. The result may be another day.
"""

from __future__ import annotations

import datetime
from typing import Final

__all__ = ["MOVED_DAYS", "MOVED_MOMENTS"]

MOVED_DAYS: Final = (datetime.date(1582, 10, 4), datetime.date(1582, 10, 26))
"""The first and last day that may change; one more than the calendars differ by, because of time zones."""

MOVED_MOMENTS: Final = datetime.datetime(1900, 1, 2)
"""UTC; earlier instants may change."""
