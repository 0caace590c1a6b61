"""Which method a run has that nobody chose one for, and why."""

import numpy as np

from ..algorithms import AbstractMethod, FeDualEx, FeDualExCorrected, FeDualSlide
from ..problems import AbstractProblem
from .options import RunOptions


def chosen_method(problem: AbstractProblem, options: RunOptions) -> tuple[AbstractMethod, str]:
    """The method that fits a problem and the options of a run, and the reason in one sentence.

    FeDualSlide where every exchange can reach all clients and their exact operators; else FeDualEx for clients that
    share one f, and FeDualExCorrected for clients that differ.
    """
    hindered = _why_no_surveys(problem, options)
    if not hindered:
        return FeDualSlide(), "FeDualSlide: all clients can be asked for exact operators"
    if problem.clients in (None, 1):
        return FeDualEx(), f"FeDualEx: all clients share one f, and {hindered}"
    return FeDualExCorrected(), f"FeDualExCorrected: clients differ, and {hindered}"


def _why_no_surveys(problem: AbstractProblem, options: RunOptions) -> str:
    """What keeps FeDualSlide from being the choice; empty if nothing does."""
    if options.noise is not None:
        return "operators are noisy"
    if options.cohort is not None:
        return "a round reaches a cohort only"
    if np.min(options.local_steps) != np.max(options.local_steps):
        return "they take unequally many local steps"
    if problem.why_uncertifiable():
        return "there is no certificate to work with"
    return ""
