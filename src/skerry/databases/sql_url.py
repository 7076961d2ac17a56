"""The address of a SQL database: `dialect+driver://user:password@host:port/database?option=value`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from skerry.arguments import check_text
from skerry.errors import SchemaError
from skerry.storage import redact

__all__ = ["SqlUrl", "parse_sql_url"]

_PORT: Final = re.compile(r"\d{1,5}", re.ASCII)
# The form that SQLAlchemy takes too, so that PyIceberg opens the same database.
_FORM: Final = re.compile(
    r"(?P<dialect>\w+)(?:\+(?P<driver>\w+))?://"
    r"(?:(?P<user>[^:/]*)(?::(?P<password>[^@]*))?@)?"
    r"(?:\[(?P<address>[^/?\]]+)\]|(?P<host>[^/:?]+))?(?::(?P<port>[^/?]*))?"
    r"(?:/(?P<database>[^?]*))?(?:\?(?P<query>.*))?"
)


@dataclass(frozen=True, slots=True)
class SqlUrl:
    """A parsed address.

    Args:
        dialect: The kind of database: `sqlite`, `postgresql`.
        database: Its name, or its file; empty if not given.
        host: The server.
        port: Its port.
        user: The account.
        password: Its password.
        options: Options of the connection.
        driver: The library that was asked for.
    """

    dialect: str
    database: str = ""
    host: str | None = None
    port: int | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    options: tuple[tuple[str, str], ...] = ()
    driver: str | None = None

    def __str__(self) -> str:
        """The address of a database that needs no login, as it is parsed again."""
        query = f"?{urlencode(self.options)}" if self.options else ""
        return f"{self.dialect}:///{quote(self.database, safe=' +/')}{query}"


def parse_sql_url(text: str) -> SqlUrl:
    """Parse the address of a database.

    Raises:
        SchemaError: It does not have that form; the message has no password.
    """
    found = _FORM.fullmatch(text)
    port = found["port"] if found is not None else None
    if found is None or (port and not _PORT.fullmatch(port)):
        raise SchemaError(f"{redact(text)} is not the address of a SQL database: dialect://user@host:port/database")
    if found["user"] is not None and "@" in (found["database"] or ""):
        raise SchemaError(
            "the address of the SQL database has more than one @: write those of user, password and database as %40, "
            "and / as %2F",
            location=f"{found['dialect']}://***",
        )
    check_text("the name of the database", unquote(found["database"] or ""))
    user, password = found["user"], found["password"]
    return SqlUrl(
        found["dialect"].lower(),
        unquote(found["database"] or ""),
        found["address"] or found["host"],
        int(port) if port else None,
        unquote(user) if user is not None else None,
        unquote(password) if password is not None else None,
        tuple(parse_qsl(found["query"] or "")),
        found["driver"],
    )
