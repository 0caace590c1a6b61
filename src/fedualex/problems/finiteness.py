"""Whose gradient is nan or infinite at a point, in one sentence."""

import jax.numpy as jnp
import numpy as np

from .. import tree
from ..precision import double
from ..tree import Saddle
from .base import AbstractProblem


def where_not_finite(problem: AbstractProblem, z: Saddle, point: str) -> str:
    """Which client's f has a gradient that is not finite at z, and in which array; empty if none has.

    point: what z is, for the sentence, such as "the start".
    """
    with double():
        z = problem.validate_point(z)
        count = problem.clients or 1
        for m in range(count):
            g = tree.cast_module(problem.of_client(m), jnp.float64).operator(z)
            for name, leaf in tree.leaves_with_names(g):
                if not np.all(np.isfinite(leaf)):
                    kind = "nan" if np.any(np.isnan(leaf)) else "infinite"
                    whose = "f" if problem.clients is None else f"client {m}'s f (of {count} clients, from 0)"
                    return f"the gradient of {whose} by {name} is not finite ({kind}) at {point}"
    return ""
