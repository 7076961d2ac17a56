"""Parquet files with columns of variants or shapes: annotated as such, variants shredded if that is wanted.

Spec: Parquet spec, VariantEncoding.md, VariantShredding.md, Geospatial.md.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.parquet import UNNAMED_CRS, VARIANT_ANNOTATION, annotate, shapes_annotation
from skerry.parquet.thrift_encoding import Field
from skerry.storage import Storage
from skerry.table.files.evolution import map_fields
from skerry.table.files.file_output import ParquetOutput
from skerry.variant import is_variant
from skerry.variant.shredding import shred, stored_type
from skerry.variant.shredding_choice import choose_shredding
from skerry.wkb import PLANAR, Shapes, WkbType, shapes_of

__all__ = ["AnnotatedOutput", "has_shapes", "has_variants", "is_annotated"]

_DEFAULT_CRS: Final = "OGC:CRS84"
_NO_CRS: Final = "srid:0"


def has_variants(schema: pa.Schema) -> bool:
    """Whether a column holds variants, or has them inside."""
    return VARIANT_ANNOTATION in _annotations(schema).values()


def has_shapes(schema: pa.Schema) -> bool:
    """Whether a column holds shapes, or has them inside."""
    return any(annotation != VARIANT_ANNOTATION for annotation in _annotations(schema).values())


def is_annotated(schema: pa.Schema) -> bool:
    """Whether a column holds variants or shapes, or has them inside."""
    return bool(_annotations(schema))


class AnnotatedOutput:
    """A Parquet file with columns of variants or shapes.

    What is shredded is chosen from the first rows, so that the file is created when they are there.

    Args:
        storage: Access to it.
        location: Its location, where no file must exist.
        schema: Its columns with field ids.
        sampled_rows: How many of the first rows decide what is shredded; None to shred nothing.
        options: Those of PyArrow's writer.
    """

    def __init__(
        self, storage: Storage, location: str, schema: pa.Schema, *, sampled_rows: int | None, **options: Any
    ) -> None:
        self._open = functools.partial(self._create, storage, location, schema, options)
        self._sampled_rows = sampled_rows
        self._shredded: dict[int, pa.DataType] = {}
        self._stored = schema
        self._output: ParquetOutput | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return 0 if self._output is None else self._output.size_bytes

    @property
    def metadata(self) -> pq.FileMetaData:
        """The footer, after the file was closed."""
        assert self._output is not None
        return self._output.metadata

    def write(self, rows: pa.Table) -> None:
        """Write a row group."""
        output = self._output or self._open(rows)
        for index, type_ in self._shredded.items():
            chunks = [shred(chunk, type_) for chunk in rows.column(index).chunks]
            field = self._stored.field(index)
            rows = rows.set_column(index, field, pa.chunked_array(chunks, field.type))
        output.write(rows if rows.schema.equals(self._stored) else rows.cast(self._stored))

    def close(self) -> int:
        """Finish the file, and return its size."""
        return (self._output or self._open(None)).close()

    def abort(self) -> None:
        """Discard the file."""
        if self._output is not None:
            self._output.abort()

    def _create(
        self, storage: Storage, location: str, schema: pa.Schema, options: dict[str, Any], rows: pa.Table | None
    ) -> ParquetOutput:
        fields = list(schema)
        if rows is not None and self._sampled_rows is not None:
            for index, field in enumerate(schema):
                if is_variant(field.type):
                    type_ = choose_shredding(rows.column(index).slice(0, self._sampled_rows).combine_chunks())
                    if type_ is not None:
                        self._shredded[index] = type_
                        fields[index] = field.with_type(stored_type(type_))
        self._stored = map_fields(pa.schema(fields, metadata=schema.metadata), _as_shapes)
        annotations = _annotations(schema, self._stored)
        self._output = ParquetOutput(
            storage,
            location,
            self._stored,
            edit_tail=lambda tail: annotate(tail, annotations),
            # of decimals the format wants the shortest form
            store_decimal_as_integer=bool(self._shredded),
            **options,
        )
        return self._output


def _annotations(schema: pa.Schema, stored: pa.Schema | None = None) -> dict[int, Field]:
    """The logical types of variants and shapes by their places among all elements of a file's schema; the root is 0.

    Args:
        schema: The columns.
        stored: The same, where some are shredded.

    Spec: Parquet spec, LogicalTypes.md, Lists, Maps: which groups are around them.
    """
    place = 0
    found: dict[int, Field] = {}

    def walk(field: pa.Field, of_file: pa.Field) -> None:
        nonlocal place
        place += 1
        type_, file_type = field.type, of_file.type
        shapes = shapes_of(field)
        if shapes is not None:
            # the default of Iceberg and Parquet is the same
            crs = None if shapes.crs == _DEFAULT_CRS else shapes.crs or _NO_CRS
            found[place] = shapes_annotation(crs, None if shapes.edges == PLANAR else shapes.edges)
        if is_variant(type_):
            found[place] = VARIANT_ANNOTATION
            type_ = file_type
        pairs: list[tuple[pa.Field, pa.Field]] = []
        if pa.types.is_struct(type_):
            pairs = list(zip(type_, file_type, strict=True))
        elif pa.types.is_map(type_):
            place += 1
            pairs = [(type_.key_field, file_type.key_field), (type_.item_field, file_type.item_field)]
        elif pa.types.is_list(type_):
            place += 1
            pairs = [(type_.value_field, file_type.value_field)]
        for child, child_of_file in pairs:
            walk(child, child_of_file)

    for field, of_file in zip(schema, schema if stored is None else stored, strict=True):
        walk(field, of_file)
    return found


def _as_shapes(field: pa.Field) -> pa.Field:
    """The field with an extension type where it is one of shapes: PyArrow then writes no minima and maxima of bytes."""
    shapes = shapes_of(field)
    if shapes is None:
        return field
    # of edges on a globe it knows only these
    return field.with_type(WkbType(Shapes(UNNAMED_CRS, PLANAR if shapes.edges == PLANAR else "spherical")))
