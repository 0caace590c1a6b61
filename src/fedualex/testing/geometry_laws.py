"""The laws of a geometry."""

import jax
import jax.numpy as jnp

from .. import tree
from ..arrays import Array
from ..geometry import AbstractGeometry, Dual, Product
from ..tree import Saddle, Tree
from ..validation import of_type
from .sampling import FAR, FEASIBLE, ROUNDING, Laws, Margins, check_like, equal, size


def check_geometry(geometry: AbstractGeometry, like: Tree = None, *, samples: int = 20, seed: int = 0) -> None:
    """Check every law of a geometry at random points shaped as the pytree `like` (shapes that fit, if None).

    geometry: what is checked. samples, seed: how many points, and which.
    Raises: an AssertionError that names the broken law and its point.
    """
    of_type("geometry", geometry, AbstractGeometry, "a geometry such as fx.Euclidean()")
    Laws(geometry, check_like(geometry, like), geometry_laws).check_samples(samples, seed)


def geometry_laws(geometry: AbstractGeometry, like: Tree, omega: Tree, other: Tree, weight: Tree) -> Margins:
    """The margins of all laws at one pair of dual points.

    geometry, like: what is checked, and arrays of the shape of its points. omega, other, weight: where.
    """
    dual = Dual(omega, weight)
    z, u = geometry.primal(dual), geometry.primal(Dual(other, jnp.zeros(())))
    w = geometry.primal(Dual(tree.add(omega, other), weight))
    return {
        **_primal_laws(geometry, dual, other, z, u),
        **_potential_laws(geometry, dual, Dual(other, 2 * weight + 1), z),
        **_divergence_laws(geometry, dual, z, u),
        **_norm_laws(geometry, omega, other, z, u),
        **_conjugate_laws(geometry, other, u),
        **_size_laws(geometry, like, omega, z, u),
        "relative Lipschitzness": _relative_lipschitzness(geometry, omega, other, z, w, u),
    }


def _primal_laws(g: AbstractGeometry, dual: Dual, other: Tree, z: Tree, u: Tree) -> Margins:
    residual = tree.subtract(dual.omega, g.dual(z).omega)
    psi_u, psi_z = g.psi(u), g.psi(z)
    slack = jnp.asarray(dual.tau) * (psi_u - psi_z) - tree.dot(residual, tree.subtract(u, z))
    scale = (1 + size(residual)) * (1 + size(u) + size(z)) + dual.tau * (1 + jnp.abs(psi_u) + jnp.abs(psi_z))
    step, move = tree.subtract(dual.omega, other), tree.subtract(z, g.primal(Dual(other, dual.tau)))
    cocoercive = tree.dot(step, move) - g.norm(move) ** 2
    back = size(tree.subtract(g.project(u), u))
    return {
        "primal lands in the domain": FEASIBLE - g.violation(z),
        "primal is the argmin": slack + 10 * ROUNDING * scale,
        "primal is 1-cocoercive": cocoercive + ROUNDING * (1 + size(step)) * (1 + size(move)),
        "primal undoes dual in the domain": equal(back, jnp.zeros(()), ROUNDING * (1 + size(u))),
    }


def _potential_laws(g: AbstractGeometry, a: Dual, b: Dual, z: Tree) -> Margins:
    """Jointly convex in (omega, tau), with `primal` as its gradient in omega."""
    middle = jax.tree.map(lambda s, t: (s + t) / 2, a, b)
    at_a, at_b, at_middle = g.potential(a), g.potential(b), g.potential(middle)
    scale = 1 + jnp.abs(at_a) + jnp.abs(at_b) + size(a.omega) + size(b.omega)
    step = tree.scale(1e-6, tree.subtract(b.omega, a.omega))
    ahead = g.potential(Dual(tree.add(a.omega, step), a.tau))
    behind = g.potential(Dual(tree.subtract(a.omega, step), a.tau))
    # The central difference of a 1-smooth convex function errs by at most half the squared step.
    error = g.dual_norm(step) ** 2 / 2 + 1e-14 * (scale + a.tau * (1 + jnp.abs(g.psi(z))))
    return {
        "the potential is jointly convex": (at_a + at_b) / 2 - at_middle + ROUNDING * scale,
        "primal is the potential's gradient": equal((ahead - behind) / 2, tree.dot(z, step), error),
    }


def _divergence_laws(g: AbstractGeometry, dual: Dual, z: Tree, u: Tree) -> Margins:
    scale = 1 + size(dual.omega) * (1 + size(u) + size(z)) + dual.tau * (1 + jnp.abs(g.psi(u)) + jnp.abs(g.psi(z)))
    half_square = g.norm(tree.subtract(u, z)) ** 2 / 2
    slope = tree.scale(0.1, dual.omega)

    def objective(point: Tree) -> Array:
        return tree.dot(slope, point) + g.generalized_divergence(point, dual)

    slack = objective(u) - objective(g.generalized_prox(dual, slope))
    at_primal = g.generalized_divergence(z, dual)
    return {
        "generalized divergence >= norm^2 / 2": g.generalized_divergence(u, dual) - half_square + ROUNDING * scale,
        "generalized divergence is 0 at primal": equal(at_primal, jnp.zeros(()), ROUNDING * scale),
        "divergence >= norm^2 / 2": g.divergence(u, z) - half_square + ROUNDING * (1 + size(u) + size(z)) ** 2,
        "generalized prox is the argmin": slack + ROUNDING * scale,
    }


def _norm_laws(g: AbstractGeometry, omega: Tree, other: Tree, z: Tree, u: Tree) -> Margins:
    step = tree.subtract(z, u)
    hoelder = g.dual_norm(omega) * g.norm(step) * (1 + FEASIBLE) - jnp.abs(tree.dot(omega, step))
    triangle = (g.norm(step) + g.norm(other)) * (1 + FEASIBLE) - g.norm(tree.add(step, other))
    return {"Hoelder": hoelder, "triangle inequality": triangle}


def _conjugate_laws(g: AbstractGeometry, s: Tree, u: Tree) -> Margins:
    conjugate, below = g.psi_conjugate(s), tree.dot(s, u) - g.psi(u)
    scale = 1 + size(s) * (1 + size(u)) + jnp.abs(below)
    best = g.primal(Dual(tree.scale(FAR, s), jnp.asarray(FAR)))
    attained = tree.dot(s, best) - g.psi(best)
    entries = sum(leaf.size for leaf in jax.tree.leaves(s))
    near = ROUNDING * scale + (1 + jnp.abs(g.ell(best))) * (10 + jnp.log(1.0 + entries)) / FAR
    reached = jnp.isfinite(conjugate) & (size(best) ** 2 <= FAR) & g.finite_conjugate
    return {
        "Fenchel-Young": conjugate - below + ROUNDING * scale,
        "the conjugate is attained": jnp.where(reached, equal(conjugate, attained, near), 0),
    }


def _size_laws(g: AbstractGeometry, like: Tree, omega: Tree, z: Tree, u: Tree) -> Margins:
    reached = g.generalized_divergence(u, Dual(omega, jnp.zeros(())))
    distance = g.norm(tree.subtract(z, u))
    return {
        "no point is beyond B0": g.B0(omega) - reached + ROUNDING * (1 + size(omega) * (1 + size(u))),
        "no pair is beyond the diameter": g.diameter(like) * (1 + FEASIBLE) + FEASIBLE - distance,
    }


def _relative_lipschitzness(g: AbstractGeometry, a: Tree, b: Tree, z: Tree, w: Tree, u: Tree) -> Array:
    """<G(w) - G(z), w - u> <= beta (V_z(w) + V_w(u)) for the bilinear game <a, x> <b, y> on two copies.

    The game's operator G is exactly ||a||_* ||b||_*-Lipschitz, so Lemma 1 of Cohen, Sidford and Tian promises this.
    """
    parts = g.parts if isinstance(g, Product) else g
    pair = Product(Saddle(parts, parts))

    def operator(point: Saddle) -> Saddle:
        return Saddle(tree.scale(tree.dot(b, point.y), a), tree.scale(-tree.dot(a, point.x), b))

    beta = g.dual_norm(a) * g.dual_norm(b)
    at, middle, end = Saddle(z, u), Saddle(w, z), Saddle(u, w)
    change = tree.subtract(operator(middle), operator(at))
    left = tree.dot(change, tree.subtract(middle, end))
    right: Array = beta * (pair.divergence(middle, at) + pair.divergence(end, middle))
    return right - left + ROUNDING * (1 + jnp.abs(left))
