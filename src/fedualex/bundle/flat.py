"""Points, operators and dual pairs as plain vectors: what a server computes with when it remembers many of them."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ..geometry import Dual, Product
from ..tree import Saddle, Tree


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

    @property
    def split(self) -> int:
        """How many of the entries are x's."""
        return sum(np.size(leaf) for leaf in jax.tree.leaves(self.like.x))

    @property
    def x(self) -> "Flat":
        """The same of x alone."""
        return Flat(Product(Saddle(self.geometry.parts.x)), Saddle(self.like.x))

    @property
    def y(self) -> "Flat":
        """The same of y alone, in the place of x."""
        return Flat(Product(Saddle(self.geometry.parts.y)), Saddle(self.like.y))

    def mapped(self, omega: Array, tau: Array) -> Mapped:
        """P_tau(omega), psi there, and the potential."""
        point = self.geometry.primal(Dual(self.point(omega), tau))
        psi, z = self.geometry.psi(point), self.vector(point)
        return Mapped(z, psi, jnp.vdot(omega, z) - self.geometry.ell(point) - tau * psi)

    def dual(self, v: Array) -> Array:
        """grad ell."""
        return self.vector(self.geometry.dual(self.point(v)).omega)

    def centre(self, v: Array) -> Array:
        """grad ell at a point near v from which nothing is too far away."""
        return self.vector(self.geometry.dual(self.geometry.interior(self.point(v))).omega)

    def psi(self, v: Array) -> Array:
        """The regularizers' value, 0 where there is nothing."""
        return self.geometry.psi(self.point(v)) if v.size else jnp.zeros(())

    def conjugate(self, s: Array) -> Array:
        """psi^*(s)."""
        return self.geometry.psi_conjugate(self.point(s)) if s.size else jnp.zeros(())
