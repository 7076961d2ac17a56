"""Theta sketches: distinct counts in a few kilobytes that can be united, intersected and subtracted.

`ThetaSketch` is Apache DataSketches' theta sketch as Iceberg's Puffin files hold it; `Sample` is what skerry keeps of
every file's column, from which sketches are made. Values are hashed by compiled kernels; reading sketches, estimates
and set operations need only NumPy.
"""

from __future__ import annotations

from skerry.theta.hashing import DEFAULT_SEED
from skerry.theta.overlap import Overlaps, PackedSketches, Probe, Proportion, pack_sketches
from skerry.theta.sample import Sample
from skerry.theta.sketch import ThetaSketch, difference, intersection, jaccard, union

__all__ = [
    "DEFAULT_SEED",
    "Overlaps",
    "PackedSketches",
    "Probe",
    "Proportion",
    "Sample",
    "ThetaSketch",
    "difference",
    "intersection",
    "jaccard",
    "pack_sketches",
    "union",
]
