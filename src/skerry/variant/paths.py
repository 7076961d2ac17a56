"""Paths into variants: `$.name`, `$['name']`, `$.list[0]`.

Spec: RFC 9535, Normalized Paths.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from skerry.errors import SchemaError

__all__ = ["Path", "normalized_path", "parse_path"]

Path: TypeAlias = tuple[str | int, ...]
"""The steps of a path: names of fields and places of elements."""

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]'"\s]+)|\[\s*(?P<index>\d{1,9})\s*\]|\[\s*(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\s*\]""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SPECIAL: Final = {"'": "\\'", "\\": "\\\\", **{char: f"\\{letter}" for letter, char in _ESCAPES.items()}}


def parse_path(text: str) -> Path:
    """The steps of a path.

    Raises:
        SchemaError: The text is no path from the root `$` over names and places.
    """
    if not isinstance(text, str):
        raise SchemaError(f"a path into a variant must be text, found {type(text).__name__}: {text!r:.80}")
    position = 1
    steps: list[str | int] = []
    while text.startswith("$") and position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            break
        position = found.end()
        if found["index"] is not None:
            steps.append(int(found["index"]))
        else:
            steps.append(found["name"] if found["name"] is not None else _unquoted(found["quoted"][1:-1]))
    if not text.startswith("$") or position < len(text):
        raise SchemaError(f"{text!r:.80} is no path into a variant, expected such as $.name, $['a name'], $.list[0]")
    return tuple(steps)


def _unquoted(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        escape = found[1]
        return chr(int(escape[1:], 16)) if len(escape) == 5 else _ESCAPES.get(escape, escape)

    # two escapes can be the halves of one character
    return _ESCAPE.sub(plain, text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def normalized_path(path: Path) -> str:
    """The one text of a path, as bounds name fields: `$['a']['b']`.

    Spec: Iceberg spec, Bounds for Variant; RFC 9535, Normalized Paths.
    """
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f"['{_escaped(step)}']" for step in path)


def _escaped(name: str) -> str:
    return "".join(_SPECIAL.get(char) or (f"\\u{ord(char):04x}" if char < " " else char) for char in name)
