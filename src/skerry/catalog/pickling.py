"""How catalogs and tables travel to other processes: as what they were opened with, which must not be secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from skerry.errors import UnsupportedError
from skerry.storage import is_harmless, redact

__all__ = ["Opening"]

_HARMLESS: Final = frozenset(
    {
        "allowed_locations",
        "catalog-key",
        "create",
        "encryption.key-management",
        "init_catalog_tables",
        "key_management",
        "lock-acquire-timeout",
        "lock-check-max-sleep",
        "lock.enabled",
        "name",
        "namespace-separator",
        "oauth2-server-uri",
        "paimon.warehouse",
        "prefix",
        "rest-page-size",
        "rest.signing-name",
        "rest.signing-region",
        "rest.sigv4-enabled",
        "schema_version",
        "scope",
        "skerry.allowed-locations",
        "snapshot-loading-mode",
        "type",
        "view-endpoints-supported",
        "warehouse",
    }
)
_USER_ONLY: Final = re.compile(r"^([\w+.-]+://)[^:/@?#]*@")
_ELSEWHERE: Final = (
    "give it where it is unpickled as well: as a catalog by name in .pyiceberg.yaml, or as the environment variables "
    "of its service (AWS_ACCESS_KEY_ID, PGPASSWORD, …)"
)


@dataclass(frozen=True, slots=True)
class Opening:
    """Opens a catalog or table again, in another process.

    Args:
        open: `connect` or `open_table`.
        target: Its first argument.
        options: The others.
    """

    open: Callable[..., Any]
    target: str
    options: Mapping[str, Any]

    def __call__(self) -> Any:
        """Open it; nothing is created."""
        return self.open(self.target, **self.options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse what may be secret.

        Raises:
            UnsupportedError: An option is not known to be harmless, or the address has a password or parameters.
        """
        bare = _USER_ONLY.sub(r"\1", self.target)
        if redact(bare) != bare and not bare.startswith("sqlite"):
            raise UnsupportedError(
                f"the address may hold a password or token, which is not pickled; {_ELSEWHERE}",
                location=redact(self.target),
            )
        for name in sorted(self.options):
            if name not in _HARMLESS and not is_harmless(name):
                raise UnsupportedError(f"the property {name!r} may be a secret and is not pickled; {_ELSEWHERE}")
        return Opening, (self.open, self.target, dict(self.options))
