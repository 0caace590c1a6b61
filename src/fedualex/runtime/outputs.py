"""The points a run can return, each projected, certified, and with its density or rank."""

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..geometry import is_geometry
from ..problems import AbstractProblem, Certificate
from ..problems.feasibility import largest_violation
from ..problems.rounding import certificate_of
from ..problems.survey import Surveyed
from ..regularizers import for_reports, is_spectral
from ..tree import Saddle, Tree
from .missing import Missing
from .status import Status, status_of

NONZERO = 1e-5
"""Entries and singular values up to this size count as zero, as in the paper."""


@dataclass(frozen=True)
class Output:
    """A point of the domain in float64, its certificate, and its structure."""

    name: str
    z: Saddle
    operator: Saddle | None
    """The exact operator at z; None if it could not be had."""
    value: float | None
    """f(z), exact; None if it could not be had."""
    certificate: Certificate
    density: float | None
    """The share of nonzero entries in all blocks that are not spectral; None if there is no such block."""
    rank: tuple[int, ...] | None
    """The ranks of the spectral blocks; None if there is none."""
    status: Status = Status.UNCERTIFIED
    """What it is worth: its own certified gap against tol."""
    origin: str = ""
    """Of "best": which output of which round it was."""
    violation: float | None = None
    """By how much x exceeds the limits of the problem at most; None if it has none, or without the operator."""

    @property
    def label(self) -> str:
        """Its name, and where it comes from."""
        return f"{self.name}: {self.origin}" if self.origin else self.name

    @property
    def gap(self) -> float | None:
        """The certified bound on the duality gap."""
        return self.certificate.gap

    def withdrawn(self, reason: str) -> "Output":
        """The same point, of which nothing is claimed any more."""
        return dataclasses.replace(self, certificate=Certificate(None, None, reason), status=Status.UNCERTIFIED)

    @property
    def structure(self) -> float:
        """Density plus total rank: what is compared when several outputs are good enough."""
        return (self.density or 0.0) + sum(self.rank or ())


Survey = Callable[[list[Tree]], "list[Surveyed] | Missing"]
"""The exact operators and values at some points of the domain, or why they could not be had."""


def exact_problem(problem: AbstractProblem) -> AbstractProblem:
    """The problem as certificates need it: float64, with spectral parts on the SVD route."""
    exact = eqx.tree_at(lambda p: p.geometry, problem, for_reports(problem.geometry))
    wide: AbstractProblem = tree.cast_module(exact, jnp.float64)
    return wide


class Evaluator:
    """Certificates of a problem, compiled once; call within `double()`.

    exact: the problem, as `exact_problem` makes it. survey: where operators and values come from; the problem itself if
    None. elsewhere: whether they are summed where nobody here can bound the rounding. reason: why nothing is certified,
    beyond what the problem itself says. tol: what outputs are judged against.
    """

    def __init__(
        self,
        exact: AbstractProblem,
        survey: Survey | None = None,
        *,
        elsewhere: bool = False,
        reason: str = "",
        tol: float | None = None,
    ):
        self.problem, self.elsewhere, self.tol = exact, elsewhere, tol
        self.reason = exact.why_uncertifiable() or reason
        self.survey: Survey = survey or (lambda points: [survey_at(exact, z) for z in points])

    def outputs(self, points: dict[str, Tree]) -> dict[str, Output] | Missing:
        """Points projected onto the domain, each with its certificate and structure."""
        projected = [project(self.problem, z) for z in points.values()]
        found = self.survey(projected)
        if isinstance(found, Missing):
            return found
        return {name: self.output(name, z, at) for name, z, at in zip(points, projected, found, strict=True)}

    def unanswered(self, points: dict[str, Tree], reason: str) -> dict[str, Output]:
        """The same without operators, and without certificates for this reason."""
        projected = {name: project(self.problem, z) for name, z in points.items()}
        return {name: self._made(name, z, None, Certificate(None, None, reason)) for name, z in projected.items()}

    def polished(self, average: Output, steps: Any) -> Output | Missing:
        """The best certificate among composite steps P_eta(grad ell(z) - eta g(z)) from an output, with the exact g."""
        if average.operator is None:
            return dataclasses.replace(average, name="polished")
        candidates = _polish(self.problem, average.z, average.operator, jnp.asarray(steps, jnp.float64))
        points = [project(self.problem, jax.tree.map(lambda leaf, i=i: leaf[i], candidates)) for i in range(len(steps))]
        found, outputs = self.survey(points), []
        if isinstance(found, Missing):
            return found
        for z, at in zip(points, found, strict=True):
            with suppress(FloatingPointError):  # a step may leave the region where the operator is finite
                outputs.append(self.output("polished", z, at))
        if not outputs:
            return dataclasses.replace(average, name="polished")
        return min(outputs, key=lambda output: np.inf if output.gap is None else output.gap)

    def output(self, name: str, z: Tree, at: Surveyed) -> Output:
        """The certificate of a point z of the domain from the survey there."""
        if self.reason:
            return self._made(name, z, at, Certificate(None, None, self.reason))
        measured, estimated = _measure(self.problem, z, at.operator)
        certificate = certificate_of(measured, estimated or self.elsewhere)
        if certificate.gap == np.inf:  # a projection that left the domain: nothing is claimed of it
            certificate = Certificate(None, None, certificate.reason)
        return self._made(name, z, at, certificate)

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


@eqx.filter_jit
def _project_compiled(problem: AbstractProblem, z: Tree) -> Tree:
    return problem.geometry.project(z)


def project(problem: AbstractProblem, z: Tree) -> Tree:
    """The point of the domain nearest to z, in float64."""
    return _project_compiled(problem, tree.cast(z, jnp.float64))


@eqx.filter_jit
def operator_at(problem: AbstractProblem, z: Tree) -> Tree:
    """The exact operator at z."""
    return problem.operator(z)


@eqx.filter_jit
def survey_at(problem: AbstractProblem, z: Tree) -> Surveyed:
    """The exact operator and f at z."""
    return problem.survey(z)


@eqx.filter_jit
def _measure(problem: AbstractProblem, z: Tree, g: Tree) -> Any:
    return problem.measure(z, g)


@eqx.filter_jit
def _polish(problem: AbstractProblem, z: Tree, g: Tree, steps: Any) -> Tree:
    center = problem.geometry.dual(z)
    return jax.lax.map(lambda eta: problem.geometry.primal(center.descend(eta, g)), steps)


def structure_of(problem: AbstractProblem, z: Saddle) -> tuple[float | None, tuple[int, ...] | None]:
    """Density of the plain blocks and ranks of the spectral ones."""
    parts = jax.tree.leaves(problem.geometry.parts, is_leaf=is_geometry)
    plain, ranks = [], []
    for part, leaf in zip(parts, jax.tree.leaves(z), strict=True):
        if any(map(is_spectral, jax.tree.leaves(part, is_leaf=is_spectral))):
            ranks.append(int(np.sum(np.linalg.svd(leaf, compute_uv=False) > NONZERO)))
        else:
            plain.append(np.ravel(leaf))
    density = float(np.mean(np.abs(np.concatenate(plain)) > NONZERO)) if plain else None
    return density, tuple(ranks) or None
