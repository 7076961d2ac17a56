"""Our metadata in PyIceberg's catalogs: they load and swap metadata files, and see only as much of them as they need.

A metastore catalog (Glue, Hive, MySQL) reads a metadata file, applies updates, writes the next file and compares and
swaps its location. `install` makes one instance leave reading, updating and writing to our records, as long as a call
of ours is in progress. Whoever uses the same instance otherwise gets PyIceberg's own models.

Spec: Iceberg spec, Metastore Tables.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import PrivateAttr
from pyiceberg.catalog import Catalog
from pyiceberg.io import InputFile
from pyiceberg.partitioning import PartitionSpec as PyPartitionSpec
from pyiceberg.schema import Schema as PySchema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableRequest, StagedTable
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.sorting import SortOrder as PySortOrder
from pyiceberg.typedef import IcebergBaseModel

from skerry.errors import NotFoundError, UnsupportedError
from skerry.iceberg.catalogs.metadata_files import metadata_after, new_metadata_location
from skerry.iceberg.catalogs.records import Identifier, MetadataWrite, NewIcebergTable
from skerry.iceberg.metadata.creation import new_table_metadata
from skerry.iceberg.metadata.json_records import decode_json, encode_json, json_of
from skerry.iceberg.metadata.metadata_json import decode_metadata, encode_metadata, parse_metadata
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.requirements import TableRequirement
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.sort_order import SortOrder
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.iceberg.metadata.table_updates import TableUpdate

__all__ = [
    "Call",
    "PyMetadata",
    "calling",
    "install",
    "own_metadata",
    "py_change",
    "py_schema",
    "py_sort_order",
    "py_spec",
]

AnyCatalog = TypeVar("AnyCatalog", bound=Catalog)
# method of the catalog -> whether it may replace a file
_WRITERS: Final = {"_write_metadata": False, "_write_metadata_no_exist_check": True}


@dataclass(frozen=True, slots=True)
class Call:
    """A call of ours that is in progress.

    Args:
        write: The commit, which is told how far it has come.
        new: The table that is created.
    """

    write: MetadataWrite | None = None
    new: NewIcebergTable | None = None


_call: ContextVar[Call | None] = ContextVar("_call", default=None)


@contextmanager
def calling(call: Call | None = None) -> Iterator[None]:
    """Make PyIceberg's catalogs use our metadata."""
    token = _call.set(call or Call())
    try:
        yield
    finally:
        _call.reset(token)


class PyMetadata(TableMetadataV2):
    """What PyIceberg's catalogs see of our metadata: columns, location and properties, whatever the version."""

    _own: TableMetadata = PrivateAttr()

    @property
    def own(self) -> TableMetadata:
        """The metadata itself."""
        return self._own

    @staticmethod
    def of(own: TableMetadata) -> PyMetadata:
        """Wrap metadata."""
        wrapped = PyMetadata.model_construct(
            location=own.location,
            table_uuid=own.table_uuid or uuid.uuid4(),
            last_updated_ms=own.last_updated_ms,
            last_column_id=own.last_column_id,
            schemas=[py_schema(schema) for schema in own.schemas],
            current_schema_id=own.current_schema_id,
            partition_specs=[PyPartitionSpec()],  # its checks want the default spec, which no catalog looks at
            properties=dict(own.properties),
        )
        wrapped._own = own
        return wrapped


def own_metadata(metadata: Any) -> TableMetadata:
    """Our metadata for what a PyIceberg catalog has returned."""
    if isinstance(metadata, TableMetadata):
        return metadata
    if isinstance(metadata, PyMetadata):
        return metadata.own
    return parse_metadata(decode_json(IcebergBaseModel.model_dump_json(metadata)))  # its own refuses version 3


def py_schema(schema: Schema) -> PySchema:
    """A schema for PyIceberg, without the columns whose types it does not know."""
    written = schema.to_json()
    with suppress(ValueError, TypeError):
        return PySchema.model_validate_json(encode_json(written))
    known = []
    for column in written["fields"]:
        with suppress(ValueError, TypeError):
            PySchema.model_validate_json(encode_json({"type": "struct", "fields": [column]}))
            known.append(column)
    return PySchema.model_validate_json(encode_json({**written, "fields": known, "identifier-field-ids": []}))


def py_spec(spec: PartitionSpec) -> PyPartitionSpec:
    """A partition spec for PyIceberg."""
    return PyPartitionSpec.model_validate_json(encode_json(spec))


def py_sort_order(order: SortOrder) -> PySortOrder:
    """A sort order for PyIceberg."""
    return PySortOrder.model_validate_json(encode_json(order))


def py_change(
    identifier: Identifier, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]
) -> CommitTableRequest:
    """A commit for PyIceberg.

    Raises:
        UnsupportedError: PyIceberg does not know one of the updates.
    """
    request = {
        "identifier": {"namespace": identifier[:-1], "name": identifier[-1]},
        "requirements": json_of(tuple(requirements)),
        "updates": json_of(tuple(updates)),
    }
    try:
        return CommitTableRequest.model_validate_json(encode_json(request))
    except ValueError as error:
        raise UnsupportedError(f"PyIceberg cannot express the commit: {str(error)[:200]}") from error


def install(catalog: AnyCatalog) -> AnyCatalog:
    """Make a catalog write metadata that follows the specification, and use our records while a call is in progress.

    Args:
        catalog: Any PyIceberg catalog; a second call changes nothing.

    Returns:
        The same catalog.
    """
    for name, overwrite in _WRITERS.items():
        if hasattr(type(catalog), name) and name not in vars(catalog):
            setattr(catalog, name, _writer(overwrite=overwrite))
    for name, replacement in (("_update_and_stage_table", _stage_update), ("_create_staged_table", _stage_new)):
        if hasattr(type(catalog), name) and name not in vars(catalog):
            setattr(catalog, name, _replaced(catalog, getattr(catalog, name), replacement))
    return catalog


def _replaced(catalog: Catalog, original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        current = _call.get()
        if current is None or (replacement is _stage_new and current.new is None):
            return original(*args, **options)
        return replacement(catalog, *args, **options)

    return call


def _writer(*, overwrite: bool) -> Callable[..., None]:
    def write(metadata: Any, io: Any, metadata_path: str) -> None:
        current = _call.get()
        commit = None if current is None else current.write
        own = own_metadata(metadata)
        if commit is not None:
            commit.files.add(metadata_path)
            commit.location = metadata_path
            commit.predecessor = own.metadata_log[-1].metadata_file if own.metadata_log else None
        with io.new_output(metadata_path).create(overwrite=overwrite) as stream:
            stream.write(encode_metadata(own, metadata_path))
        if commit is not None:
            commit.may_have_effect = True

    return write


def _stage_update(
    catalog: Any, current_table: Any, table_identifier: Any, requirements: Sequence[Any], updates: Sequence[Any]
) -> StagedTable:
    """Apply updates of ours to a table's newest state, as a metastore catalog does between reading and writing it."""
    if current_table is None:
        raise NotFoundError(f"no table {'.'.join(table_identifier)!r}")
    before = own_metadata(current_table.metadata)
    after = metadata_after(before, current_table.metadata_location, requirements, updates)
    location = new_metadata_location(after, current_table.metadata_location)
    return _staged(catalog, table_identifier, current_table.metadata if after is before else after, location)


def _stage_new(
    catalog: Any, identifier: Any, schema: Any, location: str | None = None, *_: Any, **__: Any
) -> StagedTable:
    """The table that is created, with metadata of ours."""
    current = _call.get()
    assert current is not None
    assert current.new is not None
    new = current.new
    database, name = catalog.identifier_to_database_and_table(identifier)
    folder = catalog._resolve_table_location(location, database, name)
    metadata = new_table_metadata(new.schema, new.partition_spec, new.sort_order, folder, new.properties)
    return _staged(catalog, (database, name), metadata, new_metadata_location(metadata))


def _staged(catalog: Any, identifier: Any, metadata: Any, location: str) -> StagedTable:
    wrapped = PyMetadata.of(metadata) if isinstance(metadata, TableMetadata) else metadata
    return StagedTable(
        identifier=identifier,
        metadata=wrapped,
        metadata_location=location,
        io=catalog._load_file_io(properties=wrapped.properties, location=location),
        catalog=catalog,
    )


def _read_file(input_file: InputFile, *args: Any, **options: Any) -> Any:
    """Read a metadata file; as PyIceberg does if no call of ours is in progress."""
    if _call.get() is None:
        return _READ_FILE(input_file, *args, **options)
    try:
        with input_file.open() as stream:
            data = stream.read()
    except FileNotFoundError:
        raise NotFoundError("the table's metadata file is missing", location=input_file.location) from None
    return PyMetadata.of(decode_metadata(data, location=input_file.location))


_READ_FILE: Final = FromInputFile.table_metadata
FromInputFile.table_metadata = staticmethod(_read_file)  # type: ignore[method-assign]
