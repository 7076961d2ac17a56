"""Writing shards: record batches in, one file out, or a root file and one file per stripe.

Batches are held until they fill a stripe, which is then encoded and written, so memory is bounded by a stripe. The root
file appears last and complete, or not at all.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skerry.amudai.encodings.codes import Profile
from skerry.amudai.indexes.descriptors import Artifact
from skerry.amudai.indexes.options import Index
from skerry.amudai.messages import FieldDescriptor, NameValuePair, ShardProperties, StripeProperties
from skerry.amudai.shard.artifact_writer import ArtifactWriter
from skerry.amudai.shard.references import encode_url
from skerry.amudai.shard.schema import Schema
from skerry.amudai.shard.shard_files import MAGIC_BYTES
from skerry.amudai.values.any_value import Property, encode_properties
from skerry.amudai.values.datetimes import EPOCH_TICKS
from skerry.amudai.values.types import ARROW_SCHEMA_PROPERTY, schema_from_arrow
from skerry.amudai.writing.directory import StripeParts, finish_root, merge_fields
from skerry.amudai.writing.field_encoding import FieldOptions
from skerry.amudai.writing.index_files import IndexFiles, WriteArtifact
from skerry.amudai.writing.stripes import write_stripe
from skerry.arguments import check_instance, check_whole_number
from skerry.errors import SchemaError
from skerry.storage import Storage, absolute, join, parent, storage_of

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["ShardWriter", "WrittenShard", "index_shards", "write_table"]

STRIPE_ROWS: Final = 1 << 20
STRIPE_BYTES: Final = 128 << 20
_MAX_STRIPE_BYTES: Final = 1 << 30
_STRIPE_SUFFIX: Final = ".amudai.stripe"
_INDEX_SUFFIX: Final = ".amudai.shard"


@dataclass(frozen=True, slots=True)
class WrittenShard:
    """A shard that was written.

    Args:
        location: The root file.
        size_bytes: Its size.
        record_count: Number of records, including deleted ones.
        stripe_offsets: Where each stripe's buffers begin in the root file; empty if they are in files of their own.
        stripe_files: The files of the stripes, if they have some.
        schema: The shard's schema.
        fields: The descriptors of each node's values in the whole shard, by schema id.
        metadata_offset: Where the metadata begin in the root file.
        index_files: The files of the shard's indexes.
    """

    location: str
    size_bytes: int
    record_count: int
    stripe_offsets: tuple[int, ...]
    stripe_files: tuple[str, ...]
    schema: Schema
    fields: tuple[FieldDescriptor | None, ...]
    metadata_offset: int
    index_files: tuple[str, ...] = ()


class ShardWriter:
    """Writes a shard batch by batch, in the shape of `pyarrow.parquet.ParquetWriter`.

    Leaving a `with` block closes the shard; leaving it by an exception leaves no file.

    Example:
        with amudai.ShardWriter("flights.amudai.shard", reader.schema, profile="small") as writer:
            for batch in reader:
                writer.write_batch(batch)

    Args:
        path: Path or URL of the root file; by convention its name ends with `.amudai.shard`.
        schema: The columns. Field metadata can add aliases and more: see `skerry.amudai.values.types`.
        profile: What encodings are chosen for, speed or size: `plain`, `fast`, `balanced`, `high` or `small`.
        field_options: How single columns are encoded, by name; the profile decides for the others.
        stripe_rows: At most this many rows in a stripe.
        stripe_bytes: About how many bytes of Arrow data a stripe has at most, up to 1 GiB.
        two_level: Whether stripes get files of their own, beside the root.
        properties: Custom properties of the shard by name; `Property` lists the types of values.
        standard_properties: Standard properties of the shard by name.
        field_properties: Custom properties of columns, by column and name.
        created_ticks: Time of creation, in ticks of 100 ns since 0001-01-01; now by default.
        with_arrow_schema: Whether the Arrow schema is stored, so that a reader gets exactly its types.
        indexes: What is indexed. The files of the indexes are beside the root.
        threads: How many columns are encoded at once; all processors by default.
        overwrite: Whether an existing file is replaced.
        storage: Where to write; by default one made of `options`.
        options: Storage options such as credentials.

    Raises:
        UnsupportedError: A column is of a type that shards cannot hold, or cannot be indexed. Nothing was written then.
        NotFoundError: An indexed column does not exist.
        SchemaError: Names are not unique, or an option is out of range.
        AlreadyExistsError: The file exists, and `overwrite` is false.
    """

    def __init__(  # noqa: PLR0913  options, by name
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema,
        *,
        profile: str | Profile = Profile.BALANCED,
        field_options: Mapping[str, FieldOptions] | None = None,
        stripe_rows: int = STRIPE_ROWS,
        stripe_bytes: int = STRIPE_BYTES,
        two_level: bool = False,
        properties: Mapping[str, Any] | None = None,
        standard_properties: Mapping[str, Any] | None = None,
        field_properties: Mapping[str, Mapping[str, Any]] | None = None,
        created_ticks: int | None = None,
        with_arrow_schema: bool = True,
        indexes: Sequence[Index] = (),
        threads: int | None = None,
        overwrite: bool = False,
        storage: Storage | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.location = absolute(path)
        self.schema = schema
        self.shard_schema = schema_from_arrow(schema)
        check_whole_number("stripe_rows", stripe_rows, 1)
        check_whole_number("stripe_bytes", stripe_bytes, 1)
        check_whole_number("threads", threads, 1)
        if stripe_bytes > _MAX_STRIPE_BYTES:
            raise SchemaError(f"stripe_bytes must be at most {_MAX_STRIPE_BYTES}, found {stripe_bytes}")
        self._options = _options_of(schema, profile, field_options or {})
        self._limits = stripe_rows, stripe_bytes
        self._indexes = IndexFiles(self.shard_schema, indexes)
        self._threads = threads or os.cpu_count() or 1
        self._storage = storage_of(storage, options)
        self._field_properties = _field_pairs(schema, field_properties or {})
        self._properties = _shard_properties(properties or {}, standard_properties or {}, created_ticks)
        if with_arrow_schema:
            encoded = encode_properties([Property(ARROW_SCHEMA_PROPERTY, schema.serialize().to_pybytes())])
            self._properties.custom_properties.extend(encoded)
        self._two_level = two_level
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self._stripe_properties = StripeProperties()
        self._stripes: list[StripeParts] = []
        self._offsets: list[int] = []
        self._files: list[str] = []
        self._index_files: list[str] = []
        self._result: WrittenShard | None = None
        self._is_closed = False
        self._root = ArtifactWriter(self._storage, self.location, overwrite=overwrite)

    @property
    def size_bytes(self) -> int:
        """Bytes of the root file so far; rows that are held do not count."""
        return self._root.position

    def write(self, data: Any) -> None:
        """Add rows with the writer's columns: a batch, a table, or anything with the Arrow C stream interface.

        Raises:
            SchemaError: The columns are not the writer's, a value cannot be stored exactly, or the writer is closed.
        """
        if isinstance(data, pa.RecordBatch):
            self.write_batch(data)
        elif isinstance(data, pa.Table):
            self.write_table(data)
        else:
            for batch in _stream(data):
                self.write_batch(batch)

    def write_table(self, table: pa.Table) -> None:
        """Add the rows of a table.

        Raises:
            SchemaError: The columns are not the writer's, a value cannot be stored exactly, or the writer is closed.
        """
        for batch in table.to_batches():
            self.write_batch(batch)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch. They are written when they fill a stripe.

        Raises:
            SchemaError: The columns are not the writer's, a value cannot be stored exactly, or the writer is closed.
        """
        if self._is_closed:
            raise SchemaError(f"the shard is closed: {self.location}")
        if not batch.schema.equals(self.schema):
            raise SchemaError(f"the batch has columns {_shown(batch.schema)}, expected {_shown(self.schema)}")
        most_rows, most_bytes = self._limits
        while batch.num_rows:
            row_bytes = max(1.0, batch.nbytes / batch.num_rows)
            room = min(most_rows - self._pending_rows, int((most_bytes - self._pending_bytes) / row_bytes))
            part = batch.slice(0, max(1, room))
            batch = batch.slice(part.num_rows)
            self._pending.append(part)
            self._pending_rows += part.num_rows
            self._pending_bytes += part.nbytes
            if self._pending_rows >= most_rows or self._pending_bytes + row_bytes > most_bytes:
                self.end_stripe()

    def set_stripe_properties(
        self, properties: Mapping[str, Any], standard_properties: Mapping[str, Any] | None = None
    ) -> None:
        """Set the properties of the stripe that the next rows, or those still held, go to.

        Raises:
            SchemaError: A value is of a type that cannot be stored.
        """
        self._stripe_properties = StripeProperties(
            standard_properties=_pairs(standard_properties or {}), custom_properties=_pairs(properties)
        )

    def end_stripe(self) -> None:
        """Write the rows that are held as a stripe; does nothing if none are held."""
        if not self._pending_rows:
            return
        table = pa.Table.from_batches(self._pending, self.schema)
        record_count = self._pending_rows
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        columns = [_one_array(column) for column in table.columns]
        properties = self._stripe_properties if self._stripe_properties.ByteSize() else None
        self._stripe_properties = StripeProperties()
        location, file = self._stripe_file()
        try:
            written = write_stripe(
                file,
                "" if file is self._root else encode_url(self.location, location),
                self.shard_schema,
                columns,
                self._options.__getitem__,
                record_count=record_count,
                field_properties=self._field_properties,
                properties=properties,
                threads=self._threads,
            )
            first_row = sum(stripe.record_count for stripe in self._stripes)
            self._indexes.add(len(self._stripes), dict(enumerate(columns)), first_row)
        except BaseException:
            if file is not self._root:
                file.abort()
            self.abort()
            raise
        if file is not self._root:
            file.close()
            self._files.append(location)
        self._stripes.append(written)

    def _stripe_file(self) -> tuple[str, ArtifactWriter]:
        """Where the next stripe's buffers go."""
        if not self._two_level:
            self._offsets.append(self._root.align())
            return self.location, self._root
        location = join(parent(self.location), f"{secrets.randbits(64):x}{_STRIPE_SUFFIX}")
        return location, ArtifactWriter(self._storage, location)

    def close(self) -> WrittenShard:
        """Write what is held and the metadata, and make the root file visible. A second call writes nothing.

        Raises:
            SchemaError: The writer was aborted, or a value cannot be stored exactly.
            AlreadyExistsError: The file has been created meanwhile.
        """
        if self._result is not None:
            return self._result
        if self._is_closed:
            raise SchemaError(f"the shard was given up: {self.location}")
        self.end_stripe()
        try:
            fields = merge_fields(self.shard_schema, self._stripes)
            indexes = self._indexes.write(index_shards(self._storage, self.location, self._index_files))
            start = finish_root(self._root, self.shard_schema, self._stripes, fields, self._properties, indexes)
        except BaseException:
            self.abort()
            raise
        self._is_closed = True
        self._result = WrittenShard(
            self.location,
            self._root.position,
            sum(stripe.record_count for stripe in self._stripes),
            tuple(self._offsets),
            tuple(self._files),
            self.shard_schema,
            tuple(fields),
            start,
            tuple(self._index_files),
        )
        return self._result

    def abort(self) -> None:
        """Give up: no file remains. Does nothing after `close`."""
        if not self._is_closed:
            self._is_closed = True
            self._root.abort()
            self._storage.delete([*self._files, *self._index_files])
            self._files.clear()
            self._index_files.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abort()
        elif not self._is_closed:
            self.close()


def write_table(  # noqa: PLR0913  options, by name
    table: Any,
    path: str | os.PathLike[str],
    *,
    profile: str | Profile = Profile.BALANCED,
    field_options: Mapping[str, FieldOptions] | None = None,
    stripe_rows: int = STRIPE_ROWS,
    stripe_bytes: int = STRIPE_BYTES,
    two_level: bool = False,
    properties: Mapping[str, Any] | None = None,
    standard_properties: Mapping[str, Any] | None = None,
    field_properties: Mapping[str, Mapping[str, Any]] | None = None,
    created_ticks: int | None = None,
    with_arrow_schema: bool = True,
    indexes: Sequence[Index] = (),
    threads: int | None = None,
    overwrite: bool = False,
    storage: Storage | None = None,
    options: Mapping[str, str] | None = None,
) -> WrittenShard:
    """Write a table as a shard, in the shape of `pyarrow.parquet.write_table`.

    Example:
        amudai.write_table(table, "flights.amudai.shard", profile="small", overwrite=True)

    Args:
        table: The rows: a table, or anything with the Arrow C stream interface, which is read batch by batch.
        path: Path or URL of the root file; by convention its name ends with `.amudai.shard`.
        profile: What encodings are chosen for, speed or size: `plain`, `fast`, `balanced`, `high` or `small`.
        field_options: How single columns are encoded, by name; the profile decides for the others.
        stripe_rows: At most this many rows in a stripe.
        stripe_bytes: About how many bytes of Arrow data a stripe has at most, up to 1 GiB.
        two_level: Whether stripes get files of their own, beside the root.
        properties: Custom properties of the shard by name; `Property` lists the types of values.
        standard_properties: Standard properties of the shard by name.
        field_properties: Custom properties of columns, by column and name.
        created_ticks: Time of creation, in ticks of 100 ns since 0001-01-01; now by default.
        with_arrow_schema: Whether the Arrow schema is stored, so that a reader gets exactly its types.
        indexes: What is indexed. The files of the indexes are beside the root.
        threads: How many columns are encoded at once; all processors by default.
        overwrite: Whether an existing file is replaced.
        storage: Where to write; by default one made of `options`.
        options: Storage options such as credentials.

    Returns:
        What was written.

    Raises:
        UnsupportedError: A column is of a type that shards cannot hold, or cannot be indexed. Nothing was written then.
        NotFoundError: An indexed column does not exist.
        SchemaError: Names are not unique, an option is out of range, or a value cannot be stored exactly.
        AlreadyExistsError: The file exists, and `overwrite` is false.
    """
    rows = table if isinstance(table, pa.Table) else _stream(table)
    writer = ShardWriter(
        path,
        rows.schema,
        profile=profile,
        field_options=field_options,
        stripe_rows=stripe_rows,
        stripe_bytes=stripe_bytes,
        two_level=two_level,
        properties=properties,
        standard_properties=standard_properties,
        field_properties=field_properties,
        created_ticks=created_ticks,
        with_arrow_schema=with_arrow_schema,
        indexes=indexes,
        threads=threads,
        overwrite=overwrite,
        storage=storage,
        options=options,
    )
    with writer:
        writer.write(rows)
        return writer.close()


def index_shards(storage: Storage, root: str, files: list[str]) -> WriteArtifact:
    """Make what writes the shards of an index beside a root file.

    Args:
        storage: Where to write.
        root: The root file of what is indexed.
        files: Gets the location of each shard before it is written.
    """

    def named(name: str) -> Callable[[pa.Table, Profile], Artifact]:
        location = join(parent(root), f"{secrets.randbits(64):x}.{name}{_INDEX_SUFFIX}")
        files.append(location)
        return partial(write, location)

    def write(location: str, table: pa.Table, profile: Profile) -> Artifact:
        writer = ShardWriter(
            location,
            table.schema,
            profile=profile,
            stripe_rows=max(table.num_rows, 1),
            stripe_bytes=_MAX_STRIPE_BYTES,
            with_arrow_schema=False,
            storage=storage,
        )
        with writer:
            writer.write_table(table)
            written = writer.close()
        footer = written.size_bytes - MAGIC_BYTES
        return Artifact(encode_url(root, location), written.metadata_offset, footer, written.size_bytes)

    return named


def _stream(data: Any) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    try:
        return pa.RecordBatchReader.from_stream(data)
    except (TypeError, pa.ArrowException) as error:
        raise SchemaError(f"{type(data).__name__} is not Arrow data: {error}") from error


def _options_of(
    schema: pa.Schema, profile: str | Profile, field_options: Mapping[str, FieldOptions]
) -> dict[str, FieldOptions]:
    try:
        chosen = Profile(profile)
    except ValueError:
        raise SchemaError(f"no profile {profile!r}, expected one of {', '.join(Profile)}") from None
    _check_names(schema, field_options)
    for name, options in field_options.items():
        check_instance(f"field_options[{name!r}]", options, FieldOptions, "FieldOptions")
    is_plain = chosen is Profile.PLAIN
    default = FieldOptions(
        chosen,
        with_dictionary=False if is_plain else None,
        with_index=not is_plain,
        with_filter=not is_plain,
    )
    return {name: field_options.get(name, default) for name in schema.names}


def _check_names(schema: pa.Schema, names: Iterable[str]) -> None:
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise SchemaError(f"options for columns that do not exist: {', '.join(unknown)}")


def _pairs(properties: Mapping[str, Any]) -> list[NameValuePair]:
    return encode_properties([Property(name, value) for name, value in properties.items()])


def _field_pairs(schema: pa.Schema, properties: Mapping[str, Mapping[str, Any]]) -> dict[str, list[NameValuePair]]:
    _check_names(schema, properties)
    return {name: _pairs(bag) for name, bag in properties.items()}


def _shard_properties(
    properties: Mapping[str, Any], standard: Mapping[str, Any], created_ticks: int | None
) -> ShardProperties:
    ticks = created_ticks if created_ticks is not None else EPOCH_TICKS + time.time_ns() // 100
    made = ShardProperties(standard_properties=_pairs(standard), custom_properties=_pairs(properties))
    made.creation_min.ticks = made.creation_max.ticks = ticks
    return made


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _shown(schema: pa.Schema) -> str:
    fields: Sequence[str] = [f"{field.name}: {field.type}" for field in schema]
    return ", ".join(fields[:20]) + (" …" if len(fields) > 20 else "")
