from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class UInt64Range(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class UInt32Range(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class DataRef(_message.Message):
    __slots__ = ("url", "range")
    URL_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    url: str
    range: UInt64Range
    def __init__(self, url: _Optional[str] = ..., range: _Optional[_Union[UInt64Range, _Mapping]] = ...) -> None: ...

class DataRefArray(_message.Message):
    __slots__ = ("url", "start", "end")
    URL_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    url: _containers.RepeatedScalarFieldContainer[str]
    start: _containers.RepeatedScalarFieldContainer[int]
    end: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, url: _Optional[_Iterable[str]] = ..., start: _Optional[_Iterable[int]] = ..., end: _Optional[_Iterable[int]] = ...) -> None: ...

class AnyValue(_message.Message):
    __slots__ = ("null_value", "bool_value", "u64_value", "i64_value", "double_value", "datetime_value", "timespan_value", "string_value", "bytes_value", "decimal_value", "list_value", "struct_value", "data_ref", "annotation")
    NULL_VALUE_FIELD_NUMBER: _ClassVar[int]
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    U64_VALUE_FIELD_NUMBER: _ClassVar[int]
    I64_VALUE_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_VALUE_FIELD_NUMBER: _ClassVar[int]
    DATETIME_VALUE_FIELD_NUMBER: _ClassVar[int]
    TIMESPAN_VALUE_FIELD_NUMBER: _ClassVar[int]
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    BYTES_VALUE_FIELD_NUMBER: _ClassVar[int]
    DECIMAL_VALUE_FIELD_NUMBER: _ClassVar[int]
    LIST_VALUE_FIELD_NUMBER: _ClassVar[int]
    STRUCT_VALUE_FIELD_NUMBER: _ClassVar[int]
    DATA_REF_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    null_value: UnitValue
    bool_value: bool
    u64_value: int
    i64_value: int
    double_value: float
    datetime_value: DateTimeUtc
    timespan_value: TimeSpan
    string_value: str
    bytes_value: bytes
    decimal_value: bytes
    list_value: ListValue
    struct_value: StructValue
    data_ref: DataRef
    annotation: str
    def __init__(self, null_value: _Optional[_Union[UnitValue, _Mapping]] = ..., bool_value: _Optional[bool] = ..., u64_value: _Optional[int] = ..., i64_value: _Optional[int] = ..., double_value: _Optional[float] = ..., datetime_value: _Optional[_Union[DateTimeUtc, _Mapping]] = ..., timespan_value: _Optional[_Union[TimeSpan, _Mapping]] = ..., string_value: _Optional[str] = ..., bytes_value: _Optional[bytes] = ..., decimal_value: _Optional[bytes] = ..., list_value: _Optional[_Union[ListValue, _Mapping]] = ..., struct_value: _Optional[_Union[StructValue, _Mapping]] = ..., data_ref: _Optional[_Union[DataRef, _Mapping]] = ..., annotation: _Optional[str] = ...) -> None: ...

class UnitValue(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DateTimeUtc(_message.Message):
    __slots__ = ("ticks",)
    TICKS_FIELD_NUMBER: _ClassVar[int]
    ticks: int
    def __init__(self, ticks: _Optional[int] = ...) -> None: ...

class TimeSpan(_message.Message):
    __slots__ = ("ticks",)
    TICKS_FIELD_NUMBER: _ClassVar[int]
    ticks: int
    def __init__(self, ticks: _Optional[int] = ...) -> None: ...

class ListValue(_message.Message):
    __slots__ = ("elements",)
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    elements: _containers.RepeatedCompositeFieldContainer[AnyValue]
    def __init__(self, elements: _Optional[_Iterable[_Union[AnyValue, _Mapping]]] = ...) -> None: ...

class StructValue(_message.Message):
    __slots__ = ("fields",)
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.RepeatedCompositeFieldContainer[NameValuePair]
    def __init__(self, fields: _Optional[_Iterable[_Union[NameValuePair, _Mapping]]] = ...) -> None: ...

class NameValuePair(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: AnyValue
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[AnyValue, _Mapping]] = ...) -> None: ...

class BytesList(_message.Message):
    __slots__ = ("offsets", "data")
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, offsets: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...
