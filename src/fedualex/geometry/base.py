"""The dual pair, and what every geometry knows."""

from abc import abstractmethod

import equinox as eqx
import jax
import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..arrays import Array, Module, xp
from ..regularizers import is_spectral
from ..regularizers.base import ModelForm
from ..regularizers.fenchel import TINY, UNIT, Fenchel
from ..tree import Scalar, Tree


class Dual(eqx.Module):
    """(omega, tau) stands for the point grad (ell + tau psi)^*(omega): tau is the weight of psi inside omega.

    Both coordinates add, average and scale together, so the weight needs no clock of its own.
    """

    omega: Tree
    tau: Scalar

    def descend(self, eta: Scalar, g: Tree) -> "Dual":
        """One step of size eta against the operator value g: (omega - eta g, tau + eta)."""
        return Dual(tree.subtract(self.omega, tree.scale(eta, g)), self.tau + eta)


class AbstractGeometry(Module):
    """A mirror map ell, 1-strongly convex in `norm`, together with a regularizer psi and its domain C."""

    @abstractmethod
    def primal(self, dual: Dual) -> Tree:
        """P_tau(omega) = argmin_{z in C} ell(z) + tau psi(z) - <omega, z>."""

    def primal_in(self, metric: Tree, dual: Dual) -> Tree:
        """argmin_{z in C} metric ell(z) + tau psi(z) - <omega, z> for a number metric > 0.

        Where ell is half a sum of squares, metric may have one number for each entry, if `metric_near` says so.
        """
        return self.primal(Dual(tree.scale(1 / metric, dual.omega), dual.tau / metric))

    def metric_near(self, squares: NDArray[np.float64]) -> float | NDArray[np.float64]:
        """The metric that is near to these numbers > 0, one for each entry, and for which `primal_in` is a formula.

        1 where ell is no sum of squares.
        """
        return 1.0

    @abstractmethod
    def dual(self, z: Tree) -> Dual:
        """(grad ell(z), 0)."""

    @abstractmethod
    def violation(self, z: Tree) -> Array:
        """How far z is outside C, relative to the size of C; 0 inside."""

    def project(self, z: Tree) -> Tree:
        """The point of C nearest to z in the geometry's own sense."""
        return self.primal(self.dual(z))

    @abstractmethod
    def diameter(self, like: Tree) -> Array:
        """sup of norm(z - z') over C, or a bound on it, for points shaped as `like`."""

    @abstractmethod
    def B0(self, omega0: Tree) -> Array:
        """sup_{u in C} of the generalized divergence from (omega0, 0): the size that the theorems need."""

    def interior(self, z: Tree) -> Tree:
        """A point of C near z from which no point of C has a huge divergence: z, where ell has bounded slopes."""
        return z

    @abstractmethod
    def ell(self, z: Tree) -> Array:
        """The distance-generating function."""

    @abstractmethod
    def psi(self, z: Tree) -> Array:
        """The regularizer's finite part."""

    @abstractmethod
    def divergence(self, z: Tree, reference: Tree) -> Array:
        """V_reference(z) = ell(z) - ell(reference) - <grad ell(reference), z - reference>."""

    def potential(self, dual: Dual) -> Array:
        """(ell + tau psi)^*(omega) = <omega, z> - ell(z) - tau psi(z) at z = primal(dual)."""
        z = self.primal(dual)
        return tree.dot(dual.omega, z) - self.ell(z) - xp.asarray(dual.tau) * self.psi(z)

    def generalized_divergence(self, z: Tree, dual: Dual) -> Array:
        """ell(z) + tau psi(z) + (ell + tau psi)^*(omega) - <omega, z> >= 0, for z in C (Definition 2)."""
        potential = self.potential(dual)
        # One LAPACK call at a time: psi may be spectral.
        z = tree.depend_on(z, potential)
        return self.ell(z) + xp.asarray(dual.tau) * self.psi(z) + potential - tree.dot(dual.omega, z)

    def generalized_prox(self, dual: Dual, g: Tree) -> Tree:
        """argmin_z <g, z> + generalized_divergence(z, dual) = primal(omega - g, tau) (Definition 3)."""
        return self.primal(Dual(tree.subtract(dual.omega, g), dual.tau))

    @abstractmethod
    def psi_conjugate(self, s: Tree) -> Array:
        """max_{z in C} <s, z> - psi(z)."""

    @abstractmethod
    def subgradient(self, z: Tree) -> Tree:
        """One subgradient of psi."""

    @property
    @abstractmethod
    def finite_conjugate(self) -> bool:
        """Whether `psi_conjugate` is finite everywhere, so that certificates exist."""

    def fenchel(self, z: Tree, g: Tree, error: Tree) -> Tree:
        """<g, z> + psi(z) + psi^*(-g) with its rounding, for a g that may be wrong by `error`, entry by entry."""
        z, g = tree.as_real(z), tree.as_real(g)
        psi, conjugate = self.psi(z), self.psi_conjugate(-g)
        terms = xp.sum(xp.abs(g * z)) + self.sizes(z, g, psi, conjugate)
        moved = self.dual_norm(xp.abs(error)) * (self.norm(z) + self.diameter(z))
        return Fenchel(xp.vdot(g, z) + psi + conjugate, moved + (z.size + 16) * (UNIT * terms + TINY))

    def sizes(self, z: Array, g: Array, psi: Array, conjugate: Array) -> Array:
        """The size of all that is added up in psi(z) and psi^*(-g): here of the sums, as an estimate."""
        return xp.abs(psi) + xp.abs(conjugate)

    @property
    def rounding_is_bound(self) -> bool:
        """Whether the rounding of `fenchel` is a bound, rather than an estimate."""
        return False

    def fenchel_gap(self, z: Tree, g: Tree) -> Array:
        """<g, z> + psi(z) + psi^*(-g) >= 0: how far z is from minimizing <g, .> + psi over C."""
        return tree.total(self.fenchel_gaps(z, g))

    def fenchel_gaps(self, z: Tree, g: Tree) -> Tree:
        """The Fenchel gap of each leaf: the parts of a certificate."""
        parts = self.fenchel(z, g, jax.tree.map(xp.zeros_like, g))
        return jax.tree.map(lambda leaf: leaf.gap, parts, is_leaf=lambda node: isinstance(node, Fenchel))

    @property
    def power(self) -> float | None:
        """p, where `norm` is ||.||_p and, for p = 2, ell half its square; None for a norm of another kind."""
        return None

    def radius(self, like: Tree) -> Array:
        """sup of norm(z) over C, or a bound on it, for points shaped as `like`."""
        return self.norm(self.project(jax.tree.map(xp.zeros_like, like))) + self.diameter(like)

    def model_form(self) -> ModelForm:
        """psi and C as model problems and linear programs take them; a geometry of one's own need not declare it."""
        raise TypeError(f"{self!r} declares no model_form, so that no model problem with curvature can be solved")

    @abstractmethod
    def norm(self, z: Tree) -> Array:
        """The norm in which ell is 1-strongly convex."""

    @abstractmethod
    def dual_norm(self, g: Tree) -> Array:
        """The dual of `norm`."""


def zero_weight(omega: Tree) -> Array:
    """The weight 0 in the precision of omega."""
    return xp.zeros((), xp.result_type(tree.as_real(omega)))


def is_geometry(node: object) -> bool:
    """Whether a node is a geometry."""
    return isinstance(node, AbstractGeometry)


def calls_lapack(part: Tree) -> bool:
    """Whether anything inside is spectral."""
    return any(map(is_spectral, jax.tree.leaves(part, is_leaf=is_spectral)))
