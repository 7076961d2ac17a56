"""In which order to join: how many rows conditions and joins leave, from published statistics.

`relations` says what is known of each input, `selectivity` what a condition leaves of it, `joins` how many rows any set
of inputs has when joined, `ordering` which order makes the least of them, `query` reads SQL and writes it back in that
order. Nothing here opens a file.
"""

from __future__ import annotations

from skerry.planner.joins import JoinColumns, JoinGraph
from skerry.planner.ordering import JoinPlan, JoinStep, plan_joins
from skerry.planner.relations import Estimate, Relation

__all__ = ["Estimate", "JoinColumns", "JoinGraph", "JoinPlan", "JoinStep", "Relation", "plan_joins"]
