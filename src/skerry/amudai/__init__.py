"""Amudai shards, in the shape of `pyarrow.parquet`.

    table = amudai.read_table("flights.amudai.shard", columns=["carrier"], filters=[("month", "=", 3)])
    amudai.write_table(table, "copy.amudai.shard", profile="fast")

Spec: https://github.com/microsoft/amudai, docs/spec; docs/amudai.md tells where its reference implementation differs.
"""

from __future__ import annotations

from skerry.amudai.any_value import Annotated, DateTime, Property, TimeSpan
from skerry.amudai.encodings.codes import Profile
from skerry.amudai.shard_file import ShardFile, read_table
from skerry.amudai.shard_writer import ShardWriter, write_table

__all__ = [
    "Annotated",
    "DateTime",
    "Profile",
    "Property",
    "ShardFile",
    "ShardWriter",
    "TimeSpan",
    "read_table",
    "write_table",
]
