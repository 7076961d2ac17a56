"""Which rows of a stripe can match a filter, by its statistics and then by the range indexes of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from skerry.amudai.fields.selection import Selection
from skerry.amudai.fields.stripe_reader import StripeReader
from skerry.amudai.messages import BufferKind
from skerry.amudai.reading.filters import ColumnRanges, Filter, may_match, ranges_of_blocks, ranges_of_stripe
from skerry.amudai.shard.schema import DataType
from skerry.amudai.statistics.descriptors import decode_statistics
from skerry.amudai.statistics.range_index import RangeIndex, decode_range_index
from skerry.errors import UnsupportedError

__all__ = ["rows_that_may_match"]

_MIN_ROWS: Final = 4096
"""Stripes of fewer rows are one or two blocks of most columns: no index makes reading them cheaper."""


def rows_that_may_match(
    wanted: Filter, columns: Mapping[str, tuple[DataType, pa.DataType]], reader: StripeReader
) -> Selection:
    """Rows of a stripe that statistics and indexes do not rule out.

    Args:
        wanted: The filter.
        columns: Its columns by name: the node in the shard and the Arrow type.
        reader: The stripe, with the columns' descriptors loaded.

    Returns:
        The rows; the filter still has to decide on each.

    Raises:
        FormatError: Statistics or an index are damaged.
    """
    every = Selection.range(0, reader.row_count)
    known: dict[str, tuple[DataType, pa.DataType, ColumnRanges]] = {}
    for name, (node, kind) in columns.items():
        message = reader.fields.descriptor(node)
        if message is None:
            continue
        ranges = ranges_of_stripe(node, decode_statistics(node, message.field, location=reader.files.shown))
        if ranges is not None:
            known[name] = (node, kind, ranges)
    if not may_match(wanted, known, 1)[0]:
        return Selection.range(0, 0)
    if reader.row_count < _MIN_ROWS:
        return every
    for size, group in _by_block_size(columns, reader).items():
        flags = may_match(wanted, group, -(-reader.row_count // size))
        if not flags.all():
            blocks = Selection.of_flags(np.asarray(flags))
            stops = np.minimum(blocks.stops * size, reader.row_count)
            every = every.narrowed(blocks.starts * size, stops)
    return every


def _by_block_size(
    columns: Mapping[str, tuple[DataType, pa.DataType]], reader: StripeReader
) -> dict[int, dict[str, tuple[DataType, pa.DataType, ColumnRanges]]]:
    """The range indexes of columns, those with blocks of one size together: so *or* can rule blocks out, too."""
    groups: dict[int, dict[str, tuple[DataType, pa.DataType, ColumnRanges]]] = {}
    for name, (node, kind) in columns.items():
        index = _read_index(reader, node)
        if index is not None:
            groups.setdefault(index.block_positions, {})[name] = (node, kind, ranges_of_blocks(node, index))
    return groups


def _read_index(reader: StripeReader, node: DataType) -> RangeIndex | None:
    """The range index of a column, if it has one that can be read."""
    if reader.fields.descriptor(node) is None:
        return None
    field = reader.fields.field(node, reader.row_count)
    buffer = field.buffers.get(BufferKind.RANGE_INDEX)
    if buffer is None:
        return None
    try:
        return decode_range_index(
            buffer.read_whole(reader.files),
            node,
            field.positions,
            location=buffer.shown,
            offset=buffer.reference.start,
        )
    except UnsupportedError:
        return None
