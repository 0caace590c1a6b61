"""Outputs of a run: read from the state, projected, certified, measured."""

import dataclasses
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import tree
from ..algorithms import Method
from ..bundle import Bounds, Cuts, Flat, Known, improved, no_bounds, no_cuts
from ..certificates.certificate import Measured, certificate_of
from ..certificates.surveys import Surveyed, flat_of, known_of, measure_bounds, pair_with_slopes
from ..compiling import compiled
from ..geometry import AbstractGeometry, Product
from ..problems import AbstractProblem, Certificate
from ..problems.feasibility import largest_violation
from ..tree import Saddle, Tree
from .clients import Asking
from .outputs import Evidence, Output, in_pairs, polishing, project, projected, structure_of, surveys_at, unstacked
from .state import Setup, State, Sums
from .status import Missing, status_of

Survey = Callable[[list[Tree]], "list[Surveyed] | Missing"]
"""The exact operators and values at some points of the domain, or why they could not be had."""
Claim = Callable[[], Certificate]
"""A certificate, or the `FloatingPointError` that says why there is none, when it is asked for."""


class Evaluator:
    """Certificates of a problem, compiled once; call within `double()`.

    exact: the problem, as `exact_problem` makes it. survey: where operators and values come from; the problem itself if
    None. elsewhere: whether they are summed where nobody here can bound the rounding. sum_error: by how much each entry
    may be off because of the way it was added. reason: why nothing is certified, beyond what the problem itself says.
    tol: what outputs are judged against.
    """

    def __init__(
        self,
        exact: AbstractProblem,
        survey: Survey | None = None,
        *,
        elsewhere: bool = False,
        sum_error: float = 0.0,
        reason: str = "",
        tol: float | None = None,
    ):
        self.problem, self.elsewhere, self.sum_error, self.tol = exact, elsewhere, np.asarray(sum_error), tol
        self.reason = exact.why_uncertifiable() or reason
        self.survey = survey

    def outputs(self, points: dict[str, Tree]) -> dict[str, Output] | Missing:
        """Points projected onto the domain, each with its certificate and structure."""
        return self.certified({name: project(self.problem, z) for name, z in points.items()})

    def certified(self, points: dict[str, Tree]) -> dict[str, Output] | Missing:
        """Points of the domain, each with its certificate and structure."""
        found = self._certified(list(points.values()))
        if isinstance(found, Missing):
            return found
        rows = zip(points.items(), found, strict=True)
        return {name: self._made(name, z, at, certificate()) for (name, z), (at, certificate) in rows}

    def unanswered(self, points: dict[str, Tree], reason: str) -> dict[str, Output]:
        """Points of the domain without operators, and without certificates for this reason."""
        return {name: self._made(name, z, None, Certificate(None, None, reason)) for name, z in points.items()}

    def polished(self, average: Output, steps: Any) -> Output | Missing:
        """The best certificate among composite steps P_eta(grad ell(z) - eta g(z)) from an output, with the exact g."""
        if average.operator is None:
            return dataclasses.replace(average, name="polished")
        points = unstacked(_polish(self.problem.geometry, average.z, average.operator, np.asarray(steps, np.float64)))
        found, outputs = self._certified(points), []
        if isinstance(found, Missing):
            return found
        for z, (at, certificate) in zip(points, found, strict=True):
            with suppress(FloatingPointError):  # a step may leave the region where the operator is finite
                outputs.append(self._made("polished", z, at, certificate()))
        if not outputs:
            return dataclasses.replace(average, name="polished")
        return min(outputs, key=lambda output: np.inf if output.gap is None else output.gap)

    def output(self, name: str, z: Tree, at: Surveyed) -> Output:
        """The certificate of a point z of the domain from the survey there."""
        return self._made(name, z, at, self._certificates([z], [at])[0]())

    def _certified(self, points: list[Tree]) -> list[tuple[Surveyed, Claim]] | Missing:
        """Survey and certificate of each point: in one program, if the problem is surveyed here."""
        if self.survey is None and not self.reason:
            found = in_pairs(partial(_surveyed_and_measured, self.problem, self.sum_error), points)
            return [(at, partial(claimed, one, self.elsewhere or bool(estimated))) for at, (one, estimated) in found]
        survey = self.survey or partial(in_pairs, partial(surveys_at, self.problem))
        surveys: list[Surveyed] | Missing = survey(points)
        if isinstance(surveys, Missing):
            return surveys
        return list(zip(surveys, self._certificates(points, surveys), strict=True))

    def _certificates(self, points: list[Tree], found: list[Surveyed]) -> list[Claim]:
        """The certificate of each point from the survey there."""
        if self.reason:
            return [partial(Certificate, None, None, self.reason)] * len(points)
        items = [(z, at.operator) for z, at in zip(points, found, strict=True)]
        measured = in_pairs(partial(_measures, self.problem, self.sum_error), items)
        return [partial(claimed, one, self.elsewhere or bool(estimated)) for one, estimated in measured]

    def bounded(self, bounds: Bounds) -> Output:
        """The pair of the best bounds of both sides, with the surveys that it follows from."""
        (z, g, shift), measured = _measure_bounds(self.problem, bounds, self.sum_error)
        certificate = claimed(measured, estimated=True, shift=float(shift))
        made = self._made("bounds", z, Surveyed(g, np.asarray(np.nan)), certificate)
        return dataclasses.replace(made, value=None, evidence=_evidence(self.problem, bounds))

    def _made(self, name: str, z: Tree, at: Surveyed | None, certificate: Certificate) -> Output:
        point, operator = (jax.tree.map(np.asarray, leaf) for leaf in (z, None if at is None else at.operator))
        return Output(
            name,
            point,
            operator,
            None if at is None else float(at.value),
            certificate,
            *structure_of(self.problem, point),
            status_of(certificate.gap, self.tol),
            violation=largest_violation(self.problem, operator),
        )


def claimed(measured: Measured, estimated: bool, shift: float = 0.0) -> Certificate:
    """`certificate_of`; of a projection that left the domain nothing is claimed."""
    certificate = certificate_of(measured, estimated, shift)
    return Certificate(None, None, certificate.reason) if certificate.gap == np.inf else certificate


@compiled
def _surveyed_and_measured(problem: AbstractProblem, sum_error: Any, points: Tree) -> tuple[Surveyed, Any]:
    """In two loops: what one has computed the other does not compute again, with other rounding than was surveyed."""
    found = jax.lax.map(problem.survey, points)
    return found, _measured(problem, sum_error, (points, found.operator))


@compiled
def _measures(problem: AbstractProblem, sum_error: Any, items: tuple[Tree, Tree]) -> tuple[Measured, Array]:
    return _measured(problem, sum_error, items)


def _measured(problem: AbstractProblem, sum_error: Any, items: tuple[Tree, Tree]) -> tuple[Measured, Array]:
    """What the certificates of points are made of, from the operators there, along the first axis."""
    return jax.lax.map(lambda item: jax.tree.map(jnp.asarray, problem.measure(item[0], item[1], sum_error)), items)


@compiled
def _measure_bounds(problem: AbstractProblem, bounds: Bounds, sum_error: Any) -> Any:
    return pair_with_slopes(flat_of(problem), bounds), measure_bounds(problem, bounds, sum_error)[0]


def _evidence(problem: AbstractProblem, bounds: Bounds) -> Evidence:
    """Those of the surveys that have a weight, first of the upper bound and then of the lower one."""
    sides = [(np.asarray(side.points), np.asarray(side.weights)) for side in (bounds.upper, bounds.lower)]
    rows = [np.flatnonzero(weights[:-1]) for _, weights in sides]
    points = np.concatenate([points[own] for (points, _), own in zip(sides, rows, strict=True)])
    flat, nothing = flat_of(problem), [np.zeros(own.size) for own in rows]
    own = [weights[row] for (_, weights), row in zip(sides, rows, strict=True)]
    return Evidence(
        points=flat.points(points),
        upper=np.concatenate([own[0], nothing[1]]),
        lower=np.concatenate([nothing[0], own[1]]),
        floor=float(sides[1][1][-1]),
    )


@compiled
def _polish(geometry: Product, z: Tree, g: Tree, steps: Any) -> Tree:
    center = geometry.dual(z)
    return jax.lax.map(lambda eta: geometry.project(geometry.primal(center.descend(eta, g))), steps)


# What the surveys of records say together: bounds of the optimal value from above and from below.


SURVEYS, ENTRIES = 20, 2**22
"""How many surveys are remembered, and of how many numbers at most."""


class Trace(eqx.Module):
    """The last surveys of a run, and the best bounds of all."""

    cuts: Cuts
    bounds: Bounds
    oldest: Array
    """The row that is overwritten next."""


def no_trace(problem: AbstractProblem) -> Trace:
    """Before the first survey."""
    flat = flat_of(problem)
    size = sum(leaf.size for leaf in jax.tree.leaves(flat.like))
    rows = max(2, min(SURVEYS, ENTRIES // size))
    return _nothing(flat, rows, size)


@compiled
def _nothing(flat: Flat, rows: int, size: int) -> Trace:
    return Trace(no_cuts(rows, size), no_bounds(flat, rows), jnp.asarray(0))


def traced(problem: AbstractProblem, trace: Trace, surveys: list[tuple[Saddle, Any, Any]]) -> Trace:
    """The trace with more surveys, each a point with its operator and value; the oldest are forgotten."""
    flat = flat_of(problem)
    return _traced(flat, known_of(problem, flat), trace, surveys)


@compiled
def _traced(flat: Flat, known: Known, trace: Trace, surveys: list[tuple[Saddle, Any, Any]]) -> Trace:
    cuts, row = trace.cuts, trace.oldest
    true, zero = jnp.asarray(True), jnp.zeros(())
    for z, g, value in surveys:
        new = Cuts(flat.vector(z), flat.vector(g), jnp.asarray(value, jnp.float64), zero, zero, true)
        cuts = cuts.with_row(row, new)
        row = (row + 1) % cuts.used.size
    return Trace(cuts, improved(flat, cuts, known, trace.bounds, model=False), row)


# The outputs of a state: points that clients are asked about, and bounds that follow from all surveys.


class Reader:
    """Reads outputs from states, and remembers what their surveys say together. Call within `double()`.

    polish: the steps that are tried for the polished output.
    """

    def __init__(self, evaluator: Evaluator, setup: Setup, clients: Asking, polish: Any):
        self.evaluator, self.setup, self.clients, self.polish = evaluator, setup, clients, polish
        # Without anything known beforehand, bounds of both sides say little more than the certificates themselves.
        traceless = setup.method.outputs or evaluator.reason or evaluator.problem.floor is None
        self.trace = None if traceless else no_trace(evaluator.problem)

    def outputs(self, state: State, everything: bool) -> dict[str, Output] | Missing:
        """The outputs of a state; before the first round all are its point."""
        if (bounds := self.setup.method.bounds(state.server)) is not None:
            return self._bounded(bounds, state)
        outputs = self._asked(state, everything)
        if isinstance(outputs, Missing) or self.trace is None:
            return outputs
        several = [outputs["last"], min(outputs.values(), key=gap_of)]
        # The value as an array: as a number of Python it would be part of the program, and compiled for.
        points = [(output.z, output.operator, np.asarray(output.value)) for output in several]
        self.trace = traced(self.evaluator.problem, self.trace, points)
        return outputs | self._traced()

    def _traced(self) -> dict[str, Output]:
        """What all surveys so far bound, if they do."""
        if self.trace is not None and self.trace.bounds.known:
            with suppress(FloatingPointError):
                return {"bounds": self.evaluator.bounded(self.trace.bounds)}
        return {}

    def _bounded(self, bounds: Bounds, state: State) -> dict[str, Output]:
        """What the server's own surveys bound."""
        if not bounds.known:
            point = self.setup.method.point(state.server, self.setup.problem.geometry)
            return self.evaluator.unanswered({"bounds": point}, "nobody was asked for an operator yet")
        return {"bounds": self.evaluator.bounded(bounds)}

    def _asked(self, state: State, everything: bool) -> dict[str, Output] | Missing:
        """The outputs that clients are asked about."""
        points = self._points(state, everything)
        if self.clients.unsurveyed:
            return _unpolished(self.evaluator.unanswered(points, self.clients.unsurveyed))
        if float(state.sums.weight) == 0:  # one point for all
            found = self.evaluator.certified({"last": points["last"]})
            return found if isinstance(found, Missing) else _unpolished(dict.fromkeys(points, found["last"]))
        outputs = self.evaluator.certified(points)
        if isinstance(outputs, Missing):
            return outputs
        for kind in polishing(points):
            polished = self.evaluator.polished(outputs[kind.polishes], self.polish)
            if isinstance(polished, Missing):
                return polished
            outputs[kind.name] = polished
        return outputs

    def _points(self, state: State, everything: bool) -> dict[str, Tree]:
        points = points_in_domain(self.evaluator.problem, self.clients.setup, state, self.clients.averages)
        return {name: z for name, z in points.items() if everything or name in ("last", "ergodic")}

    def unanswered(self, state: State, reason: str) -> dict[str, Output]:
        """The outputs of a state without certificates, for this reason; bounds from earlier surveys stay."""
        points = _unpolished(self.evaluator.unanswered(self._points(state, everything=True), reason))
        return points | self._traced()


def exchanges_of(setup: Setup, state: State) -> int:
    """Round trips of the method until this state; those for certificates alone are not counted."""
    return int(setup.method.exchanges_of(state.server, int(state.round)))


def points_of(setup: Setup, state: State, averages: Iterable[str]) -> dict[str, Tree]:
    """The point of a state, and averages so far; before the first round all are its point."""
    return _points(setup.method, setup.problem.geometry, state.server, state.sums, averages)


def points_in_domain(exact: AbstractProblem, setup: Setup, state: State, averages: tuple[str, ...]) -> dict[str, Tree]:
    """The same as the nearest points of the domain, in float64."""
    if setup.method.bounds(state.server) is not None:  # it asks about points of the domain only
        return {"last": setup.method.point(state.server, setup.problem.geometry)}
    names = ("last", *averages)
    found = _read(exact.geometry, setup.method, setup.problem.geometry, state.server, state.sums, averages)
    return dict(zip(names, unstacked(found), strict=True))


@compiled
def _read(
    reports: Product, method: Method, geometry: Product, server: Tree, sums: Sums, averages: tuple[str, ...]
) -> Tree:
    return projected(reports, list(_points(method, geometry, server, sums, averages).values()))


def _points(
    method: Method, geometry: AbstractGeometry, server: Tree, sums: Sums, averages: Iterable[str]
) -> dict[str, Tree]:
    last, some = method.point(server, geometry), sums.weight > 0
    inverse = 1 / jnp.where(some, sums.weight, 1)
    means = {name: tree.scale(inverse, sums.points[name]) for name in averages}
    return {"last": last} | {name: tree.where(some, mean, last) for name, mean in means.items()}


def _unpolished(outputs: dict[str, Output]) -> dict[str, Output]:
    """All outputs by their names, where there is nothing to polish with: a polished one is what it would be made of."""
    whole = outputs | {kind.name: outputs[kind.polishes] for kind in polishing(outputs)}
    return {name: dataclasses.replace(output, name=name) for name, output in whole.items()}


def gap_of(output: Output | None) -> float:
    """The certified gap of an output, infinite where it has none."""
    return float("inf") if output is None or output.gap is None else output.gap
