"""Column statistics and their freshness, for all table formats.

Distinct counts come from Theta sketches that a commit published together with its rows. Each statistic says whether it
is reliable: its `Freshness` is a state and the reason for it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.table.rows.schema import Leaf, leaves, nearest
from skerry.table.statistics.freshness import ABSENT, FRESH, Freshness, FreshnessState

if TYPE_CHECKING:
    from skerry.table.statistics.histogram import Histogram, SampledRows
    from skerry.theta import ThetaSketch

__all__ = [
    "ABSENT",
    "FRESH",
    "ColumnStatistics",
    "Freshness",
    "FreshnessState",
    "SketchPolicy",
]

COLUMNS_PROPERTY = "skerry.statistics.columns"
ENABLED_PROPERTY = "skerry.statistics.enabled"
KEY_PROPERTY = "encryption.key-id"
"""Of an encrypted Iceberg table: its statistics files would not be encrypted, so that none are made."""
ENABLED_ENVIRONMENT = "BODO_ENABLE_THETA_SKETCHES"


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of one column of one snapshot.

    Args:
        column: Dotted name.
        field_id: Field id in the table's schema.
        ndv: Estimated number of distinct values, nulls not counted; None if absent. A stale number is kept for display;
            `freshness` says that it must not be used.
        lower: Lower bound of `ndv`, two standard deviations.
        upper: Upper bound of `ndv`, two standard deviations.
        null_count: Nulls in all data files; None if a file does not record them.
        min: Minimum by the files' lower bounds (strings may be truncated), as a Python value; None if unknown.
        max: Maximum by the files' upper bounds (strings may be truncated), as a Python value; None if unknown.
        freshness: State and reason of the distinct count.
        sketch: The published sketch; None if absent, or if its hashes are of other bytes than those of skerry.
        sampled: Sampled rows of the table; None if there are none.
    """

    column: str
    field_id: int
    ndv: float | None = None
    lower: float | None = None
    upper: float | None = None
    null_count: int | None = None
    min: Any = None
    max: Any = None
    freshness: Freshness = ABSENT
    sketch: ThetaSketch | None = None
    sampled: SampledRows | None = field(default=None, repr=False, compare=False)

    @property
    def histogram(self) -> Histogram | None:
        """An equi-height histogram from sampled rows, read when it is first asked for; None if there are none.

        It says itself how far it holds: `freshness` is about the distinct count.
        """
        return None if self.sampled is None else self.sampled.histogram(self.field_id, self.min, self.max)


class ColumnRule(Enum):
    """The three forms of the table property `skerry.statistics.columns`."""

    ALL = "all"
    BODO = "bodo"
    LISTED = "listed"


def _is_bodo_type(type_: pa.DataType, *, created: bool) -> bool:
    """The types that Bodo sketches when it creates a table; inserts extend FLOAT and DOUBLE too.

    Spec: Bodo documentation, Using Puffin Files and Theta Sketches with Bodo: both rules.
    """
    if not created and pa.types.is_floating(type_):
        return True
    return (
        pa.types.is_integer(type_)
        or pa.types.is_date(type_)
        or pa.types.is_time(type_)
        or pa.types.is_timestamp(type_)
        or pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_decimal(type_)
    )


@dataclass(frozen=True, slots=True)
class SketchPolicy:
    """Which columns a commit sketches.

    Args:
        enabled: False if the property `skerry.statistics.enabled` or the environment switches sketches off, or the
            table is encrypted.
        rule: The form of `skerry.statistics.columns`.
        listed: The columns of the listed form.

    Spec: Bodo documentation, Using Puffin Files and Theta Sketches with Bodo.
    """

    enabled: bool = True
    rule: ColumnRule = ColumnRule.ALL
    listed: tuple[str, ...] = ()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> SketchPolicy:
        """Parse the policy from table properties and from the environment, which wins if it switches sketches off.

        Raises:
            SchemaError: `skerry.statistics.enabled` is neither true nor false.
        """
        enabled = properties.get(ENABLED_PROPERTY, "true").strip().lower()
        if enabled not in ("true", "false"):
            raise SchemaError(f"table property {ENABLED_PROPERTY} must be true or false, found {enabled!r}")
        is_encrypted = KEY_PROPERTY in properties  # statistics files are not
        on = enabled == "true" and not is_encrypted and os.environ.get(ENABLED_ENVIRONMENT, "").strip() != "0"
        text = properties.get(COLUMNS_PROPERTY, ColumnRule.ALL.value).strip()
        if text.lower() in (ColumnRule.ALL.value, ColumnRule.BODO.value):
            return cls(on, ColumnRule(text.lower()))
        return cls(on, ColumnRule.LISTED, tuple(name.strip() for name in text.split(",") if name.strip()))

    def check(self, schema: pa.Schema) -> None:
        """Refuse a listed column that does not exist or cannot be sketched.

        Raises:
            SchemaError: A column is wrong; the message proposes the nearest name.
        """
        known = {leaf.name for leaf in leaves(schema)}
        for name in self.listed:
            if name not in known:
                raise SchemaError(
                    f"{COLUMNS_PROPERTY} names {name!r}, which is not a primitive column{nearest(name, known)}"
                )

    def columns(self, schema: pa.Schema, *, created: bool, sketched: Collection[int] = ()) -> list[Leaf]:
        """The columns that a commit of new rows publishes sketches for.

        Args:
            schema: The table's schema with field ids.
            created: Whether these are the first rows of the table.
            sketched: Field ids with a fresh sketch that can be extended.

        Returns:
            Leaves in schema order. If the table had rows before, only columns whose earlier rows are in a fresh sketch:
            a sketch of the new rows alone would claim a count for the whole table.
        """
        if not self.enabled:
            return []
        candidates = leaves(schema)
        if self.rule is ColumnRule.LISTED:
            candidates = [leaf for leaf in candidates if leaf.name in self.listed]
        if self.rule is ColumnRule.BODO:
            candidates = [leaf for leaf in candidates if _is_bodo_type(leaf.type, created=created)]
        if not created:
            candidates = [leaf for leaf in candidates if leaf.field_id in sketched]
        return candidates
