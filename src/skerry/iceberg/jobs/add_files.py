"""Add existing Parquet files to a table, without rewriting them.

Each file is read as far as needed to check it (its columns fit the table's schema, its rows belong to one partition)
and to describe it like the table's own files (metrics and a sample of every column).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from skerry.arguments import check_list
from skerry.errors import AlreadyExistsError, SchemaError, SkerryError, UnsupportedError
from skerry.iceberg.evolution.schema_evolution import NAME_MAPPING_PROPERTY, name_mapping
from skerry.iceberg.evolution.settings import ChangeProperties
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.jobs.analyze import catch_up
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.metadata.table_metadata import data_key_bytes
from skerry.iceberg.metadata.transforms import VoidTransform
from skerry.iceberg.operations import AppendFiles, SnapshotChange
from skerry.iceberg.planning.live_files import live_data_files
from skerry.iceberg.reading.known_table import column_defaults
from skerry.iceberg.reading.scan import scan
from skerry.iceberg.writing.layout import FileLayout
from skerry.parquet import Codec, FileMetadata, PageType, decode_page_header, read_metadata
from skerry.storage import Storage, file_key, is_within
from skerry.table.files.data_file import DataFile
from skerry.table.files.evolution import all_ids, has_ids, identify, plan_conversion
from skerry.table.files.locations import OUTSIDE_PROPERTY
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.rows.schema import FIELD_ID_KEY, leaves, nearest
from skerry.table.rows.values import encode_value, natural_value
from skerry.table.statistics.row_sampling import sample_file
from skerry.table.statistics.sketching import sketch_parquet
from skerry.table.statistics.written_file import WrittenFile
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback, ThreadExecutor
from skerry.theta import Sample
from skerry.variant import is_variant

__all__ = ["AddFiles", "AddTask", "add_files", "describe_foreign_file", "file_schema"]


@dataclass(frozen=True, slots=True)
class AddFiles:
    """Append existing files, each at most once.

    Args:
        append: The append.
    """

    append: AppendFiles

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        """The files that it adds."""
        return self.append.files

    def apply(self, base: TableState) -> SnapshotChange | None:
        """Decide the change.

        Raises:
            AlreadyExistsError: The branch has one of the files already.
        """
        snapshot = base.branch(self.append.ref)
        known = {file_key(file.location) for file in live_data_files(base, snapshot)} if snapshot is not None else set()
        for file in self.append.files:
            if file_key(file.location) in known:
                raise AlreadyExistsError("the table has this data file already", location=file.location)
        return self.append.apply(base)


@dataclass(frozen=True, slots=True)
class AddTask:
    """A file to be checked; picklable.

    Args:
        location: The file.
        layout: The table's layout.
        reader: Reads rows of the table's files.
        defaults: By field id, the physical values of columns that a file lacks.
        constants: By field id, the physical values of columns that the file's folder names: partition columns.
    """

    location: str
    layout: FileLayout
    reader: RowReader
    defaults: Mapping[int, Any]
    constants: Mapping[int, Any] = field(default_factory=dict)

    @property
    def values(self) -> dict[int, Any]:
        """The values of columns that the file lacks."""
        return {**self.defaults, **self.constants}


def add_files(
    table: IcebergHandle,
    locations: Iterable[str],
    *,
    ref: str = MAIN,
    staged: bool = False,
    properties: Mapping[str, str] | None = None,
    constants: Mapping[str, Mapping[int, Any]] | None = None,
    executor: Executor | None = None,
    progress: ProgressCallback | None = None,
) -> TableState:
    """Add existing Parquet files to a table.

    Args:
        table: The table.
        locations: The files.
        ref: The branch.
        staged: Whether the branch does not move until the snapshot is published.
        properties: Further entries of the snapshot summary.
        constants: By location and field id, the physical values of columns that a file lacks because its folder names
            them; the table is partitioned by their identity.
        executor: Runs the tasks that read files; threads of this process by default.
        progress: Called after every file.

    Raises:
        AlreadyExistsError: A file is named twice, or the branch has it already.
        FormatError: A file is corrupt, or not Parquet.
        NotFoundError: A file, or the branch, does not exist.
        SchemaError: A file's columns do not fit, its rows belong to several partitions, or it has no rows.
        UnsupportedError: The table is encrypted; or a file is outside of the table's folder, and the table does not
            allow that.
    """
    check_list("locations", locations)
    wanted = list(locations)
    state = table.refresh()
    state.branch(ref)
    if data_key_bytes(state.properties) is not None:
        raise UnsupportedError(
            "the table is encrypted, and files that exist are not: append their rows instead", location=state.name
        )
    _check_locations(state, wanted)
    footers = [read_metadata(state.storage, location) for location in wanted]
    if NAME_MAPPING_PROPERTY not in state.properties and not all(has_ids(file_schema(footer)) for footer in footers):
        mapping = name_mapping(state.metadata.schema())
        state = table.commit(ChangeProperties({NAME_MAPPING_PROPERTY: mapping}))
    state = catch_up(table, ref, executor=executor)
    layout = table.layout(ref=ref)
    reader = scan(state).row_reader()
    defaults = column_defaults(state.metadata.schema())
    named = constants or {}
    tasks = [AddTask(location, layout, reader, defaults, named.get(location, {})) for location in wanted]
    written = []
    rows = 0
    for file in (executor or ThreadExecutor()).map(describe_foreign_file, tasks):
        written.append(file)
        rows += file.data_file.record_count
        if progress is not None:
            progress(JobProgress("read", len(written), len(wanted), done_rows=rows))
    return table.commit(AddFiles(AppendFiles.of(written, ref=ref, properties=properties, staged=staged)))


def _check_locations(state: TableState, locations: Sequence[str]) -> None:
    seen = set()
    for location in locations:
        if file_key(location) in seen:
            raise AlreadyExistsError("the file is named twice", location=location)
        seen.add(file_key(location))
        if state.roots is not None and not any(is_within(root, location) for root in state.roots):
            raise UnsupportedError(
                f"the file is outside the table's folder {state.metadata.location}; set the table property "
                f"{OUTSIDE_PROPERTY}=true to allow files anywhere",
                location=location,
            )


def file_schema(footer: FileMetadata) -> pa.Schema:
    """The columns of a Parquet file in PyArrow's types.

    Raises:
        UnsupportedError: PyArrow cannot represent them.
    """
    try:
        return footer.arrow.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        raise UnsupportedError(f"PyArrow cannot read the file's schema: {error}", location=footer.location) from error


def describe_foreign_file(task: AddTask) -> WrittenFile:
    """Check a file against the table, and compute its metrics and samples.

    Raises:
        FormatError: The file is corrupt, or not Parquet.
        SchemaError: Its columns do not fit, its rows belong to several partitions, or it has no rows.
    """
    try:
        return _describe(task)
    except SkerryError as error:
        error.location = error.location or task.location
        raise


def _describe(task: AddTask) -> WrittenFile:
    layout = task.layout
    metadata = read_metadata(layout.storage, task.location)
    arrow = metadata.arrow  # parsed at each use
    if arrow.num_rows == 0:
        raise SchemaError("the file has no rows")
    _check_pages(layout.storage, metadata)
    own = file_schema(metadata)
    found = identify(own, task.reader.names)
    _check_columns(found, task, by_ids=has_ids(own))
    _check_times(found, task, metadata)
    in_file = all_ids(found)
    paths = {leaf.field_id: leaf.path for leaf in leaves(layout.schema) if leaf.field_id in in_file}
    named_alike = paths == {leaf.field_id: leaf.path for leaf in leaves(_with_variants(found, layout.schema))}
    known = in_file | task.constants.keys()
    for part in layout.spec.fields:
        if part.source_id not in known and not isinstance(part.transform, VoidTransform):
            name = layout.iceberg_schema.find_column_name(part.source_id)
            raise SchemaError(f"the file lacks column {name!r}, which partition field {part.name!r} is derived from")
    partition = layout.partition_of(
        arrow,
        lambda names: _read(task, metadata, names),
        has_own_names=named_alike and not task.constants,
    )
    if not named_alike and not has_ids(own):
        # names cannot be matched to metrics or samples
        plain = DataFile(
            location=task.location,
            file_format="parquet",
            record_count=arrow.num_rows,
            file_size_bytes=metadata.file_size_bytes,
            spec_id=layout.spec.spec_id,
            partition=partition,
            split_offsets=metadata.split_offsets,
        )
        return WrittenFile(plain)
    # a column with a default that the file lacks is not null, but neither is it in the file
    sketched = [number for number in layout.sketched if number in in_file or number not in task.values]
    sketches = sketch_parquet(layout.storage, task.location, layout.schema, sketched, metadata=metadata)
    for leaf in leaves(layout.schema):
        if leaf.path[0] == leaf.name and not layout.schema.field(leaf.name).nullable and leaf.field_id in in_file:
            nulls = sketches.null_value_counts.get(leaf.field_id)
            if nulls:
                raise SchemaError(f"column {leaf.name!r} is required, but has {nulls} nulls in the file")
    data_file = layout.data_file(
        task.location,
        arrow,
        metadata.file_size_bytes,
        partition=partition,
        nan_value_counts=sketches.nan_value_counts,
    )
    samples = {number: sample.release() for number, sample in sketches.samples.items()}
    file = FileScanTask(data_file, constants=task.values)
    rows = sample_file(task.reader, file, {*sketched, *(task.constants.keys() & set(layout.sketched))}, metadata)
    return _with_constants(task, WrittenFile(data_file, samples, rows, layout.iceberg_schema.schema_id))


def _with_constants(task: AddTask, file: WrittenFile) -> WrittenFile:
    """The file with metrics and samples of the columns that its folder names, as if they were in it."""
    count = file.data_file.record_count
    data_file, samples = file.data_file, dict(file.samples)
    counts, nulls = dict(data_file.value_counts), dict(data_file.null_value_counts)
    lower, upper = dict(data_file.lower_bounds), dict(data_file.upper_bounds)
    for leaf in leaves(task.layout.schema):
        if leaf.field_id not in task.constants:
            continue
        value = task.constants[leaf.field_id]
        counts[leaf.field_id], nulls[leaf.field_id] = count, count if value is None else 0
        if value is not None and not isinstance(value, str | bytes):
            lower[leaf.field_id] = upper[leaf.field_id] = encode_value(leaf.type, value)
        if leaf.field_id in task.layout.sketched:
            samples[leaf.field_id] = Sample().update(pa.array([natural_value(leaf.type, value)], leaf.type)).release()
    described = dataclasses.replace(
        data_file, value_counts=counts, null_value_counts=nulls, lower_bounds=lower, upper_bounds=upper
    )
    return dataclasses.replace(file, data_file=described, samples=samples)


def _check_columns(found: pa.Schema, task: AddTask, *, by_ids: bool) -> None:
    """Refuse columns that the table does not have, incompatible types, and missing required columns."""
    known = all_ids(task.layout.schema)
    for column in found:
        text = (column.metadata or {}).get(FIELD_ID_KEY, b"")
        if not text.isdigit() or int(text) not in known:
            raise SchemaError(
                f"the file has a column {column.name!r} that the table does not "
                f"have{nearest(column.name, task.layout.schema.names)}"
            )
    if not by_ids:
        ids = {leaf.path: leaf.field_id for leaf in leaves(task.layout.schema)}
        for leaf in leaves(_with_variants(found, task.layout.schema)):
            if ids.get(leaf.path, leaf.field_id) != leaf.field_id:
                raise SchemaError(
                    f"column {leaf.name!r} of a file without field ids may be the table's column of that name, or an "
                    "earlier one; write the file with field ids"
                )
    plan_conversion(found, task.layout.schema, task.values)


def _with_variants(found: pa.Schema, schema: pa.Schema) -> pa.Schema:
    """The columns of a file, with the type of variants where the table has it: to PyArrow they are structs."""

    def walk(stored: pa.Field, wanted: pa.Field | None) -> pa.Field:
        if wanted is None or not (pa.types.is_struct(stored.type) and pa.types.is_struct(wanted.type)):
            return stored
        if is_variant(wanted.type):
            return stored.with_type(wanted.type)
        return stored.with_type(pa.struct(matched(stored.type, wanted.type)))

    def matched(stored: Iterable[pa.Field], wanted: Iterable[pa.Field]) -> list[pa.Field]:
        by_id = {(field.metadata or {}).get(FIELD_ID_KEY): field for field in wanted}
        return [walk(field, by_id.get((field.metadata or {}).get(FIELD_ID_KEY))) for field in stored]

    return pa.schema(matched(found, schema), metadata=found.metadata)


def _check_pages(storage: Storage, footer: FileMetadata) -> None:
    """Refuse compressed pages marked as uncompressed, as parquet-cpp before 3.0 wrote them: only Arrow reads them."""
    for group in footer.row_groups:
        hiding = (c for c in group.chunks if c.hides_compression and c.codec != Codec.UNCOMPRESSED and c.value_count)
        chunk = next(hiding, None)  # one writer wrote all chunks of the file
        if chunk is None:
            continue
        length = min(_MAX_HEADER_BYTES, chunk.offset + chunk.size_bytes - chunk.data_offset)
        header = storage.read_range(footer.location, chunk.data_offset, length)
        page = decode_page_header(memoryview(header), location=footer.location, base=chunk.data_offset)
        if page.type == PageType.DATA_PAGE_V2 and not page.is_compressed:
            raise UnsupportedError(
                f"{footer.created_by} has marked compressed data pages of version 2 as uncompressed, which Iceberg "
                "Java cannot read (ARROW-17100); write the file again"
            )


_MAX_HEADER_BYTES = 1 << 16


def _check_times(found: pa.Schema, task: AddTask, footer: FileMetadata) -> None:
    """Refuse times whose stored number has another meaning in the table's type: Iceberg Java reads the number.

    Spec: Iceberg spec, Appendix A, Parquet: one unit per type. INT96 has a unit and a zone of its own, which Java
    knows.
    """
    wanted = {number: type_ for number, _, type_ in _primitive(task.layout.schema)}
    stored = footer.arrow.schema
    for position, (number, name, type_) in enumerate(_primitive(found)):
        target = wanted.get(number, pa.null())
        if not pa.types.is_temporal(type_) or stored.column(position).physical_type == "INT96":
            continue
        if pa.types.is_timestamp(target) and pa.types.is_timestamp(type_) and (type_.tz is None) != (target.tz is None):
            kinds = ("without", "with") if type_.tz is None else ("with", "without")
            raise SchemaError(f"column {name!r} has timestamps {kinds[0]} zone in the file but {kinds[1]} in the table")
        timed = any(is_kind(type_) and is_kind(target) for is_kind in (pa.types.is_timestamp, pa.types.is_time))
        if timed and type_.unit != target.unit:
            raise SchemaError(
                f"column {name!r} is stored in {_UNITS[type_.unit]}, but the table's {target} in "
                f"{_UNITS[target.unit]}, so that other readers would misread the numbers; write the file with that "
                "unit, or append its rows"
            )


_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def _primitive(schema: pa.Schema) -> Iterator[tuple[int, str, pa.DataType]]:
    """Field id (0 for none), dotted name and type of all primitive columns, in the order of Parquet's columns."""

    def walk(column: pa.Field, name: str) -> Iterator[tuple[int, str, pa.DataType]]:
        text = (column.metadata or {}).get(FIELD_ID_KEY, b"")
        if not column.type.num_fields:
            yield int(text) if text.isdigit() else 0, name, column.type
        for index in range(column.type.num_fields):
            child = column.type.field(index)
            yield from walk(child, f"{name}.{child.name}")

    for column in schema:
        yield from walk(column, column.name)


def _read(task: AddTask, metadata: FileMetadata, names: list[str]) -> pa.Table:
    """Some columns of the file in the table's types."""
    schema = pa.schema([task.layout.schema.field(name) for name in names])
    file = DataFile(task.location, "parquet", metadata.row_count, metadata.file_size_bytes)
    reader = dataclasses.replace(task.reader, schema=schema, read_schema=schema, columns=None)
    return pa.Table.from_batches(reader.batches([FileScanTask(file, constants=task.values)]), schema)
