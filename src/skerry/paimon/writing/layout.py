"""The layout of data files to be written to a table: everything that a writer needs, small and picklable."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.automatic_tags import AutomaticTags
from skerry.paimon.done_partitions import check_done_action
from skerry.paimon.file_index.builders import index_builders
from skerry.paimon.metadata.iceberg_storage import ICEBERG_STORAGE, IcebergStorage
from skerry.paimon.metadata.index_settings import IndexSettings, index_settings
from skerry.paimon.metadata.option_values import parse_size_bytes
from skerry.paimon.metadata.options import CoreOptions, MergeEngine
from skerry.paimon.metadata.partition_names import partition_texts
from skerry.paimon.metadata.paths import MAIN_BRANCH, POSTPONE_BUCKET, TablePaths
from skerry.paimon.metadata.schema import LINEAGE_FIELDS, DataField, TableSchema
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.validation import check_writable
from skerry.paimon.values.arrow_types import arrow_field
from skerry.paimon.values.types import VectorType
from skerry.paimon.writing.file_writers import FileEncoding
from skerry.storage import Storage, local_path
from skerry.table.owned_files import OwnedFiles, owned_files
from skerry.table.rows.schema import LARGE_OBJECT_KEY
from skerry.table.statistics.column_statistics import SketchPolicy

__all__ = ["WriteLayout"]

_MEBIBYTE: Final = 1 << 20
_MAX_FOLDER_BYTES: Final = 255
_OF_LEVELS: Final = ("file.format.per.level", "file.compression.per.level", "metadata.stats-mode.per.level")
_JOB_LETTERS: Final = 19
"""Prefix of a UUID: 16 hexadecimal digits with their hyphens."""


@dataclass(frozen=True)
class WriteLayout:
    """What a writer of data files needs.

    Args:
        name: The table's name, for messages.
        location: The table's folder.
        storage: Access to it.
        schema: The schema that files are written with.
        branch: The branch.
        job: Id of the job that files are written for: all names from `new_name` begin with it.
        columns: The columns of data files, if not those of the schema; row ids and sequence numbers may be among them.
        waits: Whether appended rows wait for their buckets (`bucket=-2`); see `waiting`.
    """

    name: str
    location: str
    storage: Storage = field(repr=False)
    schema: TableSchema
    branch: str = MAIN_BRANCH
    job: uuid.UUID = field(default_factory=uuid.uuid4)
    columns: tuple[str, ...] | None = None
    waits: bool = False

    @classmethod
    def of(cls, state: PaimonState) -> WriteLayout:
        """The layout of files for a state of a table; where buckets are postponed, that of the buckets.

        Raises:
            UnsupportedError: The table promises something that files written here would not have; the message names the
                option.
        """
        check_writable(state.schema)
        index_builders(index_settings(state.schema.options), state.schema.fields_by_name)  # or each task would refuse
        for level in state.options.levels:
            FileEncoding.from_options(state.options.of_level(level))
        check_done_action(state.schema.options)
        AutomaticTags.of(state.schema.options)  # or commits would fail to create them
        if IcebergStorage.of(state.schema.options, state.location) is not None:
            if state.follower is None:
                raise UnsupportedError(
                    f"table option {ICEBERG_STORAGE}: commits of a table that was opened without a catalog would not "
                    "reach its Iceberg metadata; load it from one",
                    location=state.name,
                )
            state.follower.check(state)
        schema, options = state.schema, state.options
        is_postponed = options.bucket == POSTPONE_BUCKET
        if is_postponed:
            schema = replace(schema, options={**schema.options, "bucket": str(max(options.postpone_buckets, 1))})
        waits = is_postponed and options.postpone_waits
        return cls(state.name, state.location, state.storage, schema, state.branch, waits=waits)

    @cached_property
    def options(self) -> CoreOptions:
        """The table's options, typed."""
        return CoreOptions(self.schema.options)

    @cached_property
    def paths(self) -> TablePaths:
        """The locations of the table's files."""
        return self.options.paths(self.location, self.branch)

    def options_of(self, level: int) -> CoreOptions:
        """The options for the files of a level."""
        return self.options.of_level(level) if self.has_keys and self.options.levels else self.options

    def encoding(self, level: int, *, is_changelog: bool = False) -> FileEncoding:
        """The format of data files, or changelog files, of a level."""
        return FileEncoding.from_options(self.options_of(level), changelog=is_changelog)

    @cached_property
    def indexes(self) -> tuple[IndexSettings, ...]:
        """The file indexes that data files get."""
        found = index_settings(self.schema.options)
        return tuple(one for one in found if self.columns is None or one.column in self.columns)

    def new_name(self) -> str:
        """A UUID for the names of files: the first half is that of the job, the other is random."""
        return str(uuid.UUID(bytes=self.job.bytes[:8] + os.urandom(8), version=4))

    def is_of_job(self, file_name: str) -> bool:
        """Whether a file's name was made for this job."""
        return str(self.job)[:_JOB_LETTERS] in file_name

    @contextmanager
    def owned_files(self, folders: Iterable[str] | None = None) -> Iterator[OwnedFiles]:
        """Own what tasks of this job write to some folders, even if they do not finish.

        Args:
            folders: The folders; the whole table's if None.
        """
        with owned_files(self.storage) as files:
            for folder in [self.location] if folders is None else folders:
                files.add_folder(folder, self.is_of_job)
            yield files

    @property
    def has_keys(self) -> bool:
        """Whether the table has a primary key."""
        return bool(self.schema.primary_keys)

    @property
    def moves_keys(self) -> bool:
        """Whether a key that is written to a partition leaves the partition in which it was."""
        return self.schema.is_cross_partition and self.options.bucket == -1

    @cached_property
    def file_schema(self) -> pa.Schema:
        """The columns of data files."""
        if self.columns is None:
            return self.schema.file_schema(thin=self.options.thin_mode)
        known = {**LINEAGE_FIELDS, **self.schema.fields_by_name}
        return pa.schema([arrow_field(known[name]) for name in self.columns])

    @property
    def with_lineage(self) -> WriteLayout:
        """The layout of files that keep the ids of rows, if the table has those.

        Spec: docs/formats/paimon.md § 8.8.
        """
        if not self.options.row_tracking:
            return self
        return replace(self, columns=(*self.schema.arrow_schema.names, *LINEAGE_FIELDS))

    @cached_property
    def waiting(self) -> WriteLayout:
        """The layout of files whose rows wait for their buckets: all of one writer, in order.

        Spec: docs/formats/paimon.md § 7.7.
        """
        options = {name: text for name, text in self.schema.options.items() if name not in _OF_LEVELS}
        writer = f"{self.options.data_file_prefix}-u-{self.job}-s-{self.job.int % (1 << 31)}-w-"
        options |= {"file.format": "avro", "metadata.stats-mode": "none", "data-file.prefix": writer}
        return replace(self, schema=replace(self.schema, options=options))

    @cached_property
    def blob_columns(self) -> tuple[str, ...]:
        """The columns that have BLOB files."""
        fields = self.schema.arrow_schema if self.columns is None else ()
        return tuple(field.name for field in fields if LARGE_OBJECT_KEY in field.metadata)

    @cached_property
    def vector_columns(self) -> tuple[str, ...]:
        """The columns that have VECTOR files."""
        if self.columns is not None or not self.schema.options.get("vector.file.format", "").strip():
            return ()
        return tuple(field.name for field in self.schema.fields if isinstance(field.type, VectorType))

    @cached_property
    def ordinary(self) -> WriteLayout:
        """The layout of the files of the other columns."""
        apart = {*self.blob_columns, *self.vector_columns}
        names = tuple(name for name in self.schema.arrow_schema.names if name not in apart)
        return replace(self, columns=names) if apart else self

    @cached_property
    def blob_target_file_size(self) -> int:
        """Target size of BLOB files in bytes."""
        text = self.schema.options.get("blob.target-file-size")
        return self.target_file_size if text is None else parse_size_bytes("blob.target-file-size", text)

    @cached_property
    def value_fields(self) -> tuple[DataField, ...]:
        """The columns of the table that data files have."""
        if self.columns is None:
            return self.schema.fields
        return tuple(field for field in self.schema.fields if field.name in self.columns)

    @cached_property
    def sketched(self) -> frozenset[int]:
        """Field ids of the columns that are sketched while files are written.

        If merging computes new values, those in files do not represent the table's, except for keys.
        """
        policy = SketchPolicy.from_properties(self.schema.options)
        columns = {leaf.field_id for leaf in policy.columns(self.schema.arrow_schema, created=True)}
        makes_values = self.options.merge_engine is MergeEngine.AGGREGATION or any(
            name.endswith("aggregate-function") for name in self.schema.options
        )
        if self.has_keys and makes_values:
            columns &= {field.id for field in self.schema.fields_of(self.schema.primary_keys)}
        return frozenset(columns)

    @property
    def target_file_size(self) -> int:
        """Target size of data files in bytes."""
        return self.options.target_file_size or (128 if self.has_keys else 256) * _MEBIBYTE

    def bucket_folder(self, partition: bytes, bucket: int) -> str:
        """The folder of a bucket of a partition, given as a row with arity."""
        texts = self._texts.get(partition)
        if texts is None:
            fields, legacy = self.schema.partition_fields, self.options.legacy_partition_names
            (texts,) = partition_texts(fields, [partition], legacy=legacy)
            self._texts[partition] = texts
        return self.paths.bucket(list(zip(self.schema.partition_keys, texts, strict=True)), bucket)

    def new_bucket_folder(self, partition: bytes, bucket: int) -> str:
        """The folder of a bucket that files are to be written to.

        Raises:
            SchemaError: A value is too long for a folder name.
        """
        folder = self.bucket_folder(partition, bucket)
        if local_path(self.location) is not None:
            for segment in folder.removeprefix(self.location).split("/"):
                if (size := len(segment.encode())) > _MAX_FOLDER_BYTES:
                    raise SchemaError(
                        f"a value of partition key {segment.partition('=')[0]!r} is too long for a folder name, "
                        f"as which Paimon stores it: {size} bytes, expected at most {_MAX_FOLDER_BYTES}: "
                        f"{segment[:60]!r}…",
                        location=self.name,
                    )
        return folder

    def index_file(self, partition: bytes, bucket: int, name: str) -> str:
        """The location of an index file of a bucket."""
        return self.paths.index_file(name, self.bucket_folder(partition, bucket))

    @cached_property
    def _texts(self) -> dict[bytes, tuple[str | None, ...]]:
        return {}
