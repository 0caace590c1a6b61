"""Bounds of the optimal value from surveys: one from above with its x, one from below with its y."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import tree
from .flat import Flat

# The surveys that a server remembers: where, with which operator and value, and with how much weight.


class Cuts(eqx.Module):
    """Surveys as the rows of arrays, so many at most; a row is in use or empty.

    A survey at u that found the operator g and the value f bounds the gap of others: with e = <g, u> + psi(u), for all
    v of the domain <g, v> + psi(v) >= e - (the gap function's linearization at u).
    """

    points: Array
    operators: Array
    values: Array
    heights: Array
    """e = <g, u> + psi(u)."""
    weights: Any
    """c >= 0."""
    used: Array

    def added(self, point: Array, operator: Array, value: Array, height: Array, weight: Array) -> "Cuts":
        """With one more, in the first empty row; call `with_room` before."""
        return self.with_row(jnp.argmin(self.used), Cuts(point, operator, value, height, weight, jnp.asarray(True)))

    def with_row(self, row: Array, new: "Cuts") -> "Cuts":
        """With another survey in a row; new: its parts, each without the axis of the rows."""
        # Not `.at[row].set(one)`: XLA makes a loop of each of these scatters, which takes long to compile.
        return jax.tree.map(
            lambda rows, one: jax.lax.dynamic_update_index_in_dim(rows, one.astype(rows.dtype), row, 0), self, new
        )

    def with_room(self, slack: Array) -> "Cuts":
        """With an empty row: if there is none, a survey is forgotten.

        That is the one with the largest slack of those without weight, and that of least weight where all have some.
        Where the weight is 0, as it nearly always is, all weighted sums stay as they are.
        """
        least = jnp.argmin(jnp.where(self.weights > 0, self.weights, -jnp.maximum(slack, 0.0)))
        kept = (np.arange(self.used.size) != least) | ~jnp.all(self.used)
        changed = self.used & kept, jnp.where(kept, self.weights, 0.0)
        return eqx.tree_at(lambda cuts: (cuts.used, cuts.weights), self, changed)

    def reweighted(self, weights: Any) -> "Cuts":
        """With other weights."""
        return eqx.tree_at(lambda cuts: cuts.weights, self, weights)


def no_cuts(memory: int, size: int) -> Cuts:
    """So many empty rows for vectors of this size."""
    rows, nothing = jnp.zeros((memory, size)), jnp.zeros(memory)
    return Cuts(rows, rows, nothing, nothing, nothing, jnp.zeros(memory, bool))


def nearest(cuts: Cuts, point: Array) -> Array:
    """The row whose point is nearest."""
    distance = jnp.sum((cuts.points - point) ** 2, axis=1)
    return jnp.argmin(jnp.where(cuts.used, distance, jnp.inf))


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
