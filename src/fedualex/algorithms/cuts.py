"""FeDualCuts: worst mixtures of clients by cuts of the dual function, without what would show a client's gradient."""

from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ..accepted import Numbers
from ..arrays import Array, by_numpy
from ..bundle import UNKNOWN, Bounds, Flat, Side, upper_value
from ..certificates.surveys import Surveyed
from ..geometry import AbstractGeometry
from ..model_problem import blocks_of, has_model, solve_model
from ..problems import AbstractProblem
from ..tree import Count, Flag, Saddle, Scalar, Vector
from .base import Facts, Method, Stepped, Survey
from .bounding import bound_by_surveys, choose_better, entries_of, point_of, project, with_starts
from .newton import LONGER, SHORTER
from .slide import FeDualSlide, SlideServer

MOST = 500
"""Variables x up to which second derivatives are asked for: in some tens of messages, of which sites limit the sum."""
MEMORY = 60
"""Surveys that are remembered: their losses are cuts of the dual function, their gradients secants."""
INNER = 0.3
"""The share of the gap that may be left at one y before another one is surveyed."""
BELOW = 0.3
"""How far below the upper bound all cuts are at the next y, as a share of the gap."""
FLAT = 1e-12
"""A secant that bends less, as a share of the lengths of step and change, is none."""
STEEP = 10.0
"""How many times more than the second derivatives along it a secant may bend."""

Floats = NDArray[np.float64]

# What the server remembers between two exchanges.


class Surveys(NamedTuple):
    """The last surveys, the oldest first, and how many are held; what is behind them does not count."""

    points: Vector
    operators: Vector
    values: Vector
    held: Count

    @classmethod
    def none(cls, size: int) -> "Surveys":
        """Before the first."""
        return cls(np.zeros((MEMORY, size)), np.zeros((MEMORY, size)), np.zeros(MEMORY), 0)

    def add(self, point: Floats, survey: Surveyed) -> "Surveys":
        """With one more; there must be room."""
        points, operators, values, count = (np.array(part) for part in self)
        points[count], operators[count], values[count] = point, entries_of(survey.operator), survey.value
        return Surveys(points, operators, values, int(count) + 1)

    def without(self, row: int) -> "Surveys":
        """With one less."""
        kept = np.append(np.delete(np.arange(MEMORY), row), row)
        points, operators, values = (np.asarray(part)[kept] for part in self[:3])
        return Surveys(points, operators, values, int(self.held) - 1)

    def bend(self, second: Vector, split: int) -> Floats:
        """Second derivatives in x with the secants between surveys at one y (Broyden, Fletcher, Goldfarb, Shanno).

        A secant that is STEEP is taken for one that bends as much as that: the step was too long (as Powell damps).
        """
        A, points, operators = (np.asarray(part) for part in (second, self.points, self.operators))
        for one, other in pairwise(range(int(self.held))):
            step, change = (part[other, :split] - part[one, :split] for part in (points, operators))
            along, same_y = step @ change, np.array_equal(points[one, split:], points[other, split:])
            if same_y and along > FLAT * np.linalg.norm(step) * np.linalg.norm(change):
                own = A @ step
                if (length := step @ own) > 0:
                    if along > STEEP * length:
                        change = own + (STEEP - 1) * length / (along - length) * (change - own)
                    A = A - np.outer(own, own) / length
                A = A + np.outer(change, change) / (step @ change)
        return A


class CutsServer(NamedTuple):
    """Everything that the server remembers, in float64."""

    center: Vector
    """(x, y), x the best one that was surveyed at this y."""
    slope: Vector
    """The gradient in x there."""
    height: Scalar
    """f and the regularizer of x there; UNKNOWN before the first survey."""
    second: Vector
    """Second derivatives in x there, where y weighs all its entries alike."""
    below: Scalar
    """The largest lower bound of the dual function at this y."""
    tau: Scalar
    """The length of steps in x, 1 unless they had to be damped."""
    ahead: Vector
    """The point of the next survey."""
    steps: Flag
    """Whether that is a step from the center, not the center's x with another y."""
    surveys: Surveys
    bounds: Bounds
    guard: SlideServer
    """FeDualSlide's server, if there are no second derivatives to be had."""
    plain: Flag
    """Whether that is so."""
    exchanges: Count
    at: Saddle
    """The point ahead, or FeDualSlide's."""


class FeDualCuts(Method[CutsServer]):
    """Worst mixtures y of clients or groups, by cuts of the dual function and Newton steps in x (docs/curvature.md).

        D(y) = min over x of f(x, y) + psi_1(x) <= <losses_k, y> + psi_1(x_k) for every survey k

        repeat
            x = the solution of the model in x at this y; survey (x, y) with the dual cut of the step
            unless what is left at this y exceeds INNER of the gap:
                y = the point nearest to the best y where all cuts are above a level; survey (x, y)

    The model has the second derivatives in x of all alike, bent by secants of the gradients at one y. So nothing is
    asked for but values, gradients weighted by y, the losses, cuts, and second derivatives in x where y weighs its
    entries alike: sums over clients that do not show what one of them adds, unlike the block between x and y that
    `FeDualNewton` needs. There is nothing to tune. With clients that give no second derivatives, or for more than MOST
    variables x, it is `FeDualSlide`. Proved for exact surveys of all clients: every gap.
    """

    outputs: ClassVar[tuple[str, ...]] = ("bounds",)
    needs_float64: ClassVar[str] = "the method works with exact operators"
    asks_curvature: ClassVar[bool] = True
    asks_alike: ClassVar[bool] = True
    needs_everybody: ClassVar[bool] = True
    patience: ClassVar[int] = 40

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Numbers) -> str:
        """Refused unless certificates exist, models can be solved, and y is on a simplex that may have a cap."""
        if reason := problem.why_uncertifiable():
            return f"FeDualCuts works with certificates, and there is none here: {reason}"
        if not has_model(problem.geometry):
            return "FeDualCuts solves models of a problem, and a part of this one declares no model_form"
        if _read_cap(problem.geometry.parts.y) is None:
            return "FeDualCuts is for an adversary that weighs groups, y on a simplex with or without a cap and no more"
        return ""

    def init(self, facts: Facts, z: Saddle) -> CutsServer:
        """Before the first exchange, a survey of the projection of z."""
        guard = self._slide.init(facts, z)
        point, split = entries_of(guard.at), facts.flat.split
        plain = split > MOST
        size = 0 if plain else split
        start: dict[str, Any] = {"center": point, "ahead": point, "slope": np.zeros(split), "height": UNKNOWN}
        start |= {"second": np.zeros((size, size)), "below": -UNKNOWN, "tau": 1.0, "steps": True, "exchanges": 0}
        bounds = with_starts(jax.tree.map(np.asarray, guard.bounds))
        surveys = Surveys.none(point.size)
        return CutsServer(**start, surveys=surveys, bounds=bounds, guard=guard, plain=plain, at=guard.at)

    def ask(self, facts: Facts, server: CutsServer) -> Survey:
        """A step from the center with its dual cut and second derivatives, or the center's x with another y."""
        if bool(server.plain) or not bool(server.steps):
            return Survey((server.at,))
        begun = float(server.height) != UNKNOWN
        return Survey((server.at,), (True,), (point_of(facts.flat, server.center) if begun else None,), alike=True)

    def tell(self, facts: Facts, server: CutsServer, answer: list[Surveyed] | Stepped) -> CutsServer:
        """Better bounds, and the next step in x or in y."""
        assert isinstance(answer, list)
        server = server._replace(exchanges=int(server.exchanges) + 1)
        refused = bool(server.steps) and answer[0].curvature is None
        if bool(server.plain) or refused:
            return self._tell_slide(facts, server, answer, begins=not bool(server.plain))
        server = _learn(facts, server, answer)
        bounds = server.bounds
        if float(server.height) - float(server.below) <= INNER * bounds.gap:
            y = _choose_mixture(facts, server)
            if not np.array_equal(y, server.center[facts.flat.split :]):
                ahead = np.concatenate([server.center[: facts.flat.split], y])
                return server._replace(ahead=ahead, at=point_of(facts.flat, ahead), steps=False)
        ahead = _step_in_x(facts, server)
        return server._replace(ahead=ahead, at=point_of(facts.flat, ahead), steps=True)

    def _tell_slide(self, facts: Facts, server: CutsServer, answer: list[Surveyed], *, begins: bool) -> CutsServer:
        """FeDualSlide's turn, which begins with the survey that came without second derivatives."""
        guard = server.guard
        if begins:
            guard = self._slide.init(facts, server.at)._replace(at=server.at)
        guard = self._slide.tell(facts, guard, answer)
        bounds = choose_better(server.bounds, with_starts(guard.bounds))
        return server._replace(guard=guard, bounds=bounds, plain=True, at=guard.at)

    def point(self, server: CutsServer, geometry: AbstractGeometry) -> Saddle:
        """What is surveyed next."""
        return server.at

    def exchanges_of(self, server: CutsServer, rounds: int) -> int:
        """All its exchanges, which are surveys."""
        return int(server.exchanges)

    def bounds(self, server: CutsServer) -> Bounds:
        """What its own surveys and cuts prove."""
        return server.bounds

    @property
    def _slide(self) -> FeDualSlide:
        return FeDualSlide(mode="survey", remember=MEMORY)


def are_too_many(problem: AbstractProblem) -> bool:
    """Whether there are so many variables that no second derivatives are asked for."""
    return sum(np.size(leaf) for leaf in jax.tree.leaves(problem.like.x)) > MOST


def _read_cap(geometry: Any) -> float | None:
    """The largest entry of a mixture; None where y is no mixture, or its regularizer is more than a cap."""
    if not isinstance(geometry, AbstractGeometry):
        return None
    form = geometry.model_form()
    mixture = form.coupling == "sum" and form.radius == 1 and np.all(np.asarray(form.lower) == 0)
    plain = form.is_polyhedral and form.l1 == 0 and not np.any(form.linear) and np.ndim(form.upper) == 0
    return min(1.0, float(form.upper)) if mixture and plain else None


# The step in x.


def _learn(facts: Facts, server: CutsServer, answer: list[Surveyed]) -> CutsServer:
    """Better bounds, and the center: the new point if y is new or it is the better one, else a shorter step."""
    flat, (survey,), point = facts.flat, answer, np.asarray(server.ahead)
    split, operator = flat.split, entries_of(answer[0].operator)
    bounds, _, lowers = bound_by_surveys(flat, facts.known, server.bounds, point[None], server.center, answer)
    surveys = server.surveys
    if int(surveys.held) == MEMORY:  # the oldest that no bound needs
        surveys = surveys.without(int(np.argmin(_solve_for_weights(flat, surveys, bounds) > 0)))
    surveys = surveys.add(point, survey)
    server = server._replace(bounds=_bound_by_mean(flat, surveys, bounds), surveys=surveys)
    height, below = float(survey.value) + float(_measure_psi(flat, point[None])[0]), float(np.max(lowers))
    here: dict[str, Any] = {"center": point, "slope": operator[:split], "height": height}
    if not bool(server.steps):
        return server._replace(**here, below=below, tau=1.0)
    server = server._replace(below=max(below, float(server.below)))
    if not height < float(server.height):
        return server._replace(tau=SHORTER * float(server.tau))
    assert survey.curvature is not None
    return server._replace(**here, second=survey.curvature.xx, tau=min(1.0, LONGER * float(server.tau)))


def _step_in_x(facts: Facts, server: CutsServer) -> Floats:
    """The solution of the model in x, or where a part of the way there leads."""
    split, center, tau = facts.flat.split, np.asarray(server.center), float(server.tau)
    A = server.surveys.bend(server.second, split)
    x = solve_model(blocks_of(facts.flat.x), np.asarray(server.slope), A, center[:split]).point
    ahead = np.concatenate([x, center[split:]])
    if tau < 1:
        ahead[:split] = center[:split] + tau * (x - center[:split])
        ahead[:split] = project(facts.flat, ahead)[:split]
    return ahead


@by_numpy
def _measure_psi(flat: Flat, points: Floats) -> Floats:
    """The regularizer of x at each of these points."""
    return np.array([float(flat.x.psi(point[: flat.split])) for point in points])


# The step in y: cuts of the dual function.


def _find_cuts(flat: Flat, surveys: Surveys) -> tuple[Floats, Floats]:
    """Slopes and offsets of D(y) <= <slope, y> + offset, one row for each survey."""
    count, split = int(surveys.held), flat.split
    points, operators = np.asarray(surveys.points)[:count], np.asarray(surveys.operators)[:count]
    losses, psi = -operators[:, split:], _measure_psi(flat, points)
    return losses, psi + np.asarray(surveys.values)[:count] - np.sum(losses * points[:, split:], axis=1)


def _bound_by_mean(flat: Flat, surveys: Surveys, bounds: Bounds) -> Bounds:
    """With the upper bound of the mean of all surveyed x whose cuts are the lowest together, if that is better."""
    weights = np.zeros(MEMORY + 1)
    weights[: int(surveys.held)] = _solve_for_weights(flat, surveys, bounds)
    points, operators, values = (np.asarray(part) for part in surveys[:3])
    side = _make_side(flat, points, operators, values, weights)
    return choose_better(bounds, Bounds(side, bounds.lower))


@by_numpy
def _make_side(flat: Flat, points: Array, operators: Array, values: Array, weights: Array) -> Side:
    split, mu = flat.split, weights[:-1]
    slopes, y = operators[:, split:], points[:, split:]
    x, slope, offset = mu @ points[:, :split], mu @ slopes, mu @ (values + np.sum(slopes * y, axis=1))
    bound = upper_value(flat.sides, x, slope, offset)
    sizes = np.max(np.abs(operators)), np.max(np.abs(values))
    numbers: list[Any] = [bound, x, slope, offset, points, weights, *sizes, points]
    return Side(*map(np.asarray, numbers))


def _solve_for_weights(flat: Flat, surveys: Surveys, bounds: Bounds) -> Floats:
    """Of a mean of the cuts whose maximum over y is the smallest: the multipliers of max over y of the least cut."""
    from scipy.optimize import linprog  # a site starts without it

    slopes, offsets = _find_cuts(flat, surveys)
    above, unit = float(bounds.upper.bound), _choose_unit(bounds)
    count, cap = slopes.shape[1], _read_cap(flat.geometry.parts.y)
    # Gaps are the unit, because the solver's tolerances are absolute.
    rows = np.hstack([-slopes, np.full((len(slopes), 1), unit)])
    program: dict[str, Any] = {"A_ub": rows / unit, "b_ub": (offsets - above) / unit, "method": "highs"}
    program |= {"A_eq": np.append(np.ones(count), 0.0)[None], "b_eq": [1.0]}
    solution = linprog(np.append(np.zeros(count), -1.0), bounds=[(0, cap)] * count + [(None, None)], **program)
    if solution.status != 0:
        return np.eye(len(slopes))[-1]
    weights = np.maximum(-solution.ineqlin.marginals, 0)
    return np.asarray(weights / weights.sum())


def _choose_mixture(facts: Facts, server: CutsServer) -> Floats:
    """The point nearest to the best y where all cuts are at least the level; the present y if rounding leaves none."""
    flat, bounds = facts.flat, server.bounds
    slopes, offsets = _find_cuts(flat, server.surveys)
    best, here = np.asarray(bounds.lower.point), np.asarray(server.center)
    level = float(bounds.upper.bound) - BELOW * bounds.gap
    least = (level - offsets - slopes @ best) / _choose_unit(bounds)
    move = _find_shortest(slopes / _choose_unit(bounds), least, best, _read_cap(flat.geometry.parts.y) or 1.0)
    if move is None:
        return here[flat.split :]
    y = np.concatenate([here[: flat.split], np.maximum(best + move, 0)])
    return np.asarray(project(flat, y))[flat.split :]


def _find_shortest(slopes: Floats, least: Floats, best: Floats, cap: float) -> Floats | None:
    """The shortest move whose entries add up to 0, with slopes @ move >= least and 0 <= best + move <= cap.

    By nonnegative least squares, as Lawson and Hanson solve least distance programs; None if there is none.
    """
    from scipy.optimize import nnls  # a site starts without it

    size = best.size
    basis = np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, 1:]]))[0][:, 1:]
    sides = np.vstack([slopes, np.eye(size), -np.eye(size)]) @ basis
    dual = np.vstack([sides.T, np.concatenate([least, -best, best - cap])])
    aim = np.append(np.zeros(size - 1), 1.0)
    try:
        residual = dual @ nnls(dual, aim)[0] - aim
    except RuntimeError:  # too many iterations
        return None
    return basis @ residual[:-1] / -residual[-1] if residual[-1] < 0 else None


def _choose_unit(bounds: Bounds) -> float:
    """The gap, unless it is lost in rounding."""
    return max(bounds.gap, 1e-14 * max(1.0, abs(float(bounds.upper.bound))))
