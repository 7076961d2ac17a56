"""Values as texts, as Java writes them: in folder names, and when a column changes to a string type.

Spec: docs/formats/paimon.md § 2.6, § 7.5; Java SE 19, `Double.toString` (the shortest text of two digits or more);
Paimon Java, `DateTimeUtils`.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

__all__ = ["double_text", "float_text", "time_text"]


def double_text(value: float) -> str:
    """Format like `Double.toString`: plain from a thousandth to ten million, else with an exponent."""
    return _text(value, repr(value))


def float_text(value: float) -> str:
    """Format like `Float.toString`: the shortest text that identifies the 32-bit number."""
    return _text(value, str(np.float32(value)))


def _text(value: float, shortest: str) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(Decimal(shortest), "f")
        return text if "." in text else f"{text}.0"
    parts = Decimal(shortest).normalize().as_tuple()
    if len(parts.digits) == 1:  # the nearest of all texts of two digits
        parts = Decimal(f"{value:.1e}").as_tuple()
    assert isinstance(parts.exponent, int)
    mantissa = "".join(map(str, parts.digits))
    exponent = parts.exponent + len(mantissa) - 1
    return f"{'-' if parts.sign else ''}{mantissa[0]}.{mantissa[1:] or '0'}E{exponent}"


def time_text(millis: int, precision: int) -> str:
    """A time of day with fractional digits up to the last that is not zero, but at least one.

    Args:
        millis: Milliseconds since midnight.
        precision: Fractional digits of the type.
    """
    seconds, fraction = divmod(millis, 1000)
    digits = f"{fraction:03d}"[:precision]
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{digits.rstrip('0') or '0'}" if digits else text
