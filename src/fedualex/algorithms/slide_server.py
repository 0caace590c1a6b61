"""The server of FeDualSlide: what it remembers, and what it makes of every exchange. Scalars are decided on here."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..bundle import Bounds, Cuts, Flat, Known, improved, level_weights, nearest, no_bounds, no_cuts, pair_of
from ..tree import Saddle
from .windows import Windows, no_windows

START, PROBE, FRESH, LOCAL = range(4)
"""What the next exchange is: the first survey, one of a proposal, one of the server's own point, or local steps."""
SURVEY, STEPS = range(2)
"""How proposals are made: by the server alone, or by local steps of the clients."""
PATIENCE = 8
"""Steps in a row that are short against T_f before the server's own point is surveyed."""
FACTOR, MOVED = 10.0, 1e-9
"""By how much a phase may change the scale, and divergences that say nothing about it."""
SPAN = 10
"""Surveys that the first phase lasts at most."""
PHASES = 6
"""New phases that one survey may begin at most."""
BISECTIONS = 40


class Pace(eqx.Module):
    """The step sizes of one way to propose."""

    trial: Any
    """T, which is tried next."""
    fresh: Any
    """T_f, which is tried after a survey of the server's own point."""
    unfailed: Any
    poor: Any
    """Short steps in a row; -1 while a proposal from the server's own point is under way."""

    def judged(self, step: float, top: float) -> "Pace":
        """After a proposal of this step, found good up to `top`."""
        good, taken = top >= step, min(top, step)
        if self.poor < 0:
            return replace(self, fresh=1.5 * step if good else step / 2, poor=0)
        trial = step * (3.0 if self.unfailed else 1.5) if good else max(top, step / 2)
        if taken < self.fresh / 4:
            return Pace(trial, self.fresh, self.unfailed and good, self.poor + 1)
        return Pace(trial, max(self.fresh, taken), self.unfailed and good, 0)


class SlideServer(eqx.Module):
    """Everything that the server remembers, in float64."""

    centre: Array
    """The point from which the level problem measures distances."""
    scale: Any
    """Of x's part of ell, so that x and y have equally far to go."""
    cuts: Cuts
    bounds: Bounds
    phase: Any
    """The gap when the phase began."""
    age: Any
    """Surveys since then."""
    span: Any
    """Surveys after which a phase ends in any case; doubled whenever one does."""
    paces: tuple[Pace, Pace]
    way: Any
    """How proposals are made at present."""
    windows: Windows
    omega: Array
    tau: Array
    """(omega, tau) = O(c), where the next proposal starts."""
    row: Any
    """Of the survey whose operator is the reference of that proposal."""
    step: Any
    """T of the proposal that is under way."""
    want: Any
    at: Saddle
    """Where the next survey is, or the last one was."""
    surveys: Any
    local_rounds: Any

    @property
    def exchanges(self) -> int:
        """Round trips so far."""
        return int(self.surveys) + int(self.local_rounds)


@eqx.filter_jit
def absorbed(
    flat: Flat, cuts: Cuts, pair: tuple[Array, Array], step: Array, at: Saddle, operator: Saddle, value: Array
) -> tuple[Cuts, Array, Array, Array]:
    """The cuts with a new survey, its row, up to which step its proposal was good, and the size of its operator.

    That is the largest c <= step with Err(c) = pot(O.descend(c, g)) - pot(O) + c (<g, u> + psi(u)) <= 0, which is the
    weight of the survey. Err is convex. step: that of the proposal; 0 where the survey was not of one.
    """
    g, u, (omega, tau) = flat.vector(operator), flat.vector(at), pair
    height = jnp.vdot(g, u) + flat.psi(u)
    here = flat.mapped(omega, tau).potential

    def fits(c: Array) -> Array:
        return flat.mapped(omega - c * g, tau + c).potential - here + c * height <= 1e-15 * jnp.abs(here)

    def narrower(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = (ends[0] + ends[1]) / 2
        good = fits(middle)
        return jnp.where(good, middle, ends[0]), jnp.where(good, ends[1], middle)

    low = jnp.where(fits(step), step, 0.0)
    top = jax.lax.fori_loop(0, jnp.where(low == step, 0, BISECTIONS), narrower, (low, step))[0]
    cuts = cuts.with_room()
    row = jnp.argmin(cuts.used)
    return cuts.added(u, g, jnp.asarray(value, jnp.float64), height, top), row, top, jnp.sqrt(jnp.vdot(g, g))


@eqx.filter_jit
def weighed(
    flat: Flat, known: Known, cuts: Cuts, bounds: Bounds, level: Array, centre: Array
) -> tuple[Cuts, Bounds, Array]:
    """Weights of the level problem, bounds that they make better, and a balanced scale.

    The scale is the geometric mean of what it was and of D_y / D_x, by the divergences of the surveys' weighted mean
    from the centre, and moves by FACTOR at most.
    """
    cuts = cuts.reweighted(level_weights(flat, cuts, flat.dual(centre), level))
    bounds = improved(flat, cuts, known, bounds)
    total = jnp.sum(cuts.weights)
    mean = cuts.weights / jnp.where(total > 0, total, 1.0) @ cuts.points
    x, y = flat.divergences(mean, centre)
    moved = (total > 0) & (x > MOVED) & (y > MOVED)
    ratio = jnp.sqrt(jnp.where(moved, y / jnp.where(moved, x, 1.0), flat.scale) / flat.scale)
    return cuts, bounds, flat.scale * jnp.clip(ratio, 1 / FACTOR, FACTOR)


def best_point(bounds: Bounds) -> Array:
    """x of the best upper bound and y of the best lower one."""
    return jnp.concatenate([bounds.upper.point, bounds.lower.point])


@eqx.filter_jit
def recentred(flat: Flat, bounds: Bounds) -> Array:
    """The best point, a little inside of the domain."""
    return flat.interior(best_point(bounds))


@eqx.filter_jit
def standing(flat: Flat, cuts: Cuts, centre: Array) -> tuple[Array, Array, Saddle, Array]:
    """The pair O(c), its point, and the row of the survey that is nearest to it."""
    omega, tau = pair_of(cuts, flat.dual(centre))
    z = flat.mapped(omega, tau).point
    return omega, tau, flat.point(z), nearest(cuts, z)


@eqx.filter_jit
def extrapolated(flat: Flat, cuts: Cuts, omega: Array, tau: Array, row: Array, step: Array) -> Saddle:
    """P(O.descend(T, g)) with the operator g of a survey."""
    return flat.point(flat.mapped(omega - step * cuts.operators[row], tau + step).point)


@eqx.filter_jit
def first_server(flat: Flat, memory: int, z: Saddle, way: int) -> SlideServer:
    """Before the first exchange, which is a survey of z."""
    centre, one, zero, none = flat.interior(flat.vector(z)), jnp.ones(()), jnp.zeros(()), jnp.asarray(0)
    pace = Pace(one, one, jnp.asarray(True), none)
    return SlideServer(
        centre=centre,
        scale=one,
        cuts=no_cuts(memory, centre.size),
        bounds=no_bounds(flat, memory),
        phase=zero,
        age=none,
        span=jnp.asarray(SPAN),
        paces=(pace, pace),
        way=jnp.asarray(way),
        windows=no_windows(),
        omega=flat.dual(centre),
        tau=zero,
        row=none,
        step=zero,
        want=jnp.asarray(START),
        at=z,
        surveys=none,
        local_rounds=none,
    )
