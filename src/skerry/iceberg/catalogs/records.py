"""What catalogs of Iceberg tables are given and give: states of tables and views, and commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skerry.iceberg.metadata.partition_spec import PartitionSpec
    from skerry.iceberg.metadata.requirements import TableRequirement
    from skerry.iceberg.metadata.schema import Schema
    from skerry.iceberg.metadata.sort_order import SortOrder
    from skerry.iceberg.metadata.table_metadata import TableMetadata
    from skerry.iceberg.metadata.table_updates import TableUpdate
    from skerry.iceberg.metadata.view_metadata import ViewMetadata, ViewVersion
    from skerry.table.owned_files import OwnedFiles

__all__ = [
    "CatalogTable",
    "CatalogView",
    "Identifier",
    "MetadataWrite",
    "NewIcebergTable",
    "NewView",
    "TableCommit",
]

Identifier = tuple[str, ...]
"""The parts of a name: of a namespace, or of a table's namespace and then its own."""


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """One state of a table, as its catalog gave it.

    Args:
        identifier: Namespace parts and table name.
        metadata: Its metadata.
        metadata_location: The metadata file.
        config: Options that the catalog gave for this table alone, such as temporary credentials for its files.
    """

    identifier: Identifier
    metadata: TableMetadata
    metadata_location: str
    config: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class NewIcebergTable:
    """A table to be created.

    Args:
        schema: Its columns, with field ids.
        partition_spec: How new files are partitioned.
        sort_order: The order of rows in new files.
        location: Its folder; chosen by the catalog if None.
        properties: Its properties, `format-version` among them.
    """

    schema: Schema
    partition_spec: PartitionSpec
    sort_order: SortOrder
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewView:
    """A definition of a view.

    Args:
        schema: Its columns.
        version: The queries, and the namespace in which they find tables; its numbers are chosen by the catalog.
        properties: Properties, added to those that the view has.
    """

    schema: Schema
    version: ViewVersion
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CatalogView:
    """One state of a view, as its catalog gave it.

    Args:
        identifier: Namespace parts and the view's name.
        metadata: Its metadata.
        metadata_location: The metadata file.
    """

    identifier: Identifier
    metadata: ViewMetadata
    metadata_location: str


@dataclass
class MetadataWrite:
    """What a commit has sent so far; the catalog keeps it up to date.

    Args:
        files: Owns the metadata file, if the catalog's client writes it; from before it is written.
        location: That file, once it begins to be written.
        predecessor: The metadata file that the catalog must still have for the commit to succeed.
        may_have_effect: Whether something was sent that may have changed the table.
    """

    files: OwnedFiles
    location: str | None = None
    predecessor: str | None = None
    may_have_effect: bool = False


@dataclass(frozen=True, slots=True)
class TableCommit:
    """The change of one table in a commit of several.

    Args:
        table: The state that the updates were decided on.
        requirements: What the newest state must meet.
        updates: What changes.
        write: Receives how far the commit has come, also if it ends with an exception.
    """

    table: CatalogTable
    requirements: Sequence[TableRequirement]
    updates: Sequence[TableUpdate]
    write: MetadataWrite
