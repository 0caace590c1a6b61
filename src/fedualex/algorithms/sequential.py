"""Methods for one machine that are not a federated method with M = 1."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Saddle, Scalar, Tree
from .base import AbstractSequential, Oracle, step_size


class NesterovDualExtrapolation(AbstractSequential):
    """Nesterov's dual extrapolation (2007) for psi = 0; a psi that is there enters through its subgradient.

        half  = P(grad ell(z) - eta g(z), 0),  z = P(omega, 0);   omega <- omega - eta g(half)

    Algorithm 4 with psi = 0 starts its half step from omega instead: the two agree while the domain is not active.
    """

    eta: Any
    one_machine: ClassVar[bool] = True

    def __init__(self, eta: Any = None):
        self.eta = step_size("eta", eta)

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Dual:
        """The pair itself; its weight stays what it is."""
        return dual

    def local_step(self, local: Dual, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Dual, Tree, Scalar]:
        """The half point is the probe."""
        z = geometry.primal(local)
        slope = tree.add(oracle(z, 0), geometry.subgradient(z))
        half = geometry.generalized_prox(geometry.dual(z), tree.scale(self.eta, slope))
        slope = tree.add(oracle(half, 1), geometry.subgradient(half))
        return Dual(tree.subtract(local.omega, tree.scale(self.eta, slope)), local.tau), half, self.eta

    def point(self, server: Dual, geometry: AbstractGeometry) -> Tree:
        """P(omega, 0)."""
        return geometry.primal(server)


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

    eta: Any
    one_machine: ClassVar[bool] = True

    def __init__(self, eta: Any = None):
        self.eta = step_size("eta", eta)

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


class ChambollePock(AbstractSequential):
    """The primal-dual method of Chambolle and Pock (2011) for bilinear games in Euclidean geometry.

        x+ = prox(x - tau_x A^T y, tau_x);   y+ = prox(y + tau_y (A (2 x+ - x) - b), tau_y)

    tau_x tau_y ||A||^2 <= 1; the probe is the new pair. The operator at (x+, y) gives A x+ - b, at (x, y) the rest.
    """

    tau_x: Any
    tau_y: Any
    one_machine: ClassVar[bool] = True

    def __init__(self, tau_x: Any = None, tau_y: Any = None):
        self.tau_x, self.tau_y = step_size("tau_x", tau_x), step_size("tau_y", tau_y)

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Saddle:
        """The primal point."""
        return geometry.primal(dual)

    def local_step(self, local: Saddle, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Saddle, Saddle, Scalar]:
        """The new point is the probe."""
        here = oracle(local, 0)
        step = Saddle(tree.scale(self.tau_x, here.x), tree.scale(0.0, here.y))
        x = geometry.primal(Dual(tree.subtract(local, step), self.tau_x)).x
        ahead = oracle(Saddle(x, local.y), 1).y
        extrapolated = tree.subtract(tree.scale(2.0, ahead), here.y)
        y = geometry.primal(Dual(Saddle(x, tree.subtract(local.y, tree.scale(self.tau_y, extrapolated))), self.tau_y)).y
        return Saddle(x, y), Saddle(x, y), 1.0

    def point(self, server: Saddle, geometry: AbstractGeometry) -> Saddle:
        """The pair."""
        return server


class Smoothed(eqx.Module):
    """Tseng's three sequences and his theta."""

    x: Tree
    w: Tree
    mean_y: Tree
    theta: Any


class TsengAPG(AbstractSequential):
    """Tseng's accelerated proximal gradient on the smoothed primal of a Euclidean bilinear game, for a fixed T.

        u = (1 - theta) x + theta w;   v = argmax <A u - b, v> - psi_2(v) - mu/2 ||v||^2;
        w <- argmin <A^T v, w> + psi_1(w) + theta L/2 ||w - w_old||^2;   x <- (1 - theta) x + theta w

    L = beta^2 / mu. The answer is the last (x, mean v): `last`. Tseng 2008; bound 4 beta sqrt(B_x B_y) / (T + 1).
    """

    mu: Any
    L: Any
    one_machine: ClassVar[bool] = True

    def __init__(self, mu: Any = None, L: Any = None):
        self.mu, self.L = step_size("mu", mu), step_size("L", L)

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
