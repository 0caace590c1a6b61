"""Better bounds: which weights of the surveys are tried, and which are kept."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import tree
from .bounds import UNKNOWN, Bounds, Cuts, Known, Side, lower_value, majorants, minorants, upper_value
from .flat import Flat
from .level import model_weights

GOLDEN = (5**0.5 - 1) / 2
STIFF = 30.0
"""How many times the mass of the level problem's weights those of the model may have, about."""
SECTIONS = 42
"""Golden sections of a line search: the interval ends below 1e-8."""


def improved(flat: Flat, cuts: Cuts, known: Known, bounds: Bounds, *, model: bool) -> Bounds:
    """The bounds with what the surveys and their weights make better.

    Tried from above: every survey alone, and the weighted mean. From below the same, and, mixed with what is known
    beforehand, the best of them, the mean, and with `model` the multipliers of the model of all surveys.
    """
    alone = jnp.where(cuts.used[:, None], np.eye(cuts.used.size), 0.0)
    mean = _normalized(cuts.weights)
    upper = _upper(flat, cuts, jnp.concatenate([alone, mean[None]]), bounds.upper)
    tried = jnp.pad(tree.depend_on(jnp.concatenate([alone, mean[None]]), upper.bound), ((0, 0), (0, 1)))
    found = _normalized(_multipliers(flat, cuts, known, upper, bounds.lower)) if model else tried[-1]
    tried = jnp.concatenate([tried, found[None]])
    return Bounds(upper, _lower(flat, cuts, known, tried, bounds.lower))


def _multipliers(flat: Flat, cuts: Cuts, known: Known, upper: Side, lower: Side) -> Array:
    """Where the model of all surveys is projected onto the middle between both bounds."""
    _, slopes, offsets = minorants(flat, cuts, known)
    usable = jnp.append(cuts.used, known.there)
    gap = jnp.where(lower.bound > -UNKNOWN, upper.bound - lower.bound, 0.0)
    mass = STIFF * jnp.sum(cuts.weights)
    stiffness = gap / jnp.where(mass > 0, mass, 1.0)
    center = flat.x.dual(upper.point)
    return model_weights(flat.x, slopes, offsets, usable, center, upper.bound - gap / 2, stiffness, gap)


def _upper(flat: Flat, cuts: Cuts, tried: Array, present: Side) -> Side:
    xs, slopes, offsets = (tried @ part for part in majorants(flat, cuts))
    values = jax.vmap(partial(upper_value, flat))(xs, slopes, offsets)
    values = jnp.where(_counts(tried, values), values, UNKNOWN)
    best = jnp.argmin(values)
    weights = jnp.append(tried[best], 0.0)
    side = Side(values[best], xs[best], slopes[best], offsets[best], cuts.points, weights, *_sizes(cuts))
    return _better(values[best] < present.bound, side, present)


def _lower(flat: Flat, cuts: Cuts, known: Known, tried: Array, present: Side) -> Side:
    """tried: weights of the surveys and of what is known; the last two rows are means of several surveys."""
    beforehand = np.eye(tried.shape[1])[-1]
    tried = jnp.concatenate([tried, known.there * beforehand[None]])
    parts = minorants(flat, cuts, known)
    rows = tuple(tried @ part for part in parts)
    values = jax.vmap(partial(lower_value, flat))(*rows)
    values = jnp.where(_counts(tried, values), values, -UNKNOWN)
    # The best single survey and the two means, each mixed with what is known beforehand.
    chosen = jnp.stack([jnp.argmax(values[:-3]), tried.shape[0] - 3, tried.shape[0] - 2])

    beside = known.y, jnp.zeros(flat.split), known.value

    def mixed(share: Array, *row: Array) -> Array:
        return lower_value(flat, *(share * own + (1 - share) * other for own, other in zip(row, beside, strict=True)))

    shares, mixtures = largest_of_concave(
        lambda at: jax.vmap(mixed)(at, *(part[chosen] for part in rows)), values[chosen]
    )
    mixtures = jnp.where(known.there & (values[chosen] > -UNKNOWN), mixtures, -UNKNOWN)
    weights = shares[:, None] * tried[chosen] + (1 - shares[:, None]) * beforehand
    tried, values = jnp.concatenate([tried, weights]), jnp.concatenate([values, mixtures])
    lam, bound = tried[jnp.argmax(values)], jnp.max(values)
    y, slope, offset = (lam @ part for part in parts)
    side = Side(bound, y, slope, offset, cuts.points, lam, *_sizes(cuts))
    return _better(bound > present.bound, side, present)


def _counts(tried: Array, values: Array) -> Array:
    """Which of the tried weights are any, and have a number for a bound."""
    return (jnp.sum(tried, axis=1) > 0) & jnp.isfinite(values)


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


def largest_of_concave(f: Callable[[Array], Array], at_one: Array) -> tuple[Array, Array]:
    """Where each of several concave functions of [0, 1] is largest, and its value there, by golden sections.

    f: all of them at once, each at its own place. at_one: what is known already, their values at 1. The first interval
    is one that has 1 as its left section: beyond 1 they are -inf, and f is compiled once, in the loop.
    """

    def narrower(_: Any, now: tuple[Array, ...]) -> tuple[Array, ...]:
        low, left, right, high, at_left, at_right = now
        up = at_left < at_right
        low, high = jnp.where(up, left, low), jnp.where(up, high, right)
        kept, at_kept = jnp.where(up, right, left), jnp.where(up, at_right, at_left)
        new = jnp.where(up, low + GOLDEN * (high - low), high - GOLDEN * (high - low))
        at_new = jnp.where(new <= 1, f(jnp.minimum(new, 1.0)), -jnp.inf)
        left, right = jnp.where(up, kept, new), jnp.where(up, new, kept)
        return low, left, right, high, jnp.where(up, at_kept, at_new), jnp.where(up, at_new, at_kept)

    one = jnp.ones_like(at_one)
    start = 0 * one, one, one / GOLDEN, one / GOLDEN**2, at_one, -jnp.inf * one
    _, left, right, _, at_left, at_right = jax.lax.fori_loop(0, SECTIONS, narrower, start)
    return jnp.where(at_left < at_right, right, left), jnp.maximum(at_left, at_right)
