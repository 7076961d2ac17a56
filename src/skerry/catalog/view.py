"""Views: named queries of a catalog.

Spec: Iceberg view spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.table.history import of_millis

if TYPE_CHECKING:
    from skerry.iceberg.catalogs.records import CatalogView
    from skerry.iceberg.metadata.view_metadata import ViewVersion

__all__ = ["DIALECT", "View", "ViewDefinition", "view_of"]

DIALECT: Final = "duckdb"
"""The dialect of `Catalog.sql`."""

_DIALECTS: Final = (
    DIALECT,
    "spark",
    "databricks",
    "trino",
    "presto",
    "athena",
    "postgres",
    "snowflake",
    "bigquery",
    "hive",
)
"""Dialects that are understood, the ones preferred first."""


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """One version of a view.

    Args:
        version_id: Its number.
        timestamp: When it was made.
        queries: The query in one or more dialects of SQL, by the names of the dialects.
        namespace: The namespace of tables that the query names without one.
        summary: Who made it.
    """

    version_id: int
    timestamp: datetime
    queries: Mapping[str, str]
    namespace: str
    summary: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class View:
    """A view, as its catalog has it. Made by `Catalog.load_view` and `Catalog.create_view`.

    Args:
        name: `namespace.view`.
        schema: Its columns.
        definition: The version that counts.
        history: All versions that are kept, the newest last.
        properties: Its properties.
        location: Its folder.
        metadata_location: Its metadata file.
        catalog_names: Names by which its query may call the catalog.
    """

    name: str
    schema: pa.Schema
    definition: ViewDefinition
    history: tuple[ViewDefinition, ...]
    properties: Mapping[str, str]
    location: str
    metadata_location: str
    catalog_names: tuple[str, ...]

    @property
    def queries(self) -> Mapping[str, str]:
        """The query in one or more dialects of SQL, by the names of the dialects."""
        return self.definition.queries

    def query_for(self, *dialects: str) -> tuple[str, str]:
        """A query and its dialect: the first of the given ones that the view has, or else one that is understood.

        Raises:
            UnsupportedError: It has none of them.
        """
        for dialect in (*dialects, *_DIALECTS):
            if dialect in self.queries:
                return self.queries[dialect], dialect
        known = ", ".join(self.queries) or "no dialect of SQL"
        raise UnsupportedError(f"view {self.name!r} is written in {known}, which is not supported")


def view_of(name: str, found: CatalogView, catalog_name: str) -> View:
    """A view as users see it.

    Args:
        name: Its dotted name.
        found: Its state in the catalog.
        catalog_name: The catalog's name.
    """
    from skerry.iceberg.metadata.arrow_schema import to_arrow_schema

    metadata = found.metadata
    return View(
        name,
        to_arrow_schema(metadata.schema),
        _definition(metadata.current_version),
        tuple(_definition(version) for version in metadata.versions),
        dict(metadata.properties),
        metadata.location,
        found.metadata_location,
        tuple(filter(None, (metadata.current_version.default_catalog, catalog_name))),
    )


def _definition(version: ViewVersion) -> ViewDefinition:
    return ViewDefinition(
        version.version_id,
        of_millis(version.timestamp_ms),
        {query.dialect: query.sql for query in version.representations},
        ".".join(version.default_namespace),
        dict(version.summary),
    )
