"""FeDualNewton: certified in few exchanges, by surveys that carry second derivatives."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray

from ..accepted import Numbers
from ..bundle import UNKNOWN, Bounds
from ..certificates.surveys import Surveyed, flat_of
from ..geometry import AbstractGeometry
from ..model_problem import Blocks, blocks_of, has_model, solve_model
from ..problems import AbstractProblem
from ..problems.curvature import kink_of
from ..tree import Count, Flag, Saddle, Scalar, Vector
from ..validation import whole_number
from .base import Facts, Method, Stepped, Survey
from .bounding import bound_by_surveys, choose_better, entries_of, point_of, project, with_starts
from .slide import FeDualSlide, SlideServer

# What the server remembers between two exchanges.

LARGEST, MANY = 1500, 1000
"""Variables up to which second derivatives of all of them are asked for, and the same where some of them are enough."""
WORKING = 500
"""Of how many entries of x they are asked for at least where some are enough: of twice those that are not 0."""
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
BESIDE = 0.5
"""What is surveyed beside a whole step once one was too long."""


class Limits(NamedTuple):
    """Of how many variables second derivatives are asked for."""

    largest: int
    """In one message, at most."""
    many: int
    """Of all of them at most, where those of some are enough."""
    working: int
    """Of some variables at least."""

    @classmethod
    def of(cls, most: int | None) -> "Limits":
        """Those that were measured, or all of them in proportion to another `largest`."""
        if most is None:
            return cls(LARGEST, MANY, WORKING)
        return cls(most, max(1, MANY * most // LARGEST), max(1, WORKING * most // LARGEST))


class Place(NamedTuple):
    """A point with what was surveyed there, on vectors."""

    point: NDArray[np.float64]
    operator: NDArray[np.float64]
    jacobian: NDArray[np.float64]
    """Among the columns, and y."""
    columns: NDArray[np.intp]
    """The entries of x that second derivatives are of, in rising order; all others are 0 at the point."""


class NewtonServer(NamedTuple):
    """Everything that the server remembers, in float64."""

    center: Place
    """Where the model of the next step is made."""
    best: Place
    merit: Scalar
    """The merit of the best place."""
    ahead: Vector
    """The points of the exchange under way, one a row, the whole step first."""
    there: Bool[jax.Array | np.ndarray, "..."]
    """Which of the rows are asked about."""
    columns: NDArray[np.intp]
    """The entries of x of which their second derivatives are asked for; -1 as long as nobody knows which."""
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

    There is nothing to tune. A survey carries d (d + 1) / 2 numbers and more. With more than MANY variables the model
    is one of some columns, all others being 0 in it, if l1 can keep them there; else, with more than LARGEST, the
    method is `FeDualSlide`, as it is with clients that give no second derivatives. As soon as steps have to be damped,
    and from the start where only some columns are in the model, every exchange carries FeDualSlide's survey as well,
    and its bounds count: after k such exchanges the gap is at most FeDualSlide's after k of its own.
    Proved for exact surveys of all clients: every gap, whatever the second derivatives were.

    most: another number than LARGEST; MANY and WORKING follow in proportion. Fewer make messages smaller.
    """

    most: int | None = eqx.field(
        static=True, default=None, converter=lambda most: None if most is None else whole_number("most", most)
    )

    outputs: ClassVar[tuple[str, ...]] = ("bounds",)
    needs_float64: ClassVar[str] = "the method works with exact operators"
    asks_curvature: ClassVar[bool] = True
    needs_everybody: ClassVar[bool] = True
    patience: ClassVar[int] = 40

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Numbers) -> str:
        """Refused unless certificates exist and every regularizer declares its model form."""
        if reason := problem.why_uncertifiable():
            return f"FeDualNewton works with certificates, and there is none here: {reason}"
        if not has_model(problem.geometry):
            return "FeDualNewton solves models of a problem, and a part of this one declares no model_form"
        return ""

    def init(self, facts: Facts, z: Saddle) -> NewtonServer:
        """Before the first exchange, a survey of the projection of z."""
        flat = facts.flat
        guard = self._slide.init(facts, z)
        point, room = entries_of(guard.at), _room(facts.blocks, self._limits)
        plain = room == 0 or np.count_nonzero(point[: flat.split]) > room
        columns = np.arange(room) if room == flat.split else np.full(0 if plain else room, -1)
        size = 0 if plain else columns.size + point.size - flat.split
        nothing = Place(point, np.zeros_like(point), np.zeros((size, size)), columns)
        ahead = np.zeros((PLACES, point.size))
        ahead[0] = point
        first = np.arange(PLACES) == 0
        bounds = with_starts(jax.tree.map(np.asarray, guard.bounds))
        counts: dict[str, Any] = {"tau": 1.0, "misses": 0, "quick": 0, "exchanges": 0, "guarded": plain, "plain": plain}
        asked: dict[str, Any] = {"ahead": ahead, "there": first, "columns": columns}
        start: dict[str, Any] = {"center": nothing, "best": nothing, "merit": UNKNOWN, **asked}
        return NewtonServer(**start, **counts, bounds=bounds, guard=guard, at=guard.at)

    def ask(self, facts: Facts, server: NewtonServer) -> Survey:
        """All points of the step, the first with its dual cut; FeDualSlide's point last, if it is served."""
        if bool(server.plain) or _are_undecided(server.columns):
            return Survey((server.guard.at,))
        flat = facts.flat
        points = [point_of(flat, point) for point in np.asarray(server.ahead)[np.asarray(server.there)]]
        begun = float(server.merit) != UNKNOWN
        start = point_of(flat, server.center.point) if begun and float(server.tau) == 1 else None
        starts: list[Saddle | None] = [start, *[None] * (len(points) - 1)]
        curvature = [not (begun and _is_known_everywhere(facts, server))] * len(points)
        if bool(server.guarded):
            points, starts, curvature = [*points, server.guard.at], [*starts, None], [*curvature, False]
        columns = None if server.columns.size == flat.split else np.asarray(server.columns)
        return Survey(tuple(points), tuple(curvature), tuple(starts), columns)

    def tell(self, facts: Facts, server: NewtonServer, answer: list[Surveyed] | Stepped) -> NewtonServer:
        """Better bounds, the next center, and the model's solution from there."""
        assert isinstance(answer, list)
        return self.plan(facts, self.learn(facts, server, answer))

    def learn(self, facts: Facts, server: NewtonServer, answer: list[Surveyed]) -> NewtonServer:
        """The first half of `tell`: better bounds, and the next center."""
        server = server._replace(exchanges=int(server.exchanges) + 1)
        if _are_undecided(server.columns):
            served = self._tell_slide(facts, server, answer[0])
            place = served.center._replace(operator=entries_of(answer[0].operator))
            return served._replace(columns=_choose_columns(facts.blocks, served, place, self._limits), guarded=True)
        asked = float(server.merit) == UNKNOWN or not _is_known_everywhere(facts, server)
        refused = asked and answer[0].curvature is None
        if refused and not bool(server.guarded):  # FeDualSlide begins with the survey that came
            server = server._replace(guard=self._slide.init(facts, server.at)._replace(at=server.at))
            answer = answer[:1]
        if bool(server.plain) or refused:
            served = self._tell_slide(facts, server, answer[-1])
            return served._replace(guarded=True, plain=True, at=served.guard.at)
        before = server.bounds.gap if server.bounds.are_known else np.inf
        if bool(server.guarded):
            *answer, slid = answer
            server = self._tell_slide(facts, server, slid)
        places = self._places(server, answer)
        points, start = np.stack([place.point for place in places]), server.center.point
        bounds, uppers, lowers = bound_by_surveys(facts.flat, facts.known, server.bounds, points, start, answer)
        merits = uppers - lowers[: len(places)] if _curves_in_y(server, places) else uppers
        return self._choose_center(server._replace(bounds=bounds), places, merits, before)

    def _tell_slide(self, facts: Facts, server: NewtonServer, survey: Surveyed) -> NewtonServer:
        """FeDualSlide's own turn: the first point is that of its first survey."""
        guard = self._slide.tell(facts, server.guard, [survey])
        return server._replace(guard=guard, bounds=choose_better(server.bounds, with_starts(guard.bounds)))

    def point(self, server: NewtonServer, geometry: AbstractGeometry) -> Saddle:
        """The model's solution, which is surveyed next."""
        return server.at

    def exchanges_of(self, server: NewtonServer, rounds: int) -> int:
        """All its exchanges, which are surveys."""
        return int(server.exchanges)

    def bounds(self, server: NewtonServer) -> Bounds:
        """What its own surveys and cuts prove."""
        return server.bounds

    @property
    def _limits(self) -> Limits:
        return Limits.of(self.most)

    @property
    def _slide(self) -> FeDualSlide:
        return FeDualSlide(mode="survey", remember=MEMORY)

    def _places(self, server: NewtonServer, answer: list[Surveyed]) -> list[Place]:
        """Second derivatives that nobody was asked for are those of the center."""
        points = np.asarray(server.ahead)[np.asarray(server.there)]
        second = [
            server.center.jacobian if survey.curvature is None else survey.curvature.jacobian for survey in answer
        ]
        parts = zip(points, answer, second, strict=True)
        return [Place(point, entries_of(survey.operator), own, server.columns) for point, survey, own in parts]

    def _choose_center(
        self, server: NewtonServer, places: list[Place], merits: NDArray[np.float64], before: float
    ) -> NewtonServer:
        """The next center: the best of the points if it is new, an excused miss, or the best so far, damped."""
        gap, chosen, tau = server.bounds.gap, int(np.argmin(merits)), float(server.tau)
        gain = float(server.merit) - merits
        if gain[chosen] > 0:
            chosen = 0 if gain[0] >= MOST_OF * gain[chosen] else chosen
            quick = int(server.quick) + 1 if chosen == 0 and tau == 1 and gap <= QUICK * before else 0
            tau = min(1.0, LONGER * SHORTER**chosen * tau)
            kept = places[chosen]
            return server._replace(center=kept, best=kept, merit=merits[chosen], misses=0, quick=quick, tau=tau)
        # One that loses more than there is to gain left the region where the model is any good.
        excused = int(server.misses) < MISSES and -gain[0] <= gap
        if tau == 1 and (excused or gap <= FELL * before):
            return server._replace(center=places[0], misses=int(server.misses) + 1, quick=0)
        tau *= SHORTER if tau == 1 else SHORTER**PLACES
        return server._replace(center=server.best, tau=tau, misses=0, quick=0, guarded=True)

    def plan(self, facts: Facts, server: NewtonServer) -> NewtonServer:
        """The second half: the model's solution from the center, and the points that are surveyed next.

        There is no model where the method is FeDualSlide, nor before second derivatives were surveyed.
        """
        if bool(server.plain) or _are_undecided(server.center.columns):
            return server
        flat, center = facts.flat, server.center
        split, point = flat.split, center.point
        whole = _solve_among(facts.blocks, center)
        step, lengths = whole - point, _choose_lengths(facts, server)
        ahead, there = np.zeros((PLACES, step.size)), np.arange(PLACES) < len(lengths)
        for row, length in enumerate(lengths):
            ahead[row] = whole
            if length != 1:
                ahead[row, :split] = point[:split] + length * step[:split]
                ahead[row] = project(flat, ahead[row])
        server = server._replace(ahead=ahead, there=there, at=point_of(flat, ahead[0]))
        return server._replace(columns=_choose_columns(facts.blocks, server, center, self._limits))


def _choose_lengths(facts: Facts, server: NewtonServer) -> list[float]:
    """Which shares of the model's step in x are surveyed."""
    split, tau = facts.flat.split, float(server.tau)
    if tau < 1:
        return [tau * SHORTER**k for k in range(PLACES)]
    if int(server.quick) >= 2 or _is_known_everywhere(facts, server):
        return [1.0]
    if bool(server.guarded) and server.columns.size == split:  # steps were too long before
        return [1.0, BESIDE]
    return [1.0, 2.0] if split == server.center.point.size else [1.0]


def _curves_in_y(server: NewtonServer, places: list[Place]) -> bool:
    """Whether f bends in y anywhere: then the merit of a place is its own gap, else its upper bound."""
    own = server.columns.size
    return any(np.any(place.jacobian[own:, own:]) for place in places)


def _solve_among(blocks: Blocks, center: Place) -> NDArray[np.float64]:
    """The solution of the model of the center's columns, all other entries of x being 0."""
    kept = np.append(center.columns, np.arange(blocks.split, center.point.size))
    whole = np.zeros_like(center.point)
    whole[kept] = solve_model(blocks.among(kept), center.operator[kept], center.jacobian, center.point[kept]).point
    return whole


# Which columns the model is one of.


def _room(blocks: Blocks, limits: Limits) -> int:
    """Of how many entries of x second derivatives are asked for: all, some, or none."""
    size, split = blocks.quadratic.size, blocks.split
    always = np.count_nonzero(~blocks.may_rest[:split]) + size - split
    some = limits.working if 2 * always <= limits.working else 0
    return split if size <= (limits.many if some else limits.largest) else some


def _choose_columns(blocks: Blocks, server: NewtonServer, place: Place, limits: Limits) -> NDArray[np.intp]:
    """Those that cannot rest or are not 0 at a point ahead, and as many whose slope is the steepest beside their l1."""
    split = blocks.split
    if server.columns.size == split:
        return np.asarray(server.columns)
    slope = np.abs(place.operator + blocks.linear)[:split]
    moved = np.any(np.asarray(server.ahead)[np.asarray(server.there), :split] != 0, axis=0)
    first = moved | ~blocks.may_rest[:split]
    steep = np.where(first, np.inf, slope / np.where(first, 1.0, blocks.l1[:split]))
    room = int(np.clip(2 * np.count_nonzero(first), limits.working, limits.largest))
    return np.sort(np.argsort(-steep, kind="stable")[:room])


def _are_undecided(columns: NDArray[np.intp]) -> bool:
    """Whether a first survey must tell which columns matter."""
    return bool(np.any(columns < 0))


def _is_known_everywhere(facts: Facts, server: NewtonServer) -> bool:
    """Whether the second derivatives at one point are those at all."""
    return facts.affine and server.columns.size == server.center.columns.size == facts.flat.split


# When the method is the choice.


def count_asked(problem: AbstractProblem) -> int:
    """Of how many entries of x second derivatives are asked for: of all, or at first of some."""
    return _room(blocks_of(flat_of(problem)), Limits.of(None))


def describe_asked(problem: AbstractProblem) -> str:
    """The same in words."""
    size = _count_variables(problem)
    if size <= MANY or (asked := count_asked(problem)) >= sum(
        np.size(leaf) for leaf in jax.tree.leaves(problem.like.x)
    ):
        return f"of all {size:,} variables" if size > 1 else "of the variable"
    return f"of {asked:,} of {size:,} variables at first"


def why_no_curvature(problem: AbstractProblem, *, of_all: bool = False) -> str:
    """What keeps FeDualNewton from being the choice for a problem that can be surveyed; empty if nothing does.

    of_all: whether a model of some columns is not enough.
    """
    if not has_model(problem.geometry):
        return "a part of its domain declares no model_form"
    size = _count_variables(problem)
    if size > MANY and (room := _room(blocks := blocks_of(flat_of(problem)), Limits.of(None))) < blocks.split:
        if of_all:
            return f"second derivatives of {size} variables are too many"
        if room == 0:
            return f"second derivatives of {size} variables are too many, and no l1 keeps most of them at 0"
    if kink := kink_of(problem):
        return f"f uses {kink}, where second derivatives need not exist"
    return ""


def _count_variables(problem: AbstractProblem) -> int:
    return sum(np.size(leaf) for leaf in jax.tree.leaves(problem.like))
