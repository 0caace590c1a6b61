"""Numbers as a committee reads them: with the digits that their intervals deserve, and no more."""

import math
import sys
from collections.abc import Sequence

from ..display import sure_digits

DIGITS = 3
"""Significant digits of an estimate at most."""
TINY, HUGE = 1e-3, 1e3
"""Ratios beyond these are shown as beyond them: no table of rows tells such odds apart."""


def number_text(value: float | None, digits: int = DIGITS) -> str:
    """At most so many significant digits; nothing where there is no number."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    if -4 <= decimals <= digits + 4:
        shown = f"{round(value, decimals):.{max(decimals, 0)}f}"
        return _minus(shown)
    return _minus(f"{value:.{digits - 1}e}")


def coefficient_text(value: float | None, within: float | None) -> str:
    """A coefficient in the digits that what is proved of it leaves no doubt of; within: None if nothing is."""
    return number_text(value) if within is None else _minus(sure_digits(value, within, DIGITS))


def estimate_texts(value: float, ends: Sequence[float] | None) -> tuple[str, str]:
    """An estimate and its interval, in as many decimals as two digits of the interval's length have."""
    if not ends or any(end is None or not math.isfinite(end) for end in ends):
        return number_text(value), ""
    lower, upper = ends
    length = upper - lower
    decimals = DIGITS - 1 - _power(value)
    if length > 0:
        decimals = min(decimals, 1 - _power(length)) if value else 1 - _power(length)
    if not -6 <= decimals <= 6:
        return number_text(value), f"{number_text(lower, 2)} to {number_text(upper, 2)}"
    shown = [_minus(_round_text(number, decimals)) for number in (value, lower, upper)]
    return shown[0], f"{shown[1]} to {shown[2]}"


def ratio_texts(value: float | None, lower: float | None, upper: float | None) -> tuple[str, str]:
    """A ratio and its interval: three digits where the ends are within a factor of 2, else two."""
    narrow = lower is not None and upper is not None and lower > 0 and upper / lower < 2
    digits = DIGITS if narrow else DIGITS - 1
    return _ratio(value, digits), f"{_ratio(lower, digits)} to {_ratio(upper, digits, upper=True)}"


def chance_text(p: float | None) -> str:
    """A p-value."""
    if p is None or not math.isfinite(p):
        return "–"
    return "< 0.001" if p < 1e-3 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def _ratio(value: float | None, digits: int, upper: bool = False) -> str:
    if value is None:  # out of the range of floats, which JSON has no number for
        return f"> {HUGE:g}" if upper else "–"
    if value < TINY:
        return f"< {TINY:g}"
    return f"> {HUGE:g}" if value > HUGE else number_text(value, digits)


def _round_text(value: float, decimals: int) -> str:
    return f"{round(value, decimals):.{max(decimals, 0)}f}"


def _power(value: float) -> int:
    return math.floor(math.log10(min(abs(value), sys.float_info.max))) if value else 0


def _minus(shown: str) -> str:
    """A true minus, and none before a number that is shown as 0."""
    if shown.startswith("-"):
        return shown[1:] if not shown.strip("-0.") else f"−{shown[1:]}"
    return shown
