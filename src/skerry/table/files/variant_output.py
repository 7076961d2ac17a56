"""Parquet files with columns of variants: annotated as such, and shredded if that is wanted.

Spec: Parquet spec, VariantEncoding.md, VariantShredding.md.
"""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.parquet import annotate_variants
from skerry.storage import Storage
from skerry.table.files.file_output import ParquetOutput
from skerry.variant import is_variant
from skerry.variant.shredding import shred, stored_type
from skerry.variant.shredding_choice import choose_shredding

__all__ = ["VariantOutput", "has_variants"]


def has_variants(schema: pa.Schema) -> bool:
    """Whether a column holds variants, or has them inside."""
    return bool(_places(schema))


class VariantOutput:
    """A Parquet file with columns of variants.

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
        output.write(rows)

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
        self._stored = pa.schema(fields, metadata=schema.metadata)
        places = _places(schema, self._stored)
        self._output = ParquetOutput(
            storage,
            location,
            self._stored,
            edit_tail=lambda tail: annotate_variants(tail, places),
            # of decimals the format wants the shortest form
            store_decimal_as_integer=bool(self._shredded),
            **options,
        )
        return self._output


def _places(schema: pa.Schema, stored: pa.Schema | None = None) -> list[int]:
    """The places of variants among all elements of a file's schema, the root being element 0.

    Args:
        schema: The columns.
        stored: The same, where some are shredded.

    Spec: Parquet spec, LogicalTypes.md, Lists, Maps: which groups are around them.
    """
    place = 0
    found = []

    def walk(type_: pa.DataType, file_type: pa.DataType) -> None:
        nonlocal place
        place += 1
        if is_variant(type_):
            found.append(place)
            type_ = file_type
        pairs: list[tuple[pa.DataType, pa.DataType]] = []
        if pa.types.is_struct(type_):
            pairs = [(child.type, of_file.type) for child, of_file in zip(type_, file_type, strict=True)]
        elif pa.types.is_map(type_):
            place += 1
            pairs = [(type_.key_type, file_type.key_type), (type_.item_type, file_type.item_type)]
        elif pa.types.is_list(type_):
            place += 1
            pairs = [(type_.value_type, file_type.value_type)]
        for child, of_file in pairs:
            walk(child, of_file)

    for field, of_file in zip(schema, schema if stored is None else stored, strict=True):
        walk(field.type, of_file.type)
    return found
