"""Retrying requests to an object store: which may be sent again, and whether an existing file is one's own.

A store may execute a request and lose its answer: a status of 5xx, a time-out, a closed connection. Reads and
replacements can simply be repeated. The creation of a file that must not exist yet cannot: the second request finds
the file that the first one created, and only its content shows who wrote it.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from enum import Enum
from typing import Final

from obstore.exceptions import AlreadyExistsError as ObjectExistsError
from obstore.exceptions import GenericError

from skerry.storage.location import Family, Location, name

__all__ = ["Answer", "answer_of", "has_unique_name", "pauses", "status_of"]

MAX_RETRIES: Final = 6
PATIENCE_S: Final = 120.0
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 15.0
_STATUS: Final = re.compile(r"status code: (\d{3})")
_NO_ANSWER: Final = ("HTTP error", "error sending request", "timed out", "connection closed")
_UUID: Final = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


class Answer(Enum):
    """What an error says about the request."""

    EXISTS = "refused: a file of that name exists"
    BUSY = "refused: another request for the same file is under way"
    UNKNOWN = "no answer, or none that says whether it took effect"
    REFUSED = "refused for good"


def status_of(error: BaseException) -> str:
    """The HTTP status in an error of obstore; empty if there is none."""
    found = _STATUS.search(str(error))
    return found[1] if found else ""


def answer_of(error: BaseException, family: Family) -> Answer:
    """What an error of obstore says about the request."""
    status = status_of(error)
    if status == "409" and family is Family.S3:  # S3: ConditionalRequestConflict, OperationAborted; Azure: exists
        return Answer.BUSY
    if isinstance(error, ObjectExistsError):
        return Answer.EXISTS
    if status in ("408", "429") or status.startswith("5"):
        return Answer.UNKNOWN
    is_lost = isinstance(error, GenericError) and not status and any(part in str(error) for part in _NO_ANSWER)
    return Answer.UNKNOWN if is_lost else Answer.REFUSED


def pauses() -> Iterator[bool]:
    """Wait longer and longer, yielding after each pause; ends after six pauses or two minutes."""
    end = time.monotonic() + PATIENCE_S
    pause = _FIRST_PAUSE_S
    for _ in range(MAX_RETRIES):
        wait = random.uniform(0.5, 1.0) * pause
        if time.monotonic() + wait > end:
            return
        time.sleep(wait)
        yield True
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def has_unique_name(location: Location) -> bool:
    """Whether a file's name contains a UUID, so that only one writer can have created a file of that name."""
    return _UUID.search(name(location.text)) is not None
