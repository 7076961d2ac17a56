"""Columns of variants as spans of bytes, which kernels take.

Spec: Parquet spec, VariantEncoding.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.variant.building import copy_spans
from skerry.variant.layout import (
    BAD,
    BAD_NAME,
    MISSING,
    OVERLAP,
    SHORT,
    TOO_DEEP,
    UNKNOWN_TYPE,
    VERSION,
    check_metadata,
    check_values,
    find_names,
)
from skerry.variant.values import MAX_DEPTH, RULE, VARIANT, is_variant

__all__ = [
    "Bytes",
    "Dictionaries",
    "Flags",
    "Longs",
    "Spans",
    "bytes_array",
    "check",
    "flags_of",
    "offsets_from",
    "raise_on",
    "variants",
]

Bytes: TypeAlias = npt.NDArray[np.uint8]
Longs: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

_MAX_BYTES: Final = 2**31 - 1
_PROBLEMS: Final = {
    SHORT: "a variant is cut short",
    BAD_NAME: "a field has a name that the metadata does not have",
    OVERLAP: "values of a variant overlap",
    VERSION: "variant metadata has another version than 1",
    BAD: "a variant has an offset or a scale outside of its range",
}


@dataclass(frozen=True, slots=True)
class Spans:
    """Values at positions of a buffer.

    Args:
        data: The buffer.
        at: int64[2, n], where values begin and end, -1 where there is none.
    """

    data: Bytes
    at: Longs

    def __len__(self) -> int:
        return int(self.at.shape[1])

    @property
    def present(self) -> Flags:
        """bool[n]: where there is a value."""
        return np.asarray(self.at[0] >= 0)

    @property
    def first_bytes(self) -> Bytes:
        """uint8[n], the header of each value, 0 where there is none.

        Raises:
            FormatError: A value has no bytes.
        """
        present = self.present
        if (present & (self.at[0] == self.at[1])).any():
            raise_on(SHORT)
        found = np.zeros(len(self), np.uint8)
        found[present] = self.data[self.at[0, present]]
        return found

    def only(self, kept: Flags) -> Spans:
        """The same values, without those at some places."""
        return Spans(self.data, np.where(kept, self.at, MISSING))

    def take(self, rows: Longs) -> Spans:
        """The values at some places."""
        return Spans(self.data, np.ascontiguousarray(self.at[:, rows]))

    def to_arrow(self, *, text: bool = False) -> pa.Array:
        """The values as binary or text, null where there is none.

        Raises:
            FormatError: Text is not UTF-8.
            UnsupportedError: They take 2 GiB or more.
        """
        present = self.present
        offsets = offsets_from(np.where(present, self.at[1] - self.at[0], 0))
        total = int(offsets[-1])
        if len(self) and present.all() and (self.at[0, 1:] == self.at[1, :-1]).all():
            data = self.data[self.at[0, 0] : self.at[0, 0] + total]
        else:
            data = np.empty(total, np.uint8)
            copy_spans(self.data, self.at, data)
        return bytes_array(data, offsets, present, text=text)

    @classmethod
    def of(cls, array: pa.Array) -> Spans:
        """The values of a binary or text array."""
        offsets, data = _offsets_of(array)
        at = np.stack((offsets[:-1], offsets[1:]))
        return cls(data, at) if not array.null_count else cls(data, np.where(flags_of(array), at, MISSING))

    @classmethod
    def between(cls, data: Bytes, offsets: Longs, present: Flags) -> Spans:
        """Values one after the other.

        Args:
            data: The buffer.
            offsets: int64[n + 1], where each begins and the last ends.
            present: bool[n], where there is a value.
        """
        return cls(data, np.where(present, np.stack((offsets[:-1], offsets[1:])), MISSING))


def offsets_from(sizes: Longs) -> Longs:
    """int64[n + 1], the offsets of values of these sizes.

    Raises:
        UnsupportedError: They take 2 GiB or more.
    """
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] > _MAX_BYTES:
        raise UnsupportedError(f"variants of {offsets[-1]} bytes in one batch, at most {_MAX_BYTES} can be held")
    return offsets


@dataclass(frozen=True, slots=True)
class Dictionaries:
    """The distinct metadata of a column.

    Args:
        data: Their bytes.
        at: int64[2, m], where each begins, and the number of its names.
        codes: int64[n], the dictionary of each row; 0 at nulls.
    """

    data: Bytes
    at: Longs
    codes: Longs

    @classmethod
    def of(cls, metadata: pa.Array) -> Dictionaries:
        """The dictionaries of a column of metadata.

        Raises:
            FormatError: The bytes break a rule of the format.
        """
        encoded = metadata.dictionary_encode()
        codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        spans = Spans.of(encoded.dictionary)
        counts = np.zeros(len(spans), np.int64)
        raise_on(check_metadata(spans.data, spans.at, counts))
        return cls(spans.data, np.stack((spans.at[0], counts)), codes)

    def take(self, rows: Longs) -> Dictionaries:
        """The same dictionaries, for other rows."""
        return Dictionaries(self.data, self.at, self.codes[rows])

    def ids_of(self, name: bytes) -> Longs:
        """int64[m], the id of a name in each dictionary, -1 where it is not."""
        found = np.empty(self.at.shape[1], np.int64)
        find_names(self.data, self.at, np.frombuffer(name, np.uint8), found)
        return found


def check(array: pa.StructArray) -> None:
    """Check every byte of a column of variants, but for the order of fields in objects and UTF-8.

    Raises:
        FormatError: A variant breaks a rule of the format, or metadata or value is missing.
        UnsupportedError: A value has an unknown type, or nests too deeply.
    """
    spans, dictionaries = variants(array)
    stack = np.empty((MAX_DEPTH, 5), np.int64)
    raise_on(check_values(spans.data, spans.at, dictionaries.at[1], dictionaries.codes, stack))


def variants(array: pa.StructArray) -> tuple[Spans, Dictionaries]:
    """The values and dictionaries of a column of variants.

    Raises:
        FormatError: Metadata breaks a rule of the format, or metadata or value is missing.
        SchemaError: The type is not that of variants.
    """
    if not isinstance(array, pa.Array):
        raise SchemaError(f"a column of variants must be an Arrow array, found {type(array).__name__}: {array!r:.80}")
    if not is_variant(array.type):
        raise SchemaError(f"{array.type} is not the type of a column of variants, expected {VARIANT}")
    value, metadata = (_field(array, name) for name in ("value", "metadata"))
    spans = Spans.of(value)
    valid = flags_of(array)
    if not (valid <= (spans.present & flags_of(metadata))).all():
        raise FormatError("a variant has no value or no metadata", rule=RULE)
    if array.null_count:
        spans = spans.only(valid)
        metadata = pc.if_else(pa.array(valid), metadata, None)
    return spans, Dictionaries.of(metadata)


def _field(array: pa.StructArray, name: str) -> pa.Array:
    found = array.field(array.type.get_field_index(name))
    return found.cast(pa.binary()) if pa.types.is_binary_view(found.type) else found


def flags_of(array: pa.Array) -> Flags:
    """bool[n]: where an array is not null."""
    if not array.null_count:
        return np.ones(len(array), bool)
    found: Flags = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def _offsets_of(array: pa.Array) -> tuple[Longs, Bytes]:
    """int64[n + 1], the offsets of a binary or text array, and its bytes."""
    is_wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    buffers = array.buffers()
    if len(array) and buffers[1] is not None:
        width = np.dtype(np.int64 if is_wide else np.int32)
        raw = np.frombuffer(buffers[1], width, len(array) + 1, array.offset * width.itemsize)
        offsets = raw.astype(np.int64)
    else:
        offsets = np.zeros(len(array) + 1, np.int64)
    data = np.empty(0, np.uint8) if buffers[2] is None else np.frombuffer(buffers[2], np.uint8)
    return offsets, data


def bytes_array(data: Bytes, offsets: Longs, valid: Flags | None, *, text: bool = False) -> pa.Array:
    """A binary or text array of its parts.

    Raises:
        FormatError: Text is not UTF-8.
    """
    bitmap = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.string() if text else pa.binary(), len(offsets) - 1, buffers)
    if text:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            raise FormatError("a string of a variant is not UTF-8", rule=RULE) from None
    return array


def raise_on(result: int) -> int:
    """Turn a kernel's result below 0 into an error.

    Raises:
        FormatError: A variant breaks a rule of the format.
        UnsupportedError: A value has an unknown type, or nests too deeply.
    """
    if result >= 0:
        return result
    if result == UNKNOWN_TYPE:
        raise UnsupportedError("a variant has a value of an unknown type")
    if result == TOO_DEEP:
        raise UnsupportedError(f"a variant nests deeper than {MAX_DEPTH} levels")
    raise FormatError(_PROBLEMS[result], rule=RULE)
