"""Limits on losses: their Lagrangian, by how much a point violates them, and whether any point meets them."""

import warnings
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..certificates.certificate import Certificate
from ..certificates.rounding import UNSEEN, Majorized
from ..geometry import EntropicSimplex, Euclidean, Product
from ..precision import double
from ..regularizers.fenchel import UNIT
from ..tree import Saddle, Tree, cast_like
from ..validation import short
from .active import TOLERANCE, domain_of
from .base import AbstractProblem
from .families import Family
from .general import Problem
from .known import Floor, Smooth, norm_of_blocks, with_floor, with_smoothness
from .scores import ScoreSum, linear_rows, linear_score, scored


class Lagrangian(Majorized, Smooth):
    """(share_0 + <lam, shares>) loss(<w, row> + b, label) - <lam, limits>; share_g is n / n_g in group g, else 0."""

    family: Family
    limits: Any
    feasible: bool = eqx.field(static=True)
    """Whether some model of the domain is known to meet all limits."""

    def __call__(self, x: Tree, y: Tree, example: Tree) -> Array:
        lam, shares = y["multipliers"], example["shares"]
        loss = self.family.loss(linear_score(x, example["row"]), example["target"])
        return (shares[0] + jnp.vdot(shares[1:], lam)) * loss - jnp.vdot(lam, cast_like(self.limits, lam))

    def majorant(self, x: Tree, y: Tree, example: Tree) -> Array:
        """The same of the size of the loss, with a plus."""
        lam, shares = y["multipliers"], example["shares"]
        size = self.family.size(linear_score(x, abs(example["row"])), example["target"])
        return (shares[0] + jnp.vdot(shares[1:], lam)) * size + jnp.vdot(lam, cast_like(self.limits, lam))

    def jacobian_bound(self, examples: Tree, problem: Any) -> float:
        """Of the blocks xx, at the largest multipliers, and xy, its columns added by their squares."""
        shares, sets = examples["shares"] / len(examples["shares"]), problem.geometry.parts
        rows, most = scored(examples, problem), sets.y["multipliers"].regularizer.upper
        curved = rows.largest_second(self.family, shares[:, 0] + shares[:, 1:] @ most)
        crossed = float(np.linalg.norm((rows.steepest(self.family) * rows.rows.norms()) @ shares[:, 1:]))
        return norm_of_blocks(curved, crossed)

    def score_sum(self, examples: Tree, like: Any) -> ScoreSum:
        """share_0 and the multipliers' shares of each row; limits are taken off."""
        shares = np.asarray(examples["shares"], float) / len(examples["shares"])
        rows, level = linear_rows(examples["row"], like.x, len(shares)), -np.asarray(self.limits, float)
        return ScoreSum(rows, self.family, np.asarray(examples["target"]), shares[:, 0], shares[:, 1:], level)


class Excess(Majorized):
    """<lam, shares> loss(<w, row> + b, label) - <lam, limits>: a Lagrangian without its objective."""

    whole: Lagrangian

    def __call__(self, x: Tree, y: Tree, example: Tree) -> Array:
        return self.whole(x, y, _without_objective(example))

    def majorant(self, x: Tree, y: Tree, example: Tree) -> Array:
        """That of the Lagrangian, without its objective."""
        return self.whole.majorant(x, y, _without_objective(example))

    def score_sum(self, examples: Tree, like: Any) -> ScoreSum:
        """The Lagrangian's, without share_0."""
        found = self.whole.score_sum(examples, like)
        return found._replace(fixed=np.zeros_like(found.fixed))


def _without_objective(example: Tree) -> Tree:
    return {**example, "shares": jnp.asarray(example["shares"]).at[0].set(0)}


def phase_one(problem: AbstractProblem) -> Problem | None:
    """min_x max_g (loss_g(x) - limit_g) = min_x max_{lam on the simplex} sum_g lam_g (loss_g(x) - limit_g).

    problem: one made by `constrained`. Data, clients and the domain of x are its own, and there is no penalty, so that
        the value is the least violation in this domain: above 0, no model of the domain meets all limits.
    Returns None for a problem without limits. Losses are >= 0, so at the vertex lam of the least limit f is at least
    -limit, which is its floor (lowered by UNIT for each client and some more: weights sum to 1 up to rounding).
    """
    if not isinstance(problem, Problem) or (f := lagrangian_of(problem)) is None:
        return None
    sets = {name: Euclidean(domain_of(part.regularizer)) for name, part in problem.geometry.parts.x.items()}
    geometry = Product(Saddle(sets, {"multipliers": EntropicSimplex()}))
    found = eqx.tree_at(lambda p: (p.f, p.geometry), with_smoothness(problem, None), (Excess(f), geometry))
    limits = np.asarray(f.limits, np.float64)
    vertex = np.where(np.arange(limits.size) == np.argmin(limits), 1.0, 0.0)
    least = -limits.min() * (1 + (problem.weights.size + 32) * UNIT)
    return with_floor(found, Floor({"multipliers": vertex}, np.asarray(least), each=True))


def lower_bound(certificate: Certificate, g: Saddle) -> float:
    """A certified lower bound on the value of `phase_one`, from its exact operator and certificate at any (x, lam).

    f is linear in lam and convex in x, so for every x' of the domain max_g (loss_g(x') - limit_g) >= f(x', lam)
    >= f(x, lam) + <g_x, x' - x> >= max(-g_y) - (x part + y part of the certificate), where f(x, lam) = -<g_y, lam>.
    """
    # The error of max(-g_y) is at most what the certificate's rounding holds for g_y; so it is counted once more.
    gap = np.inf if certificate.gap is None else certificate.gap
    return float(np.max(excess(g))) - gap - certificate.rounding


def is_doubtful(problem: AbstractProblem) -> bool:
    """Whether the problem has limits, and no model is known that meets all of them."""
    f = lagrangian_of(problem)
    return f is not None and not f.feasible


def lagrangian_of(problem: AbstractProblem) -> Lagrangian | None:
    """The loss of a problem with limits; None of one without."""
    return problem.f if isinstance(problem, Problem) and isinstance(problem.f, Lagrangian) else None


def largest_violation(problem: AbstractProblem, g: Saddle | None, error: Any = None) -> float | None:
    """max_g loss_g(x) - limit_g from the exact operator at (x, lam); None without limits, or without the operator.

    error: how far each entry of g in y may be from the exact one, which is added; where nobody knows, an estimate.
    """
    if g is None or (f := lagrangian_of(problem)) is None:
        return None
    above = excess(g)
    if error is None:
        error = UNSEEN * UNIT * (np.abs(above) + 2 * np.abs(np.asarray(f.limits, float)))
    return float(np.max(above + error))


def excess(g: Saddle) -> NDArray[Any]:
    """loss_g(x) - limit_g of each limited group, from the exact operator at any (x, lam)."""
    return -np.asarray(g.y["multipliers"])


def violation(problem: AbstractProblem, z: Saddle) -> NDArray[Any]:
    """loss_g(x) - limit_g of each limited group, in sorted order: above 0 where the constraint is violated.

    Warns if a multiplier of z is at its bound: the limits are suspected to be infeasible.

    problem, z: a problem with limits, and a point.
    """
    if lagrangian_of(problem) is None:
        raise TypeError(f"violation is for a problem made by fx.problems.constrained, got {short(problem)}")
    with double():
        z = problem.validate_point(z)
        above = excess(problem.operator(z))
    lam, bound = np.asarray(z.y["multipliers"]), problem.geometry.parts.y["multipliers"].regularizer.upper
    stuck = np.flatnonzero((lam >= (1 - TOLERANCE) * bound) & (bound > 0))
    if stuck.size:
        warnings.warn(
            f"{stuck.size} of {lam.size} multipliers are at their bound (the first is number {stuck[0]}, "
            f"{lam[stuck[0]]:.4g}): the limits are suspected to be infeasible, or multiplier= to be too small",
            stacklevel=2,
        )
    return above
