"""The table properties about statistics, checked when they are set: a wrong value must not wait for the next commit."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from skerry.table.properties import check_flag
from skerry.table.statistics.column_statistics import SketchPolicy
from skerry.table.statistics.group_sketches import group_sketch_bytes
from skerry.table.statistics.table_sample import max_groups

__all__ = ["COMPLETE_PROPERTY", "check_statistics_properties"]

COMPLETE_PROPERTY = "skerry.statistics.complete-sketches"
"""Table property: whether every commit publishes the sketches of all columns, however large beside its rows."""


def check_statistics_properties(properties: Mapping[str, str], schema: pa.Schema) -> None:
    """Refuse values that commits could not obey.

    Args:
        properties: The table's properties.
        schema: Its columns.

    Raises:
        SchemaError: A property has no legal value; the message names it.
    """
    SketchPolicy.from_properties(properties).check(schema)
    check_flag(properties, COMPLETE_PROPERTY)
    max_groups(properties)
    group_sketch_bytes(properties)
