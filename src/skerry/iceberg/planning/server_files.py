"""Data files and delete files in the JSON of a server that plans scans, checked and turned into columns.

Spec: Iceberg REST specification; Iceberg spec, JSON single-value serialization.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from skerry.errors import FormatError, SchemaError, SkerryError
from skerry.iceberg.manifests.avro_schemas import DATA_FILE_FIELDS, ENTRY_FIELDS, arrow_type
from skerry.iceberg.manifests.manifest import FileContent
from skerry.iceberg.metadata.arrow_schema import to_arrow_type
from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.metadata.partition_spec import PartitionField, PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.single_values import value_from_json
from skerry.iceberg.metadata.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from skerry.iceberg.metadata.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from skerry.table.rows.schema import FIELD_ID_KEY
from skerry.table.rows.values import encode_value, is_uuid

__all__ = ["DELETE_TYPES", "RULE", "Bounds", "PartitionReader", "columns_of_files", "file_of", "is_ambiguous"]

RULE: Final = "Iceberg REST specification"
DELETE_TYPES: Final = pa.schema(
    [
        pa.field(field.name, arrow_type(field.type))
        for field in (*ENTRY_FIELDS, *DATA_FILE_FIELDS)
        if field.name
        in (
            "content",
            "file_path",
            "file_format",
            "record_count",
            "file_size_in_bytes",
            "sequence_number",
            "key_metadata",
            "equality_ids",
            "referenced_data_file",
            "content_offset",
            "content_size_in_bytes",
        )
    ]
)
"""The columns of delete files."""

_CONTENTS: Final = {content.name.lower().replace("_", "-"): content for content in FileContent}
_COUNTS: Final = {
    "value_counts": "value-counts",
    "null_value_counts": "null-value-counts",
    "nan_value_counts": "nan-value-counts",
}
_BOUNDS: Final = {"lower_bounds": "lower-bounds", "upper_bounds": "upper-bounds"}
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})*")
_SAME_IN_BOTH: Final = (BinaryType, FixedType)
_AMBIGUOUS: Final = (StringType, DecimalType)
_PUNCTUATED: Final = (
    DateType,
    TimeType,
    TimestampType,
    TimestamptzType,
    TimestampNanoType,
    TimestamptzNanoType,
    UUIDType,
)
_INTEGERS: Final = (BucketTransform, YearTransform, MonthTransform, HourTransform)
_TYPES: Final = {field.name: arrow_type(field.type) for field in (*ENTRY_FIELDS, *DATA_FILE_FIELDS) if field.type}


def file_of(item: JsonObject) -> dict[str, Any]:
    """The fields of a data file or delete file under their names in manifests; partition and bounds are not yet read.

    Raises:
        FormatError: A required one is missing, or a value is not one of its kind.
    """
    content = _CONTENTS.get(item.text("content").lower().replace("_", "-"))  # Iceberg Java up to 1.10: capitals
    if content is None:
        raise item.unexpected("content", "data, position-deletes or equality-deletes")
    return {
        "status": 0,
        "content": int(content),
        "file_path": item.text("file-path"),
        "file_format": item.text("file-format").lower(),
        "spec_id": item.integer("spec-id"),
        "record_count": _count(item, "record-count"),
        "file_size_in_bytes": _count(item, "file-size-in-bytes"),
        "split_offsets": _offsets(item),
        "sort_order_id": item.integer("sort-order-id", None),
        "sequence_number": None,
        "first_row_id": None if item.long("first-row-id", None) is None else _count(item, "first-row-id"),
        "key_metadata": _key_metadata(item),
        "equality_ids": list(item.integers("equality-ids")) or None,
        "referenced_data_file": item.text("referenced-data-file", None),
        "content_offset": None if item.long("content-offset", None) is None else _count(item, "content-offset"),
        "content_size_in_bytes": None
        if item.long("content-size-in-bytes", None) is None
        else _count(item, "content-size-in-bytes"),
        **{name: _pairs(item, key, _whole) for name, key in _COUNTS.items()},
        **{name: _pairs(item, key, None) for name, key in _BOUNDS.items()},
    }


def _count(item: JsonObject, name: str) -> int:
    number = item.long(name)
    if number < 0:
        raise item.error(name, f"is {number}")
    return number


def _offsets(item: JsonObject) -> list[int] | None:
    found = item.array("split-offsets", None)
    if found is not None and not all(_whole(offset) for offset in found):
        raise item.unexpected("split-offsets", "an array of 64-bit integers that are not negative")
    return found


def _key_metadata(item: JsonObject) -> bytes | None:
    text = item.text("key-metadata", None)
    return None if text is None else text.encode()


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _pairs(item: JsonObject, name: str, accepts: Any) -> list[tuple[int, Any]]:
    """A map by field id, which JSON has as two arrays."""
    found = item.object(name, None)
    if found is None:
        return []
    keys, values = found.integers("keys"), found.array("values", [])
    if len(keys) != len(values):
        raise item.error(name, f"{len(keys)} keys and {len(values)} values")
    if accepts is not None and not all(map(accepts, values)):
        raise item.error(name, "expected 64-bit integers that are not negative")
    return list(zip(keys, values, strict=True))


# Partitions ----------------------------------------------------------------------------------------------------------


class PartitionReader:
    """Reads the partition values of one spec.

    Args:
        spec: The partition spec.
        schema: A schema that has its columns, unless they were dropped.
    """

    def __init__(self, spec: PartitionSpec, schema: Schema) -> None:
        self.spec = spec
        self._types = [_result_type(field, schema) for field in spec.fields]

    def values(self, item: JsonObject) -> tuple[Any, ...]:
        """The physical values of a file.

        Raises:
            FormatError: Their number is wrong, or one is not of its type.
        """
        found = item.value.get("partition")
        if isinstance(found, dict):  # Iceberg Java up to 1.10: an object by field id
            found = [found.get(str(field.field_id)) for field in self.spec.fields]
        found = [] if found is None else found
        if not isinstance(found, list) or len(found) != len(self.spec.fields):
            raise item.unexpected("partition", f"an array of {len(self.spec.fields)} values")
        return tuple(
            None if type_ is None else _value(type_, value, item.path(f"partition.{field.name}"))
            for field, type_, value in zip(self.spec.fields, self._types, found, strict=True)
        )

    def column(self, values: Sequence[tuple[Any, ...]]) -> pa.StructArray:
        """The values of many files as a column of manifests."""
        if not self.spec.fields:
            return pa.Array.from_buffers(pa.struct([]), len(values), [None], children=[])
        arrays, fields = [], []
        for number, (field, type_) in enumerate(zip(self.spec.fields, self._types, strict=True)):
            arrow = pa.null() if type_ is None else to_arrow_type(type_, path=(field.name,))
            arrays.append(_array([value[number] for value in values], arrow))
            fields.append(pa.field(field.name, arrow, metadata={FIELD_ID_KEY: str(field.field_id).encode()}))
        return pa.StructArray.from_arrays(arrays, fields=fields)


def _result_type(field: PartitionField, schema: Schema) -> IcebergType | None:
    """The type of a partition field; None if its values are not needed, since nothing is known about them."""
    if isinstance(field.transform, _INTEGERS):
        return IntegerType()
    if isinstance(field.transform, DayTransform):
        return DateType()
    if not isinstance(field.transform, IdentityTransform | TruncateTransform):
        return None
    try:
        return schema.find_type(field.source_id)
    except SchemaError:
        return None


def _value(type_: IcebergType, value: Any, at: str) -> Any:
    if isinstance(type_, DateType) and type(value) is int:
        type_ = IntegerType()  # days as manifests have them
    return value_from_json(type_, value, at)


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if is_uuid(type_):
        return pa.ExtensionArray.from_storage(type_, pa.array(values, pa.binary(16)))
    return pa.array(values, type_)


# Bounds --------------------------------------------------------------------------------------------------------------


def is_ambiguous(type_: IcebergType) -> bool:
    """Whether a bound of a type does not show by itself in which form it is."""
    return isinstance(type_, _AMBIGUOUS)


class Bounds:
    """Bounds of columns, which servers write in two forms.

    The specification has values as JSON, Iceberg Java the hexadecimal digits of their bytes. `"3132"` is a string of
    four characters or of two. Bounds of other columns show which form it is; without any they are left out, since wrong
    bounds lose rows.

    Args:
        schema: The schema of the scan.
        files: All files of the plan, as `file_of` returns them.
    """

    def __init__(self, schema: Schema, files: Sequence[Mapping[str, Any]]) -> None:
        self._types: dict[int, IcebergType | None] = {}
        self._schema = schema
        forms = {
            _form(type_, value)
            for file in files
            for name in _BOUNDS
            for key, value in file[name]
            if (type_ := self._type(key)) is not None
        } - {None}
        self._form = forms.pop() if len(forms) == 1 else None

    def _type(self, key: int) -> IcebergType | None:
        if key not in self._types:
            try:
                found: IcebergType | None = self._schema.find_type(key)
            except SchemaError:
                found = None
            is_simple = found is not None and found.is_primitive and not isinstance(found, GeometryType | GeographyType)
            self._types[key] = found if is_simple else None
        return self._types[key]

    def encoded(self, pairs: Sequence[tuple[int, Any]], location: str) -> list[tuple[int, bytes]]:
        """The bounds of a file in the form of manifests; those that cannot be used are left out.

        Raises:
            FormatError: One is not a value of its column.
        """
        found = []
        for key, value in pairs:
            type_ = self._type(key)
            if type_ is None or value is None:
                continue
            form = _form(type_, value) or self._form
            if form is None and not (isinstance(type_, _SAME_IN_BOTH) or value == ""):
                continue
            try:
                found.append((key, _encoded(type_, value, form)))
            except SkerryError as error:
                raise FormatError(f"bound of column {key}: {error.message}", location=location, rule=RULE) from error
        return found


def _form(type_: IcebergType, value: Any) -> str | None:
    """In which form a bound is: `json` or `bytes`; None if that cannot be seen."""
    if not isinstance(value, str):
        return "json"
    if isinstance(type_, _SAME_IN_BOTH):
        return None
    if isinstance(type_, StringType):
        return None if _HEX.fullmatch(value) else "json"
    if isinstance(type_, DecimalType):
        return "json" if "." in value or "-" in value else None
    if isinstance(type_, _PUNCTUATED):
        return "json" if "-" in value or ":" in value else "bytes"
    return "bytes"


def _encoded(type_: IcebergType, value: Any, form: str | None) -> bytes:
    if form == "json":
        arrow = to_arrow_type(type_, path=())
        return encode_value(arrow, value_from_json(type_, value, "the bound"))
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        raise FormatError("expected hexadecimal digits")
    return bytes.fromhex(value)


# Columns -------------------------------------------------------------------------------------------------------------


def columns_of_files(files: Sequence[Mapping[str, Any]], names: Sequence[str], partition: pa.Array) -> pa.RecordBatch:
    """Files as columns of manifests.

    Args:
        files: As `file_of` returns them.
        names: The columns.
        partition: The column `partition`.
    """
    arrays = [
        partition if name == "partition" else pa.array([file[name] for file in files], _TYPES[name]) for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))
