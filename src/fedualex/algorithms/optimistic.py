"""Optimistic mirror descent."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Scalar, Tree
from .base import Oracle, StepSize, step
from .sequential import AbstractSequential


class Past(eqx.Module):
    """A point and the operator one step before it; `first` until there is one."""

    z: Tree
    before: Tree
    first: Any


class OptimisticMirrorDescent(AbstractSequential):
    """Optimistic mirror descent: one operator a step, z <- P(grad ell(z) - eta (2 g(z) - g(z before)), eta).

    In the first step the operator before is g(z_0). eta <= 1 / (2 beta); the probe is the new point. Popov 1980;
    Jiang and Mokhtari 2022.
    """

    eta: StepSize = step("eta")

    def theory_steps(self, eta: float, beta: float, rounds: int) -> dict[str, float]:
        """At most 1 / (2 beta)."""
        return {"eta": min(eta, 1 / (2 * beta))}

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Past:
        """The primal point, without a past."""
        z = geometry.primal(dual)
        return Past(z, tree.scale(0.0, z), jnp.ones((), jnp.result_type(dual.tau)))

    def local_step(self, local: Past, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Past, Tree, Scalar]:
        """The new point is the probe."""
        g = oracle(local.z, 0)
        before = tree.add(tree.scale(local.first, g), tree.scale(1 - local.first, local.before))
        optimistic = tree.subtract(tree.scale(2.0, g), before)
        z = geometry.primal(geometry.dual(local.z).descend(self.eta, optimistic))
        return Past(z, g, 0 * local.first), z, self.eta

    def point(self, server: Past, geometry: AbstractGeometry) -> Tree:
        """The point."""
        return server.z
