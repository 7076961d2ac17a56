"""Checks of arguments that users get wrong easily; one message for each, in every package."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from skerry.errors import SchemaError

__all__ = ["bound", "check_instance", "check_list", "check_text", "check_whole_number", "checked_path", "checked_texts"]

_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_KINDS = {"strings": str, "paths": str | os.PathLike, "whole numbers": int}


def check_list(option: str, value: Iterable[object] | None, of: str = "strings") -> None:
    """Refuse what is not a list; above all a text, whose letters would be taken for its elements.

    Args:
        option: Name of the argument.
        value: Its value; None means that it was not given. Elements are checked if it is a list or a tuple.
        of: What its elements are: `strings`, `paths` or `whole numbers`.

    Raises:
        SchemaError: It is something else.
    """
    if value is None:
        return
    if isinstance(value, str | bytes | os.PathLike):
        hint = f"; write {option}=[{value!r}]" if isinstance(value, _KINDS[of]) else ""
        raise SchemaError(f"{option} must be a list of {of}, found {value!r}{hint}")
    if not isinstance(value, Iterable):
        raise SchemaError(f"{option} must be a list of {of}, found {type(value).__name__}: {value!r}")
    for element in value if isinstance(value, list | tuple) else ():
        if not isinstance(element, _KINDS[of]) or isinstance(element, bool):
            raise SchemaError(f"{option} must be a list of {of}, found {element!r} in it")


def check_instance(name: str, value: object, of: type, called: str) -> None:
    """Refuse an argument that is not an object of a class.

    Args:
        name: Name of the argument.
        value: Its value.
        of: The class.
        called: What objects of the class are called in the message, with their article.

    Raises:
        SchemaError: It is something else.
    """
    if not isinstance(value, of):
        raise SchemaError(f"{name} must be {called}, found {type(value).__name__}: {value!r:.80}")


def checked_path(name: str, value: str | os.PathLike[str]) -> str:
    """The text of a path or URL.

    Raises:
        SchemaError: It is something else.
    """
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(found, str):
        raise SchemaError(f"{name} must be a path or URL, found {type(value).__name__}: {value!r:.80}")
    return found


def bound(least: int) -> str:
    """`above 0`, for messages."""
    return "of at least 0" if least == 0 else f"above {least - 1}"


def check_whole_number(name: str, value: int | None, least: int) -> None:
    """Refuse an argument that is not a whole number, or is too small; None means that it was not given.

    Raises:
        SchemaError: It is something else.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise SchemaError(f"{name} must be a whole number {bound(least)}, found {value!r}")


def check_text(option: str, value: str | None) -> None:
    """Refuse what is not a text that a file or a database can contain; None means that it was not given.

    Raises:
        SchemaError: It is something else, or has a null character or half a surrogate pair.
    """
    if value is None:
        return
    if not isinstance(value, str):
        raise SchemaError(f"{option} must be a string, found {type(value).__name__}: {value!r}")
    found = _NO_TEXT.search(value)
    if found is not None:
        raise SchemaError(f"{option} cannot contain {found.group()!r}, found {value[:100]!r}")


def checked_texts(option: str, value: Mapping[str, str] | None) -> dict[str, str]:
    """A copy of names and values such as those of properties.

    Args:
        option: What they are called in messages.
        value: The names and values; none if None.

    Raises:
        SchemaError: It is not a mapping, or a name or a value is not a string that a file or a database can contain.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SchemaError(f"{option} must be a mapping of names to values, found {type(value).__name__}: {value!r}")
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise SchemaError(f"names and values of {option} must be strings, found {name!r}: {text!r}")
        if _NO_TEXT.search(name) or _NO_TEXT.search(text):
            raise SchemaError(f"{option} cannot contain null characters and halves of surrogate pairs, as in {name!r}")
    return dict(value)
