"""Metadata of views: a query in one or more dialects of SQL, and its columns, by version.

Spec: Iceberg view spec.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skerry.errors import FormatError, UnsupportedError
from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.metadata.json_records import decode_json, encode_json
from skerry.iceberg.metadata.metadata_json import inflate_metadata
from skerry.iceberg.metadata.schema import Schema

__all__ = ["SqlRepresentation", "ViewMetadata", "ViewVersion", "decode_view", "encode_view", "parse_view"]

_RULE: Final = "Iceberg view spec"
_FORMAT_VERSION: Final = 1
_SQL: Final = "sql"
_VERSIONS_TO_KEEP: Final = "version.history.num-entries"
_USUAL_VERSIONS_TO_KEEP: Final = 10
_NAMES: Final = frozenset(
    {
        "view-uuid",
        "format-version",
        "location",
        "schemas",
        "current-version-id",
        "versions",
        "version-log",
        "properties",
    }
)
_VERSION_NAMES: Final = frozenset(
    {
        "version-id",
        "timestamp-ms",
        "schema-id",
        "summary",
        "representations",
        "default-catalog",
        "default-namespace",
    }
)


@dataclass(frozen=True, slots=True)
class SqlRepresentation:
    """A query in one dialect.

    Args:
        dialect: Such as `spark`, `trino` or `duckdb`, in lower case.
        sql: The query.
    """

    dialect: str
    sql: str


@dataclass(frozen=True, slots=True)
class ViewVersion:
    """One definition of a view.

    Args:
        version_id: Its number.
        timestamp_ms: When it was made.
        schema_id: The schema of its columns.
        representations: The query, in one or more dialects.
        default_namespace: The namespace of tables that the query names without one.
        default_catalog: The catalog of tables that the query names without one; None for that of the view.
        summary: Who made it.
        others: Representations of kinds that are not known, as JSON; they are written back.
        unknown: Fields that are not known, as JSON; they are written back.
    """

    version_id: int
    timestamp_ms: int
    schema_id: int
    representations: tuple[SqlRepresentation, ...]
    default_namespace: tuple[str, ...]
    default_catalog: str | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    others: tuple[Any, ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def from_json(found: JsonObject) -> ViewVersion:
        """Read a version.

        Raises:
            FormatError: A field is missing or of another kind, or a dialect has two queries.
        """
        queries: dict[str, SqlRepresentation] = {}
        others = []
        for one in found.objects("representations", required=True):
            if one.text("type").lower() != _SQL:
                others.append(one.value)
                continue
            query = SqlRepresentation(one.text("dialect").lower(), one.text("sql"))
            if query.dialect in queries:
                raise found.error("representations", f"there are two queries in the dialect {query.dialect!r}")
            queries[query.dialect] = query
        if not queries and not others:
            raise found.error("representations", "a view has no query")
        return ViewVersion(
            found.integer("version-id"),
            found.long("timestamp-ms"),
            found.integer("schema-id"),
            tuple(queries.values()),
            found.texts("default-namespace"),
            found.text("default-catalog", None),
            found.strings("summary"),
            tuple(others),
            found.unknown(_VERSION_NAMES),
        )

    def to_json(self) -> dict[str, Any]:
        """The version as in metadata."""
        queries = [{"type": _SQL, "sql": query.sql, "dialect": query.dialect} for query in self.representations]
        return {
            "version-id": self.version_id,
            "timestamp-ms": self.timestamp_ms,
            "schema-id": self.schema_id,
            "summary": dict(self.summary),
            **({} if self.default_catalog is None else {"default-catalog": self.default_catalog}),
            "default-namespace": list(self.default_namespace),
            "representations": [*queries, *self.others],
            **self.unknown,
        }

    def has_definition(self, other: ViewVersion) -> bool:
        """Whether another version means the same: all but its number, schema id and time are equal."""
        return replace(self, version_id=0, timestamp_ms=0, schema_id=0) == replace(
            other, version_id=0, timestamp_ms=0, schema_id=0
        )


@dataclass(frozen=True, slots=True)
class ViewMetadata:
    """The metadata of a view.

    Args:
        view_uuid: The view's identity.
        location: Its folder.
        schemas: The columns of its versions.
        current_version_id: The version that counts.
        versions: The definitions that are kept.
        version_log: When which version became the current one, as pairs of time in milliseconds and number.
        properties: Its properties.
        unknown: Fields that are not known, as JSON; they are written back.
    """

    view_uuid: str
    location: str
    schemas: tuple[Schema, ...]
    current_version_id: int
    versions: tuple[ViewVersion, ...]
    version_log: tuple[tuple[int, int], ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def current_version(self) -> ViewVersion:
        """The version that counts."""
        return next(version for version in self.versions if version.version_id == self.current_version_id)

    @property
    def schema(self) -> Schema:
        """The columns of the current version."""
        wanted = self.current_version.schema_id
        return next(schema for schema in self.schemas if schema.schema_id == wanted)

    @staticmethod
    def of(location: str, version: ViewVersion, schema: Schema, properties: Mapping[str, str]) -> ViewMetadata:
        """The metadata of a new view.

        Args:
            location: Its folder.
            version: Its definition; number and schema id are chosen here.
            schema: Its columns.
            properties: Its properties.
        """
        first = replace(version, version_id=1, schema_id=0)
        columns = Schema(*schema.fields, schema_id=0)
        log = ((first.timestamp_ms, 1),)
        return ViewMetadata(str(uuid.uuid4()), location, (columns,), 1, (first,), log, dict(properties))

    def replaced_by(self, version: ViewVersion, schema: Schema, properties: Mapping[str, str]) -> ViewMetadata:
        """The metadata after a new definition; older ones beyond those to be kept are forgotten.

        Args:
            version: The definition; number and schema id are chosen here.
            schema: Its columns.
            properties: What is added to the properties.
        """
        same = next((known for known in self.schemas if known == schema), None)
        number = max(known.schema_id for known in self.schemas) + 1
        used = same or Schema(*schema.fields, schema_id=number)
        schemas = self.schemas if same is not None else (*self.schemas, used)
        made = replace(
            version,
            version_id=max(known.version_id for known in self.versions) + 1,
            schema_id=used.schema_id,
        )
        if self.current_version.has_definition(made) and same is not None and self.schema == schema:
            return replace(self, properties={**self.properties, **properties})
        text = {**self.properties, **properties}.get(_VERSIONS_TO_KEEP, "")
        keep = max(1, int(text)) if text.isdecimal() and len(text) < 10 else _USUAL_VERSIONS_TO_KEEP
        versions = (*self.versions, made)[-keep:]
        known = {kept.version_id for kept in versions}
        # an entry of a version that is forgotten ends the history
        log = [*self.version_log, (made.timestamp_ms, made.version_id)]
        first = max((at + 1 for at, (_, number) in enumerate(log) if number not in known), default=0)
        return replace(
            self,
            schemas=schemas,
            current_version_id=made.version_id,
            versions=versions,
            version_log=tuple(log[first:]),
            properties={**self.properties, **properties},
        )

    def to_json(self) -> dict[str, Any]:
        """The metadata as JSON."""
        return {
            "view-uuid": self.view_uuid,
            "format-version": _FORMAT_VERSION,
            "location": self.location,
            "schemas": [schema.to_json() for schema in self.schemas],
            "current-version-id": self.current_version_id,
            "versions": [version.to_json() for version in self.versions],
            "version-log": [{"timestamp-ms": time, "version-id": number} for time, number in self.version_log],
            "properties": dict(self.properties),
            **self.unknown,
        }


def decode_view(data: bytes, *, location: str | None = None) -> ViewMetadata:
    """Read the bytes of a view's metadata file.

    Args:
        data: The JSON text, compressed or not.
        location: The file, for messages.

    Raises:
        FormatError: It is not the metadata of a view, or contradicts itself.
        UnsupportedError: Its format version or a type is not supported.
    """
    try:
        return parse_view(decode_json(inflate_metadata(data)))
    except (FormatError, UnsupportedError) as error:
        error.location = location
        raise


def encode_view(metadata: ViewMetadata) -> bytes:
    """The bytes of a view's metadata file."""
    return encode_json(metadata)


def parse_view(value: Any, at: str = "") -> ViewMetadata:
    """Read the decoded JSON of a view's metadata.

    Raises:
        FormatError: It is not the metadata of a view, or contradicts itself.
        UnsupportedError: Its format version or a type is not supported.
    """
    found = JsonObject(value, at, _RULE)
    version = found.integer("format-version")
    if version != _FORMAT_VERSION:
        raise UnsupportedError(f"format version {version} of views is not supported", rule=_RULE)
    metadata = ViewMetadata(
        found.text("view-uuid"),
        found.text("location"),
        tuple(Schema.from_json(one) for one in found.objects("schemas", required=True)),
        found.integer("current-version-id"),
        tuple(ViewVersion.from_json(one) for one in found.objects("versions", required=True)),
        tuple((one.long("timestamp-ms"), one.integer("version-id")) for one in found.objects("version-log")),
        found.strings("properties"),
        found.unknown(_NAMES),
    )
    _check_unique(found, "versions", [version.version_id for version in metadata.versions])
    _check_unique(found, "schemas", [schema.schema_id for schema in metadata.schemas])
    if metadata.current_version_id not in {known.version_id for known in metadata.versions}:
        raise found.error("current-version-id", f"there is no version {metadata.current_version_id}")
    schemas = {schema.schema_id for schema in metadata.schemas}
    for known in metadata.versions:
        if known.schema_id not in schemas:
            raise found.error("versions", f"version {known.version_id} has schema {known.schema_id}, which is missing")
    return metadata


def _check_unique(found: JsonObject, name: str, numbers: list[int]) -> None:
    seen = set()
    for number in numbers:
        if number in seen:
            raise found.error(name, f"there are two of number {number}")
        seen.add(number)
