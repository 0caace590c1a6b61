"""From points, or from surveys that are remembered, to certified outputs."""

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..bundle import Bounds
from ..certificates.certificate import Measured, certificate_of
from ..certificates.surveys import Surveyed, flat_of, measure_bounds, pair_with_slopes
from ..compiling import compiled
from ..geometry import Product
from ..problems import AbstractProblem, Certificate
from ..problems.feasibility import largest_violation
from ..tree import Tree
from .missing import Missing
from .outputs import Evidence, Output, in_pairs, project, structure_of, surveys_at, unstacked
from .status import status_of

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
