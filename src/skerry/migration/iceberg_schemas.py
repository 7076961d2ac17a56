"""The columns of a Paimon table in an Iceberg table, and how they are found in its files.

Iceberg finds columns in a file by the field ids in it; where it has none, by a name mapping. Paimon finds them by the
names that they had when the file was written. If the two disagree, the file is refused.

Spec: Iceberg spec, Column Projection, Name Mapping Serialization; docs/formats/paimon.md § 2.5, § 8.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from skerry.errors import SchemaError, UnsupportedError
from skerry.iceberg.evolution.schema_evolution import NAME_MAPPING_PROPERTY
from skerry.iceberg.jobs.add_files import file_schema
from skerry.iceberg.metadata.arrow_schema import to_iceberg_schema
from skerry.iceberg.metadata.name_mapping import MappedField, NameMapping
from skerry.iceberg.metadata.schema import Schema, index_by_id
from skerry.iceberg.metadata.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
)
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.values.types import (
    ArrayType,
    AtomicType,
    DataField,
    MapType,
    MultisetType,
    PaimonType,
    RowType,
    TypeRoot,
)
from skerry.parquet import read_metadata
from skerry.table.files.evolution import names_of
from skerry.table.work.tasks import FileTask

__all__ = ["FileShape", "NamesInFiles", "iceberg_schema", "read_shape"]

_Path: TypeAlias = tuple[str, ...]
_MILLISECOND_DIGITS: Final = 3
_MICROSECOND_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class FileShape:
    """Facts from the footer of a data file that are not in its table's metadata.

    Args:
        names: Its fields at every depth by path, with their ids; empty if the footer was not read.
        split_offsets: Where its row groups begin, in bytes.
    """

    names: Mapping[_Path, int | None] = field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()


def read_shape(task: FileTask) -> FileShape:
    """Read the footer of a Parquet file.

    Raises:
        FormatError: It is corrupt, or not Parquet.
    """
    footer = read_metadata(task.storage, task.location)
    return FileShape(names_of(file_schema(footer)), footer.split_offsets)


def iceberg_schema(schema: TableSchema, format_version: int) -> Schema:
    """The columns of a Paimon table, with the field ids that they have there.

    Raises:
        UnsupportedError: A column's type has no counterpart that reads the same files; the column is named.
    """
    for column in schema.fields:
        for name, type_ in _types(column):
            if type_.root is TypeRoot.TIME:
                raise UnsupportedError(
                    f"column {name!r} of type {type_}: Paimon's files hold milliseconds where Iceberg's hold "
                    "microseconds"
                )
            is_moment = type_.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
            if is_moment and type_.precision > _MICROSECOND_DIGITS:
                raise UnsupportedError(
                    f"column {name!r} of type {type_}: Iceberg's timestamps have microseconds, and those with "
                    "nanoseconds are stored differently"
                )
    return to_iceberg_schema(schema.arrow_schema, format_version=format_version)


def _types(column: DataField) -> Iterator[tuple[str, AtomicType]]:
    """The primitive types with their dotted paths."""
    stack: list[tuple[str, PaimonType]] = [(column.name, column.type)]
    while stack:
        name, type_ = stack.pop()
        match type_:
            case AtomicType():
                yield name, type_
            case RowType(fields):
                stack += [(f"{name}.{member.name}", member.type) for member in fields]
            case ArrayType(element) | MultisetType(element):
                stack.append((f"{name}.element", element))
            case MapType(key, value):
                stack += [(f"{name}.key", key), (f"{name}.value", value)]


class NamesInFiles:
    """Collects the names of a table's columns in its files.

    Args:
        now: The table's newest schema.
        schema_of: Its schemas by id.
    """

    def __init__(self, now: TableSchema, schema_of: Callable[[int], TableSchema]) -> None:
        self._now = index_by_id(to_iceberg_schema(now.arrow_schema))
        self._schema_of = schema_of
        self._checked: dict[int, Mapping[_Path, int]] = {}
        self._refused: dict[int, str] = {}
        self._by_name: dict[_Path, int] = {}

    def add(self, schema_id: int, shape: FileShape, location: str) -> None:
        """Add a file.

        Args:
            schema_id: The schema that it was written with.
            shape: Its footer.
            location: The file, for messages.

        Raises:
            SchemaError: Its own field ids mean other columns, or one of its names means another column in other files.
            UnsupportedError: A column has changed since in a way that Iceberg does not support.
        """
        expected = self._checked.get(schema_id)
        if expected is None:
            then = self._schema_of(schema_id)
            expected = self._checked[schema_id] = self._check(then)
            if (reason := self._why_not_parquet(then)) is not None:
                self._refused[schema_id] = reason
        if shape.names and schema_id in self._refused:
            raise UnsupportedError(self._refused[schema_id], location=location)
        own = {path: number for path, number in shape.names.items() if path in expected}
        if any(number is not None for number in own.values()):
            for path, number in own.items():
                if number != expected[path]:
                    raise SchemaError(
                        f"column {'.'.join(path)!r} has field id {number} in the file but {expected[path]} in the "
                        "table; Iceberg uses that of the file, so rewrite it: compact(full=True)",
                        location=location,
                    )
            return
        for path, number in expected.items():
            if self._by_name.setdefault(path, number) != number:
                raise SchemaError(
                    f"column {'.'.join(path)!r} of a file without field ids is another column than in older files; "
                    "rewrite them: compact(full=True)",
                    location=location,
                )

    def _check(self, then: TableSchema) -> Mapping[_Path, int]:
        """The fields of a schema by path, if the table's columns can be read from files that were written with it."""
        arrow = then.arrow_schema
        old = index_by_id(to_iceberg_schema(arrow))
        for number, column in self._now.items():
            if number in old and not _reads(old[number].field_type, column.field_type):
                raise UnsupportedError(
                    f"column {column.name!r} was of type {old[number].field_type} in schema {then.id} and is "
                    f"{column.field_type} now, which Iceberg cannot convert; rewrite the files: compact(full=True)"
                )
        return {path: number for path, number in names_of(arrow).items() if number is not None}

    def _why_not_parquet(self, then: TableSchema) -> str | None:
        """A problem with the Parquet files of a schema: Iceberg Java takes milliseconds in footers for microseconds."""
        for column in then.fields:
            for name, type_ in _types(column):
                is_moment = type_.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
                if is_moment and type_.precision <= _MILLISECOND_DIGITS and column.id in self._now:
                    return (
                        f"column {name!r} of type {type_}: the Parquet file contains milliseconds, which other readers "
                        "of Iceberg tables compare as microseconds, and so miss rows; change it to TIMESTAMP(6) and "
                        "rewrite the files: compact(full=True)"
                    )
        return None

    def mapping(self) -> dict[str, str] | None:
        """The name mapping property for files without field ids; None if there are no such files."""
        if not self._by_name:
            return None
        return {NAME_MAPPING_PROPERTY: NameMapping(_mapped(self._by_name)).to_text()}


_PROMOTED: Final[dict[PrimitiveType, PrimitiveType]] = {IntegerType(): LongType(), FloatType(): DoubleType()}


def _reads(then: IcebergType, now: IcebergType) -> bool:
    """Whether a column of one type can be read as another; members of nested types are checked separately.

    Spec: Iceberg spec, Schema Evolution: type promotions.
    """
    if not (isinstance(then, PrimitiveType) and isinstance(now, PrimitiveType)):
        return type(then) is type(now)
    if isinstance(then, DecimalType) and isinstance(now, DecimalType):
        return then.scale == now.scale and then.precision <= now.precision
    return then == now or _PROMOTED.get(then) == now


def _mapped(names: Mapping[_Path, int]) -> tuple[MappedField, ...]:
    """Names by path as a tree of field ids with all their names."""
    found: dict[int, list[str]] = {}
    parts: dict[int, dict[_Path, int]] = {}
    for path, number in names.items():
        if len(path) == 1:
            known = found.setdefault(number, [])
            known += [path[0]] if path[0] not in known else []
    for path, number in names.items():
        if len(path) > 1:
            parts.setdefault(names[path[:1]], {})[path[1:]] = number
    return tuple(MappedField(number, tuple(texts), _mapped(parts.get(number, {}))) for number, texts in found.items())
