"""Amudai shards, in the shape of `pyarrow.parquet`.

    table = amudai.read_table("flights.amudai.shard", columns=["carrier"], filters=[("month", "=", 3)])
    amudai.write_table(table, "copy.amudai.shard", profile="fast")

Spec: docs/formats/amudai.md; Amudai book.
"""

from __future__ import annotations

from skerry.amudai.encodings.codes import Encoding, Profile
from skerry.amudai.encodings.plans import Plan
from skerry.amudai.indexes.options import HashIndex, TextIndex
from skerry.amudai.merging import merge
from skerry.amudai.reading.shard_file import ShardFile, read_table
from skerry.amudai.values.any_value import Annotated, DateTime, Property, TimeSpan
from skerry.amudai.writing.external_parquet import write_over_parquet
from skerry.amudai.writing.field_encoding import FieldOptions
from skerry.amudai.writing.shard_writer import ShardWriter, WrittenShard, write_table

__all__ = [
    "Annotated",
    "DateTime",
    "Encoding",
    "FieldOptions",
    "HashIndex",
    "Plan",
    "Profile",
    "Property",
    "ShardFile",
    "ShardWriter",
    "TextIndex",
    "TimeSpan",
    "WrittenShard",
    "merge",
    "read_table",
    "write_over_parquet",
    "write_table",
]
