"""The decoded fields of Parquet's structures, each with its place and name."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from skerry.entry import Entry
from skerry.errors import SkerryError
from skerry.inspect.parquet_names import STRUCTURES
from skerry.inspect.values import shown
from skerry.parquet import ThriftField, walk_struct
from skerry.storage import Storage

__all__ = ["with_fields"]


def with_fields(storage: Storage, entry: Entry, structure: str) -> Entry:
    """A part of a file that is one structure, with its fields.

    Args:
        storage: Access to the file.
        entry: The part.
        structure: The name of the structure in parquet.thrift.
    """
    assert entry.file is not None
    assert entry.start is not None
    assert entry.end is not None
    try:
        data = memoryview(storage.read_range(entry.file, entry.start, entry.end - entry.start))
        fields = walk_struct(data, location=entry.file, base=entry.start)
    except SkerryError as error:
        entry.details["error"] = str(error)
        return entry
    return entry.with_children(tuple(_entry(field, structure, entry.file) for field in fields))


def _entry(field: ThriftField, structure: str | None, file: str) -> Entry:
    name, holds = STRUCTURES.get(structure or "", {}).get(field.id, ("", None))
    label = name or f"field {field.id}"
    inner = holds if isinstance(holds, str) else None
    details: dict[str, Any] = {"id": field.id}
    if field.is_list:
        details["elements"] = len(field.fields)
        children = tuple(_element(each, inner, file) for each in field.fields)
    else:
        children = tuple(_entry(each, inner, file) for each in field.fields)
        if not field.fields and field.value is not None:
            details["value"] = _value(field.value, holds)
    return Entry("field", label, details, file, field.start, field.end, children)


def _element(field: ThriftField, structure: str | None, file: str) -> Entry:
    children = tuple(_entry(each, structure, file) for each in field.fields)
    said = {child.name: child.details["value"] for child in children if "value" in child.details}
    return Entry("element", f"{field.id} {structure or ''}".strip(), said, file, field.start, field.end, children)


def _value(value: Any, holds: object) -> Any:
    """A value as text or number; codes of the format by their names."""
    if isinstance(holds, type) and issubclass(holds, IntEnum):
        codes = value if isinstance(value, list) else [value]
        names = [holds(code).name if code in set(holds) else f"code {code}" for code in codes]
        return names if isinstance(value, list) else names[0]
    if isinstance(value, bytes):
        text = _text(value)
        return shown(value if text is None else text)
    return [_value(each, None) for each in value] if isinstance(value, list) else shown(value)


def _text(value: bytes) -> str | None:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None
