"""Validation: unsupported options are refused by name and never silently ignored.

Five questions are distinguished: whether a table can be valid (`check_schema`), whether commits can obey options that
are being set (`check_options`), whether it can be read without wrong rows (`check_readable`), whether rows can be
written to it with everything that it promises (`check_writable`), and whether its rows can be rewritten to another file
(`check_rewritable`).

Spec: docs/formats/paimon.md § 14; Paimon Java, `SchemaValidation`.
"""

from __future__ import annotations

import difflib
import functools
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.metadata.buckets import check_bucket_key
from skerry.paimon.metadata.option_values import parse_bool, parse_list
from skerry.paimon.metadata.options import ChangelogProducer, CoreOptions, FileFormat, MergeEngine
from skerry.paimon.metadata.paths import POSTPONE_BUCKET
from skerry.paimon.metadata.schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from skerry.paimon.values.types import AtomicType, DataField, TypeRoot, VectorType, types_within
from skerry.table.indexes.definitions import check_index_properties
from skerry.table.statistics.settings import check_statistics_properties

__all__ = ["MATERIALIZED", "check_options", "check_readable", "check_rewritable", "check_schema", "check_writable"]

_RULE: Final = "docs/formats/paimon.md § 14"
_SYSTEM_NAMES: Final = (SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", "rowkind", "_ROW_ID")
_DEFAULT_FUNCTION: Final = "default-aggregate-function"
_READ_OVERWRITE: Final = "streaming-read-overwrite"


# What a table can be ------------------------------------------------------------------------------------------------


def check_schema(schema: TableSchema) -> None:
    """Refuse an invalid schema.

    Raises:
        SchemaError: A column, key or option conflicts with the others; the message names it.
        UnsupportedError: An option has an unknown value.

    Spec: docs/formats/paimon.md § 14.3.
    """
    for field in schema.fields:
        if field.name in _SYSTEM_NAMES or field.name.startswith(KEY_PREFIX):
            raise SchemaError(f"column {field.name!r} has a name that is reserved by Paimon", rule=_RULE)
    _check_keys(schema)
    _check_buckets(schema)
    _check_changelog(schema)
    _check_rows(schema)
    for name in schema.options:
        if name.startswith("fields."):
            _check_field_option(schema, name)


def check_options(schema: TableSchema, before: Mapping[str, str] = MappingProxyType({})) -> None:
    """Refuse a schema with new options that commits could not obey, or that is invalid; warn of misspelt names.

    Args:
        schema: The schema.
        before: The options until now. The values of those that stay are not checked: another engine may obey them.

    Raises:
        SchemaError: A column, key or option conflicts with the others, or an option has an invalid value.
        UnsupportedError: An option has an unknown value.
    """
    check_schema(schema)
    changed = {name: text for name, text in schema.options.items() if before.get(name) != text}
    _warn_of_misspelt(name for name in changed if name not in before)
    CoreOptions(changed).check()
    check_statistics_properties(changed, schema.arrow_schema)
    check_index_properties(changed, schema.arrow_schema)


def _check_keys(schema: TableSchema) -> None:
    for what, keys in (("primary key", schema.primary_keys), ("partition key", schema.partition_keys)):
        if len(set(keys)) < len(keys):
            raise SchemaError(f"a {what} has a column twice: {', '.join(keys)}")
        for field in schema.fields_of(keys):
            if not _is_comparable(field):
                raise SchemaError(f"column {field.name!r} of type {field.type} cannot be part of a {what}")
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise SchemaError("the primary key must have a column that is not a partition key")
    if schema.partition_keys and len(schema.partition_keys) == len(schema.fields):
        raise SchemaError("a table must have a column that is not a partition key")
    for field in schema.fields_of(schema.primary_keys):
        if field.type.nullable:
            raise SchemaError(f"column {field.name!r} of the primary key must be NOT NULL")


def _is_comparable(field: DataField) -> bool:
    """Whether the values of a column have an order."""
    return isinstance(field.type, AtomicType) and field.type.root not in (TypeRoot.VARIANT, TypeRoot.BLOB)


def _is_blob(field: DataField) -> bool:
    return isinstance(field.type, AtomicType) and field.type.root is TypeRoot.BLOB


def _check_buckets(schema: TableSchema) -> None:
    options = CoreOptions(schema.options)
    bucket, has_key = options.bucket, "bucket-key" in schema.options
    if bucket == -1:
        if has_key:
            raise SchemaError("bucket-key needs the option bucket with the number of buckets", rule=_RULE)
        return
    if bucket < 1 and not (bucket == POSTPONE_BUCKET and schema.primary_keys):
        raise SchemaError(f"bucket must be 1 or more, or -1, found {bucket}", rule=_RULE)
    if not schema.bucket_keys:
        raise SchemaError("an append table with a fixed number of buckets needs the option bucket-key", rule=_RULE)
    fields = schema.fields_of(schema.bucket_keys)
    for field in fields:
        if not _is_comparable(field):
            raise SchemaError(f"column {field.name!r} of type {field.type} cannot be part of bucket-key", rule=_RULE)
        if schema.primary_keys and field.name not in schema.primary_keys:
            raise SchemaError(f"column {field.name!r} of bucket-key must be part of the primary key", rule=_RULE)
    check_bucket_key(options.bucket_function, [field.type for field in fields])


def _check_changelog(schema: TableSchema) -> None:
    """Refuse options of changelogs that contradict each other or the table."""
    options = CoreOptions(schema.options)
    producer = options.changelog_producer
    if not schema.primary_keys and producer is not ChangelogProducer.NONE:
        raise SchemaError("changelog-producer needs a primary key", rule=_RULE)
    if not schema.primary_keys and options.full_compaction_delta_commits is not None:
        raise SchemaError("full-compaction.delta-commits needs a primary key", rule=_RULE)
    by_compaction = producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)
    if by_compaction and parse_bool(_READ_OVERWRITE, schema.options.get(_READ_OVERWRITE, "false")):
        raise SchemaError(f"{_READ_OVERWRITE} cannot be combined with changelog-producer={producer.value}", rule=_RULE)
    least, most = options.changelog_num_retained_min, options.changelog_num_retained_max
    if least < 1 or most < least:
        raise SchemaError(f"options changelog.num-retained: at least {least} and at most {most} is not a range")


def _check_rows(schema: TableSchema) -> None:
    """Refuse conflicting options of merging and deletes."""
    options = CoreOptions(schema.options)
    producer, engine = options.changelog_producer, options.merge_engine
    if engine is MergeEngine.FIRST_ROW:
        if options.sequence_fields:
            raise SchemaError("sequence.field cannot be combined with merge-engine=first-row", rule=_RULE)
        if options.deletion_vectors:
            raise SchemaError("deletion-vectors.enabled cannot be combined with merge-engine=first-row", rule=_RULE)
        if producer not in (ChangelogProducer.NONE, ChangelogProducer.LOOKUP):
            raise SchemaError("merge-engine=first-row needs changelog-producer=none or lookup", rule=_RULE)
    if options.deletion_vectors and producer is ChangelogProducer.FULL_COMPACTION:
        raise SchemaError(
            "deletion-vectors.enabled cannot be combined with changelog-producer=full-compaction", rule=_RULE
        )
    for option, names in (("sequence.field", options.sequence_fields), ("rowkind.field", _one(options.rowkind_field))):
        for name in names:
            if name not in schema.fields_by_name:
                raise SchemaError(f"{option} names {name!r}, which is not a column", rule=_RULE)
    if len(set(options.sequence_fields)) < len(options.sequence_fields):
        raise SchemaError("sequence.field names a column twice", rule=_RULE)
    for name in options.sequence_fields:
        if options.field(name, "aggregate-function") is not None:
            raise SchemaError(f"column {name!r} of sequence.field cannot have an aggregate-function", rule=_RULE)
    if options.sequence_fields and schema.is_cross_partition:
        raise SchemaError("sequence.field needs all partition keys in the primary key", rule=_RULE)
    _check_row_ids(schema, options)


def _check_row_ids(schema: TableSchema, options: CoreOptions) -> None:
    if options.data_evolution and not options.row_tracking:
        raise SchemaError("data-evolution.enabled needs row-tracking.enabled=true", rule=_RULE)
    apart = [field.name for field in schema.fields if _is_blob(field)]
    if options.options.get("vector.file.format", "").strip():
        apart += [field.name for field in schema.fields if isinstance(field.type, VectorType)]
    if apart and not options.data_evolution:
        raise SchemaError(f"column {apart[0]!r} in files of its own needs data-evolution.enabled=true", rule=_RULE)
    if apart and len(apart) == len(schema.fields):
        raise SchemaError("a table must have a column that is not in files of its own", rule=_RULE)
    if options.row_tracking and (schema.primary_keys or options.bucket != -1):
        raise SchemaError("row-tracking.enabled needs a table without primary key and buckets", rule=_RULE)


def _one(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)


def _check_field_option(schema: TableSchema, option: str) -> None:
    """Refuse column options of unknown columns."""
    named = option.split(".")[1]
    if named == _DEFAULT_FUNCTION:
        return
    for name in parse_list(named):
        if name not in schema.fields_by_name:
            raise SchemaError(f"option {option} names {name!r}, which is not a column", rule=_RULE)


# What can be read ---------------------------------------------------------------------------------------------------

_UNREADABLE_IF_TRUE: Final = (
    "chain-table.enabled",
    "pk-clustering-override",
    "query-auth.enabled",
    "sequence.snapshot-ordering",
    "postpone.merge-on-read",
)
_UNREADABLE_IF_SET: Final = (
    "blob-view-field",
    "scan.fallback-delta-branch",
    "scan.primary-branch",
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.version",
    "scan.timestamp",
    "scan.timestamp-millis",
    "scan.watermark",
    "scan.file-creation-time-millis",
    "scan.creation-time-millis",
    "scan.bucket",
    "incremental-between",
    "incremental-between-timestamp",
    "incremental-to-auto-tag",
)
"""Options that change the meaning of a plain read; scans are asked for these things explicitly instead."""

MATERIALIZED: Final = "materialized-table"
"""Type of tables that Flink fills with the rows of a query; their files are as of all others."""
_PLAIN_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "type": ("table", MATERIALIZED),
    "manifest.format": ("avro", "orc"),
    "scan.mode": ("default", "latest", "latest-full", "full"),
}
_PATH_STRATEGY: Final = "data-file.external-paths.strategy"


_STORED_DESCRIPTORS: Final = ("blob-descriptor-field", "blob.stored-descriptor-fields")


def check_readable(schema: TableSchema) -> None:
    """Refuse a table whose rows cannot be read, or would be wrong.

    Raises:
        UnsupportedError: An option asks for something that is not supported; the message names it.
        SchemaError: An option has an invalid value.
    """
    options = schema.options
    _refuse_if_true(options, _UNREADABLE_IF_TRUE)
    _refuse_if_set(options, _UNREADABLE_IF_SET)
    for name, plain in _PLAIN_VALUES.items():
        if options.get(name, plain[0]).strip().lower() not in plain:
            raise UnsupportedError(f"table option {name}={options[name]} is not supported", rule=_RULE)
    core = CoreOptions(options)
    for field in schema.fields:
        blobs = [type_ for type_ in types_within(field.type) if isinstance(type_, AtomicType)]
        if not isinstance(field.type, AtomicType) and any(type_.root is TypeRoot.BLOB for type_ in blobs):
            raise UnsupportedError(f"column {field.name!r} of type {field.type}: BLOBs inside others are not supported")
    if any(options.get(name, "").strip() for name in _STORED_DESCRIPTORS) and not core.blob_as_descriptor:
        raise UnsupportedError("table option blob-descriptor-field needs blob-as-descriptor=true", rule=_RULE)
    _ = (core.merge_engine, core.changelog_producer, core.bucket_function, core.bucket)  # raise if unknown


def _refuse_if_true(options: Mapping[str, str], names: tuple[str, ...]) -> None:
    for name in names:
        if parse_bool(name, options.get(name, "false")):
            raise UnsupportedError(f"table option {name}=true is not supported", rule=_RULE)


def _refuse_if_set(options: Mapping[str, str], names: tuple[str, ...]) -> None:
    for name in names:
        if options.get(name, "").strip():
            raise UnsupportedError(f"table option {name}={options[name]} is not supported", rule=_RULE)


# What can be written ------------------------------------------------------------------------------------------------

_UNWRITABLE_IF_TRUE: Final = (
    "clustering.incremental",
    "primary-key.nullable",
)
_UNWRITABLE_IF_SET: Final = (
    "clustering.columns",
    "commit.callbacks",
    "global-index.external-path",
    "metastore.tag-to-partition",
    "pk-bitmap.index.columns",
    "pk-btree.index.columns",
    "pk-full-text.index.columns",
    "pk-multivalue.index.columns",
    "pk-vector.index.columns",
    "tag.callbacks",
    "upsert-key",
)


def check_writable(schema: TableSchema) -> None:
    """Refuse a table that promises something that rows written here would not have.

    Raises:
        UnsupportedError: An option asks for something that is not supported; the message names it.
        SchemaError: An option has an invalid value, or conflicts with others.
    """
    check_readable(schema)
    check_schema(schema)
    options = schema.options
    _refuse_if_true(options, _UNWRITABLE_IF_TRUE)
    _refuse_if_set(options, _UNWRITABLE_IF_SET)
    if options.get("type", "").strip().lower() == MATERIALIZED:
        raise UnsupportedError(
            f"table option type={MATERIALIZED} is not supported for writing: Flink refreshes its rows from a query",
            rule=_RULE,
        )
    if options.get("data-file.external-paths", "").strip():
        # without a strategy the paths only say where files may be, and writers keep using the table's folder
        strategy = options.get(_PATH_STRATEGY, "none").strip().lower()
        if strategy != "none":
            raise UnsupportedError(f"table option {_PATH_STRATEGY}={strategy} is not supported", rule=_RULE)
    core = CoreOptions(options)
    formats = {core.file_format, core.changelog_file_format}  # raise if unknown
    formats |= {core.of_level(level).file_format for level in core.levels}
    if any(options.get(name, "").strip() for name in _STORED_DESCRIPTORS):
        raise UnsupportedError("table option blob-descriptor-field is not supported for writing", rule=_RULE)
    if (text := options.get("vector.file.format", "parquet").strip().lower()) != "parquet":
        raise UnsupportedError(f"table option vector.file.format={text} is not supported for writing", rule=_RULE)
    if formats - {FileFormat.PARQUET}:
        _check_parquet_only(schema)
    if schema.primary_keys:
        _check_writable_keys(schema, core)


def _check_parquet_only(schema: TableSchema) -> None:
    """Refuse columns that files in other formats than Parquet do not hold."""
    for field in schema.fields:
        for type_ in types_within(field.type):
            if isinstance(type_, VectorType) or type_.root is TypeRoot.VARIANT:
                raise UnsupportedError(
                    f"column {field.name!r} of type {field.type} is written to Parquet files only: set file.format and "
                    "changelog-file.format to parquet, and let no rows wait for buckets in Avro files",
                    rule=_RULE,
                )


def _check_writable_keys(schema: TableSchema, options: CoreOptions) -> None:
    """Refuse primary-key tables in which readers would not see what is written."""
    if options.bucket == POSTPONE_BUCKET and options.postpone_waits:
        _check_parquet_only(schema)
    moves_keys = schema.is_cross_partition and options.bucket == -1
    if moves_keys and options.merge_engine is MergeEngine.DEDUPLICATE and options.ignore_delete:
        raise UnsupportedError(
            "table option ignore-delete=true: a row whose key moves to another partition would stay in the old one",
            rule=_RULE,
        )


# What can be rewritten -----------------------------------------------------------------------------------------------


def check_rewritable(schema: TableSchema, what: str, name: str) -> None:
    """Refuse a table whose files cannot be rewritten, since others have columns of their rows.

    Args:
        schema: The table's schema.
        what: What cannot be done with such tables, for the message.
        name: The table.

    Raises:
        UnsupportedError: There may be such files.
    """
    if CoreOptions(schema.options).data_evolution:
        raise UnsupportedError(
            f"table option data-evolution.enabled=true: {what}, as several files have columns of the same rows",
            location=name,
        )


# Names ---------------------------------------------------------------------------------------------------------------


@functools.cache
def _known_names() -> frozenset[str]:
    """Paimon Java 1.4: `CoreOptions`, and the options of its indexes and of Iceberg's metadata; also older names."""
    return frozenset(Path(__file__).with_name("option_names.txt").read_text().split())


_OF_OTHERS: Final = ("fields.", "file-index.", "skerry.", "parquet.", "orc.", "avro.")
"""What follows these is named after columns, or belongs to the file formats."""
_NEAR: Final = 0.88


def _warn_of_misspelt(names: Iterable[str]) -> None:
    """Warn of names that are almost those of options; Flink and Spark have others of their own, which are kept."""
    for name in names:
        if name in _known_names() or name.startswith(_OF_OTHERS):
            continue
        if near := difflib.get_close_matches(name, _known_names(), n=1, cutoff=_NEAR):
            warnings.warn(f"nothing obeys the table option {name!r}; did you mean {near[0]!r}?", stacklevel=2)
