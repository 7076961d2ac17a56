"""Confidence intervals of estimates, as in DataSketches.

A sketch with θ < 1 is a sample: each distinct value is in it with probability θ. The number in the sample is binomial,
and the bounds on the number sampled from are those of its tails at 1, 2 or 3 standard deviations of a normal
distribution. Where there are few samples, the tails are summed; where there are many, the normal approximation with
continuity correction is used, and in between the same with a number of deviations chosen so that it is exact for θ→0.
"""

from __future__ import annotations

import functools
import math

from skerry.errors import UnsupportedError
from skerry.theta.layout import MAX_THETA

__all__ = ["bounds", "estimate", "ratio_bounds"]

# Tail probabilities of 1, 2 and 3 standard deviations, to the digits that DataSketches computes with.
_TAIL = (0.5, 0.1586553191586026479, 0.0227502618904135701, 0.0013498126861731796)
_NORMAL_FROM = 121  # samples
_NEARLY_ALL = 1.0 - 1e-5
_SPARSE = 360.0


def estimate(count: int, theta: int) -> float:
    """The number of distinct values of which `count` hashes are below θ."""
    return count * (MAX_THETA / theta)


def bounds(count: int, theta: int, std_devs: int = 2, *, is_empty: bool = False) -> tuple[float, float]:
    """Lower and upper bound of the number of distinct values.

    Args:
        count: Hashes below the threshold.
        theta: The threshold θ as a fraction of 2⁶³-1.
        std_devs: 1, 2 or 3: about 68, 95.4 or 99.7 percent of all sketches have the truth within.
        is_empty: Whether nothing was ever seen.

    Returns:
        What `BinomialBoundsN` of DataSketches gives; to seven digits for 2 to 120 hashes below a small θ, where that
        has a table of numbers and this their definition.

    Raises:
        UnsupportedError: Another number of standard deviations.
    """
    if std_devs not in (1, 2, 3):
        raise UnsupportedError(f"bounds are given for 1, 2 or 3 standard deviations, not {std_devs}")
    if is_empty:
        return 0.0, 0.0
    fraction = theta / MAX_THETA
    middle = count / fraction
    lower = min(middle, max(float(count), _lower(count, fraction, std_devs)))
    return lower, max(middle, _upper(count, fraction, std_devs))


def _lower(count: int, theta: float, std_devs: int) -> float:
    if theta == 1.0 or count == 0:
        return float(count)
    if count == 1:
        return math.floor(math.log(1.0 - _TAIL[std_devs]) / math.log(1.0 - theta))
    if count >= _NORMAL_FROM:
        return _normal(count - 0.5, theta, -std_devs) - 0.5
    if theta > _NEARLY_ALL:
        return float(count)
    if theta < count / _SPARSE:
        return _normal(count - 0.5, theta, -_sparse_deviations(count, std_devs, -1)) - 0.5
    return _summed(count, theta, _TAIL[std_devs]) - 1.0


def _upper(count: int, theta: float, std_devs: int) -> float:
    if theta == 1.0:
        return float(count)
    if count == 0:
        return math.ceil(math.log(_TAIL[std_devs]) / math.log(1.0 - theta))
    if count >= _NORMAL_FROM:
        return _normal(count + 0.5, theta, std_devs) + 0.5
    if theta > _NEARLY_ALL:
        return count + 1.0
    if theta < count / _SPARSE:
        return _normal(count + 0.5, theta, _sparse_deviations(count, std_devs, 1)) + 0.5
    return float(_summed(count + 1, theta, 1.0 - _TAIL[std_devs]))


def _normal(corrected: float, theta: float, std_devs: float) -> float:
    """The root of the quadratic equation that bounds n where n·θ is `corrected` give or take its deviations."""
    middle = corrected / theta
    b = abs(std_devs) * math.sqrt((1.0 - theta) / theta)
    half_width = 0.5 * b * math.sqrt(b * b + 4.0 * middle)
    return middle + 0.5 * (b * b) + math.copysign(half_width, std_devs)


def _summed(count: int, theta: float, probability: float) -> int:
    """The least m for which the chance that the `count`-th sample is among the first m values exceeds `probability`.

    Sums the negative binomial distribution, whose terms are the chances that it is the m-th value exactly.
    """
    term = total = math.pow(theta, count)
    m = count
    while total <= probability:
        term *= (1.0 - theta) * m / (m + 1 - count)
        total += term
        m += 1
    return m


@functools.cache
def _sparse_deviations(count: int, std_devs: int, side: int) -> float:
    """The number of deviations with which the normal approximation is exact for θ→0.

    The number of samples is then a Poisson variable. With x the mean at which its tail beyond `count` has the
    probability wanted, the quadratic equation of `_normal` has its root at x for (x - corrected)² = deviations² · x.
    """
    tail = _TAIL[std_devs]
    if side < 0:
        mean = _poisson_mean(count - 1, 1.0 - tail)
        return (count - 0.5 - mean) / math.sqrt(mean)
    mean = _poisson_mean(count, tail)
    return (mean - count - 0.5) / math.sqrt(mean)


def _poisson_mean(at_most: int, probability: float) -> float:
    """The mean of the Poisson variable that is `at_most` or less with the given probability (by Newton's method)."""
    mean = at_most + 1.0
    for _ in range(60):
        terms = [math.exp(-mean)]
        for i in range(1, at_most + 1):
            terms.append(terms[-1] * mean / i)
        step = max((math.fsum(terms) - probability) / terms[-1], -mean / 2)  # it stays positive
        mean += step
        if abs(step) < 1e-15 * mean:
            break
    return mean


def ratio_bounds(whole: int, part: int, theta: int, std_devs: float = 2.0) -> tuple[float, float, float]:
    """Bounds and estimate of |B|/|A| for B within A, of which `part` and `whole` hashes are below θ.

    Args:
        whole: Hashes of A.
        part: Hashes of B.
        theta: Their threshold as a fraction of 2⁶³-1.
        std_devs: Width of the interval; DataSketches offers 2.

    Returns:
        Lower bound, estimate, upper bound: the approximate Clopper-Pearson interval by formula 26.5.22 of Abramowitz
        and Stegun, narrowed by √(1-θ) as the sampling is without replacement.
    """
    fraction = theta / MAX_THETA
    if whole == 0:
        return 0.0, 0.5, 1.0
    ratio = part / whole
    if fraction == 1.0:
        return ratio, ratio, ratio
    narrowed = math.sqrt(1.0 - fraction)
    if fraction > 0.5:
        narrowed += 0.01 * (fraction - 0.5)
    deviations = std_devs * narrowed
    return _proportion_lower(whole, part, deviations), ratio, _proportion_upper(whole, part, deviations)


def _proportion_lower(trials: int, successes: int, deviations: float) -> float:
    if successes == 0:
        return 0.0
    if successes == 1:
        return 1.0 - math.pow(1.0 - _normal_tail(deviations), 1.0 / trials)
    if successes == trials:
        return math.pow(_normal_tail(deviations), 1.0 / trials)
    return 1.0 - _beta_quantile(trials - successes + 1, successes, -deviations)


def _proportion_upper(trials: int, successes: int, deviations: float) -> float:
    if successes == trials:
        return 1.0
    if successes == trials - 1:
        return math.pow(1.0 - _normal_tail(deviations), 1.0 / trials)
    if successes == 0:
        return 1.0 - math.pow(_normal_tail(deviations), 1.0 / trials)
    return 1.0 - _beta_quantile(trials - successes, successes + 1, deviations)


def _normal_tail(deviations: float) -> float:
    """Probability of a normal variable beyond a number of deviations, by formula 7.1.28 of Abramowitz and Stegun.

    The formula has seven digits; the exact `math.erfc` would differ from DataSketches in the eighth.
    """
    x = deviations / math.sqrt(2.0)
    sum_ = 1.0
    for power, coefficient in enumerate(_ERF_COEFFICIENTS, 1):
        sum_ += coefficient * x**power
    return 0.5 * (1.0 / sum_**16)


_ERF_COEFFICIENTS = (0.0705230784, 0.0422820123, 0.0092705272, 0.0001520143, 0.0002765672, 0.0000430638)


def _beta_quantile(a: float, b: float, deviations: float) -> float:
    """The x at which the incomplete beta function Iₓ(a, b) reaches the tail probability of a number of deviations."""
    inverse_b, inverse_a = 1.0 / (2.0 * b - 1.0), 1.0 / (2.0 * a - 1.0)
    lam = (deviations * deviations - 3.0) / 6.0
    h = 2.0 / (inverse_a + inverse_b)
    w = deviations * math.sqrt(h + lam) / h - (inverse_b - inverse_a) * (lam + 5.0 / 6.0 - 2.0 / (3.0 * h))
    return a / (a + b * math.exp(2.0 * w))
