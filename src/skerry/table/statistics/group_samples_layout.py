"""The byte layout of a table's group samples.

Little-endian, in this order:

- 6 numbers of 32 bits: version (1), groups g, files f, partitions p, columns c, bytes of the groups;
- the groups, as one Zstandard frame: int64[g] rows, uint32[g] files, uint32[g] partitions, uint8[g] whether exact,
  uint64[f] keys of files, uint64[f] keys of their deletes, uint64[p] keys of partitions, the last three group by group;
- per column 4 numbers of 32 bits: field id, hashes n, bytes of its sample, bytes of its bitmaps;
- per column its sample, a compact theta sketch of serial version 4 (which holds the threshold), and its bitmaps,
  uint8[g, ceil(n / 8)] as a Zstandard frame.

The caller has verified the checksum of these bytes.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from skerry.compression import compress_zstd, decompress_zstd
from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.table.statistics.column_sample import SAMPLE_HASHES, ColumnSample
from skerry.table.statistics.file_groups import FileGroup
from skerry.table.statistics.group_samples import GroupSamples
from skerry.theta.layout import CompactSketch, decode_sketch, encode_compressed_sketch

__all__ = ["decode_group_samples", "encode_group_samples", "inflate", "part"]

VERSION = 1
_RULE = "docs/formats/samples.md § 2"
_HEADER = struct.Struct("<6I")  # version, groups, files, partitions, columns, bytes of the groups
_COLUMN = struct.Struct("<i3I")
_GROUP_BYTES = 8 + 4 + 4 + 1


def encode_group_samples(samples: GroupSamples) -> bytes:
    """Encode group samples."""
    groups = samples.groups
    files = [item for group in groups for item in group.files.items()]
    partitions = [key for group in groups for key in sorted(group.partitions)]
    table = compress_zstd(
        b"".join(
            (
                np.array([group.row_count for group in groups], "<i8").tobytes(),
                np.array([len(group.files) for group in groups], "<u4").tobytes(),
                np.array([len(group.partitions) for group in groups], "<u4").tobytes(),
                np.array([group.exact for group in groups], "u1").tobytes(),
                np.array([key for key, _ in files], "<u8").tobytes(),
                np.array([deletes for _, deletes in files], "<u8").tobytes(),
                np.array(partitions, "<u8").tobytes(),
            )
        )
    )
    directory, blocks = [], []
    for field_id, column in sorted(samples.columns.items()):
        sketch = encode_compressed_sketch(CompactSketch(column.theta, column.hashes, False))
        members = compress_zstd(column.members.tobytes())
        directory.append(_COLUMN.pack(field_id, len(column.hashes), len(sketch), len(members)))
        blocks += [sketch, members]
    header = _HEADER.pack(VERSION, len(groups), len(files), len(partitions), len(directory), len(table))
    return b"".join((header, table, *directory, *blocks))


def decode_group_samples(data: bytes | memoryview, *, location: str = "") -> GroupSamples:
    """Decode group samples.

    Args:
        data: The result of `encode_group_samples`.
        location: The file, for messages.

    Raises:
        FormatError: The bytes are not valid group samples.
        UnsupportedError: A newer version wrote them.
    """
    try:
        return _decode(memoryview(data))
    except FormatError as error:
        raise FormatError(error.message, location=location, rule=_RULE) from error


def _decode(data: memoryview) -> GroupSamples:
    version, group_count, file_count, partition_count, column_count, table_bytes = _HEADER.unpack(
        part(data, 0, _HEADER.size)
    )
    if version != VERSION:
        raise UnsupportedError(f"group samples of version {version}; this version reads {VERSION}")
    at = _HEADER.size
    size = _GROUP_BYTES * group_count + 16 * file_count + 8 * partition_count
    table = inflate(part(data, at, table_bytes), size, len(data))
    groups = _groups(table, group_count, file_count, partition_count)
    at += table_bytes
    entries = [_COLUMN.unpack(part(data, at + number * _COLUMN.size, _COLUMN.size)) for number in range(column_count)]
    at += column_count * _COLUMN.size
    columns = {}
    for field_id, hash_count, sketch_bytes, members_bytes in entries:
        if hash_count > SAMPLE_HASHES:
            raise FormatError(f"a column has {hash_count} hashes, at most {SAMPLE_HASHES} are kept")
        sketch = decode_sketch(bytes(part(data, at, sketch_bytes)))
        if len(sketch.hashes) != hash_count:
            raise FormatError(f"a column of {hash_count} hashes has a sample of {len(sketch.hashes)}")
        width = (hash_count + 7) // 8
        members = inflate(part(data, at + sketch_bytes, members_bytes), group_count * width, len(data))
        at += sketch_bytes + members_bytes
        bits = np.frombuffer(members, np.uint8).reshape(group_count, width)
        columns[field_id] = ColumnSample(sketch.theta, sketch.hashes, bits)
    return GroupSamples(groups, columns)


def _groups(table: bytes, groups: int, files: int, partitions: int) -> tuple[FileGroup, ...]:
    at = 0

    def array(dtype: str, count: int) -> Any:
        nonlocal at
        found = np.frombuffer(table, dtype, count, at)
        at += found.nbytes
        return found

    rows, file_counts, partition_counts = array("<i8", groups), array("<u4", groups), array("<u4", groups)
    exact = array("u1", groups)
    locations, deletes, keys = array("<u8", files), array("<u8", files), array("<u8", partitions)
    for what, counts, total in (("files", file_counts, files), ("partitions", partition_counts, partitions)):
        if int(counts.sum(dtype=np.uint64)) != total:
            raise FormatError(f"the groups have {counts.sum(dtype=np.uint64)} {what}, the header says {total}")
    found = []
    first_file = first_partition = 0
    for row in range(groups):
        of_files = slice(first_file, first_file := first_file + int(file_counts[row]))
        of_partitions = slice(first_partition, first_partition := first_partition + int(partition_counts[row]))
        found.append(
            FileGroup(
                dict(zip(locations[of_files].tolist(), deletes[of_files].tolist(), strict=True)),
                frozenset(keys[of_partitions].tolist()),
                int(rows[row]),
                bool(exact[row]),
            )
        )
    return tuple(found)


def part(data: memoryview, start: int, length: int) -> memoryview:
    """Bytes that must be there."""
    if start + length > len(data):
        raise FormatError(f"{length} bytes from {start} reach beyond the end at {len(data)}")
    return data[start : start + length]


def inflate(data: memoryview, size: int, whole_bytes: int) -> bytes:
    """Decompress a frame. Zstandard never expands bytes more than this: a larger size is corrupt."""
    if size > 100_000 * max(whole_bytes, 1):
        raise FormatError(f"{size} bytes are declared within {whole_bytes}")
    try:
        found = bytes(decompress_zstd(bytes(data), max_bytes=size))
    except SkerryError as error:
        raise FormatError(f"a Zstandard frame is corrupt: {error.message}") from error
    if len(found) != size:
        raise FormatError(f"a Zstandard frame holds {len(found)} bytes, {size} are declared")
    return found
