"""Tseng's accelerated proximal gradient."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Saddle, Scalar, Tree
from .base import Oracle, StepSize, step
from .sequential import AbstractGameMethod


class Smoothed(eqx.Module):
    """Tseng's three sequences and his theta."""

    x: Tree
    w: Tree
    mean_y: Tree
    theta: Any


class TsengAPG(AbstractGameMethod):
    """Tseng's accelerated proximal gradient on the smoothed primal of a Euclidean bilinear game, for a fixed T.

        u = (1 - theta) x + theta w;   v = argmax <A u - b, v> - psi_2(v) - mu/2 ||v||^2;
        w <- argmin <A^T v, w> + psi_1(w) + theta L/2 ||w - w_old||^2;   x <- (1 - theta) x + theta w

    L = beta^2 / mu. The answer is the last (x, mean v): `last`. Tseng 2008; bound 4 beta sqrt(B_x B_y) / (T + 1).
    """

    mu: StepSize = step("mu")
    L: StepSize = step("L")

    def theory_steps(self, eta: float, beta: float, rounds: int) -> dict[str, float]:
        """The smoothing for a fixed number of steps and blocks of equal size."""
        mu = 2 * beta / (rounds + 1) if self.mu is None else float(self.mu)
        return {"mu": mu, "L": beta**2 / mu}

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Smoothed:
        """x = w = x_0, theta = 1."""
        z = geometry.primal(dual)
        return Smoothed(z.x, z.x, tree.scale(0.0, z.y), jnp.ones((), jnp.result_type(dual.tau)))

    def local_step(
        self, local: Smoothed, oracle: Oracle, geometry: AbstractGeometry
    ) -> tuple[Smoothed, Saddle, Scalar]:
        """The current answer is the probe."""
        theta = local.theta
        u = _mix(theta, local.x, local.w)
        slope = oracle(Saddle(u, local.mean_y), 0).y  # b - A u
        v = geometry.primal(Dual(Saddle(u, tree.scale(-1 / self.mu, slope)), 1 / self.mu)).y
        weight = 1 / (theta * self.L)
        gradient = oracle(Saddle(u, v), 1).x  # A^T v
        w = geometry.primal(Dual(Saddle(tree.subtract(local.w, tree.scale(weight, gradient)), v), weight)).x
        x, mean_y = _mix(theta, local.x, w), _mix(theta, local.mean_y, v)
        following = (jnp.sqrt(theta**4 + 4 * theta**2) - theta**2) / 2
        return Smoothed(x, w, mean_y, following), Saddle(x, mean_y), 1.0

    def point(self, server: Smoothed, geometry: AbstractGeometry) -> Saddle:
        """(x, mean v)."""
        return Saddle(server.x, server.mean_y)


def _mix(theta: Scalar, a: Tree, b: Tree) -> Tree:
    return tree.add(tree.scale(1 - jnp.asarray(theta), a), tree.scale(theta, b))
