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
UNKNOWN = 1e300
"""A bound that says nothing."""
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
    largest: Array
    """The largest entry of the surveys' operators."""
    value_size: Array
    """The largest of the surveys' values."""


class Bounds(eqx.Module):
    """The best of both sides so far: the gap of (upper.point, lower.point) is at most their difference."""

    upper: Side
    lower: Side

    @property
    def known(self) -> bool:
        """Whether there is a bound on both sides."""
        return bool(self.upper.bound < UNKNOWN) and bool(self.lower.bound > -UNKNOWN)

    @property
    def gap(self) -> Array:
        """upper - lower."""
        return self.upper.bound - self.lower.bound


def no_bounds(flat: Flat, memory: int) -> Bounds:
    """Nothing known yet."""
    split, size = flat.split, sum(leaf.size for leaf in jax.tree.leaves(flat.like))

    def nothing(bound: float, own: int) -> Side:
        rows, weights = jnp.zeros((memory, size)), jnp.zeros(memory + 1)
        zero = jnp.zeros(())
        return Side(jnp.asarray(bound), jnp.zeros(own), jnp.zeros(size - own), zero, rows, weights, zero, zero)

    # The slope of the upper side is in y, and that of the lower one in x.
    upper, lower = nothing(UNKNOWN, split), nothing(-UNKNOWN, size - split)
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


def improved(flat: Flat, cuts: Cuts, known: Known, bounds: Bounds) -> Bounds:
    """The bounds with what the surveys and their weights make better.

    Tried from above: every survey alone, and the weighted mean. From below: every survey alone, and, mixed with what is
    known beforehand, the best of these, the weighted mean, and the multipliers of the model of all surveys.
    """
    pure = cuts.used & cuts.pure
    alone = jnp.where(pure[:, None], jnp.eye(pure.size), 0.0)
    mean = _normalized(jnp.where(pure, cuts.weights, 0.0))
    upper = _upper(flat, cuts, jnp.concatenate([alone, mean[None]]), bounds.upper)
    slopes, offsets, _ = _minorants(flat, cuts, known)
    level = (upper.bound + jnp.where(bounds.lower.bound > -UNKNOWN, bounds.lower.bound, upper.bound)) / 2
    found = model_weights(flat.x, slopes, offsets, jnp.append(pure, known.there), flat.x.dual(upper.point), level)
    alone, mean = jnp.pad(alone, ((0, 0), (0, 1))), jnp.append(mean, 0.0)
    values = jax.lax.map(lambda lam: _valued(lower_bound(flat, cuts, known, lam), lam, -jnp.inf), alone)
    tried = jnp.stack([alone[jnp.argmax(values)], mean, _normalized(found)])
    return Bounds(upper, _lower(flat, cuts, known, tried, bounds.lower))


def _upper(flat: Flat, cuts: Cuts, tried: Array, present: Side) -> Side:
    bounds = jax.lax.map(lambda mu: _valued(upper_bound(flat, cuts, mu), mu, jnp.inf), tried)
    mu, bound, split = tried[jnp.argmin(bounds)], jnp.min(bounds), flat.split
    x, slope = mu @ cuts.points[:, :split], mu @ cuts.operators[:, split:]
    offset = _majorant_offset(flat, cuts, mu)
    side = Side(bound, x, slope, offset, cuts.points, jnp.append(mu, 0.0), *_sizes(cuts))
    return _better(bound < present.bound, side, present)


def _lower(flat: Flat, cuts: Cuts, known: Known, candidates: Array, present: Side) -> Side:
    beforehand = jnp.zeros(candidates.shape[1]).at[-1].set(1.0)

    def mixed(lam: Array) -> Array:
        def at(share: Array) -> Array:
            return share * lam + (1 - share) * beforehand

        share = largest_of_concave(lambda share: lower_bound(flat, cuts, known, at(share)))
        return at(jnp.where(known.there & (jnp.sum(lam) > 0), share, 1.0))

    tried = jnp.concatenate([candidates, jax.lax.map(mixed, candidates), known.there * beforehand[None]])
    bounds = jax.lax.map(lambda lam: _valued(lower_bound(flat, cuts, known, lam), lam, -jnp.inf), tried)
    lam, bound = tried[jnp.argmax(bounds)], jnp.max(bounds)
    slopes, offsets, ys = _minorants(flat, cuts, known)
    side = Side(bound, lam @ ys, lam @ slopes, jnp.vdot(lam, offsets), cuts.points, lam, *_sizes(cuts))
    return _better(bound > present.bound, side, present)


def _valued(bound: Array, weights: Array, otherwise: float) -> Array:
    """A bound, where there are weights and it is a number."""
    return jnp.where((jnp.sum(weights) > 0) & jnp.isfinite(bound), bound, otherwise)


def _sizes(cuts: Cuts) -> tuple[Array, Array]:
    """The largest entry of all operators, and the largest value."""
    return jnp.max(jnp.abs(cuts.operators)), jnp.max(jnp.abs(cuts.values))


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


def _normalized(weights: Array) -> Array:
    """Divided by their sum, if that is positive."""
    total = jnp.sum(weights)
    return weights / jnp.where(total > 0, total, 1.0)


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
