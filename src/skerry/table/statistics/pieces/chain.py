"""Samples in statistics files: whole, or as a piece that continues those of earlier files.

A whole sample describes all files that were sampled. A *piece* says how the samples differ from those of the file
before it; its footer names the *chain*: the files of the whole sample and of the pieces between, each with the checksum
of its bytes. If one of them is gone or is another one, the samples are lost, and the files are sketched again when
needed. How a file is named is up to the table format: Iceberg names the snapshot for which it is registered.

Pieces of version 0.2.0, which only appends had, are the samples of the added files; they are read as what they add.

Spec: docs/formats/samples.md § 1; Puffin spec, File structure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from skerry.errors import FormatError, NotFoundError, UnsupportedError
from skerry.puffin import PuffinReader
from skerry.table.statistics.file_groups import FileGroup
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.group_samples_layout import decode_group_samples
from skerry.table.statistics.group_sketches import GroupSketches, decode_group_sketches
from skerry.table.statistics.pieces.layout import decode_gone_rows, decode_sample_piece
from skerry.table.statistics.pieces.row_piece import RowPiece
from skerry.table.statistics.pieces.sample_piece import SamplePiece
from skerry.table.statistics.puffin_regions import ROW_PROPERTIES, decimal_number, read_region, read_rows
from skerry.table.statistics.row_sample import RowSample

__all__ = [
    "CHAIN_PROPERTY",
    "GONE_PROPERTIES",
    "PIECE_PROPERTIES",
    "SAMPLE_PROPERTIES",
    "SKETCH_PROPERTIES",
    "Link",
    "SamplePieces",
    "begin_of_samples",
    "chain_of",
    "chain_text",
    "pieces_of",
    "read_group_sketches",
    "rows_of",
    "without_samples",
]

_PREFIX = "skerry.samples."
SAMPLE_PROPERTIES = tuple(
    _PREFIX + name
    for name in ("offset", "length", "xxh3", "snapshot-id", "schema-id", "last-column-id", "missing-files")
)
"""The footer properties that describe the samples in a statistics file; the first three only a whole sample."""
_NUMBERS = tuple(_PREFIX + name for name in ("missing-files", "schema-id", "last-column-id"))
PIECE_PROPERTIES = tuple(f"skerry.changed-samples.{name}" for name in ("offset", "length", "xxh3"))
"""The footer properties that locate a piece."""
CHAIN_PROPERTY = "skerry.changed-samples.chain"
"""The footer property with the chain of a piece, the whole sample first: name:checksum, …"""
GONE_PROPERTIES = tuple(f"skerry.gone-rows.{name}" for name in ("offset", "length", "xxh3"))
"""The footer properties that locate which sampled rows are gone, if any are."""
_ADDED_PROPERTIES = tuple(f"skerry.added-samples.{name}" for name in ("offset", "length", "xxh3"))
_ADDED_CHAIN_PROPERTY = "skerry.added-samples.chain"
SKETCH_PROPERTIES = tuple(f"skerry.group-sketches.{name}" for name in ("offset", "length", "xxh3"))
"""The footer properties that describe the sketches of single groups, if the table keeps any."""


@dataclass(frozen=True, slots=True)
class Link:
    """One part of a sample.

    Args:
        name: The statistics file that holds it, as the table format names it.
        checksum: Its XXH3-64, 16 hex digits.
    """

    name: str
    checksum: str


@dataclass(frozen=True, slots=True, eq=False)
class SamplePieces:
    """The samples of a snapshot, part by part.

    Args:
        links: The parts, the whole sample first.
        whole: The whole sample.
        pieces: What has changed since, one piece after the other.
        missing_files: Live data files that are in no group.
        schema_id: The schema by which the values were hashed.
        last_column_id: The highest field id of that time.
        own: Sketches of single groups.
    """

    links: tuple[Link, ...]
    whole: GroupSamples
    pieces: tuple[SamplePiece, ...]
    missing_files: int
    schema_id: int
    last_column_id: int
    own: GroupSketches = field(default_factory=GroupSketches)

    def groups(self) -> GroupSamples:
        """All parts together, with the groups of the last one: a piece that continues them refers to these."""
        if not self.pieces:
            return self.whole
        return functools.reduce(SamplePiece.then, self.pieces).applied_to(self.whole)


OpenFile: TypeAlias = Callable[[str], PuffinReader | None]
"""Opens the statistics file with a name; None if there is none, or if it is not that of the name."""


def pieces_of(open_file: OpenFile, name: str) -> SamplePieces | None:
    """Read samples; None if they, or a part of them, are missing or damaged.

    Args:
        open_file: Opens a statistics file.
        name: The file.
    """
    try:
        found = _located(open_file, name)
        if found is None:
            return None
        links, files = found
        data = read_region(files[0], SAMPLE_PROPERTIES)
        if data is None:
            return None
        whole = replace(decode_group_samples(data, location=files[0].location), rows=read_rows(files[0]))
        pieces: list[SamplePiece] = []
        for file in files[1:]:
            piece = _read_piece(file, whole, pieces[-1].groups if pieces else whole.groups)
            if piece is None:
                return None
            pieces.append(piece)
        own = read_group_sketches(files[-1])
    except (FormatError, NotFoundError, UnsupportedError):
        return None
    missing_files, schema_id, last_column_id = _numbers(files[-1])
    return SamplePieces(links, whole, tuple(pieces), missing_files, schema_id, last_column_id, own)


def _read_piece(file: PuffinReader, whole: GroupSamples, before: Sequence[FileGroup]) -> SamplePiece | None:
    """A piece in a file; None if it is missing or damaged."""
    data = read_region(file, _piece_properties(file))
    if data is None:
        return None
    if CHAIN_PROPERTY in file.properties:
        return decode_sample_piece(data, before, _read_row_piece(file), location=file.location)
    added = replace(decode_group_samples(data, location=file.location), rows=read_rows(file))
    return SamplePiece.of_groups(before, added, whole.columns)


def _read_row_piece(file: PuffinReader) -> RowPiece | None:
    """What becomes of the sampled rows; None if that is not known."""
    added = read_rows(file)
    if added is None or GONE_PROPERTIES[0] not in file.properties:
        return None if added is None else RowPiece(added)
    data = read_region(file, GONE_PROPERTIES)
    return None if data is None else decode_gone_rows(data, added, location=file.location)


def rows_of(open_file: OpenFile, name: str) -> tuple[RowSample, int] | None:
    """Read the sampled rows alone; None if they, or a part of them, are missing or damaged.

    Args:
        open_file: As of `pieces_of`.
        name: The file.

    Returns:
        The rows, and the number of files that are in no group.
    """
    try:
        found = _located(open_file, name)
        if found is None:
            return None
        whole = read_rows(found[1][0])
        pieces = [_read_row_piece(file) for file in found[1][1:]]
    except (FormatError, NotFoundError, UnsupportedError):
        return None
    known = [piece for piece in pieces if piece is not None]
    if whole is None or len(known) < len(pieces):
        return None
    return functools.reduce(RowPiece.then, known).applied_to(whole) if known else whole, _numbers(found[1][-1])[0]


def _located(open_file: OpenFile, name: str) -> tuple[tuple[Link, ...], list[PuffinReader]] | None:
    """The parts of samples, and the file of each; None if one is missing or another."""
    reader = open_file(name)
    links = None if reader is None else _links(reader, name)
    if reader is None or links is None:
        return None
    files = []
    for link in links:
        file = reader if link.name == name else open_file(link.name)
        if file is None:
            return None
        names = SAMPLE_PROPERTIES if link == links[0] else _piece_properties(file)
        if file.properties.get(names[2]) != link.checksum:
            return None
        files.append(file)
    return links, files


def _numbers(reader: PuffinReader) -> tuple[int, int, int]:
    """The number of missing files, the schema, and the highest field id of that time (0 in Paimon tables)."""
    missing_files, schema_id, last_column_id = (
        decimal_number(reader.properties.get(name, "0")) or 0 for name in _NUMBERS
    )
    return missing_files, schema_id, last_column_id


def _links(reader: PuffinReader, name: str) -> tuple[Link, ...] | None:
    """The parts of a file's samples, itself included; None if the footer does not say them."""
    chain = chain_of(reader)
    names = _piece_properties(reader) if chain else SAMPLE_PROPERTIES
    checksum = reader.properties.get(names[2])
    defaults = zip(_NUMBERS, ("", "", "0"), strict=True)
    are_numbers = all(decimal_number(reader.properties.get(key, default)) is not None for key, default in defaults)
    return (*chain, Link(name, checksum)) if checksum is not None and are_numbers else None


def chain_of(reader: PuffinReader) -> tuple[Link, ...]:
    """The earlier parts that a file continues; none if its sample is whole."""
    text = reader.properties.get(CHAIN_PROPERTY) or reader.properties.get(_ADDED_CHAIN_PROPERTY, "")
    parts = (part.partition(":") for part in text.split(",") if part)
    return tuple(Link(name, checksum) for name, _, checksum in parts)


def _piece_properties(file: PuffinReader) -> tuple[str, ...]:
    return PIECE_PROPERTIES if CHAIN_PROPERTY in file.properties else _ADDED_PROPERTIES


def begin_of_samples(file: PuffinReader) -> int:
    """Where the samples begin, or the piece of them, in a file that has either."""
    names = SAMPLE_PROPERTIES if SAMPLE_PROPERTIES[0] in file.properties else _piece_properties(file)
    return int(file.properties[names[0]])


def without_samples(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a footer but for those that locate samples."""
    located = (*SAMPLE_PROPERTIES[:3], *PIECE_PROPERTIES, *GONE_PROPERTIES, *_ADDED_PROPERTIES, *SKETCH_PROPERTIES)
    gone = {*located, *ROW_PROPERTIES, CHAIN_PROPERTY, _ADDED_CHAIN_PROPERTY}
    return {name: text for name, text in properties.items() if name not in gone}


def chain_text(links: Iterable[Link]) -> str:
    """The property that names a chain."""
    return ",".join(f"{link.name}:{link.checksum}" for link in links)


def read_group_sketches(reader: PuffinReader) -> GroupSketches:
    """The sketches of single groups; none if there are none, or they are damaged."""
    data = read_region(reader, SKETCH_PROPERTIES)
    return GroupSketches() if data is None else decode_group_sketches(data)
