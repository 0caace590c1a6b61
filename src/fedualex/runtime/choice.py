"""Which method and which precision a run has that nobody chose them for, and why."""

from typing import Any

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


def chosen_precision(method: AbstractMethod, options: RunOptions) -> tuple[str, str]:
    """The precision of a run's rounds, 'float32' or 'float64', and the reason in one sentence.

    Noise is far above the rounding of float32, and rounds then take half the time; where operators are exact, nothing
    but the rounding keeps a certificate from becoming smaller.
    """
    if options.dtype is not None:
        return str(options.dtype), f"{options.dtype}, as was asked for"
    if method.exchanging:
        return "float64", "float64: the method works with exact operators"
    noise: Any = options.noise
    if noise is None or not noise.noisy or (noise.gaussian and noise.sigma == 0):
        return "float64", "float64: operators are exact"
    return "float32", "float32: operators are noisy"
