"""Merging records of primary-key tables: sorted runs, and how each engine merges the records of a key.

`encode_order_keys` turns keys into comparable bytes, `merge_runs` and `sort_records` determine the order, and
`MergeFunction.merge` merges the records of each key into one. Everything works on whole columns.
"""

from __future__ import annotations

from skerry.paimon.merging.engines import MergeFunction, check_kinds
from skerry.paimon.merging.key_search import search_keys
from skerry.paimon.merging.order_keys import OrderKeys, encode_order_keys
from skerry.paimon.merging.records import MergeOrder, Records, RowKind, lowest_level_only, merge_runs, sort_records

__all__ = [
    "MergeFunction",
    "MergeOrder",
    "OrderKeys",
    "Records",
    "RowKind",
    "check_kinds",
    "encode_order_keys",
    "lowest_level_only",
    "merge_runs",
    "search_keys",
    "sort_records",
]
