"""Selection of the data files that Spark's own Parquet reader reads correctly.

Spark finds columns by field id, and columns that a file lacks are null. That is correct for most files. It is wrong if
rows are deleted, if a missing column has a value (a partition's, or a default), and if a file has another column
with the name of a requested one: conditions reach Spark's Parquet reader by name, and skip row groups by the wrong
column's statistics. It supports some type promotions, but fails on conditions over a promoted decimal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.parquet import read_footer
from skerry.storage import Storage, name
from skerry.table.files.data_file import DataFile
from skerry.table.files.evolution import all_ids, has_ids
from skerry.table.files.scan_task import FileScanTask
from skerry.table.rows.metadata_columns import is_metadata_column
from skerry.table.rows.schema import field_id, is_list
from skerry.variant import is_variant
from skerry.wkb import shapes_of

__all__ = ["FileChoice", "agrees", "read_by_spark"]

_THREADS = 16
_PROMOTED = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}
_NOT_IN_SPARK = (pa.types.is_time, pa.types.is_fixed_size_binary, pa.types.is_null)


def read_by_spark(schema: pa.Schema) -> bool:
    """Whether Spark's Parquet reader supports all of these columns: known types, and stored in files."""
    return not any(is_metadata_column(number) for number in all_ids(schema)) and all(
        _is_known(field) for field in schema
    )


def _is_known(field: pa.Field) -> bool:
    type_ = field.type
    if shapes_of(field) is not None:
        return False  # columns with that annotation have another type in Spark than binary
    if is_variant(type_):
        return False  # without an annotation, which older writers leave out, it is a struct to Spark
    if pa.types.is_nested(type_):
        return all(map(_is_known, _children(type_)))
    if isinstance(type_, pa.BaseExtensionType) or any(is_kind(type_) for is_kind in _NOT_IN_SPARK):
        return False
    return not (pa.types.is_timestamp(type_) and type_.unit == "ns")


def _children(type_: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    return list(type_) if pa.types.is_struct(type_) else [type_.value_field]


@dataclass(frozen=True)
class FileChoice:
    """Decides which files of one read Spark reads.

    Args:
        storage: Access to the files.
        schema: The columns to read, including those of the condition, with field ids.
        history: All schemas of the table, present and past.
        has_name_mapping: Whether the table has files without field ids.
    """

    storage: Storage
    schema: pa.Schema
    history: Sequence[pa.Schema]
    has_name_mapping: bool = False

    @property
    def has_changed(self) -> bool:
        """Whether columns may have another name or type in some file, or another column their name."""
        return self.has_name_mapping or any(not agrees(schema, self.schema) for schema in self.history)

    def divide(
        self, tasks: Iterable[FileScanTask], known: Mapping[str, DataFile]
    ) -> tuple[list[FileScanTask], list[FileScanTask]]:
        """Split files into those that Spark's reader reads correctly and the others.

        Footers are read only if neither the table's history nor its metadata gives the answer.

        Args:
            tasks: The files.
            known: The same files with their metrics, by location.
        """
        native: dict[int, FileScanTask] = {}
        others: dict[int, FileScanTask] = {}
        open_: list[tuple[int, FileScanTask]] = []
        has_changed, ids = self.has_changed, all_ids(self.schema)
        for number, task in enumerate(tasks):
            file = task.data_file
            if _is_never_native(task):
                others[number] = task
                continue
            stored = known[file.location].column_sizes if file.location in known else {}
            if has_changed or any(number not in stored for number in ids & task.constants.keys()):
                open_.append((number, task))
            else:
                native[number] = task
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="skerry-footers") as pool:
            for (number, task), fits in zip(open_, pool.map(lambda item: self._fits(item[1]), open_), strict=True):
                (native if fits else others)[number] = task
        return [native[number] for number in sorted(native)], [others[number] for number in sorted(others)]

    def _fits(self, task: FileScanTask) -> bool:
        footer, _ = read_footer(self.storage, task.data_file.location, file_size=task.data_file.file_size_bytes)
        stored = pq.read_metadata(pa.BufferReader(footer)).schema.to_arrow_schema()
        return has_ids(stored) and _fits_fields(list(stored), list(self.schema), task.constants.keys())


def _is_never_native(task: FileScanTask) -> bool:
    """Whether Spark's reader cannot read a file, whatever is in it."""
    file = task.data_file
    is_parquet = file.file_format == "parquet" and file.key_metadata is None
    return not is_parquet or bool(task.deletes) or name(file.location).startswith(("_", "."))


def agrees(old: Iterable[pa.Field], new: Iterable[pa.Field], *, is_nested: bool = False) -> bool:
    """Whether files of an older schema have the requested columns with the same names and types, or not at all.

    A struct must have all its requested fields: Spark reads one without any as null.
    """
    known = list(old)
    by_name = {field.name.casefold(): field for field in known}
    by_id = {field_id(field): field for field in known}
    for field in new:
        found = by_id.get(field_id(field))
        if by_name.get(field.name.casefold()) is not found:
            return False
        if (found is None and is_nested) or (found is not None and not _is_same(found.type, field.type)):
            return False
    return True


def _is_same(old: pa.DataType, new: pa.DataType) -> bool:
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return agrees(old, new, is_nested=True)
    if pa.types.is_nested(old) and pa.types.is_nested(new) and old.id == new.id:
        pairs = zip(_children(old), _children(new), strict=True)
        return all(_is_same(mine.type, other.type) for mine, other in pairs)
    return bool(old == new)


def _fits_fields(stored: Sequence[pa.Field], wanted: Sequence[pa.Field], constants: Collection[int]) -> bool:
    """Whether Spark's reader finds the requested columns, and no others in their place."""
    by_name = {field.name.casefold(): field for field in stored}
    by_id = {int((field.metadata or {}).get(b"PARQUET:field_id", -1)): field for field in stored}
    if len(by_name) < len(stored):
        return False
    for field in wanted:
        found = by_id.get(field_id(field))
        if by_name.get(field.name.casefold(), found) is not found:
            return False
        if found is None:
            if constants and all_ids(pa.schema([field])) & set(constants):
                return False
        elif not _fits_type(found.type, field.type, constants):
            return False
    return True


def _fits_type(stored: pa.DataType, wanted: pa.DataType, constants: Collection[int]) -> bool:
    if pa.types.is_struct(stored) and pa.types.is_struct(wanted):
        ids = {(field.metadata or {}).get(b"PARQUET:field_id") for field in stored}
        has_all = all(field.metadata[b"PARQUET:field_id"] in ids for field in wanted)
        return has_all and _fits_fields(list(stored), list(wanted), constants)
    if (pa.types.is_map(stored) and pa.types.is_map(wanted)) or (is_list(stored) and is_list(wanted)):
        pairs = zip(_children(stored), _children(wanted), strict=True)
        return all(_fits_type(mine.type, other.type, constants) for mine, other in pairs)
    return stored == wanted or (stored, wanted) in _PROMOTED or _is_text(stored, wanted)


def _is_text(stored: pa.DataType, wanted: pa.DataType) -> bool:
    return (pa.types.is_large_string(stored) and pa.types.is_string(wanted)) or (
        pa.types.is_large_binary(stored) and pa.types.is_binary(wanted)
    )
