"""The address of a page: its path and parameters, and addresses of other pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from skerry.errors import NotFoundError

__all__ = ["Query", "address"]


def address(path: str, /, **parameters: str | int | None) -> str:
    """The address of a page; parameters that are None are left out."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


@dataclass(frozen=True, slots=True)
class Query:
    """What was asked for.

    Args:
        path: The path of the page.
        parameters: Its parameters, which may be anything.
    """

    path: str
    parameters: Mapping[str, str]

    def text(self, name: str, default: str = "") -> str:
        """A parameter."""
        return self.parameters.get(name, default)

    def number(self, name: str, default: int = 0) -> int:
        """A whole number from 0.

        Raises:
            NotFoundError: It is something else.
        """
        value = self.parameters.get(name, "")
        if not value:
            return default
        if not value.isascii() or not value.isdecimal() or len(value) > 19:
            raise NotFoundError(f"{name} is {value!r}, expected a whole number")
        return int(value)

    def one_of(self, name: str, *choices: str) -> str:
        """One of some choices; the first if none of them is given."""
        value = self.parameters.get(name, "")
        return value if value in choices else choices[0]

    @property
    def table(self) -> str:
        """The name of the table."""
        return self.text("t")

    def with_(self, **changes: str | int | None) -> str:
        """The address of this page with other parameters; None leaves one out."""
        return address(self.path, **{**self.parameters, **changes})
