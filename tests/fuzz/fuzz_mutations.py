"""Mutators: from a sound file to one that is not, or not quite. The same generator of random numbers gives the same."""

from __future__ import annotations

import contextlib
import json
import random
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import zstandard

__all__ = ["Mutator", "in_avro", "in_json", "in_parquet_footer", "in_protobuf", "of_bytes"]

Mutator = Callable[[random.Random, bytes, Sequence[bytes]], bytes]
"""Takes random numbers, a sample, and all samples of its kind (to splice with)."""

_NUMBERS = (0, 1, 2, -1, -2, 7, 16, 64, 100, 127, 128, 255, 256, 1000, 4095, 4096, 32767, 32768, 65535, 65536)
_LARGE = (
    (1 << 24) - 1,
    (1 << 31) - 1,
    1 << 31,
    -(1 << 31),
    (1 << 32) - 1,
    (1 << 40),
    (1 << 62),
    (1 << 63) - 1,
    1 << 63,
)
_LARGEST = ((1 << 64) - 1, -(1 << 63))
_TIMES = (1, 1, 1, 1, 2, 2, 3, 5, 9)


def _number(rng: random.Random, size: int) -> int:
    """A number that readers trip over: an end of a type, or one that lies near a length."""
    chosen = rng.randrange(4)
    if chosen == 0:
        return rng.choice(_NUMBERS)
    if chosen == 1:
        return rng.choice((*_LARGE, *_LARGEST))
    if chosen == 2:
        return size + rng.randint(-9, 9)
    return rng.getrandbits(rng.choice((8, 16, 24, 32, 64)))


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


# ---- bytes ----


def of_bytes(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change bytes anywhere."""
    out = bytearray(data)
    for _ in range(rng.choice(_TIMES)):
        rng.choice(_BYTE_OPERATIONS)(rng, out, others)
    return bytes(out)


def _place(rng: random.Random, out: bytearray) -> int:
    """A position; heads and tails, where the structure is, more often than what lies between."""
    size = len(out)
    if size == 0:
        return 0
    chosen = rng.randrange(4)
    if chosen == 0:
        return min(rng.randrange(64), size - 1)
    if chosen == 1:
        return max(size - 1 - rng.randrange(64), 0)
    return rng.randrange(size)


def _flip(rng: random.Random, out: bytearray, _others: Sequence[bytes]) -> None:
    if out:
        out[_place(rng, out)] ^= 1 << rng.randrange(8)


def _set(rng: random.Random, out: bytearray, _others: Sequence[bytes]) -> None:
    if out:
        out[_place(rng, out)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _set_integer(rng: random.Random, out: bytearray, _others: Sequence[bytes]) -> None:
    width = rng.choice((1, 2, 4, 8))
    number = _number(rng, len(out)) & (1 << 8 * width) - 1
    at = _place(rng, out)
    if rng.randrange(2):
        at -= at % width
    if at + width <= len(out):
        out[at : at + width] = number.to_bytes(width, rng.choice(("little", "big")))


def _add_to_integer(rng: random.Random, out: bytearray, _others: Sequence[bytes]) -> None:
    width, order = rng.choice((1, 2, 4, 8)), rng.choice(("little", "big"))
    at = _place(rng, out)
    if at + width <= len(out):
        number = int.from_bytes(out[at : at + width], order) + rng.randint(-35, 35)
        out[at : at + width] = (number & (1 << 8 * width) - 1).to_bytes(width, order)


def _set_varint(rng: random.Random, out: bytearray, _others: Sequence[bytes]) -> None:
    number = _number(rng, len(out))
    at = _place(rng, out)
    end = at
    while end < len(out) and end - at < 10 and out[end] & 128:
        end += 1
    out[at : end + 1] = _varint(_zigzag(number) if rng.randrange(2) else number)


def _truncate(rng: random.Random, out: bytearray, _others: Sequence[bytes]) -> None:
    del out[_place(rng, out) :]


def _insert(rng: random.Random, out: bytearray, _others: Sequence[bytes]) -> None:
    count = rng.choice((1, 1, 2, 4, 8, 64))
    added = rng.randbytes(count) if rng.randrange(2) else bytes([rng.choice((0, 0xFF, 0x80))]) * count
    at = _place(rng, out)
    out[at:at] = added


def _delete(rng: random.Random, out: bytearray, _others: Sequence[bytes]) -> None:
    at = _place(rng, out)
    del out[at : at + rng.choice((1, 1, 2, 4, 8, 64))]


def _repeat(rng: random.Random, out: bytearray, _others: Sequence[bytes]) -> None:
    at, count = _place(rng, out), rng.choice((1, 4, 16, 64, 256))
    out[at:at] = out[at : at + count]


def _overwrite(rng: random.Random, out: bytearray, _others: Sequence[bytes]) -> None:
    at, start, count = _place(rng, out), _place(rng, out), rng.choice((2, 4, 8, 16, 64))
    part = out[start : start + count]
    if at + len(part) <= len(out):
        out[at : at + len(part)] = part


def _splice(rng: random.Random, out: bytearray, others: Sequence[bytes]) -> None:
    other = bytearray(rng.choice(others))
    out[_place(rng, out) :] = other[_place(rng, other) :]


_BYTE_OPERATIONS: tuple[Callable[[random.Random, bytearray, Sequence[bytes]], None], ...] = (
    _flip,
    _flip,
    _set,
    _set,
    _set_integer,
    _set_integer,
    _add_to_integer,
    _set_varint,
    _truncate,
    _insert,
    _delete,
    _repeat,
    _overwrite,
    _splice,
)
_KEEPING_LENGTH = (_flip, _flip, _set, _set, _set_integer, _set_integer, _add_to_integer, _overwrite)


def keeping_length(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change bytes, but leave all of them where they are."""
    out = bytearray(data)
    for _ in range(rng.choice(_TIMES)):
        rng.choice(_KEEPING_LENGTH)(rng, out, others)
    return bytes(out)


# ---- JSON ----


def in_json(rng: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """Change values of a JSON document."""
    try:
        document = json.loads(data)
    except ValueError:
        return data
    for _ in range(rng.choice(_TIMES)):
        document = _change_json(rng, document)
    text = json.dumps(document)
    if rng.randrange(200) == 0:  # what no value is
        return rng.choice(
            ("[" * 100_000, '{"a":' * 50_000, text + text, "\ufeff" + text, text.replace(":", "")[:-1])
        ).encode()
    return text.encode("utf-8", "surrogatepass")


def _change_json(rng: random.Random, document: Any) -> Any:
    places: list[tuple[Any, Any]] = []
    pending = [document]
    while pending:
        node = pending.pop()
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, child in items:
            places.append((node, key))
            pending.append(child)
    if not places:
        return _json_value(rng)
    node, key = rng.choice(places)
    chosen = rng.randrange(8)
    if chosen == 0:
        del node[key]
    elif chosen == 1:
        node[key] = None
    elif chosen == 2 and isinstance(node, dict):
        node[rng.choice(("", "x", str(key).upper(), f"{key} "))] = node.pop(key)
    elif chosen == 3 and isinstance(node, list):
        node[key:key] = [node[key]] * rng.choice((1, 2, 20))
    elif chosen == 4:
        other, place = rng.choice(places)
        with contextlib.suppress(KeyError, IndexError):
            node[key] = json.loads(json.dumps(other[place]))  # a copy: a document has no cycles
    elif chosen == 5 and isinstance(node[key], int | float):
        node[key] = _json_number(rng, node[key])
    elif chosen == 6 and isinstance(node[key], str):
        node[key] = _json_text(rng, node[key])
    else:
        node[key] = _json_value(rng)
    return document


def _json_number(rng: random.Random, number: float) -> Any:
    return rng.choice(
        (
            -number,
            number + 1,
            number - 1,
            -1,
            0,
            1 << 31,
            1 << 63,
            -(1 << 63) - 1,
            10**40,
            1.5,
            1e308,
            float("nan"),
            float("inf"),
            True,
        )
    )


def _json_text(rng: random.Random, text: str) -> str:
    at = rng.randint(0, len(text))
    added = rng.choice(
        ("\0", "/", "../", "'", "\ud800", "\U0001f600", "0", "-", " ", "%2e%2e", "(", ",", "9" * 30, "x" * 5000)
    )
    return rng.choice((text[:at] + added + text[at:], text[:at], text[at:], added, text.upper()))


def _json_value(rng: random.Random) -> Any:
    return rng.choice(
        (
            None,
            True,
            False,
            0,
            -1,
            1,
            1 << 31,
            1 << 63,
            10**40,
            1.5,
            "",
            "x",
            "1",
            "\0",
            [],
            {},
            [None],
            {"": None},
            [[]],
            "x" * 5000,
        )
    )


# ---- protobuf ----


def in_protobuf(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change fields of a message; the lengths around them go with them."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = _change_message(rng, data, others, 0)
    return data


def _fields(data: bytes) -> list[tuple[int, int, Any]] | None:
    """Number, wire type and value of each field; None if this is not a message."""
    found, at = [], 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        if tag is None or tag >> 3 == 0:
            return None
        kind = tag & 7
        if kind == 0:
            value, at = _read_varint(data, at)
            if value is None:
                return None
        elif kind in (1, 5):
            width = 8 if kind == 1 else 4
            value, at = data[at : at + width], at + width
        elif kind == 2:
            length, at = _read_varint(data, at)
            if length is None or at + length > len(data):
                return None
            value, at = data[at : at + length], at + length
        else:
            return None
        found.append((tag >> 3, kind, value))
    return found if at == len(data) else None


def _read_varint(data: bytes, at: int) -> tuple[int | None, int]:
    number = shift = 0
    while at < len(data) and shift < 70:
        number |= (data[at] & 127) << shift
        at += 1
        if not data[at - 1] & 128:
            return number, at
        shift += 7
    return None, at


def _message(fields: Sequence[tuple[int, int, Any]]) -> bytes:
    parts = []
    for number, kind, value in fields:
        parts.append(_varint(number << 3 | kind))
        if kind == 0:
            parts.append(_varint(value))
        elif kind == 2:
            parts += [_varint(len(value)), value]
        else:
            parts.append(value)
    return b"".join(parts)


def _change_message(rng: random.Random, data: bytes, others: Sequence[bytes], depth: int) -> bytes:
    fields = _fields(data)
    if not fields:
        return of_bytes(rng, data, others)
    at = rng.randrange(len(fields))
    number, kind, value = fields[at]
    chosen = rng.randrange(12)
    if chosen == 0:
        del fields[at]
    elif chosen == 1:
        fields[at:at] = [fields[at]] * rng.choice((1, 1, 30))
    elif chosen == 2:
        fields[at] = (rng.randint(1, 30), kind, value)
    elif kind == 0:
        fields[at] = (number, kind, rng.choice((_number(rng, value), value ^ 1, value + rng.randint(-9, 9))))
    elif kind == 2 and depth < 12 and _fields(value):
        fields[at] = (number, kind, _change_message(rng, value, others, depth + 1))
    elif kind == 2:
        fields[at] = (number, kind, of_bytes(rng, value, (value,)))
    else:
        fields[at] = (number, kind, keeping_length(rng, value, others))
    return _message(fields)


# ---- Avro ----


def in_avro(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change the schema, the metadata, or records below the compression of a container file."""
    try:
        metadata, sync, blocks = _take_avro_apart(data)
    except (IndexError, ValueError, zlib.error, zstandard.ZstdError):
        return of_bytes(rng, data, others)
    codec = metadata.get(b"avro.codec", b"null")
    chosen = rng.randrange(8)
    if chosen < 2 and b"avro.schema" in metadata:
        metadata[b"avro.schema"] = in_json(rng, metadata[b"avro.schema"], others)
    elif chosen == 2 and metadata:
        key = rng.choice(list(metadata))
        metadata[key] = of_bytes(rng, metadata[key], (metadata[key],))
    elif chosen == 3 and blocks:
        at = rng.randrange(len(blocks))
        blocks[at] = (rng.choice((_number(rng, blocks[at][0]), blocks[at][0] + 1)), blocks[at][1])
    elif blocks:
        at = rng.randrange(len(blocks))
        blocks[at] = (blocks[at][0], of_bytes(rng, blocks[at][1], [block for _, block in blocks]))
    return _put_avro_together(metadata, sync, blocks, codec)


def _take_avro_apart(data: bytes) -> tuple[dict[bytes, bytes], bytes, list[tuple[int, bytes]]]:
    at = 4

    def long() -> int:
        nonlocal at
        number, at = _read_varint(data, at)
        if number is None:
            raise ValueError
        return number >> 1 ^ -(number & 1)

    def text() -> bytes:
        nonlocal at
        length = long()
        at += length
        return data[at - length : at]

    metadata = {}
    while count := long():
        if count < 0:
            long()
        for _ in range(abs(count)):
            key = text()
            metadata[key] = text()
    sync = data[at : at + 16]
    at += 16
    codec = metadata.get(b"avro.codec", b"null")
    blocks = []
    while at < len(data):
        count = long()
        blocks.append((count, _INFLATE[codec](text())))
        at += 16
    return metadata, sync, blocks


def _put_avro_together(
    metadata: dict[bytes, bytes], sync: bytes, blocks: list[tuple[int, bytes]], codec: bytes
) -> bytes:
    def long(number: int) -> bytes:
        return _varint(_zigzag(number))

    parts = [b"Obj\1", long(len(metadata))]
    for key, value in metadata.items():
        parts += [long(len(key)), key, long(len(value)), value]
    parts += [b"\0", sync]
    for count, block in blocks:
        stored = _DEFLATE[codec](block)
        parts += [long(count), long(len(stored)), stored, sync]
    return b"".join(parts)


def _deflated(data: bytes) -> bytes:
    compressor = zlib.compressobj(1, zlib.DEFLATED, -15)
    return compressor.compress(data) + compressor.flush()


_INFLATE: dict[bytes, Callable[[bytes], bytes]] = {
    b"null": bytes,
    b"deflate": lambda data: zlib.decompress(data, -15),
    b"zstandard": lambda data: zstandard.ZstdDecompressor().decompress(data, 1 << 24),
}
_DEFLATE: dict[bytes, Callable[[bytes], bytes]] = {
    b"null": bytes,
    b"deflate": _deflated,
    b"zstandard": lambda data: zstandard.ZstdCompressor(1).compress(data),
}


# ---- Parquet's footer ----


@dataclass(slots=True)
class _Struct:
    fields: list[list[Any]]  # number, type, value


@dataclass(slots=True)
class _List:
    kind: int
    items: list[Any]


def in_parquet_footer(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change fields of the footer's Thrift structures; its length and the magic go with them."""
    if len(data) < 12:
        return of_bytes(rng, data, others)
    (length,) = struct.unpack_from("<I", data, len(data) - 8)
    start = len(data) - 8 - length
    try:
        footer, _ = _read_thrift(data, start, 12, len(data) - 8)
    except (IndexError, ValueError):
        return of_bytes(rng, data, others)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        _change_thrift(rng, footer, len(data))
    encoded = _write_thrift(footer, 12)
    return data[:start] + encoded + struct.pack("<I", len(encoded)) + data[-4:]


def _read_thrift(data: bytes, at: int, kind: int, end: int) -> tuple[Any, int]:
    if at > end:
        raise ValueError
    if kind in (1, 2):
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):
        number, at = _read_varint(data, at)
        if number is None:
            raise ValueError
        return number >> 1 ^ -(number & 1), at
    if kind == 7:
        return data[at : at + 8], at + 8
    if kind == 8:
        length, at = _read_varint(data, at)
        if length is None or at + length > end:
            raise ValueError
        return data[at : at + length], at + length
    if kind in (9, 10):
        head = data[at]
        count, at = (head >> 4, at + 1) if head >> 4 < 15 else _read_varint(data, at + 1)
        items = []
        for _ in range(count or 0):
            if head & 15 in (1, 2):
                item: Any = data[at]
                at += 1
            else:
                item, at = _read_thrift(data, at, head & 15, end)
            items.append(item)
        return _List(head & 15, items), at
    if kind != 12:
        raise ValueError
    found, number = _Struct([]), 0
    while (head := data[at]) != 0:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            raw, at = _read_varint(data, at)
            number = (raw or 0) >> 1
        value, at = _read_thrift(data, at, head & 15, end)
        found.fields.append([number, head & 15, value])
    return found, at + 1


def _write_thrift(value: Any, kind: int) -> bytes:
    if kind in (1, 2):
        return b""
    if kind == 3:
        return bytes([value & 255])
    if kind in (4, 5, 6):
        return _varint(_zigzag(value))
    if kind == 7:
        return bytes(value)
    if kind == 8:
        return _varint(len(value)) + value
    if kind in (9, 10):
        items = b"".join(
            bytes([item & 255]) if value.kind in (1, 2) else _write_thrift(item, value.kind) for item in value.items
        )
        return b"".join((bytes([0xF0 | value.kind]), _varint(len(value.items)), items))
    parts = []
    for number, type_, each in value.fields:
        wire = (1 if each else 2) if type_ in (1, 2) else type_
        parts += [bytes([wire]), _varint(_zigzag(number)), _write_thrift(each, wire)]
    return b"".join((*parts, b"\0"))


def _change_thrift(rng: random.Random, root: _Struct, size: int) -> None:
    places: list[tuple[Any, int]] = []
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        children = node.fields if isinstance(node, _Struct) else node.items
        for at, child in enumerate(children):
            places.append((node, at))
            value = child[2] if isinstance(node, _Struct) else child
            if isinstance(value, _Struct | _List):
                pending.append(value)
    if not places:
        return
    node, at = rng.choice(places)
    children = node.fields if isinstance(node, _Struct) else node.items
    chosen = rng.randrange(10)
    if chosen == 0:
        del children[at]
    elif chosen == 1:
        children[at:at] = [children[at]] * rng.choice((1, 1, 20))
    elif chosen == 2 and isinstance(node, _Struct):
        children[at] = [rng.randint(0, 20), *children[at][1:]]
    elif isinstance(node, _Struct):
        number, kind, value = children[at]
        children[at] = [number, kind, _thrift_value(rng, value, size)]
    else:
        children[at] = _thrift_value(rng, children[at], size)


def _thrift_value(rng: random.Random, value: Any, size: int) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((_number(rng, size), value + rng.randint(-9, 9), rng.randint(0, 20)))
    if isinstance(value, bytes):
        return of_bytes(rng, value, (value,)) if len(value) != 8 else keeping_length(rng, value, ())
    return value
