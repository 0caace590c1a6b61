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
from ..regularizers import for_reports, is_spectral
from ..tree import Saddle, Tree
from .status import Status, status_of

UNANSWERED = "not all sites answered when asked for their operators"

NONZERO = 1e-5
"""Entries and singular values up to this size count as zero, as in the paper."""


@dataclass(frozen=True)
class Output:
    """A point of the domain in float64, its certificate, and its structure."""

    name: str
    z: Saddle
    operator: Saddle | None
    """The exact operator at z; None if it could not be had."""
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

    @property
    def structure(self) -> float:
        """Density plus total rank: what is compared when several outputs are good enough."""
        return (self.density or 0.0) + sum(self.rank or ())


Operators = Callable[[list[Tree]], "list[Tree] | None"]
"""The exact operators at some points of the domain; None if they cannot be had."""


class Evaluator:
    """Certificates of a problem, compiled once; call within `double()`.

    tol: what outputs are judged against. operators: where exact operators come from; the problem itself if None. A
    deployment asks its sites.
    """

    def __init__(self, problem: AbstractProblem, tol: float | None = None, operators: Operators | None = None):
        exact = eqx.tree_at(lambda p: p.geometry, problem, for_reports(problem.geometry))
        self.problem = tree.cast_module(exact, jnp.float64)
        self.tol, self.reason = tol, problem.why_uncertifiable()
        self.elsewhere = operators is not None
        self.operators = operators or (lambda points: [_operator(self.problem, z) for z in points])

    def outputs(self, points: dict[str, Tree]) -> dict[str, Output]:
        """Points projected onto the domain, each with its certificate and structure."""
        projected = [self.project(z) for z in points.values()]
        operators = self.operators(projected) or [None] * len(projected)
        return {name: self._output(name, z, g) for name, z, g in zip(points, projected, operators, strict=True)}

    def project(self, z: Tree) -> Tree:
        """The point of the domain nearest to z, in float64."""
        return _project(self.problem, tree.cast(z, jnp.float64))

    def polished(self, average: Output, steps: Any) -> Output:
        """The best certificate among composite steps P_eta(grad ell(z) - eta g(z)) from an output, with the exact g."""
        if average.operator is None:
            return dataclasses.replace(average, name="polished")
        candidates = _polish(self.problem, average.z, average.operator, jnp.asarray(steps, jnp.float64))
        points = [
            _project(self.problem, jax.tree.map(lambda leaf, i=i: leaf[i], candidates)) for i in range(len(steps))
        ]
        outputs = []
        for z, g in zip(points, self.operators(points) or (), strict=False):
            with suppress(FloatingPointError):  # a step may leave the region where the operator is finite
                outputs.append(self._output("polished", z, g))
        if not outputs:
            return dataclasses.replace(average, name="polished")
        return min(outputs, key=lambda output: np.inf if output.gap is None else output.gap)

    def _output(self, name: str, z: Tree, g: Tree) -> Output:
        certificate = Certificate(None, None, self.reason or UNANSWERED)
        if g is not None and not self.reason:
            measured, estimated = _measure(self.problem, z, g)
            # Operators from elsewhere were summed there, in a way that nobody here can bound.
            certificate = certificate_of(measured, estimated or self.elsewhere)
            if certificate.gap == np.inf:  # a projection that left the domain: nothing is claimed of it
                certificate = Certificate(None, None, certificate.reason)
        point, operator = (jax.tree.map(np.asarray, leaf) for leaf in (z, g))
        status = status_of(certificate.gap, self.tol)
        violation = largest_violation(self.problem, operator)
        structure = structure_of(self.problem, point)
        return Output(name, point, operator, certificate, *structure, status, violation=violation)


@eqx.filter_jit
def _project(problem: AbstractProblem, z: Tree) -> Tree:
    return problem.geometry.project(z)


@eqx.filter_jit
def _operator(problem: AbstractProblem, z: Tree) -> Tree:
    return problem.operator(z)


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
