from skerry.amudai.messages import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BufferKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATA: _ClassVar[BufferKind]
    PRESENCE: _ClassVar[BufferKind]
    OFFSETS: _ClassVar[BufferKind]
    VALUE_DICTIONARY: _ClassVar[BufferKind]
    OPAQUE_DICTIONARY: _ClassVar[BufferKind]
    RANGE_INDEX: _ClassVar[BufferKind]

class ParquetStorageType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BOOLEAN: _ClassVar[ParquetStorageType]
    INT32: _ClassVar[ParquetStorageType]
    INT64: _ClassVar[ParquetStorageType]
    INT96: _ClassVar[ParquetStorageType]
    FLOAT: _ClassVar[ParquetStorageType]
    DOUBLE: _ClassVar[ParquetStorageType]
    BYTE_ARRAY: _ClassVar[ParquetStorageType]
    FIXED_LEN_BYTE_ARRAY: _ClassVar[ParquetStorageType]
DATA: BufferKind
PRESENCE: BufferKind
OFFSETS: BufferKind
VALUE_DICTIONARY: BufferKind
OPAQUE_DICTIONARY: BufferKind
RANGE_INDEX: BufferKind
BOOLEAN: ParquetStorageType
INT32: ParquetStorageType
INT64: ParquetStorageType
INT96: ParquetStorageType
FLOAT: ParquetStorageType
DOUBLE: ParquetStorageType
BYTE_ARRAY: ParquetStorageType
FIXED_LEN_BYTE_ARRAY: ParquetStorageType

class ShardDirectory(_message.Message):
    __slots__ = ("schema_ref", "properties_ref", "field_list_ref", "stripe_list_ref", "url_list_ref", "indexes_ref", "total_record_count", "deleted_record_count", "stripe_count", "raw_data_size")
    SCHEMA_REF_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_REF_FIELD_NUMBER: _ClassVar[int]
    FIELD_LIST_REF_FIELD_NUMBER: _ClassVar[int]
    STRIPE_LIST_REF_FIELD_NUMBER: _ClassVar[int]
    URL_LIST_REF_FIELD_NUMBER: _ClassVar[int]
    INDEXES_REF_FIELD_NUMBER: _ClassVar[int]
    TOTAL_RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    DELETED_RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    STRIPE_COUNT_FIELD_NUMBER: _ClassVar[int]
    RAW_DATA_SIZE_FIELD_NUMBER: _ClassVar[int]
    schema_ref: _common_pb2.DataRef
    properties_ref: _common_pb2.DataRef
    field_list_ref: _common_pb2.DataRef
    stripe_list_ref: _common_pb2.DataRef
    url_list_ref: _common_pb2.DataRef
    indexes_ref: _common_pb2.DataRef
    total_record_count: int
    deleted_record_count: int
    stripe_count: int
    raw_data_size: int
    def __init__(self, schema_ref: _Optional[_Union[_common_pb2.DataRef, _Mapping]] = ..., properties_ref: _Optional[_Union[_common_pb2.DataRef, _Mapping]] = ..., field_list_ref: _Optional[_Union[_common_pb2.DataRef, _Mapping]] = ..., stripe_list_ref: _Optional[_Union[_common_pb2.DataRef, _Mapping]] = ..., url_list_ref: _Optional[_Union[_common_pb2.DataRef, _Mapping]] = ..., indexes_ref: _Optional[_Union[_common_pb2.DataRef, _Mapping]] = ..., total_record_count: _Optional[int] = ..., deleted_record_count: _Optional[int] = ..., stripe_count: _Optional[int] = ..., raw_data_size: _Optional[int] = ...) -> None: ...

class ShardProperties(_message.Message):
    __slots__ = ("creation_min", "creation_max", "standard_properties", "custom_properties")
    CREATION_MIN_FIELD_NUMBER: _ClassVar[int]
    CREATION_MAX_FIELD_NUMBER: _ClassVar[int]
    STANDARD_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    creation_min: _common_pb2.DateTimeUtc
    creation_max: _common_pb2.DateTimeUtc
    standard_properties: _containers.RepeatedCompositeFieldContainer[_common_pb2.NameValuePair]
    custom_properties: _containers.RepeatedCompositeFieldContainer[_common_pb2.NameValuePair]
    def __init__(self, creation_min: _Optional[_Union[_common_pb2.DateTimeUtc, _Mapping]] = ..., creation_max: _Optional[_Union[_common_pb2.DateTimeUtc, _Mapping]] = ..., standard_properties: _Optional[_Iterable[_Union[_common_pb2.NameValuePair, _Mapping]]] = ..., custom_properties: _Optional[_Iterable[_Union[_common_pb2.NameValuePair, _Mapping]]] = ...) -> None: ...

class UrlList(_message.Message):
    __slots__ = ("urls",)
    URLS_FIELD_NUMBER: _ClassVar[int]
    urls: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, urls: _Optional[_Iterable[str]] = ...) -> None: ...

class StripeList(_message.Message):
    __slots__ = ("stripes",)
    STRIPES_FIELD_NUMBER: _ClassVar[int]
    stripes: _containers.RepeatedCompositeFieldContainer[StripeDirectory]
    def __init__(self, stripes: _Optional[_Iterable[_Union[StripeDirectory, _Mapping]]] = ...) -> None: ...

class StripeDirectory(_message.Message):
    __slots__ = ("properties_ref", "field_list_ref", "indexes_ref", "total_record_count", "deleted_record_count", "raw_data_size", "record_offset")
    PROPERTIES_REF_FIELD_NUMBER: _ClassVar[int]
    FIELD_LIST_REF_FIELD_NUMBER: _ClassVar[int]
    INDEXES_REF_FIELD_NUMBER: _ClassVar[int]
    TOTAL_RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    DELETED_RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    RAW_DATA_SIZE_FIELD_NUMBER: _ClassVar[int]
    RECORD_OFFSET_FIELD_NUMBER: _ClassVar[int]
    properties_ref: _common_pb2.DataRef
    field_list_ref: _common_pb2.DataRef
    indexes_ref: _common_pb2.DataRef
    total_record_count: int
    deleted_record_count: int
    raw_data_size: int
    record_offset: int
    def __init__(self, properties_ref: _Optional[_Union[_common_pb2.DataRef, _Mapping]] = ..., field_list_ref: _Optional[_Union[_common_pb2.DataRef, _Mapping]] = ..., indexes_ref: _Optional[_Union[_common_pb2.DataRef, _Mapping]] = ..., total_record_count: _Optional[int] = ..., deleted_record_count: _Optional[int] = ..., raw_data_size: _Optional[int] = ..., record_offset: _Optional[int] = ...) -> None: ...

class StripeProperties(_message.Message):
    __slots__ = ("standard_properties", "custom_properties")
    STANDARD_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    standard_properties: _containers.RepeatedCompositeFieldContainer[_common_pb2.NameValuePair]
    custom_properties: _containers.RepeatedCompositeFieldContainer[_common_pb2.NameValuePair]
    def __init__(self, standard_properties: _Optional[_Iterable[_Union[_common_pb2.NameValuePair, _Mapping]]] = ..., custom_properties: _Optional[_Iterable[_Union[_common_pb2.NameValuePair, _Mapping]]] = ...) -> None: ...

class FieldDescriptor(_message.Message):
    __slots__ = ("position_count", "null_count", "constant_value", "dictionary_size", "range_stats", "cardinality", "membership_filters", "indexes", "standard_properties", "string_stats", "list_stats", "boolean_stats", "decimal_stats", "floating_stats", "binary_stats", "custom_properties", "raw_data_size")
    POSITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    NULL_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONSTANT_VALUE_FIELD_NUMBER: _ClassVar[int]
    DICTIONARY_SIZE_FIELD_NUMBER: _ClassVar[int]
    RANGE_STATS_FIELD_NUMBER: _ClassVar[int]
    CARDINALITY_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_FILTERS_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    STANDARD_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    STRING_STATS_FIELD_NUMBER: _ClassVar[int]
    LIST_STATS_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_STATS_FIELD_NUMBER: _ClassVar[int]
    DECIMAL_STATS_FIELD_NUMBER: _ClassVar[int]
    FLOATING_STATS_FIELD_NUMBER: _ClassVar[int]
    BINARY_STATS_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    RAW_DATA_SIZE_FIELD_NUMBER: _ClassVar[int]
    position_count: int
    null_count: int
    constant_value: _common_pb2.AnyValue
    dictionary_size: int
    range_stats: RangeStats
    cardinality: CardinalityInfo
    membership_filters: MembershipFilters
    indexes: IndexCollection
    standard_properties: _containers.RepeatedCompositeFieldContainer[_common_pb2.NameValuePair]
    string_stats: StringStats
    list_stats: ListStats
    boolean_stats: BooleanStats
    decimal_stats: DecimalStats
    floating_stats: FloatingStats
    binary_stats: BinaryStats
    custom_properties: _containers.RepeatedCompositeFieldContainer[_common_pb2.NameValuePair]
    raw_data_size: int
    def __init__(self, position_count: _Optional[int] = ..., null_count: _Optional[int] = ..., constant_value: _Optional[_Union[_common_pb2.AnyValue, _Mapping]] = ..., dictionary_size: _Optional[int] = ..., range_stats: _Optional[_Union[RangeStats, _Mapping]] = ..., cardinality: _Optional[_Union[CardinalityInfo, _Mapping]] = ..., membership_filters: _Optional[_Union[MembershipFilters, _Mapping]] = ..., indexes: _Optional[_Union[IndexCollection, _Mapping]] = ..., standard_properties: _Optional[_Iterable[_Union[_common_pb2.NameValuePair, _Mapping]]] = ..., string_stats: _Optional[_Union[StringStats, _Mapping]] = ..., list_stats: _Optional[_Union[ListStats, _Mapping]] = ..., boolean_stats: _Optional[_Union[BooleanStats, _Mapping]] = ..., decimal_stats: _Optional[_Union[DecimalStats, _Mapping]] = ..., floating_stats: _Optional[_Union[FloatingStats, _Mapping]] = ..., binary_stats: _Optional[_Union[BinaryStats, _Mapping]] = ..., custom_properties: _Optional[_Iterable[_Union[_common_pb2.NameValuePair, _Mapping]]] = ..., raw_data_size: _Optional[int] = ...) -> None: ...

class RangeStats(_message.Message):
    __slots__ = ("min_value", "min_inclusive", "max_value", "max_inclusive")
    MIN_VALUE_FIELD_NUMBER: _ClassVar[int]
    MIN_INCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    MAX_VALUE_FIELD_NUMBER: _ClassVar[int]
    MAX_INCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    min_value: _common_pb2.AnyValue
    min_inclusive: bool
    max_value: _common_pb2.AnyValue
    max_inclusive: bool
    def __init__(self, min_value: _Optional[_Union[_common_pb2.AnyValue, _Mapping]] = ..., min_inclusive: _Optional[bool] = ..., max_value: _Optional[_Union[_common_pb2.AnyValue, _Mapping]] = ..., max_inclusive: _Optional[bool] = ...) -> None: ...

class StringStats(_message.Message):
    __slots__ = ("min_size", "min_non_empty_size", "max_size", "ascii_count")
    MIN_SIZE_FIELD_NUMBER: _ClassVar[int]
    MIN_NON_EMPTY_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_SIZE_FIELD_NUMBER: _ClassVar[int]
    ASCII_COUNT_FIELD_NUMBER: _ClassVar[int]
    min_size: int
    min_non_empty_size: int
    max_size: int
    ascii_count: int
    def __init__(self, min_size: _Optional[int] = ..., min_non_empty_size: _Optional[int] = ..., max_size: _Optional[int] = ..., ascii_count: _Optional[int] = ...) -> None: ...

class ListStats(_message.Message):
    __slots__ = ("min_length", "min_non_empty_length", "max_length")
    MIN_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MIN_NON_EMPTY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    min_length: int
    min_non_empty_length: int
    max_length: int
    def __init__(self, min_length: _Optional[int] = ..., min_non_empty_length: _Optional[int] = ..., max_length: _Optional[int] = ...) -> None: ...

class BooleanStats(_message.Message):
    __slots__ = ("true_count", "false_count")
    TRUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    FALSE_COUNT_FIELD_NUMBER: _ClassVar[int]
    true_count: int
    false_count: int
    def __init__(self, true_count: _Optional[int] = ..., false_count: _Optional[int] = ...) -> None: ...

class BinaryStats(_message.Message):
    __slots__ = ("min_length", "min_non_empty_length", "max_length")
    MIN_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MIN_NON_EMPTY_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    min_length: int
    min_non_empty_length: int
    max_length: int
    def __init__(self, min_length: _Optional[int] = ..., min_non_empty_length: _Optional[int] = ..., max_length: _Optional[int] = ...) -> None: ...

class DecimalStats(_message.Message):
    __slots__ = ("zero_count", "positive_count", "negative_count", "nan_count")
    ZERO_COUNT_FIELD_NUMBER: _ClassVar[int]
    POSITIVE_COUNT_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_COUNT_FIELD_NUMBER: _ClassVar[int]
    NAN_COUNT_FIELD_NUMBER: _ClassVar[int]
    zero_count: int
    positive_count: int
    negative_count: int
    nan_count: int
    def __init__(self, zero_count: _Optional[int] = ..., positive_count: _Optional[int] = ..., negative_count: _Optional[int] = ..., nan_count: _Optional[int] = ...) -> None: ...

class FloatingStats(_message.Message):
    __slots__ = ("zero_count", "positive_count", "negative_count", "nan_count", "positive_infinity_count", "negative_infinity_count")
    ZERO_COUNT_FIELD_NUMBER: _ClassVar[int]
    POSITIVE_COUNT_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_COUNT_FIELD_NUMBER: _ClassVar[int]
    NAN_COUNT_FIELD_NUMBER: _ClassVar[int]
    POSITIVE_INFINITY_COUNT_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_INFINITY_COUNT_FIELD_NUMBER: _ClassVar[int]
    zero_count: int
    positive_count: int
    negative_count: int
    nan_count: int
    positive_infinity_count: int
    negative_infinity_count: int
    def __init__(self, zero_count: _Optional[int] = ..., positive_count: _Optional[int] = ..., negative_count: _Optional[int] = ..., nan_count: _Optional[int] = ..., positive_infinity_count: _Optional[int] = ..., negative_infinity_count: _Optional[int] = ...) -> None: ...

class CardinalityInfo(_message.Message):
    __slots__ = ("count", "is_estimate", "hll_sketch")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_ESTIMATE_FIELD_NUMBER: _ClassVar[int]
    HLL_SKETCH_FIELD_NUMBER: _ClassVar[int]
    count: int
    is_estimate: bool
    hll_sketch: HllSketchV1
    def __init__(self, count: _Optional[int] = ..., is_estimate: _Optional[bool] = ..., hll_sketch: _Optional[_Union[HllSketchV1, _Mapping]] = ...) -> None: ...

class HllSketchV1(_message.Message):
    __slots__ = ("hash_algorithm", "hash_seed", "bits_per_index", "counters")
    HASH_ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    HASH_SEED_FIELD_NUMBER: _ClassVar[int]
    BITS_PER_INDEX_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    hash_algorithm: str
    hash_seed: int
    bits_per_index: int
    counters: bytes
    def __init__(self, hash_algorithm: _Optional[str] = ..., hash_seed: _Optional[int] = ..., bits_per_index: _Optional[int] = ..., counters: _Optional[bytes] = ...) -> None: ...

class MembershipFilters(_message.Message):
    __slots__ = ("sbbf",)
    SBBF_FIELD_NUMBER: _ClassVar[int]
    sbbf: SplitBlockBloomFilter
    def __init__(self, sbbf: _Optional[_Union[SplitBlockBloomFilter, _Mapping]] = ...) -> None: ...

class SplitBlockBloomFilter(_message.Message):
    __slots__ = ("num_blocks", "target_fpp", "num_values", "hash_algorithm", "hash_seed", "data")
    NUM_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    TARGET_FPP_FIELD_NUMBER: _ClassVar[int]
    NUM_VALUES_FIELD_NUMBER: _ClassVar[int]
    HASH_ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    HASH_SEED_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    num_blocks: int
    target_fpp: float
    num_values: int
    hash_algorithm: str
    hash_seed: int
    data: bytes
    def __init__(self, num_blocks: _Optional[int] = ..., target_fpp: _Optional[float] = ..., num_values: _Optional[int] = ..., hash_algorithm: _Optional[str] = ..., hash_seed: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class StripeFieldDescriptor(_message.Message):
    __slots__ = ("field", "encodings")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    ENCODINGS_FIELD_NUMBER: _ClassVar[int]
    field: FieldDescriptor
    encodings: _containers.RepeatedCompositeFieldContainer[DataEncoding]
    def __init__(self, field: _Optional[_Union[FieldDescriptor, _Mapping]] = ..., encodings: _Optional[_Iterable[_Union[DataEncoding, _Mapping]]] = ...) -> None: ...

class DataEncoding(_message.Message):
    __slots__ = ("native", "parquet")
    NATIVE_FIELD_NUMBER: _ClassVar[int]
    PARQUET_FIELD_NUMBER: _ClassVar[int]
    native: NativeDataEncoding
    parquet: ExternalParquetDataEncoding
    def __init__(self, native: _Optional[_Union[NativeDataEncoding, _Mapping]] = ..., parquet: _Optional[_Union[ExternalParquetDataEncoding, _Mapping]] = ...) -> None: ...

class NativeDataEncoding(_message.Message):
    __slots__ = ("buffers", "packed_group")
    BUFFERS_FIELD_NUMBER: _ClassVar[int]
    PACKED_GROUP_FIELD_NUMBER: _ClassVar[int]
    buffers: _containers.RepeatedCompositeFieldContainer[EncodedBuffer]
    packed_group: bool
    def __init__(self, buffers: _Optional[_Iterable[_Union[EncodedBuffer, _Mapping]]] = ..., packed_group: _Optional[bool] = ...) -> None: ...

class EncodedBuffer(_message.Message):
    __slots__ = ("kind", "buffer", "block_map", "block_count", "block_checksums", "embedded_presence", "embedded_offsets", "buffer_id", "packed_group_index")
    KIND_FIELD_NUMBER: _ClassVar[int]
    BUFFER_FIELD_NUMBER: _ClassVar[int]
    BLOCK_MAP_FIELD_NUMBER: _ClassVar[int]
    BLOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    BLOCK_CHECKSUMS_FIELD_NUMBER: _ClassVar[int]
    EMBEDDED_PRESENCE_FIELD_NUMBER: _ClassVar[int]
    EMBEDDED_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    BUFFER_ID_FIELD_NUMBER: _ClassVar[int]
    PACKED_GROUP_INDEX_FIELD_NUMBER: _ClassVar[int]
    kind: BufferKind
    buffer: _common_pb2.DataRef
    block_map: _common_pb2.DataRef
    block_count: int
    block_checksums: bool
    embedded_presence: bool
    embedded_offsets: bool
    buffer_id: int
    packed_group_index: int
    def __init__(self, kind: _Optional[_Union[BufferKind, str]] = ..., buffer: _Optional[_Union[_common_pb2.DataRef, _Mapping]] = ..., block_map: _Optional[_Union[_common_pb2.DataRef, _Mapping]] = ..., block_count: _Optional[int] = ..., block_checksums: _Optional[bool] = ..., embedded_presence: _Optional[bool] = ..., embedded_offsets: _Optional[bool] = ..., buffer_id: _Optional[int] = ..., packed_group_index: _Optional[int] = ...) -> None: ...

class ExternalParquetDataEncoding(_message.Message):
    __slots__ = ("file_column_refs",)
    FILE_COLUMN_REFS_FIELD_NUMBER: _ClassVar[int]
    file_column_refs: _containers.RepeatedCompositeFieldContainer[ParquetFileColumnRef]
    def __init__(self, file_column_refs: _Optional[_Iterable[_Union[ParquetFileColumnRef, _Mapping]]] = ...) -> None: ...

class ParquetFileColumnRef(_message.Message):
    __slots__ = ("file_ref", "column_chunks")
    FILE_REF_FIELD_NUMBER: _ClassVar[int]
    COLUMN_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    file_ref: _common_pb2.DataRef
    column_chunks: _containers.RepeatedCompositeFieldContainer[ParquetColumnChunkRef]
    def __init__(self, file_ref: _Optional[_Union[_common_pb2.DataRef, _Mapping]] = ..., column_chunks: _Optional[_Iterable[_Union[ParquetColumnChunkRef, _Mapping]]] = ...) -> None: ...

class ParquetColumnChunkRef(_message.Message):
    __slots__ = ("storage_type", "schema_element_id", "row_group_id", "column_chunk_id", "file_url", "data_pages_range", "data_page_count", "dictionary_range", "data_page_map")
    STORAGE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_ELEMENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROW_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    COLUMN_CHUNK_ID_FIELD_NUMBER: _ClassVar[int]
    FILE_URL_FIELD_NUMBER: _ClassVar[int]
    DATA_PAGES_RANGE_FIELD_NUMBER: _ClassVar[int]
    DATA_PAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    DICTIONARY_RANGE_FIELD_NUMBER: _ClassVar[int]
    DATA_PAGE_MAP_FIELD_NUMBER: _ClassVar[int]
    storage_type: ParquetStorageType
    schema_element_id: int
    row_group_id: int
    column_chunk_id: int
    file_url: str
    data_pages_range: _common_pb2.UInt64Range
    data_page_count: int
    dictionary_range: _common_pb2.UInt64Range
    data_page_map: _common_pb2.DataRef
    def __init__(self, storage_type: _Optional[_Union[ParquetStorageType, str]] = ..., schema_element_id: _Optional[int] = ..., row_group_id: _Optional[int] = ..., column_chunk_id: _Optional[int] = ..., file_url: _Optional[str] = ..., data_pages_range: _Optional[_Union[_common_pb2.UInt64Range, _Mapping]] = ..., data_page_count: _Optional[int] = ..., dictionary_range: _Optional[_Union[_common_pb2.UInt64Range, _Mapping]] = ..., data_page_map: _Optional[_Union[_common_pb2.DataRef, _Mapping]] = ...) -> None: ...

class IndexCollection(_message.Message):
    __slots__ = ("index_descriptors",)
    INDEX_DESCRIPTORS_FIELD_NUMBER: _ClassVar[int]
    index_descriptors: _containers.RepeatedCompositeFieldContainer[IndexDescriptor]
    def __init__(self, index_descriptors: _Optional[_Iterable[_Union[IndexDescriptor, _Mapping]]] = ...) -> None: ...

class IndexDescriptor(_message.Message):
    __slots__ = ("index_type", "properties", "indexed_fields", "artifacts", "index_size")
    INDEX_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    INDEXED_FIELDS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    INDEX_SIZE_FIELD_NUMBER: _ClassVar[int]
    index_type: str
    properties: _containers.RepeatedCompositeFieldContainer[_common_pb2.NameValuePair]
    indexed_fields: _containers.RepeatedCompositeFieldContainer[IndexedField]
    artifacts: _containers.RepeatedCompositeFieldContainer[IndexArtifact]
    index_size: int
    def __init__(self, index_type: _Optional[str] = ..., properties: _Optional[_Iterable[_Union[_common_pb2.NameValuePair, _Mapping]]] = ..., indexed_fields: _Optional[_Iterable[_Union[IndexedField, _Mapping]]] = ..., artifacts: _Optional[_Iterable[_Union[IndexArtifact, _Mapping]]] = ..., index_size: _Optional[int] = ...) -> None: ...

class IndexArtifact(_message.Message):
    __slots__ = ("name", "properties", "data_ref")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DATA_REF_FIELD_NUMBER: _ClassVar[int]
    name: str
    properties: _containers.RepeatedCompositeFieldContainer[_common_pb2.NameValuePair]
    data_ref: _common_pb2.DataRef
    def __init__(self, name: _Optional[str] = ..., properties: _Optional[_Iterable[_Union[_common_pb2.NameValuePair, _Mapping]]] = ..., data_ref: _Optional[_Union[_common_pb2.DataRef, _Mapping]] = ...) -> None: ...

class IndexedField(_message.Message):
    __slots__ = ("schema_ids",)
    SCHEMA_IDS_FIELD_NUMBER: _ClassVar[int]
    schema_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, schema_ids: _Optional[_Iterable[int]] = ...) -> None: ...
