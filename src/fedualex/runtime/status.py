"""How a run ended."""

from enum import Enum


class Status(Enum):
    """The outcome of a run, in one word; the value says it in a sentence."""

    OPTIMAL = "the certificate of an output is at most tol"
    OPTIMAL_INACCURATE = "the certificate of an output is at most 10 tol when the budget ended"
    MAX_ROUNDS = "all rounds were run"
    MAX_TIME = "the time limit was reached"
    STALLED = "the best certificate improved by less than 1% over a fifth of the budget"
    DIVERGED = "the certificate exceeded 10 times its best in three records running"
    NUMERICAL_ERROR = "the state became nan or infinite; the last finite state is returned"
    UNCERTIFIED = "there is no certificate, so nothing is claimed; the outputs say why"
    INTERRUPTED = "the run was interrupted; what was there is returned"
    CLIENTS_LOST = "too few clients answered"

    def __str__(self) -> str:
        return self.name
