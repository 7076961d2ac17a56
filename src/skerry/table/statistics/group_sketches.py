"""Sketches of single groups of files, which describe small groups more precisely than the shared sample.

The shared sample has one threshold for all groups, so that few of its hashes belong to a small group. If a table
property grants bytes for it, each group also keeps its own smallest hashes, as many as fit. A sketch belongs to a
group with exactly these files and deletes; when the group changes it loses the sketch, unless its files' sketches are
available.

The bytes, little-endian: 3 numbers of 32 bits, version (1), groups g and columns c; then uint64[g] keys of groups,
uint32[g] columns of each, and for the columns of all groups in turn int32[c] field ids, uint32[c] numbers of hashes,
uint64[c] thresholds; then all hashes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import xxhash

from skerry.errors import FormatError, SchemaError
from skerry.table.statistics.file_groups import FileGroup, SketchedFile, key_of
from skerry.table.statistics.group_samples import PUBLISHED_HASHES
from skerry.theta.layout import CompactSketch
from skerry.theta.setops import smallest, union

__all__ = ["GroupSketches", "decode_group_sketches", "encode_group_sketches", "group_key", "group_sketch_bytes"]

BYTES_PROPERTY = "skerry.statistics.partition-sketch-bytes"
"""Table property: the maximum size in bytes of sketches of single groups; 0 for none."""

VERSION = 1
_RULE = "docs/formats/samples.md § 3"
_HEADER = struct.Struct("<3I")
_GROUP_BYTES = 8 + 4
_COLUMN_BYTES = 4 + 4 + 8
_LEAST_HASHES = 16
"""A sketch with fewer hashes would be of little use."""

_Sketches: TypeAlias = Mapping[int, CompactSketch]


def group_sketch_bytes(properties: Mapping[str, str]) -> int:
    """The maximum size in bytes of the sketches of a table's groups.

    Raises:
        SchemaError: The property is not a whole number.
    """
    text = properties.get(BYTES_PROPERTY, "0").strip()
    if not text.isdecimal():
        raise SchemaError(f"table property {BYTES_PROPERTY} must be a whole number, found {text!r}")
    return int(text)


def group_key(files: Mapping[int, int]) -> int:
    """The 64-bit key of files with their deletes (xxh3)."""
    return xxhash.xxh3_64_intdigest(np.array(sorted(files.items()), "<u8").tobytes())


@dataclass(frozen=True, slots=True, eq=False)
class GroupSketches:
    """The sketches of groups.

    Args:
        sketches: By the group's key, its columns' sketches by field id.
    """

    sketches: Mapping[int, _Sketches] = field(default_factory=dict)

    def union(self, groups: Iterable[FileGroup], field_id: int) -> CompactSketch | None:
        """The distinct values of several groups; None if one of them has no sketch of its own."""
        found = [self.sketches.get(group_key(group.files), {}).get(field_id) for group in groups]
        known = [sketch for sketch in found if sketch is not None]
        return union(known) if len(known) == len(found) else None

    def with_columns(self, field_ids: Iterable[int]) -> GroupSketches:
        """Keep only the sketches of some columns."""
        kept = set(field_ids)
        return GroupSketches(
            {key: {id_: found[id_] for id_ in found.keys() & kept} for key, found in self.sketches.items()}
        )

    def of(
        self, groups: Sequence[FileGroup], before: Sequence[FileGroup], files: Iterable[SketchedFile], size_bytes: int
    ) -> GroupSketches:
        """Update the sketches of groups after a change.

        Args:
            groups: The groups.
            before: The groups that have sketches.
            files: Files that were sampled since.
            size_bytes: Maximum size of all sketches.
        """
        if not size_bytes:
            return GroupSketches()
        parts: list[tuple[Mapping[int, int], _Sketches]] = [
            (group.files, found) for group in before if (found := self.sketches.get(group_key(group.files)))
        ]
        for file in files:
            parts.append(({key_of(file.location): file.deletes}, {k: s.compact for k, s in file.samples.items()}))
        by_file: dict[int, list[int]] = {}
        for number, (covered, _) in enumerate(parts):
            for key in covered:
                by_file.setdefault(key, []).append(number)
        made = {}
        for group in groups:
            numbers = {number for key in group.files for number in by_file.get(key, ())}
            within = [parts[number] for number in sorted(numbers) if parts[number][0].items() <= group.files.items()]
            if group.exact and within and {key for covered, _ in within for key in covered} == group.files.keys():
                ids = set.intersection(*(set(found) for _, found in within))
                made[group_key(group.files)] = {id_: union(found[id_] for _, found in within) for id_ in ids}
        return _within(made, size_bytes)


def _within(sketches: Mapping[int, _Sketches], size_bytes: int) -> GroupSketches:
    """Truncate all sketches to the same number of hashes, so that they fit into the bytes."""
    lengths = np.array([len(sketch.hashes) for found in sketches.values() for sketch in found.values()], np.int64)
    room = size_bytes - _HEADER.size - _GROUP_BYTES * len(sketches) - _COLUMN_BYTES * len(lengths)
    low, high = 0, PUBLISHED_HASHES
    while low < high:
        middle = (low + high + 1) // 2
        if 8 * int(np.minimum(lengths, middle).sum()) <= room:
            low = middle
        else:
            high = middle - 1
    if low < _LEAST_HASHES:
        return GroupSketches()
    return GroupSketches(
        {key: {id_: smallest(sketch, low) for id_, sketch in found.items()} for key, found in sketches.items()}
    )


def encode_group_sketches(sketches: GroupSketches) -> bytes:
    """Encode sketches."""
    groups = sorted(sketches.sketches.items())
    columns = [(id_, sketch) for _, found in groups for id_, sketch in sorted(found.items())]
    return b"".join(
        (
            _HEADER.pack(VERSION, len(groups), len(columns)),
            np.array([key for key, _ in groups], "<u8").tobytes(),
            np.array([len(found) for _, found in groups], "<u4").tobytes(),
            np.array([id_ for id_, _ in columns], "<i4").tobytes(),
            np.array([len(sketch.hashes) for _, sketch in columns], "<u4").tobytes(),
            np.array([sketch.theta for _, sketch in columns], "<u8").tobytes(),
            *(sketch.hashes.astype("<u8").tobytes() for _, sketch in columns),
        )
    )


def decode_group_sketches(data: bytes | memoryview, *, location: str = "") -> GroupSketches:
    """Decode sketches; the caller has verified the checksum of these bytes.

    Raises:
        FormatError: The bytes are not valid sketches.
    """
    if len(data) < _HEADER.size:
        raise FormatError(f"group sketches of {len(data)} bytes have no header", location=location, rule=_RULE)
    version, group_count, column_count = _HEADER.unpack_from(data)
    start = _HEADER.size + _GROUP_BYTES * group_count + _COLUMN_BYTES * column_count
    if version != VERSION or start > len(data):
        raise FormatError(
            f"group sketches of version {version} with {group_count} groups and {column_count} columns do not fit "
            f"into {len(data)} bytes of version {VERSION}",
            location=location,
            rule=_RULE,
        )
    place = _HEADER.size
    arrays = []
    for dtype, count in (
        ("<u8", group_count),
        ("<u4", group_count),
        ("<i4", column_count),
        ("<u4", column_count),
        ("<u8", column_count),
    ):
        arrays.append(np.frombuffer(data, dtype, count, place))
        place += arrays[-1].nbytes
    keys, per_group, ids, lengths, thetas = arrays
    if int(per_group.sum()) != column_count or start + 8 * int(lengths.sum()) != len(data):
        raise FormatError("the lengths of group sketches contradict their header", location=location, rule=_RULE)
    hashes = np.frombuffer(data, "<u8", offset=start).astype(np.uint64)
    parts = np.split(hashes, np.cumsum(lengths.astype(np.int64))[:-1]) if column_count else []
    columns = iter(
        (int(id_), CompactSketch(int(theta), part, False)) for id_, theta, part in zip(ids, thetas, parts, strict=True)
    )
    return GroupSketches(
        {int(key): dict(next(columns) for _ in range(int(count))) for key, count in zip(keys, per_group, strict=True)}
    )
