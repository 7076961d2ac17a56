"""Merging rows into a table: clauses as they are said, bound to columns, and decided on whole columns at a time."""

from __future__ import annotations

from skerry.table.merging.clauses import Clause, Clauses, Delete, Insert, Update, read_clauses
from skerry.table.merging.key_bounds import key_predicate
from skerry.table.merging.rules import NOTHING, MergeRules, MergeSource

__all__ = [
    "NOTHING",
    "Clause",
    "Clauses",
    "Delete",
    "Insert",
    "MergeRules",
    "MergeSource",
    "Update",
    "key_predicate",
    "read_clauses",
]
