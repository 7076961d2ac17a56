"""Tokenizers, collations and searches in plain Python: what the kernels are held against."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_ADDRESS = re.compile(rb"(?<![0-9A-Za-z])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9A-Za-z])")
_MARKS = frozenset("\u0345\u0903\u093e\u24b6\U0001f170")


def is_alphanumeric(character: str) -> bool:
    """Letters and numbers, and the few marks and symbols of these tests that are Alphabetic."""
    return unicodedata.category(character)[0] in "LN" or character in _MARKS


def words(text: str) -> list[str]:
    found, word = [], ""
    for character in text + " ":
        if is_alphanumeric(character):
            word += character
        elif word:
            found.append(word)
            word = ""
    return found


def addresses(text: str) -> Iterator[str]:
    data, at = text.encode(), 0
    while match := _ADDRESS.search(data, at):
        if all(int(part) <= 255 for part in match[0].split(b".")):
            yield match[0].decode()
            at = match.end()
        else:
            at = match.start() + 1


def cut(term: str) -> str:
    while len(term.encode()) > 128:
        term = term[:-1]
    return term


def terms(text: str, tokenizer: str) -> list[str]:
    if tokenizer == "trivial":
        found = [text] if text else []
    else:
        found = [*(addresses(text) if tokenizer == "unicode-log" else ()), *words(text)]
    return [cut(term) for term in found]


def fold(text: str) -> str:
    return "".join(up if len(up := character.upper()) == 1 else character for character in text)
