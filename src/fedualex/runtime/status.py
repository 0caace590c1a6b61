"""Two words for every run: what its answer is worth, and why it stopped."""

from enum import Enum


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
