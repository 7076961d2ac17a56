"""File indexes laid out by hand, without what writes them."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa

from skerry.bitmaps import roaring32_from_positions
from skerry.paimon.file_index.keys import as_key, key_form
from skerry.paimon.values.types import MAX_LENGTH, AtomicType, TypeRoot

STRING = AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)
INT, BIGINT, TINYINT = AtomicType(TypeRoot.INT), AtomicType(TypeRoot.BIGINT), AtomicType(TypeRoot.TINYINT)
SMALLINT, BOOLEAN, DATE = AtomicType(TypeRoot.SMALLINT), AtomicType(TypeRoot.BOOLEAN), AtomicType(TypeRoot.DATE)
FLOAT, DOUBLE = AtomicType(TypeRoot.FLOAT), AtomicType(TypeRoot.DOUBLE)
DECIMAL = AtomicType(TypeRoot.DECIMAL, precision=9, scale=2)
SECONDS, MILLIS, MICROS, NANOS = (AtomicType(TypeRoot.TIMESTAMP, precision=digits) for digits in (0, 3, 6, 9))
BYTES = AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH)

ARROW = {
    STRING: pa.string(),
    INT: pa.int32(),
    BIGINT: pa.int64(),
    TINYINT: pa.int8(),
    SMALLINT: pa.int16(),
    BOOLEAN: pa.bool_(),
    DATE: pa.date32(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    DECIMAL: pa.decimal128(9, 2),
    SECONDS: pa.timestamp("s"),
    MILLIS: pa.timestamp("ms"),
    MICROS: pa.timestamp("us"),
    NANOS: pa.timestamp("ns"),
    BYTES: pa.binary(),
}


def i32(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def bitmap_of(rows: list[int]) -> bytes:
    return roaring32_from_positions(np.array(rows, np.int64))


def key_bytes(type_: AtomicType, key: Any) -> bytes:
    form = key_form(type_)
    return i32(len(key)) + key if form is None else form.pack(key)


def order(key: Any) -> Any:
    """As Java's compareTo: NaN last, -0.0 before 0.0."""
    return (math.isnan(key), key, math.copysign(1, key)) if isinstance(key, float) else key


def rows_by_key(type_: AtomicType, values: list[Any]) -> list[tuple[Any, list[int]]]:
    found: dict[Any, tuple[Any, list[int]]] = {}
    for row, value in enumerate(values):
        if value is not None:
            key = as_key(type_, value)
            found.setdefault(key_bytes(type_, key), (key, []))[1].append(row)
    return sorted(found.values(), key=lambda entry: order(entry[0]))


def bitmap_index(type_: AtomicType, values: list[Any], version: int, block_size: int = 40) -> bytes:
    area = b""
    places: list[tuple[Any, int, int]] = []
    nulls = [row for row, value in enumerate(values) if value is None]

    def place(rows: list[int]) -> tuple[int, int]:
        nonlocal area
        if len(rows) == 1:
            return -1 - rows[0], -1
        offset, encoded = len(area), bitmap_of(rows)
        area += encoded
        return offset, len(encoded)

    null = place(nulls) if nulls else None
    places = [(key, *place(rows)) for key, rows in rows_by_key(type_, values)]
    head = bytes([version]) + i32(len(values), len(places)) + bytes([null is not None])
    if version == 1:
        head += i32(null[0]) if null else b""
        return head + b"".join(key_bytes(type_, key) + i32(offset) for key, offset, _ in places) + area
    head += i32(*null) if null else b""
    blocks: list[list[bytes]] = []
    firsts: list[bytes] = []
    for key, offset, length in places:
        entry = key_bytes(type_, key) + i32(offset, length)
        if not blocks or sum(map(len, blocks[-1])) + len(entry) > block_size:
            blocks.append([])
            firsts.append(key_bytes(type_, key))
        blocks[-1].append(entry)
    laid_out = [i32(len(block)) + b"".join(block) for block in blocks]
    starts = np.cumsum([0, *map(len, laid_out)]).tolist()
    head += i32(len(blocks)) + b"".join(first + i32(start) for first, start in zip(firsts, starts, strict=False))
    return head + i32(starts[-1]) + b"".join(laid_out) + area


def sliced(numbers: dict[int, int]) -> bytes:
    least, most = 0, max(numbers.values())
    slices = [[row for row in sorted(numbers) if numbers[row] >> bit & 1] for bit in range(most.bit_length())]
    return (
        struct.pack(">Bqq", 1, least, most)
        + bitmap_of(sorted(numbers))
        + i32(len(slices))
        + b"".join(map(bitmap_of, slices))
    )


def bsi_index(type_: AtomicType, values: list[Any]) -> bytes:
    keys = {row: as_key(type_, value) for row, value in enumerate(values) if value is not None}
    index = b"\x01" + i32(len(values))
    for part in ({r: k for r, k in keys.items() if k >= 0}, {r: -k for r, k in keys.items() if k < 0}):
        index += b"\x01" + sliced(part) if part else b"\x00"
    return index


def dictionary(type_: AtomicType, keys: list[Any], chunk_keys: int) -> bytes:
    offsets, chunks, area = b"", b"", b""
    for code in range(0, len(keys), chunk_keys):
        first, *further = [key_bytes(type_, key) for key in keys[code : code + chunk_keys]]
        chunk = b"\x01" + first + i32(code, len(area), len(further))
        if key_form(type_) is None:
            starts = np.cumsum([0, *map(len, further)]).tolist()
            chunk += i32(4 * len(further), starts[-1])
            area += i32(*starts[:-1])
        else:
            chunk += i32(len(first) * len(further), len(first))
        offsets += i32(len(chunks))
        chunks, area = chunks + chunk, area + b"".join(further)
    return i32(13) + b"\x01" + i32(len(offsets) // 4, len(offsets), len(chunks)) + offsets + chunks + area


def range_bitmap_index(type_: AtomicType, values: list[Any], chunk_keys: int = 2) -> bytes:
    found = rows_by_key(type_, values)
    codes = {row: code for code, (_, rows) in enumerate(found) for row in rows}
    keys = [key for key, _ in found]
    bounds = key_bytes(type_, keys[0]) + key_bytes(type_, keys[-1]) if keys else b""
    inner = dictionary(type_, keys, chunk_keys)
    head = b"\x01" + i32(len(values), len(keys)) + bounds + i32(len(inner))
    width = max(max(len(keys) - 1, 0).bit_length(), 1)
    slices = [bitmap_of([row for row in sorted(codes) if codes[row] >> bit & 1]) for bit in range(width)]
    starts = np.cumsum([0, *map(len, slices)]).tolist()
    existing = bitmap_of(sorted(codes))
    places = b"".join(i32(start, len(rows)) for start, rows in zip(starts, slices, strict=False))
    codes_head = b"\x01" + bytes([width]) + i32(len(existing), len(places)) + places
    return i32(len(head)) + head + inner + i32(len(codes_head)) + codes_head + existing + b"".join(slices)
