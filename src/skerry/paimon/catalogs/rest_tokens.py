"""Access to the files of a table that a REST catalog lends: tokens, which are replaced before they expire.

Spec: docs/formats/paimon.md § 16.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skerry.errors import UnsupportedError
from skerry.paimon.catalogs.rest_server import PaimonServer, texts

__all__ = ["DataTokens"]

_EXPIRES: Final = "s3.session-token-expires-at-ms"
_NAMES: Final = {
    "s3.access-key": "s3.access-key-id",
    "s3.access.key": "s3.access-key-id",
    "s3.secret-key": "s3.secret-access-key",
    "s3.secret.key": "s3.secret-access-key",
    "s3.session-token": "s3.session-token",
    "s3.session.token": "s3.session-token",
    "s3.endpoint": "s3.endpoint",
    "s3.region": "s3.region",
}
"""Paimon's options of S3, and those of our storage."""
_OTHERS: Final = ("fs.oss.", "oss.", "fs.obs.", "fs.cosn.")


@dataclass(frozen=True, slots=True)
class DataTokens:
    """Asks a server for storage options with the credentials of one table; picklable.

    Args:
        server: The server.
        database: The table's database.
        table: Its name.
    """

    server: PaimonServer
    database: str
    table: str

    def __call__(self) -> dict[str, str]:
        """The storage options of the newest token, with the moment when it expires.

        Raises:
            SkerryError: The server does not give any.
            UnsupportedError: They are of a store that is not supported.
        """
        found = self.server.call("GET", "databases", self.database, "tables", self.table, "token")
        token = texts(found, "token")
        other = next((name for name in token if name.startswith(_OTHERS)), None)
        if other is not None:
            raise UnsupportedError(f"tokens of this store are not supported: {other}, expected options of S3")
        options = {_NAMES.get(name, name): value for name, value in token.items()}
        until = found.get("expiresAtMillis")
        if isinstance(until, int) and not isinstance(until, bool) and until > 0:
            options[_EXPIRES] = str(until)
        return options
