"""Data files opened with the schema of a scan: columns are found, converted, and filled in if missing.

A file is read with the schema that its metadata names: columns of the scan are matched to that schema by field id, and
looked up in the file by their name in it. Ids within files are ignored, since some writers write none. The values of
partition keys are those of the partition: files of other origin may lack them, or use other names.

Spec: docs/formats/paimon.md § 2.5, § 8.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.paimon.metadata.schema import LINEAGE_FIELDS, ROW_ID, SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from skerry.paimon.planning.splits import SplitFile
from skerry.paimon.recent_runs import RecentRun, recent_runs
from skerry.paimon.values.arrow_types import arrow_type
from skerry.paimon.values.binary_reading import decode_rows
from skerry.paimon.values.casts import keeps_values
from skerry.paimon.values.stored_types import plan_column
from skerry.paimon.values.types import ArrayType, AtomicType, DataField, MapType, MultisetType, PaimonType, RowType
from skerry.storage import Storage
from skerry.table.files.evolution import FileNames, top_level, with_ids
from skerry.table.files.row_access import listed_rows
from skerry.table.files.stored_file import Part, StoredFile, check_row_count, reading
from skerry.table.files.stored_files import open_stored
from skerry.table.files.variant_paths import paths_of
from skerry.table.predicate import Column, FieldMetrics
from skerry.table.rows.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER
from skerry.table.rows.metadata_columns import ROW_ID as ROW_ID_COLUMN
from skerry.table.rows.schema import FIELD_ID_KEY, field_id

__all__ = [
    "KIND",
    "NUMBER",
    "SYSTEM_COLUMNS",
    "DataFile",
    "columns_in",
    "names_in_files",
    "open_data_file",
    "partition_scalars",
]

_FORMATS: Final = ("parquet", "orc", "avro", "amudai")
_RULE: Final = "docs/formats/paimon.md § 5.4"
_APART: Final = 16
"""Rows are read alone, from the pages that hold them, if there is at most one among so many."""
_KIND_ID: Final = 2_147_482_001
_NUMBER_ID: Final = 2_147_482_002


def _field(name: str, type_: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, type_, nullable=False, metadata={FIELD_ID_KEY: str(number).encode()})


KIND: Final = _field(VALUE_KIND, pa.int8(), _KIND_ID)
"""The kind of a record; ids in files are ignored, and this one belongs to no column."""
NUMBER: Final = _field(SEQUENCE_NUMBER, pa.int64(), _NUMBER_ID)
"""Its sequence number."""
SYSTEM_COLUMNS: Final = pa.schema([NUMBER, KIND])
"""Columns that a scan may request in addition to those of the table, in files of primary-key tables."""

_Step: TypeAlias = tuple[int | None, Callable[[pa.Array], pa.Array] | None, pa.Field]


@dataclass(frozen=True, slots=True)
class DataFile:
    """An open file.

    Args:
        file: Its metadata.
        stored: The file.
        schema: The columns to return.
        then: The requested columns in its own schema, by field id.
        now: The requested columns in the scan's schema, by field id.
        changed: Ids of columns whose type has changed since.
        constants: The values of partition keys, by field id.
    """

    file: SplitFile
    stored: StoredFile
    schema: pa.Schema
    then: dict[int, DataField]
    now: dict[int, DataField]
    changed: frozenset[int]
    constants: Mapping[int, pa.Scalar]

    @property
    def parts(self) -> Sequence[Part]:
        """Its rows, part by part."""
        return self.stored.parts

    def metrics(self, column: Column) -> FieldMetrics | None:
        """What it records about a column in each of its parts; None if nothing."""
        if len(column.path) > 1 or column.field_id in self.changed or column.field_id in self.constants:
            return None
        return self.stored.metrics(column)

    def batches(self, part: Part, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read a part in the columns of `schema`.

        Raises:
            FormatError: The file is corrupt.
            SchemaError: A column does not match the schema.
            UnsupportedError: A column's type has changed in a way that is not supported.
        """
        steps: list[_Step] | None = None
        with reading(self.file.location, self.file.file_format):
            for batch in self.stored.batches(part, batch_rows):
                steps = steps or self._plan(batch.schema)
                yield self._convert(batch, steps)

    def stored_rows(
        self, part: Part, rows: npt.NDArray[np.int64], batch_rows: int
    ) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        """Read rows of a part in the columns of `schema`, with their positions; few rows without the others.

        Args:
            part: The part.
            rows: int64[n], ascending positions in the file, all of the part.
            batch_rows: The most rows of a batch.

        Raises:
            SkerryError: As `batches`.
        """
        take = listed_rows(self.stored)
        if take is not None and _APART * len(rows) <= max(part.row_count, _APART):
            for start in range(0, len(rows), batch_rows):
                chosen = rows[start : start + batch_rows]
                yield self.converted(take(part, chosen)), chosen
            return
        first = part.first_row
        for batch in self.batches(part, batch_rows):
            start, end = np.searchsorted(rows, [first, first + batch.num_rows])
            if start < end:
                yield batch.take(pa.array(rows[start:end] - first)), rows[start:end]
            first += batch.num_rows

    def converted(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of `stored` in the columns of `schema`; see `batches`."""
        with reading(self.file.location, self.file.file_format):
            return self._convert(stored, self._plan(stored.schema))

    def _plan(self, stored: pa.Schema) -> list[_Step]:
        found = top_level(stored)
        steps: list[_Step] = []
        for field in self.schema:
            number = field_id(field)
            index = found.get(number)
            if number in self.constants:
                steps.append((None, _repeated(self.constants[number]), field))
                continue
            if index is None:
                if number in self.then or number in _SYSTEM_IDS:
                    raise SchemaError(f"column {field.name!r} of the file's schema is missing from the file")
                steps.append((None, None, field))
                continue
            type_ = stored.field(index).type
            if paths_of(field) is not None:  # values are taken from it as it is
                steps.append((index, _as_it_is, field.with_type(type_)))
                continue
            if number in _SYSTEM_IDS or number in _LINEAGE_IDS:
                convert: Callable[[pa.Array], pa.Array] = _to_type(field.type)
            else:
                convert = plan_column(type_, self.then[number].type, self.now[number].type, field.type, (field.name,))
            steps.append((index, convert, field))
        return steps

    def _convert(self, batch: pa.RecordBatch, steps: list[_Step]) -> pa.RecordBatch:
        arrays = []
        for index, convert, field in steps:
            if convert is None:
                arrays.append(pa.nulls(batch.num_rows, field.type))
                continue
            try:
                arrays.append(convert(pa.nulls(batch.num_rows) if index is None else batch.column(index)))
            except pa.ArrowException as error:
                raise SchemaError(f"column {field.name!r} holds a value that does not fit its type: {error}") from error
        if not arrays:
            return _without_columns(batch.num_rows)
        schema = pa.schema([field for _, _, field in steps], metadata=self.schema.metadata)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


_SYSTEM_IDS: Final = (_KIND_ID, _NUMBER_ID)
_LINEAGE_IDS: Final = (ROW_ID_COLUMN, LAST_UPDATED_SEQUENCE_NUMBER)


def _as_it_is(array: pa.Array) -> pa.Array:
    return array


def _to_type(type_: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    return lambda array: array if array.type == type_ else array.cast(type_)


def _repeated(value: pa.Scalar) -> Callable[[pa.Array], pa.Array]:
    return lambda array: pa.repeat(value, len(array))


def _without_columns(row_count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * row_count, pa.struct([])))


def open_data_file(
    storage: Storage,
    file: SplitFile,
    then: TableSchema,
    now: TableSchema,
    wanted: pa.Schema,
    partition: Mapping[int, pa.Scalar] | None = None,
    *,
    recent: bool = False,
) -> DataFile:
    """Open a file and read its footer.

    Args:
        storage: Access to it.
        file: The file.
        then: The schema that it was written with.
        now: The schema of the scan.
        wanted: The columns to read: those of `now`, possibly with only some members of structs, and system columns.
        partition: The values of partition keys, by field id.
        recent: Whether rows that this process has kept since it wrote them do instead of the file.

    Raises:
        FormatError: The file is corrupt, or its row count differs from its metadata.
        NotFoundError: It is missing.
        UnsupportedError: Its format is not supported.
    """
    if file.file_format not in _FORMATS:
        raise UnsupportedError(f"reading {file.file_format} files is not supported", location=file.location)
    was = {field.id: field for field in columns_in(file, then)}
    is_ = {field.id: field for field in now.fields}
    constants = partition or {}
    ids = [field_id(field) for field in wanted]
    changed = frozenset(number for number in ids if number in was and _differs(was[number].type, is_[number].type))
    names = names_in_files(then)
    schema = _read_schema(was, wanted, constants)
    stored = _kept(file.location, schema, names) if recent else None
    if stored is None:
        stored = open_stored(storage, file.location, file.file_format, schema, names)
    check_row_count(stored.row_count, file.row_count, file.location)
    present = {number: was[number] for number in ids if number in was}
    return DataFile(file, stored, wanted, present, is_, changed, constants)


def _kept(location: str, schema: pa.Schema, names: FileNames) -> StoredFile | None:
    """The columns of a file that this process has just written; None if it has not kept them."""
    rows = recent_runs().find(location)
    if rows is None:
        return None
    rows = rows.select([field.name for field in rows.schema if names.get((field.name,)) in top_level(schema)])
    return RecentRun(pa.RecordBatch.from_arrays(rows.columns, schema=with_ids(rows.schema, names)))


def partition_scalars(schema: TableSchema, partition: bytes) -> dict[int, pa.Scalar]:
    """The values of the partition keys, by field id.

    Args:
        schema: Whose keys they are.
        partition: The values as a row with arity.

    Raises:
        FormatError: It is not a valid row of the keys.
    """
    keys = schema.partition_fields
    if not keys:
        return {}
    columns = decode_rows([key.type for key in keys], [partition])
    return {key.id: column[0] for key, column in zip(keys, columns, strict=True)}


def columns_in(file: SplitFile, then: TableSchema) -> tuple[DataField, ...]:
    """The columns of a table that a file has.

    Args:
        file: The file.
        then: The schema that it was written with.

    Raises:
        FormatError: It names a column that the schema does not have.
    """
    if file.write_cols is None:
        return then.fields
    for name in file.write_cols:
        if name not in then.fields_by_name and name not in LINEAGE_FIELDS:
            raise FormatError(
                f"the metadata names column {name!r}, which schema {then.id} does not have",
                location=file.location,
                rule=_RULE,
            )
    return tuple(then.fields_by_name[name] for name in file.write_cols if name in then.fields_by_name)


def _differs(then: PaimonType, now: PaimonType) -> bool:
    if isinstance(then, AtomicType) and isinstance(now, AtomicType):
        return not keeps_values(then, now)
    return arrow_type(then) != arrow_type(now)


def _read_schema(was: dict[int, DataField], wanted: pa.Schema, constants: Collection[int]) -> pa.Schema:
    """The columns to read, in the types that they have in the file."""
    fields = []
    for field in wanted:
        if field_id(field) in constants:
            continue
        then = was.get(field_id(field))
        if then is None:
            if field_id(field) in _SYSTEM_IDS or field_id(field) in _LINEAGE_IDS:
                fields.append(field)
        elif isinstance(then.type, RowType) and pa.types.is_struct(field.type):
            fields.append(field)  # possibly with only some of its members
        else:
            fields.append(field.with_type(arrow_type(then.type, then.id)))
    return pa.schema(fields)


# Names in files -----------------------------------------------------------------------------------------------------


def names_in_files(schema: TableSchema) -> FileNames:
    """The field ids of a file's columns by path, members of structs included."""
    if schema.primary_keys:
        names = FileNames({(VALUE_KIND,): _KIND_ID, (SEQUENCE_NUMBER,): _NUMBER_ID})
    else:
        names = FileNames({(ROW_ID,): ROW_ID_COLUMN, (SEQUENCE_NUMBER,): LAST_UPDATED_SEQUENCE_NUMBER})

    def walk(type_: PaimonType, path: tuple[str, ...]) -> None:
        match type_:
            case RowType(fields):
                for field in fields:
                    names[(*path, field.name)] = field.id
                    walk(field.type, (*path, field.name))
            case ArrayType(element):
                walk(element, (*path, "element"))
            case MapType(key, value):
                walk(key, (*path, "key"))
                walk(value, (*path, "value"))
            case MultisetType(element):
                walk(element, (*path, "key"))

    for field in schema.fields:
        names[(field.name,)] = field.id
        walk(field.type, (field.name,))
    return names
