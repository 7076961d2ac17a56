"""Data files of one bucket: written one after the other, with all their metadata for manifests.

Spec: docs/formats/paimon.md § 5.4, § 8.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from skerry.paimon.manifests.manifest import DataFileMeta, FileKind, FileSource, ManifestEntry
from skerry.paimon.metadata.schema import SEQUENCE_NUMBER, VALUE_KIND
from skerry.paimon.values.binary_row import encode_rows
from skerry.paimon.values.simple_stats import EMPTY_ROW, EMPTY_STATS, SimpleStats
from skerry.paimon.writing.dedicated_files import BlobFiles, VectorFiles
from skerry.paimon.writing.file_indexes import INDEX_SUFFIX, FileIndexWriter
from skerry.paimon.writing.file_stats import ColumnStats, encode_stats, stats_mode
from skerry.paimon.writing.file_writers import FileEncoding, open_output
from skerry.paimon.writing.layout import WriteLayout
from skerry.storage import join
from skerry.table.files.file_output import FileOutput
from skerry.table.owned_files import give_up
from skerry.table.rows.schema import leaves
from skerry.table.statistics.row_sample import RowSample
from skerry.table.statistics.sketching import BatchSketcher
from skerry.theta import Sample

__all__ = ["BucketFiles", "BucketLocation", "WrittenDataFile", "is_retract", "local_millis"]

_ROW_GROUP_BYTES = 64 << 20
_LEAST_GROUP_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class BucketLocation:
    """A bucket of a partition.

    Args:
        partition: Values of the partition keys as a row with arity.
        number: Its number.
        total_buckets: Number of buckets of the partition; -1 for none, or dynamic ones.
        folder: Its folder.
    """

    partition: bytes
    number: int
    total_buckets: int
    folder: str

    @property
    def key(self) -> tuple[bytes, int]:
        """Distinguishes it from other buckets."""
        return self.partition, self.number


@dataclass(frozen=True, slots=True)
class WrittenDataFile:
    """A newly written file; small when pickled.

    Args:
        bucket: The bucket.
        file: Its metadata for manifests.
        locations: Its location, and those of the files that belong to it.
        samples: Bottom-k sketches of the rows that are not deletes, by field id.
        is_changelog: Whether it holds changes instead of rows of the table.
        rows: Some of the rows that are not deletes; None if none were sampled.
    """

    bucket: BucketLocation
    file: DataFileMeta
    locations: tuple[str, ...]
    samples: Mapping[int, Sample] = field(default_factory=dict)
    is_changelog: bool = False
    rows: RowSample | None = None

    @property
    def location(self) -> str:
        """Its location."""
        return self.locations[0]

    def entry(self, kind: FileKind = FileKind.ADD) -> ManifestEntry:
        """The manifest entry that adds it."""
        return ManifestEntry(kind, self.bucket.partition, self.bucket.number, self.bucket.total_buckets, self.file)


def is_retract(kinds: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which rows are retractions: kinds -U (1) and -D (3).

    Spec: docs/formats/paimon.md § 8.5.
    """
    return pc.or_(pc.equal(kinds, 1), pc.equal(kinds, 3))


class BucketFiles:
    """Writes rows of one bucket to files of the table's target size.

    Args:
        layout: Layout of the table's files.
        bucket: The bucket.
        level: Level of the files.
        source: Which operation writes them.
        is_changelog: Whether they are changelog files.
        first_sequence_number: That of the first row, in append tables.
        sketches: Whether rows are sketched while they are written.
    """

    def __init__(
        self,
        layout: WriteLayout,
        bucket: BucketLocation,
        *,
        level: int = 0,
        source: FileSource = FileSource.APPEND,
        is_changelog: bool = False,
        first_sequence_number: int = 0,
        sketches: bool = True,
    ) -> None:
        self._layout = layout
        self._bucket = bucket
        self._level = level
        self._source = source
        self._is_changelog = is_changelog
        self._next_sequence_number = first_sequence_number
        self._sketches = sketches and not is_changelog
        self._uuid = layout.new_name()
        self._step_bytes = min(
            _ROW_GROUP_BYTES, layout.target_file_size, max(layout.options.write_buffer_bytes // 4, _LEAST_GROUP_BYTES)
        )
        self._open: _OpenFile | None = None
        self._apart: list[BlobFiles | VectorFiles] = []
        self._written: list[WrittenDataFile] = []
        self._buffer: list[pa.Table] = []
        self.buffered_bytes = 0

    @property
    def bucket(self) -> BucketLocation:
        """The bucket."""
        return self._bucket

    @property
    def is_open(self) -> bool:
        """Whether a file is open."""
        return self._open is not None

    @property
    def is_full(self) -> bool:
        """Whether enough rows are buffered to be written."""
        return self.buffered_bytes >= self._step_bytes

    def write(self, rows: pa.Table, *, holds: bool = False) -> None:
        """Add rows with the columns of the table's data files, keys included; sorted ones if the table has keys.

        Args:
            rows: The rows.
            holds: Whether they stay buffered, however many there are.
        """
        self._buffer.append(rows)
        self.buffered_bytes += rows.nbytes
        if self.is_full and not holds:
            self.flush()

    def take(self) -> list[pa.Table]:
        """Remove and return the buffered rows."""
        rows, self._buffer, self.buffered_bytes = self._buffer, [], 0
        return rows

    def flush(self) -> None:
        """Write the buffered rows, about a row group at a time."""
        if not self._buffer:
            return
        rows = pa.concat_tables(self._buffer)
        self._buffer.clear()
        self.buffered_bytes = 0
        parts = max(-(-rows.nbytes // (2 * self._step_bytes)), 1)
        step = max(-(-rows.num_rows // parts), 1)
        for start in range(0, rows.num_rows, step):
            part = rows.slice(start, step)
            if self._open is None:
                self._open = self._begin(part)
            self._open.write(part)
            for files in self._apart:
                files.write(part)
            if self._open.size_bytes >= self._layout.target_file_size:
                self._end()

    def close(self) -> list[WrittenDataFile]:
        """Finish the last file, and return all files."""
        self.flush()
        if self._open is not None:
            self._end()
        return self._written

    def abort(self) -> None:
        """Remove everything that was written."""
        self._buffer.clear()
        if self._open is not None:
            self._open.abort()
            self._open = None
        for files in self._apart:
            files.abort()
        give_up(self._layout.storage, (location for file in self._written for location in file.locations))
        self._written.clear()

    def _begin(self, first: pa.Table) -> _OpenFile:
        options = self._layout.options_of(self._level)
        encoding = self._encoding
        prefix = options.changelog_file_prefix if self._is_changelog else options.data_file_prefix
        suffix = encoding.suffix(with_compression=options.suffix_includes_compression)
        name = f"{prefix}{self._uuid}-{len(self._written)}{suffix}"
        location = join(self._bucket.folder, name)
        layout, folder = self._layout.ordinary, self._bucket.folder
        writer = open_output(encoding, layout.storage, location, layout.file_schema, first)
        self._apart = [BlobFiles(layout, folder, column) for column in self._layout.blob_columns]
        if self._layout.vector_columns:
            self._apart.append(VectorFiles(layout, folder, self._layout.vector_columns))
        file_format, is_changelog = encoding.file_format, self._is_changelog
        stats = [
            ColumnStats(field, stats_mode(options, field.name, is_changelog=is_changelog), file_format)
            for field in layout.value_fields
        ]
        return _OpenFile(layout, name, location, writer, stats, sketches=self._sketches)

    @property
    def _encoding(self) -> FileEncoding:
        return self._layout.encoding(self._level, is_changelog=self._is_changelog)

    def _end(self) -> None:
        assert self._open is not None
        opened, self._open = self._open, None
        try:
            written = opened.close(
                self._bucket,
                level=self._level,
                source=self._source,
                is_changelog=self._is_changelog,
                first_sequence_number=self._next_sequence_number,
            )
        except BaseException:
            opened.abort()
            raise
        self._next_sequence_number = written.file.max_sequence_number + 1
        self._written.append(written)
        while self._apart:
            for file in self._apart[0].close():
                location = join(self._bucket.folder, file.file_name)
                self._written.append(WrittenDataFile(self._bucket, file, (location,)))
            self._apart.pop(0)


class _OpenFile:
    """A file that is being written, and what is known about its rows."""

    def __init__(
        self,
        layout: WriteLayout,
        name: str,
        location: str,
        writer: FileOutput,
        stats: list[ColumnStats],
        *,
        sketches: bool,
    ) -> None:
        self._layout = layout
        self._name = name
        self._location = location
        self._writer = writer
        schema = layout.schema
        self._values = stats
        self._has_keys = layout.has_keys
        self._row_count = 0
        self._retracts = 0
        self._sequence: list[int] = []
        self._first_key: pa.Table | None = None
        self._last_key: pa.Table | None = None
        names = [field.name for field in layout.value_fields]
        self._schema = pa.schema([schema.arrow_schema.field(name) for name in names])
        sketched = layout.sketched & {leaf.field_id for leaf in leaves(self._schema)}
        self._sketcher = BatchSketcher(
            self._schema, sketched if sketches else frozenset(), samples_rows=True, is_whole=False
        )
        self._index = FileIndexWriter(layout)

    @property
    def size_bytes(self) -> int:
        return self._writer.size_bytes

    def write(self, rows: pa.Table) -> None:
        values = rows.select(self._schema.names)
        if self._has_keys:
            kinds = rows.column(VALUE_KIND)
            retracts = is_retract(kinds)
            count = pc.sum(retracts).as_py() or 0
            self._retracts += count
            bounds = pc.min_max(rows.column(SEQUENCE_NUMBER))
            self._sequence += [bounds["min"].as_py(), bounds["max"].as_py()]
            keys = values.select(list(self._layout.schema.trimmed_primary_keys))
            self._first_key = keys.slice(0, 1) if self._first_key is None else self._first_key
            self._last_key = keys.slice(rows.num_rows - 1, 1)
            alive = values.filter(pc.invert(retracts)) if count else values
        else:
            alive = values
            if SEQUENCE_NUMBER in (self._layout.columns or ()):
                bounds = pc.min_max(rows.column(SEQUENCE_NUMBER))
                self._sequence += [bound for bound in bounds.as_py().values() if bound is not None]
        for stats in self._values:
            stats.update(values.column(stats.field.name))
        self._sketcher.update_once(alive.to_batches())
        self._index.update(values)
        self._row_count += rows.num_rows
        self._writer.write(rows.select(self._layout.file_schema.names))

    def close(
        self, bucket: BucketLocation, *, level: int, source: FileSource, is_changelog: bool, first_sequence_number: int
    ) -> WrittenDataFile:
        size = self._writer.close()
        dense = self._layout.options.stats_dense_store
        value_stats, value_stats_cols = encode_stats(self._values, dense=dense)
        if self._layout.columns is not None and value_stats_cols is None:
            value_stats_cols = tuple(stats.field.name for stats in self._values)
        extra_files, embedded = self._index.finish(self._location + INDEX_SUFFIX)
        meta = DataFileMeta(
            file_name=self._name,
            file_size=size,
            row_count=self._row_count,
            min_key=self._key(self._first_key),
            max_key=self._key(self._last_key),
            key_stats=self._key_stats(),
            value_stats=value_stats,
            min_sequence_number=min(self._sequence, default=first_sequence_number),
            max_sequence_number=max(self._sequence, default=first_sequence_number + self._row_count - 1),
            schema_id=self._layout.schema.id,
            level=level,
            extra_files=extra_files,
            creation_time=local_millis(),
            delete_row_count=self._retracts,
            embedded_index=embedded,
            file_source=source,
            value_stats_cols=value_stats_cols,
            write_cols=self._layout.columns,
        )
        beside = tuple(join(bucket.folder, name) for name in extra_files)
        return WrittenDataFile(
            bucket,
            meta,
            (self._location, *beside),
            self._sketcher.samples,
            is_changelog,
            self._sketcher.row_sample(),
        )

    def abort(self) -> None:
        self._writer.abort()

    def _key(self, row: pa.Table | None) -> bytes:
        if row is None:
            return EMPTY_ROW
        columns = [column.combine_chunks() for column in row.columns]
        return encode_rows([field.type for field in self._layout.schema.key_fields], columns).to_list()[0]

    def _key_stats(self) -> SimpleStats:
        if not self._has_keys:
            return EMPTY_STATS
        by_name = {stats.field.name: stats for stats in self._values}
        return encode_stats([by_name[name] for name in self._layout.schema.trimmed_primary_keys], dense=False)[0]


def local_millis() -> int:
    """The current local time as milliseconds since 1970, treated as if it were UTC, as Java does.

    Spec: docs/formats/paimon.md § 5.4 (`_CREATION_TIME`).
    """
    now = time.time()
    offset = datetime.fromtimestamp(now).astimezone().utcoffset()
    return int((now + (offset.total_seconds() if offset is not None else 0)) * 1000)
