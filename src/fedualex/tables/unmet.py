"""Whether limits can be met that an answer exceeds, from sums at all parties, where nobody has all rows."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..arrays import Reals
from ..certificates.certificate import certificate_of
from ..certificates.rounding import UNSEEN
from ..compiling import double
from ..inference.sums import UNIT, from_triangle
from ..problems import Problem
from ..problems.constrained import lagrangian_of, lower_bound, phase_one
from ..reference import LeastViolation
from ..reference.feasibility import CLOSE
from ..summaries import Known
from ..tree import Saddle
from .effects import Ask
from .kept_model import Answer
from .recipe import TableRecipe

STEPS, HALVINGS = 25, 8
"""Newton steps, and lengths of each, at most. Some five steps are enough; each asks for every group and once more."""
RIDGE = 1e-11
"""What is added to second derivatives, as a share of their mean, so that a direction without any has a step."""


def bound_violation(
    recipe: TableRecipe, known: Sequence[Known], problem: Problem, answer: Answer, ask: Ask, sum_error: float
) -> LeastViolation:
    """Bounds on the least excess e over limits, from the answer's x on, which comes near to it.

    problem: with data elsewhere. ask: the sums of all parties' `Party.effects`. sum_error: by how much masks change an
    entry of a sum. Each step is that of the minimax problem with e as its first two derivatives have it,

        max_lam min_d <lam, e + J d> + d^T H d / 2,   H = sum_g lam_g (second derivative of e_g),  lam on the simplex,

    whose end has J^T lam near 0. Then `lower_bound` at (x, lam) is near max e; it holds wherever x is.
    """
    search = _Search(recipe, known, problem, ask, sum_error)
    beta, lam = search.vector(answer.x), np.asarray(answer.y, float)
    lam = lam / lam.sum() if lam.sum() > 0 else np.full(lam.size, 1 / lam.size)
    here, lower = search.look(beta), -np.inf
    upper = float(here.value.max())
    for _ in range(STEPS):
        step, lam = _step(here, lam)
        lower = max(lower, search.lower_bound(beta, here, lam))
        if upper <= 0 or lower >= CLOSE * upper:
            break
        if (further := _descend(search, beta, step, here)) is None:
            break
        beta, here = further
        upper = min(upper, float(here.value.max()))
    return LeastViolation(lower, upper)


class _Excess(NamedTuple):
    """Of each limited group at a point: the excess, its slope and second derivative. error: of an entry of any."""

    value: Reals
    slope: Reals
    second: Reals
    error: float


class _Search:
    """What parties say of excesses, and what that proves."""

    def __init__(self, recipe: TableRecipe, known: Sequence[Known], problem: Problem, ask: Ask, sum_error: float):
        phase, whole = phase_one(problem), lagrangian_of(problem)
        assert phase is not None
        assert whole is not None
        self.phase, self.limits = phase, np.asarray(whole.limits, float)
        self.ask, self.rows, self.sum_error = ask, recipe.rows_in_units(known), sum_error
        self.has_bias = "bias" in problem.like.x

    def vector(self, x: Mapping[str, Reals]) -> Reals:
        """The bias, where there is one, before the weights."""
        return np.concatenate([np.ravel(x["bias"])[: int(self.has_bias)] if self.has_bias else [], x["weights"]])

    def look(self, beta: Reals) -> _Excess:
        """Group by group: the sums at its multiplier alone, less those at none."""
        plain, *each = (self._sums(beta, y) for y in (np.zeros(len(self.limits)), *np.eye(len(self.limits))))
        value, slope, second = (
            np.stack([(one[name] - plain[name]) / self.rows for one in each]) for name in ("value", "slope", "second")
        )
        largest = max(float(np.max(np.abs(one[name]))) for one in (plain, *each) for name in ("value", "slope"))
        error = (UNSEEN * UNIT * largest + 2 * self.sum_error) / self.rows
        return _Excess(value - self.limits, slope, np.stack([from_triangle(own) for own in second]), error)

    def lower_bound(self, beta: Reals, here: _Excess, lam: Reals) -> float:
        """That of `phase_one` at (x, lam); -inf outside of the domain, and where numbers break down."""
        slope, first = here.slope.T @ lam, int(self.has_bias)
        x, g = ({"weights": part[first:], **({"bias": part[0]} if first else {})} for part in (beta, slope))
        with double():
            z = Saddle(x, self.phase.geometry.project(Saddle(x, {"multipliers": lam})).y)
            operator = Saddle(g, {"multipliers": -here.value})
            try:
                certificate = certificate_of(*self.phase.measure(z, operator, here.error))
            except FloatingPointError:
                return -np.inf
            return lower_bound(certificate, operator) - here.error

    def _sums(self, beta: Reals, y: Reals) -> Known:
        none = np.asarray(0)
        return self.ask({"y": y, "own_intercept": none, "beta": beta, "meat": none})


def _step(here: _Excess, lam: Reals) -> tuple[Reals, Reals]:
    """The step from here with second derivatives at `lam`, and the weights of groups that it finds."""
    second = np.tensordot(lam, here.second, 1)
    second += np.eye(len(second)) * (RIDGE * np.trace(second) / len(second) + np.finfo(float).tiny)
    pulled = np.linalg.solve(second, here.slope.T)
    lam = _maximize_on_simplex(here.value, here.slope @ pulled, lam)
    return -pulled @ lam, lam


def _maximize_on_simplex(value: Reals, second: Reals, start: Reals) -> Reals:
    """The largest <lam, value> - lam^T second lam / 2 over the simplex; exact among the weights that are not 0."""
    size = max(1.0, float(np.max(np.abs(second))))
    solution = minimize(
        lambda lam: ((lam @ second @ lam / 2 - lam @ value) / size, (second @ lam - value) / size),
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(value),
        constraints={"type": "eq", "fun": lambda lam: lam.sum() - 1, "jac": np.ones_like},
    )
    lam = np.maximum(solution.x, 0.0)
    used = lam > 1e-6 * lam.max()
    ones = np.ones((int(used.sum()), 1))
    system = np.block([[second[np.ix_(used, used)], ones], [ones.T, np.zeros((1, 1))]])
    exact = np.linalg.lstsq(system, np.append(value[used], 1.0), rcond=None)[0][:-1]
    if np.all(exact >= 0):
        lam = np.zeros_like(lam)
        lam[used] = exact
    return np.asarray(lam / lam.sum())


def _descend(search: _Search, beta: Reals, step: Reals, here: _Excess) -> tuple[Reals, _Excess] | None:
    """The first point along a step, halved again and again, where the largest excess is less; None without one."""
    for k in range(HALVINGS):
        further = beta + step / 2**k
        there = search.look(further)
        if there.value.max() < here.value.max():
            return further, there
    return None
