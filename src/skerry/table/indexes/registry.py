"""The registry of a table's indexes: which data file has which index, in immutable pieces.

A piece is a JSON file beside the index shards, in the folder `_skerry` of the table. A table property names the pieces;
the commit that publishes indexes sets it. So a commit of another engine keeps the registry, and what it says of a data
file stays true for as long as the file is there: data files are never changed. Whatever is missing, or does not fit,
counts as not indexed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import xxhash

from skerry.errors import FormatError, NotFoundError, SkerryError
from skerry.storage import Storage, decode_json, file_key, is_within, join
from skerry.table.indexes.definitions import PIECES_PROPERTY, IndexKind

__all__ = [
    "FOLDER",
    "IndexedColumn",
    "IndexedFile",
    "encode_piece",
    "index_files",
    "piece_names",
    "read_piece",
    "registered_files",
]

FOLDER: Final = "_skerry"
"""The folder of indexes below that of the table. Orphan removal of Java and Flink passes over names that begin so."""
_NAME: Final = re.compile(r"[0-9a-z-]{1,80}(\.[a-z0-9]+){1,3}")
_VERSION: Final = 1
_PIECES_KEPT: Final = 256
_pieces: dict[tuple[str, str], tuple[IndexedFile, ...]] = {}
"""Pieces that were read, by storage and location."""
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
    """

    file: str
    file_size_bytes: int
    root: str
    parts: tuple[str, ...]
    size_bytes: int
    columns: tuple[IndexedColumn, ...]

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


def encode_piece(files: Iterable[IndexedFile]) -> bytes:
    """A piece of the registry."""
    entries = [
        {
            "file": file.file,
            "size": file.file_size_bytes,
            "root": file.root,
            "parts": list(file.parts),
            "index-size": file.size_bytes,
            "columns": [[each.field_id, each.name, str(each.kind), each.tokenizer] for each in file.columns],
        }
        for file in files
    ]
    body = json.dumps({"version": _VERSION, "files": entries}, ensure_ascii=False, separators=(",", ":")).encode()
    return body + b"\n" + xxhash.xxh3_64_hexdigest(body).encode()


def _decode_piece(data: bytes, location: str) -> tuple[IndexedFile, ...]:
    body, _, checksum = data.rpartition(b"\n")
    if xxhash.xxh3_64_hexdigest(body).encode() != checksum:
        raise FormatError("a piece of the index registry has another checksum", location=location, rule=_RULE)
    try:
        found = decode_json(body)
        if found["version"] != _VERSION:
            raise FormatError(f"version {found['version']} of the index registry", location=location, rule=_RULE)
        return tuple(_entry(each) for each in found["files"])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        if isinstance(error, SkerryError):
            raise
        raise FormatError("a piece of the index registry is damaged", location=location, rule=_RULE) from error


def _entry(found: dict[str, Any]) -> IndexedFile:
    names = [found["root"], *found["parts"]]
    if not all(_NAME.fullmatch(name) for name in names):
        raise ValueError("a name that no index has")
    columns = tuple(
        IndexedColumn(int(number), str(name), IndexKind(kind), str(tokenizer))
        for number, name, kind, tokenizer in found["columns"]
    )
    size, index_size = int(found["size"]), int(found["index-size"])
    return IndexedFile(str(found["file"]), size, names[0], tuple(names[1:]), index_size, columns)


def piece_names(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the pieces; those that no piece of ours has are left out."""
    names = properties.get(PIECES_PROPERTY, "").split(",")
    return tuple(name for name in names if _NAME.fullmatch(name))


def read_piece(storage: Storage, table: str, name: str) -> tuple[IndexedFile, ...]:
    """Read a piece, which is kept: it never changes.

    Raises:
        FormatError: It is damaged.
        NotFoundError: It is missing.
    """
    location = join(table, FOLDER, name)
    key = storage.identity(location), location
    found = _pieces.get(key)
    if found is None:
        found = _decode_piece(storage.read(location), location)
        while len(_pieces) >= _PIECES_KEPT:
            _pieces.pop(next(iter(_pieces)), None)
        _pieces[key] = found
    return found


def registered_files(
    storage: Storage, table: str, properties: Mapping[str, str]
) -> dict[tuple[str, ...], tuple[IndexedFile, ...]]:
    """The indexes of a table by the keys of data files; pieces that are missing or damaged name none.

    Args:
        storage: Access to the table's files.
        table: The table's folder.
        properties: Its properties.
    """
    found: dict[tuple[str, ...], tuple[IndexedFile, ...]] = {}
    for name in piece_names(properties):
        try:
            files = read_piece(storage, table, name)
        except SkerryError:
            continue
        for each in files:
            key = file_key(each.location(table))
            found[key] = (*found.get(key, ()), each)
    return found


def index_files(
    storage: Storage, table: str, properties: Mapping[str, str], data_files: Collection[tuple[str, ...]]
) -> Iterator[str]:
    """The locations of the registry, and of the indexes of some data files.

    Args:
        storage: Access to the table's files.
        table: The table's folder.
        properties: Its properties.
        data_files: Keys of the data files.
    """
    for name in piece_names(properties):
        yield join(table, FOLDER, name)
        try:
            files = read_piece(storage, table, name)
        except (FormatError, NotFoundError):
            continue
        for each in files:
            if file_key(each.location(table)) in data_files:
                yield from (join(table, FOLDER, part) for part in (each.root, *each.parts))
