"""The laws of a geometry."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..geometry import AbstractGeometry, Dual, Product
from ..precision import double
from ..tree import Saddle, Tree
from .sampling import FAR, ROUNDING, count, expect, samples_of, size


def check_geometry(geometry: AbstractGeometry, like: Tree, *, samples: int = 20, seed: int = 0) -> None:
    """Check every law of a geometry at random points shaped as the pytree `like`."""
    laws = GeometryLaws(geometry, like)
    for omega, other, weight in samples_of(like, samples, seed):
        laws.check(omega, other, weight)


class GeometryLaws:
    """The laws of one geometry, compiled once for pytrees of one shape."""

    def __init__(self, geometry: AbstractGeometry, like: Tree):
        self.geometry, self.like = geometry, jax.tree.map(np.asarray, like)
        self.primal = eqx.filter_jit(geometry.primal)
        self.potential = eqx.filter_jit(geometry.potential)
        self.generalized_divergence = eqx.filter_jit(geometry.generalized_divergence)

    def check(self, omega: Tree, other: Tree, weight: float) -> None:
        """All laws at one pair of dual points and one weight."""
        with double():
            omega, other = tree.cast((omega, other), jnp.float64)
            dual = Dual(omega, jnp.asarray(weight))
            z, u = self.primal(dual), self.primal(Dual(other, jnp.asarray(0.0)))
            w = self.primal(Dual(tree.add(omega, other), jnp.asarray(weight)))
            self._check_primal(dual, other, z, u)
            self._check_potential(dual, Dual(other, jnp.asarray(2 * weight + 1)))
            self._check_divergences(dual, z, u)
            self._check_norms(omega, other, z, u)
            self._check_conjugate(other, u)
            self._check_sizes(omega, z, u)
            self._check_relative_lipschitzness(omega, other, z, u, w)

    def _check_primal(self, dual: Dual, other: Tree, z: Tree, u: Tree) -> None:
        g, tau = self.geometry, dual.tau
        violation = float(g.violation(z))
        expect(violation <= 1e-12, "primal lands in the domain", g, dual=dual, z=z, violation=violation)
        residual = tree.subtract(dual.omega, g.dual(z).omega)
        slack = tau * (g.psi(u) - g.psi(z)) - tree.dot(residual, tree.subtract(u, z))
        scale = (1 + size(residual)) * (1 + size(u) + size(z)) + tau * (1 + abs(g.psi(u)) + abs(g.psi(z)))
        expect(slack >= -1e-9 * scale, "primal is the argmin", g, dual=dual, z=z, u=u)
        second = self.primal(Dual(other, tau))
        step, move = tree.subtract(dual.omega, other), tree.subtract(z, second)
        slack = tree.dot(step, move) - g.norm(move) ** 2
        scale = (1 + size(step)) * (1 + size(move))
        expect(slack >= -ROUNDING * scale, "the mirror map is 1-cocoercive", g, dual=dual, other=other)
        back = g.project(u)
        expect(size(tree.subtract(back, u)) <= 1e-10 * (1 + size(u)), "primal(dual(u)) = u in the domain", g, u=u)

    def _check_potential(self, a: Dual, b: Dual) -> None:
        """Jointly convex in (omega, tau), and its gradient in omega is primal."""
        g = self.geometry
        middle = jax.tree.map(lambda s, t: (s + t) / 2, a, b)
        at_a, at_b, at_middle = self.potential(a), self.potential(b), self.potential(middle)
        scale = 1 + abs(at_a) + abs(at_b) + size(a.omega) + size(b.omega)
        expect(at_middle <= (at_a + at_b) / 2 + ROUNDING * scale, "the potential is jointly convex", g, a=a, b=b)
        step = tree.scale(1e-6, tree.subtract(b.omega, a.omega))
        ahead = self.potential(Dual(tree.add(a.omega, step), a.tau))
        behind = self.potential(Dual(tree.subtract(a.omega, step), a.tau))
        slope, z = (ahead - behind) / 2, self.primal(a)
        # A 1-smooth convex function's central difference errs by at most half the squared step.
        error = g.dual_norm(step) ** 2 / 2 + 1e-15 * scale
        expect(abs(slope - tree.dot(z, step)) <= error, "primal is the potential's gradient", g, dual=a)

    def _check_divergences(self, dual: Dual, z: Tree, u: Tree) -> None:
        g = self.geometry
        gap, at_z = self.generalized_divergence(u, dual), self.generalized_divergence(z, dual)
        scale = 1 + size(dual.omega) * (1 + size(u) + size(z)) + dual.tau * (1 + abs(g.psi(u)) + abs(g.psi(z)))
        distance = g.norm(tree.subtract(u, z))
        expect(gap >= distance**2 / 2 - ROUNDING * scale, "generalized divergence >= norm^2 / 2", g, dual=dual, u=u)
        expect(abs(at_z) <= ROUNDING * scale, "generalized divergence vanishes at primal(dual)", g, dual=dual)
        divergence = g.divergence(u, z)
        expect(
            divergence >= distance**2 / 2 - ROUNDING * (1 + size(u) + size(z)) ** 2,
            "ell is strongly convex",
            g,
            u=u,
            z=z,
        )
        slope = tree.scale(0.1, dual.omega)
        chosen = g.generalized_prox(dual, slope)

        def objective(point: Tree) -> Any:
            return tree.dot(slope, point) + self.generalized_divergence(point, dual)

        expect(
            objective(chosen) <= objective(u) + ROUNDING * scale, "generalized prox is the argmin", g, dual=dual, u=u
        )

    def _check_norms(self, omega: Tree, other: Tree, z: Tree, u: Tree) -> None:
        g = self.geometry
        step = tree.subtract(z, u)
        bound = g.dual_norm(omega) * g.norm(step)
        expect(abs(tree.dot(omega, step)) <= bound * (1 + 1e-12), "Hoelder", g, omega=omega, step=step)
        total = g.norm(tree.add(step, other))
        expect(total <= (g.norm(step) + g.norm(other)) * (1 + 1e-12), "triangle inequality", g, step=step, other=other)

    def _check_conjugate(self, s: Tree, u: Tree) -> None:
        g = self.geometry
        conjugate, below = g.psi_conjugate(s), tree.dot(s, u) - g.psi(u)
        scale = 1 + size(s) * (1 + size(u)) + abs(below)
        expect(conjugate >= below - ROUNDING * scale, "Fenchel-Young", g, s=s, u=u)
        best = self.primal(Dual(tree.scale(FAR, s), jnp.asarray(FAR)))
        if g.finite_conjugate and size(best) ** 2 <= FAR:  # farther out, FAR is not far enough
            attained = tree.dot(s, best) - g.psi(best)
            error = ROUNDING * scale + (1 + abs(g.ell(best))) * (10 + np.log(1 + count(s))) / FAR
            expect(abs(conjugate - attained) <= error, "the conjugate is attained", g, s=s, gap=conjugate - attained)

    def _check_sizes(self, omega: Tree, z: Tree, u: Tree) -> None:
        g = self.geometry
        start = Dual(omega, jnp.asarray(0.0))
        reached, bound = self.generalized_divergence(u, start), g.B0(omega)
        scale = 1 + size(omega) * (1 + size(u))
        expect(reached <= bound + ROUNDING * scale, "no point is beyond B0", g, omega=omega, u=u)
        distance = g.norm(tree.subtract(z, u))
        expect(distance <= g.diameter(self.like) * (1 + 1e-12), "no pair is beyond the diameter", g, z=z, u=u)

    def _check_relative_lipschitzness(self, a: Tree, b: Tree, z: Tree, w: Tree, u: Tree) -> None:
        """<G(w) - G(z), w - u> <= beta (V_z(w) + V_w(u)) for the bilinear game <a, x> <b, y> on two copies.

        The game's operator G is exactly ||a||_* ||b||_*-Lipschitz, so Lemma 1 of Cohen, Sidford and Tian promises this.
        """
        parts = self.geometry.parts if isinstance(self.geometry, Product) else self.geometry
        pair = Product(Saddle(parts, parts))

        def operator(point: Saddle) -> Saddle:
            return Saddle(tree.scale(tree.dot(b, point.y), a), tree.scale(-tree.dot(a, point.x), b))

        beta = self.geometry.dual_norm(a) * self.geometry.dual_norm(b)
        points = Saddle(z, u), Saddle(w, z), Saddle(u, w)
        change = tree.subtract(operator(points[1]), operator(points[0]))
        left = tree.dot(change, tree.subtract(points[1], points[2]))
        right = pair.divergence(points[1], points[0]) + pair.divergence(points[2], points[1])
        slack = ROUNDING * (1 + abs(left))
        expect(left <= beta * right + slack, "relative Lipschitzness", self.geometry, a=a, b=b, z=z, w=w, u=u)
