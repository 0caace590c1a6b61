"""Better bounds: which weights of the surveys are tried, and which are kept."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .. import tree
from .bounds import UNKNOWN, Bounds, Known, Side, lower_bound, majorant_offset, minorants, upper_bound
from .cuts import Cuts
from .flat import Flat
from .level import model_weights

GOLDEN = (5**0.5 - 1) / 2
STIFF = 10.0
"""How many times the mass of the level problem's weights those of the model may have, about."""
SECTIONS = 40
"""Golden sections of a line search: the interval ends below 1e-8."""


def improved(flat: Flat, cuts: Cuts, known: Known, bounds: Bounds, *, model: bool) -> Bounds:
    """The bounds with what the surveys and their weights make better.

    Tried from above: every survey alone, and the weighted mean. From below the same, and, mixed with what is known
    beforehand, the best of them, the mean, and with `model` the multipliers of the model of all surveys.
    """
    pure = cuts.used & cuts.pure
    alone = jnp.where(pure[:, None], jnp.eye(pure.size), 0.0)
    mean = _normalized(jnp.where(pure, cuts.weights, 0.0))
    upper = _upper(flat, cuts, jnp.concatenate([alone, mean[None]]), bounds.upper)
    tried = jnp.pad(tree.depend_on(jnp.concatenate([alone, mean[None]]), upper.bound), ((0, 0), (0, 1)))
    if model:
        found = _normalized(_multipliers(flat, cuts, known, upper, bounds.lower))
        tried = jnp.concatenate([tried[:-1], found[None], tried[-1:]])
    return Bounds(upper, _lower(flat, cuts, known, tried, bounds.lower))


def _multipliers(flat: Flat, cuts: Cuts, known: Known, upper: Side, lower: Side) -> Array:
    """Where the model of all surveys is projected onto the middle between both bounds."""
    slopes, offsets, _ = minorants(flat, cuts, known)
    usable = jnp.append(cuts.used & cuts.pure, known.there)
    gap = jnp.where(lower.bound > -UNKNOWN, upper.bound - lower.bound, 0.0)
    mass = STIFF * jnp.sum(cuts.weights)
    stiffness = gap / jnp.where(mass > 0, mass, 1.0)
    centre = flat.x.dual(upper.point)
    return model_weights(flat.x, slopes, offsets, usable, centre, upper.bound - gap / 2, stiffness)


def _upper(flat: Flat, cuts: Cuts, tried: Array, present: Side) -> Side:
    bounds = jax.lax.map(lambda mu: _valued(upper_bound(flat, cuts, mu), mu, UNKNOWN), tried)
    mu, bound, split = tried[jnp.argmin(bounds)], jnp.min(bounds), flat.split
    x, slope = mu @ cuts.points[:, :split], mu @ cuts.operators[:, split:]
    offset = majorant_offset(flat, cuts, mu)
    side = Side(bound, x, slope, offset, cuts.points, jnp.append(mu, 0.0), *_sizes(cuts))
    return _better(bound < present.bound, side, present)


def _lower(flat: Flat, cuts: Cuts, known: Known, tried: Array, present: Side) -> Side:
    """tried: weights of the surveys and of what is known; the last row is the mean of several surveys."""
    beforehand = jnp.zeros(tried.shape[1]).at[-1].set(1.0)

    def at(lam: Array) -> Array:
        return _valued(lower_bound(flat, cuts, known, lam), lam, -UNKNOWN)

    tried = jnp.concatenate([tried, known.there * beforehand[None]])
    bounds = jax.lax.map(at, tried)
    mixing = jnp.concatenate([tried[jnp.argmax(bounds[:-2])][None], tried[-3:-1]])

    def mixed(lam: Array) -> tuple[Array, Array]:
        share, value = largest_of_concave(lambda share: at(share * lam + (1 - share) * beforehand))
        return share * lam + (1 - share) * beforehand, jnp.where(known.there & (jnp.sum(lam) > 0), value, -UNKNOWN)

    mixtures, values = jax.lax.map(mixed, mixing)
    tried, bounds = jnp.concatenate([tried, mixtures]), jnp.concatenate([bounds, values])
    lam, bound = tried[jnp.argmax(bounds)], jnp.max(bounds)
    slopes, offsets, ys = minorants(flat, cuts, known)
    side = Side(bound, lam @ ys, lam @ slopes, jnp.vdot(lam, offsets), cuts.points, lam, *_sizes(cuts))
    return _better(bound > present.bound, side, present)


def _valued(bound: Array, weights: Array, otherwise: float) -> Array:
    """A bound, where there are weights and it is a number."""
    return jnp.where((jnp.sum(weights) > 0) & jnp.isfinite(bound), bound, otherwise)


def _sizes(cuts: Cuts) -> tuple[Array, Array]:
    """The largest entry of all operators, and the largest value."""
    return jnp.max(jnp.abs(cuts.operators)), jnp.max(jnp.abs(cuts.values))


def _normalized(weights: Array) -> Array:
    """Divided by their sum, if that is positive."""
    total = jnp.sum(weights)
    return weights / jnp.where(total > 0, total, 1.0)


def _better(condition: Array, one: Side, other: Side) -> Side:
    chosen: Side = tree.where(condition, one, other)
    return chosen


def largest_of_concave(f: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Where a concave function of [0, 1] is largest, and its value there, by golden sections."""

    def narrower(_: int, now: tuple[Array, ...]) -> tuple[Array, ...]:
        low, high, best, most = now
        inside = jnp.stack([high - GOLDEN * (high - low), low + GOLDEN * (high - low)])
        values = jax.lax.map(f, inside)
        up = values[0] < values[1]
        top = jnp.argmax(values)
        better = values[top] > most
        best, most = jnp.where(better, inside[top], best), jnp.where(better, values[top], most)
        return jnp.where(up, inside[0], low), jnp.where(up, high, inside[1]), best, most

    start = jnp.zeros(()), jnp.ones(()), jnp.zeros(()), jnp.asarray(-UNKNOWN)
    _, _, best, most = jax.lax.fori_loop(0, SECTIONS, narrower, start)
    return best, most
