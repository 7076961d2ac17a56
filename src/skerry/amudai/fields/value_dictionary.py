"""Value dictionaries: the distinct values of a stripe's field, which the ids in its DATA buffer refer to.

    buffer  = header values [offsets] sorted-ids zeros       each part at a multiple of 16, the whole of 64
    section = length payload 64-zeros zeros checksum         the checksum is of the payload

Spec: docs/formats/amudai.md § 7; Amudai book, chapter 6, Value Dictionary.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np
import numpy.typing as npt

from skerry.amudai.shard.checksum import checksum
from skerry.amudai.shard.schema import BasicType
from skerry.errors import FormatError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["HEADER_BYTES", "ValueDictionary", "decode_value_dictionary", "encode_value_dictionary"]

HEADER_BYTES: Final = 128
_HEADER: Final = struct.Struct("<BIBIIQQQQQQ")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_CHECKSUM_AT: Final = HEADER_BYTES - _U32.size
_SECTION_ALIGNMENT: Final = 16
_BUFFER_ALIGNMENT: Final = 64
_TAIL_ZEROS: Final = 64  # readers of the reference load wide words beyond the payload
_SECTION_FRAME: Final = _U64.size + _TAIL_ZEROS + _U32.size
_RULE: Final = "docs/formats/amudai.md § 7"


@dataclass(frozen=True, slots=True)
class ValueDictionary:
    """The entries of a dictionary, by id.

    Args:
        basic_type: The kind of values.
        fixed_size: Bytes of every value; 0 if each has its own length.
        null_id: The id of null, None if there is none; its entry is zeros or empty.
        values: uint8[bytes], the entries end to end.
        offsets: int64[count + 1] into `values`.
        sorted_ids: uint32[count, without the null entry], the ids in the order of their values' bytes.
    """

    basic_type: BasicType
    fixed_size: int
    null_id: int | None
    values: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    sorted_ids: npt.NDArray[np.uint32]

    @property
    def count(self) -> int:
        """Number of entries, the null entry included."""
        return len(self.offsets) - 1


def encode_value_dictionary(dictionary: ValueDictionary) -> bytes:
    """Lay out a dictionary.

    Returns:
        The buffer, a multiple of 64 bytes.

    Spec: docs/formats/amudai.md § 7.1, § 7.2; Amudai book, chapter 6, Value Dictionary.
    """
    payloads = [dictionary.values.tobytes(), b"", dictionary.sorted_ids.astype("<u4").tobytes()]
    if dictionary.fixed_size == 0:
        payloads[1] = dictionary.offsets.astype("<u8").tobytes()
    ranges: list[int] = []
    parts: list[bytes] = []
    position = HEADER_BYTES
    for payload, is_there in zip(payloads, (True, dictionary.fixed_size == 0, True), strict=True):
        section = _encode_section(payload) if is_there else b""
        parts.append(section)
        ranges += (position, position + len(section))
        position += len(section)
    header = _HEADER.pack(
        dictionary.basic_type,
        dictionary.count,
        dictionary.null_id is not None,
        dictionary.null_id or 0,
        dictionary.fixed_size,
        *ranges,
    ).ljust(_CHECKSUM_AT, b"\0")
    parts.append(bytes(-position % _BUFFER_ALIGNMENT))
    return b"".join((header, _U32.pack(checksum(header)), *parts))


def _encode_section(payload: bytes) -> bytes:
    zeros = _TAIL_ZEROS + -(len(payload) + _SECTION_FRAME) % _SECTION_ALIGNMENT
    return b"".join((_U64.pack(len(payload)), payload, bytes(zeros), _U32.pack(checksum(payload))))


def decode_value_dictionary(data: Buffer, *, location: str | None = None, offset: int = 0) -> ValueDictionary:
    """Read a dictionary.

    Args:
        data: The buffer; what follows the last section is not looked at.
        location: The file, for errors.
        offset: Where the buffer starts in it, for errors.

    Returns:
        The dictionary; its arrays are views of `data`.

    Raises:
        FormatError: A checksum does not match, a section is not within the buffer, or counts, offsets and ids do not
            go together.

    Spec: docs/formats/amudai.md § 7.1, § 7.2; Amudai book, chapter 6, Value Dictionary.
    """
    return _Decoder(memoryview(data).cast("B"), location, offset).decode()


@dataclass(frozen=True, slots=True)
class _Decoder:
    view: memoryview
    location: str | None
    offset: int

    def decode(self) -> ValueDictionary:
        if len(self.view) < HEADER_BYTES:
            self.fail(f"has {len(self.view)} bytes, expected at least {HEADER_BYTES}", 0)
        (expected,) = _U32.unpack_from(self.view, _CHECKSUM_AT)
        self.check(self.view[:_CHECKSUM_AT], expected, "header", 0)
        kind, count, has_null, null_id, fixed_size, *ranges = _HEADER.unpack_from(self.view)
        if kind not in BasicType.__members__.values() or (not BasicType(kind).is_bytes and fixed_size == 0):
            self.fail(f"is of type {kind}, expected one whose values have bytes", 0)
        if has_null > 1 or (has_null and null_id >= count):
            self.fail(
                f"has null id {null_id} and flag {has_null}, expected an id below {count} and a flag of 0 or 1", 5
            )
        values = np.frombuffer(self.section("values", *ranges[0:2]), np.uint8)
        offsets = self.offsets(values, count, fixed_size, ranges[2], ranges[3])
        ids = self.numbers("sorted ids", "<u4", count - has_null, ranges[4], ranges[5]).view(np.uint32)
        if len(ids) and int(ids.max()) >= count:
            self.fail(f"sorts an id {int(ids.max())}, expected ids below {count}", ranges[4])
        return ValueDictionary(BasicType(kind), fixed_size, null_id if has_null else None, values, offsets, ids)

    def offsets(
        self, values: npt.NDArray[np.uint8], count: int, fixed_size: int, start: int, end: int
    ) -> npt.NDArray[np.int64]:
        if fixed_size:
            if len(values) != count * fixed_size:
                self.fail(f"has {len(values)} bytes of values, expected {count} of {fixed_size}", HEADER_BYTES)
            return np.arange(0, len(values) + 1, fixed_size, dtype=np.int64)
        offsets = self.numbers("offsets", "<u8", count + 1, start, end).view(np.int64)
        if offsets[0] != 0 or offsets[-1] != len(values) or (offsets[1:] < offsets[:-1]).any():
            self.fail(f"has offsets that do not rise from 0 to {len(values)}", start)
        return offsets

    def numbers(self, name: str, dtype: str, count: int, start: int, end: int) -> npt.NDArray[np.integer]:
        payload = self.section(name, start, end)
        if len(payload) != count * np.dtype(dtype).itemsize:
            self.fail(f"has {len(payload)} bytes of {name}, expected {count} of {np.dtype(dtype).itemsize}", start)
        return np.frombuffer(payload, dtype)

    def section(self, name: str, start: int, end: int) -> memoryview:
        if not HEADER_BYTES <= start <= end <= len(self.view) or end - start < _U64.size + _U32.size:
            self.fail(f"has its {name} at {start} to {end}, expected them within {len(self.view)} bytes", 14)
        (length,) = _U64.unpack_from(self.view, start)
        if length > end - start - _U64.size - _U32.size:
            self.fail(f"has {length} bytes of {name} in a section of {end - start}", start)
        payload = self.view[start + _U64.size : start + _U64.size + length]
        (expected,) = _U32.unpack_from(self.view, end - _U32.size)
        self.check(payload, expected, name, start)
        return payload

    def check(self, data: memoryview, expected: int, name: str, position: int) -> None:
        found = checksum(data)
        if found != expected:
            self.fail(f"has checksum {found:#010x} over its {name}, expected {expected:#010x}", position)

    def fail(self, message: str, position: int) -> NoReturn:
        raise FormatError(
            f"value dictionary {message}", location=self.location, offset=self.offset + position, rule=_RULE
        )
