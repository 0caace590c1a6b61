"""Geometries on pytrees: one geometry a leaf."""

from collections.abc import Callable
from typing import Any

import jax

from .. import tree
from ..arrays import Array, is_numpy, xp
from ..regularizers import AbstractRegularizer
from ..tree import Tree
from ..validation import short
from .base import AbstractGeometry, Dual, calls_lapack, is_geometry
from .euclidean import Euclidean


class Product(AbstractGeometry):
    """ell, psi and C are sums and products over the leaves of z; ||z||^2 is the sum of the leaves' squared norms.

    `parts` is a pytree with the structure of z that has a geometry in the place of each array.
    """

    parts: Tree

    def __init__(self, parts: Tree):
        self.parts = as_geometry("parts", parts)

    def primal(self, dual: Dual) -> Tree:
        """Leaf by leaf, with one weight for all."""
        return self._each(lambda part, omega: part.primal(Dual(omega, dual.tau)), dual.omega)

    def primal_in(self, metric: Tree, dual: Dual) -> Tree:
        """Leaf by leaf, with one weight for all; metric: a number or an array for each leaf."""
        return self._each(lambda part, own, omega: part.primal_in(own, Dual(omega, dual.tau)), metric, dual.omega)

    def dual(self, z: Tree) -> Dual:
        """Leaf by leaf."""
        omega = self._each(lambda part, leaf: part.dual(leaf).omega, z)
        return Dual(omega, xp.zeros((), xp.result_type(*jax.tree.leaves(z))))

    def interior(self, z: Tree) -> Tree:
        return self._each(lambda part, leaf: part.interior(leaf), z)

    def ell(self, z: Tree) -> Array:
        """The sum."""
        return tree.total(self._each(lambda part, leaf: part.ell(leaf), z))

    def psi(self, z: Tree) -> Array:
        return tree.total(self._each(lambda part, leaf: part.psi(leaf), z))

    def psi_conjugate(self, s: Tree) -> Array:
        return tree.total(self._each(lambda part, leaf: part.psi_conjugate(leaf), s))

    def subgradient(self, z: Tree) -> Tree:
        return self._each(lambda part, leaf: part.subgradient(leaf), z)

    def violation(self, z: Tree) -> Array:
        """The largest over the leaves."""
        violations = self._each(lambda part, leaf: part.violation(leaf), z)
        return xp.max(xp.stack(jax.tree.leaves(violations)))

    def divergence(self, z: Tree, reference: Tree) -> Array:
        return tree.total(self._each(lambda part, leaf, at: part.divergence(leaf, at), z, reference))

    def norm(self, z: Tree) -> Array:
        """The root of the sum of squares."""
        return _root_of_squares(self._each(lambda part, leaf: part.norm(leaf), z))

    def dual_norm(self, g: Tree) -> Array:
        """The root of the sum of squares."""
        return _root_of_squares(self._each(lambda part, leaf: part.dual_norm(leaf), g))

    def B0(self, omega0: Tree) -> Array:
        return tree.total(self._each(lambda part, leaf: part.B0(leaf), omega0))

    def diameter(self, like: Tree) -> Array:
        """The root of the sum of squares."""
        return _root_of_squares(self._each(lambda part, leaf: part.diameter(leaf), like))

    @property
    def finite_conjugate(self) -> bool:
        """Whether that of every part is finite."""
        return all(part.finite_conjugate for part in self._leaves())

    def fenchel(self, z: Tree, g: Tree, error: Tree) -> Tree:
        """The Fenchel gap of each leaf with its rounding, for a g that may be wrong by `error`, entry by entry."""
        return self._each(lambda part, *leaves: part.fenchel(*leaves), z, g, error)

    @property
    def rounding_is_bound(self) -> bool:
        """Whether the rounding of every part is a bound, rather than an estimate."""
        return all(part.rounding_is_bound for part in self._leaves())

    def _each(self, method: Callable[..., Tree], *trees: Tree) -> Tree:
        """method(part, leaf, ...) over the leaves; spectral parts one after the other.

        Two LAPACK calls that may run at the same time can hang (see `tree.depend_on`), so each spectral part waits for
        the one before it, and whoever uses a result waits for the last of them.
        """
        structure: Any = jax.tree.structure(self.parts, is_leaf=is_geometry)
        results, previous = [], None
        for part, *leaves in zip(self._leaves(), *map(structure.flatten_up_to, trees), strict=True):
            spectral = not is_numpy() and calls_lapack(part)
            if spectral and previous is not None:
                leaves = [tree.depend_on(xp.asarray(leaf), previous) for leaf in leaves]
            results.append(method(part, *leaves))
            if spectral:
                previous = xp.ravel(jax.tree.leaves(results[-1])[0])[0]
        if previous is not None and len(results) > 1:
            results = tree.depend_on(results, previous)
        return jax.tree.unflatten(structure, results)

    def _leaves(self) -> list[AbstractGeometry]:
        return jax.tree.leaves(self.parts, is_leaf=is_geometry)

    def __repr__(self) -> str:
        return f"Product({self.parts!r})"


def as_geometry(name: str, spec: object) -> Tree:
    """A regularizer, a geometry, or a pytree of these, as a pytree of geometries."""

    def convert(node: object) -> Tree:
        if isinstance(node, AbstractRegularizer):
            return Euclidean(node)
        if isinstance(node, Product):
            return node.parts
        if isinstance(node, AbstractGeometry):
            return node
        raise TypeError(
            f"{name} must be a regularizer such as fx.L1(0.1), a geometry such as fx.EntropicSimplex(), or a pytree "
            f"of these with one for each array, got {short(node)}"
        )

    return jax.tree.map(convert, spec, is_leaf=lambda node: isinstance(node, AbstractGeometry | AbstractRegularizer))


def _root_of_squares(norms: Tree) -> Array:
    return xp.sqrt(tree.total(jax.tree.map(xp.square, norms)))
