"""The points a run can return, each projected, certified, and with its density or rank."""

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
from ..regularizers import for_reports, is_spectral
from ..tree import Saddle, Tree

NONZERO = 1e-5
"""Entries and singular values up to this size count as zero, as in the paper."""


@dataclass(frozen=True)
class Output:
    """A point of the domain in float64, its certificate, and its structure."""

    name: str
    z: Saddle
    certificate: Certificate
    density: float | None
    """The share of nonzero entries in all blocks that are not spectral; None if there is no such block."""
    rank: tuple[int, ...] | None
    """The ranks of the spectral blocks; None if there is none."""

    @property
    def gap(self) -> float | None:
        """The certified bound on the duality gap."""
        return self.certificate.gap

    @property
    def structure(self) -> float:
        """Density plus total rank: what is compared when several outputs are good enough."""
        return (self.density or 0.0) + sum(self.rank or ())


class Evaluator:
    """Certificates of a problem, compiled once; call within `double()`."""

    def __init__(self, problem: AbstractProblem):
        exact = eqx.tree_at(lambda p: p.geometry, problem, for_reports(problem.geometry))
        self.problem = tree.cast_module(exact, jnp.float64)
        self.reason = problem.why_uncertifiable()

    def output(self, name: str, z: Tree) -> Output:
        """z projected onto the domain, with certificate and structure."""
        projected, x, y = _certified(self.problem, tree.cast(z, jnp.float64))
        if not np.isfinite(float(x) + float(y)) and not self.reason:
            raise FloatingPointError(f"the certificate of the output {name!r} is not finite")
        certificate = Certificate(None, None, self.reason) if self.reason else Certificate(float(x), float(y))
        point = jax.tree.map(np.asarray, projected)
        return Output(name, point, certificate, *structure_of(self.problem, point))

    def polished(self, z: Tree, steps: Any) -> Output:
        """The best certificate among composite steps P_eta(grad ell(z) - eta g(z)) from z, with the exact g."""
        candidates = _polish(self.problem, tree.cast(z, jnp.float64), jnp.asarray(steps, jnp.float64))
        outputs = []
        for i in range(len(steps)):
            with suppress(FloatingPointError):  # a step may leave the region where the operator is finite
                outputs.append(self.output("polished", jax.tree.map(lambda leaf, i=i: leaf[i], candidates)))
        if not outputs:
            return self.output("polished", z)
        return min(outputs, key=lambda output: np.inf if output.gap is None else output.gap)


@eqx.filter_jit
def _certified(problem: AbstractProblem, z: Tree) -> tuple[Tree, Any, Any]:
    projected = problem.geometry.project(z)
    parts = problem.geometry.fenchel_gaps(projected, problem.operator(projected))
    return projected, tree.total(parts.x), tree.total(parts.y)


@eqx.filter_jit
def _polish(problem: AbstractProblem, z: Tree, steps: Any) -> Tree:
    geometry = problem.geometry
    z = geometry.project(z)
    g, center = problem.operator(z), geometry.dual(z)
    return jax.lax.map(lambda eta: geometry.primal(center.descend(eta, g)), steps)


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
