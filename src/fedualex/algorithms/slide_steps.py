"""The steps of FeDualSlide's server that are compiled; between them, `FeDualSlide` decides on plain numbers.

Every exchange waits for them, and most of all for `weighed`, two loops of a few hundred small operations. The scale of
x is an argument of its own, because a new `Flat` takes as long as a small program does.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .. import tree
from ..bundle import Bounds, Cuts, Flat, Known, improved, level_weights, nearest, pair_of
from ..compiling import compiled, moderately
from ..tree import Saddle

FACTOR, MOVED = 10.0, 1e-9
"""By how much a phase may change the scale, and divergences that say nothing about it."""
BISECTIONS = 52


@compiled
def absorbed(
    flat: Flat,
    scale: Array,
    cuts: Cuts,
    pair: tuple[Array, Array],
    step: Array,
    at: Saddle,
    operator: Saddle,
    value: Array,
) -> tuple[Cuts, Array, Array]:
    """The cuts with a new survey, up to which step its proposal was good, and the size of its operator.

    That is the largest c <= step with Err(c) = pot(O.descend(c, g)) - pot(O) + c (<g, u> + psi(u)) <= 0, which is the
    weight of the survey. Err is convex. step: that of the proposal; 0 where the survey was not of one.
    """
    flat = flat.scaled(scale)
    g, u, (omega, tau) = flat.vector(operator), flat.vector(at), pair
    height = jnp.vdot(g, u) + flat.psi(u)
    omega = tree.depend_on(omega, height)  # one LAPACK call at a time
    z, psi, here = flat.mapped(omega, tau)

    def fits(c: Array) -> Array:
        return flat.mapped(omega - c * g, tau + c).potential - here + c * height <= 1e-15 * jnp.abs(here)

    def narrower(now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, low, high = now
        # The whole step first, in the loop, so that it is compiled once.
        tried = jnp.where(count == 0, step, (low + high) / 2)
        good = fits(tried)
        return count + 1, jnp.where(good, tried, low), jnp.where(good, high, tried)

    start = jnp.asarray(0), jnp.zeros(()), step
    top = jax.lax.while_loop(lambda now: (now[0] <= BISECTIONS) & (now[1] < now[2]), narrower, start)[1]
    cuts = cuts.with_room(cuts.heights - cuts.operators @ z - psi)
    return cuts.added(u, g, jnp.asarray(value, jnp.float64), height, top), top, jnp.sqrt(jnp.vdot(g, g))


@moderately
def weighed(
    flat: Flat, scale: Array, known: Known, cuts: Cuts, bounds: Bounds, level: Array, center: Array
) -> tuple[Cuts, Bounds, Array, Array]:
    """Weights of the level problem, bounds that they make better, and scale and center of a phase that begins here.

    The scale is the geometric mean of what it was and of D_y / D_x, by the divergences of the surveys' weighted mean
    from the center, and moves by FACTOR at most. The new center is the best point, a little inside of the domain.
    """
    flat = flat.scaled(scale)
    cuts = cuts.reweighted(level_weights(flat, cuts, flat.dual(center), level))
    bounds = improved(flat, cuts, known, bounds, model=True)
    total = jnp.sum(cuts.weights)
    mean = cuts.weights / jnp.where(total > 0, total, 1.0) @ cuts.points
    x, y = flat.divergences(mean, center)
    moved = (total > 0) & (x > MOVED) & (y > MOVED)
    ratio = jnp.sqrt(jnp.where(moved, y / jnp.where(moved, x, 1.0), flat.scale) / flat.scale)
    return cuts, bounds, jnp.clip(ratio, 1 / FACTOR, FACTOR) * flat.scale, flat.interior(bounds.point)


@compiled
def proposal(
    flat: Flat, scale: Array, cuts: Cuts, center: Array, step: Array
) -> tuple[Array, Array, Saddle, Array, Saddle]:
    """The pair O(c), its point, the row of the survey nearest to it, and P(O(c).descend(step, g)) with that row's g."""
    flat = flat.scaled(scale)
    omega, tau = pair_of(cuts, flat.dual(center))
    z = flat.mapped(omega, tau).point
    row = nearest(cuts, z)
    ahead = flat.mapped(omega - step * cuts.operators[row], tau + step).point
    return omega, tau, flat.point(z), row, flat.point(ahead)
