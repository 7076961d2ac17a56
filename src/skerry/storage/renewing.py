"""Credentials that expire, and are renewed before they do.

The moments are Iceberg Java's options: `s3.session-token-expires-at-ms`, `gcs.oauth2.token-expires-at` and
`adls.sas-token-expires-at-ms.<account>`, all in milliseconds since 1970.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

from skerry.errors import SkerryError
from skerry.storage.options import secret_values, select_options

__all__ = ["RenewedCredentials", "expires_at"]

_EXPIRY: Final = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms")
_EARLY_S: Final = 300.0
"""How long before their end credentials are renewed; those that live shortly, in the middle of their life."""
_PAUSE_S: Final = 10.0
"""After a renewal that failed, while the old ones are still valid."""
_SHORTEST_S: Final = 0.2


def expires_at(options: Mapping[str, str]) -> float | None:
    """When the first of the credentials expires, in seconds since 1970; None if none says so."""
    found = [
        int(value) / 1000
        for key, value in options.items()
        if key.startswith(_EXPIRY) and value.isdecimal() and len(value) < 18
    ]
    return min(found, default=None)


class RenewedCredentials:
    """Storage options whose credentials are renewed before they expire; picklable if `source` is.

    Args:
        options: The first ones.
        source: Gives later ones, and raises errors of `skerry.errors`.
    """

    def __init__(self, options: Mapping[str, str], source: Callable[[], Mapping[str, str]]) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._secrets: set[str] = set()
        self._expires_at: float | None = None
        self._renew_at: float | None = None
        self._accept(dict(options))

    @property
    def options(self) -> dict[str, str]:
        """The last ones, which may have expired."""
        return dict(self._options)

    @property
    def secrets(self) -> list[str]:
        """Values of all of them that must never be displayed, longest first."""
        return sorted(self._secrets, key=len, reverse=True)

    def current(self) -> tuple[dict[str, str], float | None]:
        """Valid ones, and when to ask for the next, in seconds since 1970; None for never.

        Raises:
            SkerryError: They have expired, and there are no others.
        """
        with self._lock:
            now = time.time()
            if self._renew_at is not None and now >= self._renew_at:
                try:
                    found = select_options(self._source())
                except SkerryError:
                    if self._expires_at is None or now >= self._expires_at:
                        raise
                    self._renew_at = min(now + _PAUSE_S, self._expires_at)
                else:
                    self._accept({**self._options, **found})
            return self._options, self._renew_at

    def _accept(self, options: dict[str, str]) -> None:
        now = time.time()
        self._options = options
        self._secrets.update(secret_values(options))
        self._expires_at = expires_at(options)
        self._renew_at = None
        if self._expires_at is not None:
            early_s = min(_EARLY_S, (self._expires_at - now) / 2)
            self._renew_at = max(self._expires_at - early_s, now + _SHORTEST_S) if early_s > 0 else now

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_process, (self._options, self._source)

    def __repr__(self) -> str:
        return "RenewedCredentials(***)"


def _of_process(options: dict[str, str], source: Callable[[], Mapping[str, str]]) -> RenewedCredentials:
    """One object for all copies of the same credentials, so that tasks of a process share renewals and connections."""
    key = frozenset(options.items())
    with _known_lock:
        found = _known.get(key)
        if found is None:
            found = _known[key] = RenewedCredentials(options, source)
        return found


_known: Final[WeakValueDictionary[frozenset[tuple[str, str]], RenewedCredentials]] = WeakValueDictionary()
_known_lock: Final = threading.Lock()
