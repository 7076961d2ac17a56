"""Merging of rows into a table: clauses as given, bound to columns, and evaluated on whole columns."""

from __future__ import annotations

from skerry.table.merging.clauses import Clause, Clauses, Delete, Insert, Update
from skerry.table.merging.key_bounds import MAX_RANGES, key_predicate
from skerry.table.merging.rules import NOTHING, MergeRules, MergeSource
from skerry.table.merging.source import MergeClauses, bind_rules, index_source, refuse_repeated, refuse_repeated_keys

__all__ = [
    "MAX_RANGES",
    "NOTHING",
    "Clause",
    "Clauses",
    "Delete",
    "Insert",
    "MergeClauses",
    "MergeRules",
    "MergeSource",
    "Update",
    "bind_rules",
    "index_source",
    "key_predicate",
    "refuse_repeated",
    "refuse_repeated_keys",
]
