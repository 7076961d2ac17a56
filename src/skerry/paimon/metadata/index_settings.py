"""Which indexes a table's options ask for: `file-index.<type>.columns`, and the options of each column.

    file-index.bitmap.columns = city, attributes[color]
    file-index.bitmap.city.version = 1

An option of a map's column holds for all keys that are indexed, unless a key has its own.

Spec: docs/formats/paimon.md § 12.2; Paimon documentation, Configurations, `file-index.…`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from skerry.errors import SchemaError
from skerry.paimon.metadata.option_values import parse_int, parse_list, parse_size_bytes

__all__ = ["IndexSettings", "index_settings"]

_PREFIX: Final = "file-index."
_COLUMNS: Final = ".columns"
_RULE: Final = "docs/formats/paimon.md § 12.2"


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """An index that files get.

    Args:
        type: Its type: `bitmap`.
        column: The column.
        key: The key of the column's map whose values are indexed; None for the column's own values.
        options: Its options, by their last word: `version`.
    """

    type: str
    column: str
    key: str | None
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """The name of the index in its container: `attributes[color]`."""
        return self.column if self.key is None else f"{self.column}[{self.key}]"

    def option_name(self, option: str) -> str:
        """The table's name of an option."""
        return f"{_PREFIX}{self.type}.{self.name}.{option}"

    def number(self, option: str, default: float) -> float:
        """An option that is a number.

        Raises:
            SchemaError: It is not.
        """
        text = self.options.get(option)
        try:
            return default if text is None else float(text)
        except ValueError:
            raise SchemaError(f"option {self.option_name(option)} must be a number, found {text!r}") from None

    def integer(self, option: str, default: int) -> int:
        """An option that is an integer; raises `SchemaError` if it is not."""
        text = self.options.get(option)
        return default if text is None else parse_int(self.option_name(option), text)

    def size_bytes(self, option: str, default: int) -> int:
        """An option that is a size such as `16 kb`; raises `SchemaError` if it is not."""
        text = self.options.get(option)
        return default if text is None else parse_size_bytes(self.option_name(option), text)


def index_settings(options: Mapping[str, str]) -> tuple[IndexSettings, ...]:
    """The indexes that a table's options ask for.

    Raises:
        SchemaError: There are options for a column that the list of columns does not name.
    """
    found: list[IndexSettings] = []
    for name, text in options.items():
        if name.startswith(_PREFIX) and name.endswith(_COLUMNS):
            type_ = name[len(_PREFIX) : -len(_COLUMNS)]
            found += _of_columns(type_, parse_list(text), options)
    _check_options(options, found)
    return tuple(found)


def _of_columns(type_: str, names: Iterable[str], options: Mapping[str, str]) -> list[IndexSettings]:
    found = []
    for name in names:
        column, bracket, rest = name.partition("[")
        nested = bool(bracket) and name.endswith("]")
        own = _options(options, type_, name)
        if nested:
            found.append(IndexSettings(type_, column, rest[:-1], {**_options(options, type_, column), **own}))
        else:
            found.append(IndexSettings(type_, name, None, own))
    return found


def _options(options: Mapping[str, str], type_: str, column: str) -> dict[str, str]:
    prefix = f"{_PREFIX}{type_}.{column}."
    return {
        name[len(prefix) :]: text
        for name, text in options.items()
        if name.startswith(prefix) and "." not in name[len(prefix) :]
    }


def _check_options(options: Mapping[str, str], found: Iterable[IndexSettings]) -> None:
    known = {(one.type, name) for one in found for name in (one.name, one.column)}
    for option in options:
        parts = option.removeprefix(_PREFIX).split(".")
        if option.startswith(_PREFIX) and len(parts) == 3 and (parts[0], parts[1]) not in known:
            raise SchemaError(
                f"option {option}: {_PREFIX}{parts[0]}{_COLUMNS} does not name column {parts[1]!r}", rule=_RULE
            )
