"""Reading and writing of JSON: the text, and records that come in ten thousands.

A record of metadata is read by `from_json` and written by `to_json`, which returns what the JSON encoder accepts.
Snapshots, log entries and statistics files are so many that msgspec checks, creates and writes them (`JsonRecord`).

Spec: Iceberg spec, Appendix C: JSON serialization.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any, Final, Self, TypeVar

import msgspec

from skerry.errors import FormatError
from skerry.iceberg.metadata.json_object import JsonObject

__all__ = [
    "Int",
    "JsonRecord",
    "Long",
    "decode_fields",
    "decode_json",
    "decode_record",
    "decode_records",
    "encode_json",
    "have_unknown",
    "json_of",
    "plain_json",
    "read_records",
]

Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A whole number of 32 bits."""
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number of 64 bits."""

Record = TypeVar("Record", bound="JsonRecord")
Struct = TypeVar("Struct", bound=msgspec.Struct)


def decode_json(data: bytes | str) -> Any:
    """The value of a JSON text.

    Raises:
        FormatError: It is not JSON, not UTF-8, or nested too deeply.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FormatError(f"this is not JSON: {error}") from None


def encode_json(value: Any) -> bytes:
    """The JSON text of a value that may contain records of metadata."""
    return _ENCODER.encode(json_of(value))


def json_of(value: Any) -> Any:
    """What the JSON encoder accepts for a record, or a sequence of records."""
    if isinstance(value, tuple | list):
        is_plain = value and isinstance(value[0], JsonRecord) and not have_unknown(value)
        return value if is_plain else [json_of(item) for item in value]
    return value.to_json() if hasattr(value, "to_json") else value


_ENCODER: Final = msgspec.json.Encoder(enc_hook=lambda value: value.to_json())


_UNKNOWN: Final = "* unknown *"
"""Names the unknown fields for msgspec. A field of that name is an unknown one itself: what is in it could replace
fields that were checked."""


class JsonRecord(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    repr_omit_defaults=True,
    rename="kebab",
    forbid_unknown_fields=True,
    gc=False,
):
    """A frozen record whose fields are those of a JSON object, with hyphens in their names.

    Garbage collection need not look into it: JSON has no cycles.

    Args:
        unknown: Fields that the specification does not know, as JSON; they are written back.
    """

    unknown: dict[str, Any] = msgspec.field(default_factory=dict, name=_UNKNOWN)

    @classmethod
    def from_json(cls, found: JsonObject) -> Self:
        """Read the record.

        Raises:
            FormatError: A field is missing or of another kind.
        """
        return _read_record(cls, found)

    def to_json(self) -> Any:
        """What the JSON encoder accepts: the record itself, unless it has fields that it does not know."""
        return plain_json(self) if have_unknown((self,)) else self


def read_records(kind: type[Record], values: list[Any], at: str, rule: str | None) -> tuple[Record, ...]:
    """Read an array of objects as records, all at once; a field that is null is as good as absent.

    Args:
        kind: The records' class.
        values: The objects.
        at: The array's place in the document.
        rule: The section that describes it.

    Raises:
        FormatError: One of them is not such an object.
    """
    with suppress(msgspec.ValidationError):  # of an unknown field, or found again one by one, with its place
        found = msgspec.convert(values, tuple[kind, ...])  # type: ignore[valid-type]
        if not have_unknown(found):
            return found
    return tuple(_read_record(kind, JsonObject(value, f"{at}[{number}]", rule)) for number, value in enumerate(values))


def decode_records(kind: type[Record], data: msgspec.Raw) -> tuple[Record, ...] | None:
    """The records of an array's JSON text; None if they have to be read one by one, by `read_records`."""
    try:
        found = msgspec.json.decode(data, type=tuple[kind, ...])  # type: ignore[valid-type]
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return None if have_unknown(found) else found


def decode_record(kind: type[Struct], data: bytes) -> Struct | None:
    """A JSON text as a record; None if it has fields that this kind does not have, or is not such a record at all."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def decode_fields(data: bytes) -> dict[str, msgspec.Raw]:
    """The texts of the fields of a JSON text, which is an object.

    Raises:
        FormatError: It is not JSON, or no object.
    """
    try:
        return msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        raise FormatError("expected an object") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FormatError(f"this is not JSON: {error}") from None


def plain_json(value: Any) -> Any:
    """A record or a tuple of records as JSON without records, with the fields that they do not know."""
    if isinstance(value, tuple):
        return [plain_json(item) for item in value]
    if not isinstance(value, JsonRecord):
        return msgspec.to_builtins(value)
    written: dict[str, Any] = msgspec.to_builtins(value)
    written.pop(_UNKNOWN, None)
    for encoded, (name, _) in _nested(type(value)).items():
        if encoded in written:
            written[encoded] = plain_json(getattr(value, name))
    return {**written, **value.unknown}


def _read_record(kind: type[Record], found: JsonObject) -> Record:
    """Read one object, with its unknown fields, and those of the objects within."""
    known, nested = _known(kind), _nested(kind)
    fields = {name: value for name, value in found.value.items() if name in known and value is not None}
    inner = {
        name: read_records(inside, found.array(encoded, []), f"{found.at}.{encoded}", found.rule)
        for encoded, (name, inside) in nested.items()
    }
    try:
        record = msgspec.convert({**fields, **dict.fromkeys(nested, ())}, kind)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        raise found.error(place.rstrip("`").lstrip("."), problem[:1].lower() + problem[1:]) from None
    return msgspec.structs.replace(record, unknown=dict(found.unknown(known)), **inner)


_unknown_of: Final = attrgetter("unknown")


def have_unknown(records: Sequence[JsonRecord]) -> bool:
    """Whether one of some records of one kind, or a record within it, has fields that it does not know."""
    if not records:
        return False
    if any(map(_unknown_of, records)):
        return True
    names = [name for name, _ in _nested(type(records[0])).values()]
    return any(have_unknown([*chain.from_iterable(map(attrgetter(name), records))]) for name in names)


@cache
def _known(kind: type[JsonRecord]) -> frozenset[str]:
    return frozenset(kind.__struct_encode_fields__) - {_UNKNOWN}


@cache
def _nested(kind: type[JsonRecord]) -> dict[str, tuple[str, type[JsonRecord]]]:
    """The fields that are arrays of records: by their name in JSON, the attribute and the records' class."""
    found = {}
    for field in msgspec.structs.fields(kind):
        inside = next(iter(getattr(field.type, "__args__", ())), None)
        if isinstance(inside, type) and issubclass(inside, JsonRecord):
            found[field.encode_name] = (field.name, inside)
    return found
