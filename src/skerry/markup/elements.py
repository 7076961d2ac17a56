"""Elements of HTML and SVG."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final, TypeAlias

__all__ = ["Content", "Html", "element", "join"]

_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Html(str):
    """Markup. A text becomes markup only through `element` and `join`, which escape it."""

    __slots__ = ()

    def __html__(self) -> str:
        """The markup itself, for template languages that ask."""
        return self


Content: TypeAlias = "Html | str | int | float | Iterable[Content] | None"
"""What may be inside of an element: None is nothing, an iterable its items, everything but markup is escaped."""


def join(*content: Content) -> Html:
    """Put content one after another."""
    return Html("".join(_markup(each) for each in content))


def element(tag: str, *content: Content, **attributes: str | float | bool | None) -> Html:
    """An element.

    Args:
        tag: Its name, which is a constant of the program.
        content: What is inside.
        attributes: By name, an underscore for each hyphen and one at the end of Python's keywords (`class_`). True is
            an attribute without value; False and None leave it out.
    """
    parts = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        written = name.rstrip("_").replace("_", "-")
        parts.append(written if value is True else f'{written}="{escape(_text(value))}"')
    opening = f"<{' '.join(parts)}>"
    return Html(opening) if tag in _VOID else Html(f"{opening}{join(*content)}</{tag}>")


def _markup(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Html):
        return content
    if isinstance(content, str | int | float):
        return escape(_text(content))
    return join(*content)


def _text(value: str | float) -> str:
    """A text that is legal in a document; numbers of plots need no more than two decimals."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value).replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
