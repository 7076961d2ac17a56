"""Figures of benchmarks, for `all.py`: a script tells each figure that it prints, by one call.

Where no one collects them, telling does nothing.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

FIGURES_FILE = "SKERRY_FIGURES"
"""The environment variable that names the file where figures are collected, one JSON object a line."""


@dataclass(frozen=True)
class Figure:
    """What a benchmark measured.

    Args:
        name: What was measured, unique in its script.
        unit: Of `value` and `peer`.
        value: The median of skerry's rounds.
        noise: How far half of the rounds are apart, as a share of the median; 0 for one round.
        peer: The median of the peer's rounds in the same run.
        peer_noise: As `noise`.
        more_is_better: Whether a greater value is a better one.
    """

    name: str
    unit: str
    value: float
    noise: float = 0.0
    peer: float | None = None
    peer_noise: float = 0.0
    more_is_better: bool = False


def figure(
    name: str,
    ours: float | Sequence[float],
    peer: float | Sequence[float] | None = None,
    unit: str = "s",
    *,
    more_is_better: bool = False,
) -> None:
    """Tell a figure.

    Args:
        name: What was measured; unique in the script.
        ours: The value of skerry, or those of all rounds.
        peer: That of the peer in the same run.
        unit: Of both.
        more_is_better: Whether a greater value is a better one, as of rows a second.
    """
    path = os.environ.get(FIGURES_FILE)
    if path is None:
        return
    value, noise = _median(ours)
    other, other_noise = (None, 0.0) if peer is None else _median(peer)
    found = Figure(name, unit, value, noise, other, other_noise, more_is_better)
    with Path(path).open("a") as file:
        print(json.dumps(asdict(found)), file=file)


def _median(values: float | Sequence[float]) -> tuple[float, float]:
    """The median, and how far the quartiles are apart as a share of it."""
    if isinstance(values, int | float):
        return float(values), 0.0
    middle = statistics.median(values)
    if len(values) < 2 or not middle:
        return middle, 0.0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return middle, abs(third - first) / abs(middle)
