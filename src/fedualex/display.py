"""What is shown: certified bounds, never tighter than the bound, and tables as text and as HTML."""

import math
import sys
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from html import escape
from unicodedata import category


def round_up(bound: float, digits: int = 4) -> str:
    """The least decimal of at most so many digits that is not below `bound`: float(round_up(b)) >= b.

    bound: a number >= 0 or infinite; what rounding left below 0 is shown as the 0 it stands for. nan is refused.
    """
    return _round(0.0 if bound < 0 else bound, digits, ROUND_CEILING)


def round_down(bound: float, digits: int = 4) -> str:
    """The largest decimal of at most so many digits that is not above `bound`: float(round_down(b)) <= b."""
    return _round(bound, digits, ROUND_FLOOR)


def _round(bound: float, digits: int, direction: str) -> str:
    if bound != bound:
        raise ValueError("nan is no bound")
    if bound in (float("inf"), float("-inf")):
        return str(bound)
    # From the shortest decimal that means this float, so that 0.1 is shown as 0.1.
    exact = Decimal(repr(float(bound)))
    short = Context(prec=digits, rounding=direction).create_decimal(exact).normalize()
    # As "g" has it: plain for sizes near 1, an exponent elsewhere.
    if -5 < short.adjusted() < max(digits, 6):
        return f"{short:f}"
    digits_of, _, exponent = f"{short:e}".partition("e")
    return f"{digits_of}e{int(exponent):+03d}"


def sure_digits(value: float | None, within: float = math.inf, digits: int = 4, sign: bool = False) -> str:
    """A number that is known to be within a bound of the right one, in the digits of which the bound leaves no doubt.

    The right number is at most one unit of the last digit away. Where not even the first digit is known, the largest
    size that the right number may have is shown, as in ±0.02. within: inf if nothing is known; then no digit is left
    out. digits: at most. sign: whether to write + too.
    """
    if value is None or math.isnan(value):
        return ""
    plus = "+" if sign else ""
    if 0 < within < math.inf:
        unit = math.ceil(math.log10(2) + math.log10(within))
        known = math.floor(math.log10(abs(value))) - unit + 1 if value else 0
        if known < 1:
            return f"±{round_up(min(abs(value) + within, sys.float_info.max), 1)}"
        if known < digits and -6 <= unit <= 0:
            return f"{value:{plus}.{-unit}f}"  # a 0 that is known is shown
        digits = min(digits, known)
    return f"{value:{plus}.{digits}g}" if value else "0"


def apart(values: Sequence[float], digits: int = 4) -> list[str]:
    """Different numbers in as few digits, and at least so many, as tell them apart."""
    for count in range(digits, 18):
        if len(set(texts := [f"{value:.{count}g}" for value in values])) == len(values):
            break
    return texts


def gap_text(gap: float | None) -> str:
    """A certified gap as a cell of a table, rounded up."""
    return "not certifiable" if gap is None else round_up(gap)


def visible(text: str) -> str:
    """Text with control characters written as escapes: names and reasons of others must not steer a terminal.

    New lines and tabs stay. Marks that change the direction of what follows count as control characters.
    """
    return "".join(_visible(mark) if not mark.isprintable() and mark not in "\n\t" else mark for mark in text)


def _visible(mark: str) -> str:
    return mark if mark.isspace() and mark > "\x7f" and category(mark) == "Zs" else ascii(mark)[1:-1]


def escape_html(text: str) -> str:
    """The same as HTML."""
    return escape(visible(text))


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, for a terminal; every row has a cell for each name of the header."""
    lines = [[visible(cell) for cell in line] for line in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], sentence: str) -> str:
    """The same for notebooks, with a sentence below; all text is escaped, and nothing is loaded from elsewhere."""
    names = "".join(f"<th>{escape_html(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{escape_html(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table><p>{escape_html(sentence)}</p>"
