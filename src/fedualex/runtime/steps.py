"""Step sizes for methods that were built without: from theory where there is a theorem, a heuristic elsewhere."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .. import theory
from ..algorithms import AbstractMethod, OptimisticMirrorDescent
from ..problems import AbstractOracle, AbstractProblem
from ..tree import Saddle


def missing_steps(method: AbstractMethod) -> list[str]:
    """The names of the step sizes that were left to theory."""
    return [name for name, value in vars(method).items() if value is None]


def with_theory_steps(
    method: AbstractMethod,
    problem: AbstractProblem,
    oracle: AbstractOracle,
    z0: Saddle,
    *,
    clients: int,
    local_steps: int,
    rounds: int,
) -> tuple[AbstractMethod, str]:
    """The method with every missing step size filled in, and a sentence that says what was chosen and why."""
    names = missing_steps(method)
    if not names:
        return method, ""
    constants = theory.constants(problem, oracle, z0)
    bound = theory.proposition_b(constants, clients=clients, local_steps=local_steps, rounds=rounds)
    eta = float(bound.best_step)
    if not np.isfinite(eta) or eta <= 0:
        raise ValueError(
            f"theory gives no step size here (beta={constants.beta:.3g}, B0={constants.B0:.3g}, "
            f"sigma={constants.sigma:.3g}); give {', '.join(names)} yourself"
        )
    chosen: dict[str, float] = dict.fromkeys(names, eta)
    if "mu" in names or "L" in names:  # Tseng: the smoothing for a fixed number of steps, equal block sizes
        mu = 2 * constants.beta / (rounds * local_steps + 1)
        chosen |= {"mu": mu, "L": constants.beta**2 / mu}
    if isinstance(method, OptimisticMirrorDescent):
        chosen = dict.fromkeys(names, min(eta, 1 / (2 * constants.beta)))
    if {"tau_x", "tau_y"} & set(names):
        chosen |= dict.fromkeys({"tau_x", "tau_y"} & set(names), 1 / constants.beta)
    filled = eqx.tree_at(
        lambda m: [getattr(m, name) for name in chosen],
        method,
        [np.asarray(value) for value in chosen.values()],
        is_leaf=lambda leaf: leaf is None,
    )
    proved = problem.clients is None and type(method).__name__ == "FeDualEx"
    label = "proposition B" if proved else "heuristic: proposition B's step"
    shown = ", ".join(f"{name}={value:.4g}" for name, value in chosen.items())
    return filled, f"{shown} ({label}; beta={constants.beta:.4g}, sigma={constants.sigma:.3g}, B0={constants.B0:.3g})"


def polish_grid(problem: AbstractProblem) -> Any:
    """Steps around 1 / beta for the polished output."""
    beta = theory.constants(problem).beta
    return jnp.asarray([0.1, 0.3, 1.0, 3.0, 10.0]) / (beta if np.isfinite(beta) and beta > 0 else 1.0)
