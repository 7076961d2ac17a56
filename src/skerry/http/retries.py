"""When a request to a REST catalog is sent again, and the keys by which a server recognises one that it has executed.

Spec: Iceberg REST specification.
"""

from __future__ import annotations

import random
import re
import secrets
import time
from collections.abc import Iterator
from typing import Final

from skerry.http.http_client import Answer, HttpError

__all__ = ["READS", "Attempts", "key_lifetime_s"]

READS: Final = ("GET", "HEAD")
_RETRIES: Final = 4
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
_BUSY: Final = (429, 502, 503, 504)
_FAILED: Final = (408, 500)
_TOO_MANY: Final = 429
_UNAVAILABLE: Final = 503
_NOT_IMPLEMENTED: Final = 501
_DURATION: Final = re.compile(
    r"P(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?", re.IGNORECASE
)
_UNITS_S: Final = (86_400, 3_600, 60, 1)


class Attempts:
    """The attempts of one request.

    Args:
        method: The HTTP method.
        key_lifetime_s: How long the server remembers a request by its key, in seconds; None if it does not.
        is_read: Whether it is a read by another method.

    Attributes:
        is_read: Whether it changes nothing.
        key: The key that all attempts have; None for reads, and if the server does not remember any.
        may_have_effect: Whether an attempt may have changed something, without an answer that says so.
    """

    def __init__(self, method: str, key_lifetime_s: float | None, *, is_read: bool = False) -> None:
        self.is_read = is_read or method in READS
        self.key = None if self.is_read or key_lifetime_s is None else _new_key()
        self._until = time.monotonic() + key_lifetime_s if self.key is not None and key_lifetime_s else None
        self.may_have_effect = False
        self._pauses = _pauses_s()

    def follows_error(self, error: HttpError) -> bool:
        """Wait, if a request that got no answer is sent again; returns whether it is."""
        self.may_have_effect |= error.may_have_effect and not self.is_read
        is_safe = self.is_read or self.key is not None or not error.may_have_effect
        return error.may_repeat and is_safe and self._wait(0.0)

    def follows(self, answer: Answer) -> bool:
        """Wait, if a request that was answered is sent again; returns whether it is."""
        status = answer.status
        if not self.is_read and (status == _FAILED[0] or (status >= _FAILED[1] and status != _NOT_IMPLEMENTED)):
            self.may_have_effect = True
        after_s = _retry_after_s(answer)
        if self.is_read:
            again = status in _BUSY
        elif self.key is not None:  # the server does not keep an answer of 5xx: it executes the request again
            again = status in _BUSY or status in _FAILED
        else:
            again = status == _TOO_MANY or (status == _UNAVAILABLE and after_s is not None)
        return again and self._wait(after_s or 0.0)

    def _wait(self, least_s: float) -> bool:
        pause_s = next(self._pauses, None)
        if pause_s is None:
            return False
        pause_s = max(pause_s, least_s)
        if self._until is not None and time.monotonic() + pause_s >= self._until:
            return False
        time.sleep(pause_s)
        return True


def key_lifetime_s(text: object) -> float | None:
    """How long a server remembers keys, in seconds, from its configuration; None if it does not, or says it otherwise.

    Args:
        text: `idempotency-key-lifetime`, an ISO 8601 duration in days and smaller units: `PT30M`.
    """
    found = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        return None
    return sum(float(part) * unit for part, unit in zip(found.groups(), _UNITS_S, strict=True) if part) or None


def _new_key() -> str:
    """A UUID of version 7: milliseconds, then chance.

    Spec: RFC 9562, UUID Version 7.
    """
    chance = secrets.randbits(74)
    value = int(time.time() * 1000) << 80 | 0x7 << 76 | (chance >> 62) << 64 | 0b10 << 62 | (chance & (1 << 62) - 1)
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _pauses_s() -> Iterator[float]:
    pause = _FIRST_PAUSE_S
    for _ in range(_RETRIES):
        yield random.uniform(0.5, 1.0) * pause
        pause *= 2


def _retry_after_s(answer: Answer) -> float | None:
    text = answer.headers.get("retry-after", "")
    return min(float(text), _LONGEST_PAUSE_S) if text.isdecimal() else None
