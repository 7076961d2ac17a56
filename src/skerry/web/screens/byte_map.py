"""A file, byte by byte: what its parts are, where they are and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from skerry.errors import NotFoundError
from skerry.inspect import Entry, inspect_file, part_at
from skerry.markup import Column, Html, definitions, element, join, table
from skerry.markup.plots import Part, byte_map, share_bar
from skerry.web.query import Query
from skerry.web.source import Source
from skerry.web.values import count, cut, pages, size

__all__ = ["FilePage", "read_file", "show_file"]

_PER_PAGE: Final = 200
_MOST_PARTS: Final = 4000
_MOST_COLUMNS: Final = 11
_DUMPED: Final = 512
_CLASSES: Final = (
    ("dictionary", "k-dictionary"),
    ("footer", "k-meta"),
    ("trailer", "k-meta"),
    ("magic", "k-meta"),
    ("header", "k-meta"),
    ("index", "k-index"),
    ("list", "k-meta"),
    ("schema", "k-meta"),
    ("propert", "k-meta"),
    ("levels", "k-levels"),
    ("sync", "k-meta"),
    ("field", "k-field"),
)
_ENCODINGS: Final = (
    ("DICTIONARY", "k-coded"),
    ("FSST", "k-coded"),
    ("DELTA", "k-delta"),
    ("FRAME_OF_REFERENCE", "k-delta"),
    ("RUN_LENGTH", "k-delta"),
    ("RLE", "k-delta"),
    ("SINGLE_VALUE", "k-levels"),
    ("SPARSE", "k-levels"),
    ("BYTE_STREAM_SPLIT", "k-split"),
    ("ALP", "k-split"),
)


_LEGEND: Final = (
    ("k-dictionary", "dictionary"),
    ("k-coded", "codes of a dictionary or of symbols"),
    ("k-delta", "differences, runs, small integers"),
    ("k-split", "split floats"),
    ("k-plain", "plain or only compressed"),
    ("k-levels", "nulls, levels, constants"),
    ("k-index", "index"),
    ("k-meta", "metadata"),
)


@dataclass(frozen=True, slots=True)
class FilePage:
    """A part of a file.

    Args:
        location: The file.
        way: The parts from the file to the part that is shown, without what is inside of them.
        part: The part with what is inside.
        dump: Its first bytes, where it has no parts.
    """

    location: str
    way: list[Entry]
    part: Entry
    dump: bytes = b""

    def as_json(self) -> dict[str, Any]:
        """The file, the way to the part, and the part."""
        way = [{"kind": each.kind, "name": each.name, "start": each.start, "end": each.end} for each in self.way]
        return {"file": self.location, "way": way, "part": self.part, "bytes": self.dump or None}


def read_file(source: Source, query: Query) -> FilePage:
    """The part of a file that the parameter `at` leads to, such as `1.0.2`."""
    storage, location = source.file_of(query.table, query.text("path"))
    at = _at(query)
    way = part_at(inspect_file(storage, location, at), at)
    part = way[-1]
    dump = b""
    if not part.children and part.start is not None and part.end is not None and part.file == location:
        dump = storage.read_range(location, part.start, min(part.end - part.start, _DUMPED))
    return FilePage(location, way[:-1], part, dump)


def _at(query: Query) -> list[int]:
    text = query.text("at")
    parts = text.split(".") if text else []
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise NotFoundError(f"at is {text!r}, expected positions such as 1.0.2")
    return [int(part) for part in parts]


# ---- showing ----


def show_file(found: FilePage, query: Query) -> Html:
    """The way to the part, a map of its bytes, what it says, and its parts."""
    part, at = found.part, _at(query)
    name = found.location.rsplit("/", 1)[-1]
    crumbs = [
        element(
            "li", element("a", _title(each) if number else name, href=query.with_(at=_joined(at[:number]), page=None))
        )
        for number, each in enumerate(found.way)
    ]
    crumbs.append(element("li", _title(part) if found.way else name, aria_current="true"))
    head = join(
        element("nav", element("ol", crumbs), aria_label="parts", class_="crumbs"),
        element("p", found.location, class_="path dim") if not found.way else None,
    )
    return join(
        head,
        _map(found, query, at),
        element("div", definitions(_details(part)), class_="details"),
        _parts(part, query, at),
        _dump(found),
    )


def _joined(at: list[int]) -> str | None:
    return ".".join(map(str, at)) or None


def _title(entry: Entry) -> str:
    return f"{entry.kind} {entry.name}".strip()


def _details(part: Entry) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if part.start is not None and part.end is not None:
        shown["bytes"] = f"{part.start:,} to {part.end:,}"
        shown["size"] = f"{size(part.end - part.start)} ({part.end - part.start:,})"
    for name, value in part.details.items():
        text = _text(name, value)
        if text:
            shown[name.replace("_", " ")] = (
                element("span", text, class_="problem") if name == "error" else cut(text, 600)
            )
    return shown


def _text(name: str, value: Any) -> str:
    if value is None or value == []:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value) if "id" not in name.split("_") else str(value)
    if isinstance(value, list):
        return ", ".join(_text(name, each) for each in value)
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_text(str(key), each)}" for key, each in value.items())
    return str(value)


def _map(found: FilePage, query: Query, at: list[int]) -> Html | None:
    part = found.part
    if part.start is None or part.end is None or part.end <= part.start:
        return None
    drawn = _drawn(part, query, at, 3)
    colours = {each.class_ for each in drawn.walk()}
    legend = [
        element("span", element("svg", element("rect", width=10, height=10, class_=class_), width=10, height=10), label)
        for class_, label in _LEGEND
        if class_ in colours
    ]
    return join(byte_map(drawn, depth=3), element("p", legend, class_="legend dim", aria_hidden="true"))


def _drawn(entry: Entry, query: Query, at: list[int], depth: int) -> Part:
    """A part of the map; parts without bytes of their own, and those of other files, are left out."""
    assert entry.start is not None
    assert entry.end is not None
    children = []
    if depth > 1:
        for number, child in enumerate(entry.children[:_MOST_PARTS]):
            if (
                child.start is not None
                and child.end is not None
                and child.file == entry.file
                and child.end > child.start
            ):
                children.append(_drawn(child, query, [*at, number], depth - 1))
    title = f"{_title(entry)}: bytes {entry.start:,} to {entry.end:,}, {size(entry.end - entry.start)}"
    encodings = entry.details.get("encodings") or entry.details.get("encoding")
    if encodings:
        title += f", {_text('', encodings)}"
    children.sort(key=lambda child: child.start)
    return Part(
        entry.name if any(letter.isalpha() for letter in entry.name) else _title(entry),
        title,
        entry.start,
        entry.end,
        _class(entry),
        query.with_(at=_joined(at), page=None),
        tuple(children),
    )


def _class(entry: Entry) -> str:
    """The colour of a part: its kind, or for values their encoding."""
    encodings = entry.details.get("encodings") or entry.details.get("encoding") or ()
    names = [encodings] if isinstance(encodings, str) else [str(each) for each in encodings]
    names = [name for name in names if name.isupper()]
    if entry.kind != "dictionary page" and names:
        for name, class_ in _ENCODINGS:
            if any(name in each for each in names):
                return class_
        return "k-plain"
    said = f"{entry.kind} {entry.name}".lower() if entry.kind == "buffer" else entry.kind
    return next((class_ for word, class_ in _CLASSES if word in said), "k-data")


def _parts(part: Entry, query: Query, at: list[int]) -> Html | None:
    if not part.children:
        return None
    first = query.number("page") * _PER_PAGE
    shown = list(enumerate(part.children))[first : first + _PER_PAGE]
    whole = max((part.end or 0) - (part.start or 0), 1)
    names: dict[str, None] = {}
    for _, child in shown:
        names |= dict.fromkeys(name for name, value in child.details.items() if _text(name, value))
    columns = [
        Column[tuple[int, Entry]](
            "part",
            lambda pair: element(
                "a", _title(pair[1]), href=query.with_(at=_joined([*at, pair[0]]), page=None), class_="bdi"
            ),
        ),
        Column[tuple[int, Entry]]("from byte", lambda pair: count(pair[1].start), right=True),
        Column[tuple[int, Entry]]("bytes", lambda pair: count(_length(pair[1])), right=True),
        Column[tuple[int, Entry]]("", lambda pair: _share(pair[1], whole)),
        *(_detail_column(name, [child for _, child in shown]) for name in list(names)[:_MOST_COLUMNS]),
    ]
    return element(
        "section",
        element("h2", "Parts", element("span", f"{len(part.children):,}", class_="dim")),
        element("div", table(shown, columns, caption="parts"), class_="wide"),
        pages(lambda number: query.with_(page=number), query.number("page"), _PER_PAGE, len(part.children), "parts"),
    )


def _share(entry: Entry, whole: int) -> Html | None:
    length = _length(entry)
    return None if length is None else share_bar(length / whole, size(length))


def _length(entry: Entry) -> int | None:
    return None if entry.start is None or entry.end is None else entry.end - entry.start


def _detail_column(name: str, entries: list[Entry]) -> Column[tuple[int, Entry]]:
    values = [entry.details.get(name) for entry in entries]
    is_number = all(value is None or isinstance(value, int | float) for value in values)
    return Column(name.replace("_", " "), lambda pair: cut(_text(name, pair[1].details.get(name)), 60), right=is_number)


def _dump(found: FilePage) -> Html | None:
    """The bytes themselves, sixteen a line."""
    if not found.dump:
        return None
    start = found.part.start or 0
    lines = []
    for offset in range(0, len(found.dump), 16):
        line = found.dump[offset : offset + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in line)
        lines.append(f"{start + offset:>12,}  {line.hex(' '):<47}  {letters}\n")
    length = _length(found.part) or 0
    more = f"the first {len(found.dump):,} of {length:,}" if length > len(found.dump) else f"{length:,}"
    return element(
        "section",
        element("h2", "Bytes", element("span", more, class_="dim")),
        element("pre", lines, class_="dump", tabindex=0),
    )
