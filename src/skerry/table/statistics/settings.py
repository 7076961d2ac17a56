"""The table properties about statistics, checked when they are set: a wrong value must not wait for the next commit."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from skerry.table.statistics.column_statistics import SketchPolicy
from skerry.table.statistics.group_sketches import group_sketch_bytes
from skerry.table.statistics.table_sample import max_groups

__all__ = ["check_statistics_properties"]


def check_statistics_properties(properties: Mapping[str, str], schema: pa.Schema) -> None:
    """Refuse values that commits could not obey.

    Args:
        properties: The table's properties.
        schema: Its columns.

    Raises:
        SchemaError: A property has no legal value; the message names it.
    """
    SketchPolicy.from_properties(properties).check(schema)
    max_groups(properties)
    group_sketch_bytes(properties)
