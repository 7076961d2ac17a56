"""The pages of a text index: a B-tree whose leaves hold terms, and its interior pages their children's last terms.

Spec: docs/formats/amudai-indexes.md § 2.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.indexes.term_lists import SortedTerms
from skerry.amudai.values.types import list_of_named_items as list_of
from skerry.kernels import kernel

__all__ = ["PAGE_SCHEMA", "POSITION_SCHEMA", "build_pages"]

_FIELD: Final = pa.struct(
    [
        pa.field("field_schema_id", pa.uint32()),
        pa.field("repr_type", pa.uint8()),
        pa.field("pos_list_end_offset", pa.uint64()),
    ]
)
_STRIPE: Final = pa.struct([pa.field("stripe_id", pa.uint16()), pa.field("fields", list_of(_FIELD))])
_ENTRY: Final = pa.struct(
    [
        pa.field("term", pa.binary()),
        pa.field("child_position", pa.uint64()),
        pa.field("term_positions", list_of(_STRIPE)),
    ]
)
PAGE_SCHEMA: Final = pa.schema(
    [
        pa.field("level", pa.uint8()),
        pa.field("entries", list_of(_ENTRY)),
        pa.field("pos_list_start_offset", pa.uint64()),
    ]
)
"""The columns of the terms shard; a record is a page."""
POSITION_SCHEMA: Final = pa.schema([pa.field("position", pa.uint64())])
"""The column of the positions shard."""

LEAF_BYTES, FIELD_BYTES = 8192, 16  # a leaf is full once its terms and entries take this much; what an entry takes
_PAGE_BYTES: Final = 4096
_CHILD_BYTES: Final = 24


def build_pages(found: SortedTerms, parts: Sequence[tuple[int, int]]) -> pa.Table:
    """The pages of an index, in the order of the format: the last is the root.

    Args:
        found: The terms.
        parts: Stripe and schema id of each part.

    Returns:
        A table of `PAGE_SCHEMA`; empty if there are no terms.
    """
    if not len(found.entry_terms):
        return PAGE_SCHEMA.empty_table()
    lengths = np.diff(np.frombuffer(found.terms.buffers()[1], np.int64, len(found.terms) + 1, 8 * found.terms.offset))
    pages = np.empty(len(found.entry_terms), np.int64)
    break_pages(found.entry_terms, lengths, pages)
    leaves = _leaves(found, np.array(parts, np.int64).reshape(-1, 2), pages)
    last_entries = np.append(np.flatnonzero(pages[1:] != pages[:-1]), len(pages) - 1)
    last_terms = found.terms.take(pa.array(found.entry_terms[last_entries])).to_pylist()
    return _with_interior_pages(leaves, last_terms)


@kernel("int64(int64[::1], int64[::1], out int64[::1])")
def break_pages(terms: Any, lengths: Any, pages: Any) -> int:
    """The leaf of each entry: a leaf ends with the entry that fills it, even if its term has more."""
    page: Any = np.int64(0)
    size: Any = np.int64(0)
    for i in range(len(terms)):
        if size == 0 or terms[i] != terms[i - 1]:
            size += lengths[terms[i]]
        size += FIELD_BYTES
        pages[i] = page
        if size >= LEAF_BYTES:
            page += 1
            size = 0
    return 0


def _leaves(found: SortedTerms, parts: npt.NDArray[np.int64], pages: npt.NDArray[np.int64]) -> pa.Table:
    stripes = parts[found.entry_parts, 0]
    fields = pa.StructArray.from_arrays(
        [
            pa.array(parts[found.entry_parts, 1], pa.uint32()),
            pa.array(found.representations),
            pa.array(found.ends, pa.uint64()),
        ],
        fields=list(_FIELD),
    )
    new_page = np.append(True, pages[1:] != pages[:-1])
    new_term = new_page | np.append(True, found.entry_terms[1:] != found.entry_terms[:-1])
    new_stripe = new_term | np.append(True, stripes[1:] != stripes[:-1])
    of_stripes = np.flatnonzero(new_stripe)
    stripe_items = pa.StructArray.from_arrays(
        [pa.array(stripes[of_stripes], pa.uint16()), _lists(of_stripes, len(pages), fields)], fields=list(_STRIPE)
    )
    of_terms = np.flatnonzero(new_term)
    items = pa.StructArray.from_arrays(
        [
            found.terms.take(pa.array(found.entry_terms[of_terms])).cast(pa.binary()),
            pa.nulls(len(of_terms), pa.uint64()),
            _lists(np.searchsorted(of_stripes, of_terms), len(of_stripes), stripe_items),
        ],
        fields=list(_ENTRY),
    )
    of_pages = np.flatnonzero(new_page)
    starts = np.append(0, found.ends)[of_pages]
    return pa.table(
        [
            pa.array(np.zeros(len(of_pages), np.uint8)),
            _lists(np.searchsorted(of_terms, of_pages), len(of_terms), items),
            pa.array(starts, pa.uint64()),
        ],
        schema=PAGE_SCHEMA,
    )


def _lists(starts: npt.NDArray[np.int64], count: int, items: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(np.append(starts, count), pa.int32()), items)


def _with_interior_pages(leaves: pa.Table, last_terms: list[bytes]) -> pa.Table:
    """Put each interior page after its children, and the root last."""
    order: list[int] = []  # leaves by their ordinals, interior pages after all of them
    interior: list[dict[str, Any]] = []
    open_pages: list[tuple[int, list[dict[str, Any]]]] = []  # per level from 1 on: bytes and entries

    def add_child(level: int, term: bytes, position: int) -> None:
        if len(open_pages) < level:
            open_pages.append((0, []))
        size, entries = open_pages[level - 1]
        entries.append({"term": term, "child_position": position, "term_positions": None})
        size += len(term) + _CHILD_BYTES
        open_pages[level - 1] = size, entries
        if size >= _PAGE_BYTES:
            end_page(level)

    def end_page(level: int) -> None:
        _, entries = open_pages[level - 1]
        open_pages[level - 1] = 0, []
        order.append(leaves.num_rows + len(interior))
        interior.append({"level": level, "entries": entries, "pos_list_start_offset": None})
        add_child(level + 1, entries[-1]["term"], len(order) - 1)

    for ordinal, term in enumerate(last_terms):
        order.append(ordinal)
        add_child(1, term, len(order) - 1)
    level = 1
    while level <= len(open_pages):
        _, entries = open_pages[level - 1]
        # a single child at the top is the last page, and so the root itself
        if len(entries) > 1 or (entries and level < len(open_pages)):
            end_page(level)
        level += 1
    table = pa.concat_tables([leaves, pa.Table.from_pylist(interior, PAGE_SCHEMA)]) if interior else leaves
    return table.combine_chunks().take(pa.array(order))
