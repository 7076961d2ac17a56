"""Rows of a shard by their positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.fields.selection import Selection
from skerry.amudai.fields.stripe_reader import StripeReader
from skerry.amudai.reading.scanning import ScanPlan, ThisThread, join_tables
from skerry.amudai.reading.shard_metadata import ShardMetadata

__all__ = ["read_positions", "split_by_stripe"]


def split_by_stripe(
    metadata: ShardMetadata, positions: npt.NDArray[np.int64]
) -> list[tuple[int, npt.NDArray[np.int64]]]:
    """Ascending, distinct positions in the shard, as ordinals of stripes and positions in them."""
    total = int(metadata.directory.total_record_count)
    starts = np.array([stripe.record_offset for stripe in metadata.stripes] + [total], np.int64)
    edges = np.searchsorted(positions, starts)
    having = np.flatnonzero(np.diff(edges)).tolist()
    return [(ordinal, positions[edges[ordinal] : edges[ordinal + 1]] - starts[ordinal]) for ordinal in having]


def read_positions(parts: Sequence[tuple[StripeReader, npt.NDArray[np.int64]]], plan: ScanPlan) -> pa.Table:
    """Read rows of stripes whose readers have the plan's descriptors; blocks without any of them are not read.

    Args:
        parts: Stripes in order, with ascending, distinct positions in them.
        plan: Which columns.
    """
    tables = [plan.start(reader, Selection.of_positions(rows), ThisThread())() for reader, rows in parts]
    return join_tables(tables, plan.schema)
