"""The table properties about statistics, checked when they are set: a wrong value must not wait for the next commit."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from skerry.table.properties import BACKGROUND_PROPERTY, check_flag
from skerry.table.rows.schema import nearest
from skerry.table.statistics.column_statistics import SketchPolicy
from skerry.table.statistics.group_sketches import group_sketch_bytes
from skerry.table.statistics.puffin_regions import ROW_SAMPLE_PROPERTY, keeps_rows
from skerry.table.statistics.table_sample import max_groups

__all__ = ["COMPLETE_PROPERTY", "check_statistics_properties"]

COMPLETE_PROPERTY = "skerry.statistics.complete-sketches"
"""Table property: whether every commit publishes the sketches of all columns, however large beside its rows."""


_KNOWN: Final = (
    BACKGROUND_PROPERTY,
    "skerry.read.files-outside-location",
    "skerry.statistics.catch-up",
    "skerry.statistics.columns",
    COMPLETE_PROPERTY,
    "skerry.statistics.enabled",
    "skerry.statistics.file",
    "skerry.statistics.max-groups",
    "skerry.statistics.partition-sketch-bytes",
    "skerry.statistics.row-deletes",
    ROW_SAMPLE_PROPERTY,
)
_OURS: Final = ("skerry.compaction.", "skerry.read.", "skerry.statistics.")


def check_statistics_properties(properties: Mapping[str, str], schema: pa.Schema) -> None:
    """Refuse values that commits could not obey, and warn of names of ours that nothing obeys.

    Args:
        properties: The table's properties.
        schema: Its columns.

    Raises:
        SchemaError: A property has no legal value; the message names it.
    """
    for name in properties:
        if name.startswith(_OURS) and name not in _KNOWN:
            warnings.warn(f"nothing obeys the table property {name!r}{nearest(name, _KNOWN)}", stacklevel=2)
    SketchPolicy.from_properties(properties).check(schema)
    check_flag(properties, COMPLETE_PROPERTY)
    keeps_rows(properties)
    max_groups(properties)
    group_sketch_bytes(properties)
