"""Join ordering: how many rows conditions and joins leave, estimated from published statistics.

`relations` describes each input, `selectivity` estimates what a condition leaves of it, `joins` how many rows any set
of inputs has when joined, `ordering` finds the cheapest order, and `query` parses SQL and writes it back in that order.
Nothing here opens a file.
"""

from __future__ import annotations

from skerry.planner.joins import JoinColumns, JoinGraph
from skerry.planner.ordering import JoinPlan, JoinStep, plan_joins
from skerry.planner.relations import Estimate, Relation

__all__ = ["Estimate", "JoinColumns", "JoinGraph", "JoinPlan", "JoinStep", "Relation", "plan_joins"]
