"""The registry of a table's indexes: which data file has which index, in immutable pieces.

A piece is a JSON file beside the index shards, in the folder `_skerry` of the table. What it says of a data file stays
true for as long as the file is there: data files are never changed. So a commit of another engine keeps the registry.
Whatever is missing, or does not fit, counts as not indexed.

The pieces of an Iceberg table are named by a table property, which the commit that publishes indexes sets. Those of a
Paimon table are all in a folder of their own, and are written before the commit: its snapshots inherit no properties,
and its options belong to schemas, which other commits change.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import xxhash

from skerry.errors import FormatError, NotFoundError, SkerryError
from skerry.storage import FileStatus, Storage, decode_json, file_key, is_within, join
from skerry.storage import name as last_name
from skerry.table.indexes.definitions import PIECES_PROPERTY, IndexKind
from skerry.table.work.remembered import Remembered

__all__ = [
    "FOLDER",
    "IndexedColumn",
    "IndexedFile",
    "Piece",
    "encode_piece",
    "index_files",
    "listed_pieces",
    "new_listed_name",
    "piece_names",
    "read_piece",
    "registered_files",
    "released_files",
]

FOLDER: Final = "_skerry"
"""The folder of indexes below that of the table. Orphan removal of Java and Flink passes over names that begin so."""
_LISTED: Final = "registry"
"""The folder in `FOLDER` whose files are the pieces, of tables that do not name them."""
_NAME: Final = re.compile(r"[0-9a-z-]{1,80}(\.[a-z0-9]+){1,3}")
_VERSION: Final = 1
_pieces: Final[Remembered[tuple[str, str], Piece]] = Remembered(256)
"""Pieces that were read, by storage and location."""
_registries: Final[Remembered[tuple[str, str, tuple[str, ...]], Mapping[tuple[str, ...], tuple[IndexedFile, ...]]]] = (
    Remembered(16)
)
"""Registries of which all pieces were read, by storage, table, and the names of the pieces."""
_RULE: Final = "docs/indexes.md, What is stored"


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """An indexed column of a data file.

    Args:
        field_id: The column's field id.
        name: Its name in the file.
        kind: What the index finds.
        tokenizer: What a word is; empty where there are no words.
    """

    field_id: int
    name: str
    kind: IndexKind
    tokenizer: str = ""


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """The index of a data file.

    Args:
        file: Location of the data file, relative to the table's folder if it is in there.
        file_size_bytes: Its size.
        root: Name of the index's root in `FOLDER`.
        parts: Names of its other files.
        size_bytes: The size of all of them.
        columns: The indexed columns.
        place: The first row and the number of rows of the file in an index of several files; None if the index is of
            this file alone.
    """

    file: str
    file_size_bytes: int
    root: str
    parts: tuple[str, ...]
    size_bytes: int
    columns: tuple[IndexedColumn, ...]
    place: tuple[int, int] | None = None

    def location(self, table: str) -> str:
        """The data file.

        Args:
            table: The table's folder.
        """
        return self.file if "://" in self.file or self.file.startswith("/") else join(table, self.file)

    @staticmethod
    def relative(location: str, table: str) -> str:
        """How a data file is named in the registry."""
        if not is_within(table, location):
            return location
        return "/".join(file_key(location))[len("/".join(file_key(table))) :].lstrip("/")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the registry.

    Args:
        files: The indexes of data files.
        replaces: Names of listed pieces whose entries are among these.
    """

    files: tuple[IndexedFile, ...] = ()
    replaces: frozenset[str] = frozenset()


def encode_piece(piece: Piece) -> bytes:
    """The bytes of a piece."""
    entries: list[dict[str, Any]] = []
    merged: dict[str, list[list[Any]]] = {}
    for file in piece.files:
        if file.place is not None and file.root in merged:
            merged[file.root].append([file.file, file.file_size_bytes, *file.place])
            continue
        entry: dict[str, Any] = {"file": file.file, "size": file.file_size_bytes}
        if file.place is not None:
            merged[file.root] = [[file.file, file.file_size_bytes, *file.place]]
            entry = {"files": merged[file.root]}
        columns = [[each.field_id, each.name, str(each.kind), each.tokenizer] for each in file.columns]
        index = {"root": file.root, "parts": list(file.parts), "index-size": file.size_bytes, "columns": columns}
        entries.append(entry | index)
    content: dict[str, Any] = {"version": _VERSION, "files": entries}
    if piece.replaces:
        content["replaces"] = sorted(piece.replaces)
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    return body + b"\n" + xxhash.xxh3_64_hexdigest(body).encode()


def _decode_piece(data: bytes, location: str) -> Piece:
    body, _, checksum = data.rpartition(b"\n")
    if xxhash.xxh3_64_hexdigest(body).encode() != checksum:
        raise FormatError("a piece of the index registry has another checksum", location=location, rule=_RULE)
    try:
        found = decode_json(body)
        if found["version"] != _VERSION:
            raise FormatError(f"version {found['version']} of the index registry", location=location, rule=_RULE)
        return Piece(
            tuple(one for each in found["files"] for one in _entry(each)),
            frozenset(map(str, found.get("replaces", ()))),
        )
    except (ValueError, KeyError, TypeError, IndexError) as error:
        if isinstance(error, SkerryError):
            raise
        raise FormatError("a piece of the index registry is damaged", location=location, rule=_RULE) from error


def _entry(found: dict[str, Any]) -> Iterator[IndexedFile]:
    """The data files of an index; several if it was merged."""
    names = [found["root"], *found["parts"]]
    if not all(_NAME.fullmatch(name) for name in names):
        raise ValueError("a name that no index has")
    columns = tuple(
        IndexedColumn(int(number), str(name), IndexKind(kind), str(tokenizer))
        for number, name, kind, tokenizer in found["columns"]
    )
    root, parts, index_size = names[0], tuple(names[1:]), int(found["index-size"])
    if "files" not in found:
        yield IndexedFile(str(found["file"]), int(found["size"]), root, parts, index_size, columns)
        return
    for file, size, first, count in found["files"]:
        place = int(first), int(count)
        if min(place) < 0:
            raise ValueError("a place that no index has")
        yield IndexedFile(str(file), int(size), root, parts, index_size, columns, place)


def piece_names(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the pieces; those that no piece of ours has are left out."""
    names = properties.get(PIECES_PROPERTY, "").split(",")
    return tuple(name for name in names if _NAME.fullmatch(name))


def listed_pieces(storage: Storage, table: str) -> tuple[str, ...]:
    """The names of the pieces of a table that does not name them, the oldest first; none that others contain.

    Args:
        storage: Access to the table's files.
        table: The table's folder.
    """
    files = _listed_files(storage, table)
    names = [name for file in files if _NAME.fullmatch(name := last_name(file.location))]
    replaced: set[str] = set()
    found = []
    for name in sorted(names, reverse=True):
        if name in replaced:
            continue
        found.append(f"{_LISTED}/{name}")
        try:
            replaced |= read_piece(storage, table, found[-1]).replaces
        except SkerryError:
            continue
    return tuple(reversed(found))


def released_files(
    storage: Storage, table: str, gone: Collection[tuple[str, ...]], *, settled_s: float = 24 * 3600
) -> dict[str, int]:
    """What a table that does not name its pieces no longer needs of its registry.

    Args:
        storage: Access to the table's files.
        table: The table's folder.
        gone: Keys of data files that are in no snapshot any more.
        settled_s: A piece is only replaced by one that is as old: the commit of a younger one may fail yet.

    Returns:
        The locations of the indexes of these data files, and of replaced pieces, with the size of each index at its
        root, and else 0.
    """
    pieces = listed_pieces(storage, table)
    kept: set[str] = set()
    found: dict[str, int] = {}
    for files in registered_files(storage, table, pieces).values():
        for each in files:
            parts = (each.root, *each.parts)
            if file_key(each.location(table)) in gone:
                found |= {part: each.size_bytes if part == each.root else 0 for part in parts}
            else:
                kept.update(parts)
    before = f"{time.time_ns() - int(settled_s * 1e9):019d}"
    for piece in pieces:
        if last_name(piece) < before:
            with suppress(SkerryError):
                found |= _replaced_files(storage, table, read_piece(storage, table, piece).replaces)
    present = {f"{_LISTED}/{last_name(file.location)}" for file in _listed_files(storage, table)}
    return {
        join(table, FOLDER, name): size
        for name, size in found.items()
        if name not in kept and (name in present or not name.startswith(f"{_LISTED}/"))
    }


def _replaced_files(storage: Storage, table: str, names: Iterable[str]) -> dict[str, int]:
    """Listed pieces that others contain, and the indexes that they name, with the size of each at its root."""
    found: dict[str, int] = {}
    for name in names:
        found[f"{_LISTED}/{name}"] = 0
        with suppress(SkerryError):
            for each in read_piece(storage, table, f"{_LISTED}/{name}").files:
                found |= {part: each.size_bytes if part == each.root else 0 for part in (each.root, *each.parts)}
    return found


def _listed_files(storage: Storage, table: str) -> Sequence[FileStatus]:
    try:
        return storage.list_folder(join(table, FOLDER, _LISTED)).files
    except NotFoundError:
        return ()


def new_listed_name() -> str:
    """The name of a piece that is listed behind all earlier ones."""
    return f"{_LISTED}/{time.time_ns():019d}-{uuid.uuid4()}.json"


def read_piece(storage: Storage, table: str, name: str) -> Piece:
    """Read a piece, which is kept: it never changes.

    Raises:
        FormatError: It is damaged.
        NotFoundError: It is missing.
    """
    location = join(table, FOLDER, name)
    key = storage.identity(location), location
    return _pieces.find(key) or _pieces.keep(key, _decode_piece(storage.read(location), location))


def registered_files(
    storage: Storage, table: str, pieces: Sequence[str]
) -> Mapping[tuple[str, ...], tuple[IndexedFile, ...]]:
    """The indexes of a table by the keys of data files; pieces that are missing or damaged name none.

    Args:
        storage: Access to the table's files.
        table: The table's folder.
        pieces: The names of the pieces.
    """
    registry_key = storage.identity(table), table, tuple(pieces)
    known = _registries.find(registry_key)
    if known is not None:
        return known
    found: dict[tuple[str, ...], tuple[IndexedFile, ...]] = {}
    is_whole = True
    for name in pieces:
        try:
            files = read_piece(storage, table, name).files
        except SkerryError:
            is_whole = False
            continue
        for each in files:
            key = file_key(each.location(table))
            found[key] = (*found.get(key, ()), each)
    return _registries.keep(registry_key, found) if is_whole else found


def index_files(
    storage: Storage, table: str, pieces: Sequence[str], data_files: Collection[tuple[str, ...]]
) -> Iterator[str]:
    """The locations of the registry, and of the indexes of some data files.

    Args:
        storage: Access to the table's files.
        table: The table's folder.
        pieces: The names of the pieces.
        data_files: Keys of the data files.
    """
    for name in pieces:
        yield join(table, FOLDER, name)
        try:
            files = read_piece(storage, table, name).files
        except (FormatError, NotFoundError):
            continue
        for each in files:
            if file_key(each.location(table)) in data_files:
                yield from (join(table, FOLDER, part) for part in (each.root, *each.parts))
