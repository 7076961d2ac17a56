"""Samples in the statistics files of an Iceberg table: whole, or as a piece that continues those of earlier files.

A whole sample describes all files that were sampled. A *piece* describes the files that appends have added since the
file before it; its footer names the *chain*: the snapshots of the whole sample and of the pieces between, each with the
checksum of its bytes. If one of them is gone or is another one, the samples are lost, and the files are sketched again
when needed.

Spec: docs/formats/samples.md § 1; Puffin spec, File structure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from skerry.errors import FormatError, NotFoundError, UnsupportedError
from skerry.puffin import PuffinReader
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.group_samples_layout import decode_group_samples
from skerry.table.statistics.group_sketches import GroupSketches, decode_group_sketches
from skerry.table.statistics.puffin_regions import read_region, read_rows
from skerry.table.statistics.row_sample import RowSample, united

__all__ = [
    "ADDED_PROPERTIES",
    "CHAIN_PROPERTY",
    "SAMPLE_PROPERTIES",
    "SKETCH_PROPERTIES",
    "Link",
    "SamplePieces",
    "chain_of",
    "chain_text",
    "joined",
    "pieces_of",
    "read_group_sketches",
    "rows_of",
]

_PREFIX = "skerry.samples."
SAMPLE_PROPERTIES = tuple(
    _PREFIX + name
    for name in ("offset", "length", "xxh3", "snapshot-id", "schema-id", "last-column-id", "missing-files")
)
"""The footer properties that describe the samples in a statistics file; the first three only a whole sample."""
ADDED_PROPERTIES = tuple(f"skerry.added-samples.{name}" for name in ("offset", "length", "xxh3"))
"""The footer properties that locate a piece."""
CHAIN_PROPERTY = "skerry.added-samples.chain"
"""The footer property with the chain of a piece, the whole sample first: snapshot:checksum, …"""
SKETCH_PROPERTIES = tuple(f"skerry.group-sketches.{name}" for name in ("offset", "length", "xxh3"))
"""The footer properties that describe the sketches of single groups, if the table keeps any."""

_FILE_BYTES: Final = 200
"""What a file takes in memory: two numbers in a dictionary."""


@dataclass(frozen=True, slots=True)
class Link:
    """One part of a sample.

    Args:
        snapshot_id: The snapshot whose statistics file holds it.
        checksum: Its XXH3-64, 16 hex digits.
    """

    snapshot_id: int
    checksum: str


@dataclass(frozen=True, slots=True, eq=False)
class SamplePieces:
    """The samples of a snapshot, part by part.

    Args:
        links: The parts, the whole sample first.
        whole: The whole sample.
        added: The files added since, one piece after the other.
        missing_files: Live data files that are in no group.
        schema_id: The schema by which the values were hashed.
        last_column_id: The highest field id of that time.
        own: Sketches of single groups.
    """

    links: tuple[Link, ...]
    whole: GroupSamples
    added: tuple[GroupSamples, ...]
    missing_files: int
    schema_id: int
    last_column_id: int
    own: GroupSketches = field(default_factory=GroupSketches)

    @property
    def size_bytes(self) -> int:
        """About the memory that all parts take."""
        parts = (self.whole, *self.added)
        files = sum(len(group.files) for part in parts for group in part.groups)
        own = sum(sketch.hashes.nbytes for found in self.own.sketches.values() for sketch in found.values())
        return own + _FILE_BYTES * files + sum(part.size_bytes for part in parts)

    def groups(self, max_groups: int) -> GroupSamples:
        """All parts together."""
        return self.whole.with_groups_of(joined(self.added), max_groups=max_groups) if self.added else self.whole


def joined(pieces: Sequence[GroupSamples]) -> GroupSamples:
    """Several pieces as one, without merging groups."""
    return functools.reduce(lambda a, b: a.with_groups_of(b, max_groups=len(a.groups) + len(b.groups)), pieces)


def pieces_of(open_file: Callable[[int], PuffinReader | None], snapshot_id: int) -> SamplePieces | None:
    """Read the samples of a snapshot; None if they, or a part of them, are missing or damaged.

    Args:
        open_file: Opens the statistics file of a snapshot; None if it has none.
        snapshot_id: The snapshot.
    """
    try:
        found = _located(open_file, snapshot_id)
        if found is None:
            return None
        (schema_id, last_column_id, missing_files), links, files = found
        parts = []
        for link, file in zip(links, files, strict=True):
            data = read_region(file, SAMPLE_PROPERTIES if link == links[0] else ADDED_PROPERTIES)
            if data is None:
                return None
            parts.append(replace(decode_group_samples(data, location=file.location), rows=read_rows(file)))
        own = read_group_sketches(files[-1])
    except (FormatError, NotFoundError, UnsupportedError):
        return None
    return SamplePieces(links, parts[0], tuple(parts[1:]), missing_files, schema_id, last_column_id, own)


def rows_of(open_file: Callable[[int], PuffinReader | None], snapshot_id: int) -> tuple[RowSample, int] | None:
    """Read the sampled rows of a snapshot alone; None if they, or a part of them, are missing or damaged.

    Args:
        open_file: As of `pieces_of`.
        snapshot_id: The snapshot.

    Returns:
        The rows, and the number of files that are in no group.
    """
    try:
        found = _located(open_file, snapshot_id)
        parts = [read_rows(file) for file in found[2]] if found is not None else []
    except (FormatError, NotFoundError, UnsupportedError):
        return None
    known = [part for part in parts if part is not None]
    return (united(known), found[0][2]) if found is not None and len(known) == len(parts) else None


def _located(
    open_file: Callable[[int], PuffinReader | None], snapshot_id: int
) -> tuple[tuple[int, int, int], tuple[Link, ...], list[PuffinReader]] | None:
    """The numbers that describe samples, their parts, and the file of each; None if one is missing or another."""
    reader = open_file(snapshot_id)
    if reader is None:
        return None
    texts = [reader.properties.get(name, "") for name in SAMPLE_PROPERTIES[3:]]
    if not all(text.isdecimal() for text in texts):
        return None
    described, schema_id, last_column_id, missing_files = map(int, texts)
    links = _links(reader, snapshot_id)
    if described != snapshot_id or links is None:
        return None
    files = []
    for link in links:
        file = reader if link.snapshot_id == snapshot_id else open_file(link.snapshot_id)
        names = SAMPLE_PROPERTIES if link == links[0] else ADDED_PROPERTIES
        if file is None or not _is_it(file, link, names):
            return None
        files.append(file)
    return (schema_id, last_column_id, missing_files), links, files


def _is_it(file: PuffinReader, link: Link, names: Sequence[str]) -> bool:
    properties = file.properties
    return properties.get(SAMPLE_PROPERTIES[3]) == str(link.snapshot_id) and properties.get(names[2]) == link.checksum


def _links(reader: PuffinReader, snapshot_id: int) -> tuple[Link, ...] | None:
    """The parts of a file's samples, itself included; None if the footer does not say them."""
    chain = chain_of(reader)
    names = ADDED_PROPERTIES if chain else SAMPLE_PROPERTIES
    checksum = reader.properties.get(names[2])
    return None if chain is None or checksum is None else (*chain, Link(snapshot_id, checksum))


def chain_of(reader: PuffinReader) -> tuple[Link, ...] | None:
    """The earlier parts that a file continues, none if its sample is whole; None if the footer is damaged."""
    text = reader.properties.get(CHAIN_PROPERTY, "")
    found = []
    for part in filter(None, text.split(",")):
        snapshot_id, _, checksum = part.partition(":")
        if not snapshot_id.isdecimal():
            return None
        found.append(Link(int(snapshot_id), checksum))
    return tuple(found)


def chain_text(links: Iterable[Link]) -> str:
    """The property that names a chain."""
    return ",".join(f"{link.snapshot_id}:{link.checksum}" for link in links)


def read_group_sketches(reader: PuffinReader) -> GroupSketches:
    """The sketches of single groups; none if there are none, or they are damaged."""
    data = read_region(reader, SKETCH_PROPERTIES)
    return GroupSketches() if data is None else decode_group_sketches(data)
