"""Step sizes for methods that were built without: from theory where there is a theorem, a heuristic elsewhere."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .. import theory
from ..algorithms import AbstractMethod, ChambollePock, FeDualEx, OptimisticMirrorDescent, TsengAPG
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
    one_machine: bool,
    clients: int,
    local_steps: int,
    rounds: int,
    as_assumed: bool,
) -> tuple[AbstractMethod, str]:
    """The method with every missing step size filled in, and a sentence that says what was chosen and why.

    as_assumed: whether the run starts and steps as the theorems assume (init="project", all clients as many steps).
    """
    names = missing_steps(method)
    if not names:
        return method, ""
    constants = theory.constants(problem, oracle, z0)
    bound: Any
    if one_machine:
        label = "Theorem 4" if constants.sigma == 0 else "Theorem 3"
        theorem = theory.theorem4 if constants.sigma == 0 else theory.theorem3
        bound = theorem(constants, steps=rounds).corrected
    else:
        label = "proposition B"
        eta_s = min(float(getattr(method, "eta_s", None) or 1.0), 1.0)  # nothing is known above 1
        bound = theory.proposition_b(constants, clients=clients, local_steps=local_steps, rounds=rounds, eta_s=eta_s)
    eta = float(bound.best_step)
    if not 0 < eta < np.inf:
        raise ValueError(
            f"theory gives no step size here (beta={constants.beta:.3g}, B0={constants.B0:.3g}, "
            f"sigma={constants.sigma:.3g}); give {', '.join(names)} yourself"
        )
    chosen = _fill(method, names, eta, constants, rounds)
    filled = eqx.tree_at(
        lambda m: [getattr(m, name) for name in chosen],
        method,
        [np.asarray(value) for value in chosen.values()],
        is_leaf=lambda leaf: leaf is None,
    )
    equal_clients = problem.clients in (None, 1)
    known = np.inf > constants.B0 and "estimate" not in (constants.how.get("beta"), constants.how.get("sigma"))
    covered = isinstance(method, FeDualEx) and equal_clients and float(method.eta_s or 1) <= 1 and as_assumed and known
    why = label if covered else f"heuristic: the step of {label}"
    shown = ", ".join(f"{name}={value:.4g}" for name, value in chosen.items())
    return filled, f"{shown} ({why}; beta={constants.beta:.4g}, sigma={constants.sigma:.3g}, B0={constants.B0:.3g})"


def _fill(method: AbstractMethod, names: list[str], eta: float, constants: Any, rounds: int) -> dict[str, float]:
    """A value for each missing step size; what was given stays."""
    rules: dict[str, float] = dict.fromkeys(names, eta)
    if isinstance(method, OptimisticMirrorDescent):
        rules["eta"] = min(eta, 1 / (2 * constants.beta))
    if isinstance(method, TsengAPG):  # the smoothing for a fixed number of steps and blocks of equal size
        mu = 2 * constants.beta / (rounds + 1) if method.mu is None else float(method.mu)
        rules |= {"mu": mu, "L": constants.beta**2 / mu}
    if isinstance(method, ChambollePock):  # tau_x tau_y beta^2 = 1
        x, y = method.tau_x, method.tau_y
        rules["tau_x"] = 1 / constants.beta if y is None else 1 / (float(y) * constants.beta**2)
        rules["tau_y"] = 1 / constants.beta if x is None else 1 / (float(x) * constants.beta**2)
    rules["eta_s"] = 1.0
    return {name: rules[name] for name in names}


def polish_grid(problem: AbstractProblem) -> Any:
    """Steps around 1 / beta for the polished output."""
    try:
        beta = theory.constants(problem).beta
    except ValueError:  # an operator that is nan somewhere in the domain has no constants
        beta = np.inf
    return jnp.asarray([0.1, 0.3, 1.0, 3.0, 10.0]) / (beta if np.isfinite(beta) and beta > 0 else 1.0)
