"""What a round costs on a network."""

from typing import Any

import jax

from .. import tree
from .state import Setup


def bytes_per_round(setup: Setup) -> tuple[int, int]:
    """What a network would carry in a round: state down, message and the sum behind `clients` up; surveys both ways."""

    def size(a: Any) -> int:
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(a))

    like = tree.cast(setup.problem.like, setup.weights.dtype)
    dual = jax.eval_shape(setup.problem.geometry.dual, like)
    server = jax.eval_shape(lambda d: setup.method.start(d, setup.problem.geometry), dual)
    up, down = setup.cohort * (size(server) + size(like)), setup.cohort * size(server)
    if setup.method.survey != "none":
        up, down = up + setup.clients * size(like), down + (setup.clients + setup.cohort) * size(like)
    return up, down
