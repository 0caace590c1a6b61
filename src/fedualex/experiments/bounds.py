"""What theory says about a configured run, as plain data."""

from math import isfinite
from typing import Any

import numpy as np

from .. import theory
from ..problems import Exact
from ..theory import Bound
from .configuration import Configuration


def bounds_of(configuration: Configuration) -> dict[str, Any]:
    """Constants, and every theorem that speaks about such a run, as printed and as corrected."""
    problem, options = configuration.problem, configuration.options
    oracle = options.noise or Exact()
    constants = theory.constants(problem, oracle, options.z0)
    names = ("beta", "sigma", "grad_bound", "B", "B0", "diameter", "kappa")
    result: dict[str, Any] = {
        "constants": {
            name: {"value": _finite(getattr(constants, name)), "how": constants.how.get(name, "")} for name in names
        },
        "bounds": [],
        "notes": [],
    }
    if options.steps is not None:
        theorem = theory.theorem3 if constants.sigma > 0 else theory.theorem4
        found = theorem(constants, steps=options.steps)
        bounds = [(found.name, "printed", found.printed), (found.name, "corrected", found.corrected)]
    else:
        eta_s = configuration.resolved["method"].get("eta_s") or 1.0
        sizes: dict[str, Any] = {
            "clients": problem.clients or options.clients or 1,
            "local_steps": int(np.max(options.local_steps)),
            "rounds": options.rounds,
            "eta_s": eta_s,
        }
        saddle = problem.like.y is not None
        found = (theory.theorem1 if saddle else theory.theorem2)(constants, **sizes)
        own = theory.proposition_b(constants, **sizes)
        bounds = [
            (found.name, "printed", found.printed),
            (found.name, "corrected", found.corrected),
            (own.name, "ours", own),
        ]
        if problem.clients not in (None, 1):
            result["notes"].append(
                "The clients have data of their own: these bounds are proved for equal clients only."
            )
    result["bounds"] = [{"result": name, "version": version, **_plain(bound)} for name, version, bound in bounds]
    return result


def _plain(bound: Bound) -> dict[str, Any]:
    step = bound.best_step
    known = isfinite(step) and step > 0
    return {
        "step_limit": _finite(bound.step_limit),
        "best_step": _finite(step),
        "total": _finite(bound.total(step)) if known else None,
        "terms": {name: _finite(value) for name, value in bound.terms(step).items()} if known else {},
    }


def _finite(value: float) -> float | None:
    return float(value) if isfinite(value) else None
