"""When records end a run, and which output is its answer: on plain numbers, so that stored runs can be judged again."""

from collections.abc import Mapping, Sequence
from typing import Any

from .status import Status, Stop, status_of

Number = float | int

NEGLIGIBLE = 1e-9
"""A certificate below this share of the first one is rounding: growing from there is not divergence."""


def best_gap(record: Mapping[str, Any], output: str | None) -> Number | None:
    """The smallest certified gap of a record, or that of the one output that was asked for; None if there is none."""
    wanted = f"gap_{output or ''}"
    gaps = [value for key, value in record.items() if key.startswith(wanted) and value is not None]
    return min(gaps, default=None)


def stop_of(
    gaps: Sequence[Number | None], *, rounds: int, record_every: int, tol: Number | None, patience: int
) -> Stop | None:
    """What the best gaps of all records so far end the run with; None if it goes on.

    TOLERANCE: the last gap is at most tol. DIVERGED: the last three exceed 10 times the smallest. STALLED, with tol
    only: the smallest improved by less than 1% over the records of a fifth of the rounds, or of `patience` rounds
    (what the method declares) where that is more.
    """
    best = [gap for gap in gaps if gap is not None]
    if len(best) < len(gaps):
        return None
    if tol is not None and best[-1] <= tol:
        return Stop.TOLERANCE
    floor = NEGLIGIBLE * max(best[0], 0)
    if len(best) > 3 and all(gap > 10 * max(min(best), floor) for gap in best[-3:]):
        return Stop.DIVERGED
    span = max(2, rounds // (5 * record_every), -(-patience // record_every))
    if tol is not None and len(best) > span and min(best) > 0.99 * min(best[:-span]):
        return Stop.STALLED
    return None


def answer_of(gaps: Mapping[str, Number | None], structure: Mapping[str, Number], tol: Number | None) -> str:
    """The sparsest output that meets tol, else the one with the smallest certificate, else the polished one."""
    good = [name for name, gap in gaps.items() if status_of(gap, tol) is Status.OPTIMAL]
    if good:
        return min(good, key=lambda name: (structure[name], gaps[name]))
    certified = {name: gap for name, gap in gaps.items() if gap is not None}
    if certified:
        return min(certified, key=lambda name: certified[name])
    return next((name for name in ("polished", "last") if name in gaps), next(iter(gaps)))
