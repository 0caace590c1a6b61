"""Step sizes for methods that were built without: from theory where there is a theorem, a heuristic elsewhere."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np

from .. import theory
from ..algorithms import AbstractMethod
from ..problems import AbstractProblem
from ..theory.constants import smoothness
from ..tree import Saddle
from ..validation import positive
from .options import RunOptions
from .setup import oracle_of

FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Multiples of a step size that are tried where none is known to be the best."""


def with_theory_steps(
    method: AbstractMethod,
    problem: AbstractProblem,
    options: RunOptions,
    z0: Saddle,
    *,
    clients: int,
    rounds: int,
    alone: bool = False,
) -> tuple[AbstractMethod, str]:
    """The method with every missing step size filled in, and a sentence that says what was chosen and why.

    alone: whether the theorems for one machine are asked instead of the one for clients.
    """
    names = method.missing_steps()
    if not names:
        return method, ""
    constants = theory.constants(problem, oracle_of(options), z0)
    label, bound = _bound(method, constants, options, clients=clients, rounds=rounds, alone=alone)
    eta = float(bound.best_step)
    if not 0 < eta < np.inf:
        raise ValueError(
            f"theory gives no step size here (beta={constants.beta:.3g}, B0={constants.B0:.3g}, "
            f"sigma={constants.sigma:.3g}); give {', '.join(names)} yourself"
        )
    rule = method.theory_steps(eta, constants.beta, rounds)
    chosen = {name: rule[name] for name in names}
    filled = with_steps(method, chosen)
    why = label if _covers(method, problem, options, constants) else f"heuristic: the step of {label}"
    shown = ", ".join(f"{name}={value:.4g}" for name, value in chosen.items())
    return filled, f"{shown} ({why}; beta={constants.beta:.4g}, sigma={constants.sigma:.3g}, B0={constants.B0:.3g})"


def untuned(steps: Mapping[str, str]) -> str:
    """One sentence about the methods whose step sizes nobody tuned; empty if there are none.

    steps: for each method what `with_theory_steps` says that it chose.
    """
    labels = [label for label, chosen in steps.items() if chosen]
    if not labels:
        return ""
    names = " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))
    return (
        f"The step sizes of {names} are theory's defaults and untuned: fx.tune(problem, method, rounds=...) looks for "
        "better ones."
    )


def with_steps(method: AbstractMethod, steps: Mapping[str, float]) -> AbstractMethod:
    """The method with these step sizes."""
    return eqx.tree_at(
        lambda m: [getattr(m, name) for name in steps],
        method,
        [positive(name, value) for name, value in steps.items()],
        is_leaf=lambda leaf: leaf is None,
    )


def _bound(
    method: AbstractMethod, constants: Any, options: RunOptions, *, clients: int, rounds: int, alone: bool
) -> tuple[str, Any]:
    """The theorem whose step is taken, by name, and its bound."""
    if alone:
        if constants.sigma == 0:
            return "Theorem 4", theory.theorem4(constants, steps=rounds).corrected
        return "Theorem 3", theory.theorem3(constants, steps=rounds).corrected
    eta_s = min(float(getattr(method, "eta_s", None) or 1.0), 1.0)  # nothing is known above 1
    local_steps = int(np.max(options.local_steps))
    return "proposition B", theory.proposition_b(
        constants, clients=clients, local_steps=local_steps, rounds=rounds, eta_s=eta_s
    )


def _covers(method: AbstractMethod, problem: AbstractProblem, options: RunOptions, constants: Any) -> bool:
    """Whether the run starts and steps as the theorems assume, on a problem whose constants are known."""
    equal_steps = bool(np.min(options.local_steps) == np.max(options.local_steps))
    known = np.inf > constants.B0 and "estimate" not in (constants.how.get("beta"), constants.how.get("sigma"))
    as_assumed = options.init == "project" and equal_steps and problem.clients in (None, 1)
    return method.covered and float(getattr(method, "eta_s", None) or 1) <= 1 and as_assumed and known


def polish_grid(problem: AbstractProblem) -> Any:
    """Steps around 1 / beta for the polished output."""
    try:
        beta = smoothness(problem)
    except ValueError:  # an operator that is nan somewhere in the domain has no constants
        beta = np.inf
    return np.asarray(FACTORS) / (beta if np.isfinite(beta) and beta > 0 else 1.0)
