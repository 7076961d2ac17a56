"""What planning needs to know about the keys of a merge's source."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skerry.table.merging.key_bounds import MAX_RANGES, key_predicate
from skerry.table.merging.rules import MergeSource
from skerry.table.predicate import Predicate

__all__ = ["KeyFacts", "key_facts"]


@dataclass(frozen=True)
class KeyFacts:
    """What planning needs to know about keys; picklable, and small however many there are.

    Args:
        in_files: Holds for every row of the table with one of the keys, and for few others; for files.
        in_rows: The same, cheaper to evaluate; for rows.
        repeated: A key that several rows have, for messages; None if there is none.
        values: The keys, column by column, without those that have a null; None if they were not requested.
    """

    in_files: Predicate
    in_rows: Predicate
    repeated: str | None
    values: tuple[pa.Array, ...] | None


def key_facts(source: MergeSource, table: pa.Schema, *, with_values: bool) -> KeyFacts:
    """Find out about the keys of rows.

    Args:
        source: The rows.
        table: The columns of the table.
        with_values: Whether the keys themselves are needed.
    """
    keyed = source.index.first >= 0
    rows = source.rows if keyed.all() else source.rows.filter(pa.array(keyed))
    fields = [table.field(name) for name in source.on]
    values = [rows.column(name).combine_chunks() for name in source.on]
    repeated = np.flatnonzero(source.index.repeated)
    return KeyFacts(
        key_predicate(fields, values, max_ranges=MAX_RANGES),
        key_predicate(fields, values, max_ranges=1),
        source.describe_key(int(repeated[0])) if len(repeated) else None,
        tuple(values) if with_values else None,
    )
