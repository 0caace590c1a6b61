"""How little the limits of a problem can be violated: a bound from above and a certified one from below."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.sparse.linalg import cg
from jax.scipy.special import logsumexp
from jaxtyping import Array

from .. import tree
from ..geometry import Product
from ..precision import double
from ..problems import AbstractProblem
from ..problems.feasibility import excess, lower_bound, phase_one
from ..tree import Saddle, Tree
from ..validation import short

STAGES, STEPS, PRODUCTS = 8, 30, 100
"""Values of mu, Newton steps for each, and products with a Hessian for each step, at most."""

CLOSE = 0.9
"""A lower bound that is this share of the upper one says enough."""

SMALLEST = 1e-12
"""The smallest share of a Newton step that is tried."""


class LeastViolation(NamedTuple):
    """Bounds on min_x max_g (loss_g(x) - limit_g) over the domain of a problem with limits."""

    lower: float
    """Certified: no model of the domain violates less. Above 0, the limits are infeasible in this domain."""
    upper: float
    """The violation of a model that was found. At most 0, that model meets the limits."""


def least_violation(problem: AbstractProblem) -> LeastViolation:
    """Bounds on the least violation, until the sign is known to be <= 0, or known to within 10%, or 8 stages are over.

    problem: one made by `fx.problems.constrained`. With e_g(x) = loss_g(x) - limit_g and u = (x - c) / r, block by block,
    c the point of the domain nearest to 0 and r half the domain's diameter, each stage minimizes

        F(u) = mu log sum_g exp(e_g(x) / mu) + eps/2 ||u||^2

    by Newton's method with conjugate gradients. At the minimum lam = softmax(e(x) / mu) has the slope -eps u / r in x, so
    that `phase_one` has at (x, lam) a certificate of at most mu log(groups) + eps ||u|| (sqrt(blocks) - ||u||) if x is inside
    and ||u|| small. mu falls by the stage; eps falls until x leaves the domain, then it is halved in on the domain's own
    multiplier. The bounds come from the certificate at (x, lam), projected: they hold however these were found.
    """
    phase = phase_one(problem)
    if phase is None:
        raise TypeError(f"least_violation is for a problem made by fx.problems.constrained, got {short(problem)}")
    with double():
        exact = tree.cast_module(phase, jnp.float64)
        u = jax.tree.map(jnp.zeros_like, phase.admit(phase.like).x)
        at_center = np.asarray(_excesses(exact, u))
        lower, upper = -np.inf, float(at_center.max())
        eps, inside, outside = upper, np.inf, 0.0
        for stage in range(1, STAGES + 1):
            if upper <= 0 or lower >= CLOSE * upper:
                break
            mu = float(at_center.max()) * 0.1**stage / max(1.0, np.log(at_center.size))
            u, lam = _minimum(exact, u, jnp.asarray(mu), jnp.asarray(eps))
            x = _placed(exact, u)
            try:
                z, certificate = phase.certify(Saddle(x, {"multipliers": lam}))
            except FloatingPointError:  # what was found before the numbers broke down still holds
                break
            g = exact.operator(phase.admit(z))
            lower, upper = max(lower, lower_bound(certificate, g)), min(upper, float(np.max(excess(g))))
            if Product(exact.geometry.parts.x).violation(x) > 0:
                outside, eps = eps, min(10 * eps, np.sqrt(eps * inside))
            else:
                inside, eps = eps, max(eps / 10, np.sqrt(eps * outside))
    return LeastViolation(lower, upper)


def _placed(problem: AbstractProblem, u: Tree) -> Tree:
    """x = c + r u."""
    parts, center = problem.geometry.parts.x, Product(problem.geometry.parts.x).project(tree.scale(0.0, u))
    return {name: center[name] + parts[name].diameter(u[name]) / 2 * u[name] for name in u}


def _excesses(problem: AbstractProblem, u: Tree) -> Array:
    """e at x = c + r u."""
    lam = jnp.zeros(problem.like.y["multipliers"].shape)
    return -problem.operator(Saddle(_placed(problem, u), {"multipliers": lam})).y["multipliers"]


@eqx.filter_jit
def _minimum(problem: AbstractProblem, u: Tree, mu: Any, eps: Any) -> tuple[Tree, Array]:
    """The minimum of F from u on, to within a slope of mu / 10, and softmax(e / mu) there."""

    def F(u: Tree) -> Array:
        return mu * logsumexp(_excesses(problem, u) / mu) + eps / 2 * tree.dot(u, u)

    slope = jax.grad(F)

    def unfinished(carry: tuple[Any, Tree, Tree, Any]) -> Array:
        steps, _, g, share = carry
        return (steps < STEPS) & (tree.dot(g, g) > (mu / 10) ** 2) & (share > SMALLEST)

    def newton(carry: tuple[Any, Tree, Tree, Any]) -> tuple[Any, Tree, Tree, Any]:
        steps, u, g, _ = carry
        _, product = jax.linearize(slope, u)
        direction, _ = cg(product, tree.scale(-1.0, g), tol=1e-2, maxiter=PRODUCTS)
        here, fall = F(u), tree.dot(g, direction)

        def moved(share: Any) -> Tree:
            return tree.add(u, tree.scale(share, direction))

        def too_far(share: Any) -> Array:
            return ~(F(moved(share)) <= here + 1e-4 * share * fall) & (share > SMALLEST)

        share = jax.lax.while_loop(too_far, lambda share: share / 2, jnp.asarray(1.0))
        following = tree.where(share > SMALLEST, moved(share), u)
        return steps + 1, following, slope(following), share

    _, u, _, _ = jax.lax.while_loop(unfinished, newton, (0, u, slope(u), jnp.asarray(1.0)))
    return u, jax.nn.softmax(_excesses(problem, u) / mu)
