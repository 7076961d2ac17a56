"""Bytes in a statistics file outside any blob, located by properties of its footer; among them the sampled rows.

Spec: docs/formats/samples.md § 1; Puffin spec, File structure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import xxhash

from skerry.errors import FormatError
from skerry.puffin import PuffinReader, PuffinWriter
from skerry.table.properties import check_flag
from skerry.table.statistics.row_sample import RowSample, decode_row_sample, encode_row_sample

__all__ = ["ROW_PROPERTIES", "add_region", "add_rows", "decimal_number", "keeps_rows", "read_region", "read_rows"]

_DIGITS = 19
ROW_SAMPLE_PROPERTY = "skerry.statistics.row-sample"
"""Table property: whether statistics files hold sampled rows, that is values of the table."""
ROW_PROPERTIES = tuple(f"skerry.row-sample.{name}" for name in ("offset", "length", "xxh3"))
"""The footer properties that locate the sampled rows of the files that the samples in the same file describe."""


def add_region(writer: PuffinWriter, names: Sequence[str], data: bytes) -> str:
    """Add bytes outside any blob, and record where they are.

    Args:
        writer: The unfinished file.
        names: The properties' names, which begin with those of offset, length and checksum.
        data: The bytes.

    Returns:
        Their checksum.
    """
    checksum = xxhash.xxh3_64_hexdigest(data)
    writer.properties |= dict(zip(names[:3], (*map(str, writer.add_region(data)), checksum), strict=True))
    return checksum


def decimal_number(text: str) -> int | None:
    """A number in a footer's properties; None of what is none, or longer than those that are written."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


def read_region(reader: PuffinReader, names: Sequence[str]) -> bytes | None:
    """Bytes outside any blob, located by the footer's properties; None if they are missing or damaged.

    Args:
        reader: The statistics file.
        names: The properties' names, which begin with those of offset, length and checksum.

    Raises:
        FormatError: The bytes are not within the file.
    """
    offset, length = (decimal_number(reader.properties.get(name, "")) for name in names[:2])
    checksum = reader.properties.get(names[2], "")
    if offset is None or length is None:
        return None
    data = reader.read_range(offset, length)
    return data if xxhash.xxh3_64_hexdigest(data) == checksum else None


def keeps_rows(properties: Mapping[str, str]) -> bool:
    """Whether a table's statistics files hold sampled rows.

    Raises:
        SchemaError: The property is neither true nor false.
    """
    check_flag(properties, ROW_SAMPLE_PROPERTY)
    return properties.get(ROW_SAMPLE_PROPERTY, "true").strip().lower() == "true"


def add_rows(writer: PuffinWriter, sample: RowSample | None, properties: Mapping[str, str]) -> bool:
    """Add sampled rows, if there are any and the table's properties allow it; returns whether it did.

    Raises:
        SchemaError: The property is neither true nor false.
    """
    if sample is None or not keeps_rows(properties):
        return False
    add_region(writer, ROW_PROPERTIES, encode_row_sample(sample))
    return True


def read_rows(reader: PuffinReader) -> RowSample | None:
    """The sampled rows in a statistics file; None if there are none, or they are damaged."""
    try:
        data = read_region(reader, ROW_PROPERTIES)
        return None if data is None else decode_row_sample(data, location=reader.location)
    except FormatError:
        return None
