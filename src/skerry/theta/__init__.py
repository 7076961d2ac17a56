"""Theta sketches: distinct counts in a few kilobytes that support union, intersection and difference.

    sketch = theta.ThetaSketch().update(table["tailnum"])
    sketch.estimate(), sketch.bounds(2)

`ThetaSketch` is Apache DataSketches' theta sketch, as stored in Iceberg's Puffin files. `Sample` is a bottom-k sketch:
skerry keeps one per data file and column, and makes the theta sketches of tables from them. Values are hashed by
compiled kernels; reading sketches, estimates and set operations need only NumPy.
"""

from __future__ import annotations

from skerry.theta.sample import Sample
from skerry.theta.sketch import ThetaSketch, difference, intersection, jaccard, union

__all__ = ["Sample", "ThetaSketch", "difference", "intersection", "jaccard", "union"]
