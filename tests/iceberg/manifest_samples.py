"""Tables, files and entries that exercise every field of manifests; shared by the tests of our reader and of others."""

from __future__ import annotations

import math
from decimal import Decimal

from skerry.iceberg.manifests.manifest import EntryStatus, FileContent, ManifestEntry
from skerry.iceberg.metadata.partition_spec import PartitionField, PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.transforms import IdentityTransform, parse_transform
from skerry.iceberg.metadata.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from skerry.table.files.data_file import DataFile

# type, value, another value; in physical form
PARTITION_VALUES = [
    (BooleanType(), True, False),
    (IntegerType(), -(2**31), 7),
    (LongType(), 2**63 - 1, -1),
    (FloatType(), 1.5, -0.0),
    (DoubleType(), -math.inf, 0.0),
    (DateType(), -1, 17501),
    (TimeType(), 0, 86_399_999_999),
    (TimestampType(), -1, 1512123175038194),
    (TimestamptzType(), -(2**62), 5),
    (StringType(), "", "åß𝄞/="),
    (UUIDType(), bytes(range(16)), b"\x7f" * 16),
    (FixedType(3), b"\0\1\2", b"\xff\xfe\xfd"),
    (BinaryType(), b"", b"\xff" * 40),
    (DecimalType(9, 2), Decimal("-1.28"), Decimal("9999999.99")),
    (DecimalType(38, 0), Decimal(10**38 - 1), Decimal(0)),
    (DecimalType(9, 4), Decimal("0.0001"), Decimal("-12345.6789")),
]
NANOSECOND_VALUES = [(TimestampNanoType(), -1, 5), (TimestamptzNanoType(), 1, 2**62)]


def identity_table(*, nanoseconds: bool = False, fixed: bool = True) -> tuple[Schema, PartitionSpec, list[tuple]]:
    """A table partitioned by the identity of a column of every type, and three partition tuples."""
    values = PARTITION_VALUES + (NANOSECOND_VALUES if nanoseconds else [])
    values = [value for value in values if fixed or not isinstance(value[0], FixedType)]
    schema = Schema(
        *(NestedField(index + 1, f"c {index}", type_) for index, (type_, _, _) in enumerate(values)), schema_id=4
    )
    spec = PartitionSpec(
        *(PartitionField(index + 1, 1000 + index, IdentityTransform(), f"c {index}") for index in range(len(values))),
        spec_id=3,
    )
    return schema, spec, [tuple(v for _, v, _ in values), tuple(v for _, _, v in values), (None,) * len(values)]


SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True, doc="the key"),
    NestedField(2, "ts", TimestamptzType()),
    NestedField(3, "s", StringType()),
    schema_id=2,
)
SPEC = PartitionSpec(
    PartitionField(2, 1000, parse_transform("day"), "ts_day"),
    PartitionField(1, 1001, parse_transform("bucket[16]"), "id_bucket"),
    PartitionField(3, 1002, parse_transform("truncate[2]"), "s_trunc"),
    PartitionField(2, 1003, parse_transform("void"), "ts_null"),
    spec_id=5,
)
UNPARTITIONED = PartitionSpec(spec_id=0)


def data_file(
    name: str, *, spec: PartitionSpec = SPEC, partition: tuple = (17501, 3, "ab", None), **fields
) -> DataFile:
    """A file with every metric, unless told otherwise."""
    everything = {
        "column_sizes": {1: 10, 2: 2**40, 3: 0},
        "value_counts": {1: 100, 2: 100, 3: 100},
        "null_value_counts": {2: 7},
        "nan_value_counts": {3: 1},
        "lower_bounds": {1: b"\0" * 8, 3: b""},
        "upper_bounds": {1: b"\xff" * 8, 3: "å𝄞".encode()},
        "split_offsets": (4, 2**32),
        "sort_order_id": 1,
    }
    return DataFile(
        location=f"file:///warehouse/data/{name} %20ü.parquet",
        file_format="parquet",
        record_count=100,
        file_size_bytes=2**33,
        spec_id=spec.spec_id,
        partition=partition,
        **(everything | fields),
    )


BARE = {
    "column_sizes": {},
    "value_counts": {},
    "null_value_counts": {},
    "nan_value_counts": {},
    "lower_bounds": {},
    "upper_bounds": {},
    "split_offsets": (),
    "sort_order_id": None,
}


def data_entries(format_version: int) -> list[ManifestEntry]:
    """Added, existing and deleted data files."""
    known = {"sequence_number": 3, "file_sequence_number": 4} if format_version >= 2 else {}
    known |= {"first_row_id": 1000} if format_version >= 3 else {}
    return [
        ManifestEntry(EntryStatus.ADDED, data_file("added")),
        ManifestEntry(EntryStatus.ADDED, data_file("bare", partition=(None, 3, None, None), **BARE)),
        ManifestEntry(EntryStatus.EXISTING, data_file("existing"), snapshot_id=11, key_metadata=b"k", **known),
        ManifestEntry(EntryStatus.DELETED, data_file("deleted"), snapshot_id=77, **known),
    ]


def delete_entries(format_version: int) -> list[ManifestEntry]:
    """Delete files of every kind that the version may hold."""
    entries = [
        ManifestEntry(
            EntryStatus.ADDED,
            data_file("equality"),
            content=FileContent.EQUALITY_DELETES,
            equality_ids=(1, 3),
        ),
        ManifestEntry(
            EntryStatus.EXISTING,
            data_file("positions"),
            snapshot_id=11,
            sequence_number=3,
            file_sequence_number=3,
            content=FileContent.POSITION_DELETES,
            referenced_data_file="file:///warehouse/data/added.parquet",
        ),
    ]
    if format_version >= 3:
        vector = DataFile("file:///warehouse/data/dv.puffin", "puffin", 5, 400, SPEC.spec_id, (17501, 3, "ab", None))
        entries.append(
            ManifestEntry(
                EntryStatus.ADDED,
                vector,
                content=FileContent.POSITION_DELETES,
                referenced_data_file="file:///warehouse/data/added.parquet",
                content_offset=4,
                content_size_bytes=50,
            )
        )
    return entries
