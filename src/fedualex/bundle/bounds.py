"""Bounds of the optimal value from surveys: one from above with its x, one from below with its y."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .. import tree
from .cuts import Cuts
from .flat import Flat
from .level import model_weights

GOLDEN = (5**0.5 - 1) / 2
SECTIONS = 40
"""Golden sections of a line search: the interval ends below 1e-8."""


class Known(eqx.Module):
    """f(x, y) >= value for every x of the domain, at one y: known before any survey."""

    y: Array
    value: Array
    there: Array
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


class Bounds(eqx.Module):
    """The best of both sides so far: the gap of (upper.point, lower.point) is at most their difference."""

    upper: Side
    lower: Side

    @property
    def gap(self) -> Array:
        """upper - lower."""
        return self.upper.bound - self.lower.bound


def no_bounds(flat: Flat, memory: int) -> Bounds:
    """Nothing known yet."""
    split, size = flat.split, sum(leaf.size for leaf in jax.tree.leaves(flat.like))

    def nothing(bound: float, own: int) -> Side:
        rows, weights = jnp.zeros((memory, size)), jnp.zeros(memory + 1)
        return Side(jnp.asarray(bound), jnp.zeros(own), jnp.zeros(size - own), jnp.zeros(()), rows, weights)

    # The slope of the upper side is in y, and that of the lower one in x.
    upper, lower = nothing(jnp.inf, split), nothing(-jnp.inf, size - split)
    return Bounds(upper, lower)


def upper_bound(flat: Flat, cuts: Cuts, mu: Array) -> Array:
    """P(x) <= sum mu_i (f_i + <g_y,i, y_i>) + psi_1(x) + psi_2^*(-sum mu_i g_y,i) at x = sum mu_i x_i."""
    split = flat.split
    psi = flat.x.psi(mu @ cuts.points[:, :split])
    slope = tree.depend_on(mu @ cuts.operators[:, split:], psi)  # one LAPACK call at a time
    return _majorant_offset(flat, cuts, mu) + psi + flat.y.conjugate(-slope)


def lower_bound(flat: Flat, cuts: Cuts, known: Known, lam: Array) -> Array:
    """D(y) >= sum lam_i (f_i - <g_x,i, x_i>) - psi_1^*(-sum lam_i g_x,i) - psi_2(y) at y = sum lam_i y_i.

    The last weight is that of what is known: its value, its y, and the slope 0.
    """
    slopes, offsets, ys = _minorants(flat, cuts, known)
    conjugate = flat.x.conjugate(-(lam @ slopes))
    return jnp.vdot(lam, offsets) - conjugate - flat.y.psi(tree.depend_on(lam @ ys, conjugate))


def improved(flat: Flat, cuts: Cuts, known: Known, newest: Array, bounds: Bounds) -> Bounds:
    """The bounds with what a new survey, in the row `newest`, and the weights of all make better.

    Tried from above: the survey alone, and the weighted mean. From below: the survey alone, the weighted mean, the
    multipliers of the model of all surveys, and what mixing each with what is known makes of it.
    """
    pure = cuts.used & cuts.pure
    alone = jax.nn.one_hot(newest, pure.size, dtype=cuts.weights.dtype)
    mean = _normalized(jnp.where(pure, cuts.weights, 0.0), alone)
    upper = _upper(flat, cuts, jnp.stack([alone, mean]), bounds.upper)
    slopes, offsets, _ = _minorants(flat, cuts, known)
    level = (upper.bound + jnp.where(jnp.isfinite(bounds.lower.bound), bounds.lower.bound, upper.bound)) / 2
    usable = jnp.append(pure, known.there)
    found = model_weights(flat.x, slopes, offsets, usable, flat.x.dual(upper.point), level)
    alone, mean = jnp.append(alone, 0.0), jnp.append(mean, 0.0)
    lower = _lower(flat, cuts, known, jnp.stack([alone, mean, _normalized(found, alone)]), bounds.lower)
    return Bounds(upper, lower)


def _upper(flat: Flat, cuts: Cuts, tried: Array, present: Side) -> Side:
    bounds = jax.lax.map(lambda mu: upper_bound(flat, cuts, mu), tried)
    mu, bound, split = tried[jnp.argmin(bounds)], jnp.min(bounds), flat.split
    x, slope = mu @ cuts.points[:, :split], mu @ cuts.operators[:, split:]
    side = Side(bound, x, slope, _majorant_offset(flat, cuts, mu), cuts.points, jnp.append(mu, 0.0))
    return _better(bound < present.bound, side, present)


def _lower(flat: Flat, cuts: Cuts, known: Known, candidates: Array, present: Side) -> Side:
    nothing_new = jnp.zeros(candidates.shape[1]).at[-1].set(1.0)

    def mixed(lam: Array) -> Array:
        def at(share: Array) -> Array:
            return share * lam + (1 - share) * nothing_new

        share = largest_of_concave(lambda share: lower_bound(flat, cuts, known, at(share)))
        return at(jnp.where(known.there, share, 1.0))

    tried = jnp.concatenate([candidates, jax.lax.map(mixed, candidates)])
    bounds = jax.lax.map(lambda lam: lower_bound(flat, cuts, known, lam), tried)
    lam, bound = tried[jnp.argmax(bounds)], jnp.max(bounds)
    slopes, offsets, ys = _minorants(flat, cuts, known)
    side = Side(bound, lam @ ys, lam @ slopes, jnp.vdot(lam, offsets), cuts.points, lam)
    return _better(bound > present.bound, side, present)


def _majorant_offset(flat: Flat, cuts: Cuts, mu: Array) -> Array:
    split = flat.split
    return jnp.vdot(mu, cuts.values + jnp.sum(cuts.operators[:, split:] * cuts.points[:, split:], axis=1))


def _minorants(flat: Flat, cuts: Cuts, known: Known) -> tuple[Array, Array, Array]:
    """f(., y_i) >= offset_i + <slope_i, .> for every survey and for what is known, with their y_i."""
    split = flat.split
    slopes, x = cuts.operators[:, :split], cuts.points[:, :split]
    offsets = jnp.append(cuts.values - jnp.sum(slopes * x, axis=1), known.value)
    slopes = jnp.concatenate([slopes, jnp.zeros((1, split))])
    return slopes, offsets, jnp.concatenate([cuts.points[:, split:], known.y[None]])


def _normalized(weights: Array, otherwise: Array) -> Array:
    total = jnp.sum(weights)
    return jnp.where(total > 0, weights / jnp.where(total > 0, total, 1.0), otherwise)


def _better(condition: Array, one: Side, other: Side) -> Side:
    chosen: Side = tree.where(condition, one, other)
    return chosen


def largest_of_concave(f: Callable[[Array], Array]) -> Array:
    """Where a concave function of [0, 1] is largest, by golden sections."""

    def narrower(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        up = f(left) < f(right)
        return jnp.where(up, left, low), jnp.where(up, high, right)

    low, high = jax.lax.fori_loop(0, SECTIONS, narrower, (jnp.zeros(()), jnp.ones(())))
    return (low + high) / 2
