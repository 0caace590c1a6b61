"""Step sizes found on the way: one try a step, accepted or refused, so that no constant is needed."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Scalar, Tree
from ..validation import real_scalar
from ..validation.accepted import Number
from .base import Oracle, StepSize, step
from .fedualex import extrapolate
from .sequential import AbstractSequential


class Stepped(eqx.Module):
    """A dual pair and the step size to try next."""

    dual: Dual
    eta: Any


class BacktrackingDualExtrapolation(AbstractSequential):
    """Composite dual extrapolation (Algorithm 4) without noise, with a step size that is tried before it is taken.

    A try of size eta is accepted if eta <g(half) - g(z), half - z+> <= V_z(half) + V_half(z+), which is enough
    for the proof of Theorem 4; then gap <= B0 / (sum of accepted steps). A refused try moves nothing and halves eta; an
    accepted one multiplies it by `growth`. growth=1 is plain backtracking from above; with growth > 1 the step also
    recovers, and any first `eta` will do. A try costs two operator calls either way; a refused probe has weight 0.
    """

    eta: StepSize = step("eta", 1.0)
    growth: Any = eqx.field(default=1.0, converter=lambda value: at_least_one("growth", value))

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Stepped:
        """The pair, and the first step to try."""
        return Stepped(dual, jnp.asarray(self.eta, jnp.result_type(dual.tau)))

    def local_step(self, local: Stepped, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Stepped, Tree, Scalar]:
        """One try; the half point is the probe, with weight eta or 0."""
        seen: list[tuple[Tree, Tree]] = []

        def watched(z: Tree, sample: int) -> Tree:
            seen.append((z, oracle(z, sample)))
            return seen[-1][1]

        following, _, eta = extrapolate(local.dual, local.eta, watched, geometry)
        (z, g), (half, g_half) = seen
        z_next = geometry.primal(following)
        accepted = acceptable(eta, z, half, z_next, tree.subtract(g_half, g), geometry)
        dual = tree.where(accepted, following, local.dual)
        return Stepped(dual, jnp.where(accepted, eta * self.growth, eta / 2)), half, jnp.where(accepted, eta, 0)

    def point(self, server: Stepped, geometry: AbstractGeometry) -> Tree:
        """P of the pair."""
        return geometry.primal(server.dual)


class Placed(eqx.Module):
    """A point and the step size to try next."""

    z: Tree
    eta: Any


class BacktrackingCoMP(AbstractSequential):
    """Composite mirror prox without noise, with the tries of `BacktrackingDualExtrapolation` and its bound.

    eta, growth: the first step that is tried, and by what it is multiplied after an accepted try.
    """

    eta: StepSize = step("eta", 1.0)
    growth: Any = eqx.field(default=1.0, converter=lambda value: at_least_one("growth", value))

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Placed:
        """The primal point, and the first step to try."""
        return Placed(geometry.primal(dual), jnp.asarray(self.eta, jnp.result_type(dual.tau)))

    def local_step(self, local: Placed, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Placed, Tree, Scalar]:
        """One try; the half point is the probe, with weight eta or 0."""
        z, eta = local.z, local.eta
        center, g = geometry.dual(z), oracle(z, 0)
        half = geometry.primal(center.descend(eta, g))
        g_half = oracle(half, 1)
        z_next = geometry.primal(center.descend(eta, g_half))
        accepted = acceptable(eta, z, half, z_next, tree.subtract(g_half, g), geometry)
        following = Placed(tree.where(accepted, z_next, z), jnp.where(accepted, eta * self.growth, eta / 2))
        return following, half, jnp.where(accepted, eta, 0)

    def point(self, server: Placed, geometry: AbstractGeometry) -> Tree:
        """The point."""
        return server.z


def acceptable(eta: Number, z: Tree, half: Tree, z_next: Tree, change: Tree, geometry: AbstractGeometry) -> Array:
    """eta <g(half) - g(z), half - z+> <= V_z(half) + V_half(z+)."""
    drift = eta * tree.dot(change, tree.subtract(half, z_next))
    return jnp.asarray(drift) <= geometry.divergence(half, z) + geometry.divergence(z_next, half)


def at_least_one(name: str, value: object) -> Any:
    """`value`, if it is a number >= 1."""
    number = real_scalar(name, value, "a number >= 1")
    if number < 1:
        raise ValueError(f"{name} must be a number >= 1, got {float(number)!r}")
    return number


def AdaptiveDualExtrapolation(eta: Number = 1.0) -> BacktrackingDualExtrapolation:
    """Dual extrapolation that needs no constants: backtracking whose step grows by 5% after every accepted try.

    eta: the first step that is tried; any number > 0 will do.
    """
    return BacktrackingDualExtrapolation(eta, growth=1.05)
