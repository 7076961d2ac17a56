"""An Avro file, such as a manifest: its header, its blocks, and the fields of the records of one block.

Spec: Avro spec, Object Container Files, Binary Encoding.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, Final

from skerry.avro.container import Block, Header, decode_block, decode_blocks, decode_header
from skerry.entry import Entry
from skerry.errors import FormatError, SkerryError
from skerry.inspect.values import shown
from skerry.storage import Storage

__all__ = ["inspect_avro"]

_MAGIC_BYTES: Final = 4
_SYNC_BYTES: Final = 16
_MOST_BYTES: Final = 256 << 20
"""The largest file that is taken apart, and the most that a block may take."""
_MOST_RECORDS: Final = 5_000
_MOST_DEPTH: Final = 32


def inspect_avro(storage: Storage, location: str, at: Sequence[int] = ()) -> Entry:
    """Look into an Avro file; the records of the block on the way are decoded.

    Args:
        storage: Access to the file.
        location: The file.
        at: The way to a part: block, record, field.

    Raises:
        FormatError: The file is unsound.
    """
    size = storage.size(location)
    if size > _MOST_BYTES:
        raise FormatError(f"Avro file of {size:,} bytes; those of up to {_MOST_BYTES:,} are shown", location=location)
    data = memoryview(storage.read(location))
    header = decode_header(data, location=location)
    entries = {key: shown(_text(value)) for key, value in header.metadata.items()}
    magic = Entry("magic", "Obj 1", {}, location, 0, _MAGIC_BYTES)
    metadata = Entry("header", "metadata", entries, location, _MAGIC_BYTES, header.size - _SYNC_BYTES)
    sync = Entry("sync marker", "", {}, location, header.size - _SYNC_BYTES, header.size)
    children = [magic, metadata, sync]
    end = header.size
    for number, block in enumerate(decode_blocks(data, header, location=location)):
        here = len(children)
        parts: tuple[Entry, ...] = ()
        details: dict[str, Any] = {"records": block.records, "stored_bytes": block.size}
        if at and at[0] == here:
            parts = _records(data, header, block, location, details)
        start, end = end, block.offset + block.size + _SYNC_BYTES
        children.append(Entry("block", str(number), details, location, start, end, parts))
    details = {"codec": header.codec, "blocks": len(children) - 3, "size_bytes": size}
    return Entry("Avro file", "", details, location, 0, size, tuple(children))


def _records(
    data: memoryview, header: Header, block: Block, location: str, details: dict[str, Any]
) -> tuple[Entry, ...]:
    """The records of a block, with the places of their fields where these are not compressed."""
    try:
        body = memoryview(decode_block(data, block, header.codec, max_bytes=_MOST_BYTES, location=location))
        walker = _Walker(body, location, block.offset if header.codec == "null" else None)
        records = []
        for number in range(min(block.records, _MOST_RECORDS)):
            found = walker.value("record", str(number), json.loads(header.schema_json), 0)
            said = {each.name: each.details["value"] for each in found.children if "value" in each.details}
            found.details.update(said)
            records.append(found)
        if block.records > _MOST_RECORDS:
            details["records_shown"] = _MOST_RECORDS
        return tuple(records)
    except SkerryError as error:
        details["error"] = str(error)
    except (ValueError, IndexError, KeyError, TypeError, struct.error, RecursionError) as error:
        details["error"] = f"records do not fit the schema: {error}"
    return ()


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


class _Walker:
    """Walks over values, which follow each other without anything between them, as the schema says."""

    def __init__(self, data: memoryview, location: str, base: int | None) -> None:
        self._data = data
        self._location = location
        self._base = base
        self._position = 0
        self._named: dict[str, Any] = {}

    def value(self, kind: str, name: str, schema: Any, depth: int) -> Entry:
        """The value at hand, and what is inside."""
        if depth > _MOST_DEPTH:
            raise ValueError(f"types nest deeper than {_MOST_DEPTH} levels")
        start = self._position
        details: dict[str, Any] = {}
        schema = self._resolved(schema)
        children = self._parts(schema, details, depth)
        if self._base is None:
            details["in_block"] = f"{start:,} to {self._position:,}"
            return Entry(kind, name, details, self._location, children=tuple(children))
        place = (self._base + start, self._base + self._position)
        return Entry(kind, name, details, self._location, *place, tuple(children))

    def _resolved(self, schema: Any) -> Any:
        """The type that is stored: the branch of a union, the definition of a name."""
        if isinstance(schema, list):
            schema = schema[self._long()]
        if isinstance(schema, str):
            return self._named.get(schema, schema)
        if "name" in schema and schema.get("type") in ("record", "fixed", "enum"):
            self._named[schema["name"]] = schema
        return schema if isinstance(schema["type"], str) else self._resolved(schema["type"])

    def _parts(self, schema: Any, details: dict[str, Any], depth: int) -> list[Entry]:
        type_ = schema if isinstance(schema, str) else schema["type"]
        if type_ == "record":
            parts = []
            for field in schema["fields"]:
                part = self.value("field", field["name"], field["type"], depth + 1)
                about = {"field_id": field.get("field-id"), "meaning": field.get("doc")}
                part.details.update({key: shown(said) for key, said in about.items() if said is not None})
                parts.append(part)
            return parts
        if type_ in ("array", "map"):
            return self._items(schema, type_, details, depth)
        details["type"] = type_ if isinstance(schema, str) else schema.get("logicalType", type_)
        details["value"] = shown(self._scalar(type_, schema))
        return []

    def _items(self, schema: Any, type_: str, details: dict[str, Any], depth: int) -> list[Entry]:
        parts: list[Entry] = []
        while count := self._long():
            if count < 0:
                self._long()
            for _ in range(abs(count)):
                name = self._bytes().decode() if type_ == "map" else str(len(parts))
                parts.append(self.value("item", name, schema["values" if type_ == "map" else "items"], depth + 1))
        details["items"] = len(parts)
        return parts

    def _scalar(self, type_: str, schema: Any) -> Any:
        match type_:
            case "null":
                return "null"
            case "boolean":
                return bool(self._take(1)[0])
            case "int" | "long":
                return self._long()
            case "float":
                return struct.unpack("<f", self._take(4))[0]
            case "double":
                return struct.unpack("<d", self._take(8))[0]
            case "bytes":
                return self._bytes()
            case "string":
                return self._bytes().decode("utf-8", "replace")
            case "fixed":
                return self._take(schema["size"])
            case "enum":
                return schema["symbols"][self._long()]
        raise ValueError(f"unknown type {type_!r}")

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._position:
            raise ValueError(f"a value of {size} bytes, {len(self._data) - self._position} are left")
        self._position += size
        return bytes(self._data[self._position - size : self._position])

    def _bytes(self) -> bytes:
        return self._take(self._long())

    def _long(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            if shift > 63:
                raise ValueError("an integer of more than ten bytes")
