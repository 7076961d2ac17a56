"""The names of fields in Parquet's structures, by structure and id. Spec: Parquet spec, parquet.thrift."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias

from skerry.parquet import Codec, Encoding, PageType, PhysicalType

__all__ = ["STRUCTURES"]

Meaning: TypeAlias = tuple[str, str | type[IntEnum] | None]
"""The name of a field, and the structure or the codes that it holds."""


def _named(first: int, *names: str) -> dict[int, Meaning]:
    return {first + at: (name, None) for at, name in enumerate(names)}


STRUCTURES: Final[dict[str, dict[int, Meaning]]] = {
    "FileMetaData": {
        1: ("version", None),
        2: ("schema", "SchemaElement"),
        3: ("num_rows", None),
        4: ("row_groups", "RowGroup"),
        5: ("key_value_metadata", "KeyValue"),
        6: ("created_by", None),
        7: ("column_orders", "ColumnOrder"),
        8: ("encryption_algorithm", None),
        9: ("footer_signing_key_metadata", None),
    },
    "SchemaElement": {
        1: ("type", PhysicalType),
        **_named(2, "type_length", "repetition_type", "name", "num_children", "converted_type", "scale", "precision"),
        9: ("field_id", None),
        10: ("logicalType", "LogicalType"),
    },
    "LogicalType": _named(
        1,
        *("STRING", "MAP", "LIST", "ENUM", "DECIMAL", "DATE", "TIME", "TIMESTAMP", "", "INTEGER", "UNKNOWN", "JSON"),
        *("BSON", "UUID", "FLOAT16", "VARIANT", "GEOMETRY", "GEOGRAPHY"),
    ),
    "KeyValue": _named(1, "key", "value"),
    "ColumnOrder": _named(1, "TYPE_ORDER"),
    "RowGroup": {
        1: ("columns", "ColumnChunk"),
        2: ("total_byte_size", None),
        3: ("num_rows", None),
        4: ("sorting_columns", "SortingColumn"),
        **_named(5, "file_offset", "total_compressed_size", "ordinal"),
    },
    "SortingColumn": _named(1, "column_idx", "descending", "nulls_first"),
    "ColumnChunk": {
        1: ("file_path", None),
        2: ("file_offset", None),
        3: ("meta_data", "ColumnMetaData"),
        **_named(4, "offset_index_offset", "offset_index_length", "column_index_offset", "column_index_length"),
        **_named(8, "crypto_metadata", "encrypted_column_metadata"),
    },
    "ColumnMetaData": {
        1: ("type", PhysicalType),
        2: ("encodings", Encoding),
        3: ("path_in_schema", None),
        4: ("codec", Codec),
        **_named(5, "num_values", "total_uncompressed_size", "total_compressed_size"),
        8: ("key_value_metadata", "KeyValue"),
        **_named(9, "data_page_offset", "index_page_offset", "dictionary_page_offset"),
        12: ("statistics", "Statistics"),
        13: ("encoding_stats", "PageEncodingStats"),
        **_named(14, "bloom_filter_offset", "bloom_filter_length"),
        16: ("size_statistics", "SizeStatistics"),
        17: ("geospatial_statistics", None),
    },
    "Statistics": _named(
        1,
        *("max", "min", "null_count", "distinct_count", "max_value", "min_value"),
        *("is_max_value_exact", "is_min_value_exact"),
    ),
    "SizeStatistics": _named(
        1, "unencoded_byte_array_data_bytes", "repetition_level_histogram", "definition_level_histogram"
    ),
    "PageEncodingStats": {1: ("page_type", PageType), 2: ("encoding", Encoding), 3: ("count", None)},
    "PageHeader": {
        1: ("type", PageType),
        **_named(2, "uncompressed_page_size", "compressed_page_size", "crc"),
        5: ("data_page_header", "DataPageHeader"),
        6: ("index_page_header", None),
        7: ("dictionary_page_header", "DictionaryPageHeader"),
        8: ("data_page_header_v2", "DataPageHeaderV2"),
    },
    "DataPageHeader": {
        1: ("num_values", None),
        2: ("encoding", Encoding),
        3: ("definition_level_encoding", Encoding),
        4: ("repetition_level_encoding", Encoding),
        5: ("statistics", "Statistics"),
    },
    "DictionaryPageHeader": {1: ("num_values", None), 2: ("encoding", Encoding), 3: ("is_sorted", None)},
    "DataPageHeaderV2": {
        **_named(1, "num_values", "num_nulls", "num_rows"),
        4: ("encoding", Encoding),
        **_named(5, "definition_levels_byte_length", "repetition_levels_byte_length", "is_compressed"),
        8: ("statistics", "Statistics"),
    },
    "OffsetIndex": {1: ("page_locations", "PageLocation"), 2: ("unencoded_byte_array_data_bytes", None)},
    "PageLocation": _named(1, "offset", "compressed_page_size", "first_row_index"),
    "ColumnIndex": _named(
        1,
        *("null_pages", "min_values", "max_values", "boundary_order", "null_counts"),
        *("repetition_level_histograms", "definition_level_histograms"),
    ),
}
