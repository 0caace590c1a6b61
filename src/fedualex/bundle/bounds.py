"""Bounds of the optimal value from surveys: one from above with its x, one from below with its y."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .. import tree
from .cuts import Cuts
from .flat import Flat

UNKNOWN = 1e300
"""A bound that says nothing."""


class Known(eqx.Module):
    """f(x, y) >= value for every x of the domain, at one y: known before any survey."""

    y: Any
    value: Any
    there: Any
    """Whether anything is known."""


class Side(eqx.Module):
    """A bound of the optimal value, the point that has it, and the surveys from which it follows."""

    bound: Array
    """P(x) <= bound, or D(y) >= bound."""
    point: Array
    """x or y."""
    slope: Array
    """The weighted mean of the surveys' operators in the other variable."""
    offset: Array
    """The weighted mean of f + <g_y, y>, or of f - <g_x, x>."""
    points: Array
    """Where the surveys were made, one a row."""
    weights: Array
    """Of the surveys, and last of what is known beforehand; they sum to 1."""
    largest: Array
    """The largest entry of the surveys' operators."""
    value_size: Array
    """The largest of the surveys' values."""


class Bounds(eqx.Module):
    """The best of both sides so far: the gap of (upper.point, lower.point) is at most their difference."""

    upper: Side
    lower: Side

    @property
    def point(self) -> Array:
        """(x, y): x of the upper bound, y of the lower one."""
        return jnp.concatenate([self.upper.point, self.lower.point])

    @property
    def known(self) -> bool:
        """Whether there is a bound on both sides."""
        return float(self.upper.bound) < UNKNOWN and float(self.lower.bound) > -UNKNOWN

    @property
    def gap(self) -> float:
        """upper - lower."""
        return float(self.upper.bound) - float(self.lower.bound)


def no_bounds(flat: Flat, memory: int) -> Bounds:
    """Nothing known yet."""
    split, size = flat.split, sum(leaf.size for leaf in jax.tree.leaves(flat.like))

    def nothing(bound: float, own: int) -> Side:
        rows, weights = jnp.zeros((memory, size)), jnp.zeros(memory + 1)
        zero = jnp.zeros(())
        return Side(
            jnp.asarray(bound, jnp.float64), jnp.zeros(own), jnp.zeros(size - own), zero, rows, weights, zero, zero
        )

    # The slope of the upper side is in y, and that of the lower one in x.
    upper, lower = nothing(UNKNOWN, split), nothing(-UNKNOWN, size - split)
    return Bounds(upper, lower)


def upper_bound(flat: Flat, cuts: Cuts, mu: Array) -> Array:
    """P(x) <= sum mu_i (f_i + <g_y,i, y_i>) + psi_1(x) + psi_2^*(-sum mu_i g_y,i) at x = sum mu_i x_i."""
    xs, slopes, offsets = majorants(flat, cuts)
    return upper_value(flat, mu @ xs, mu @ slopes, jnp.vdot(mu, offsets))


def lower_bound(flat: Flat, cuts: Cuts, known: Known, lam: Array) -> Array:
    """D(y) >= sum lam_i (f_i - <g_x,i, x_i>) - psi_1^*(-sum lam_i g_x,i) - psi_2(y) at y = sum lam_i y_i.

    The last weight is that of what is known: its value, its y, and the slope 0.
    """
    ys, slopes, offsets = minorants(flat, cuts, known)
    return lower_value(flat, lam @ ys, lam @ slopes, jnp.vdot(lam, offsets))


def upper_value(flat: Flat, x: Array, slope: Array, offset: Array) -> Array:
    """offset + psi_1(x) + psi_2^*(-slope)."""
    psi = flat.x.psi(x)
    return offset + psi + flat.y.conjugate(-tree.depend_on(slope, psi))  # one LAPACK call at a time


def lower_value(flat: Flat, y: Array, slope: Array, offset: Array) -> Array:
    """offset - psi_1^*(-slope) - psi_2(y)."""
    conjugate = flat.x.conjugate(-slope)
    return offset - conjugate - flat.y.psi(tree.depend_on(y, conjugate))


def majorants(flat: Flat, cuts: Cuts) -> tuple[Array, Array, Array]:
    """The x_i of every survey, with f(x_i, .) <= offset_i - <slope_i, .>: slopes and offsets."""
    split = flat.split
    slopes, y = cuts.operators[:, split:], cuts.points[:, split:]
    return cuts.points[:, :split], slopes, cuts.values + jnp.sum(slopes * y, axis=1)


def minorants(flat: Flat, cuts: Cuts, known: Known) -> tuple[Array, Array, Array]:
    """The y_i of every survey and of what is known, with f(., y_i) >= offset_i + <slope_i, .>: slopes and offsets."""
    split = flat.split
    slopes, x = cuts.operators[:, :split], cuts.points[:, :split]
    offsets = jnp.append(cuts.values - jnp.sum(slopes * x, axis=1), known.value)
    ys = jnp.concatenate([cuts.points[:, split:], known.y[None]])
    return ys, jnp.concatenate([slopes, jnp.zeros((1, split))]), offsets
