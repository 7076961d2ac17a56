"""Estimating how many rows a set of inputs has when joined.

Columns that a query equates form a class. A value that occurs in all columns of a class yields as many rows as the
product of its frequencies in the inputs, so a class leaves `|A ∩ B ∩ …| / (|A| · |B| · …)` of the product of rows, and
the intersection is measured on the sketches. Conditions on different inputs are taken to be independent, and the rows
of an input to be spread evenly over the values of a class, unless sampled rows that are joined say more. The estimate
for a set of inputs does not depend on their order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from skerry.planner.joined_samples import JoinedSamples
from skerry.planner.relations import Estimate, Relation
from skerry.table.statistics.joinable import hashed_kind
from skerry.theta import ThetaSketch, intersection

__all__ = ["JoinColumns", "JoinGraph"]

_MEASURABLE = 16
"""Number of hashes of the smaller set below the common threshold from which on its containment is measured."""


@dataclass(frozen=True, slots=True)
class JoinColumns:
    """Columns that are equated with each other, at most one per input.

    Args:
        members: Column by input.
    """

    members: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return " = ".join(f"{name}.{column}" for name, column in self.members)


@dataclass(eq=False)
class JoinGraph:
    """Inputs and their join conditions.

    Args:
        relations: The inputs, in the order of the query.
        classes: Columns that are equated.
        residual: Selectivities of other conditions on several inputs, by the names of these inputs.
    """

    relations: Sequence[Relation]
    classes: Sequence[JoinColumns]
    residual: Sequence[tuple[frozenset[str], float]] = ()
    notes: dict[str, None] = field(default_factory=dict)
    _shares: dict[tuple[int, frozenset[str]], Estimate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_name = {relation.name: relation for relation in self.relations}
        self._pairs = self._composite_keys()
        sampled = {relation.name: relation.sampled for relation in self.relations if relation.sampled is not None}
        classes = [dict(joined.members) for joined in self.classes]
        self._samples = JoinedSamples(sampled, classes, self._without_conditions)

    @classmethod
    def of(
        cls,
        relations: Sequence[Relation],
        equalities: Iterable[tuple[tuple[str, str], tuple[str, str]]],
        residual: Sequence[tuple[frozenset[str], float]] = (),
    ) -> JoinGraph:
        """Create a graph from pairs of equal columns, (input, column) each."""
        return cls(relations, join_classes(relations, equalities), residual)

    def size(self, names: frozenset[str]) -> Estimate:
        """Rows of some of the inputs joined with each other."""
        rows = self._product(names, {name: self.by_name[name].filtered for name in names})
        for needed, share_left in self.residual:
            if needed <= names and len(needed) > 1:
                rows = rows.times(share_left, 0.0, 1.0)
        found = rows.rows * self._samples.factor(names)
        return Estimate(found, min(rows.lower, found), max(rows.upper, found))

    def _without_conditions(self, names: frozenset[str]) -> float:
        return self._product(names, {name: self.by_name[name].rows for name in names}).rows

    def _product(self, names: frozenset[str], inputs: Mapping[str, Estimate]) -> Estimate:
        """The rows that some of the inputs have together if nothing goes together with anything else."""
        rows = Estimate.exactly(1.0)
        for name in sorted(names):
            rows = rows.times(inputs[name].rows, inputs[name].lower, inputs[name].upper)
        for number, joined in enumerate(self.classes):
            present = frozenset(name for name, _ in joined.members if name in names)
            if len(present) > 1:
                share = self._share(number, present)
                rows = rows.times(share.rows, share.lower, share.upper)
        for pair, factor in self._pairs.items():
            if pair <= names:
                rows = rows.times(factor, 1.0, factor)
        return rows

    def conditions(self, left: frozenset[str], right: frozenset[str]) -> list[tuple[tuple[str, str], tuple[str, str]]]:
        """The equalities that join two sets of inputs: one for every class that has columns on both sides."""
        found = []
        for joined in self.classes:
            lefts = [member for member in joined.members if member[0] in left]
            rights = [member for member in joined.members if member[0] in right]
            if lefts and rights:
                found.append((lefts[0], rights[0]))
        return found

    def how(self, left: frozenset[str], right: frozenset[str]) -> str:
        """How far the values of two sides are contained in each other, as measured."""
        found = []
        for first, second in self.conditions(left, right):
            a, b = (self.by_name[name].fresh(column) for name, column in (first, second))
            if a is None or b is None or a.sketch is None or b.sketch is None or not self._comparable((first, second)):
                found.append("assumed: a key of the smaller side")
                continue
            theta = min(a.sketch.theta, b.sketch.theta)
            common = len(intersection([a.sketch, b.sketch]).hashes)
            shares = [f"{common / max(1, _below(side.sketch, theta)):.0%}" for side in (a, b) if side.sketch]
            found.append(f"contained {shares[0]} and {shares[1]}")
        return "; ".join(found)

    # ---- shares ----

    def _share(self, number: int, names: frozenset[str]) -> Estimate:
        """The share of the product of rows of some inputs that a class leaves."""
        key = (number, names)
        if key not in self._shares:
            members = [member for member in self.classes[number].members if member[0] in names]
            self._shares[key] = self._measured(members) or self._assumed(members)
        return self._shares[key]

    def _measured(self, members: Sequence[tuple[str, str]]) -> Estimate | None:
        sketches = []
        for name, column in members:
            known = self.by_name[name].fresh(column)
            if known is None or known.sketch is None:
                return None
            sketches.append(known.sketch)
        if not self._comparable(members):
            return None
        ordered = sorted(sketches, key=lambda sketch: sketch.estimate())
        common = ordered[0]
        for other in ordered[1:]:
            if (
                common.is_empty
                or _below(common, min(common.theta, other.theta)) >= _MEASURABLE
                or not (common.is_estimating or other.is_estimating)
            ):
                common = intersection([common, other])
            else:
                names = " and ".join(f"{name}.{column}" for name, column in members)
                self.notes[
                    f"{names}: too few common hashes to measure containment; all values are assumed to be contained"
                ] = None
        lower, upper = common.bounds(2)
        wholes = [(sketch.estimate(), *sketch.bounds(2)) for sketch in sketches]
        product, least, most = (math.prod(max(1.0, whole[part]) for whole in wholes) for part in range(3))
        return Estimate(common.estimate() / product, lower / most, upper / least)

    def _assumed(self, members: Sequence[tuple[str, str]]) -> Estimate:
        """Estimate without sketches: all columns but the largest input's are assumed to be keys that it refers to."""
        rows = sorted(max(1.0, self.by_name[name].rows.rows) for name, _ in members)
        for name, column in members:
            known = self.by_name[name].columns.get(column)
            if known is None or self.by_name[name].fresh(column) is None:
                reason = str(known.freshness) if known is not None else "it has no statistics"
                self.notes[f"{name}.{column}: assumed to be a key or a reference to it ({reason})"] = None
            elif known.sketch is None:
                reason = "it has no sketch to compare"
                self.notes[f"{name}.{column}: assumed to be a key or a reference to it ({reason})"] = None
        if not self._comparable(members):
            self.notes[
                f"{JoinColumns(tuple(members))}: types hash differently, assumed to be a key and its reference"
            ] = None
        return Estimate(1.0 / math.prod(rows[:-1]), 0.0, 1.0)

    def _comparable(self, members: Sequence[tuple[str, str]]) -> bool:
        kinds = {
            hashed_kind(self.by_name[name].types[column]) if column in self.by_name[name].types else None
            for name, column in members
        }
        return len(kinds) == 1 and None not in kinds

    def _composite_keys(self) -> dict[frozenset[str], float]:
        """Factors for pairs of inputs that are joined by several columns at once.

        The columns of one input cannot have more combinations than it has rows. If independent columns would have more,
        the input with fewer combinations is assumed to have a composite key that the other one refers to.
        """
        factors = {}
        for first, second in itertools.combinations(self.relations, 2):
            pair = frozenset((first.name, second.name))
            shared = [
                number for number, joined in enumerate(self.classes) if pair <= {name for name, _ in joined.members}
            ]
            if len(shared) < 2:
                continue
            combinations = []
            for relation in (first, second):
                columns = [dict(self.classes[number].members)[relation.name] for number in shared]
                counts = [known.ndv if (known := relation.fresh(column)) else None for column in columns]
                distinct = math.prod(count or relation.rows.rows for count in counts)
                combinations.append((min(distinct, max(1.0, relation.rows.rows)), relation, columns))
            fewest, key_holder, columns = min(combinations, key=lambda found: found[0])
            independent = math.prod(self._share(number, pair).rows for number in shared)
            if independent and 1.0 / fewest > independent:
                factors[pair] = 1.0 / fewest / independent
                self.notes[f"({', '.join(columns)}) assumed to be a key of {key_holder.name}"] = None
        return factors


def join_classes(
    relations: Sequence[Relation], equalities: Iterable[tuple[tuple[str, str], tuple[str, str]]]
) -> list[JoinColumns]:
    """Group columns that are equal by pairs; columns of different types stay in pairs."""
    types = {relation.name: relation.types for relation in relations}
    classes: list[dict[str, str]] = []
    pairs: list[JoinColumns] = []
    for first, second in equalities:
        if types[first[0]].get(first[1]) != types[second[0]].get(second[1]):
            pairs.append(JoinColumns((first, second)))
            continue
        touching = [found for found in classes if first in found.items() or second in found.items()]
        merged: dict[str, str] = {}
        clash = False
        for name, column in [*(item for found in touching for item in found.items()), first, second]:
            clash |= merged.setdefault(name, column) != column
        if clash:  # two columns of one input would be in the class
            pairs.append(JoinColumns((first, second)))
            continue
        classes = [found for found in classes if found not in touching]
        classes.append(merged)
    return [*(JoinColumns(tuple(found.items())) for found in classes), *pairs]


def _below(sketch: ThetaSketch, theta: int) -> int:
    return int(sketch.hashes.searchsorted(theta))
