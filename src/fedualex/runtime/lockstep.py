"""Many problems over the same rows, solved and certified together: each exchange carries what all of them ask for."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ..algorithms.base import Facts, Survey
from ..algorithms.bounding import entries_of, point_of
from ..algorithms.newton import FeDualNewton, NewtonServer, Place
from ..certificates.certificate import certificate_of
from ..certificates.surveys import Curvature, Surveyed, measure_estimated
from ..compiling import double
from ..model_problem import solve_model
from ..model_problem.lasso import Squares
from ..problems import AbstractProblem
from ..problems.known import is_affine
from ..tree import Saddle
from .outputs import exact_problem

NUMBERS = 4_000_000
"""What one exchange carries of every party at most, unless a single member needs more."""
PATIENCE, BETTER = 5, 0.9
"""A member leaves when so many exchanges did not bring its gap below BETTER times what it was before them."""
FAR_BELOW = 0.1
"""Below this share of the tolerance a smaller gap is of no use: what is left is rounding."""

Ask = Callable[[Sequence[tuple[int, Survey]]], list[list[Surveyed]]]
"""One exchange: for each (f, survey) its answers, added up over all parties."""


class Member(NamedTuple):
    """One of the problems.

    f: the number of its loss, which several members may share. problem: with its own penalty; its data may be
    elsewhere. start: a point; or a place of another member, whose model is solved with the own penalty first; or None
    for the place of the last member before it with the same f, if that has one. near: a point near that model's
    solution, if one is known.
    """

    f: int
    problem: AbstractProblem
    start: Saddle | Place | None = None
    near: Saddle | None = None


class Solved(NamedTuple):
    """A member's answer.

    point, gap: a pair (x, y) and its certified gap, rounding included. value: an upper bound of the optimal value.
    met: whether the gap is within the tolerance. place: the last center, for others to start from.
    """

    point: Saddle
    gap: float
    value: float
    met: bool
    place: Place


class Together(NamedTuple):
    """All answers in the order of the members, and how many exchanges they took."""

    solved: list[Solved]
    exchanges: int


def solve_together(
    members: Sequence[Member],
    ask: Ask,
    *,
    tol: float,
    relative: bool = False,
    most_exchanges: int = 100,
    numbers_per_exchange: float | int = NUMBERS,
    sum_error: float = 0.0,
    report: Callable[[int], None] = lambda met: None,
) -> Together:
    """Every member by FeDualNewton, all in the same exchanges.

    members: in an order in which one is a good start of the next. A member leaves when its gap is at most tol, or no
    longer falls. As many are under way as fit in one exchange, and as members leave, the next ones enter.
    ask: asks all parties. relative: whether tol is a share of each member's own value. most_exchanges: after which the
    rest leaves as it is, those that never entered with an infinite gap. numbers_per_exchange: how many numbers a party
    may send at once. sum_error: by how much each entry of a survey may be off because of the way in which it was added
    up. report: is told after each exchange how many members are within their tolerance.
    """
    waiting, under_way = deque(enumerate(members)), dict[int, _Walk]()
    solved, exchanges = dict[int, Solved](), 0

    def start(number: int, member: Member) -> _Walk:
        return _Walk(_with_start(number, member, members, solved), tol, relative, sum_error)

    with double():
        while (waiting or under_way) and exchanges < most_exchanges:
            _admit(waiting, under_way, start, numbers_per_exchange)
            walks = list(under_way.values())
            answers = ask([(walk.member.f, walk.ask()) for walk in walks])
            exchanges += 1
            for number, answer in zip(list(under_way), answers, strict=True):
                if (ended := under_way[number].tell(answer)) is not None:
                    solved[number] = ended
                    del under_way[number]
            report(sum(one.met for one in solved.values()))
        solved |= {number: walk.conclude() for number, walk in under_way.items()}
        solved |= {number: start(number, member).conclude() for number, member in waiting}
    return Together([solved[number] for number in range(len(members))], exchanges)


def numbers_of(problem: AbstractProblem) -> int:
    """What a party sends for one point: operator, value, second derivatives, and a dual cut."""
    x, y = (sum(np.size(leaf) for leaf in jax.tree.leaves(part)) for part in (problem.like.x, problem.like.y))
    return x + y + 1 + x * (x + 1) // 2 + x * y + y * (y + 1) // 2 + x + 1


def _admit(
    waiting: deque[tuple[int, Member]],
    under_way: dict[int, "_Walk"],
    start: Callable[[int, Member], "_Walk"],
    most: float | int,
) -> None:
    """Start as many members as fit beside those under way."""
    total = sum(numbers_of(walk.member.problem) for walk in under_way.values())
    while waiting:
        number, member = waiting[0]
        total += numbers_of(member.problem)
        if under_way and total > most:
            return
        waiting.popleft()
        under_way[number] = start(number, member)


def _with_start(number: int, member: Member, members: Sequence[Member], solved: dict[int, Solved]) -> Member:
    """A member without a start gets the place of the last one before it with the same loss that has left."""
    if member.start is not None:
        return member
    before = (m for m in reversed(range(number)) if m in solved and members[m].f == member.f)
    nearest = next(before, None)
    return member if nearest is None else member._replace(start=solved[nearest].place)


class _Walk:
    """One member under way."""

    def __init__(self, member: Member, tol: float, relative: bool, sum_error: float):
        self.member, self.share, self.relative, self.sum_error = member, tol, relative, np.asarray(sum_error)
        self.method, self.facts = FeDualNewton(), Facts(member.problem, 1)
        start = member.problem.like if member.start is None else member.start
        if isinstance(start, Place):
            start = _predict(self.facts, start, member.near)
        # From near a solution whole steps are quick: longer ones beside them would be surveyed in vain.
        quick = 0 if member.start is None else 2
        self.server: NewtonServer = self.method.init(self.facts, start)._replace(quick=quick)
        self.gaps: list[float] = []

    @property
    def tol(self) -> float:
        return self.share * abs(float(self.server.bounds.upper.bound)) if self.relative else self.share

    def ask(self) -> Survey:
        return self.method.ask(self.facts, self.server)

    def tell(self, answer: list[Surveyed]) -> Solved | None:
        """The answer, if this was the last exchange that it needs."""
        self.server = self.method.learn(self.facts, self.server, answer)
        if (ended := self._last()) is None:
            self.server = self.method.plan(self.facts, self.server)
        return ended

    def _last(self) -> Solved | None:
        self.gaps.append(self.server.bounds.gap)
        if self.gaps[-1] <= self.tol:
            ended = self.conclude()
            return ended if ended.met or self.gaps[-1] <= FAR_BELOW * self.tol else None
        stalled = len(self.gaps) > PATIENCE and self.gaps[-1] > BETTER * self.gaps[-1 - PATIENCE]
        return self.conclude() if stalled else None

    def conclude(self) -> Solved:
        """The pair of the best bounds, with what float64 may have lost."""
        bounds = self.server.bounds
        if not bounds.are_known:
            return Solved(self.server.at, np.inf, np.inf, False, self.server.best)
        measured, shift = measure_estimated(exact_problem(self.member.problem), bounds, self.sum_error)
        gap = certificate_of(measured, estimated=True, shift=float(shift)).gap
        point = point_of(self.facts.flat, np.concatenate([bounds.upper.point, bounds.lower.point]))
        certified = np.inf if gap is None else gap
        return Solved(point, certified, float(bounds.upper.bound), certified <= self.tol, self.server.best)


def _predict(facts: Facts, place: Place, near: Saddle | None) -> Saddle:
    """The solution of another member's model with this member's penalty; it costs no exchange."""
    begin = None if near is None else entries_of(near)
    solved = solve_model(facts.blocks, place.operator, place.jacobian, place.point, begin)
    return point_of(facts.flat, solved.point)


# Losses that one survey tells everything of.


class Quadratic:
    """f(x) = value + <g, x - c> + (x - c)' H (x - c) / 2 from one survey with second derivatives, at c."""

    def __init__(self, point: Saddle, survey: Surveyed):
        assert survey.curvature is not None
        self.like, self.center = point, entries_of(point)
        self.slope, self.value = entries_of(survey.operator), float(survey.value)
        self.curvature: Curvature = survey.curvature

    @property
    def place(self) -> Place:
        """The model that is f itself."""
        return self.place_at(self.center)

    def place_at(self, point: NDArray[np.float64]) -> Place:
        """The same model around another point."""
        slope = self.slope + self.curvature.xx @ (point - self.center)
        return Place(point, slope, self.curvature.jacobian, np.arange(self.center.size))

    def with_ridge(self, weights: slice, l2: float, **about: Any) -> Squares:
        """f + l2/2 |w|^2 around 0. about: what else `Squares` says of it."""
        bent, second = self.curvature.xx @ self.center, self.curvature.xx.copy()
        second[weights, weights] += l2 * np.eye(len(second[weights]))
        value = self.value - float(self.center @ self.slope) + float(self.center @ bent) / 2
        return Squares(value, self.slope - bent, second, weights=weights, **about)

    def survey(self, request: Survey) -> list[Surveyed]:
        """The answer of all parties but for rounding. It has no dual cut, which of a quadratic is the tangent."""
        return [self._at(point) for point in request.points]

    def _at(self, point: Saddle) -> Surveyed:
        step = entries_of(point) - self.center
        bent = self.curvature.xx @ step
        value = self.value + float((self.slope + bent / 2) @ step)
        return Surveyed(self.reshape(self.slope + bent), np.asarray(value), self.curvature)

    def reshape(self, entries: NDArray[np.float64]) -> Saddle:
        """A point, or an operator, with these entries."""
        leaves, structure = jax.tree.flatten(self.like)
        parts = zip(np.split(entries, np.cumsum([np.size(leaf) for leaf in leaves])[:-1]), leaves, strict=True)
        point: Saddle = jax.tree.unflatten(structure, [part.reshape(np.shape(leaf)) for part, leaf in parts])
        return point


def is_quadratic(problem: AbstractProblem) -> bool:
    """Whether one survey with second derivatives determines f: squares of scores, and no y."""
    return problem.like.y is None and is_affine(problem)
