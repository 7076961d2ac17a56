"""Merging of rows into a table: clauses as given, bound to columns, and evaluated on whole columns."""

from __future__ import annotations

from skerry.table.merging.clauses import Clause, Clauses, Delete, Insert, Update
from skerry.table.merging.facts import KeyFacts, key_facts
from skerry.table.merging.key_bounds import key_predicate
from skerry.table.merging.rules import NOTHING, MergeRules, MergeSource
from skerry.table.merging.source import MergeClauses, bind_rules, index_source, refuse_repeated, refuse_repeated_keys
from skerry.table.merging.staged import (
    LocalRows,
    Pack,
    RemoteRows,
    StagedPart,
    StagedRows,
    StagedSource,
    stage,
    stage_part,
)

__all__ = [
    "NOTHING",
    "Clause",
    "Clauses",
    "Delete",
    "Insert",
    "KeyFacts",
    "LocalRows",
    "MergeClauses",
    "MergeRules",
    "MergeSource",
    "Pack",
    "RemoteRows",
    "StagedPart",
    "StagedRows",
    "StagedSource",
    "Update",
    "bind_rules",
    "index_source",
    "key_facts",
    "key_predicate",
    "refuse_repeated",
    "refuse_repeated_keys",
    "stage",
    "stage_part",
]
