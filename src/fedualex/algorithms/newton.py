"""FeDualNewton: certified in few exchanges, by surveys that carry second derivatives."""

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from .. import tree
from ..bundle import UNKNOWN, Bounds, Flat, KnownFloor, Side, lower_value, maximize_concave, upper_value
from ..certificates.surveys import Surveyed
from ..compiling import compiled
from ..model_problem import has_model, solve_model
from ..problems import AbstractProblem
from ..problems.curvature import kink_of
from ..tree import Count, Flag, Saddle, Scalar, Tree, Vector
from .base import Facts, Method, Stepped, Survey
from .slide import FeDualSlide, SlideServer, first_server

# What the server remembers between two exchanges.

LARGEST = 1500
"""Variables up to which a survey with second derivatives, about a million numbers, is worth the exchanges it saves."""
MEMORY = 20
"""Surveys that a bound may follow from; those of Newton steps follow from one."""
PLACES = 3
"""The most points of steps in one exchange: the whole step, and one or two shorter or longer ones."""
MISSES = 2
"""Whole steps in a row that may miss before the method goes back to its best point."""
FELL, QUICK, MOST_OF = 0.3, 0.1, 0.9
"""The share of the gap that excuses a miss, that of a quick step, and of the gain that decides for the longest step."""
SHORTER, LONGER = 0.25, 4.0
"""By how much a damped step is shortened, and lengthened again."""


class Place(NamedTuple):
    """A point with what was surveyed there, on vectors."""

    point: NDArray[np.float64]
    operator: NDArray[np.float64]
    jacobian: NDArray[np.float64]


class NewtonServer(NamedTuple):
    """Everything that the server remembers, in float64."""

    center: Place
    """Where the model of the next step is made."""
    best: Place
    merit: Scalar
    """The merit of the best place."""
    ahead: Vector
    """The points of the exchange under way, one a row, the whole step first."""
    there: Vector
    """Which of the rows are asked about."""
    bounds: Bounds
    tau: Scalar
    """The length of damped steps, 1 if whole steps work."""
    misses: Count
    quick: Count
    """Whole steps in a row that divided the gap by ten; from two on, only whole ones are asked about."""
    guard: SlideServer
    """FeDualSlide's server, which every exchange serves as well once a step had to be damped."""
    guarded: Flag
    plain: Flag
    """Whether there are no second derivatives to be had, so that the method is FeDualSlide."""
    exchanges: Count
    at: Saddle
    """The whole step, as a point."""


class FeDualNewton(Method[NewtonServer]):
    """Newton's method for composite saddle point problems, from surveys with second derivatives (docs/curvature.md).

        repeat
            n = the solution of 0 in g(c) + J(c) (n - c) + d psi(n)          # on the server alone: the model problem
            survey n, and beside it points that are longer or shorter steps from c; the dual cut of the step c -> n
            better bounds of the optimal value from all surveys and cuts
            c = the best of the points; whole steps that miss are excused twice, then steps are damped

    There is nothing to choose. A survey carries d (d + 1) / 2 numbers and more; where that is too much, `FeDualSlide`
    carries d, and so does this method with more than LARGEST variables, or with clients that give none. As soon as
    steps have to be damped, every exchange carries FeDualSlide's survey as well, and its bounds count: after k
    such exchanges the gap is at most FeDualSlide's after k of its own.
    Proved for exact surveys of all clients: every gap, whatever the second derivatives were.
    """

    outputs: ClassVar[tuple[str, ...]] = ("bounds",)
    needs_float64: ClassVar[str] = "the method works with exact operators"
    asks_curvature: ClassVar[bool] = True
    needs_everybody: ClassVar[bool] = True
    patience: ClassVar[int] = 40

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Any) -> str:
        """Refused unless certificates exist and every regularizer declares its model form."""
        if reason := problem.why_uncertifiable():
            return f"FeDualNewton works with certificates, and there is none here: {reason}"
        if not has_model(problem.geometry):
            return "FeDualNewton solves models of a problem, and a part of this one declares no model_form"
        return ""

    def init(self, facts: Facts, z: Saddle) -> NewtonServer:
        """Before the first exchange, a survey of the projection of z."""
        flat = facts.flat
        guard = first_server(flat, MEMORY, z, 0)
        point = entries_of(guard.at)
        plain = point.size > LARGEST
        nothing = Place(point, np.zeros_like(point), np.zeros((0, 0) if plain else (point.size, point.size)))
        ahead = np.zeros((PLACES, point.size))
        ahead[0] = point
        first = np.arange(PLACES) == 0
        bounds = _with_starts(jax.tree.map(np.asarray, guard.bounds))
        counts: dict[str, Any] = {"tau": 1.0, "misses": 0, "quick": 0, "exchanges": 0, "guarded": plain, "plain": plain}
        start: dict[str, Any] = {"center": nothing, "best": nothing, "merit": UNKNOWN, "ahead": ahead, "there": first}
        return NewtonServer(**start, **counts, bounds=bounds, guard=guard, at=guard.at)

    def ask(self, facts: Facts, server: NewtonServer) -> Survey:
        """All points of the step, the first with its dual cut; FeDualSlide's point last, if it is served."""
        if bool(server.plain):
            return Survey((server.guard.at,))
        flat = facts.flat
        points = [point_of(flat, point) for point in np.asarray(server.ahead)[np.asarray(server.there)]]
        whole = int(server.exchanges) > 0 and float(server.tau) == 1
        start = point_of(flat, server.center.point) if whole else None
        starts: list[Saddle | None] = [start, *[None] * (len(points) - 1)]
        curvature = [True] * len(points)
        if bool(server.guarded):
            points, starts, curvature = [*points, server.guard.at], [*starts, None], [*curvature, False]
        return Survey(tuple(points), tuple(curvature), tuple(starts))

    def tell(self, facts: Facts, server: NewtonServer, answer: list[Surveyed] | Stepped) -> NewtonServer:
        """Better bounds, the next center, and the model's solution from there."""
        assert isinstance(answer, list)
        return self.plan(facts, self.learn(facts, server, answer))

    def learn(self, facts: Facts, server: NewtonServer, answer: list[Surveyed]) -> NewtonServer:
        """The first half of `tell`: better bounds, and the next center."""
        if bool(server.plain) or (answer[0].curvature is None and int(server.exchanges) == 0):
            return self._tell_plain(facts, server, answer[0])
        flat, before = facts.flat, server.bounds.gap if server.bounds.known else np.inf
        if bool(server.guarded):
            *answer, slid = answer
            guard = self._slide.tell(facts, server.guard, [slid])
            server = server._replace(guard=guard, bounds=_choose_better(server.bounds, _with_starts(guard.bounds)))
        places = self._places(flat, server, answer)
        bounds, merits = _improve_bounds(flat, facts.known, server, places, answer)
        server = server._replace(bounds=bounds, exchanges=int(server.exchanges) + 1)
        return self._choose_center(server, places, merits, before)

    def _tell_plain(self, facts: Facts, server: NewtonServer, survey: Surveyed) -> NewtonServer:
        """FeDualSlide's own turn: the first point is that of its first survey."""
        guard = self._slide.tell(facts, server.guard, [survey])
        bounds, count = _choose_better(server.bounds, _with_starts(guard.bounds)), int(server.exchanges) + 1
        return server._replace(guard=guard, bounds=bounds, guarded=True, plain=True, exchanges=count, at=guard.at)

    def point(self, server: NewtonServer, geometry: Any) -> Saddle:
        """The model's solution, which is surveyed next."""
        return server.at

    def exchanges_of(self, server: NewtonServer, rounds: int) -> int:
        """All its exchanges, which are surveys."""
        return int(server.exchanges)

    def bounds(self, server: NewtonServer) -> Bounds:
        """What its own surveys and cuts prove."""
        return server.bounds

    @property
    def _slide(self) -> FeDualSlide:
        return FeDualSlide(mode="survey", remember=MEMORY)

    def _places(self, flat: Flat, server: NewtonServer, answer: list[Surveyed]) -> list[Place]:
        points = np.asarray(server.ahead)[np.asarray(server.there)]
        return [
            Place(point, entries_of(found.operator), found.curvature.jacobian)
            for point, found in zip(points, answer, strict=True)
            if found.curvature is not None
        ]

    def _choose_center(
        self, server: NewtonServer, places: list[Place], merits: NDArray[np.float64], before: float
    ) -> NewtonServer:
        """The next center: the best of the points if it is new, an excused miss, or the best so far, damped."""
        gap, chosen, tau = server.bounds.gap, int(np.argmin(merits)), float(server.tau)
        gain = float(server.merit) - merits
        if gain[chosen] > 0:
            chosen = 0 if gain[0] >= MOST_OF * gain[chosen] else chosen
            quick = int(server.quick) + 1 if chosen == 0 and tau == 1 and gap <= QUICK * before else 0
            tau = min(1.0, (LONGER if chosen == 0 else SHORTER ** (chosen - 1)) * tau)
            kept = places[chosen]
            return server._replace(center=kept, best=kept, merit=merits[chosen], misses=0, quick=quick, tau=tau)
        if tau == 1 and (int(server.misses) < MISSES or gap <= FELL * before):
            return server._replace(center=places[0], misses=int(server.misses) + 1, quick=0)
        tau *= SHORTER if tau == 1 else SHORTER**PLACES
        return server._replace(center=server.best, tau=tau, misses=0, quick=0, guarded=True)

    def plan(self, facts: Facts, server: NewtonServer) -> NewtonServer:
        """The second half: the model's solution from the center, and the points that are surveyed next."""
        if bool(server.plain):
            return server
        flat, center, tau = facts.flat, server.center, float(server.tau)
        split = flat.split
        model = solve_model(facts.blocks, center.operator, center.jacobian, center.point)
        step = model.point - center.point
        if tau < 1:
            lengths = [tau * SHORTER**k for k in range(PLACES)]
        else:
            lengths = [1.0, 2.0] if int(server.quick) < 2 and split == step.size else [1.0]
        ahead, there = np.zeros((PLACES, step.size)), np.arange(PLACES) < len(lengths)
        for row, length in enumerate(lengths):
            ahead[row] = model.point
            if length != 1:
                ahead[row, :split] = center.point[:split] + length * step[:split]
                ahead[row] = np.asarray(_project(flat, ahead[row]))
        return server._replace(ahead=ahead, there=there, at=point_of(flat, ahead[0]))


def entries_of(z: Tree) -> NDArray[np.float64]:
    """All entries of a point, x first: without a program of jax, which would have to be compiled."""
    return np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(z)])


def point_of(flat: Flat, v: Vector) -> Saddle:
    """The point that has these entries, likewise."""
    point: Saddle = jax.tree.map(lambda leaf: np.asarray(leaf[0]), flat.points(np.asarray(v)[None]))
    return point


@compiled
def _project(flat: Flat, v: Array) -> Array:
    return flat.vector(flat.geometry.project(flat.point(v)))


# When the method is the choice.


def why_no_curvature(problem: AbstractProblem) -> str:
    """What keeps FeDualNewton from being the choice for a problem that can be surveyed; empty if nothing does."""
    size = sum(np.size(leaf) for leaf in jax.tree.leaves(problem.like))
    if size > LARGEST:
        return f"second derivatives of {size} variables are too many"
    if not has_model(problem.geometry):
        return "a part of its domain declares no model_form"
    if kink := kink_of(problem):
        return f"f uses {kink}, where second derivatives need not exist"
    return ""


# Bounds from single surveys and single cuts.


class Rows(NamedTuple):
    """What bounds the optimal value, one a row: from above by (x, slope, offset), from below by (y, slope, offset)."""

    points: Vector
    slopes: Vector
    offsets: Vector


@compiled
def _values(flat: Flat, known: KnownFloor, above: Rows, below: Rows) -> tuple[Array, Array, Array]:
    """P(x) <= the first, D(y) >= the second; a row from below is mixed with the floor, its own share is the third."""
    uppers = jax.lax.map(lambda row: upper_value(flat, *row), above)
    below = tree.depend_on(below, uppers[0])  # one LAPACK call at a time
    lowers = jax.lax.map(lambda row: lower_value(flat, *row), below)
    floor = Rows(known.y, jnp.zeros(flat.split), known.value)

    def mix(share: Array, row: Rows) -> Array:
        return lower_value(flat, *(share * own + (1 - share) * other for own, other in zip(row, floor, strict=True)))

    shares, mixtures = maximize_concave(
        lambda at: jax.lax.map(lambda one: mix(*one), (at, below)), tree.depend_on(lowers, lowers[0])
    )
    better = known.there & jnp.isfinite(mixtures) & (mixtures > lowers)
    values, shares = jnp.where(better, mixtures, lowers), jnp.where(better, shares, 1.0)
    alone = lower_value(flat, *tree.depend_on(floor, values[0]))  # which sections come near to and do not reach
    better = known.there & jnp.isfinite(alone) & ~(values >= alone)
    return uppers, jnp.where(better, alone, values), jnp.where(better, 0.0, shares)


def _improve_bounds(
    flat: Flat, known: KnownFloor, server: NewtonServer, places: list[Place], answer: list[Surveyed]
) -> tuple[Bounds, NDArray[np.float64]]:
    """The best bounds of both sides, and the merit of each place: its upper bound, or its own gap if f curves in y."""
    split, count = flat.split, len(places)
    points, operators = (np.stack([getattr(place, name) for place in places]) for name in ("point", "operator"))
    values = np.asarray([float(found.value) for found in answer])
    x, y, gx, gy = points[:, :split], points[:, split:], operators[:, :split], operators[:, split:]
    above = Rows(x, gy, values + np.sum(gy * y, axis=1))
    below = Rows(y, gx, values - np.sum(gx * x, axis=1))
    starts, cut = points, answer[0].cut
    if cut is not None:
        slope = entries_of(cut.slope)
        below = Rows(
            *(np.concatenate([rows, [row]]) for rows, row in zip(below, (y[0], slope, cut.offset), strict=True))
        )
        starts = np.concatenate([points, [server.center.point]])
    where = np.concatenate([points, points[:1]])[: len(starts)]
    uppers, lowers, shares = map(np.asarray, _values(flat, known, _pad(above), _pad(below)))
    uppers, lowers = uppers[:count], lowers[: len(starts)]
    sizes = np.max(np.abs(operators)), np.max(np.abs(values))
    bounds = server.bounds
    best, least = int(np.argmin(uppers)), int(np.argmax(lowers))
    upper = _side(bounds.upper, uppers[best], [part[best] for part in above], points[best], points[best], sizes)
    floor, share = (known.y, np.zeros(split), known.value), float(shares[least])
    mix = [share * part[least] + (1 - share) * other for part, other in zip(below, floor, strict=True)]
    lower = _side(bounds.lower, lowers[least], mix, where[least], starts[least], sizes, share)
    curves = split < points.shape[1] and any(np.any(place.jacobian[split:, split:]) for place in places)
    return _choose_better(bounds, Bounds(upper, lower)), uppers - lowers[:count] if curves else uppers


def _pad(rows: Rows) -> Rows:
    """The rows, filled up to as many as there can be, so that one program serves all."""
    more = PLACES + 1 - len(rows.offsets)
    return Rows(*(np.concatenate([part, np.repeat(part[:1], more, axis=0)]) for part in rows))


def _side(like: Side, bound: Any, about: list[Any], point: Any, start: Any, sizes: Any, share: float = 1.0) -> Side:
    """The bound of one step, which has this share, in the shape that bounds of several surveys have."""
    memory, size = like.points.shape
    points, starts, weights = np.zeros((memory, size)), np.zeros((memory, size)), np.zeros(memory + 1)
    points[0], starts[0], weights[0], weights[-1] = point, start, share, 1 - share
    own, slope, offset = map(np.asarray, about)
    numbers: list[Any] = [bound, own, slope, offset, points, weights, *map(np.asarray, sizes), starts]
    return Side(*numbers)


def _choose_better(one: Bounds, other: Bounds) -> Bounds:
    """The better of both sides."""
    upper = other.upper if float(other.upper.bound) < float(one.upper.bound) else one.upper
    return Bounds(upper, other.lower if float(other.lower.bound) > float(one.lower.bound) else one.lower)


def _with_starts(bounds: Bounds) -> Bounds:
    """Bounds of surveys alone, as steps that end where they start."""
    upper, lower = (replace(side, starts=np.asarray(side.points)) for side in (bounds.upper, bounds.lower))
    return Bounds(upper, lower)
