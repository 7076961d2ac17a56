"""The footer payload: JSON that describes the blobs of a Puffin file.

Decoding accepts what the specification accepts and nothing else: JSON types are exact (a boolean or 1.0 is not an
integer), integers fit their width, no field is given twice. Fields that the specification does not name are ignored, as
it may grow; blob types are not interpreted.

Spec: Puffin spec, Footer Payload, FileMetadata, BlobMetadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from skerry.errors import FormatError

__all__ = ["BlobMetadata", "FileMetadata", "decode_file_metadata", "encode_file_metadata"]

_INT_BITS: Final = 32
_LONG_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class BlobMetadata:
    """One blob: what it was computed from, and where its bytes are.

    Args:
        type: What the blob is, such as `apache-datasketches-theta-v1`. Unknown types are legal.
        fields: Field ids that the blob was computed for; their order is part of the meaning.
        snapshot_id: Snapshot that it was computed from; -1 in files written before their snapshot (deletion vectors).
        sequence_number: That snapshot's sequence number; -1 in the same files.
        offset: Where its bytes start in the file.
        length: Stored bytes, after compression.
        compression_codec: `lz4`, `zstd`, or None for bytes stored as they are. Unknown names are kept; reading such
            a blob is refused.
        properties: Free text properties, such as `ndv`.

    Spec: Puffin spec, BlobMetadata.
    """

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileMetadata:
    """What the footer says: the blobs in their order, and the properties of the file.

    Args:
        blobs: The blobs, in the order of the footer.
        properties: Free text properties, such as `created-by`.

    Spec: Puffin spec, FileMetadata.
    """

    blobs: tuple[BlobMetadata, ...]
    properties: Mapping[str, str] = field(default_factory=dict)


def decode_file_metadata(payload: bytes, *, location: str | None = None, offset: int | None = None) -> FileMetadata:
    """Decode a footer payload, already decompressed.

    Args:
        payload: UTF-8 encoded JSON.
        location: The file it comes from, for messages.
        offset: Where the payload starts in that file, for messages.

    Returns:
        The metadata. Offsets and lengths of blobs are longs here; whether they fit the file is not checked.

    Raises:
        FormatError: The payload is not UTF-8, not JSON, or not a FileMetadata object.

    Spec: Puffin spec, Footer Payload.
    """
    try:
        text = payload.decode("utf-8")
        document = json.loads(text, object_pairs_hook=_object_without_duplicates, parse_constant=_refuse_constant)
        return _decode_record(document, FileMetadata, _FILE_FIELDS, "FileMetadata")
    except FormatError as error:
        raise FormatError(error.message, location=location, offset=offset, rule=error.rule) from None
    except RecursionError:
        problem, at = "nests too deeply to be read", 0
    except UnicodeDecodeError as error:
        problem, at = f"is not UTF-8: {error.reason}", error.start
    except json.JSONDecodeError as error:
        problem, at = f"is not JSON: {error.msg}", len(text[: error.pos].encode())
    except ValueError as error:  # an integer of more digits than Python converts
        problem, at = f"is not readable JSON: {error}", 0
    raise FormatError(
        f"footer payload {problem}",
        location=location,
        offset=None if offset is None else offset + at,
        rule="Puffin spec, Footer Payload",
    )


def encode_file_metadata(metadata: FileMetadata) -> bytes:
    """Encode metadata as a footer payload, uncompressed. Optional fields without content are left out.

    Raises:
        FormatError: A value does not have the type that the specification demands.

    Spec: Puffin spec, Footer Payload.
    """
    document = _encode_record(metadata, _FILE_FIELDS)
    document["blobs"] = [_encode_record(blob, _BLOB_FIELDS) for blob in metadata.blobs]
    _decode_record(document, FileMetadata, _FILE_FIELDS, "FileMetadata")
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


@dataclass(frozen=True, slots=True)
class _Field:
    """One JSON field: its name, how its value is decoded, and whether it must be there."""

    name: str
    decode: Callable[[Any, str], Any]
    required: bool = True
    attribute: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attribute", self.name.replace("-", "_"))


def _decode_record(value: Any, record: Callable[..., Any], fields: tuple[_Field, ...], path: str) -> Any:
    if not isinstance(value, dict):
        _refuse(path, "a JSON object", value)
    values = {}
    for entry in fields:
        found = value.get(entry.name)
        if found is not None:
            values[entry.attribute] = entry.decode(found, f"{path}.{entry.name}")
        elif entry.required:
            what = "is null" if entry.name in value else "is missing"
            raise FormatError(f"{path}: required field {entry.name!r} {what}", rule="Puffin spec, Footer Payload")
    return record(**values)


def _encode_record(record: Any, fields: tuple[_Field, ...]) -> dict[str, Any]:
    document = {}
    for entry in fields:
        value = getattr(record, entry.attribute)
        if isinstance(value, tuple):
            value = list(value)
        elif isinstance(value, Mapping):
            value = dict(value)
        if entry.required or value not in (None, {}):
            document[entry.name] = value
    return document


def _decode_string(value: Any, path: str) -> str:
    if not isinstance(value, str):
        _refuse(path, "a JSON string", value)
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        _refuse(path, "a string of Unicode characters", value)
    return value


def _decode_integer(value: Any, path: str, bits: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -1 << bits - 1 <= value < 1 << bits - 1:
        _refuse(path, f"an integer of {bits} bits", value)
    return value


def _decode_long(value: Any, path: str) -> int:
    return _decode_integer(value, path, _LONG_BITS)


def _decode_ints(value: Any, path: str) -> tuple[int, ...]:
    return tuple(_decode_integer(item, f"{path}[{i}]", _INT_BITS) for i, item in enumerate(_decode_list(value, path)))


def _decode_blobs(value: Any, path: str) -> tuple[BlobMetadata, ...]:
    items = _decode_list(value, path)
    return tuple(_decode_record(item, BlobMetadata, _BLOB_FIELDS, f"blobs[{i}]") for i, item in enumerate(items))


def _decode_list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        _refuse(path, "a JSON list", value)
    return value


def _decode_properties(value: Any, path: str) -> dict[str, str]:
    if not isinstance(value, dict):
        _refuse(path, "a JSON object with string values", value)
    return {_decode_string(name, path): _decode_string(text, f"{path}[{name!r}]") for name, text in value.items()}


_BLOB_FIELDS: Final = (
    _Field("type", _decode_string),
    _Field("fields", _decode_ints),
    _Field("snapshot-id", _decode_long),
    _Field("sequence-number", _decode_long),
    _Field("offset", _decode_long),
    _Field("length", _decode_long),
    _Field("compression-codec", _decode_string, required=False),
    _Field("properties", _decode_properties, required=False),
)
_FILE_FIELDS: Final = (
    _Field("blobs", _decode_blobs),
    _Field("properties", _decode_properties, required=False),
)


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise FormatError(f"footer payload gives the field {twice!r} twice", rule="Puffin spec, Footer Payload")
    return result


def _refuse_constant(text: str) -> NoReturn:
    raise FormatError(f"footer payload is not JSON: {text} is no JSON value", rule="Puffin spec, Footer Payload")


def _refuse(path: str, expected: str, found: Any) -> NoReturn:
    shown = repr(found)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    raise FormatError(f"{path}: expected {expected}, found {shown}", rule="Puffin spec, Footer Payload")
