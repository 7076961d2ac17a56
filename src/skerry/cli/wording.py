"""Hints of errors in words of the command line: the library names arguments and methods of Python."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["in_commands"]

_WORDS: Final = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"drop_table\('([^']*)', purge=True\)", r"`skerry drop \1 --purge`"),
        (r"skerry\.open_table\('([^']*)'\) reads it; connect to", r"`skerry serve \1` shows it; name with -w"),
        (r"\b(?:table\.)?compact\(full=True\)", "`skerry compact --all`"),
        (r"\b(?:run )?analyze\(full=True\)", "run `skerry analyze --full`"),
        (r"\btable\.([a-z]+)\(\)", r"`skerry \1`"),
        (r"catalog\.relocate\(\) or `skerry relocate`", "`skerry relocate`"),
        (r": connect\([^)]*, (warehouse)='…'\)", r": add -p \1=…"),
        (r"\bconnect with (warehouse)='…'", r"add -p \1=…"),
        (r"connect\('(\./[^']*)'\) makes", r"-w \1 makes"),
        (r"\b(purge|replace|create)=True\b", r"--\1"),
    )
)


def in_commands(message: str) -> str:
    """An error's message, with what the library proposes as commands and options."""
    for pattern, words in _WORDS:
        message = pattern.sub(words, message)
    return message
