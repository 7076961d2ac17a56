"""Manifests: which data files a commit added and deleted.

Spec: Paimon, Manifest; `formats/paimon.md` § 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from skerry.paimon.simple_stats import EMPTY_ROW, EMPTY_STATS, SimpleStats

__all__ = ["DataFileMeta", "FileIdentity", "FileKind", "FileSource", "ManifestEntry"]


class FileKind(IntEnum):
    """What an entry does with its file."""

    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    """What wrote a file."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class DataFileMeta:
    """A data or changelog file, in the order and with the names of manifests.

    Args:
        file_name: Its name, without folders.
        file_size: Bytes, exact.
        row_count: Rows in the file, those of kind -U and -D included.
        min_key: Trimmed primary key of the first row, with arity; of no fields in append tables.
        max_key: That of the last row.
        key_stats: Statistics of the trimmed primary key's columns.
        value_stats: Statistics of `value_stats_cols`.
        min_sequence_number: Least sequence number of its rows.
        max_sequence_number: Greatest one.
        schema_id: The schema that it was written with.
        level: Its level in the LSM tree; 0 in append tables.
        extra_files: Names of files beside it that belong to it, such as its file index.
        creation_time: Milliseconds of the writer's local clock since 1970.
        delete_row_count: Rows of kind -U and -D; None if unknown.
        embedded_index: Its file index, if that is small.
        file_source: What wrote it; None if unknown.
        value_stats_cols: Columns of `value_stats`; None for all, in the order of its schema.
        external_path: Where it lies, if not in the table.
        first_row_id: Row id of its first row, in tables that track rows.
        write_cols: The columns that it has, if not all.
        write_cols_sequences: Sequence numbers of those.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = EMPTY_STATS
    value_stats: SimpleStats = EMPTY_STATS
    min_sequence_number: int = 0
    max_sequence_number: int = 0
    schema_id: int = 0
    level: int = 0
    extra_files: tuple[str, ...] = ()
    creation_time: int | None = None
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: FileSource | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    write_cols_sequences: tuple[int, ...] | None = None


FileIdentity: TypeAlias = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]
"""What makes two entries be of one file: partition, bucket, level, name, extra files, embedded index, external path."""


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file that a commit added or deleted.

    Args:
        kind: Which of both.
        partition: Values of the partition keys as a row with arity (`skerry.paimon.binary_row`).
        bucket: Its bucket; -2 for files that wait to be put into buckets.
        total_buckets: The option `bucket` when it was written.
        file: The file.
    """

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def identity(self) -> FileIdentity:
        """What an ADD and a DELETE of the same file have in common."""
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_index,
            file.external_path,
        )
