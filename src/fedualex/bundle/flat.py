"""Points, operators and dual pairs as plain vectors: what a server computes with when it remembers many of them."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array
from numpy.typing import NDArray

from .. import tree
from ..geometry import Dual, Product, calls_lapack
from ..tree import Saddle, Scalar, Tree


class Mapped(NamedTuple):
    """What a dual pair (omega, tau) stands for."""

    point: Array
    psi: Array
    potential: Array
    """<omega, z> - ell(z) - tau psi(z)."""


class Flat(eqx.Module):
    """A geometry on vectors v = (x, y) of float64. Spectral parts are asked one after the other (`tree.depend_on`)."""

    geometry: Product
    like: Saddle
    scale: Scalar
    """s: ell is s ell_x + ell_y, so that a step of one size moves both variables by what they have to go."""

    def vector(self, z: Tree) -> Array:
        """All entries of a point, x first."""
        return ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), z))[0]

    def point(self, v: Array) -> Saddle:
        """The point that has these entries."""
        leaves, structure = jax.tree.flatten(self.like)
        ends = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
        parts = zip(jnp.split(v, ends), leaves, strict=True)
        point: Saddle = jax.tree.unflatten(structure, [part.reshape(np.shape(leaf)) for part, leaf in parts])
        return point

    def points(self, rows: NDArray[Any]) -> Saddle:
        """The points that have these rows, along the first axis; outside of compiled programs."""
        leaves, structure = jax.tree.flatten(self.like)
        ends = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
        parts = zip(np.split(rows, ends, axis=1), leaves, strict=True)
        points: Saddle = jax.tree.unflatten(
            structure, [part.reshape(len(rows), *np.shape(leaf)) for part, leaf in parts]
        )
        return points

    @property
    def split(self) -> int:
        """How many of the entries are x's."""
        return sum(np.size(leaf) for leaf in jax.tree.leaves(self.like.x))

    @property
    def x(self) -> "Flat":
        """The same of x alone."""
        return Flat(Product(Saddle(self.geometry.parts.x)), Saddle(self.like.x), self.scale)

    @property
    def y(self) -> "Flat":
        """The same of y alone, in the place of x."""
        return Flat(Product(Saddle(self.geometry.parts.y)), Saddle(self.like.y), jnp.ones(()))

    def mapped(self, omega: Array, tau: Array) -> Mapped:
        """P_tau(omega), psi there, and the potential."""
        point = scaled_primal(self.geometry, Dual(self.point(omega), tau), self.scale)
        psi, z = self.geometry.psi(point), self.vector(point)
        return Mapped(z, psi, jnp.vdot(omega, z) - self.ell(point) - tau * psi)

    def ell(self, z: Saddle) -> Array:
        """s ell_x + ell_y."""
        parts = self.geometry.parts
        own = 0.0 if z.y is None else Product(parts.y).ell(z.y)
        return Product(parts.x).ell(z.x) * self.scale + own

    def dual(self, v: Array) -> Array:
        """grad ell."""
        omega = self.vector(self.geometry.dual(self.point(v)).omega)
        return jnp.concatenate([self.scale * omega[: self.split], omega[self.split :]])

    def in_dual_metric(self, rows: Array) -> Array:
        """Vectors whose products are those of these rows in the metric of ell^*: x's entries divided by sqrt(s)."""
        return jnp.concatenate([rows[:, : self.split] / jnp.sqrt(self.scale), rows[:, self.split :]], axis=1)

    def interior(self, v: Array) -> Array:
        """A point near v from which nothing is too far away."""
        return self.vector(self.geometry.interior(self.point(v)))

    def scaled(self, scale: Scalar) -> "Flat":
        """The same with another s."""
        return Flat(self.geometry, self.like, scale)

    def divergences(self, v: Array, reference: Array) -> tuple[Array, Array]:
        """How far v is from a reference: D_x without s, and D_y."""
        z, at, parts = self.point(v), self.point(reference), self.geometry.parts
        x = Product(parts.x).divergence(z.x, at.x)
        return x, jnp.zeros(()) if z.y is None else Product(parts.y).divergence(z.y, at.y)

    def psi(self, v: Array) -> Array:
        """The regularizers' value, 0 where there is nothing."""
        return self.geometry.psi(self.point(v)) if v.size else jnp.zeros(())

    def conjugate(self, s: Array) -> Array:
        """psi^*(s)."""
        return self.geometry.psi_conjugate(self.point(s)) if s.size else jnp.zeros(())


def scaled_primal(geometry: Product, dual: Dual, scale: Scalar) -> Saddle:
    """argmin s ell_x + ell_y + tau psi - <omega, .>: for x what (omega_x / s, tau / s) stands for without s."""
    parts, omega = geometry.parts, dual.omega
    x = Product(parts.x).primal(Dual(tree.scale(1 / scale, omega.x), dual.tau / scale))
    if omega.y is None:
        return Saddle(x)
    return Saddle(x, Product(parts.y).primal(Dual(_after(x, omega.y, parts), dual.tau)))


def _after(x: Tree, omega: Tree, parts: Saddle) -> Tree:
    """omega, which is not used before x is there where both variables call LAPACK."""
    if not (calls_lapack(parts.x) and calls_lapack(parts.y)):
        return omega
    return tree.depend_on(omega, jnp.ravel(jax.tree.leaves(x)[0])[0])
