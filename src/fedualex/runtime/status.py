"""How a run ends: the words for it, and the rules that judge plain records."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any


class Status(Enum):
    """What a point is worth by its own certificate, in one word; the value says it in a sentence."""

    OPTIMAL = "its certified gap is at most tol"
    OPTIMAL_INACCURATE = "its certified gap is above tol and at most 10 tol"
    CERTIFIED = "its gap is certified, but it is above 10 tol, or no tol was given"
    UNCERTIFIED = "nothing is claimed of it; its certificate says why"

    def __str__(self) -> str:
        return self.name


class Stop(Enum):
    """Why a run ended, in one word; the value says it in a sentence."""

    TOLERANCE = "an output's certified gap was at most tol"
    MAX_ROUNDS = "all rounds were run"
    MAX_TIME = "the time limit was reached"
    STALLED = "the best certificate improved by less than 1% over a fifth of the rounds and the method's patience"
    DIVERGED = "the certificate exceeded 10 times its best in three records in a row"
    NUMERICAL_ERROR = "the state became nan or infinite; the last finite one is kept"
    DISPROVED = "f was seen not to be convex in x and concave in y, so its certificates were withdrawn"
    INTERRUPTED = "the run was interrupted; what was there is returned"
    CLIENTS_LOST = "too few clients answered"
    INFEASIBLE = "no point of the domain meets the limits of the problem"

    def __str__(self) -> str:
        return self.name


INACCURATE = 10.0
"""A certified gap of at most this many times tol is worth a word of its own."""


def status_of(gap: float | int | None, tol: float | int | None) -> Status:
    """What a point with this certified gap is worth."""
    if gap is None:
        return Status.UNCERTIFIED
    if tol is None or gap > INACCURATE * tol:
        return Status.CERTIFIED
    return Status.OPTIMAL if gap <= tol else Status.OPTIMAL_INACCURATE


# When records end a run, and which output is its answer: on plain numbers, so that stored runs can be judged again.


Number = float | int

NEGLIGIBLE = 1e-9
"""A certificate below this share of the first one is rounding: growing from there is not divergence."""


def best_gap(record: Mapping[str, Any], output: str | None, without: str = "") -> Number | None:
    """The smallest certified gap of a record, or that of the one output that was asked for; None if there is none.

    without: an output that does not count.
    """
    wanted = f"gap_{output or ''}"
    keys = [key for key in record if key.startswith(wanted) and key != f"gap_{without}"]
    return min((record[key] for key in keys if record[key] is not None), default=None)


def stop_of(
    records: Sequence[Mapping[str, Any]],
    output: str | None,
    *,
    rounds: int,
    record_every: int,
    tol: Number | None,
    patience: int,
) -> Stop | None:
    """What the best gaps of all records so far end the run with; None if it goes on. output: the one that counts alone.

    TOLERANCE: the last gap is at most tol. DIVERGED: the last three gaps of points exceed 10 times their smallest, and
    the bounds, which can only become better, did not. STALLED, with tol only: the smallest improved by less than 1%
    over the records of a fifth of the rounds, or of `patience` rounds (what the method declares) where that is more.
    """
    best = [gap for record in records if (gap := best_gap(record, output)) is not None]
    if not best or len(best) < len(records):
        return None
    if tol is not None and best[-1] <= tol:
        return Stop.TOLERANCE
    points = [gap for record in records if (gap := best_gap(record, output, without="bounds")) is not None]
    if len(best) > 3 and min(best[-3:]) >= min(best[:-3]) and _diverge(points):
        return Stop.DIVERGED
    span = max(2, rounds // (5 * record_every), -(-patience // record_every))
    if tol is not None and len(best) > span and min(best) > 0.99 * min(best[:-span]):
        return Stop.STALLED
    return None


def _diverge(gaps: Sequence[Number]) -> bool:
    return len(gaps) > 3 and all(gap > 10 * max(min(gaps), NEGLIGIBLE * max(gaps[0], 0)) for gap in gaps[-3:])


def answer_of(gaps: Mapping[str, Number | None], structure: Mapping[str, Number], tol: Number | None) -> str:
    """The sparsest output that meets tol, else the one with the smallest certificate, else the polished one."""
    good = [name for name, gap in gaps.items() if status_of(gap, tol) is Status.OPTIMAL]
    if good:
        return min(good, key=lambda name: (structure[name], gaps[name]))
    certified = {name: gap for name, gap in gaps.items() if gap is not None}
    if certified:
        return min(certified, key=lambda name: certified[name])
    return next((name for name in ("polished", "last") if name in gaps), next(iter(gaps)))
